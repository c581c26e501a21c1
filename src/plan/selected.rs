//! Pods that a monitor's podSelector finds and that no Deployment, StatefulSet or DaemonSet owns: bare ones, those of
//! ReplicaSets and of other operators. There is no workload to record the content on, so the monitor's status
//! carries it.

use jiff::Timestamp;

use super::{
    Need,
    applied::{Applied, Difference},
    brake::{self, Pace, Wait, WaitReason},
    cause::{Cause, causes},
    inputs::{Content, Inputs},
    pods::{Removal, RemovePod, add, is_fresh, is_older},
    reach::standing,
    restarts::LOOK_AGAIN,
};
use crate::{
    api::StrategyType,
    model::{NamespacedName, PodFacts, PodsSeen, World},
    validate::{CompiledMonitor, WorkloadChoice},
};

/// The pods that a monitor selects: how they stand, what to do now, what is lacking, when to look again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SelectedPodsPlan {
    /// How they stand.
    pub state: SelectedPodsState,
    /// What to do now.
    pub action: Option<SelectedPodsAction>,
    /// What must be fetched to decide.
    pub needs: Vec<Need>,
    /// When to plan again though nothing has happened.
    pub recheck: Option<Timestamp>,
    /// Since when they may run old content.
    pub due_since: Option<Timestamp>,
    /// What has changed since; empty where only keys have gone.
    pub causes: Vec<Cause>,
}

/// How selected pods stand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SelectedPodsState {
    /// The monitor does not select pods by label, or only rolls out, or is suspended, quarantined or may not.
    NotApplicable,
    /// They run the current content.
    UpToDate,
    /// This has to pass first.
    Waiting(Wait),
    /// They are being replaced.
    Restarting,
    /// They could not be removed.
    Failed {
        /// One word from the list in [`crate::plan::monitor_status`].
        reason: &'static str,
        /// What is wrong.
        message: String,
    },
}

/// One thing to do about selected pods.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SelectedPodsAction {
    /// Write this to the monitor's `status.podsApplied`.
    Record(String),
    /// Remove pods.
    Remove {
        /// For this content, as it will be recorded.
        label: String,
        /// Which.
        pods: Vec<RemovePod>,
        /// How.
        how: Removal,
    },
}

impl SelectedPodsPlan {
    fn rest(state: SelectedPodsState) -> Self {
        Self { state, action: None, needs: Vec::new(), recheck: None, due_since: None, causes: Vec::new() }
    }

    fn need(needs: Vec<Need>) -> Self {
        Self { needs, ..Self::rest(SelectedPodsState::Waiting(Wait::for_event(WaitReason::Facts))) }
    }

    fn record(label: String) -> Self {
        Self { action: Some(SelectedPodsAction::Record(label)), ..Self::rest(SelectedPodsState::UpToDate) }
    }
}

impl From<Wait> for SelectedPodsPlan {
    fn from(wait: Wait) -> Self {
        Self { recheck: wait.until, ..Self::rest(SelectedPodsState::Waiting(wait)) }
    }
}

/// What to do about the pods without a workload that this monitor selects.
pub fn plan_selected_pods(world: &World, name: &NamespacedName, now: Timestamp) -> SelectedPodsPlan {
    decide(world, name, now).unwrap_or_else(SelectedPodsPlan::from)
}

fn decide(world: &World, name: &NamespacedName, now: Timestamp) -> Result<SelectedPodsPlan, Wait> {
    let not_applicable = Ok(SelectedPodsPlan::rest(SelectedPodsState::NotApplicable));
    let Some(key) = world.key.as_ref().filter(|_| world.is_complete()) else {
        return Err(Wait::for_event(WaitReason::Starting));
    };
    let Some(facts) = world.monitors.get(name) else { return not_applicable };
    let Some(compiled) = facts.compiled.as_deref().ok().filter(|compiled| selects_pods(compiled)) else {
        return not_applicable;
    };
    match standing(world, name, facts) {
        None => return Err(Wait::for_event(WaitReason::Authority)),
        Some(Err(_)) => return not_applicable,
        Some(Ok(())) => {}
    }
    let inputs = Inputs::of_monitor(world, name, compiled);
    let Some(pace) = inputs.pace.filter(|_| !inputs.objects.is_empty()) else { return not_applicable };
    let Some(content) = inputs.content(world, key) else {
        return Ok(SelectedPodsPlan::need(inputs.needs(world)));
    };
    let applied = facts.status.as_ref().and_then(|status| status.pods_applied.as_deref());
    let recorded = world.pods_recorded.get(name).copied();
    let applied = Applied::read(applied, recorded, key);
    let since = match applied.map(|applied| applied.differs(&content)) {
        None | Some(Difference::Scope) => return Ok(SelectedPodsPlan::record(content.label())),
        Some(Difference::Nothing) => return Ok(SelectedPodsPlan::rest(SelectedPodsState::UpToDate)),
        Some(Difference::Content(since)) => since,
    };
    let plan = due(world, name, &pace, &content, since, now).unwrap_or_else(SelectedPodsPlan::from);
    Ok(SelectedPodsPlan { due_since: Some(since), causes: causes(world, &inputs, recorded), ..plan })
}

fn due(
    world: &World,
    name: &NamespacedName,
    pace: &Pace,
    content: &Content,
    since: Timestamp,
    now: Timestamp,
) -> Result<SelectedPodsPlan, Wait> {
    let label = content.label();
    if let Some(plan) = failed_before(world, name, &label, now) {
        return Ok(plan);
    }
    brake::quiet(pace, since, now)?;
    let seen = world.selected_pods.get(name).filter(|seen| is_fresh(seen, since, now));
    let Some(seen) = seen else { return Ok(SelectedPodsPlan::need(vec![Need::SelectedPods(name.clone())])) };
    // In the same second pods count as older here: no rollout replaces them together with the content, and a
    // restart too many is better than old content.
    let is_stale = |pod: &&PodFacts| {
        pod.is_staying() && is_ours(world, pod, pace.strategy) && is_older(pod, since, Some(since))
    };
    let stale: Vec<&PodFacts> = seen.pods.iter().filter(is_stale).collect();
    if stale.is_empty() {
        return Ok(SelectedPodsPlan::record(label));
    }
    let recheck = add(now, LOOK_AGAIN);
    let next = next(seen, &stale).ok_or(Wait::until(WaitReason::PodsNotReady, recheck))?;
    for pod in &next {
        brake::interval(pace, Some(pod.created), now)?;
    }
    let pods = next.into_iter().map(RemovePod::from).collect();
    let action = SelectedPodsAction::Remove { label, pods, how: Removal::by(pace.strategy) };
    let plan = SelectedPodsPlan::rest(SelectedPodsState::Restarting);
    Ok(SelectedPodsPlan { action: Some(action), recheck: Some(recheck), ..plan })
}

/// Whether a monitor finds pods itself, beside those of workloads.
pub(super) fn selects_pods(compiled: &CompiledMonitor) -> bool {
    let by_label = matches!(compiled.workloads, WorkloadChoice::Pods(..));
    by_label && !compiled.suspend && compiled.strategy != StrategyType::Rollout
}

/// Pods of known workloads are theirs. A pod that nobody brings back goes only where deletion was asked for.
fn is_ours(world: &World, pod: &PodFacts, strategy: StrategyType) -> bool {
    let of_workload = pod.workload.as_ref().is_some_and(|key| world.workloads.contains_key(key));
    !pod.untouchable && !of_workload && (pod.controlled || strategy == StrategyType::Delete)
}

/// What goes next: one that another replaces, while all the others serve and none is on its way out (one that does
/// not serve, at once); after them those that nothing replaces, all together, since there is nothing to wait for.
fn next<'a>(seen: &PodsSeen, stale: &[&'a PodFacts]) -> Option<Vec<&'a PodFacts>> {
    let mut controlled: Vec<&PodFacts> = stale.iter().copied().filter(|pod| pod.controlled).collect();
    if controlled.is_empty() {
        return Some(stale.to_vec());
    }
    controlled.sort_by_key(|pod| (pod.ready, pod.created, pod.name.clone()));
    let first = *controlled.first()?;
    let settled = seen.pods.iter().all(|pod| pod.untouchable || pod.finished || (pod.ready && !pod.leaving));
    (settled || !first.ready).then(|| vec![first])
}

fn failed_before(
    world: &World,
    name: &NamespacedName,
    label: &str,
    now: Timestamp,
) -> Option<SelectedPodsPlan> {
    let attempt = world.pod_attempts.get(name)?;
    if attempt.label != label || attempt.retry_at <= now {
        return None;
    }
    let state = match attempt.reason {
        "DisruptionBudget" => {
            SelectedPodsState::Waiting(Wait::until(WaitReason::DisruptionBudget, attempt.retry_at))
        }
        reason => SelectedPodsState::Failed { reason, message: attempt.message.clone() },
    };
    Some(SelectedPodsPlan { recheck: Some(attempt.retry_at), ..SelectedPodsPlan::rest(state) })
}
