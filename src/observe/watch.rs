//! One watch: events in, facts out, keys into the queue. No I/O but the watch itself happens here: a slow
//! consumer would be cut off by the API server (reflector#468).

use std::{
    collections::BTreeSet,
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

#[cfg(test)]
mod lists;

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
    /// Every store is complete.
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
    let mut events = pin!(watcher::<W>(api, config).default_backoff());
    // What was known when a list began and has not come up in it: at its end, that is what has gone while nobody looked.
    let mut unseen = BTreeSet::new();
    // An error is an item, not the end: the stream recovers by itself (kube#1615).
    while let Some(event) = events.next().await {
        observer.take(event, &mut unseen);
    }
}

impl Observer {
    /// Takes one event in.
    fn take<W: Watched>(
        &self,
        event: Result<watcher::Event<W>, watcher::Error>,
        unseen: &mut BTreeSet<Changed>,
    ) {
        self.events.inc();
        match event {
            Ok(watcher::Event::Init) => *unseen = self.known::<W>(),
            Ok(watcher::Event::InitApply(object)) => {
                unseen.remove(&object.changed());
                self.put(object);
            }
            Ok(watcher::Event::InitDone) => self.complete::<W>(std::mem::take(unseen)),
            Ok(watcher::Event::Apply(object)) => self.put(object),
            Ok(watcher::Event::Delete(object)) => self.forget::<W>(&object.changed()),
            Err(error) => tracing::warn!(store = ?W::STORE, %error, "watch failed; it is tried again"),
        }
    }

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

    /// Every object of the kind that is known.
    fn known<W: Watched>(&self) -> BTreeSet<Changed> {
        W::known(&self.world.read().unwrap_or_else(PoisonError::into_inner)).into_iter().collect()
    }

    /// A list is through. What was not in it has gone while nobody looked (kubert's index loses such removals when a
    /// list is interrupted; here only a complete one says that something has gone).
    ///
    /// Objects were taken in as they came: to keep the whole list until here cost 20 MB with 28,000 of them (measured),
    /// most of which the heap never gave back.
    fn complete<W: Watched>(&self, unseen: BTreeSet<Changed>) {
        for changed in &unseen {
            self.forget::<W>(changed);
        }
        let completed = {
            let mut world = self.world.write().unwrap_or_else(PoisonError::into_inner);
            world.complete.insert(W::STORE) && world.is_complete()
        };
        if completed {
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
