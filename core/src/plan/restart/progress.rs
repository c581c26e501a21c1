//! How a restart that was made goes on.

use jiff::Timestamp;

use super::{backoff, brake::WaitReason, workload_plan::WorkloadState};
use crate::model::{Rollout, WorkloadFacts};

/// How a workload whose label says that it is current stands: is the rollout through, too?
pub fn progress(facts: &WorkloadFacts, now: Timestamp) -> WorkloadState {
    if !facts.restarted_by_us() {
        return WorkloadState::UpToDate;
    }
    let failed = |reason, message: &str| WorkloadState::Failed { reason, message: message.into() };
    match facts.rollout_at(now) {
        Rollout::Unfinished => WorkloadState::Restarting,
        Rollout::Stuck if backoff::is_open(&backoff::track(facts, now)) => failed(
            WaitReason::CircuitOpen.as_str(),
            "has not become ready after any of its last restarts; see the events of its pods",
        ),
        Rollout::Stuck => failed(
            "RolloutStuck",
            "has not become ready in time since the restart; see the events of its pods",
        ),
        Rollout::Complete | Rollout::Paused | Rollout::OnDelete | Rollout::Partitioned(_) => {
            WorkloadState::UpToDate
        }
    }
}
