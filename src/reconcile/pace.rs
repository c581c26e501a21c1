//! How often a status is written: at most every two seconds an object, and not before its answer is there.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::time::Instant;

use super::{Again, context::Context};
use crate::{model::Authority, plan::Key};

const AT_MOST_EVERY: Duration = Duration::from_secs(2);
/// When to see whether the API server has answered what an object may do.
const FOR_AN_ANSWER: Duration = Duration::from_millis(200);

/// When each status was last written, and which waits.
pub(super) struct StatusPace {
    context: Context,
    written: Mutex<HashMap<Key, Instant>>,
}

impl StatusPace {
    pub(super) fn new(context: Context) -> Self {
        Self { context, written: Mutex::default() }
    }

    /// Something was said about this key: the next word waits.
    pub(super) fn told(&self, key: &Key) {
        self.written().insert(key.clone(), Instant::now());
    }

    /// How long a status waits: for two seconds since it was last written, and for the answer where the API
    /// server is being asked what its object may do. Else the status would say for two seconds that nobody
    /// knows, with copies there.
    pub(super) fn too_soon(&self, key: &Key) -> Option<Duration> {
        let is_told =
            matches!(key, Key::RuleStatus(_) | Key::MonitorStatus(_) | Key::Policy(_) | Key::SourceIndex);
        if !is_told {
            return None;
        }
        if self.unanswered(key).is_some_and(|asking| self.context.queue().is_at(&asking)) {
            return Some(FOR_AN_ANSWER);
        }
        let written = self.written();
        AT_MOST_EVERY.checked_sub(written.get(key)?.elapsed()).filter(|wait| !wait.is_zero())
    }

    /// The key that asks what the object of a status may do, while that is not known.
    fn unanswered(&self, key: &Key) -> Option<Key> {
        let world = self.context.world();
        match key {
            Key::RuleStatus(of) => {
                let version = world.declaration(of)?.version();
                is_unanswered(version, world.rule_authority(of)).then(|| Key::Rule(of.clone()))
            }
            Key::MonitorStatus(of) => {
                let facts = world.monitors().get(of)?;
                let version = (&*facts.uid, facts.generation);
                is_unanswered(version, world.monitor_authority(of)).then(|| Key::Monitor(of.clone()))
            }
            _ => None,
        }
    }

    /// The object is gone.
    pub(super) fn forget(&self, key: &Key) -> Again {
        self.written().remove(key);
        Again::OnChange
    }

    fn written(&self) -> MutexGuard<'_, HashMap<Key, Instant>> {
        self.written.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn is_unanswered((uid, generation): (&str, i64), known: Option<&Authority>) -> bool {
    !known.is_some_and(|known| *known.uid == *uid && known.generation == generation)
}
