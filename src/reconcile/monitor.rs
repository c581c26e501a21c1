//! One monitor: is its identity allowed to, then each of its workloads, and the pods that it finds itself.

use std::{collections::BTreeSet, time::Duration};

use jiff::Timestamp;

use super::{
    Again, Lane, Reconciler,
    authority::{ACCOUNT_ANSWER, Asking, Decided, ask_again},
    fetch::Fetched,
    now,
    restart::RestartOf,
};
use crate::{
    act::{
        outcome::Outcome,
        status::{Version, record_pods},
    },
    authority::{AskError, monitor_questions},
    model::{NamespacedName, World},
    plan::{Key, SelectedPodsAction, plan_selected_pods, workloads_of},
};

const ROUNDS: usize = 4;
const SOON: Duration = Duration::from_millis(250);
/// How long a status waits for further news of its workloads.
const STATUS_AFTER: Duration = Duration::from_millis(200);

impl Reconciler {
    pub(super) async fn monitor(&self, monitor: &NamespacedName) -> Again {
        if let Err(error) = self.settle_monitor(monitor).await {
            tracing::warn!(%monitor, error = &error as &dyn std::error::Error, "its authority is not known");
            return Again::Backoff(None);
        }
        let workloads = workloads_of(&self.world(), monitor);
        for workload in workloads {
            self.queue.add(Key::Workload(workload), Lane::Change);
        }
        // After its workloads: how they stand is not known before their content is.
        self.queue.add_by(Key::MonitorStatus(monitor.clone()), STATUS_AFTER);
        let again = self.selected_pods(monitor).await;
        let world = self.world();
        let account =
            world.monitors.get(monitor).is_some_and(|facts| facts.spec.service_account_name.is_some());
        match again {
            Again::OnChange => ask_again(account, world.monitor_authority.get(monitor)),
            again => again,
        }
    }

    /// Asks whether the monitor's identity may restart what it declares, unless that is known.
    async fn settle_monitor(&self, monitor: &NamespacedName) -> Result<(), AskError> {
        let inquiry = {
            let mut world = self.world_mut();
            let Some(facts) = world.monitors.get(monitor).filter(|facts| facts.compiled.is_ok()) else {
                return Ok(());
            };
            let account = facts.spec.service_account_name.as_deref();
            let settled = facts.status.as_ref().and_then(|status| status.authorized_generation);
            let known = world.monitor_authority.get(monitor);
            let asking = Asking::of(&monitor.namespace, facts, account, settled, known);
            let declared = |subject: &_| monitor_questions(&monitor.namespace, &facts.spec, subject);
            match asking.decide(&self.trusted_writers, declared, now()) {
                Decided::Known => return Ok(()),
                Decided::Answer(authority) => {
                    world.monitor_authority.insert(monitor.clone(), authority);
                    return Ok(());
                }
                Decided::Ask(inquiry) => inquiry,
            }
        };
        let authority = inquiry.ask(&*self.authorizer, now()).await?;
        self.world_mut().monitor_authority.insert(monitor.clone(), authority);
        Ok(())
    }

    /// The pods without a workload that the monitor's podSelector finds.
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
            match self.ask_before_acting(&BTreeSet::from([monitor.clone()])).await {
                Ok(false) => {}
                Ok(true) => continue,
                Err(again) => return again,
            }
            return match action {
                SelectedPodsAction::Record(label) => self.record(monitor, &version, &label).await,
                SelectedPodsAction::Remove { label, pods, how } => {
                    let outcome = self.restarter.remove(&monitor.namespace, &pods, how).await;
                    self.world_mut().selected_pods.remove(monitor);
                    self.reporter.pods(monitor, &pods, &outcome).await;
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

    /// Asks again about those of these monitors that act with a ServiceAccount, where the last answer is too old to act
    /// by: rights that are withdrawn stop it, also where nobody could be asked for a while. Whether somebody was asked,
    /// so that what was planned has to be planned again.
    pub(super) async fn ask_before_acting(&self, monitors: &BTreeSet<NamespacedName>) -> Result<bool, Again> {
        let old: Vec<&NamespacedName> = {
            let world = self.world();
            monitors.iter().filter(|monitor| is_answer_old(&world, monitor, now())).collect()
        };
        for monitor in &old {
            if let Err(error) = self.settle_monitor(monitor).await {
                tracing::warn!(%monitor, error = &error as &dyn std::error::Error, "its authority is not known");
                return Err(Again::Backoff(None));
            }
        }
        Ok(!old.is_empty())
    }
}

fn is_answer_old(world: &World, monitor: &NamespacedName, now: Timestamp) -> bool {
    let is_by_account =
        world.monitors.get(monitor).is_some_and(|facts| facts.spec.service_account_name.is_some());
    let asked = world.monitor_authority.get(monitor).map(|authority| authority.asked);
    is_by_account && asked.is_some_and(|asked| now.duration_since(asked) >= ACCOUNT_ANSWER)
}
