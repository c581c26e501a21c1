//! Workloads that have failed and so stop others of their monitor: who is told, and how often.

use super::Reconciler;
use crate::{
    api::ConfigMonitorStatus,
    names::{NamespacedName, WorkloadKey},
    plan::restart::Failure,
};

impl Reconciler {
    /// Tells of each workload that has failed and so stops others, once. A process that begins to lead takes
    /// for told what the status says already.
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
