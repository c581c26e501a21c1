//! The pace of statuses: each status is written at most every two seconds, and less often if planning it
//! takes long. No status is written before the API server has answered about the status's object.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::time::Instant;

use super::{Again, context::Context};
use crate::{
    model::{Authority, SpecVersion},
    plan::Key,
};

/// How long a status waits for further news of its object.
pub(super) const STATUS_AFTER: Duration = Duration::from_millis(200);
const AT_MOST_EVERY: Duration = Duration::from_secs(2);
/// Pause after planning a status, in multiples of the time that planning took. A fan-out requests the status
/// at each slot, and planning the status plans all of these slots.
const REST: u32 = 20;
/// The longest pause after planning a status.
const LONGEST_REST: Duration = Duration::from_secs(10);
/// Interval of checks whether the API server has answered about an object.
const FOR_AN_ANSWER: Duration = Duration::from_millis(200);

/// The time until which each status waits.
pub(super) struct StatusPace {
    context: Context,
    until: Mutex<HashMap<Key, Instant>>,
}

impl StatusPace {
    pub(super) fn new(context: Context) -> Self {
        Self { context, until: Mutex::default() }
    }

    /// Notes that something was reported about this key, so that its next status waits.
    pub(super) fn told(&self, key: &Key) {
        self.wait(key, AT_MOST_EVERY);
    }

    /// Notes how long planning the status of this key took.
    pub(super) fn planned(&self, key: &Key, took: Duration) {
        self.wait(key, took.saturating_mul(REST).min(LONGEST_REST));
    }

    fn wait(&self, key: &Key, pause: Duration) {
        let until = Instant::now() + pause;
        let mut all = self.until();
        let known = all.entry(key.clone()).or_insert(until);
        *known = until.max(*known);
    }

    /// Returns how long a status has to wait: two seconds since the last write, a pause that grows with the
    /// time for planning, and until the API server has answered about its object. Without waiting for this
    /// answer, the status would say for two seconds that the rights are unknown, although copies exist.
    pub(super) fn too_soon(&self, key: &Key) -> Option<Duration> {
        let is_told =
            matches!(key, Key::RuleStatus(_) | Key::MonitorStatus(_) | Key::Policy(_) | Key::SourceIndex);
        if !is_told {
            return None;
        }
        if self.unanswered(key).is_some_and(|asking| self.context.queue().is_at(&asking)) {
            return Some(FOR_AN_ANSWER);
        }
        let wait = self.until().get(key)?.saturating_duration_since(Instant::now());
        (!wait.is_zero()).then_some(wait)
    }

    /// The key that asks for the rights of a status's object, while the answer is not known.
    fn unanswered(&self, key: &Key) -> Option<Key> {
        let world = self.context.world();
        match key {
            Key::RuleStatus(of) => {
                let version = world.declaration(of)?.version();
                is_unanswered(version, world.rule_authority(of)).then(|| Key::Rule(of.clone()))
            }
            Key::MonitorStatus(of) => {
                let version = world.monitors().get(of)?.version();
                is_unanswered(version, world.monitor_authority(of)).then(|| Key::Monitor(of.clone()))
            }
            _ => None,
        }
    }

    /// Forgets a key whose object is gone.
    pub(super) fn forget(&self, key: &Key) -> Again {
        self.until().remove(key);
        Again::OnChange
    }

    fn until(&self) -> MutexGuard<'_, HashMap<Key, Instant>> {
        self.until.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn is_unanswered(version: SpecVersion<'_>, known: Option<&Authority>) -> bool {
    !known.is_some_and(|known| *known.uid == *version.uid && known.generation == version.generation)
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, RwLock};

    use super::*;
    use crate::{model::World, names::Declarer, reconcile::Queue};

    #[tokio::test(start_paused = true)]
    async fn a_status_that_takes_long_to_plan_is_planned_seldom() {
        let queue = Arc::new(Queue::default());
        let pace = StatusPace::new(Context::new(Arc::new(RwLock::new(World::default())), queue));
        let [small, large] = ["small", "large"].map(|name| Key::RuleStatus(Declarer::rule("home", name)));
        pace.planned(&small, Duration::ZERO);
        pace.planned(&large, Duration::from_millis(100));
        assert_eq!((pace.too_soon(&small), pace.too_soon(&large)), (None, Some(Duration::from_secs(2))));
        pace.planned(&large, Duration::from_secs(60));
        assert_eq!(pace.too_soon(&large), Some(LONGEST_REST));
        pace.told(&small);
        assert_eq!(pace.too_soon(&small), Some(AT_MOST_EVERY));
        tokio::time::advance(LONGEST_REST).await;
        assert_eq!((pace.too_soon(&small), pace.too_soon(&large)), (None, None));
    }
}
