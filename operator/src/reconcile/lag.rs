//! The lag of copies: the time from when a change was seen until the copy was written. The lag includes the
//! brake and every failed attempt.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use prometheus_client::{metrics::histogram::Histogram, registry::Registry};
use tokio::time::Instant;

use crate::{
    dry_run::outcome::Outcome,
    names::ObjectKey,
    plan::copy::{CopyAction, SlotPlan, SlotState},
};

const SECONDS: [f64; 14] = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0];

/// The outdated copies, each with the time since when the copy is known to be outdated.
#[derive(Debug)]
pub(super) struct Lag {
    late: Mutex<HashMap<ObjectKey, Instant>>,
    seconds: Histogram,
}

impl Default for Lag {
    fn default() -> Self {
        Self { late: Mutex::default(), seconds: Histogram::new(SECONDS) }
    }
}

impl Lag {
    /// Adds the histogram to a registry.
    pub(super) fn register(&self, registry: &mut Registry) {
        let help = "Seconds from the event of a change until the copy was written";
        registry.register("copy_lag_seconds", help, self.seconds.clone());
    }

    /// Forgets all copies: a different process leads now.
    pub(super) fn clear(&self) {
        self.lock().clear();
    }

    /// Notes that a slot was planned, `waited` after its key was queued.
    pub(super) fn planned(&self, slot: &ObjectKey, plan: &SlotPlan, waited: Duration) {
        let is_late = matches!(plan.state, SlotState::Outdated | SlotState::Braked(_))
            || matches!(plan.action, Some(CopyAction::Write(_)));
        if is_late {
            let now = Instant::now();
            self.lock().entry(slot.clone()).or_insert_with(|| now.checked_sub(waited).unwrap_or(now));
        } else {
            self.lock().remove(slot);
        }
    }

    /// Notes the outcome of an action.
    pub(super) fn acted(&self, slot: &ObjectKey, action: &CopyAction, outcome: &Outcome) {
        if let (CopyAction::Write(_), Outcome::Done) = (action, outcome)
            && let Some(since) = self.lock().remove(slot)
        {
            self.seconds.observe(since.elapsed().as_secs_f64());
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<ObjectKey, Instant>> {
        self.late.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
