//! The watches as they really are: each kind has its own, none waits for another, one that is cut begins with a list,
//! and a list may be cut too. What they bring goes through the code that takes it in, not through a model of it.

use std::{
    collections::{BTreeSet, VecDeque},
    sync::{Arc, Mutex, RwLock},
};

use copyrator::{
    api::CopyratorRule,
    intake::{AsWritten, object::Slim, watched::Watched},
    model::{Store, World},
    names::Kind,
    plan::{Changed, Key, everything, listed_anew},
    testing::{Intake, Observer, Requests},
};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Secret};
use kube::runtime::watcher::Event;
use serde_json::{Value, json};

use super::copy_model::server::Server;

/// So often in one story something goes wrong with a watch; afterwards it is calm, or nothing would ever end.
const TROUBLES: usize = 24;

/// What goes wrong with watches, by the dice.
const CUT: usize = 0;
const DOUBLED: usize = 1;

pub struct Watches {
    observer: Observer,
    told: Arc<Told>,
    streams: [Stream; 4],
    troubles: usize,
}

/// One watch.
struct Stream {
    intake: Box<dyn Take>,
    /// What is left to come of a list that has begun, as it was when it began.
    list: Option<VecDeque<Value>>,
}

impl Watches {
    /// Of a process that knows nothing yet: every list has just begun.
    pub fn begin(server: &mut Server) -> Self {
        let told = Arc::new(Told::default());
        let world = Arc::new(RwLock::new(World::default()));
        let observer = Observer {
            world,
            requests: told.clone(),
            events: Default::default(),
            templates: Default::default(),
        };
        fn intake<W: Watched>(observer: &Observer) -> Stream {
            Stream { intake: Box::new(Intake::<W>::new(observer.clone())), list: None }
        }
        let streams = [
            intake::<Namespace>(&observer),
            intake::<AsWritten<CopyratorRule>>(&observer),
            intake::<Slim<ConfigMap>>(&observer),
            intake::<Slim<Secret>>(&observer),
        ];
        let mut watches = Self { observer, told, streams, troubles: TROUBLES };
        (0..watches.streams.len()).for_each(|watch| watches.cut(server, watch));
        watches
    }

    pub fn has_news(&self, server: &Server) -> bool {
        !server.log.is_empty() || self.streams.iter().any(|stream| stream.list.is_some())
    }

    /// One more event, of any watch; the keys that it asks to be looked at.
    pub fn tell(&mut self, server: &mut Server, world: &mut World, dice: usize) -> BTreeSet<Key> {
        let busy = |watch: &usize| {
            self.streams[*watch].list.is_some() || server.log.iter().any(|(it, _)| of(it) == *watch)
        };
        let busy: Vec<usize> = (0..self.streams.len()).filter(busy).collect();
        let Some(watch) = busy.get(dice / 8 % busy.len().max(1)).copied() else { return BTreeSet::new() };
        let trouble = if self.troubles > 0 { dice % 8 } else { usize::MAX };
        if [CUT, DOUBLED].contains(&trouble) {
            self.troubles -= 1;
        }
        std::mem::swap(world, &mut self.observer.world.write().unwrap());
        if trouble == CUT {
            self.cut(server, watch);
        }
        let Stream { intake, list } = &mut self.streams[watch];
        match list.as_mut().map(VecDeque::pop_front) {
            Some(Some(object)) => intake.take(Word::Listed(object)),
            Some(None) => {
                *list = None;
                intake.take(Word::Done);
            }
            None => {
                let first = server.log.iter().position(|(it, _)| of(it) == watch);
                if let Some((changed, state)) = first.and_then(|first| server.log.remove(first)) {
                    for _ in 0..if trouble == DOUBLED { 2 } else { 1 } {
                        intake.take(state.clone().map_or_else(|| Word::Gone(&changed), Word::Changed));
                    }
                }
            }
        }
        std::mem::swap(world, &mut self.observer.world.write().unwrap());
        let mut keys = std::mem::take(&mut *self.told.keys.lock().unwrap());
        for listed in std::mem::take(&mut *self.told.complete.lock().unwrap()) {
            keys.extend(listed.map_or_else(|| everything(world), |store| listed_anew(world, store)));
        }
        keys
    }

    /// What the watch had still to tell is missed; it begins anew with a list of what is there now.
    fn cut(&mut self, server: &mut Server, watch: usize) {
        server.log.retain(|(changed, _)| of(changed) != watch);
        let there = server.all().into_iter().filter(|changed| of(changed) == watch);
        self.streams[watch].list = Some(there.filter_map(|changed| server.state(&changed)).collect());
        self.streams[watch].intake.take(Word::Begun);
    }
}

/// Which watch tells of it.
fn of(changed: &Changed) -> usize {
    match changed {
        Changed::Namespace(_) => 0,
        Changed::Rule(_) => 1,
        Changed::Object(key) if key.kind == Kind::ConfigMap => 2,
        _ => 3,
    }
}

/// What a watch says.
enum Word<'a> {
    Begun,
    Listed(Value),
    Done,
    Changed(Value),
    Gone(&'a Changed),
}

trait Take {
    fn take(&mut self, word: Word<'_>);
}

impl<W: Watched> Take for Intake<W> {
    fn take(&mut self, word: Word<'_>) {
        let read = |object| serde_json::from_value::<W>(object).unwrap();
        self.take(match word {
            Word::Begun => Event::Init,
            Word::Listed(object) => Event::InitApply(read(object)),
            Word::Done => Event::InitDone,
            Word::Changed(object) => Event::Apply(read(object)),
            Word::Gone(changed) => Event::Delete(read(name_of(changed))),
        });
    }
}

/// What went, as little of it as is looked at.
fn name_of(changed: &Changed) -> Value {
    match changed {
        Changed::Namespace(name) => json!({"metadata": {"name": &**name}}),
        Changed::Object(key) => json!({"metadata": {"namespace": &*key.namespace, "name": &*key.name}}),
        Changed::Rule(rule) => json!({"metadata": {"namespace": &*rule.namespace, "name": &*rule.name}}),
        other => panic!("{other:?} is not modelled"),
    }
}

/// What has been asked for.
#[derive(Default)]
struct Told {
    keys: Mutex<BTreeSet<Key>>,
    complete: Mutex<Vec<Option<Store>>>,
}

impl Requests for Told {
    fn request(&self, _: &Changed, keys: BTreeSet<Key>) {
        self.keys.lock().unwrap().extend(keys);
    }

    fn complete(&self, listed: Option<Store>) {
        self.complete.lock().unwrap().push(listed);
    }
}
