//! What to do about one workload. The content that it runs with is recorded on it, in the applied label, so
//! that no memory of ours is needed: a leader change or a week of downtime loses nothing and repeats nothing.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use super::{
    applied::{Applied, RecordDiff},
    backoff,
    brake::{Pace, Wait},
    cause::causes,
    gates,
    inputs::{InputDigest, Inputs},
    nudge::is_nudged,
    pods::{self, Before},
    progress::progress,
    retry::not_again_yet,
    soak,
    stage::{self, Lines, Readiness},
    state::{Failure, RestartState},
    window,
    workload_plan::{RestartAction, WorkloadPlan},
};
use crate::{
    api::StrategyType,
    model::{
        AGAIN, LastRestart, LostRecord, RestartResult, RolloutFault, TrackRecord, WaitReason, WorkloadFacts,
        World,
    },
    names::WorkloadKey,
    plan::{Need, at_after},
};

/// When to look again at pods that we wait for and do not watch.
pub(super) const LOOK_AGAIN: SignedDuration = SignedDuration::from_secs(5);
/// When to look again though an event should tell: nothing hangs on a single one.
pub(super) const LOOK_AGAIN_ANYWAY: SignedDuration = SignedDuration::from_secs(60);
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

/// Whether a workload is due, and nothing but its turn and windows hold it back.
pub(super) fn readiness(world: &World, key: &WorkloadKey, now: Timestamp) -> Readiness {
    let lines = Lines::default();
    let case = match Case::of(world, &lines, key, now) {
        Ok(case) => case,
        Err(plan) if matches!(plan.state, RestartState::Waiting(_)) => return Readiness::Unknown,
        Err(_) => return Readiness::No,
    };
    let Some(RecordDiff::Content(since)) = case.difference() else { return Readiness::No };
    let known = world.memory().workload(key).restarted.as_ref();
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
    // What it waits for after its turn has come, as last seen.
    let waits = [WaitReason::PodsNotReady, WaitReason::MinInterval, WaitReason::Backoff, WaitReason::Budget];
    if case.tried().is_some()
        || waits.iter().any(|reason| world.memory().workload(key).waits_since(*reason).is_some())
        || gates::pass(gates::DUE, &case, since).is_err()
    {
        return Readiness::Held;
    }
    let shut = window::shut(world, &case.inputs.monitors, since, case.facts.last_restart, now);
    Readiness::Ready(shut.into_iter().map(|(monitor, _)| monitor.clone()).collect())
}

/// One workload, and everything that has to be known of it to decide.
pub(super) struct Case<'w> {
    pub(super) world: &'w World,
    pub(super) lines: &'w Lines,
    pub(super) key: &'w WorkloadKey,
    pub(super) facts: &'w WorkloadFacts,
    pub(super) inputs: Inputs<'w>,
    pub(super) pace: Pace,
    pub(super) content: InputDigest,
    applied: Option<Applied<'w>>,
    pub(super) now: Timestamp,
}

impl<'w> Case<'w> {
    /// What has to be known to decide; or the plan, where it is not, or where there is nothing to decide.
    fn of(
        world: &'w World,
        lines: &'w Lines,
        key: &'w WorkloadKey,
        now: Timestamp,
    ) -> Result<Self, Box<WorkloadPlan>> {
        let wait = |reason| Err(Box::new(Wait::for_event(reason).into()));
        let rest = |state| Err(Box::new(WorkloadPlan::rest(state)));
        let Some(digest_key) = world.key().filter(|_| world.is_complete()) else {
            return wait(WaitReason::Starting);
        };
        let namespace_stays = !world.namespaces().get(&key.namespace).is_some_and(|facts| facts.terminating);
        let facts = world.workloads().get(key).filter(|facts| !facts.deleting && namespace_stays);
        let Some(facts) = facts else { return rest(RestartState::Unwatched) };
        let inputs = Inputs::of(world, key, facts);
        if inputs.pending {
            // Deciding without this monitor's objects would write a label now and another one in a moment.
            return wait(WaitReason::Authority);
        }
        let Some(pace) = inputs.pace.filter(|_| !inputs.is_empty()) else {
            let refused = inputs.refused.map(RestartState::Unauthorized);
            return rest(refused.unwrap_or(RestartState::Unwatched));
        };
        let Some(content) = inputs.content(world, digest_key) else {
            return Err(Box::new(WorkloadPlan::need(inputs.needs(world))));
        };
        let applied = Applied::read(facts.applied.as_deref(), facts.recorded, digest_key);
        Ok(Self { world, lines, key, facts, inputs, pace, content, applied, now })
    }

    /// How the record differs from what is there now; where somebody took the record away, it is to be
    /// written again, and a rollout of ours that went with it is to be done again.
    fn difference(&self) -> Option<RecordDiff> {
        let difference = self.applied.map(|applied| applied.differs(&self.content))?;
        Some(match (difference, self.world.lost_record(self.key), self.content.changed_at) {
            (RecordDiff::Nothing, Some(LostRecord::Rollout), Some(since)) => RecordDiff::Content(since),
            (RecordDiff::Nothing, Some(_), _) => RecordDiff::Scope,
            (difference, ..) => difference,
        })
    }
}

impl Case<'_> {
    fn plan(&self) -> WorkloadPlan {
        let difference = self.difference();
        let pending = self.applied.and_then(|applied| applied.pending);
        if difference == Some(RecordDiff::Nothing) && pending.is_none() {
            return self.current();
        }
        let due = |plan| match (difference, pending) {
            (Some(RecordDiff::Content(since)), _) => self.due_since(since, self.facts.recorded, plan),
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
        if let Err(state) = gates::pass(gates::ADOPTING, self, self.now) {
            return self.hold(state);
        }
        let adoption = self.adoption(self.facts.track.clone());
        self.went(RestartResult::Through, WorkloadPlan::act(RestartState::Unrecorded, adoption))
    }

    /// It runs the current content, for all we know, and something else than recorded counts now. What was
    /// still to be replaced still is.
    fn record(&self, pending: Option<Before>) -> WorkloadPlan {
        if let Err(state) = gates::pass(gates::RECORDING, self, self.now) {
            return self.hold(state);
        }
        let (label, track) = (self.content.label_while(pending), self.facts.track.clone());
        let state = match progress(self.facts, self.now) {
            RestartState::Current => RestartState::Unrecorded,
            state => state,
        };
        WorkloadPlan::act(state, RestartAction::Adopt { label, track })
    }

    /// The content is recorded, and nothing restarts.
    fn adoption(&self, track: TrackRecord) -> RestartAction {
        RestartAction::Adopt { label: self.content.label(), track }
    }

    /// All pods are found to run the content.
    pub(super) fn replaced(&self) -> WorkloadPlan {
        let track = backoff::replaced(self.facts, &self.content.digest, &self.pace);
        let went =
            if self.facts.is_being_replaced() { RestartResult::UnderWay } else { RestartResult::Through };
        self.went(went, WorkloadPlan::act(RestartState::Unrecorded, self.adoption(track)))
    }

    /// How its restarts have gone, the one included that is about to begin.
    pub(super) fn track_with_next(&self) -> TrackRecord {
        let last = match self.pace.strategy {
            StrategyType::Rollout => self.facts.last_restart,
            // What is recorded was, for all we know, when the last of its pods had been replaced.
            StrategyType::Evict | StrategyType::Delete => self.facts.last_restart.max(self.facts.recorded),
        };
        let track = match self.world.lost_record(self.key).is_some() {
            // Whether a rollout that was taken back would have become ready is not known.
            true => self.facts.track.clone(),
            // Before its deadline, or after it was complete.
            false if self.is_known_to_fail() => self.facts.track.clone().failed(),
            false => backoff::track(self.facts, self.now),
        };
        backoff::one_more(track, &self.pace, last, self.now)
    }

    /// Since when something is missing, as far as that is remembered.
    pub(super) fn missing_since(&self) -> Timestamp {
        self.world.memory().workload(self.key).missing_since.unwrap_or(self.now)
    }

    /// It runs the current content. Is the rollout through, too? And where others wait for it: have its pods
    /// become ready, and stayed so?
    fn current(&self) -> WorkloadPlan {
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

    /// It runs changed content and has failed, so that others wait.
    pub(super) fn stage_failed(&self, fault: RolloutFault) -> RestartState {
        let is_other = |content: &&str| *content != self.content.digest;
        let recorded = self.facts.track.last_good.as_deref().filter(is_other);
        let last_good = self.facts.last_good().filter(is_other).or(recorded).map(str::to_owned);
        RestartState::Failed(Failure::Stage { fault, content: self.content.digest.clone(), last_good })
    }

    /// How long it must stay ready before others follow, where others wait for it.
    pub(super) fn soak(&self) -> Option<Duration> {
        stage::staged(self.world, &self.inputs.monitors).map(|(_, _, stage)| stage.soak).max()
    }

    /// The plan, and how the restart goes when it is carried out, where others wait for that.
    pub(super) fn went(&self, went: RestartResult, plan: WorkloadPlan) -> WorkloadPlan {
        let restarted =
            self.soak().map(|_| LastRestart { content: self.content.digest.clone(), result: went });
        WorkloadPlan { restarted, ..plan }
    }

    /// It stands so, and nothing is done: when to look again, and what has to be known.
    pub(super) fn hold(&self, state: RestartState) -> WorkloadPlan {
        let again = |span| Some(pods::add(self.now, span));
        let recheck = match &state {
            // An event of others ends it, on which nothing hangs alone.
            RestartState::Waiting(wait) => match wait.reason {
                WaitReason::Stage | WaitReason::StageStopped => again(LOOK_AGAIN_AT_OTHERS),
                WaitReason::Budget => again(LOOK_AGAIN_ANYWAY),
                WaitReason::RolloutUnfinished => {
                    again(LOOK_AGAIN_ANYWAY).into_iter().chain(self.deadline()).min()
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

    /// A rollout of ours is remembered to fail.
    pub(super) fn is_known_to_fail(&self) -> bool {
        matches!(soak::remembered(self.world, self.key, self.facts), Some(RestartResult::Failed(_)))
    }

    pub(super) fn is_nudged(&self, since: Timestamp, last: Option<Timestamp>) -> bool {
        self.inputs.monitors.iter().any(|monitor| is_nudged(self.world, monitor, since, last))
    }

    /// The label says that it runs other content, or that some of its pods do: those that began before
    /// `since`.
    fn begin_for(&self, since: Timestamp, pending: Option<Before>) -> WorkloadPlan {
        self.first_step(since, pending).unwrap_or_else(|state| self.hold(state))
    }

    fn first_step(&self, since: Timestamp, pending: Option<Before>) -> Result<WorkloadPlan, RestartState> {
        gates::pass(gates::DUE, self, since)?;
        gates::pass(gates::TURN, self, since)?;
        let before = pods::before(since, self.facts.recorded);
        let pods = self.old_pods(since, pending.map_or(before, |pending| pending.max(before)))?;
        let plan = if pods.stale.is_empty() { Ok(self.replaced()) } else { self.begin(&pods) };
        if pods::is_fresh(pods.seen, since, self.now) {
            return plan;
        }
        // Too old to act by, the list still says how it stands.
        let state = plan.map_or_else(|state| state, |_| Wait::for_event(WaitReason::Facts).into());
        let needs = vec![Need::Pods(self.key.clone())];
        Ok(WorkloadPlan { needs, ..self.hold(state) })
    }

    /// Content-derived, so that a second writing changes nothing. Where the template carries the digest
    /// already though pods run other content (`rollout undo`; content that came back while only the label was
    /// written), the digest alone would leave the template as it is and nobody would restart.
    pub(super) fn stamp(&self) -> String {
        let digest = &self.content.digest;
        match self.facts.restarted_for.as_ref() == Some(digest) {
            true => format!("{digest}{AGAIN}"),
            false => digest.clone(),
        }
    }

    /// An attempt for this very content was refused: tried again when its time has come.
    fn tried(&self) -> Option<WorkloadPlan> {
        let attempt = self.world.memory().workload(self.key).attempt.as_deref()?;
        let state = not_again_yet(attempt, &self.content.label(), self.now)?;
        Some(WorkloadPlan { recheck: Some(attempt.retry_at), ..WorkloadPlan::rest(state) })
    }
}
