//! One monitor: is its identity allowed to? Where the answer is a new one, each of its workloads is looked at; and then
//! the pods that it finds itself.

use std::time::Duration;

use super::{
    Again, Lane, Reconciler,
    authority::{Decided, about_monitor, ask_again, forget_old, keep, says_otherwise},
    fetch::Fetched,
    now,
    restart::RestartOf,
};
use crate::{
    act::{
        outcome::Outcome,
        status::{Version, record_pods},
    },
    authority::AskError,
    model::NamespacedName,
    plan::{Key, SelectedPodsAction, plan_selected_pods, workloads_of},
};

const ROUNDS: usize = 4;
const SOON: Duration = Duration::from_millis(250);
/// How long a status waits for further news of its workloads.
const STATUS_AFTER: Duration = Duration::from_millis(200);

impl Reconciler {
    pub(super) async fn monitor(&self, monitor: &NamespacedName) -> Again {
        let before = self.world().monitor_authority.get(monitor).cloned();
        let settled = self.settle_monitor(monitor).await;
        let (account, after) = {
            let world = self.world();
            let facts = world.monitors.get(monitor);
            let account = facts.is_some_and(|facts| facts.spec.service_account_name.is_some());
            (account, world.monitor_authority.get(monitor).cloned())
        };
        if says_otherwise(before.as_ref(), after.as_ref()) {
            let workloads = workloads_of(&self.world(), monitor);
            for workload in workloads {
                self.queue.add(Key::Workload(workload), Lane::Change);
            }
        }
        // After its workloads: how they stand is not known before their content is.
        self.queue.add_by(Key::MonitorStatus(monitor.clone()), STATUS_AFTER);
        if let Err(error) = settled {
            tracing::warn!(%monitor, error = &error as &dyn std::error::Error, "its authority is not known");
            forget_old(&mut self.world_mut().monitor_authority, monitor, account, now());
            return Again::Backoff(None);
        }
        // Whatever its pods wait for, its account is asked about in time.
        if let Again::After(delay) = ask_again(account, after.as_ref()) {
            self.queue.add_later(Key::Monitor(monitor.clone()), delay);
        }
        self.selected_pods(monitor).await
    }

    /// Asks whether the monitor's identity may restart what it declares, unless that is known.
    async fn settle_monitor(&self, monitor: &NamespacedName) -> Result<(), AskError> {
        let inquiry = {
            let world = &mut *self.world_mut();
            match about_monitor(world, monitor, &self.trusted_writers, now()) {
                None | Some(Decided::Known) => return Ok(()),
                Some(Decided::Answer(authority)) => {
                    keep(&mut world.monitor_authority, monitor, world.monitors.get(monitor), authority);
                    return Ok(());
                }
                Some(Decided::Ask(inquiry)) => inquiry,
            }
        };
        let authority = inquiry.ask(&*self.authorizer, now()).await?;
        let world = &mut *self.world_mut();
        keep(&mut world.monitor_authority, monitor, world.monitors.get(monitor), authority);
        Ok(())
    }

    /// The pods without a workload that the monitor's podSelector finds. Its authority was settled just now.
    async fn selected_pods(&self, monitor: &NamespacedName) -> Again {
        for _ in 0..ROUNDS {
            let (plan, version) = {
                let world = self.world();
                let version = world.monitors.get(monitor).map(Version::of);
                (plan_selected_pods(&world, monitor, now()), version)
            };
            if !plan.needs.is_empty() {
                match self.fetch(&plan.needs).await {
                    Ok(Fetched::All) => continue,
                    Ok(Fetched::Ahead) => return Again::After(SOON),
                    Err(error) => {
                        tracing::warn!(%monitor, error = &error as &dyn std::error::Error, "cannot plan its pods");
                        return Again::Backoff(None);
                    }
                }
            }
            let wait = plan.recheck.map(|at| at.duration_since(now()).try_into().unwrap_or_default());
            let (Some(action), Some(version)) = (plan.action, version) else {
                return wait.map_or(Again::OnChange, Again::After);
            };
            return match action {
                SelectedPodsAction::Record(label) => self.record(monitor, &version, &label).await,
                SelectedPodsAction::Remove { label, pods, how } => {
                    let outcome = self.restarter.remove(&monitor.namespace, &pods, how).await;
                    self.world_mut().selected_pods.remove(monitor);
                    self.remember_selected_removal(monitor, &outcome);
                    let why = self.why_pods(&plan.causes, plan.due_since, Vec::new());
                    self.reporter.pods(monitor, &pods, how, &why, &outcome).await;
                    self.announce_pods(&plan.causes, monitor, &outcome).await;
                    self.settle_restart(
                        &RestartOf::Pods(monitor.clone()),
                        &label,
                        &outcome,
                        wait.or(Some(SOON)),
                    )
                }
            };
        }
        Again::After(SOON)
    }

    /// Writes down, in the monitor's status, what its pods run with. The watch brings it back; until then whoever decides
    /// on the old record fails to write.
    async fn record(&self, monitor: &NamespacedName, version: &Version, label: &str) -> Again {
        match record_pods(&self.client, &self.lead, monitor, version, label).await {
            Outcome::Done | Outcome::NotLeading | Outcome::NamespaceGone => Again::OnChange,
            // Its status was written meanwhile.
            Outcome::Stale => Again::Backoff(None),
            outcome => {
                tracing::warn!(%monitor, outcome = outcome.label(), "cannot record what its pods run with");
                Again::Backoff(None)
            }
        }
    }
}
