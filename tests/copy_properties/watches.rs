//! The watches as they really are: each kind has its own, none waits for another, one that is cut begins with a list,
//! and a list may be cut too. What they bring goes through the code that takes it in, not through a model of it.

use std::{
    collections::{BTreeSet, VecDeque},
    sync::{Arc, Mutex, RwLock},
};

use copyrator::{
    api::{CopyratorRule, DataKind},
    decoded::Decoded,
    intake::{
        AsWritten,
        object::Slim,
        selection::{Everywhere, OfCopies, OfDeclaring},
        watched::Watched,
    },
    marks,
    model::{DATA_KINDS, DataNeed, DataWatch, OurLabel, Store, World},
    names::{Declarer, Kind},
    plan::{Changed, Key, everything, listed_anew, needed},
    testing::{Intake, Listed, Observer, Requests},
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
/// What is no longer needed is no longer watched.
const LEFT: usize = 2;
/// Seldom, since nothing is unknown then: all namespaces are watched, for ConfigMaps or Secrets.
const WIDENED: [usize; 2] = [3, 4];

pub struct Watches {
    observer: Observer,
    told: Arc<Told>,
    streams: Vec<Stream>,
    troubles: usize,
}

/// What a watch is of.
#[derive(Clone, PartialEq)]
enum Of {
    Namespaces,
    Rules,
    Data(DataWatch),
}

/// One watch.
struct Stream {
    of: Of,
    intake: Box<dyn Take>,
    /// What is left to come of a list that has begun, as it was when it began.
    list: Option<VecDeque<Value>>,
    /// What has changed since.
    log: VecDeque<(Changed, Option<Value>)>,
}

impl Watches {
    /// Of a process that knows nothing yet: every list has just begun.
    pub fn begin(server: &mut Server, world: &mut World) -> Self {
        let told = Arc::new(Told::default());
        let observer = Observer {
            world: Arc::new(RwLock::new(World::default())),
            requests: told.clone(),
            events: Default::default(),
            templates: Default::default(),
        };
        let mut watches = Self { observer, told, streams: Vec::new(), troubles: TROUBLES };
        server.log.clear();
        watches.start(server, Of::Namespaces);
        watches.start(server, Of::Rules);
        match world.data_scope() {
            None => DATA_KINDS.iter().for_each(|kind| watches.start(server, Of::Data(DataWatch::All(*kind)))),
            Some(_) => watches.on(world, |watches| watches.follow(server)),
        }
        watches
    }

    /// Does something to this world.
    fn on<T>(&mut self, world: &mut World, does: impl FnOnce(&mut Self) -> T) -> T {
        std::mem::swap(world, &mut self.observer.world.write().unwrap());
        let done = does(self);
        std::mem::swap(world, &mut self.observer.world.write().unwrap());
        done
    }

    pub fn has_news(&self, server: &Server) -> bool {
        !server.log.is_empty() || self.streams.iter().any(Stream::has_news)
    }

    /// One more event, of any watch; the keys that it asks to be looked at.
    pub fn tell(&mut self, server: &mut Server, world: &mut World, dice: usize) -> BTreeSet<Key> {
        for (changed, state) in server.log.drain(..) {
            for stream in self.streams.iter_mut().filter(|stream| stream.of.has(&changed)) {
                let state = state.clone().filter(|state| stream.of.shows(state));
                stream.log.push_back((changed.clone(), state));
            }
        }
        let busy: Vec<usize> = (0..self.streams.len()).filter(|at| self.streams[*at].has_news()).collect();
        let Some(watch) = busy.get(dice / 8 % busy.len().max(1)).copied() else { return BTreeSet::new() };
        let trouble = if self.troubles > 0 { dice % 8 } else { usize::MAX };
        let is_scoped = world.data_scope().is_some();
        let leaves = is_scoped && trouble == LEFT;
        let widened = WIDENED.iter().position(|it| is_scoped && self.troubles > 0 && dice == *it);
        if [CUT, DOUBLED].contains(&trouble) || leaves || widened.is_some() {
            self.troubles -= 1;
        }
        // In the end nothing is watched that is not needed.
        let is_last = is_scoped && trouble <= LEFT && self.troubles == 0;
        self.on(world, |watches| match widened {
            Some(at) => watches.widen(server, DATA_KINDS[at]),
            None if leaves || is_last => watches.leave(server),
            None => watches.tell_one(server, watch, trouble),
        });
        let mut keys = std::mem::take(&mut *self.told.keys.lock().unwrap());
        for listed in std::mem::take(&mut *self.told.complete.lock().unwrap()) {
            keys.extend(match listed {
                None => everything(world),
                Some(Listed { store, place }) => listed_anew(world, store, place.as_deref()),
            });
        }
        keys
    }

    fn tell_one(&mut self, server: &mut Server, watch: usize, trouble: usize) {
        if trouble == CUT {
            // A watch of rules that fails leaves doubt about them until they are listed again.
            if self.streams[watch].of == Of::Rules {
                self.observer.world.write().unwrap().begin_doubt(Store::CopyratorRules, None);
            }
            self.streams[watch].cut(server);
        }
        let Stream { intake, list, log, .. } = &mut self.streams[watch];
        match list.as_mut().map(VecDeque::pop_front) {
            Some(Some(object)) => intake.take(Word::Listed(object)),
            Some(None) => {
                *list = None;
                intake.take(Word::Done);
            }
            None => {
                if let Some((changed, state)) = log.pop_front() {
                    for _ in 0..if trouble == DOUBLED { 2 } else { 1 } {
                        intake.take(state.clone().map_or_else(|| Word::Gone(&changed), Word::Changed));
                    }
                }
            }
        }
        self.follow(server);
    }

    fn start(&mut self, server: &mut Server, of: Of) {
        let intake = of.intake(&self.observer);
        let mut stream = Stream { of, intake, list: None, log: VecDeque::new() };
        stream.cut(server);
        self.streams.push(stream);
    }

    /// As `observe/data_watches.rs` does.
    fn follow(&mut self, server: &mut Server) {
        let wanted = self.observer.world.read().unwrap().data_scope().map(|scope| scope.watches().clone());
        let Some(wanted) = wanted else { return };
        self.end(|watch| !wanted.contains(watch));
        for watch in wanted {
            let of = Of::Data(watch);
            if self.streams.iter().all(|stream| stream.of != of) {
                self.start(server, of);
            }
        }
    }

    /// As it does, too.
    fn leave(&mut self, server: &mut Server) {
        let world = self.observer.world.clone();
        let superfluous = {
            let world = world.read().unwrap();
            world.data_scope().unwrap().superfluous(&needed(&world))
        };
        self.end(|watch| superfluous.contains(watch));
        self.observer.leave(&superfluous);
        self.follow(server);
    }

    /// Something comes to need all of a kind.
    fn widen(&mut self, server: &mut Server, kind: DataKind) {
        let mut all = DataNeed::default();
        all.add_all(kind);
        self.observer.world.write().unwrap().widen_data(&all);
        self.follow(server);
    }

    fn end(&mut self, is_over: impl Fn(&DataWatch) -> bool) {
        self.streams.retain(|stream| match &stream.of {
            Of::Data(watch) => !is_over(watch),
            Of::Namespaces | Of::Rules => true,
        });
    }
}

impl Stream {
    fn has_news(&self) -> bool {
        self.list.is_some() || !self.log.is_empty()
    }

    /// What the watch had still to tell is missed; it begins anew with a list of what is there now.
    fn cut(&mut self, server: &mut Server) {
        self.log.clear();
        let there = server.all().into_iter().filter(|changed| self.of.has(changed));
        let there = there.filter_map(|changed| server.state(&changed));
        self.list = Some(there.filter(|state| self.of.shows(state)).collect());
        self.intake.take(Word::Begun);
    }
}

impl Of {
    /// Whether the watch tells of it.
    fn has(&self, changed: &Changed) -> bool {
        match (self, changed) {
            (Self::Namespaces, Changed::Namespace(_)) | (Self::Rules, Changed::Rule(_)) => true,
            (Self::Data(watch), Changed::Object(key)) => match watch {
                DataWatch::All(kind) | DataWatch::Labelled(kind, _) => key.kind == Kind::from(*kind),
                DataWatch::Namespace(kind, name) => key.kind == Kind::from(*kind) && key.namespace == *name,
            },
            _ => false,
        }
    }

    /// Whether its selector selects an object. One that it selects no more is told as deleted.
    fn shows(&self, state: &Value) -> bool {
        let label = |key: &str| state["metadata"]["labels"].get(key).and_then(Value::as_str);
        match self {
            Self::Data(DataWatch::Labelled(_, OurLabel::Copy)) => {
                label(marks::MANAGED_BY) == Some(marks::MANAGED_BY_VALUE)
                    && label(marks::RULE_LABEL).is_some()
            }
            Self::Data(DataWatch::Labelled(_, OurLabel::Declares)) => label(marks::DECLARES).is_some(),
            _ => true,
        }
    }

    fn intake(&self, observer: &Observer) -> Box<dyn Take> {
        fn intake<W: Watched>(observer: &Observer, place: Option<&Arc<str>>) -> Box<dyn Take> {
            Box::new(Intake::<W>::within(observer.clone(), place.cloned()))
        }
        let (watch, place) = match self {
            Self::Namespaces => return intake::<Namespace>(observer, None),
            Self::Rules => return intake::<AsWritten<CopyratorRule>>(observer, None),
            Self::Data(DataWatch::Namespace(kind, name)) => (DataWatch::All(*kind), Some(name)),
            Self::Data(watch) => (watch.clone(), None),
        };
        let is_everywhere = place.is_none();
        match watch {
            DataWatch::Labelled(DataKind::ConfigMap, OurLabel::Copy) => {
                intake::<Slim<ConfigMap, OfCopies>>(observer, None)
            }
            DataWatch::Labelled(DataKind::ConfigMap, OurLabel::Declares) => {
                intake::<Slim<ConfigMap, OfDeclaring>>(observer, None)
            }
            DataWatch::Labelled(DataKind::Secret, OurLabel::Copy) => {
                intake::<Slim<Secret, OfCopies>>(observer, None)
            }
            DataWatch::Labelled(DataKind::Secret, OurLabel::Declares) => {
                intake::<Slim<Secret, OfDeclaring>>(observer, None)
            }
            DataWatch::All(DataKind::ConfigMap) if is_everywhere => {
                intake::<Slim<ConfigMap, Everywhere>>(observer, None)
            }
            DataWatch::All(DataKind::Secret) if is_everywhere => {
                intake::<Slim<Secret, Everywhere>>(observer, None)
            }
            DataWatch::All(DataKind::ConfigMap) | DataWatch::Namespace(DataKind::ConfigMap, _) => {
                intake::<Slim<ConfigMap>>(observer, place)
            }
            DataWatch::All(DataKind::Secret) | DataWatch::Namespace(DataKind::Secret, _) => {
                intake::<Slim<Secret>>(observer, place)
            }
        }
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
        let read = |object| serde_json::from_value::<Decoded<W>>(object).unwrap();
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
        Changed::Rule(Declarer::Rule(rule)) => {
            json!({"metadata": {"namespace": &*rule.namespace, "name": &*rule.name}})
        }
        other => panic!("{other:?} is not modelled"),
    }
}

/// What has been asked for.
#[derive(Default)]
struct Told {
    keys: Mutex<BTreeSet<Key>>,
    complete: Mutex<Vec<Option<Listed>>>,
}

impl Requests for Told {
    fn request(&self, _: &Changed, keys: BTreeSet<Key>) {
        self.keys.lock().unwrap().extend(keys);
    }

    fn complete(&self, listed: Option<Listed>) {
        self.complete.lock().unwrap().push(listed);
    }
}
