//! What holds back a restart by the workload's own state, before it is asked who else comes first: gates in
//! their order, as in `gates.rs`, which has the rest.

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

/// Open, or how the workload stands while it is shut.
pub(super) type Verdict = Result<(), RestartState>;

/// One thing that may hold back a restart.
pub(super) struct Gate<F> {
    pub(super) name: &'static str,
    /// The reasons that it may say while it is shut.
    pub(super) says: &'static [&'static str],
    pub(super) is_open: F,
}

impl<F> Gate<F> {
    /// What it says, which the model has to name.
    pub(super) fn told(&self, verdict: Verdict) -> Verdict {
        let is_named = |state: &RestartState| self.says.contains(&state.reason());
        debug_assert!(verdict.as_ref().err().is_none_or(is_named), "{} says {verdict:?}", self.name);
        verdict
    }
}

/// A gate that is asked before pods are listed; the time is that of the change.
pub(super) type OwnGate = Gate<fn(&Case<'_>, Timestamp) -> Verdict>;

macro_rules! gate {
    ($name:ident: $($reason:ident),+) => {
        Gate { name: stringify!($name), says: &[$(stringify!($reason)),+], is_open: $name }
    };
}
pub(super) use gate;

/// Before what runs is taken for current.
pub(super) const ADOPTING: &[OwnGate] =
    &[gate!(starting_without: MissingObject), gate!(nothing_there: MissingObject)];
/// Before something else than so far is recorded.
pub(super) const RECORDING: &[OwnGate] = &[gate!(missing: MissingObject), gate!(absent: AbsentObject)];
/// Before a restart begins: what is the workload's own.
pub(super) const DUE: &[OwnGate] = &[
    gate!(stopped: Paused, Suspended),
    gate!(quiet: QuietPeriod),
    gate!(missing: MissingObject),
    gate!(rolling: RolloutUnfinished),
    gate!(circuit: CircuitOpen),
    gate!(interval: MinInterval, Backoff),
];
/// While pods are being replaced, before they are listed.
pub(super) const BEGUN: &[OwnGate] = &[gate!(stopped: Paused, Suspended)];

/// Asks one gate after the other.
///
/// # Errors
/// How the workload stands: the first gate that is shut says so.
pub(super) fn pass(gates: &[OwnGate], case: &Case<'_>, since: Timestamp) -> Verdict {
    gates.iter().try_for_each(|gate| gate.told((gate.is_open)(case, since)))
}

/// Shut until an event tells otherwise.
pub(super) fn wait(reason: WaitReason) -> Verdict {
    Err(Wait::for_event(reason).into())
}

/// Its owner has paused it, or opted out.
fn stopped(case: &Case<'_>, _: Timestamp) -> Verdict {
    case.stopped().map_or(Ok(()), Err)
}

/// The content may still be changing.
fn quiet(case: &Case<'_>, since: Timestamp) -> Verdict {
    let unsettled = case.world.memory().workload(case.key).waits_since(WaitReason::QuietPeriod);
    Ok(brake::quiet(&case.pace, since, unsettled, case.now)?)
}

/// While something is missing the digest lacks its content: recorded now, its return would look like a change,
/// and `kubectl replace --force` would restart everybody for nothing.
pub(super) fn missing(case: &Case<'_>, _: Timestamp) -> Verdict {
    if case.inputs.missing.is_empty() {
        return Ok(());
    }
    Ok(brake::patience(WaitReason::MissingObject, case.missing_since(), case.now)?)
}

/// Also what pods can do without is waited for: recorded without it, its return would look like a change.
fn absent(case: &Case<'_>, _: Timestamp) -> Verdict {
    if case.inputs.absent.is_empty() {
        return Ok(());
    }
    Ok(brake::patience(WaitReason::AbsentObject, case.missing_since(), case.now)?)
}

/// Pods that still wait for an object that is not there yet will start with it: adopted without it, they would
/// restart for it as soon as it comes (External Secrets, sealed Secrets).
fn starting_without(case: &Case<'_>, _: Timestamp) -> Verdict {
    let is_rolling = matches!(case.facts.rollout, Rollout::Unfinished | Rollout::Stuck);
    let is_starting = is_rolling || (case.facts.available == 0 && case.facts.desired > 0);
    match !case.inputs.missing.is_empty() && is_starting {
        true => wait(WaitReason::MissingObject),
        false => Ok(()),
    }
}

/// Nothing of what counts is there, and something is missing.
fn nothing_there(case: &Case<'_>, since: Timestamp) -> Verdict {
    if case.inputs.objects.is_empty() { missing(case, since) } else { Ok(()) }
}

/// Waits while a rollout is under way. A rollout known to fail is not waited for: the new content may mend it.
fn rolling(case: &Case<'_>, _: Timestamp) -> Verdict {
    let is_rolling =
        case.pace.strategy == StrategyType::Rollout && case.facts.rollout_at(case.now) == Rollout::Unfinished;
    if is_rolling && !case.is_known_to_fail() { wait(WaitReason::RolloutUnfinished) } else { Ok(()) }
}

/// Too many restarts in a row did not become ready.
fn circuit(case: &Case<'_>, since: Timestamp) -> Verdict {
    let last = case.facts.restarts.last_restart;
    if case.is_nudged(since, last) {
        return Ok(());
    }
    Ok(backoff::circuit(&backoff::track(case.facts, case.now), last, case.now)?)
}

/// The last restart was a moment ago.
fn interval(case: &Case<'_>, since: Timestamp) -> Verdict {
    let last = case.facts.restarts.last_restart;
    if case.is_nudged(since, last) {
        return Ok(());
    }
    let streak = backoff::track(case.facts, case.now).streak;
    Ok(backoff::interval(&case.pace, streak, last, case.now)?)
}
