//! One watch: events in, facts out, keys into the queue. No I/O but the watch itself happens here: a slow
//! consumer would be cut off by the API server (reflector#468).

use std::{
    collections::{BTreeMap, BTreeSet},
    pin::pin,
    sync::{Arc, PoisonError, RwLock},
    time::Duration,
};

use futures::StreamExt;
use jiff::Timestamp;
use kube::{
    Api,
    runtime::{WatchStreamExt, watcher},
};
use prometheus_client::metrics::counter::Counter;
use tokio_util::sync::CancellationToken;

use super::watched::Watched;
use crate::{
    model::World,
    plan::{Changed, Key, affected},
};

/// A watch is dropped and begun anew after this long, so that whatever it missed is found
/// (a watch can stay silent after an etcd restore).
const RELIST: Duration = Duration::from_secs(3600);

/// Where watches write to: the world, and whoever is told what to look at again.
#[derive(Clone)]
pub struct Observer {
    /// The world.
    pub world: Arc<RwLock<World>>,
    /// Told of keys to look at.
    pub requests: Arc<dyn Requests>,
    /// Counts what watches bring, errors too.
    pub events: Counter,
}

/// Takes keys to be looked at.
pub trait Requests: Send + Sync {
    /// Looks at these soon, because of this change.
    fn request(&self, changed: &Changed, keys: BTreeSet<Key>);
    /// Every store is complete, and one of them has just been listed: what came and went before that, unseen, is
    /// found only by looking at everything.
    fn complete(&self);
}

/// Watches one kind until told to stop.
pub async fn watch<W: Watched>(
    api: Api<W>,
    config: watcher::Config,
    observer: Observer,
    stop: CancellationToken,
) {
    while !stop.is_cancelled() {
        let relist = tokio::time::sleep(RELIST);
        tokio::select! {
            () = stop.cancelled() => return,
            () = relist => {}
            () = follow(api.clone(), config.clone(), &observer) => {}
        }
    }
}

async fn follow<W: Watched>(api: Api<W>, config: watcher::Config, observer: &Observer) {
    let mut events = pin!(watcher(api, config).default_backoff());
    let mut intake = Intake::new(observer.clone());
    // An error is an item, not the end: the stream recovers by itself (kube#1615).
    while let Some(event) = events.next().await {
        observer.events.inc();
        match event {
            Ok(event) => intake.take(event),
            Err(error) => tracing::warn!(store = ?W::STORE, %error, "watch failed; it is tried again"),
        }
    }
}

/// Takes in the events of one watch, one after the other, without waiting for anything.
pub struct Intake<W> {
    observer: Observer,
    /// A list that has begun, as far as it has come.
    listed: BTreeMap<Changed, W>,
}

impl<W: Watched> Intake<W> {
    /// Of a watch that has told nothing yet.
    pub fn new(observer: Observer) -> Self {
        Self { observer, listed: BTreeMap::new() }
    }

    /// Takes in one event.
    pub fn take(&mut self, event: watcher::Event<W>) {
        match event {
            watcher::Event::Init => self.listed.clear(),
            watcher::Event::InitApply(object) => {
                self.listed.insert(object.changed(), object);
            }
            watcher::Event::InitDone => self.observer.swap(std::mem::take(&mut self.listed)),
            watcher::Event::Apply(object) => self.observer.put(object),
            watcher::Event::Delete(object) => self.observer.forget::<W>(&object.changed()),
        }
    }
}

impl Observer {
    /// Takes one object in.
    fn put<W: Watched>(&self, object: W) {
        let changed = object.changed();
        let put = object.prepare(Timestamp::now());
        self.change(&changed, put);
    }

    /// Forgets one object.
    fn forget<W: Watched>(&self, changed: &Changed) {
        self.change(changed, |world| {
            W::forget(changed, world);
            true
        });
    }

    /// Takes in a whole list: what is not in it has gone while nobody looked (kubert's index loses such
    /// removals when a list is interrupted; here the list counts only once it is complete).
    fn swap<W: Watched>(&self, listed: BTreeMap<Changed, W>) {
        let known = W::known(&self.world.read().unwrap_or_else(PoisonError::into_inner));
        for changed in known.iter().filter(|changed| !listed.contains_key(changed)) {
            self.forget::<W>(changed);
        }
        for object in listed.into_values() {
            self.put(object);
        }
        let complete = {
            let mut world = self.world.write().unwrap_or_else(PoisonError::into_inner);
            world.complete.insert(W::STORE);
            world.is_complete()
        };
        // A copy that we made and somebody deleted while the watch was cut is neither in the list nor known.
        if complete {
            self.requests.complete();
        }
    }

    /// Makes one change, and asks on both sides of it what must be looked at again.
    fn change(&self, changed: &Changed, make: impl FnOnce(&mut World) -> bool) {
        let mut world = self.world.write().unwrap_or_else(PoisonError::into_inner);
        if !world.is_complete() {
            make(&mut world);
            return;
        }
        let mut keys = affected(&world, changed);
        if make(&mut world) {
            keys.extend(affected(&world, changed));
            drop(world);
            self.requests.request(changed, keys);
        }
    }
}
