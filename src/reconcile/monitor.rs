//! One monitor: is its identity allowed to? Where the answer is a new one, each of its workloads is looked
//! at; and then the pods that it finds itself.

use std::time::Duration;

use super::{
    Again, Lane, Reconciler,
    authority::{Decided, about_monitor, ask_again, is_too_old, says_otherwise},
    now,
    restart::became,
    settle::{SOON, Unplanned},
};
use crate::{
    access::AskError,
    act::{
        outcome::Outcome,
        status::{Version, record_pods},
    },
    model::{RestartAttempt, World},
    names::{NamespacedName, ObjectKey},
    plan::{
        Key, copy,
        restart::{Acted, RestartState, SelectedPodsAction, plan_selected_pods, settle_pods, workloads_of},
    },
};

/// How long a status waits for further news of its workloads.
const STATUS_AFTER: Duration = Duration::from_millis(200);

/// Where it is written down what a monitor's pods run with, and the version of it that a decision was made
/// on.
enum Recorded {
    /// In the monitor's status.
    InStatus(Version),
    /// On the object whose annotation declares the monitor.
    OnObject(ObjectKey, copy::Version),
}

impl Recorded {
    fn of(world: &World, monitor: &NamespacedName) -> Option<Self> {
        match monitor.annotated() {
            Some(object) => {
                let version = copy::Version::of(world.object(&object)?);
                Some(Self::OnObject(object, version))
            }
            None => world.monitors().get(monitor).map(|facts| Self::InStatus(Version::of(facts))),
        }
    }
}

impl Reconciler {
    pub(super) async fn monitor(&self, monitor: &NamespacedName) -> Again {
        let before = self.world().monitor_authority(monitor).cloned();
        let settled = self.settle_monitor(monitor).await;
        let (account, after) = {
            let world = self.world();
            let facts = world.monitors().get(monitor);
            let account = facts.is_some_and(|facts| facts.spec.service_account_name.is_some());
            (account, world.monitor_authority(monitor).cloned())
        };
        if says_otherwise(before.as_ref(), after.as_ref()) {
            let workloads = workloads_of(&self.world(), monitor);
            for workload in workloads {
                self.queue.add(Key::Workload(workload), Lane::Change);
            }
        }
        if monitor.annotated().is_some() {
            self.queue.add(Key::SourceIndex, Lane::Change);
        }
        // After its workloads: how they stand is not known before their content is.
        self.queue.add_by(Key::MonitorStatus(monitor.clone()), STATUS_AFTER);
        if let Err(error) = settled {
            tracing::warn!(%monitor, error = &error as &dyn std::error::Error, "its authority is not known");
            self.world_mut().forget_monitor_authority(monitor, |known| account && is_too_old(known, now()));
            return Again::Backoff(None);
        }
        // Whatever its pods wait for, its account is asked about in time.
        if let Again::After(delay) = ask_again(account, after.as_ref()) {
            self.queue.add_later(Key::Monitor(monitor.clone()), delay);
        }
        let again = self.selected_pods(monitor).await;
        // What has become of its pods is known only now.
        self.queue.add_by(Key::MonitorStatus(monitor.clone()), STATUS_AFTER);
        again
    }

    /// Asks whether the monitor's identity may restart what it declares, unless that is known.
    async fn settle_monitor(&self, monitor: &NamespacedName) -> Result<(), AskError> {
        let inquiry = {
            let world = &mut *self.world_mut();
            match about_monitor(world, monitor, &self.trusted_writers, now()) {
                None | Some(Decided::Known) => return Ok(()),
                Some(Decided::Answer(authority)) => {
                    world.note_monitor_authority(monitor, authority);
                    return Ok(());
                }
                Some(Decided::Ask(inquiry)) => inquiry,
            }
        };
        let authority = inquiry.ask(&*self.authorizer, now()).await?;
        self.world_mut().note_monitor_authority(monitor, authority);
        Ok(())
    }

    /// The pods without a workload that the monitor's podSelector finds. Its authority was settled just now.
    async fn selected_pods(&self, monitor: &NamespacedName) -> Again {
        let planned = self
            .planned(|world, now| (plan_selected_pods(world, monitor, now), Recorded::of(world, monitor)));
        let (plan, recorded) = match planned.await {
            Ok(planned) => planned,
            Err(Unplanned::Soon) => return Again::After(SOON),
            Err(Unplanned::Failed(_, error)) => {
                tracing::warn!(%monitor, error = &error as &dyn std::error::Error, "cannot plan its pods");
                return Again::Backoff(None);
            }
        };
        let settle = |removal| settle_pods(&mut self.world_mut(), monitor, &plan.state, removal, now());
        let wait = plan.recheck.map(|at| at.duration_since(now()).try_into().unwrap_or_default());
        match (&plan.action, recorded) {
            (None, _) | (_, None) => {
                settle(Acted::Nothing);
                wait.map_or(Again::OnChange, Again::After)
            }
            (Some(SelectedPodsAction::Record(label)), Some(recorded)) => {
                settle(Acted::Nothing);
                match self.record(monitor, &recorded, label).await {
                    // No change of a status is an event: what this begins goes on when the watch has brought
                    // it.
                    Again::OnChange if plan.state == RestartState::Due => Again::After(SOON),
                    again => again,
                }
            }
            (Some(SelectedPodsAction::Remove { label, pods, how }), Some(_)) => {
                let outcome = self.restarter.remove(&monitor.namespace, pods, *how).await;
                let last =
                    RestartAttempt::tries(self.world().memory().monitor(monitor).attempt.as_deref(), label);
                let (removal, again) = became(&outcome, label, last, wait.or(Some(SOON)), now());
                settle(removal);
                let why = self.why_pods(&plan.causes, plan.due_since, Vec::new());
                self.reporter.pods(monitor, pods, *how, &why, &outcome).await;
                self.announce_pods(&plan.causes, monitor, &outcome).await;
                again
            }
        }
    }

    /// Writes down what its pods run with. The watch brings it back; until then a decision on the old record
    /// fails to be written.
    async fn record(&self, monitor: &NamespacedName, recorded: &Recorded, label: &str) -> Again {
        let outcome = match recorded {
            Recorded::InStatus(version) => record_pods(&self.writer, monitor, version, label).await,
            Recorded::OnObject(object, version) => self.copies.record_pods(object, version, label).await,
        };
        match outcome {
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
