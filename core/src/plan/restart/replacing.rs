//! How the old pods of one workload are replaced, for every kind and strategy: what begins it, and what goes
//! on with it until none is left. docs/restarting.md has the table, and a test holds it against this.

use super::{
    case::{Case, OldPods},
    gates, own_gates,
    pods::{self, Before, LOOK_AGAIN, Removal, RemovePod},
    state::{Failure, RestartState},
    workload_plan::{RestartAction, WorkloadPlan},
};
use crate::{
    api::StrategyType,
    model::{PodFacts, RestartResult, Rollout, RolloutFault},
    plan::Need,
};

impl Case<'_> {
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
}
