//! Remembers the outcome of a plan for a workload, or for the pods that a monitor itself selects, and finds
//! the workloads whose turn is next. This file writes the results of plans into [`crate::model::Memory`]; the
//! files in `model/` write the effects of events.

use std::time::Duration;

use jiff::Timestamp;

use super::{
    inputs::Inputs,
    restarts::plan_workload,
    state::{Failure, RestartState},
    workload_plan::{RestartAction, WorkloadPlan},
};
use crate::{
    api::Problem,
    model::{
        LastRestart, PodFacts, PodRemoved, RestartAttempt, RestartMemory, RestartResult, WaitReason, World,
    },
    names::{Declarer, WorkloadKey},
    plan::at_after,
};

/// How long a decided rollout counts as under way before the watch shows the rollout: the write may have been
/// lost.
const UNTIL_SEEN: Duration = Duration::from_secs(10);
/// How long a workload counts as under way after each removed pod: a slow replacement takes longer than a
/// record is valid.
const UNTIL_NEXT_POD: Duration = Duration::from_secs(60);

/// The outcome of a plan's action.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Acted {
    /// The plan had no action.
    Nothing,
    /// The action was carried out.
    Done,
    /// The action failed; the attempt has the time of the next try.
    Failed(RestartAttempt),
    /// The action was not carried out: the facts behind the decision have changed.
    Outdated,
}

/// The keys to look at after a workload was planned, and the Events that are due.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[must_use]
pub struct Turn {
    /// A place for restarts is free: the workloads [`next in line`](super::next_in_line) have their turn.
    pub in_line: bool,
    /// The workload's restart is complete: the workloads [that waited for it](super::whose_turn) have their
    /// turn.
    pub in_order: bool,
    /// The workload's circuit has opened, and no Event has reported that.
    pub circuit_opened: bool,
    /// Whether somebody has undone the workload's restart, and no Event has reported that.
    pub taken_back: bool,
}

/// Plans once more, and reserves a place for a planned restart. Planning and reserving in one call ensures
/// that only one of two simultaneous plans gets the last place.
pub fn reserve(world: &mut World, workload: &WorkloadKey, now: Timestamp) -> (WorkloadPlan, Turn) {
    let plan = plan_workload(world, workload, now);
    let (label, span) = match &plan.action {
        Some(RestartAction::Rollout { label, .. } | RestartAction::Begin { label, .. }) => {
            (label, UNTIL_SEEN)
        }
        Some(RestartAction::RemovePods { label, .. }) => (label, UNTIL_NEXT_POD),
        Some(RestartAction::Adopt { .. }) | None => return (plan, Turn::default()),
    };
    let memory = world.memory_mut();
    memory.reserve(workload, label, at_after(now, span));
    let ended = memory.at_workload(workload, RestartMemory::waits_no_more);
    let turn = Turn { in_line: ended == Some(WaitReason::Budget), ..Turn::default() };
    (plan, turn)
}

/// Remembers the outcome of a workload's plan and of its action.
pub fn settle_workload(
    world: &mut World,
    workload: &WorkloadKey,
    plan: &WorkloadPlan,
    acted: Acted,
    now: Timestamp,
) -> Turn {
    let is_missing = (acted == Acted::Nothing).then(|| is_missing(world, workload, &plan.state));
    // Until the workload was planned, it may be due or under way, and other workloads wait for it.
    let was_unknown = plan.restarted.is_some()
        && world.memory().workload(workload).restarted().is_none()
        && is_waited_for(world, workload, now);
    let is_under_way = acted == Acted::Done && plan.action.as_ref().is_some_and(RestartAction::restarts);
    let is_settled = matches!(plan.state, RestartState::Current | RestartState::Unwatched);
    if acted != Acted::Nothing || is_settled {
        // All decisions from this list of pods have been carried out.
        world.forget_pods(workload);
    }
    let memory = world.memory_mut();
    let mut turn = memory.at_workload(workload, |memory| {
        let ended = match (&plan.state, &plan.action) {
            (RestartState::Waiting(wait), None) => memory.wait_for(wait.reason, now),
            _ => memory.waits_no_more(),
        };
        if let Some(is_missing) = is_missing {
            memory.missing(is_missing, now);
        }
        let circuit_opened = is_open(&plan.state).is_some_and(|is_open| memory.circuit(is_open));
        let taken_back = memory.taken_back(matches!(plan.state, RestartState::TakenBack(_)));
        let goes_on = |restarted: &LastRestart| restarted.result != RestartResult::Through;
        if plan.due_since.is_some() || plan.restarted.as_ref().is_some_and(goes_on) {
            memory.goes_on();
        }
        let went = plan.restarted.as_ref().map(|restarted| &restarted.result);
        let is_left =
            matches!(plan.state, RestartState::Held { .. }) || went == Some(&RestartResult::Through);
        let is_through = plan.action.is_none() && (is_settled || is_left);
        let in_order = is_through && (memory.ended() || was_unknown);
        if acted == Acted::Nothing && is_settled {
            memory.settled(plan.state != RestartState::Unwatched);
        }
        if let (Some(restarted), Acted::Nothing | Acted::Done) = (&plan.restarted, &acted) {
            memory.restart_seen(restarted.clone());
        }
        match (acted, &plan.action) {
            // The workload's metadata does not record the time of a removal, so the memory does.
            (Acted::Done, Some(RestartAction::RemovePods { .. })) => memory.pods_removed(now),
            (Acted::Done, _) => memory.forget_attempt(),
            (Acted::Failed(attempt), _) => memory.failed(attempt),
            (Acted::Nothing | Acted::Outdated, _) => {}
        }
        Turn { in_line: ended == Some(WaitReason::Budget), in_order, circuit_opened, taken_back }
    });
    if plan.action.is_some() && !is_under_way {
        memory.release(workload);
        turn.in_line = true;
    }
    turn
}

/// Remembers the failed workloads that stop other workloads of a monitor, and returns the failures that no
/// Event has reported. A new leader considers a failure reported if the status has it. Only names and reasons
/// are compared: the message names a pod, which may have been replaced.
pub fn settle_stage_failures(
    world: &mut World,
    monitor: &Declarer,
    said: &[Problem],
    failed: Vec<(WorkloadKey, Problem)>,
) -> Vec<(WorkloadKey, Problem)> {
    let now_told = failed.iter().map(|(workload, _)| workload.clone()).collect();
    let told = world.memory_mut().at_monitor(monitor, |memory| memory.failures_told(now_told));
    let of = |one: &Problem| (one.namespace.clone(), one.name.clone(), one.reason.clone());
    let is_told = |workload: &WorkloadKey, problem: &Problem| match told.is_empty() {
        true => said.iter().any(|one| of(one) == of(problem)),
        false => told.contains(workload),
    };
    failed.into_iter().filter(|(workload, problem)| !is_told(workload, problem)).collect()
}

/// Handles a workload whose plan lacks facts that could not be fetched. It is unknown whether the workload
/// waits, so no other workload waits for this one.
pub fn settle_unplanned(world: &mut World, workload: &WorkloadKey) -> Turn {
    let ended = world.memory_mut().at_workload(workload, RestartMemory::waits_no_more);
    Turn { in_line: ended.is_some(), ..Turn::default() }
}

/// Remembers the outcome of a plan for the pods that a monitor itself selects, and of their removal.
pub fn settle_pods(
    world: &mut World,
    monitor: &Declarer,
    state: &RestartState,
    removal: Acted,
    now: Timestamp,
) {
    let seen = match removal {
        Acted::Nothing => None,
        // All decisions from this list of pods have been carried out.
        _ => world.forget_selected_pods(monitor),
    };
    // The number of pods before the removal shows when the replacement exists.
    let is_counted = |pod: &&PodFacts| {
        let of_others = pod.workload.as_ref().is_some_and(|key| world.workloads().contains_key(key));
        pod.controlled && !pod.untouchable && !pod.finished && !of_others
    };
    let controlled = seen.map(|seen| seen.pods.iter().filter(is_counted).count());
    world.memory_mut().at_monitor(monitor, |memory| {
        memory.wait_for(state.wait().map(|wait| wait.reason), now);
        match removal {
            Acted::Done => {
                memory.pods_removed(controlled.map(|controlled| PodRemoved { at: now, controlled }));
            }
            Acted::Failed(attempt) => memory.failed(attempt),
            Acted::Nothing | Acted::Outdated => {}
        }
    });
}

/// Whether an object that the workload uses, optional or not, is missing: true from the first decision that
/// waits for the object until no restart is due, or until the object exists.
fn is_missing(world: &World, workload: &WorkloadKey, state: &RestartState) -> bool {
    let is_missing = |reason| matches!(reason, WaitReason::MissingObject | WaitReason::AbsentObject);
    match state {
        RestartState::Waiting(wait) if is_missing(wait.reason) => true,
        RestartState::Current | RestartState::Unwatched => false,
        _ if world.memory().workload(workload).missing_since().is_none() => false,
        _ => {
            let inputs = world.workloads().get(workload).map(|facts| Inputs::of(world, workload, facts));
            inputs.is_some_and(|inputs| !inputs.missing.is_empty() || !inputs.absent.is_empty())
        }
    }
}

/// Whether a different workload of its namespace waits for its turn in a stage.
fn is_waited_for(world: &World, workload: &WorkloadKey, now: Timestamp) -> bool {
    let mut waiting = world.memory().waiting_for(WaitReason::Stage, now);
    waiting.any(|(key, _)| key.namespace == workload.namespace && key != workload)
}

/// Whether the circuit is open; `None` leaves the circuit as before.
fn is_open(state: &RestartState) -> Option<bool> {
    match state {
        RestartState::Failed(Failure::CircuitOpen) => Some(true),
        RestartState::Waiting(wait) if wait.reason == WaitReason::CircuitOpen => Some(true),
        RestartState::Current
        | RestartState::Unrecorded
        | RestartState::Due
        | RestartState::Restarting
        | RestartState::Unwatched => Some(false),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{api::WorkloadKind, plan::restart::Wait};

    fn budget() -> RestartState {
        RestartState::Waiting(Wait::for_event(WaitReason::Budget))
    }

    fn key() -> WorkloadKey {
        WorkloadKey { kind: WorkloadKind::Deployment, namespace: "shop".into(), name: "web".into() }
    }

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn adopt(state: RestartState) -> WorkloadPlan {
        let track = crate::model::TrackRecord::default();
        WorkloadPlan::act(state, RestartAction::Adopt { label: "a".into(), track })
    }

    fn pods(state: RestartState) -> WorkloadPlan {
        let (label, how) = ("a".into(), crate::plan::restart::Removal::Evict);
        WorkloadPlan::act(state, RestartAction::RemovePods { label, pods: Vec::new(), how })
    }

    /// The new memory, and the workloads whose turn it is, given the memory before.
    fn settled(before: RestartMemory, plan: &WorkloadPlan, acted: Acted) -> (RestartMemory, Turn) {
        let mut world = World::default();
        world.memory_mut().at_workload(&key(), |memory| *memory = before);
        let turn = settle_workload(&mut world, &key(), plan, acted, at(9));
        (world.memory().workload(&key()).clone(), turn)
    }

    fn remembered<T>(happens: impl FnOnce(&mut RestartMemory) -> T) -> RestartMemory {
        let mut memory = RestartMemory::default();
        happens(&mut memory);
        memory
    }

    fn waiting(reason: WaitReason) -> RestartMemory {
        remembered(|memory| memory.wait_for(reason, at(1)))
    }

    #[test]
    fn a_wait_begins_when_its_reason_does_and_a_place_in_line_is_given_back() {
        let (memory, turn) =
            settled(waiting(WaitReason::Budget), &WorkloadPlan::rest(budget()), Acted::Nothing);
        assert_eq!((memory.waits_since(WaitReason::Budget), turn), (Some(at(1)), Turn::default()));
        let window = WorkloadPlan::rest(RestartState::Waiting(Wait::for_event(WaitReason::Window)));
        let (memory, turn) = settled(waiting(WaitReason::Budget), &window, Acted::Nothing);
        assert_eq!((memory.waits_since(WaitReason::Window), turn.in_line), (Some(at(9)), true));
        let (memory, turn) =
            settled(waiting(WaitReason::Window), &adopt(RestartState::Unrecorded), Acted::Done);
        assert_eq!((memory.wait(), turn.in_line), (None, true), "recording holds no place");
    }

    #[test]
    fn a_circuit_is_told_of_once() {
        let open = WorkloadPlan::rest(RestartState::Failed(Failure::CircuitOpen));
        let (memory, turn) = settled(RestartMemory::default(), &open, Acted::Nothing);
        assert!(memory.is_circuit_open() && turn.circuit_opened);
        let (memory, turn) = settled(memory, &open, Acted::Nothing);
        assert!(memory.is_circuit_open() && !turn.circuit_opened);
        let (memory, _) = settled(memory, &WorkloadPlan::rest(RestartState::Paused), Acted::Nothing);
        assert!(memory.is_circuit_open(), "a pause closes nothing");
        let (memory, _) = settled(memory, &WorkloadPlan::rest(RestartState::Current), Acted::Nothing);
        assert_eq!(memory, RestartMemory::default());
    }

    #[test]
    fn those_that_wait_for_a_workload_are_looked_at_when_it_is_through() {
        let due = WorkloadPlan { due_since: Some(at(2)), ..WorkloadPlan::rest(budget()) };
        let (memory, turn) = settled(RestartMemory::default(), &due, Acted::Nothing);
        assert!(!turn.in_order);
        let (memory, turn) = settled(memory, &WorkloadPlan::rest(RestartState::Current), Acted::Nothing);
        assert!(turn.in_order);
        let (_, turn) = settled(memory, &WorkloadPlan::rest(RestartState::Current), Acted::Nothing);
        assert_eq!(turn, Turn::default());
    }

    /// A new leader treats a recent restart as soaking until it has examined the workload: the first look
    /// must wake workloads that were examined earlier, which would otherwise wait for minutes.
    #[test]
    fn the_first_look_at_a_workload_wakes_those_that_wait_for_it() {
        let through = LastRestart { content: "c".into(), result: RestartResult::Through };
        let plan = WorkloadPlan { restarted: Some(through), ..WorkloadPlan::rest(RestartState::Current) };
        for (reason, wakes) in [(WaitReason::Stage, true), (WaitReason::Window, false)] {
            let mut world = World::default();
            let other = WorkloadKey { name: "other".into(), ..key() };
            world.memory_mut().at_workload(&other, |memory| memory.wait_for(reason, at(8)));
            for in_order in [wakes, false] {
                let turn = settle_workload(&mut world, &key(), &plan, Acted::Nothing, at(9));
                assert_eq!(turn, Turn { in_order, ..Turn::default() }, "{reason:?}");
            }
        }
    }

    #[test]
    fn what_became_of_an_action_is_kept_and_what_did_not_happen_frees_its_place() {
        let attempt = RestartAttempt { label: "a".into(), tries: 2, failure: None, retry_at: at(20) };
        let (memory, turn) =
            settled(RestartMemory::default(), &pods(RestartState::Due), Acted::Failed(attempt.clone()));
        assert_eq!((memory.attempt(), memory.removed_at(), turn.in_line), (Some(&attempt), None, true));
        assert_eq!(RestartAttempt::tries(memory.attempt(), "a"), 2);
        assert_eq!(RestartAttempt::tries(memory.attempt(), "other content"), 0);
        let (same, turn) = settled(memory.clone(), &pods(RestartState::Due), Acted::Outdated);
        assert_eq!((same.attempt(), turn.in_line), (memory.attempt(), true));
        let (done, turn) = settled(memory, &pods(RestartState::Due), Acted::Done);
        assert_eq!((done.attempt(), done.removed_at(), turn.in_line), (None, Some(at(9)), false));
    }

    #[test]
    fn a_missing_object_is_missing_since_it_was_first_found_to_be() {
        let missing = WorkloadPlan::rest(RestartState::Waiting(Wait::for_event(WaitReason::MissingObject)));
        let before = remembered(|memory| memory.missing(true, at(3)));
        assert_eq!(
            settled(RestartMemory::default(), &missing, Acted::Nothing).0.missing_since(),
            Some(at(9))
        );
        assert_eq!(settled(before.clone(), &missing, Acted::Nothing).0.missing_since(), Some(at(3)));
        let current = WorkloadPlan::rest(RestartState::Current);
        assert_eq!(settled(before, &current, Acted::Nothing).0.missing_since(), None);
    }

    #[test]
    fn a_failed_stage_is_told_once_whichever_process_leads() {
        let problem = |reason: &str, message: &str| Problem {
            namespace: "shop".into(),
            name: "web".into(),
            reason: reason.into(),
            message: message.into(),
            ..Problem::default()
        };
        let monitor = Declarer::monitor("shop", "monitor");
        let told = |world: &mut World, said: &[Problem]| {
            let failed = vec![(key(), problem("StageFailed", "its pod b crashes"))];
            settle_stage_failures(world, &monitor, said, failed).len()
        };
        for (said, times, what) in [
            (vec![], 1, "no Event has reported it"),
            (
                vec![problem("StageFailed", "its pod a crashes")],
                0,
                "the leader before has told it, of another pod",
            ),
            (vec![problem("Budget", "it waits")], 1, "the status says something else of it"),
        ] {
            let mut world = World::default();
            assert_eq!(told(&mut world, &said), times, "{what}");
            assert_eq!(told(&mut world, &[]), 0, "{what}; and it is remembered");
            assert!(settle_stage_failures(&mut world, &monitor, &[], Vec::new()).is_empty());
            assert_eq!(told(&mut world, &[]), 1, "{what}; it had recovered, and has failed again");
        }
    }
}
