//! What to do about one workload. The content that it runs with is recorded on it, in the applied label, so
//! that no memory of ours is needed: a leader change or a week of downtime loses nothing and repeats nothing.

use jiff::{SignedDuration, Timestamp};

use super::{
    Need,
    applied::{Applied, Difference},
    backoff,
    brake::{self, Pace, Wait, WaitReason},
    budget::has_place,
    inputs::{Content, Inputs},
    pods::{self, Before, Removal, RemovePod},
    progress::progress,
};
use crate::{
    api::StrategyType,
    model::{
        AGAIN, NamespacedName, PodsSeen, Rollout, Taken, TrackRecord, WorkloadFacts, WorkloadKey, World,
    },
};

/// When to look again at pods that we wait for and do not watch.
pub(super) const LOOK_AGAIN: SignedDuration = SignedDuration::from_secs(5);
/// When to look again though an event should tell: nothing hangs on a single one.
pub(super) const LOOK_AGAIN_ANYWAY: SignedDuration = SignedDuration::from_secs(60);

/// One workload: how it stands, what to do now, what is lacking to decide, and when to look again by the clock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkloadPlan {
    /// How it stands.
    pub state: WorkloadState,
    /// What to do now.
    pub action: Option<RestartAction>,
    /// What must be fetched to decide.
    pub needs: Vec<Need>,
    /// When to plan again though nothing has happened.
    pub recheck: Option<Timestamp>,
    /// Since when its pods may run old content.
    pub due_since: Option<Timestamp>,
}

/// How a workload stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WorkloadState {
    /// Nobody asks for its restarts.
    NotWatched,
    /// This monitor reaches it, and may not.
    Unauthorized(NamespacedName),
    /// It runs the current content.
    UpToDate,
    /// A restart is due, or it cannot be said yet, and this has to pass first.
    Waiting(Wait),
    /// It is being restarted.
    Restarting,
    /// A restart is due, and it is paused: due when resumed.
    Paused,
    /// A restart is due, and its own annotation says that nobody restarts it: due when that is taken away.
    Suspended,
    /// Pods below the partition run old content: whoever set it lets them go by lowering it.
    Held {
        /// The partition.
        partition: i32,
        /// How many pods below it run old content.
        old: usize,
    },
    /// It could not be restarted.
    Failed {
        /// One word from the list in [`crate::plan::monitor_status`].
        reason: &'static str,
        /// What is wrong.
        message: String,
    },
}

/// One thing to do to a workload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RestartAction {
    /// Record the content that it runs with: no restart.
    Adopt {
        /// The applied label.
        label: String,
        /// How its restarts have gone, for the labels that say so.
        track: TrackRecord,
    },
    /// Change the pod template's annotation, and record the content, in one request.
    Rollout {
        /// The applied label.
        label: String,
        /// The pod template's annotation.
        stamp: String,
        /// How its restarts have gone, this one included, for the labels that say so.
        track: TrackRecord,
    },
    /// Record that pods are to be replaced one by one: the first step of it, so that nothing of it is only in memory.
    Begin {
        /// The applied label.
        label: String,
        /// How its restarts have gone, this one included, for the labels that say so.
        track: TrackRecord,
    },
    /// Remove pods.
    RemovePods {
        /// For this content, as it will be recorded.
        label: String,
        /// Which.
        pods: Vec<RemovePod>,
        /// How.
        how: Removal,
    },
}

impl RestartAction {
    /// Whether pods are replaced for it.
    pub fn restarts(&self) -> bool {
        !matches!(self, Self::Adopt { .. })
    }

    /// The content that it is for, as a [`crate::model::RestartAttempt`] names it.
    pub fn label(&self) -> &str {
        match self {
            Self::Adopt { label, .. }
            | Self::Rollout { label, .. }
            | Self::Begin { label, .. }
            | Self::RemovePods { label, .. } => label,
        }
    }
}

impl WorkloadPlan {
    pub(super) fn rest(state: WorkloadState) -> Self {
        Self { state, action: None, needs: Vec::new(), recheck: None, due_since: None }
    }

    pub(super) fn act(state: WorkloadState, action: RestartAction) -> Self {
        Self { action: Some(action), ..Self::rest(state) }
    }

    pub(super) fn need(needs: Vec<Need>) -> Self {
        Self { needs, ..Self::rest(WorkloadState::Waiting(Wait::for_event(WaitReason::Facts))) }
    }
}

impl From<Wait> for WorkloadPlan {
    fn from(wait: Wait) -> Self {
        Self { recheck: wait.until, ..Self::rest(WorkloadState::Waiting(wait)) }
    }
}

/// What to do about one workload.
pub fn plan_workload(world: &World, key: &WorkloadKey, now: Timestamp) -> WorkloadPlan {
    let starting = || Wait::for_event(WaitReason::Starting).into();
    let Some(digest_key) = world.key.as_ref().filter(|_| world.is_complete()) else { return starting() };
    let namespace_stays = !world.namespaces.get(&key.namespace).is_some_and(|facts| facts.terminating);
    let facts = world.workloads.get(key).filter(|facts| !facts.deleting && namespace_stays);
    let Some(facts) = facts else { return WorkloadPlan::rest(WorkloadState::NotWatched) };
    let inputs = Inputs::of(world, key, facts);
    if inputs.pending {
        // Deciding without this monitor's objects would write a label now and another one in a moment.
        return Wait::for_event(WaitReason::Authority).into();
    }
    let Some(pace) = inputs.pace.filter(|_| !inputs.is_empty()) else {
        let refused = inputs.refused.map(WorkloadState::Unauthorized);
        return WorkloadPlan::rest(refused.unwrap_or(WorkloadState::NotWatched));
    };
    let Some(content) = inputs.content(world, digest_key) else {
        return WorkloadPlan::need(inputs.needs(world));
    };
    let applied = Applied::read(facts.applied.as_deref(), facts.recorded, digest_key);
    Case { world, key, facts, inputs: &inputs, pace, content: &content, now }.plan(applied)
}

pub(super) struct Case<'a, 'w> {
    pub(super) world: &'w World,
    pub(super) key: &'a WorkloadKey,
    pub(super) facts: &'w WorkloadFacts,
    inputs: &'a Inputs<'w>,
    pub(super) pace: Pace,
    pub(super) content: &'a Content,
    pub(super) now: Timestamp,
}

impl Case<'_, '_> {
    fn plan(&self, applied: Option<Applied<'_>>) -> WorkloadPlan {
        let mut difference = applied.map(|applied| applied.differs(self.content));
        let pending = applied.and_then(|applied| applied.pending);
        if difference == Some(Difference::Nothing) {
            difference = match (self.world.taken.get(self.key), self.content.changed_at) {
                (None, _) if pending.is_none() => {
                    let recheck = self.facts.rollout_deadline().filter(|deadline| *deadline > self.now);
                    return WorkloadPlan { recheck, ..WorkloadPlan::rest(progress(self.facts, self.now)) };
                }
                (None, _) => difference,
                (Some(Taken::Rollout), Some(since)) => Some(Difference::Content(since)),
                (Some(_), _) => Some(Difference::Scope),
            };
        }
        if let Some(plan) = self.failed_before() {
            return plan;
        }
        match difference {
            Some(Difference::Nothing) => match pending {
                None => WorkloadPlan::rest(progress(self.facts, self.now)),
                Some(before) => WorkloadPlan { due_since: Some(before.time()), ..self.go_on(before) },
            },
            None => self.adopt().unwrap_or_else(WorkloadPlan::from),
            Some(Difference::Scope) => self.record(pending).unwrap_or_else(WorkloadPlan::from),
            Some(Difference::Content(since)) => {
                let plan = self.due(since, pending).unwrap_or_else(WorkloadPlan::from);
                WorkloadPlan { due_since: Some(since), ..plan }
            }
        }
    }

    /// Seen for the first time: what runs now is taken for current. Also while paused, or a change made during
    /// the pause would not be seen. Pods that still wait for an object that is not there yet will start with it:
    /// adopted without it, they would restart for it as soon as it comes (External Secrets, sealed Secrets).
    fn adopt(&self) -> Result<WorkloadPlan, Wait> {
        let is_rolling = matches!(self.facts.rollout, Rollout::Unfinished | Rollout::Stuck);
        let is_starting = is_rolling || (self.facts.available == 0 && self.facts.desired > 0);
        if !self.inputs.missing.is_empty() && is_starting {
            return Err(Wait::for_event(WaitReason::MissingObject));
        }
        if self.inputs.objects.is_empty() {
            self.patience()?;
        }
        Ok(WorkloadPlan::act(WorkloadState::UpToDate, self.adoption(self.facts.track.clone())))
    }

    /// It runs the current content, for all we know, and something else than recorded counts now. What was still to be
    /// replaced still is.
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
    pub(super) fn adoption(&self, track: TrackRecord) -> RestartAction {
        RestartAction::Adopt { label: self.content.label(), track }
    }

    /// All pods are found to run the content.
    pub(super) fn replaced(&self) -> WorkloadPlan {
        let track = backoff::replaced(self.facts, &self.content.digest, &self.pace);
        WorkloadPlan::act(WorkloadState::UpToDate, self.adoption(track))
    }

    /// How its restarts have gone, the one included that is about to begin.
    pub(super) fn track_with_next(&self) -> TrackRecord {
        let last = match self.pace.strategy {
            StrategyType::Rollout => self.facts.last_restart,
            // What is recorded was, for all we know, when the last of its pods had been replaced.
            StrategyType::Evict | StrategyType::Delete => self.facts.last_restart.max(self.facts.recorded),
        };
        // Whether a rollout that was taken back would have become ready is not known.
        let track = match self.world.taken.contains_key(self.key) {
            true => self.facts.track.clone(),
            false => backoff::track(self.facts, self.now),
        };
        backoff::one_more(track, &self.pace, last, self.now)
    }

    /// While something is missing the digest lacks its content: recorded now, its return would look like a change, and
    /// `kubectl replace --force` would restart everybody for nothing.
    pub(super) fn patience(&self) -> Result<(), Wait> {
        if self.inputs.missing.is_empty() {
            return Ok(());
        }
        brake::patience(WaitReason::MissingObject, self.missing_since(), self.now)
    }

    fn missing_since(&self) -> Timestamp {
        self.world.missing_since.get(self.key).copied().unwrap_or(self.now)
    }

    /// The label says that it runs other content, or that some of its pods do: those that began before `since`.
    fn due(&self, since: Timestamp, pending: Option<Before>) -> Result<WorkloadPlan, Wait> {
        let by_rollout = self.pace.strategy == StrategyType::Rollout;
        if let Some(state) = self.stopped() {
            return Ok(WorkloadPlan::rest(state));
        }
        let unsettled = self.world.waits.since(self.key, WaitReason::QuietPeriod.as_str());
        brake::quiet(&self.pace, since, unsettled, self.now)?;
        self.patience()?;
        if by_rollout && self.facts.rollout_at(self.now) == Rollout::Unfinished {
            return Ok(self.after_rollout());
        }
        let (track, last) = (backoff::track(self.facts, self.now), self.facts.last_restart);
        backoff::circuit(&track, last, self.now)?;
        backoff::interval(&self.pace, track.streak, last, self.now)?;
        if self.waits_for_place() && !has_place(self.world, self.key, self.now) {
            // Its pods are listed again when it is its turn.
            return Ok(self.look_anyway(WaitReason::Budget));
        }
        let Some(seen) = self.pods(since) else {
            return Ok(WorkloadPlan::need(vec![Need::Pods(self.key.clone())]));
        };
        let before = pods::before(since, self.facts.recorded);
        let before = pending.map_or(before, |pending| pending.max(before));
        let stale = self.stale(seen, before);
        if stale.is_empty() {
            return Ok(self.replaced());
        }
        self.begin(seen, &stale, before)
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
        self.world.waits.since(self.key, WaitReason::Budget.as_str()).is_some()
    }

    /// Content-derived, so that a second writing changes nothing. Where the template carries the digest already
    /// though pods run other content (`rollout undo`; content that came back while only the label was written),
    /// the digest alone would leave the template as it is and nobody would restart.
    pub(super) fn stamp(&self) -> String {
        let digest = &self.content.digest;
        match self.facts.restarted_for.as_ref() == Some(digest) {
            true => format!("{digest}{AGAIN}"),
            false => digest.clone(),
        }
    }

    /// Whether the template carries the content already.
    pub(super) fn is_stamped(&self) -> bool {
        let stamp = self.facts.restarted_for.as_deref();
        stamp.is_some_and(|stamp| stamp.strip_suffix(AGAIN).unwrap_or(stamp) == self.content.digest)
    }

    /// The list of pods, where one can decide by it, and of this version of the workload.
    fn pods(&self, since: Timestamp) -> Option<&PodsSeen> {
        self.last_seen().filter(|seen| pods::is_fresh(seen, since, self.now))
    }

    /// An attempt for this very content was refused: tried again when its time has come.
    fn failed_before(&self) -> Option<WorkloadPlan> {
        let attempt = self.world.restart_attempts.get(self.key)?;
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
