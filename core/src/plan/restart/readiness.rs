//! Whether a workload is due, for the workloads that come after this one in line.

use jiff::Timestamp;

use super::{
    applied::RecordDiff,
    case::Case,
    line::{Lines, Readiness},
    own_gates,
    state::RestartState,
    window,
};
use crate::{
    model::{RestartResult, WaitReason, World},
    names::WorkloadKey,
};

/// Whether a workload is due, and whether only its turn and windows delay it.
pub(super) fn readiness(world: &World, key: &WorkloadKey, now: Timestamp) -> Readiness {
    let lines = Lines::default();
    let case = match Case::of(world, &lines, key, now) {
        Ok(case) => case,
        Err(plan) if matches!(plan.state, RestartState::Waiting(_)) => return Readiness::Unknown,
        Err(_) => return Readiness::No,
    };
    let Some(RecordDiff::Content(since)) = case.difference() else { return Readiness::No };
    let known = world.memory().workload(key).restarted();
    if known.is_some_and(|known| {
        known.content == case.content.digest && matches!(known.result, RestartResult::Failed(_))
    }) {
        return Readiness::Failed;
    }
    if case.stopped() == Some(RestartState::OptedOut) {
        return Readiness::No;
    }
    if case.is_seen_held(since) {
        return Readiness::Left;
    }
    // Waits that begin only after the workload's turn has come, as last seen.
    let waits = [WaitReason::PodsNotReady, WaitReason::MinInterval, WaitReason::Backoff, WaitReason::Budget];
    if case.tried().is_some()
        || waits.iter().any(|reason| world.memory().workload(key).waits_since(*reason).is_some())
        || own_gates::pass(own_gates::DUE, &case, since).is_err()
    {
        return Readiness::Held;
    }
    let shut = window::shut(world, &case.inputs.monitors, since, case.facts.restarts.last_restart, now);
    Readiness::Ready(shut.into_iter().map(|(monitor, _)| monitor.clone()).collect())
}
