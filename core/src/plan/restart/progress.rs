//! How a restart that was made goes on.

use jiff::Timestamp;

use super::{
    backoff,
    state::{Failure, RestartState},
};
use crate::model::{Rollout, WorkloadFacts};

/// How a workload whose label says that it is current stands: is the rollout through, too?
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
