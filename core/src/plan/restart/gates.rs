//! The gates that may delay a restart, in their order: the first gate that is shut decides the state of the
//! workload. The gates for the workload's own state come first and are in `own_gates.rs`.
//! docs/restart-model.md has all gates as one table, and a test compares the table with [`model`].

use jiff::Timestamp;

use super::{
    backoff,
    brake::Wait,
    budget::has_place,
    case::{Case, OldPods, is_held},
    own_gates::{ADOPTING, BEGUN, DUE, Gate, OwnGate, RECORDING, Verdict, gate, missing, wait},
    soak, stage,
    state::{Failure, RestartState},
    taken_back::undone,
    window,
};
use crate::{
    api::StrategyType,
    model::{PodFacts, Rollout, WaitReason},
    plan::at_after,
};

/// A gate that examines pods with old content.
pub(super) type PodGate = Gate<fn(&Case<'_>, &OldPods<'_>) -> Verdict>;

/// Gates for old pods that the record does not show as pods to replace; after [`BEGUN`].
pub(super) const UNDONE: &[PodGate] = &[gate!(undone: Held, Restarting, RolloutUnfinished, TakenBack)];
/// Gates for the order of workloads, after [`DUE`]. These gates come before the list of pods: among hundreds
/// of due workloads, few have their turn.
pub(super) const TURN: &[OwnGate] = &[gate!(turn: StageStopped, Stage), gate!(line: Budget)];
/// Gates for the pods that run old content, after [`TURN`].
pub(super) const BEGINNING: &[PodGate] = &[
    gate!(held: Held),
    gate!(window: Window),
    gate!(place: Budget),
    gate!(second_over: QuietPeriod),
    gate!(next_pod: PodsNotReady, MinInterval, Backoff),
];
/// Gates before each step while pods are being replaced, after [`BEGUN`].
pub(super) const GOING_ON: &[PodGate] = &[
    gate!(stage_holds: StageFailed),
    gate!(still_missing: MissingObject),
    gate!(stage_stopped: StageStopped),
];
/// Gates before the next pod is removed, if pods are removed one by one.
pub(super) const REMOVING: &[PodGate] = &[
    gate!(pod_may_go: PodsNotReady, MinInterval, Backoff),
    gate!(window_of_pod: Window),
    gate!(rolling_pod: RolloutUnfinished),
];
/// Gates before the template is changed again, if the controller replaces pods.
pub(super) const ROLLING: &[PodGate] = &[
    gate!(held: Held),
    gate!(deadline: RolloutStuck),
    gate!(by_controller: Restarting),
    gate!(interval_again: MinInterval, Backoff),
];

/// Checks the gates about pods in order.
///
/// # Errors
/// The state that the first shut gate reports.
pub(super) fn pass_pods(gates: &[PodGate], case: &Case<'_>, pods: &OldPods<'_>) -> Verdict {
    gates.iter().try_for_each(|gate| gate.told((gate.is_open)(case, pods)))
}

/// A row of the restart model: the phase, the function, and the reasons that the function may report.
pub(super) type Row = (&'static str, &'static str, &'static [&'static str]);

/// The restart model: all gates that may delay a restart, in order.
pub fn model() -> Vec<Row> {
    fn rows<F>(when: &'static str, gates: &[Gate<F>]) -> impl Iterator<Item = Row> {
        gates.iter().map(move |gate| (when, gate.name, gate.says))
    }
    const KNOWN: &[&str] = &["Starting", "AuthorityUnknown", "Unauthorized", "NotAsked", "FactsMissing"];
    const TRIED: &[&str] =
        &["DisruptionBudget", "TooManyBudgets", "Refused", "TooLarge", "Forbidden", "Failed"];
    let mut model: Vec<Row> = vec![("knowing", "Case::of", KNOWN), ("trying again", "not_again_yet", TRIED)];
    model.extend(rows("adopting", ADOPTING));
    model.push(("recorded", "Case::listed", &["FactsMissing"]));
    model.extend(rows("recorded", BEGUN));
    model.extend(rows("recorded", UNDONE));
    for (when, gates) in [("recording", RECORDING), ("due", DUE), ("turn", TURN)] {
        model.extend(rows(when, gates));
    }
    model.push(("pods", "Case::old_pods", &["FactsMissing"]));
    model.extend(rows("beginning", BEGINNING));
    model.extend(rows("begun", BEGUN));
    model.push(("begun", "Case::old_pods", &["Restarting"]));
    for (when, gates) in [("going on", GOING_ON), ("removing", REMOVING), ("rolling", ROLLING)] {
        model.extend(rows(when, gates));
    }
    model
}

/// Shut while other workloads of its monitors come first, or have failed.
fn turn(case: &Case<'_>, _: Timestamp) -> Verdict {
    let turn = stage::may_go(case.world, case.lines, case.key, &case.inputs.monitors, case.now);
    Ok(turn.map_err(Wait::for_event)?)
}

/// Shut while the workload waits for a place: the reconciler lists the pods again when the workload has its
/// turn.
fn line(case: &Case<'_>, _: Timestamp) -> Verdict {
    let waits = case.world.memory().workload(case.key).waits_since(WaitReason::Budget).is_some();
    if waits && !has_place(case.world, case.key, case.now) { wait(WaitReason::Budget) } else { Ok(()) }
}

/// Shut if all old pods are below the partition. The controller keeps pods below the partition; with a new
/// template, it would replace pods that run the content already.
fn held(case: &Case<'_>, pods: &OldPods<'_>) -> Verdict {
    let Rollout::Partitioned(partition) = case.facts.rollout else { return Ok(()) };
    match case.pace.strategy == StrategyType::Rollout && is_held(&pods.stale, partition) {
        true => Err(RestartState::Held { partition, old: pods.stale.len() }),
        false => Ok(()),
    }
}

/// Shut while the window of one of the workload's monitors is closed.
fn window(case: &Case<'_>, pods: &OldPods<'_>) -> Verdict {
    let last = case.facts.restarts.last_restart;
    Ok(window::opens(case.world, &case.inputs.monitors, pods.since, last, case.now)?)
}

/// Shut while as many restarts as allowed are under way in the cluster.
fn place(case: &Case<'_>, _: &OldPods<'_>) -> Verdict {
    if has_place(case.world, case.key, case.now) { Ok(()) } else { wait(WaitReason::Budget) }
}

/// Shut during the second of the change where pods are distinguished by age: new pods would count as old.
fn second_over(case: &Case<'_>, pods: &OldPods<'_>) -> Verdict {
    let is_by_age = case.removes_pods() || matches!(case.facts.rollout, Rollout::Partitioned(_));
    if is_by_age { Ok(pods.before.is_past(case.now)?) } else { Ok(()) }
}

/// Shut until the first pod may be removed, if pods are removed one by one.
fn next_pod(case: &Case<'_>, pods: &OldPods<'_>) -> Verdict {
    if case.removes_pods() { pod_may_go(case, pods) } else { Ok(()) }
}

/// Shut until enough pods are ready, and the next pod to remove is old enough.
fn pod_may_go(case: &Case<'_>, pods: &OldPods<'_>) -> Verdict {
    let pod = case.next(pods)?;
    if case.is_nudged(pods.since, Some(pod.created)) {
        return Ok(());
    }
    Ok(backoff::interval(&case.pace, case.facts.restarts.track.streak, Some(pod.created), case.now)?)
}

/// Shut if a replaced pod has failed, and other workloads wait for this workload.
fn stage_holds(case: &Case<'_>, pods: &OldPods<'_>) -> Verdict {
    let is_new = |pod: &&PodFacts| !pods.stale.iter().any(|old| old.uid == pod.uid);
    let fault = soak::failed_among(pods.seen.pods.iter().filter(is_new), case.now);
    match fault.filter(|_| case.soak().is_some()) {
        Some(fault) => Err(case.stage_failed(fault)),
        None => Ok(()),
    }
}

fn still_missing(case: &Case<'_>, pods: &OldPods<'_>) -> Verdict {
    missing(case, pods.since)
}

/// Shut if a different workload has failed meanwhile. The gate does not check the turn, which this workload
/// has already.
fn stage_stopped(case: &Case<'_>, _: &OldPods<'_>) -> Verdict {
    let goes_on = stage::goes_on(case.world, case.lines, case.key, &case.inputs.monitors, case.now);
    Ok(goes_on.map_err(Wait::for_event)?)
}

/// Shut if the window of one of the workload's monitors has closed since the last pod was removed.
fn window_of_pod(case: &Case<'_>, pods: &OldPods<'_>) -> Verdict {
    let last = Some(case.next(pods)?.created);
    Ok(window::opens(case.world, &case.inputs.monitors, pods.since, last, case.now)?)
}

/// Shut while a rolling update that is not ours replaces pods. A pod that is not ready need not wait for the
/// rolling update.
fn rolling_pod(case: &Case<'_>, pods: &OldPods<'_>) -> Verdict {
    let is_rolling = case.facts.rollout == Rollout::Unfinished;
    if is_rolling && case.next(pods)?.ready { wait(WaitReason::RolloutUnfinished) } else { Ok(()) }
}

/// Shut if a partitioned rollout is stuck, which only the clock shows.
fn deadline(case: &Case<'_>, _: &OldPods<'_>) -> Verdict {
    let began = case.facts.restarts.last_restart.filter(|_| case.facts.restarted_by_us());
    let is_late = began.is_some_and(|began| at_after(began, soak::PATIENCE) <= case.now);
    match is_late && case.is_partitioned_for_this() {
        true => Err(RestartState::Failed(Failure::RolloutStuck)),
        false => Ok(()),
    }
}

/// Shut while the controller already replaces the pods.
fn by_controller(case: &Case<'_>, _: &OldPods<'_>) -> Verdict {
    match case.facts.rollout == Rollout::Unfinished || case.is_partitioned_for_this() {
        true => Err(RestartState::Restarting),
        false => Ok(()),
    }
}

/// Shut until the interval has passed. A restart begun by removal, under an earlier strategy, is treated like
/// any other restart.
fn interval_again(case: &Case<'_>, _: &OldPods<'_>) -> Verdict {
    let (streak, last) = (case.facts.restarts.track.streak, case.facts.restarts.last_restart);
    Ok(backoff::interval(&case.pace, streak, last, case.now)?)
}
