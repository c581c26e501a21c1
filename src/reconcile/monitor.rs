//! One monitor: is its identity allowed to, then each of its workloads, and the pods that it finds itself.

use jiff::SignedDuration;

use super::{
    Again, Lane, Reconciler,
    fetch::Fetched,
    now,
    restart::RestartOf,
    rule::{ACCOUNT_ANSWER, Asking, Decided},
};
use crate::{
    act::{
        outcome::Outcome,
        status::{StatusOf, write_status},
    },
    api::ConfigMonitor,
    authority::{AskError, Identity, monitor_questions, settle},
    model::NamespacedName,
    plan::{Key, SelectedPodsAction, monitor_status, plan_selected_pods, workloads_of},
};

const ROUNDS: usize = 4;
const SOON: std::time::Duration = std::time::Duration::from_millis(250);
const ASK_AGAIN: std::time::Duration = std::time::Duration::from_secs(30);

impl Reconciler {
    pub(super) async fn monitor(&self, monitor: &NamespacedName) -> Again {
        if let Err(error) = self.settle_monitor(monitor, ACCOUNT_ANSWER).await {
            tracing::warn!(%monitor, error = &error as &dyn std::error::Error, "its authority is not known");
            return Again::Backoff(None);
        }
        let workloads = workloads_of(&self.world(), monitor);
        for workload in workloads {
            self.queue.add(Key::Workload(workload), Lane::Change);
        }
        self.queue.add(Key::MonitorStatus(monitor.clone()), Lane::Change);
        let again = self.selected_pods(monitor).await;
        let world = self.world();
        let account =
            world.monitors.get(monitor).is_some_and(|facts| facts.spec.service_account_name.is_some());
        let refused = world.monitor_authority.get(monitor).is_some_and(|authority| authority.answer.is_err());
        match again {
            Again::OnChange if account || refused => Again::After(ASK_AGAIN),
            again => again,
        }
    }

    pub(super) async fn settle_monitor(
        &self,
        monitor: &NamespacedName,
        oldest: SignedDuration,
    ) -> Result<(), AskError> {
        let (uid, generation, identity, questions) = {
            let mut world = self.world_mut();
            let Some(facts) = world.monitors.get(monitor).filter(|facts| facts.compiled.is_ok()) else {
                return Ok(());
            };
            let account = facts.spec.service_account_name.as_deref();
            let identity =
                Identity::of_stored(&monitor.namespace, account, &facts.annotations, &self.trusted_writers);
            let known = world.monitor_authority.get(monitor);
            let settled = facts.status.as_ref().and_then(|status| status.authorized_generation);
            let asking = Asking { uid: &facts.uid, generation: facts.generation, account, settled, known };
            match asking.decide(identity, oldest, now()) {
                Decided::Known => return Ok(()),
                Decided::Answer(authority) => {
                    world.monitor_authority.insert(monitor.clone(), authority);
                    return Ok(());
                }
                Decided::Ask(identity) => {
                    let questions = monitor_questions(&monitor.namespace, &facts.spec, &identity.subject());
                    (facts.uid.clone(), facts.generation, identity, questions)
                }
            }
        };
        let authority = settle(&*self.authorizer, &uid, generation, &identity, &questions, now()).await?;
        self.world_mut().monitor_authority.insert(monitor.clone(), authority);
        Ok(())
    }

    /// The pods without a workload that the monitor's podSelector finds.
    async fn selected_pods(&self, monitor: &NamespacedName) -> Again {
        for _ in 0..ROUNDS {
            let plan = plan_selected_pods(&self.world(), monitor, now());
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
            return match plan.action {
                None => wait.map_or(Again::OnChange, Again::After),
                Some(SelectedPodsAction::Record(digest)) => self.record(monitor, digest).await,
                Some(SelectedPodsAction::Remove { digest, pods, how }) => {
                    let outcome = self.restarter.remove(&monitor.namespace, &pods, how).await;
                    self.world_mut().selected_pods.remove(monitor);
                    self.reporter.pods(monitor, &pods, &outcome).await;
                    self.settle_restart(
                        &RestartOf::Pods(monitor.clone()),
                        &digest,
                        &outcome,
                        wait.or(Some(SOON)),
                    )
                }
            };
        }
        Again::After(SOON)
    }

    /// Writes down, in the monitor's status, what its pods run with.
    async fn record(&self, monitor: &NamespacedName, digest: String) -> Again {
        let (uid, status) = {
            let mut world = self.world_mut();
            let Some(mut status) = monitor_status(&world, monitor, now()) else { return Again::OnChange };
            status.pods_applied = Some(digest);
            // Known at once: the next plan must not wait for the watch to bring our own write back.
            let Some(facts) = world.monitors.get_mut(monitor) else { return Again::OnChange };
            facts.status = Some(status.clone());
            (facts.uid.clone(), status)
        };
        let of = StatusOf { namespace: Some(&monitor.namespace), name: &monitor.name, uid: &uid };
        match write_status::<ConfigMonitor>(&self.client, &self.lead, of, &status).await {
            Outcome::Done => Again::OnChange,
            outcome => {
                tracing::warn!(%monitor, outcome = outcome.label(), "cannot record what its pods run with");
                Again::Backoff(None)
            }
        }
    }
}
