//! The context of every handler: the world, and the queue of keys to examine next. Watches also write to the
//! world and the queue.

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

/// The world and the queue. Clones share the world and the queue.
#[derive(Clone, Debug)]
pub(crate) struct Context {
    world: Arc<RwLock<World>>,
    queue: Arc<Queue>,
    widened: Arc<Notify>,
}

impl Context {
    /// Creates a context with this world and this queue.
    pub(crate) fn new(world: Arc<RwLock<World>>, queue: Arc<Queue>) -> Self {
        Self { world, queue, widened: Arc::default() }
    }

    /// Returns the signal that ConfigMaps or Secrets of further namespaces are to be watched.
    pub(crate) fn widened(&self) -> Arc<Notify> {
        self.widened.clone()
    }

    /// Locks the world for reading. Do not await anything while the guard is held.
    pub(super) fn world(&self) -> RwLockReadGuard<'_, World> {
        self.world.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Locks the world for changes.
    pub(super) fn world_mut(&self) -> RwLockWriteGuard<'_, World> {
        self.world.write().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn queue(&self) -> &Queue {
        &self.queue
    }

    /// Queues all keys: at the start of leading, when the stores have become complete, and in the sweep.
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
    }

    fn widened(&self) {
        self.widened.notify_one();
    }
}

/// Returns the tenant that pays for a key: the namespace that declares; for copies and workloads, the
/// namespace in which something has changed, such as their source. A workload that has become ready pays only
/// for itself, not for the next workload in line.
fn payer(key: &Key, changed: &Changed) -> Tenant {
    match (key, changed) {
        (Key::Slot(_), _) => changed.namespace().map(Arc::from),
        (Key::Workload(_), Changed::Object(_) | Changed::Monitor(_)) => changed.namespace().map(Arc::from),
        _ => key.tenant().cloned(),
    }
}

/// Reads the wall clock. Only this function reads the clock in this folder.
pub(super) fn now() -> Timestamp {
    Timestamp::now()
}
