//! Announcements of restarts, for users who look at the workload or at the changed object. The reasons are
//! gathered before the restart is written.

use jiff::Timestamp;

use super::context::{Context, now};
use crate::{
    act::{report::Reporter, restart::RestartOutcome, restart_report::Why},
    api::{ConfigMonitorStatus, Problem},
    dry_run::outcome::Outcome,
    explain::{About, said},
    names::{Declarer, ObjectKey, WorkloadKey},
    plan::restart::{
        Cause, Inputs, RestartAction, WorkloadPlan, monitors_reaching, remark, restarting_for,
        settle_stage_failures,
    },
};

/// Changes that no Event has reported yet.
pub(super) type News = Vec<Cause>;

/// Reports why workloads and pods restart, and what keeps them from restarting.
#[derive(Clone)]
pub(super) struct Announcer {
    pub(super) context: Context,
    pub(super) reporter: Reporter,
}

impl Announcer {
    /// Returns why a workload restarts, and the changes to report on the changed objects. Call `why` before
    /// the restart: afterwards the workload is not due any more.
    pub(super) fn why(&self, workload: &WorkloadKey, plan: &WorkloadPlan) -> (Why, News) {
        if matches!(plan.action, None | Some(RestartAction::Adopt { .. })) {
            return (Why::default(), News::new());
        }
        let world = self.context.world();
        let inputs = world.workloads().get(workload).map(|facts| Inputs::of(&world, workload, facts));
        let asked_by = inputs.map(|inputs| {
            let monitors =
                inputs.monitors.iter().map(|monitor| format!("ConfigMonitor {}", monitor.named().name));
            monitors.chain(inputs.by_annotation.then(|| "its annotation".to_owned())).collect()
        });
        let news = plan.causes.iter().filter(|cause| self.reporter.is_news(cause)).cloned().collect();
        (self.why_pods(&plan.causes, plan.due_since, asked_by.unwrap_or_default()), news)
    }

    /// Like [`Self::why`], for pods that a monitor selects.
    pub(super) fn why_pods(
        &self,
        causes: &[Cause],
        due_since: Option<Timestamp>,
        asked_by: Vec<String>,
    ) -> Why {
        let lag = due_since.map(|since| now().duration_since(since).as_secs_f64().max(0.0));
        Why { causes: causes.to_vec(), asked_by, lag }
    }

    /// Reports on each changed object which workloads restart for it, once the first workload has restarted.
    pub(super) async fn announce(&self, first: &WorkloadKey, news: News, outcome: &RestartOutcome) {
        if *outcome == RestartOutcome::Write(Outcome::Done) {
            for cause in news.into_iter().filter(|cause| self.reporter.is_news(cause)) {
                let mut restarting = restarting_for(&self.context.world(), &cause.object, now());
                restarting.retain(|other| other != first);
                let keys = cause.keys_said();
                let note = match restarting.len() {
                    0 => format!("{first} restarts for this change{keys}"),
                    1 => format!("{first} and 1 other workload restart for this change{keys}"),
                    more => format!("{first} and {more} other workloads restart for this change{keys}"),
                };
                self.reporter.change_restarts(&cause, note).await;
            }
        }
    }

    /// Reports on a workload and its monitors why the workload's restarts fail.
    pub(super) async fn restarts_fail(&self, workload: &WorkloadKey, plan: &WorkloadPlan) {
        let (monitors, what) = {
            let world = self.context.world();
            let Some(facts) = world.workloads().get(workload) else { return };
            let inputs = Inputs::of(&world, workload, facts);
            let what = said(&plan.state, &About::workload(&world, &inputs, &plan.causes));
            (monitors_reaching(&world, workload), what)
        };
        self.reporter.restarts_fail(workload, &monitors, &plan.state, &what).await;
    }

    /// Like [`Self::announce`], for pods that a monitor selects.
    pub(super) async fn announce_pods(&self, causes: &[Cause], monitor: &Declarer, outcome: &RestartOutcome) {
        if *outcome == RestartOutcome::Write(Outcome::Done) {
            for cause in causes {
                let note =
                    format!("pods of ConfigMonitor {monitor} restart for this change{}", cause.keys_said());
                self.reporter.change_restarts(cause, note).await;
            }
        }
    }

    /// Reports to a workload's author that its annotation is malformed, or that parts of the workload exceed
    /// a limit.
    pub(super) async fn remark_of_workload(&self, workload: &WorkloadKey) {
        let remark = {
            let world = self.context.world();
            world.workloads().get(workload).and_then(|facts| remark(facts, world.settings().annotations))
        };
        self.reporter.remark_of_workload(workload, remark).await;
    }

    /// Reports a problem to the author of any other object.
    pub(super) async fn remark(&self, object: &ObjectKey) {
        let remark = self.context.world().remark(object).cloned();
        self.reporter.remark(object, remark).await;
    }

    /// Reports each workload that has failed and so stops other workloads, once.
    pub(super) async fn stage_failures(
        &self,
        monitor: &Declarer,
        before: Option<&ConfigMonitorStatus>,
        failed: Vec<(WorkloadKey, Problem)>,
    ) {
        let said = before.map_or(&[][..], |status| &status.problems);
        let untold = settle_stage_failures(&mut self.context.world_mut(), monitor, said, failed);
        for (workload, problem) in untold {
            self.reporter.stage_failed(monitor, &workload, problem.message).await;
        }
    }
}
