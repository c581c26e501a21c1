//! The plan of one workload: whether it restarts, and how its old pods are replaced until none is left, for
//! every kind and strategy. docs/restarting.md has the table, and a test compares it with this code. The
//! applied label on the workload records the content that the workload runs. The reconciler needs no other
//! record: a leader change or a week of downtime loses no restart and repeats no restart.

use jiff::{SignedDuration, Timestamp};

use super::{
    applied::RecordDiff,
    backoff,
    brake::{MISSING_PATIENCE, Wait},
    case::{Case, OldPods},
    cause::causes,
    gates,
    line::Lines,
    own_gates,
    pods::{self, Before, LOOK_AGAIN, Removal, RemovePod},
    progress::progress,
    reach::workloads_using,
    soak,
    state::{Failure, RestartState},
    workload_plan::{RestartAction, WorkloadPlan},
};
use crate::{
    api::StrategyType,
    model::{
        LastRestart, PodFacts, RestartResult, Rollout, RolloutFault, STAMPED_AGAIN, TrackRecord, WaitReason,
        World,
    },
    names::{ObjectKey, WorkloadKey},
    plan::{Need, at_after},
};

/// When to plan again even if an event should come earlier: no decision depends on a single event.
const LOOK_AGAIN_ANYWAY: SignedDuration = SignedDuration::from_secs(60);
/// When to plan workloads again that wait for other workloads: thousands may wait, and each look examines all
/// waiting workloads.
const LOOK_AGAIN_AT_OTHERS: SignedDuration = SignedDuration::from_mins(5);

/// Plans one workload.
pub fn plan_workload(world: &World, key: &WorkloadKey, now: Timestamp) -> WorkloadPlan {
    plan_in_line(world, &Lines::default(), key, now)
}

/// Plans one workload, with the cached state of the workloads that it may have to wait for.
pub(crate) fn plan_in_line(world: &World, lines: &Lines, key: &WorkloadKey, now: Timestamp) -> WorkloadPlan {
    Case::of(world, lines, key, now).map_or_else(|plan| *plan, |case| case.plan())
}

impl Case<'_> {
    fn plan(&self) -> WorkloadPlan {
        let difference = self.difference();
        let pending = self.applied.and_then(|applied| applied.pending);
        if let (Some(recorded @ (RecordDiff::Nothing | RecordDiff::Scope)), None) = (difference, pending)
            && let Some(since) = self.doubted_before()
        {
            return self.told_by_pods(recorded, since);
        }
        if difference == Some(RecordDiff::Nothing) && pending.is_none() {
            return self.current();
        }
        let due = |plan| match (difference, pending) {
            (Some(RecordDiff::Content(since)), _) => {
                self.due_since(since, self.facts.restarts.recorded, plan)
            }
            // The content has not changed since the write of the record, by which pods are still to be
            // replaced.
            (_, Some(before)) => self.due_since(before.time(), None, plan),
            (_, None) => plan,
        };
        if let Some(plan) = self.tried() {
            return due(plan);
        }
        match (difference, pending) {
            (None, _) => self.adopt(),
            (Some(RecordDiff::Nothing), None) => self.current(),
            (Some(RecordDiff::Nothing), Some(before)) => due(self.go_on(before)),
            (Some(RecordDiff::Scope), pending) => self.record(pending),
            (Some(RecordDiff::Content(since)), pending) => due(self.begin_for(since, pending)),
        }
    }

    fn due_since(&self, since: Timestamp, recorded: Option<Timestamp>, plan: WorkloadPlan) -> WorkloadPlan {
        WorkloadPlan { due_since: Some(since), causes: causes(self.world, &self.inputs, recorded), ..plan }
    }

    /// Adopts a workload that is seen for the first time: the running content is considered current. A paused
    /// workload is adopted, too: otherwise a change made during the pause would not be noticed.
    fn adopt(&self) -> WorkloadPlan {
        if let Err(state) = own_gates::pass(own_gates::ADOPTING, self, self.now) {
            return self.hold(state);
        }
        let adoption = self.adoption(self.facts.restarts.track.clone());
        self.went(RestartResult::Through, WorkloadPlan::act(RestartState::Unrecorded, adoption))
    }

    /// The record says that all pods run the content, and only the pods can show whether that is true. If no
    /// pod is older, the plan records that, so that the pods are not listed again.
    fn told_by_pods(&self, recorded: RecordDiff, since: Timestamp) -> WorkloadPlan {
        let due = |plan| self.due_since(since, None, plan);
        if let Some(plan) = self.tried() {
            return due(plan);
        }
        let listed = self.listed();
        let Some(seen) = listed.seen else { return self.hold(Wait::for_event(WaitReason::Facts).into()) };
        let before = pods::before(since, None);
        let pods = OldPods::among(seen, since, before);
        if pods.stale.is_empty() {
            return if recorded == RecordDiff::Scope { self.record(None) } else { self.replaced() };
        }
        let stays = own_gates::pass(own_gates::BEGUN, self, since)
            .and_then(|()| gates::pass_pods(gates::UNDONE, self, &pods));
        let plan = match stays {
            Ok(()) => self.first_step(since, before).unwrap_or_else(|state| self.hold(state)),
            Err(state) => self.hold_begun(state),
        };
        let recheck = plan.recheck.into_iter().chain(listed.again).min();
        due(WorkloadPlan { recheck, ..plan })
    }

    /// Records a changed scope: for all we know, the workload runs the current content. Pods that were still
    /// to be replaced remain so.
    fn record(&self, pending: Option<Before>) -> WorkloadPlan {
        if let Err(state) = own_gates::pass(own_gates::RECORDING, self, self.now) {
            return self.hold(state);
        }
        let (label, track) = (self.content.label_while(pending), self.facts.restarts.track.clone());
        let state = match progress(self.facts, self.now) {
            RestartState::Current => RestartState::Unrecorded,
            state => state,
        };
        WorkloadPlan::act(state, RestartAction::Adopt { label, track })
    }

    /// Plans a workload that runs the current content: checks whether the rollout is complete and, if other
    /// workloads wait for this one, whether its pods have become ready and stayed ready.
    fn current(&self) -> WorkloadPlan {
        if self.lacks_object() {
            let waits = self.hold(Wait::for_event(WaitReason::MissingObject).into());
            return self.went(RestartResult::Through, waits);
        }
        let deadline = self.deadline();
        let plan = WorkloadPlan { recheck: deadline, ..WorkloadPlan::rest(progress(self.facts, self.now)) };
        let Some(soak) = self.soak() else { return plan };
        let by_removal = self.pace.strategy != StrategyType::Rollout;
        let checked = soak::check(self.world, self.key, self.facts, by_removal, soak, self.now);
        let state = match &checked.result {
            RestartResult::Through => plan.state,
            RestartResult::UnderWay | RestartResult::Soaking => RestartState::Restarting,
            RestartResult::Failed(_) if backoff::is_open(&backoff::track(self.facts, self.now)) => plan.state,
            RestartResult::Failed(fault) => self.stage_failed(fault.clone()),
        };
        let needs = checked.needs_pods.then(|| Need::Pods(self.key.clone())).into_iter().collect();
        let recheck = checked.recheck.into_iter().chain(deadline).min();
        self.went(checked.result, WorkloadPlan { needs, recheck, ..WorkloadPlan::rest(state) })
    }

    /// Plans a workload whose label says that the workload, or its pods from before `since`, run other
    /// content.
    fn begin_for(&self, since: Timestamp, pending: Option<Before>) -> WorkloadPlan {
        let before = pods::before(since, self.facts.restarts.recorded);
        let before = pending.map_or(before, |pending| pending.max(before));
        self.first_step(since, before).unwrap_or_else(|state| self.hold(state))
    }

    fn first_step(&self, since: Timestamp, before: Before) -> Result<WorkloadPlan, RestartState> {
        own_gates::pass(own_gates::DUE, self, since)?;
        own_gates::pass(gates::TURN, self, since)?;
        let pods = self.old_pods(since, before)?;
        let plan = if pods.stale.is_empty() { Ok(self.replaced()) } else { self.begin(&pods) };
        if pods::is_fresh(pods.seen, since, self.now) {
            return plan;
        }
        // A list that is too old for an action still shows the state.
        let state = plan.map_or_else(|state| state, |_| Wait::for_event(WaitReason::Facts).into());
        let needs = vec![Need::Pods(self.key.clone())];
        Ok(WorkloadPlan { needs, ..self.hold(state) })
    }

    /// The first step for these old pods. If changing the template is enough, that change is the only step.
    /// If pods are removed one by one, a record that the pods are to be removed is written first: the record
    /// survives a restart of ours, and content that changes back half-way differs from the record.
    ///
    /// # Errors
    /// The state of the workload, if a gate is shut.
    fn begin(&self, pods: &OldPods<'_>) -> Result<WorkloadPlan, RestartState> {
        gates::pass_pods(gates::BEGINNING, self, pods)?;
        let (label, pending) = (self.content.label(), self.content.label_while(Some(pods.before)));
        let track = self.track_with_next();
        let action = match (self.pace.strategy, &self.facts.rollout) {
            (StrategyType::Evict | StrategyType::Delete, _) => RestartAction::Begin { label: pending, track },
            // The template changes first, so that new pods are of the new revision.
            (StrategyType::Rollout, Rollout::OnDelete | Rollout::Partitioned(_)) => {
                RestartAction::Rollout { label: pending, stamp: self.stamp(), track }
            }
            (StrategyType::Rollout, _) => RestartAction::Rollout { label, stamp: self.stamp(), track },
        };
        Ok(self.went(RestartResult::UnderWay, WorkloadPlan::act(RestartState::Due, action)))
    }

    /// The next step, until no pod is left that began before `before`. A list of pods that is too old for an
    /// action still shows the state.
    fn go_on(&self, before: Before) -> WorkloadPlan {
        if let Err(state) = own_gates::pass(own_gates::BEGUN, self, before.time()) {
            return self.hold_begun(state);
        }
        let need = |state| {
            let needs = vec![Need::Pods(self.key.clone())];
            self.went(RestartResult::UnderWay, WorkloadPlan { needs, ..WorkloadPlan::rest(state) })
        };
        let Ok(pods) = self.old_pods(before.time(), before) else { return need(RestartState::Restarting) };
        let plan = self.next_step(&pods).unwrap_or_else(|state| self.hold_begun(state));
        match pods::is_fresh(pods.seen, pods.since, self.now) {
            true => plan,
            false => need(plan.state),
        }
    }

    fn next_step(&self, pods: &OldPods<'_>) -> Result<WorkloadPlan, RestartState> {
        if pods.stale.is_empty() {
            return Ok(self.replaced());
        }
        gates::pass_pods(gates::GOING_ON, self, pods)?;
        if self.removes_pods() {
            gates::pass_pods(gates::REMOVING, self, pods)?;
            return Ok(self.remove(self.next(pods)?));
        }
        gates::pass_pods(gates::ROLLING, self, pods)?;
        // The restart began under an earlier strategy, by removal of pods.
        self.begin(pods)
    }

    /// Holds the workload in a state, and notes the progress of its restart for workloads that wait for it.
    fn hold_begun(&self, state: RestartState) -> WorkloadPlan {
        let went = match &state {
            RestartState::Failed(Failure::Stage { fault, .. }) => RestartResult::Failed(fault.clone()),
            RestartState::Failed(Failure::RolloutStuck) => RestartResult::Failed(RolloutFault::Partition),
            // No workload waits for pods that their owner keeps, or for a workload whose owner has excluded
            // it.
            RestartState::Held { .. } | RestartState::TakenBack(_) | RestartState::OptedOut => {
                RestartResult::Through
            }
            RestartState::Paused => return self.hold(state),
            _ => RestartResult::UnderWay,
        };
        self.went(went, self.hold(state))
    }

    fn remove(&self, pod: &PodFacts) -> WorkloadPlan {
        let action = RestartAction::RemovePods {
            label: self.content.label(),
            pods: vec![RemovePod::from(pod)],
            how: Removal::by(self.pace.strategy),
        };
        let recheck = Some(pods::add(self.now, LOOK_AGAIN));
        let plan = WorkloadPlan { recheck, ..WorkloadPlan::act(RestartState::Due, action) };
        self.went(RestartResult::UnderWay, plan)
    }

    /// Records that all pods run the content.
    fn replaced(&self) -> WorkloadPlan {
        let track = backoff::replaced(self.facts, &self.content.digest, &self.pace);
        let went =
            if self.facts.is_being_replaced() { RestartResult::UnderWay } else { RestartResult::Through };
        self.went(went, WorkloadPlan::act(RestartState::Unrecorded, self.adoption(track)))
    }

    /// Records the content without a restart.
    fn adoption(&self, track: TrackRecord) -> RestartAction {
        RestartAction::Adopt { label: self.content.label(), track }
    }

    /// Adds the progress of the restart once the plan is carried out, if other workloads wait for it.
    fn went(&self, went: RestartResult, plan: WorkloadPlan) -> WorkloadPlan {
        let restarted =
            self.soak().map(|_| LastRestart { content: self.content.digest.clone(), result: went });
        WorkloadPlan { restarted, ..plan }
    }

    /// Holds the workload in a state without an action: when to plan again, and which facts to fetch.
    fn hold(&self, state: RestartState) -> WorkloadPlan {
        let again = |span| Some(pods::add(self.now, span));
        let recheck = match &state {
            // An event of another workload ends the wait, but we also plan again by time.
            RestartState::Waiting(wait) => match wait.reason {
                WaitReason::Stage | WaitReason::StageStopped => again(LOOK_AGAIN_AT_OTHERS),
                WaitReason::Budget => again(LOOK_AGAIN_ANYWAY),
                WaitReason::RolloutUnfinished => {
                    again(LOOK_AGAIN_ANYWAY).into_iter().chain(self.deadline()).min()
                }
                WaitReason::MissingObject | WaitReason::AbsentObject if self.missing_since().is_none() => {
                    Some(at_after(self.now, MISSING_PATIENCE))
                }
                _ => wait.until,
            },
            RestartState::Restarting => again(LOOK_AGAIN_ANYWAY),
            RestartState::Failed(Failure::Stage { .. }) => Some(at_after(self.now, soak::WATCH)),
            _ => None,
        };
        let needs_pods = state.wait().is_some_and(|wait| wait.reason == WaitReason::Facts);
        let needs = needs_pods.then(|| Need::Pods(self.key.clone())).into_iter().collect();
        WorkloadPlan { needs, recheck, ..WorkloadPlan::rest(state) }
    }

    /// When the rollout under way is considered stuck, if that time is in the future.
    fn deadline(&self) -> Option<Timestamp> {
        self.facts.rollout_deadline().filter(|deadline| *deadline > self.now)
    }

    /// The track record, including the restart that is about to begin.
    fn track_with_next(&self) -> TrackRecord {
        let last = match self.pace.strategy {
            StrategyType::Rollout => self.facts.restarts.last_restart,
            // The record was presumably written when the last pod had been replaced.
            StrategyType::Evict | StrategyType::Delete => {
                self.facts.restarts.last_restart.max(self.facts.restarts.recorded)
            }
        };
        let so_far = &self.facts.restarts.track;
        let track = match self.world.lost_record(self.key).is_some() {
            // It is unknown whether a rollout that was undone would have become ready.
            true => so_far.clone(),
            // The rollout failed before its deadline, or after it was complete.
            false if self.is_known_to_fail() => so_far.clone().failed(),
            false => backoff::track(self.facts, self.now),
        };
        let track = match self.doubted_before() {
            // The ready pods include old pods.
            Some(_) => TrackRecord { last_good: so_far.last_good.clone(), ..track },
            None => track,
        };
        backoff::one_more(track, &self.pace, last, self.now)
    }

    /// The stamp for the pod template. The stamp is derived from the content, so a second write changes
    /// nothing. If pods run other content although the template has the digest already (`rollout undo`;
    /// content that came back while only the label was written), the digest alone would leave the template
    /// unchanged, and no pod would be replaced.
    fn stamp(&self) -> String {
        let digest = &self.content.digest;
        match self.facts.restarts.restarted_for.as_ref() == Some(digest) {
            true => format!("{digest}{STAMPED_AGAIN}"),
            false => digest.clone(),
        }
    }
}

/// The workloads that restart for this object's latest change, now or after a wait, as far as their content
/// is known. Excludes workloads for which a person has to act first.
pub fn restarting_for(world: &World, object: &ObjectKey, now: Timestamp) -> Vec<WorkloadKey> {
    let mut using: Vec<WorkloadKey> = workloads_using(world, object).into_iter().collect();
    let lines = Lines::default();
    using.retain(|key| {
        let plan = plan_in_line(world, &lines, key, now);
        let restarts =
            matches!(plan.state, RestartState::Waiting(_) | RestartState::Due | RestartState::Restarting);
        restarts && plan.causes.iter().any(|cause| cause.object == *object)
    });
    using
}
