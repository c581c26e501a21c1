//! One monitor: asks whether its identity has the rights, and queues each of its workloads if the answer is
//! new. After asking, reconciles the pods without a workload that the monitor selects.

use std::sync::Arc;

use super::{
    Again, Lane,
    asker::{Asked, Asker},
    context::{Context, now},
    pace::STATUS_AFTER,
    selected_pods::SelectedPods,
};
use crate::{
    access::authority::{ask_again, says_otherwise},
    names::Declarer,
    plan::{Key, copy::is_too_old, restart::workloads_of},
};

/// Reconciles the authority of monitors, and the pods without a workload that they select.
pub(super) struct MonitorHandler {
    pub(super) context: Context,
    pub(super) asker: Arc<Asker>,
    pub(super) pods: SelectedPods,
}

impl MonitorHandler {
    pub(super) async fn handle(&self, monitor: &Declarer) -> Again {
        let before = self.context.world().monitor_authority(monitor).cloned();
        let settled = self.asker.monitor(monitor).await;
        let (account, after) = {
            let world = self.context.world();
            let facts = world.monitors().get(monitor);
            let account = facts.is_some_and(|facts| facts.spec.service_account_name.is_some());
            (account, world.monitor_authority(monitor).cloned())
        };
        if says_otherwise(before.as_ref(), after.as_ref()) {
            let workloads = workloads_of(&self.context.world(), monitor);
            for workload in workloads {
                let tenant = Some(monitor.namespace().clone());
                self.context.queue().add_for(tenant, Key::Workload(workload), Lane::Change);
            }
        }
        if monitor.as_annotated().is_some() {
            self.context.queue().add(Key::SourceIndex, Lane::Change);
        }
        // The status is queued after the workloads, since it needs their content.
        self.context.queue().add_by(Key::MonitorStatus(monitor.clone()), STATUS_AFTER);
        let again = match settled {
            Ok(Asked::Settled) => ask_again(account, after.as_ref()).map_or(Again::OnChange, Again::After),
            Ok(Asked::Waits(delay)) => Again::After(delay),
            Err(error) => {
                tracing::warn!(%monitor, error = &error as &dyn std::error::Error, "cannot check the rights of the author or \
                 ServiceAccount");
                self.context
                    .world_mut()
                    .forget_monitor_authority(monitor, |known| account && is_too_old(known, now()));
                return Again::Backoff(None);
            }
        };
        // Even while the pods wait, the rights of the monitor's ServiceAccount must be asked about in time.
        if let Again::After(delay) = again {
            self.context.queue().add_later(Key::Monitor(monitor.clone()), delay);
        }
        let again = self.pods.reconcile(monitor).await;
        // The result for the monitor's pods is known only now.
        self.context.queue().add_by(Key::MonitorStatus(monitor.clone()), STATUS_AFTER);
        again
    }
}
