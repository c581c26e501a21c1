//! One workload: plan, fetch lacking facts, restart, and remember the result.

use std::{sync::Arc, time::Duration};

use jiff::Timestamp;

use super::{
    Again, Lane,
    announce::Announcer,
    context::{Context, now},
    pace::STATUS_AFTER,
    planner::{Planner, SOON, Unplanned},
    restart_attempt::became,
};
use crate::{
    act::{report::Reporter, restart::Restarter},
    model::{RestartAttempt, WorkloadFacts, World},
    names::{Declarer, WorkloadKey},
    plan::{
        Key,
        copy::is_too_old,
        restart::{
            Acted, Inputs, RestartAction, Turn, WorkloadPlan, monitors_reaching, next_in_line, plan_workload,
            reserve, settle_unplanned, settle_workload, whose_turn,
        },
    },
};

/// Reconciles workloads: restarts them, or records the content that they run with.
pub(super) struct WorkloadHandler {
    pub(super) context: Context,
    pub(super) planner: Arc<Planner>,
    pub(super) restarter: Restarter,
    pub(super) announcer: Announcer,
    pub(super) reporter: Reporter,
}

impl WorkloadHandler {
    pub(super) async fn handle(&self, workload: &WorkloadKey) -> Again {
        self.announcer.remark_of_workload(workload).await;
        let planned = self.planner.planned(|world, now| {
            let plan = plan_workload(world, workload, now);
            let facts = world.workloads().get(workload).filter(|_| plan.action.is_some());
            let asking = facts.map(|facts| monitors_to_ask_again(world, workload, facts, now));
            (plan, (facts.cloned(), asking.unwrap_or_default()))
        });
        let (plan, (facts, asking)) = match planned.await {
            Ok(planned) => planned.plan,
            Err(Unplanned::Soon) => return Again::After(SOON),
            Err(Unplanned::Unlisted) => return Again::OnChange,
            Err(Unplanned::Failed(_, error)) => {
                tracing::warn!(%workload, error = &error as &dyn std::error::Error, "cannot plan the restart of a workload");
                let turn = settle_unplanned(&mut self.context.world_mut(), workload);
                self.take_turns(workload, turn).await;
                self.status_of_monitors(workload);
                return Again::Backoff(None);
            }
        };
        if !asking.is_empty() {
            // The monitor gets the most urgent lane, because all of the monitor's workloads wait for the
            // answer.
            let keys = asking.into_iter().map(Key::Monitor);
            keys.for_each(|key| self.context.queue().add(key, Lane::NewNamespace));
            return Again::After(SOON);
        }
        let is_restart = plan.action.as_ref().is_some_and(RestartAction::restarts);
        let (plan, facts) = if is_restart { self.reserve(workload).await } else { (plan, facts) };
        if !plan.needs.is_empty() {
            return Again::After(Duration::ZERO);
        }
        let again = self.restart(workload, &plan, facts).await;
        self.status_of_monitors(workload);
        again
    }

    fn status_of_monitors(&self, workload: &WorkloadKey) {
        let monitors = monitors_reaching(&self.context.world(), workload);
        for monitor in monitors {
            self.context.queue().add_by(Key::MonitorStatus(monitor), STATUS_AFTER);
        }
    }

    /// Reserves a place for the restart. Returns the plan to carry out, and the facts that it is based on.
    async fn reserve(&self, workload: &WorkloadKey) -> (WorkloadPlan, Option<Box<WorkloadFacts>>) {
        let (plan, turn, facts) = {
            let world = &mut *self.context.world_mut();
            let (plan, turn) = reserve(world, workload, now());
            (plan, turn, world.workloads().get(workload).cloned())
        };
        self.take_turns(workload, turn).await;
        (plan, facts)
    }

    /// Carries out a plan, and remembers the result. `facts` are the facts that the plan is based on.
    async fn restart(
        &self,
        workload: &WorkloadKey,
        plan: &WorkloadPlan,
        facts: Option<Box<WorkloadFacts>>,
    ) -> Again {
        let wait = || plan.recheck.map(|at| at.duration_since(now()).try_into().unwrap_or_default());
        let (Some(action), Some(facts)) = (&plan.action, facts) else {
            self.settle(workload, plan, Acted::Nothing).await;
            return wait().map_or(Again::OnChange, Again::After);
        };
        let (why, news) = self.announcer.why(workload, plan);
        let outcome = self.restarter.act(workload, &facts, action).await;
        let label = action.label();
        let tries = RestartAttempt::tries(self.context.world().memory().workload(workload).attempt(), label);
        let (acted, again) = became(&outcome, label, tries, wait(), now());
        self.settle(workload, plan, acted).await;
        self.reporter.restart(workload, action, &why, &outcome).await;
        self.announcer.announce(workload, news, &outcome).await;
        again
    }

    async fn settle(&self, workload: &WorkloadKey, plan: &WorkloadPlan, acted: Acted) {
        let turn = settle_workload(&mut self.context.world_mut(), workload, plan, acted, now());
        self.take_turns(workload, turn).await;
        if turn.circuit_opened || turn.taken_back {
            self.announcer.restarts_fail(workload, plan).await;
        }
    }

    /// Queues the workloads whose turn it is; workloads that wait for something else are not queued.
    async fn take_turns(&self, workload: &WorkloadKey, turn: Turn) {
        let next = {
            let world = self.context.world();
            let in_line = turn.in_line.then(|| next_in_line(&world, Some(now())));
            let mut next: Vec<WorkloadKey> = in_line.into_iter().flatten().collect();
            if turn.in_order {
                let monitors = monitors_reaching(&world, workload);
                next.extend(monitors.iter().flat_map(|monitor| whose_turn(&world, monitor, now())));
            }
            next
        };
        for workload in next {
            self.context.queue().add(Key::Workload(workload), Lane::Change);
        }
    }
}

/// Returns the monitors behind an action that act with a ServiceAccount and whose last answer is too old.
/// Asking again stops the action if a right was withdrawn, even after a time in which the API server did not
/// answer.
fn monitors_to_ask_again(
    world: &World,
    workload: &WorkloadKey,
    facts: &WorkloadFacts,
    now: Timestamp,
) -> Vec<Declarer> {
    let is_by_account = |name: &Declarer| {
        world.monitors().get(name).is_some_and(|facts| facts.spec.service_account_name.is_some())
    };
    let is_old = |name: &Declarer| {
        let answer = world.monitor_authority(name);
        answer.is_some_and(|known| is_too_old(known, now))
    };
    let monitors = Inputs::of(world, workload, facts).monitors.into_iter();
    monitors.filter(|name| is_by_account(name) && is_old(name)).collect()
}
