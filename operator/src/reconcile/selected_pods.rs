//! Pods without a workload that a monitor's podSelector selects: plan, fetch lacking facts, record or remove,
//! and remember the result.

use std::sync::Arc;

use super::{
    Again,
    announce::Announcer,
    context::{Context, now},
    planner::{Planner, SOON, Unplanned},
    restart_attempt::became,
};
use crate::{
    act::{
        copies::CopyWriter,
        report::Reporter,
        restart::Restarter,
        status::{Version, record_pods},
        writer::Writer,
    },
    dry_run::outcome::Outcome,
    model::{RestartAttempt, World},
    names::{Declarer, ObjectKey},
    plan::{
        copy,
        restart::{Acted, RestartState, SelectedPodsAction, plan_selected_pods, settle_pods},
    },
};

/// The place of the record of the content that a monitor's pods run with, in the version that a decision was
/// based on.
enum Recorded {
    /// In the monitor's status.
    InStatus(Version),
    /// On the object whose annotation declares the monitor.
    OnObject(ObjectKey, copy::Version),
}

impl Recorded {
    fn of(world: &World, monitor: &Declarer) -> Option<Self> {
        match monitor.as_annotated() {
            Some(object) => {
                let version = copy::Version::of(world.object(object)?);
                Some(Self::OnObject(object.clone(), version))
            }
            None => world.monitors().get(monitor).map(|facts| Self::InStatus(Version::of(facts))),
        }
    }
}

/// Reconciles the pods without a workload that monitors select.
pub(super) struct SelectedPods {
    pub(super) context: Context,
    pub(super) planner: Arc<Planner>,
    pub(super) restarter: Restarter,
    pub(super) copies: CopyWriter,
    pub(super) writer: Writer,
    pub(super) announcer: Announcer,
    pub(super) reporter: Reporter,
}

impl SelectedPods {
    /// Reconciles a monitor's pods. The caller has just settled the monitor's authority.
    pub(super) async fn reconcile(&self, monitor: &Declarer) -> Again {
        let planned = self
            .planner
            .planned(|world, now| (plan_selected_pods(world, monitor, now), Recorded::of(world, monitor)));
        let (plan, recorded) = match planned.await {
            Ok(planned) => planned.plan,
            Err(Unplanned::Soon) => return Again::After(SOON),
            Err(Unplanned::Unlisted) => return Again::OnChange,
            Err(Unplanned::Failed(_, error)) => {
                tracing::warn!(%monitor, error = &error as &dyn std::error::Error, "cannot plan the restarts of a monitor's pods");
                return Again::Backoff(None);
            }
        };
        let settle =
            |removal| settle_pods(&mut self.context.world_mut(), monitor, &plan.state, removal, now());
        let wait = plan.recheck.map(|at| at.duration_since(now()).try_into().unwrap_or_default());
        match (&plan.action, recorded) {
            (None, _) | (_, None) => {
                settle(Acted::Nothing);
                wait.map_or(Again::OnChange, Again::After)
            }
            (Some(SelectedPodsAction::Record(label)), Some(recorded)) => {
                settle(Acted::Nothing);
                match self.record(monitor, &recorded, label).await {
                    // Writing a status queues no key, so look again when the watch has reported the record.
                    Again::OnChange if plan.state == RestartState::Due => Again::After(SOON),
                    again => again,
                }
            }
            (Some(SelectedPodsAction::Remove { label, pods, how }), Some(_)) => {
                let outcome = self.restarter.remove(monitor.namespace(), pods, *how).await;
                let last =
                    RestartAttempt::tries(self.context.world().memory().monitor(monitor).attempt(), label);
                let (removal, again) = became(&outcome, label, last, wait.or(Some(SOON)), now());
                settle(removal);
                let why = self.announcer.why_pods(&plan.causes, plan.due_since, Vec::new());
                self.reporter.pods(monitor, pods, *how, &why, &outcome).await;
                self.announcer.announce_pods(&plan.causes, monitor, &outcome).await;
                again
            }
        }
    }

    /// Records the content that a monitor's pods run with. Until the watch reports the record, a write that
    /// is based on the old record fails.
    async fn record(&self, monitor: &Declarer, recorded: &Recorded, label: &str) -> Again {
        let outcome = match recorded {
            Recorded::InStatus(version) => record_pods(&self.writer, monitor, version, label).await,
            Recorded::OnObject(object, version) => self.copies.record_pods(object, version, label).await,
        };
        match outcome {
            Outcome::Done | Outcome::NotLeading | Outcome::NamespaceGone => Again::OnChange,
            // The monitor or the object was written meanwhile.
            Outcome::Stale => Again::Backoff(None),
            outcome => {
                tracing::warn!(%monitor, outcome = outcome.label(), "cannot record the content that a monitor's pods run with");
                Again::Backoff(None)
            }
        }
    }
}
