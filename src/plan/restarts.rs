//! What to do about one workload. The content that it runs with is recorded on it, in the applied label, so
//! that no memory of ours is needed: a leader change or a week of downtime loses nothing and repeats nothing.

use jiff::{SignedDuration, Timestamp};

use super::{
    Need,
    applied::{Applied, Difference},
    brake::{self, Pace, Wait, WaitReason},
    cause::{Cause, causes},
    inputs::{Content, Inputs},
    pods::{self, Removal, RemovePod},
};
use crate::{
    api::StrategyType,
    model::{NamespacedName, PodFacts, PodsSeen, Rollout, WorkloadFacts, WorkloadKey, World},
};

/// When to look again at pods that we wait for and do not watch.
pub(super) const LOOK_AGAIN: SignedDuration = SignedDuration::from_secs(5);
/// When to look again though an event should tell: nothing hangs on a single one.
const LOOK_AGAIN_ANYWAY: SignedDuration = SignedDuration::from_secs(60);
/// Ends the pod template's annotation where the digest alone would change nothing.
const AGAIN: &str = "-again";

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
    /// What has changed, where a restart is due; empty where only keys have gone.
    pub causes: Vec<Cause>,
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
    /// A restart is due, and a template change alone does not replace its pods (OnDelete, partition).
    Held,
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
    },
    /// Change the pod template's annotation, and record the content, in one request.
    Rollout {
        /// The applied label.
        label: String,
        /// The pod template's annotation.
        stamp: String,
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
    /// The content that it is for, as a [`crate::model::RestartAttempt`] names it.
    pub fn label(&self) -> &str {
        match self {
            Self::Adopt { label } | Self::Rollout { label, .. } | Self::RemovePods { label, .. } => label,
        }
    }
}

impl WorkloadPlan {
    fn rest(state: WorkloadState) -> Self {
        Self { state, action: None, needs: Vec::new(), recheck: None, due_since: None, causes: Vec::new() }
    }

    fn act(state: WorkloadState, action: RestartAction) -> Self {
        Self { action: Some(action), ..Self::rest(state) }
    }

    fn need(needs: Vec<Need>) -> Self {
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
    let Some(pace) = inputs.pace.filter(|_| !(inputs.objects.is_empty() && inputs.missing.is_empty())) else {
        let refused = inputs.refused.map(WorkloadState::Unauthorized);
        return WorkloadPlan::rest(refused.unwrap_or(WorkloadState::NotWatched));
    };
    let Some(content) = inputs.content(world, digest_key) else {
        return WorkloadPlan::need(inputs.needs(world));
    };
    let applied = Applied::read(facts.applied.as_deref(), facts.recorded, digest_key);
    Case { world, key, facts, inputs: &inputs, pace, content: &content, now }.plan(applied)
}

struct Case<'a, 'w> {
    world: &'w World,
    key: &'a WorkloadKey,
    facts: &'w WorkloadFacts,
    inputs: &'a Inputs<'w>,
    pace: Pace,
    content: &'a Content,
    now: Timestamp,
}

impl Case<'_, '_> {
    fn plan(&self, applied: Option<Applied<'_>>) -> WorkloadPlan {
        let difference = applied.map(|applied| applied.differs(self.content));
        if difference == Some(Difference::Nothing) {
            return WorkloadPlan::rest(self.progress());
        }
        if let Some(plan) = self.failed_before() {
            return match difference {
                Some(Difference::Content(since)) => self.since(since, plan),
                _ => plan,
            };
        }
        match difference {
            Some(Difference::Nothing) | None => self.adopt().unwrap_or_else(WorkloadPlan::from),
            Some(Difference::Scope) => self.record().unwrap_or_else(WorkloadPlan::from),
            Some(Difference::Content(since)) => {
                self.since(since, self.due(since).unwrap_or_else(WorkloadPlan::from))
            }
        }
    }

    fn since(&self, since: Timestamp, plan: WorkloadPlan) -> WorkloadPlan {
        let causes = causes(self.world, self.inputs, self.facts.recorded);
        WorkloadPlan { due_since: Some(since), causes, ..plan }
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
        Ok(WorkloadPlan::act(WorkloadState::UpToDate, self.adoption()))
    }

    /// It runs the current content, for all we know, and something else than recorded counts now.
    fn record(&self) -> Result<WorkloadPlan, Wait> {
        self.patience()?;
        Ok(WorkloadPlan::act(self.progress(), self.adoption()))
    }

    fn adoption(&self) -> RestartAction {
        RestartAction::Adopt { label: self.content.label() }
    }

    /// While something is missing the digest lacks its content: recorded now, its return would look like a change, and
    /// `kubectl replace --force` would restart everybody for nothing.
    fn patience(&self) -> Result<(), Wait> {
        if self.inputs.missing.is_empty() {
            return Ok(());
        }
        let since = self.world.missing_since.get(self.key).copied();
        brake::patience(since.unwrap_or(self.now), self.now)
    }

    /// The label says that it is current: is the rollout through, too?
    fn progress(&self) -> WorkloadState {
        let stamp = self.facts.restarted_for.as_deref();
        let is_ours =
            stamp.is_some_and(|stamp| stamp.strip_suffix(AGAIN).unwrap_or(stamp) == self.content.digest);
        match self.facts.rollout {
            Rollout::Unfinished if is_ours => WorkloadState::Restarting,
            Rollout::Stuck if is_ours => WorkloadState::Failed {
                reason: "RolloutStuck",
                message: "its progress deadline has passed since the restart; see the events of its pods"
                    .into(),
            },
            _ => WorkloadState::UpToDate,
        }
    }

    /// The label says that it runs other content, or that some of its pods do: those that began before `since`.
    fn due(&self, since: Timestamp) -> Result<WorkloadPlan, Wait> {
        let by_rollout = self.pace.strategy == StrategyType::Rollout;
        if self.facts.rollout == Rollout::Paused {
            return Ok(WorkloadPlan::rest(WorkloadState::Paused));
        }
        brake::quiet(&self.pace, since, self.now)?;
        self.patience()?;
        if by_rollout && self.facts.rollout == Rollout::Unfinished {
            return Ok(self.after_rollout());
        }
        brake::interval(&self.pace, self.facts.last_restart, self.now)?;
        let Some(seen) = self.pods(since) else {
            return Ok(WorkloadPlan::need(vec![Need::Pods(self.key.clone())]));
        };
        let stale: Vec<&PodFacts> = seen.pods.iter().filter(|pod| self.is_stale(pod, since)).collect();
        if stale.is_empty() {
            return Ok(WorkloadPlan::act(WorkloadState::UpToDate, self.adoption()));
        }
        if !by_rollout {
            return self.remove(seen, &stale);
        }
        if self.facts.rollout == Rollout::Manual {
            return Ok(WorkloadPlan::rest(WorkloadState::Held));
        }
        let action = RestartAction::Rollout { label: self.content.label(), stamp: self.stamp() };
        Ok(WorkloadPlan::act(WorkloadState::Restarting, action))
    }

    fn after_rollout(&self) -> WorkloadPlan {
        let state = WorkloadState::Waiting(Wait::for_event(WaitReason::RolloutUnfinished));
        let recheck = Some(pods::add(self.now, LOOK_AGAIN_ANYWAY));
        WorkloadPlan { recheck, ..WorkloadPlan::rest(state) }
    }

    /// Content-derived, so that a second writing changes nothing. Where the template carries the digest already
    /// though pods run other content (`rollout undo`; content that came back while only the label was written),
    /// the digest alone would leave the template as it is and nobody would restart.
    fn stamp(&self) -> String {
        let digest = &self.content.digest;
        match self.facts.restarted_for.as_ref() == Some(digest) {
            true => format!("{digest}{AGAIN}"),
            false => digest.clone(),
        }
    }

    fn remove(&self, seen: &PodsSeen, stale: &[&PodFacts]) -> Result<WorkloadPlan, Wait> {
        let pod = pods::next_of_workload(self.facts, self.key.kind, seen, stale)
            .ok_or(Wait::until(WaitReason::PodsNotReady, pods::add(self.now, LOOK_AGAIN)))?;
        brake::interval(&self.pace, Some(pod.created), self.now)?;
        // A rolling update of somebody else's replaces pods already; one that does not serve can go at once.
        if self.facts.rollout == Rollout::Unfinished && pod.ready {
            return Ok(self.after_rollout());
        }
        let action = RestartAction::RemovePods {
            label: self.content.label(),
            pods: vec![RemovePod::from(pod)],
            how: Removal::by(self.pace.strategy),
        };
        let recheck = Some(pods::add(self.now, LOOK_AGAIN));
        Ok(WorkloadPlan { recheck, ..WorkloadPlan::act(WorkloadState::Restarting, action) })
    }

    fn is_stale(&self, pod: &PodFacts, since: Timestamp) -> bool {
        pod.is_staying() && !pod.untouchable && pods::is_older(pod, since, self.facts.recorded)
    }

    /// The list of pods, where one can decide by it, and of this version of the workload.
    fn pods(&self, since: Timestamp) -> Option<&PodsSeen> {
        let seen = self.world.pods.get(self.key)?;
        let is_of_this = seen.resource_version == self.facts.resource_version;
        (is_of_this && pods::is_fresh(seen, since, self.now)).then_some(seen)
    }

    /// An attempt for this very content was refused: tried again when its time has come.
    fn failed_before(&self) -> Option<WorkloadPlan> {
        let attempt = self.world.restart_attempts.get(self.key)?;
        if attempt.label != self.content.label() || attempt.retry_at <= self.now {
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
