//! The progress of a restart after it was recorded.

use jiff::Timestamp;

use super::{
    backoff,
    state::{Failure, RestartState},
};
use crate::model::{Rollout, WorkloadFacts};

/// The state of a workload whose label shows the current content: whether its rollout is complete, too.
pub(super) fn progress(facts: &WorkloadFacts, now: Timestamp) -> RestartState {
    if !facts.restarted_by_us() {
        return RestartState::Current;
    }
    match facts.rollout_at(now) {
        Rollout::Unfinished => RestartState::Restarting,
        Rollout::Stuck if backoff::is_open(&backoff::track(facts, now)) => {
            RestartState::Failed(Failure::CircuitOpen)
        }
        Rollout::Stuck => RestartState::Failed(Failure::RolloutStuck),
        Rollout::Complete | Rollout::Paused | Rollout::OnDelete | Rollout::Partitioned(_) => {
            RestartState::Current
        }
    }
}
