//! Selected pods: pods that a monitor's podSelector finds and that no Deployment, StatefulSet or DaemonSet
//! owns, such as bare pods and pods of ReplicaSets and of other operators. No workload can carry the record
//! of selected pods. The monitor's status carries it or, if an annotation declares the monitor, the annotated
//! object.

use std::time::Duration;

use jiff::Timestamp;

use super::{
    applied::{Applied, RecordDiff},
    brake::{self, Pace, Wait},
    cause::{Cause, causes},
    inputs::{InputDigest, Inputs},
    nudge::is_nudged,
    pods::{Before, LOOK_AGAIN, Removal, RemovePod, add, before, is_fresh},
    reach::standing,
    retry::not_again_yet,
    state::RestartState,
    window,
};
use crate::{
    api::StrategyType,
    model::{PodFacts, PodsSeen, WaitReason, World},
    names::Declarer,
    plan::{Need, at_after},
    validate::{CompiledMonitor, WorkloadChoice},
};

/// How long we wait for the replacement of a removed pod. We do not know how many pods the controller wants,
/// and an operator creates the new pod only when the old pod has gone.
const REPLACEMENT: Duration = Duration::from_secs(60);

/// The plan for the pods that a monitor itself selects: the state, the action, the missing facts, and when to
/// plan again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SelectedPodsPlan {
    /// The common state of all pods.
    pub state: RestartState,
    /// The action to take now.
    pub action: Option<SelectedPodsAction>,
    /// The facts to fetch before a decision.
    pub needs: Vec<Need>,
    /// When to plan again even without an event.
    pub recheck: Option<Timestamp>,
    /// Since when the pods may run old content.
    pub due_since: Option<Timestamp>,
    /// The objects that have changed since then; empty if only keys were removed.
    pub causes: Vec<Cause>,
}

/// An action on selected pods.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SelectedPodsAction {
    /// Write this to the monitor's `status.podsApplied`.
    Record(String),
    /// Remove these pods; their controllers create new pods.
    Remove {
        /// The content that the pods are removed for, as it will be recorded.
        label: String,
        /// The pods to remove, by name and UID.
        pods: Vec<RemovePod>,
        /// Whether the pods are evicted or deleted.
        how: Removal,
    },
}

impl SelectedPodsPlan {
    fn rest(state: RestartState) -> Self {
        Self { state, action: None, needs: Vec::new(), recheck: None, due_since: None, causes: Vec::new() }
    }

    fn need(needs: Vec<Need>) -> Self {
        Self { needs, ..Self::rest(RestartState::Waiting(Wait::for_event(WaitReason::Facts))) }
    }

    fn record(state: RestartState, label: String) -> Self {
        Self { action: Some(SelectedPodsAction::Record(label)), ..Self::rest(state) }
    }
}

impl From<Wait> for SelectedPodsPlan {
    fn from(wait: Wait) -> Self {
        Self { recheck: wait.until, ..Self::rest(RestartState::Waiting(wait)) }
    }
}

/// Plans the pods without a workload that this monitor selects.
pub fn plan_selected_pods(world: &World, name: &Declarer, now: Timestamp) -> SelectedPodsPlan {
    decide(world, name, now).unwrap_or_else(SelectedPodsPlan::from)
}

fn decide(world: &World, name: &Declarer, now: Timestamp) -> Result<SelectedPodsPlan, Wait> {
    let not_applicable = Ok(SelectedPodsPlan::rest(RestartState::Unwatched));
    let is_known = world.is_complete() && !world.is_listing_data(name.namespace());
    let Some(key) = world.key().filter(|_| is_known) else {
        return Err(Wait::for_event(WaitReason::Starting));
    };
    let Some(facts) = world.monitors().get(name) else { return not_applicable };
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
    let recorded = world.pods_recorded(name);
    let applied = Applied::read(applied, recorded, key);
    let pending = applied.and_then(|applied| applied.pending);
    let difference = applied.map(|applied| applied.differs(&content));
    match difference {
        None | Some(RecordDiff::Scope) => {
            let state = if pending.is_some() { RestartState::Due } else { RestartState::Unrecorded };
            return Ok(SelectedPodsPlan::record(state, content.label_while(pending)));
        }
        Some(RecordDiff::Nothing) if pending.is_none() => {
            return Ok(SelectedPodsPlan::rest(RestartState::Current));
        }
        Some(_) => {}
    }
    let of = Selected { world, name, pace, content: &content, now };
    let (plan, since, recorded) = match (difference, pending) {
        (Some(RecordDiff::Content(since)), pending) => (of.begin(since, pending), since, recorded),
        // The content has not changed since the write of the record, by which pods are still to be replaced.
        (_, Some(pending)) => (of.go_on(pending), pending.time(), None),
        (_, None) => return not_applicable,
    };
    let plan = match failed_before(world, name, &content.label(), now) {
        Some(plan) => plan,
        None => plan.unwrap_or_else(SelectedPodsPlan::from),
    };
    Ok(SelectedPodsPlan { due_since: Some(since), causes: causes(world, &inputs, recorded), ..plan })
}

/// The pods that one monitor selects, and the content that they are to run with.
struct Selected<'a, 'w> {
    world: &'w World,
    name: &'a Declarer,
    pace: Pace,
    content: &'a InputDigest,
    now: Timestamp,
}

impl<'w> Selected<'_, 'w> {
    /// Begins a restart for changed content. The first step, before any pod is removed, records that pods are
    /// to be removed: the record survives a restart of ours, and content that changes back half-way differs
    /// from the record.
    fn begin(&self, since: Timestamp, pending: Option<Before>) -> Result<SelectedPodsPlan, Wait> {
        let unsettled = self.world.memory().monitor(self.name).waits_since(WaitReason::QuietPeriod);
        brake::quiet(&self.pace, since, unsettled, self.now)?;
        let Some(seen) = self.seen(since) else { return Ok(self.need()) };
        // A selected pod of the same second is considered older: no rollout replaces selected pods together
        // with the content, and an unnecessary restart is better than old content.
        let before = before(since, Some(since));
        let before = pending.map_or(before, |pending| pending.max(before));
        let stale = self.stale(seen, before);
        if stale.is_empty() {
            return Ok(SelectedPodsPlan::record(RestartState::Unrecorded, self.content.label()));
        }
        before.is_past(self.now)?;
        window::opens(self.world, &[self.name.clone()].into(), since, None, self.now)?;
        self.next(seen, &stale, since)?;
        let label = self.content.label_while(Some(before));
        Ok(SelectedPodsPlan::record(RestartState::Due, label))
    }

    /// Continues until no pod is left that began before `before`.
    fn go_on(&self, before: Before) -> Result<SelectedPodsPlan, Wait> {
        let Some(seen) = self.seen(before.time()) else {
            return Ok(SelectedPodsPlan { state: RestartState::Restarting, ..self.need() });
        };
        let stale = self.stale(seen, before);
        if stale.is_empty() {
            return Ok(SelectedPodsPlan::record(RestartState::Unrecorded, self.content.label()));
        }
        window::opens(self.world, &[self.name.clone()].into(), before.time(), None, self.now)?;
        let pods = self.next(seen, &stale, before.time())?.into_iter().map(RemovePod::from).collect();
        let label = self.content.label();
        let action = SelectedPodsAction::Remove { label, pods, how: Removal::by(self.pace.strategy) };
        let plan = SelectedPodsPlan::rest(RestartState::Due);
        Ok(SelectedPodsPlan { action: Some(action), recheck: Some(add(self.now, LOOK_AGAIN)), ..plan })
    }

    fn seen(&self, since: Timestamp) -> Option<&'w PodsSeen> {
        self.world.selected_pods(self.name).filter(|seen| is_fresh(seen, since, self.now))
    }

    fn need(&self) -> SelectedPodsPlan {
        SelectedPodsPlan::need(vec![Need::SelectedPods(self.name.clone())])
    }

    fn stale(&self, seen: &'w PodsSeen, before: Before) -> Vec<&'w PodFacts> {
        let is_stale = |pod: &&PodFacts| pod.is_staying() && self.is_ours(pod) && before.is_before(pod);
        seen.pods.iter().filter(is_stale).collect()
    }

    /// Whether this monitor handles the pod. Pods of known workloads belong to their workloads. Only strategy
    /// `Delete` removes a pod that no controller replaces.
    fn is_ours(&self, pod: &PodFacts) -> bool {
        let of_workload = pod.workload.as_ref().is_some_and(|key| self.world.workloads().contains_key(key));
        let may_go = pod.controlled || self.pace.strategy == StrategyType::Delete;
        !pod.untouchable && !of_workload && may_go
    }

    /// The pods to remove next. First one pod with a controller, while all other pods are ready, no pod is
    /// being deleted, and the last removed pod has been replaced; a pod that is not ready is removed at once.
    /// After the pods with a controller, all pods without a controller together, since no controller replaces
    /// them.
    fn next<'p>(
        &self,
        seen: &PodsSeen,
        stale: &[&'p PodFacts],
        since: Timestamp,
    ) -> Result<Vec<&'p PodFacts>, Wait> {
        let mut controlled: Vec<&PodFacts> = stale.iter().copied().filter(|pod| pod.controlled).collect();
        controlled.sort_by_key(|pod| (pod.ready, pod.created, pod.name.clone()));
        let next = match controlled.first().copied() {
            None => stale.to_vec(),
            Some(first) => {
                let others =
                    seen.pods.iter().filter(|pod| pod.controlled && !pod.finished && self.is_ours(pod));
                let are_serving = others.clone().all(|pod| pod.ready && !pod.leaving);
                let is_settled = are_serving && others.count() >= self.expected();
                if first.ready && !is_settled {
                    return Err(Wait::until(WaitReason::PodsNotReady, add(self.now, LOOK_AGAIN)));
                }
                vec![first]
            }
        };
        for pod in next.iter().filter(|pod| !is_nudged(self.world, self.name, since, Some(pod.created))) {
            brake::interval(&self.pace, Some(pod.created), self.now)?;
        }
        Ok(next)
    }

    /// How many pods exist once the last removed pod is replaced. The number that their owner wants is
    /// unknown and may have become smaller, so this expectation expires.
    fn expected(&self) -> usize {
        let removed = self.world.memory().monitor(self.name).removed();
        let is_recent = |at| at_after(at, REPLACEMENT) > self.now;
        removed.filter(|removed| is_recent(removed.at)).map_or(0, |removed| removed.controlled)
    }
}

/// Whether a monitor itself selects pods, beside the pods of workloads.
pub(crate) fn selects_pods(compiled: &CompiledMonitor) -> bool {
    let by_label = matches!(compiled.workloads, WorkloadChoice::Pods(..));
    by_label && !compiled.suspend && compiled.strategy != StrategyType::Rollout
}

fn failed_before(world: &World, name: &Declarer, label: &str, now: Timestamp) -> Option<SelectedPodsPlan> {
    let attempt = world.memory().monitor(name).attempt()?;
    let state = not_again_yet(attempt, label, now)?;
    Some(SelectedPodsPlan { recheck: Some(attempt.retry_at), ..SelectedPodsPlan::rest(state) })
}
