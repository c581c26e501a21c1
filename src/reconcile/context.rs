//! What every handler has: the world, and the queue of what is looked at next. Watches write to both, too.

use std::{
    collections::BTreeSet,
    sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard},
};

use jiff::Timestamp;
use tokio::sync::Notify;

use super::queue::{Lane, Queue, Tenant};
use crate::{
    model::World,
    observe::observer::{Listed, Requests},
    plan::{Changed, Key, everything, listed_anew},
};

/// What is known, and what is to be looked at. Clones share all of it.
#[derive(Clone, Debug)]
pub(crate) struct Context {
    world: Arc<RwLock<World>>,
    queue: Arc<Queue>,
    widened: Arc<Notify>,
}

impl Context {
    /// Reads and changes this world, and adds to this queue.
    pub(crate) fn new(world: Arc<RwLock<World>>, queue: Arc<Queue>) -> Self {
        Self { world, queue, widened: Arc::default() }
    }

    /// Told when ConfigMaps or Secrets of further namespaces are to be watched.
    pub(crate) fn widened(&self) -> Arc<Notify> {
        self.widened.clone()
    }

    /// What is known, to read. Nothing may be awaited while it is held.
    pub(super) fn world(&self) -> RwLockReadGuard<'_, World> {
        self.world.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// The same, to change.
    pub(super) fn world_mut(&self) -> RwLockWriteGuard<'_, World> {
        self.world.write().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn queue(&self) -> &Queue {
        &self.queue
    }

    /// Looks at everything: at the start of leading, when the stores have become complete, and in the sweep.
    pub(super) fn sweep(&self) {
        let keys = everything(&self.world());
        self.queue.sweep(keys);
    }
}

impl Requests for Context {
    fn request(&self, changed: &Changed, keys: BTreeSet<Key>) {
        let lane = match changed {
            Changed::Namespace(_) => Lane::NewNamespace,
            _ => Lane::Change,
        };
        for key in keys {
            self.queue.add_for(payer(&key, changed), key, lane);
        }
    }

    fn complete(&self, listed: Option<Listed>) {
        match listed {
            None => self.sweep(),
            Some(Listed { store, place }) => {
                let keys = listed_anew(&self.world(), store, place.as_deref());
                self.queue.sweep(keys);
            }
        }
        self.queue.resume();
    }

    fn widened(&self) {
        self.widened.notify_one();
    }
}

/// Who pays for a key: the namespace that declares; for copies and workloads, the namespace in which something has changed, such as their
/// source. A workload that has become ready pays for itself only, and not for the next one in line.
fn payer(key: &Key, changed: &Changed) -> Tenant {
    match (key, changed) {
        (Key::Slot(_), _) => changed.namespace().map(Arc::from),
        (Key::Workload(_), Changed::Object(_) | Changed::Monitor(_)) => changed.namespace().map(Arc::from),
        _ => key.tenant().cloned(),
    }
}

/// The wall clock; the only place of this folder that reads it.
pub(super) fn now() -> Timestamp {
    Timestamp::now()
}
