//! From what watches saw to keys in the queue.

use std::{
    collections::BTreeSet,
    sync::{Arc, PoisonError, RwLock},
};

use super::queue::{Lane, Queue};
use crate::{
    model::World,
    observe::watch::Requests,
    plan::{Changed, Key, everything},
};

/// Puts keys into the queue, each in the lane that its cause deserves.
pub(crate) struct Requester {
    /// What is known.
    pub world: Arc<RwLock<World>>,
    /// Where keys go.
    pub queue: Arc<Queue>,
}

impl Requests for Requester {
    fn request(&self, changed: &Changed, keys: BTreeSet<Key>) {
        let lane = match changed {
            Changed::Namespace(_) => Lane::NewNamespace,
            _ => Lane::Change,
        };
        for key in keys {
            self.queue.add(key, lane);
        }
    }

    fn complete(&self) {
        let keys = everything(&self.world.read().unwrap_or_else(PoisonError::into_inner));
        self.queue.sweep(keys);
    }
}
