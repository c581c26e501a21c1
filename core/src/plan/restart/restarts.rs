//! What to do about one workload: whether it restarts, and how its old pods are replaced until none is left, for every kind
//! and strategy. docs/restarting.md has the table, and a test holds it against this. The content that a workload runs with is
//! recorded on it, in the applied label. The reconciler needs no memory of it: a leader change or a week of downtime loses
//! no restart and repeats none.

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

/// When to look again though an event should tell: nothing hangs on a single one.
const LOOK_AGAIN_ANYWAY: SignedDuration = SignedDuration::from_secs(60);
/// The same where others come first: there may be thousands who wait, and each look goes through all of them.
const LOOK_AGAIN_AT_OTHERS: SignedDuration = SignedDuration::from_mins(5);

/// What to do about one workload.
pub fn plan_workload(world: &World, key: &WorkloadKey, now: Timestamp) -> WorkloadPlan {
    plan_in_line(world, &Lines::default(), key, now)
}

/// The same, with what is known already of those that it may have to wait for.
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
            // Since it was written that pods are to be replaced, nothing has changed.
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

    /// Seen for the first time: what runs now is taken for current. Also while paused, or a change made
    /// during the pause would not be seen.
    fn adopt(&self) -> WorkloadPlan {
        if let Err(state) = own_gates::pass(own_gates::ADOPTING, self, self.now) {
            return self.hold(state);
        }
        let adoption = self.adoption(self.facts.restarts.track.clone());
        self.went(RestartResult::Through, WorkloadPlan::act(RestartState::Unrecorded, adoption))
    }

    /// The record says that all pods run the content, and only the pods can tell. Where none is older, that is recorded, so
    /// that they are not listed for it again.
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

    /// It runs the current content, for all we know, and something else than recorded counts now. What was
    /// still to be replaced still is.
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

    /// It runs the current content. Is the rollout through, too? And where others wait for it: have its pods
    /// become ready, and stayed so?
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

    /// The label says that it runs other content, or that some of its pods do: those that began before
    /// `since`.
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
        // Too old to act by, the list still says how it stands.
        let state = plan.map_or_else(|state| state, |_| Wait::for_event(WaitReason::Facts).into());
        let needs = vec![Need::Pods(self.key.clone())];
        Ok(WorkloadPlan { needs, ..self.hold(state) })
    }

    /// The first step for these old pods. Where the template is enough, it is the only one. Where pods are
    /// removed one by one, a record that they are to be removed is written first: it survives us, and content
    /// that changes back half-way differs from what is written.
    ///
    /// # Errors
    /// How it stands, where something holds it back.
    fn begin(&self, pods: &OldPods<'_>) -> Result<WorkloadPlan, RestartState> {
        gates::pass_pods(gates::BEGINNING, self, pods)?;
        let (label, pending) = (self.content.label(), self.content.label_while(Some(pods.before)));
        let track = self.track_with_next();
        let action = match (self.pace.strategy, &self.facts.rollout) {
            (StrategyType::Evict | StrategyType::Delete, _) => RestartAction::Begin { label: pending, track },
            // The template first: the pods that come are of the new revision.
            (StrategyType::Rollout, Rollout::OnDelete | Rollout::Partitioned(_)) => {
                RestartAction::Rollout { label: pending, stamp: self.stamp(), track }
            }
            (StrategyType::Rollout, _) => RestartAction::Rollout { label, stamp: self.stamp(), track },
        };
        Ok(self.went(RestartResult::UnderWay, WorkloadPlan::act(RestartState::Due, action)))
    }

    /// The next step, until none is left of those that began before then. A list of pods that is too old to
    /// act by still says how it stands.
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
        // Begun by removal, under another strategy.
        self.begin(pods)
    }

    /// How a restart goes that stands so, for those who wait for it.
    fn hold_begun(&self, state: RestartState) -> WorkloadPlan {
        let went = match &state {
            RestartState::Failed(Failure::Stage { fault, .. }) => RestartResult::Failed(fault.clone()),
            RestartState::Failed(Failure::RolloutStuck) => RestartResult::Failed(RolloutFault::Partition),
            // Nothing waits for pods that their owner holds, or for a workload that its owner has taken out.
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

    /// All pods are found to run the content.
    fn replaced(&self) -> WorkloadPlan {
        let track = backoff::replaced(self.facts, &self.content.digest, &self.pace);
        let went =
            if self.facts.is_being_replaced() { RestartResult::UnderWay } else { RestartResult::Through };
        self.went(went, WorkloadPlan::act(RestartState::Unrecorded, self.adoption(track)))
    }

    /// The content is recorded, and nothing restarts.
    fn adoption(&self, track: TrackRecord) -> RestartAction {
        RestartAction::Adopt { label: self.content.label(), track }
    }

    /// The plan, and how the restart goes when it is carried out, where others wait for that.
    fn went(&self, went: RestartResult, plan: WorkloadPlan) -> WorkloadPlan {
        let restarted =
            self.soak().map(|_| LastRestart { content: self.content.digest.clone(), result: went });
        WorkloadPlan { restarted, ..plan }
    }

    /// It stands so, and nothing is done: when to look again, and what has to be known.
    fn hold(&self, state: RestartState) -> WorkloadPlan {
        let again = |span| Some(pods::add(self.now, span));
        let recheck = match &state {
            // An event of others ends it, on which nothing hangs alone.
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

    /// When the rollout under way counts as stuck, if that is yet to come.
    fn deadline(&self) -> Option<Timestamp> {
        self.facts.rollout_deadline().filter(|deadline| *deadline > self.now)
    }

    /// How its restarts have gone, the one included that is about to begin.
    fn track_with_next(&self) -> TrackRecord {
        let last = match self.pace.strategy {
            StrategyType::Rollout => self.facts.restarts.last_restart,
            // What is recorded was, for all we know, when the last of its pods had been replaced.
            StrategyType::Evict | StrategyType::Delete => {
                self.facts.restarts.last_restart.max(self.facts.restarts.recorded)
            }
        };
        let so_far = &self.facts.restarts.track;
        let track = match self.world.lost_record(self.key).is_some() {
            // Whether a rollout that was taken back would have become ready is not known.
            true => so_far.clone(),
            // Before its deadline, or after it was complete.
            false if self.is_known_to_fail() => so_far.clone().failed(),
            false => backoff::track(self.facts, self.now),
        };
        let track = match self.doubted_before() {
            // What is ready are old pods, too.
            Some(_) => TrackRecord { last_good: so_far.last_good.clone(), ..track },
            None => track,
        };
        backoff::one_more(track, &self.pace, last, self.now)
    }

    /// Content-derived, so that a second writing changes nothing. Where the template carries the digest
    /// already though pods run other content (`rollout undo`; content that came back while only the label was
    /// written), the digest alone would leave the template as it is and nobody would restart.
    fn stamp(&self) -> String {
        let digest = &self.content.digest;
        match self.facts.restarts.restarted_for.as_ref() == Some(digest) {
            true => format!("{digest}{STAMPED_AGAIN}"),
            false => digest.clone(),
        }
    }
}

/// The workloads that restart for this object's latest change, now or after a wait, as far as their content
/// is known: not those that a person has to do something about first.
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
