//! Workloads of which others wait: what is remembered of their restarts, which workloads are looked at when
//! one is through, and who is told when one has failed.

use super::{Lane, Reconciler, now};
use crate::{
    api::ConfigMonitorStatus,
    model::{Restarted, Went},
    names::{NamespacedName, WorkloadKey},
    plan::{
        Key,
        restart::{Failure, RestartState, WorkloadPlan, monitors_reaching, whose_turn},
    },
};

impl Reconciler {
    /// Keeps how a restart goes; the plan's action, if it has one, is done.
    pub(super) fn remember_restart(&self, workload: &WorkloadKey, restarted: Option<&Restarted>) {
        let Some(restarted) = restarted else { return };
        if self.world().memory().workload(workload).restarted.as_ref() != Some(restarted) {
            let restarted = Some(restarted.clone());
            self.world_mut().memory_mut().at_workload(workload, |memory| memory.restarted = restarted);
        }
    }

    /// Others may wait for what is due or under way.
    pub(super) fn note_waited_for(&self, workload: &WorkloadKey, plan: &WorkloadPlan) {
        let goes_on = plan.restarted.as_ref().is_some_and(|restarted| restarted.went != Went::Through);
        if (plan.due_since.is_some() || goes_on) && !self.is_waited_for(workload) {
            self.world_mut().memory_mut().at_workload(workload, |memory| memory.waited_for = true);
        }
    }

    fn is_waited_for(&self, workload: &WorkloadKey) -> bool {
        self.world().memory().workload(workload).waited_for
    }

    /// Looks again at the workloads whose turn it is, now that this one is through; those that wait for
    /// something else are not looked at.
    pub(super) fn wake_next(&self, workload: &WorkloadKey, plan: &WorkloadPlan) {
        let is_through = plan.action.is_none()
            && plan.needs.is_empty()
            && matches!(
                plan.state,
                RestartState::Current | RestartState::Unwatched | RestartState::Held { .. }
            );
        if !is_through || !self.is_waited_for(workload) {
            return;
        }
        self.world_mut().memory_mut().at_workload(workload, |memory| memory.waited_for = false);
        let world = self.world();
        let monitors = monitors_reaching(&world, workload);
        for next in monitors.iter().flat_map(|monitor| whose_turn(&world, monitor, now())) {
            self.queue.add(Key::Workload(next), Lane::Change);
        }
    }

    /// Tells of each workload that has failed and so stops others, once: who begins to lead takes what the
    /// status says already for told.
    pub(super) async fn tell_of_failures(
        &self,
        monitor: &NamespacedName,
        before: Option<&ConfigMonitorStatus>,
        failed: Vec<(WorkloadKey, String)>,
    ) {
        let mut told = self.world().memory().monitor(monitor).failures_told.clone();
        if told.is_empty() {
            let said = before.map_or(&[][..], |status| &status.problems);
            let is_said = |key: &WorkloadKey| {
                said.iter().any(|one| one.reason == Failure::STAGE_FAILED && *one.name == *key.name)
            };
            told.extend(failed.iter().map(|(workload, _)| workload).filter(|key| is_said(key)).cloned());
        }
        let now_told = failed.iter().map(|(workload, _)| workload.clone()).collect();
        self.world_mut().memory_mut().at_monitor(monitor, |memory| memory.failures_told = now_told);
        for (workload, sentence) in failed.into_iter().filter(|(workload, _)| !told.contains(workload)) {
            self.reporter.stage_failed(monitor, &workload, sentence).await;
        }
    }
}
