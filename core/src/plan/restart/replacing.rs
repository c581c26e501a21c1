//! How the old pods of one workload are replaced, for every kind and strategy: what begins it, and what goes
//! on with it until none is left. docs/restarting.md has the table, and a test holds it against this.

use jiff::Timestamp;

use super::{
    brake::Wait,
    gates::{self, OldPods, is_held},
    pods::{self, Before, Removal, RemovePod},
    restarts::{Case, LOOK_AGAIN},
    state::{Failure, RestartState},
    workload_plan::{RestartAction, WorkloadPlan},
};
use crate::{
    api::StrategyType,
    model::{PodFacts, PodsSeen, RestartResult, Rollout, RolloutFault, WaitReason},
    plan::Need,
};

impl Case<'_> {
    /// Why nobody restarts it, no matter who asks.
    pub(super) fn stopped(&self) -> Option<RestartState> {
        if self.facts.rollout == Rollout::Paused {
            return Some(RestartState::Paused);
        }
        let says_no = self.facts.restart.as_deref().is_some_and(|text| text.trim() == "false");
        (self.world.settings().annotations && says_no).then_some(RestartState::OptedOut)
    }

    /// The first step for these old pods. Where the template is enough, it is the only one. Where pods are
    /// removed one by one, a record that they are to be removed is written first: it survives us, and content
    /// that changes back half-way differs from what is written.
    ///
    /// # Errors
    /// How it stands, where something holds it back.
    pub(super) fn begin(&self, pods: &OldPods<'_>) -> Result<WorkloadPlan, RestartState> {
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
    pub(super) fn go_on(&self, before: Before) -> WorkloadPlan {
        if let Err(state) = gates::pass(gates::BEGUN, self, before.time()) {
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
            RestartState::Held { .. } | RestartState::OptedOut => RestartResult::Through,
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

    /// Whether pods are removed one by one, and not replaced by their controller.
    pub(super) fn removes_pods(&self) -> bool {
        self.pace.strategy != StrategyType::Rollout || self.facts.rollout == Rollout::OnDelete
    }

    /// Whether the controller rolls this very content out, down to a partition.
    pub(super) fn is_partitioned_for_this(&self) -> bool {
        let is_stamped = self.facts.stamped_for() == Some(&*self.content.digest);
        is_stamped && matches!(self.facts.rollout, Rollout::Partitioned(_))
    }

    /// The pod that goes next.
    ///
    /// # Errors
    /// Too few pods serve.
    pub(super) fn next<'p>(&self, pods: &OldPods<'p>) -> Result<&'p PodFacts, Wait> {
        let unready = Wait::until(WaitReason::PodsNotReady, pods::add(self.now, LOOK_AGAIN));
        pods::next_of_workload(self.facts, self.key.kind, pods.seen, &pods.stale).ok_or(unready)
    }

    /// Its pods as last listed for this version of it, and which of them began before this and are to stay.
    ///
    /// # Errors
    /// They have to be listed.
    pub(super) fn old_pods(&self, since: Timestamp, before: Before) -> Result<OldPods<'_>, RestartState> {
        let seen = self.last_seen().ok_or(Wait::for_event(WaitReason::Facts))?;
        Ok(OldPods { seen, stale: stale(seen, before), since, before })
    }

    /// The latest list of pods for this version of the workload.
    fn last_seen(&self) -> Option<&PodsSeen> {
        let seen = self.world.pods(self.key)?;
        (seen.resource_version == self.facts.resource_version).then_some(seen)
    }

    /// Whether the latest list of pods shows that there is nothing to do above the partition.
    pub(super) fn is_seen_held(&self, since: Timestamp) -> bool {
        let Rollout::Partitioned(partition) = self.facts.rollout else { return false };
        self.pace.strategy == StrategyType::Rollout
            && self.last_seen().is_some_and(|seen| {
                let stale = stale(seen, pods::before(since, self.facts.recorded));
                !stale.is_empty() && is_held(&stale, partition)
            })
    }
}

/// The pods that run old content and are to stay.
fn stale(seen: &PodsSeen, before: Before) -> Vec<&PodFacts> {
    let is_stale = |pod: &&PodFacts| pod.is_staying() && !pod.untouchable && before.is_before(pod);
    seen.pods.iter().filter(is_stale).collect()
}
