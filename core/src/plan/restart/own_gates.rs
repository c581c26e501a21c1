//! Gates for the workload's own state, in their order. These gates come before the gates in `gates.rs`.

use jiff::Timestamp;

use super::{
    backoff,
    brake::{self, Wait},
    case::Case,
    state::RestartState,
};
use crate::{
    api::StrategyType,
    model::{Rollout, WaitReason},
};

/// The verdict of a gate: open, or the workload's state while the gate is shut.
pub(super) type Verdict = Result<(), RestartState>;

/// A condition that may delay a restart.
pub(super) struct Gate<F> {
    pub(super) name: &'static str,
    /// The reasons that the gate may report while it is shut.
    pub(super) says: &'static [&'static str],
    pub(super) is_open: F,
}

impl<F> Gate<F> {
    /// Returns the verdict. The model has to name its reason.
    pub(super) fn told(&self, verdict: Verdict) -> Verdict {
        let is_named = |state: &RestartState| self.says.contains(&state.reason());
        debug_assert!(verdict.as_ref().err().is_none_or(is_named), "{} says {verdict:?}", self.name);
        verdict
    }
}

/// A gate that needs no list of pods; the time argument is the time of the change.
pub(super) type OwnGate = Gate<fn(&Case<'_>, Timestamp) -> Verdict>;

macro_rules! gate {
    ($name:ident: $($reason:ident),+) => {
        Gate { name: stringify!($name), says: &[$(stringify!($reason)),+], is_open: $name }
    };
}
pub(super) use gate;

/// Gates before the running content is adopted as current.
pub(super) const ADOPTING: &[OwnGate] =
    &[gate!(starting_without: MissingObject), gate!(nothing_there: MissingObject)];
/// Gates before a changed scope is recorded.
pub(super) const RECORDING: &[OwnGate] = &[gate!(missing: MissingObject), gate!(absent: AbsentObject)];
/// Gates before a restart begins, for the workload's own state.
pub(super) const DUE: &[OwnGate] = &[
    gate!(stopped: Paused, Suspended),
    gate!(quiet: QuietPeriod),
    gate!(missing: MissingObject),
    gate!(rolling: RolloutUnfinished),
    gate!(circuit: CircuitOpen),
    gate!(interval: MinInterval, Backoff),
];
/// Gates while pods are being replaced, before the pods are listed.
pub(super) const BEGUN: &[OwnGate] = &[gate!(stopped: Paused, Suspended)];

/// Checks the gates in order.
///
/// # Errors
/// The state that the first shut gate reports.
pub(super) fn pass(gates: &[OwnGate], case: &Case<'_>, since: Timestamp) -> Verdict {
    gates.iter().try_for_each(|gate| gate.told((gate.is_open)(case, since)))
}

/// Shut until an event ends the wait.
pub(super) fn wait(reason: WaitReason) -> Verdict {
    Err(Wait::for_event(reason).into())
}

/// Shut if the owner has paused the workload, or opted out.
fn stopped(case: &Case<'_>, _: Timestamp) -> Verdict {
    case.stopped().map_or(Ok(()), Err)
}

/// Shut while the content may still be changing.
fn quiet(case: &Case<'_>, since: Timestamp) -> Verdict {
    let unsettled = case.world.memory().workload(case.key).waits_since(WaitReason::QuietPeriod);
    Ok(brake::quiet(&case.pace, since, unsettled, case.now)?)
}

/// Shut while a required object is missing and may come back: the digest lacks its content. If the content
/// were recorded now, the object's return would look like a change, and `kubectl replace --force` would
/// restart every workload unnecessarily.
pub(super) fn missing(case: &Case<'_>, _: Timestamp) -> Verdict {
    if case.inputs.missing.is_empty() {
        return Ok(());
    }
    Ok(brake::patience(WaitReason::MissingObject, case.missing_since(), case.now)?)
}

/// Shut while an optional object is missing and may come back: if the content were recorded without the
/// object, its return would look like a change.
fn absent(case: &Case<'_>, _: Timestamp) -> Verdict {
    if case.inputs.absent.is_empty() {
        return Ok(());
    }
    Ok(brake::patience(WaitReason::AbsentObject, case.missing_since(), case.now)?)
}

/// Shut while pods still wait for a missing object: when the object appears, the pods start with its content.
/// If the workload were adopted without the object, its pods would restart as soon as the object appears
/// (External Secrets, sealed Secrets).
fn starting_without(case: &Case<'_>, _: Timestamp) -> Verdict {
    let is_rolling = matches!(case.facts.rollout, Rollout::Unfinished | Rollout::Stuck);
    let is_starting = is_rolling || (case.facts.available == 0 && case.facts.desired > 0);
    match !case.inputs.missing.is_empty() && is_starting {
        true => wait(WaitReason::MissingObject),
        false => Ok(()),
    }
}

/// Shut while no input object exists, and a missing object may come back.
fn nothing_there(case: &Case<'_>, since: Timestamp) -> Verdict {
    if case.inputs.objects.is_empty() { missing(case, since) } else { Ok(()) }
}

/// Shut while a rollout is under way, unless the rollout is known to fail: the new content may fix a failing
/// rollout.
fn rolling(case: &Case<'_>, _: Timestamp) -> Verdict {
    let is_rolling =
        case.pace.strategy == StrategyType::Rollout && case.facts.rollout_at(case.now) == Rollout::Unfinished;
    if is_rolling && !case.is_known_to_fail() { wait(WaitReason::RolloutUnfinished) } else { Ok(()) }
}

/// Shut after too many restarts in a row that did not become ready.
fn circuit(case: &Case<'_>, since: Timestamp) -> Verdict {
    let last = case.facts.restarts.last_restart;
    if case.is_nudged(since, last) {
        return Ok(());
    }
    Ok(backoff::circuit(&backoff::track(case.facts, case.now), last, case.now)?)
}

/// Shut until the interval since the last restart has passed.
fn interval(case: &Case<'_>, since: Timestamp) -> Verdict {
    let last = case.facts.restarts.last_restart;
    if case.is_nudged(since, last) {
        return Ok(());
    }
    let streak = backoff::track(case.facts, case.now).streak;
    Ok(backoff::interval(&case.pace, streak, last, case.now)?)
}
