//! What to do about one workload. The content that it runs with is recorded on it, in the applied label, so
//! that no memory of ours is needed: a leader change or a week of downtime loses nothing and repeats nothing.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use super::{
    applied::{Applied, Difference},
    backoff,
    brake::{self, Pace, Wait, WaitReason},
    budget::has_place,
    cause::causes,
    inputs::{Content, Inputs},
    nudge::is_nudged,
    pods::{self, Before},
    progress::progress,
    soak,
    stage::{self, Due, Lines},
    window,
    workload_plan::{RestartAction, WorkloadPlan, WorkloadState},
};
use crate::{
    api::StrategyType,
    model::{AGAIN, Restarted, Rollout, Taken, TrackRecord, Went, WorkloadFacts, World},
    names::WorkloadKey,
    plan::Need,
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
pub(super) fn plan_in_line(world: &World, lines: &Lines, key: &WorkloadKey, now: Timestamp) -> WorkloadPlan {
    Case::of(world, lines, key, now).map_or_else(|plan| *plan, |case| case.plan())
}

/// Whether a workload is due, and nothing but its turn and windows hold it back.
pub(super) fn readiness(world: &World, key: &WorkloadKey, now: Timestamp) -> Due {
    let lines = Lines::default();
    let case = match Case::of(world, &lines, key, now) {
        Ok(case) => case,
        Err(plan) if matches!(plan.state, WorkloadState::Waiting(_)) => return Due::Unknown,
        Err(_) => return Due::No,
    };
    let Some(Difference::Content(since)) = case.difference() else { return Due::No };
    let known = world.memory().workload(key).restarted.as_ref();
    if known
        .is_some_and(|known| known.content == case.content.digest && matches!(known.went, Went::Failed(_)))
    {
        return Due::Failed;
    }
    if case.stopped() == Some(WorkloadState::Suspended) {
        return Due::No;
    }
    if case.is_seen_held(since) {
        return Due::Left;
    }
    // What it waits for after its turn has come, as last seen.
    let waits = [WaitReason::PodsNotReady, WaitReason::MinInterval, WaitReason::Backoff, WaitReason::Budget];
    if case.failed_before().is_some()
        || waits.iter().any(|reason| world.memory().workload(key).waits_since(reason.as_str()).is_some())
        || !matches!(case.held_back(since), Ok(None))
    {
        return Due::Held;
    }
    let shut = window::shut(world, &case.inputs.monitors, since, case.facts.last_restart, now);
    Due::Ready(shut.into_iter().map(|(monitor, _)| monitor.clone()).collect())
}

/// One workload, and everything that has to be known of it to decide.
pub(super) struct Case<'w> {
    pub(super) world: &'w World,
    pub(super) lines: &'w Lines,
    pub(super) key: &'w WorkloadKey,
    pub(super) facts: &'w WorkloadFacts,
    pub(super) inputs: Inputs<'w>,
    pub(super) pace: Pace,
    pub(super) content: Content,
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
        let Some(facts) = facts else { return rest(WorkloadState::NotWatched) };
        let inputs = Inputs::of(world, key, facts);
        if inputs.pending {
            // Deciding without this monitor's objects would write a label now and another one in a moment.
            return wait(WaitReason::Authority);
        }
        let Some(pace) = inputs.pace.filter(|_| !inputs.is_empty()) else {
            let refused = inputs.refused.map(WorkloadState::Unauthorized);
            return rest(refused.unwrap_or(WorkloadState::NotWatched));
        };
        let Some(content) = inputs.content(world, digest_key) else {
            return Err(Box::new(WorkloadPlan::need(inputs.needs(world))));
        };
        let applied = Applied::read(facts.applied.as_deref(), facts.recorded, digest_key);
        Ok(Self { world, lines, key, facts, inputs, pace, content, applied, now })
    }

    /// How the record differs from what is there now; where somebody took the record away, it is to be
    /// written again, and a rollout of ours that went with it is to be done again.
    fn difference(&self) -> Option<Difference> {
        let difference = self.applied.map(|applied| applied.differs(&self.content))?;
        Some(match (difference, self.world.taken(self.key), self.content.changed_at) {
            (Difference::Nothing, Some(Taken::Rollout), Some(since)) => Difference::Content(since),
            (Difference::Nothing, Some(_), _) => Difference::Scope,
            (difference, ..) => difference,
        })
    }
}

impl Case<'_> {
    fn plan(&self) -> WorkloadPlan {
        let difference = self.difference();
        let pending = self.applied.and_then(|applied| applied.pending);
        if difference == Some(Difference::Nothing) && pending.is_none() {
            return self.current();
        }
        if let Some(plan) = self.failed_before() {
            return match (difference, pending) {
                (Some(Difference::Content(since)), _) => self.since(since, plan),
                (_, Some(before)) => self.begun(before, plan),
                _ => plan,
            };
        }
        match (difference, pending) {
            (None, _) => self.adopt().unwrap_or_else(WorkloadPlan::from),
            (Some(Difference::Nothing), None) => self.current(),
            (Some(Difference::Nothing), Some(before)) => self.begun(before, self.go_on(before)),
            (Some(Difference::Scope), pending) => self.record(pending).unwrap_or_else(WorkloadPlan::from),
            (Some(Difference::Content(since)), pending) => {
                self.since(since, self.due(since, pending).unwrap_or_else(|wait| self.wait(wait)))
            }
        }
    }

    fn since(&self, since: Timestamp, plan: WorkloadPlan) -> WorkloadPlan {
        let causes = causes(self.world, &self.inputs, self.facts.recorded);
        WorkloadPlan { due_since: Some(since), causes, ..plan }
    }

    /// Since it was written that pods are to be replaced, nothing has changed.
    fn begun(&self, before: Before, plan: WorkloadPlan) -> WorkloadPlan {
        let causes = causes(self.world, &self.inputs, None);
        WorkloadPlan { due_since: Some(before.time()), causes, ..plan }
    }

    /// Seen for the first time: what runs now is taken for current. Also while paused, or a change made
    /// during the pause would not be seen. Pods that still wait for an object that is not there yet will
    /// start with it: adopted without it, they would restart for it as soon as it comes (External Secrets,
    /// sealed Secrets).
    fn adopt(&self) -> Result<WorkloadPlan, Wait> {
        let is_rolling = matches!(self.facts.rollout, Rollout::Unfinished | Rollout::Stuck);
        let is_starting = is_rolling || (self.facts.available == 0 && self.facts.desired > 0);
        if !self.inputs.missing.is_empty() && is_starting {
            return Err(Wait::for_event(WaitReason::MissingObject));
        }
        if self.inputs.objects.is_empty() {
            self.patience()?;
        }
        let adoption = self.adoption(self.facts.track.clone());
        Ok(self.went(Went::Through, WorkloadPlan::act(WorkloadState::UpToDate, adoption)))
    }

    /// It runs the current content, for all we know, and something else than recorded counts now. What was
    /// still to be replaced still is.
    ///
    /// Also what pods can do without is waited for: recorded without it, its return would look like a change.
    fn record(&self, pending: Option<Before>) -> Result<WorkloadPlan, Wait> {
        self.patience()?;
        if !self.inputs.absent.is_empty() {
            brake::patience(WaitReason::AbsentObject, self.missing_since(), self.now)?;
        }
        let (label, track) = (self.content.label_while(pending), self.facts.track.clone());
        Ok(WorkloadPlan::act(progress(self.facts, self.now), RestartAction::Adopt { label, track }))
    }

    /// The content is recorded, and nothing restarts.
    fn adoption(&self, track: TrackRecord) -> RestartAction {
        RestartAction::Adopt { label: self.content.label(), track }
    }

    /// All pods are found to run the content.
    pub(super) fn replaced(&self) -> WorkloadPlan {
        let track = backoff::replaced(self.facts, &self.content.digest, &self.pace);
        let went = if self.facts.is_being_replaced() { Went::UnderWay } else { Went::Through };
        self.went(went, WorkloadPlan::act(WorkloadState::UpToDate, self.adoption(track)))
    }

    /// How its restarts have gone, the one included that is about to begin.
    pub(super) fn track_with_next(&self) -> TrackRecord {
        let last = match self.pace.strategy {
            StrategyType::Rollout => self.facts.last_restart,
            // What is recorded was, for all we know, when the last of its pods had been replaced.
            StrategyType::Evict | StrategyType::Delete => self.facts.last_restart.max(self.facts.recorded),
        };
        let track = match self.world.taken(self.key).is_some() {
            // Whether a rollout that was taken back would have become ready is not known.
            true => self.facts.track.clone(),
            // Before its deadline, or after it was complete.
            false if self.is_known_to_fail() => self.facts.track.clone().failed(),
            false => backoff::track(self.facts, self.now),
        };
        backoff::one_more(track, &self.pace, last, self.now)
    }

    /// While something is missing the digest lacks its content: recorded now, its return would look like a
    /// change, and `kubectl replace --force` would restart everybody for nothing.
    pub(super) fn patience(&self) -> Result<(), Wait> {
        if self.inputs.missing.is_empty() {
            return Ok(());
        }
        brake::patience(WaitReason::MissingObject, self.missing_since(), self.now)
    }

    fn missing_since(&self) -> Timestamp {
        self.world.memory().workload(self.key).missing_since.unwrap_or(self.now)
    }

    /// It runs the current content. Is the rollout through, too? And where others wait for it: have its pods
    /// become ready, and stayed so?
    fn current(&self) -> WorkloadPlan {
        let deadline = self.facts.rollout_deadline().filter(|deadline| *deadline > self.now);
        let plan = WorkloadPlan { recheck: deadline, ..WorkloadPlan::rest(progress(self.facts, self.now)) };
        let Some(soak) = self.soak() else { return plan };
        let by_removal = self.pace.strategy != StrategyType::Rollout;
        let course = soak::course(self.world, self.key, self.facts, by_removal, soak, self.now);
        let state = match &course.went {
            Went::Through => plan.state,
            Went::UnderWay | Went::Soaking => WorkloadState::Restarting,
            Went::Failed(_) if backoff::is_open(&backoff::track(self.facts, self.now)) => plan.state,
            Went::Failed(why) => {
                WorkloadState::Failed { reason: "StageFailed", message: self.stage_failed(why) }
            }
        };
        let needs = course.needs_pods.then(|| Need::Pods(self.key.clone())).into_iter().collect();
        let recheck = course.recheck.into_iter().chain(deadline).min();
        self.went(course.went, WorkloadPlan { needs, recheck, ..WorkloadPlan::rest(state) })
    }

    pub(super) fn stage_failed(&self, why: &str) -> String {
        let is_other = |content: &&str| *content != self.content.digest;
        let recorded = self.facts.track.last_good.as_deref().filter(is_other);
        let last_good = self.facts.last_good().filter(is_other).or(recorded);
        let last_good = last_good.map_or("the last that worked is not known".to_owned(), |content| {
            format!("the last that worked is {content}")
        });
        format!(
            "runs changed content and has failed: {why}. This content is {}, {last_good}. No other workload of its \
             monitor restarts before it is ready or its content is changed",
            self.content.digest
        )
    }

    /// How long it must stay ready before others follow, where others wait for it.
    pub(super) fn soak(&self) -> Option<Duration> {
        stage::staged(self.world, &self.inputs.monitors).map(|(_, _, stage)| stage.soak).max()
    }

    /// The plan, and how the restart goes when it is carried out, where others wait for that.
    pub(super) fn went(&self, went: Went, plan: WorkloadPlan) -> WorkloadPlan {
        let restarted = self.soak().map(|_| Restarted { content: self.content.digest.clone(), went });
        WorkloadPlan { restarted, ..plan }
    }

    /// A wait for others ends with an event of theirs, on which nothing hangs alone.
    pub(super) fn wait(&self, wait: Wait) -> WorkloadPlan {
        let is_for_others = matches!(wait.reason, WaitReason::Stage | WaitReason::StageStopped);
        let anyway = is_for_others.then(|| pods::add(self.now, LOOK_AGAIN_AT_OTHERS));
        WorkloadPlan { recheck: wait.until.or(anyway), ..WorkloadPlan::from(wait) }
    }

    /// What holds back a restart and has nothing to do with other workloads, nor with its pods.
    fn held_back(&self, since: Timestamp) -> Result<Option<WorkloadPlan>, Wait> {
        if let Some(state) = self.stopped() {
            return Ok(Some(WorkloadPlan::rest(state)));
        }
        let unsettled = self.world.memory().workload(self.key).waits_since(WaitReason::QuietPeriod.as_str());
        brake::quiet(&self.pace, since, unsettled, self.now)?;
        self.patience()?;
        let is_rolling = self.pace.strategy == StrategyType::Rollout
            && self.facts.rollout_at(self.now) == Rollout::Unfinished;
        if is_rolling && !self.is_known_to_fail() {
            return Ok(Some(self.after_rollout()));
        }
        if !self.is_nudged(since, self.facts.last_restart) {
            let (track, last) = (backoff::track(self.facts, self.now), self.facts.last_restart);
            backoff::circuit(&track, last, self.now)?;
            backoff::interval(&self.pace, track.streak, last, self.now)?;
        }
        Ok(None)
    }

    /// A rollout that crashes need not reach its deadline before content that may mend it follows.
    fn is_known_to_fail(&self) -> bool {
        matches!(soak::remembered(self.world, self.key, self.facts), Some(Went::Failed(_)))
    }

    pub(super) fn is_nudged(&self, since: Timestamp, last: Option<Timestamp>) -> bool {
        self.inputs.monitors.iter().any(|monitor| is_nudged(self.world, monitor, since, last))
    }

    /// The label says that it runs other content, or that some of its pods do: those that began before
    /// `since`.
    fn due(&self, since: Timestamp, pending: Option<Before>) -> Result<WorkloadPlan, Wait> {
        if let Some(plan) = self.held_back(since)? {
            return Ok(plan);
        }
        // This comes before its pods are listed: few of the hundreds that are due have their turn.
        stage::may_go(self.world, self.lines, self.key, &self.inputs.monitors, self.now)
            .map_err(Wait::for_event)?;
        if self.waits_for_place() && !has_place(self.world, self.key, self.now) {
            // Its pods are listed again when it is its turn.
            return Ok(self.look_anyway(WaitReason::Budget));
        }
        let need = || WorkloadPlan::need(vec![Need::Pods(self.key.clone())]);
        let Some(seen) = self.last_seen() else { return Ok(need()) };
        let before = pods::before(since, self.facts.recorded);
        let before = pending.map_or(before, |pending| pending.max(before));
        let stale = self.stale(seen, before);
        let plan = match stale.is_empty() {
            true => Ok(self.replaced()),
            false => self.begin(seen, &stale, since, before),
        };
        match plan {
            plan if pods::is_fresh(seen, since, self.now) => plan,
            // Too old to act by, it still says what is waited for.
            Err(wait) => Ok(WorkloadPlan { needs: need().needs, ..self.wait(wait) }),
            Ok(_) => Ok(need()),
        }
    }

    pub(super) fn after_rollout(&self) -> WorkloadPlan {
        let plan = self.look_anyway(WaitReason::RolloutUnfinished);
        let deadline = self.facts.rollout_deadline().filter(|deadline| *deadline > self.now);
        WorkloadPlan { recheck: plan.recheck.min(deadline.or(plan.recheck)), ..plan }
    }

    /// Waits for an event, and does not rely on it.
    pub(super) fn look_anyway(&self, reason: WaitReason) -> WorkloadPlan {
        let state = WorkloadState::Waiting(Wait::for_event(reason));
        let recheck = Some(pods::add(self.now, LOOK_AGAIN_ANYWAY));
        WorkloadPlan { recheck, ..WorkloadPlan::rest(state) }
    }

    fn waits_for_place(&self) -> bool {
        self.world.memory().workload(self.key).waits_since(WaitReason::Budget.as_str()).is_some()
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

    /// Whether the template carries the content already.
    pub(super) fn is_stamped(&self) -> bool {
        self.facts.stamped_for() == Some(&*self.content.digest)
    }

    /// An attempt for this very content was refused: tried again when its time has come.
    fn failed_before(&self) -> Option<WorkloadPlan> {
        let attempt = self.world.memory().workload(self.key).attempt.as_deref()?;
        if !attempt.label.starts_with(&self.content.label()) || attempt.retry_at <= self.now {
            return None;
        }
        let state = match attempt.reason {
            "DisruptionBudget" => {
                WorkloadState::Waiting(Wait::until(WaitReason::DisruptionBudget, attempt.retry_at))
            }
            reason => WorkloadState::Failed { reason, message: attempt.message.clone() },
        };
        Some(WorkloadPlan { recheck: Some(attempt.retry_at), ..WorkloadPlan::rest(state) })
    }
}
