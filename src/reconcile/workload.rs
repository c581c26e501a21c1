//! One workload: plan, fetch what is lacking, restart, remember what became of it.

use std::time::Duration;

use jiff::Timestamp;

use super::{Again, Lane, Reconciler, authority::STANDING_ANSWER, fetch::Fetched, now, restart::RestartOf};
use crate::{
    act::{outcome::Outcome, restart::RestartOutcome},
    model::{WaitReason, WorkloadFacts, World},
    names::{NamespacedName, WorkloadKey},
    plan::{
        Key,
        restart::{Inputs, RestartAction, RestartState, WorkloadPlan, monitors_reaching, plan_workload},
    },
};

/// How often a plan may ask for more facts before its key waits for an event.
const ROUNDS: usize = 4;
/// When to look again at facts that are on their way through a watch.
const SOON: Duration = Duration::from_millis(250);
/// How long a status waits for further news of its monitor.
const STATUS_AFTER: Duration = Duration::from_millis(200);

impl Reconciler {
    pub(super) async fn workload(&self, workload: &WorkloadKey) -> Again {
        self.tell_misspelt(workload).await;
        for _ in 0..ROUNDS {
            let (plan, facts, asking) = {
                let world = self.world();
                let plan = plan_workload(&world, workload, now());
                let facts = world.workloads().get(workload).filter(|_| plan.action.is_some());
                let asking = facts.map(|facts| monitors_to_ask_again(&world, workload, facts, now()));
                (plan, facts.cloned(), asking.unwrap_or_default())
            };
            self.note_waited_for(workload, &plan);
            if !plan.needs.is_empty() {
                match self.fetch(&plan.needs).await {
                    Ok(Fetched::All) => continue,
                    Ok(Fetched::Ahead) => return Again::After(SOON),
                    Err(error) => {
                        tracing::warn!(%workload, error = &error as &dyn std::error::Error, "cannot plan its restart");
                        self.forget_wait(workload);
                        self.status_of_monitors(workload);
                        return Again::Backoff(None);
                    }
                }
            }
            if !asking.is_empty() {
                // Before everything else: all of the monitor's workloads wait for it.
                let keys = asking.into_iter().map(Key::Monitor);
                keys.for_each(|key| self.queue.add(key, Lane::NewNamespace));
                return Again::After(SOON);
            }
            let is_restart = plan.action.as_ref().is_some_and(RestartAction::restarts);
            let (plan, facts) = if is_restart { self.reserve(workload) } else { (plan, facts) };
            if !plan.needs.is_empty() {
                continue;
            }
            self.remember_wait(workload, &plan);
            self.note_circuit(workload, &plan.state).await;
            let again = self.restart(workload, &plan, facts).await;
            self.wake_next(workload, &plan);
            self.status_of_monitors(workload);
            return again;
        }
        Again::After(SOON)
    }

    fn status_of_monitors(&self, workload: &WorkloadKey) {
        let monitors = monitors_reaching(&self.world(), workload);
        for monitor in monitors {
            self.queue.add_by(Key::MonitorStatus(monitor), STATUS_AFTER);
        }
    }

    /// `facts` are those that the plan was made on.
    async fn restart(
        &self,
        workload: &WorkloadKey,
        plan: &WorkloadPlan,
        facts: Option<WorkloadFacts>,
    ) -> Again {
        let (Some(action), Some(facts)) = (&plan.action, facts) else {
            self.remember_missing(workload, &plan.state);
            self.remember_restart(workload, plan.restarted.as_ref());
            let wait = plan.recheck.map(|at| at.duration_since(now()).try_into().unwrap_or_default());
            return wait.map_or(Again::OnChange, Again::After);
        };
        let (why, news) = self.why(workload, plan);
        let outcome = self.restarter.act(workload, &facts, action).await;
        if !action.restarts() || outcome != RestartOutcome::Write(Outcome::Done) {
            self.release(workload);
        }
        // Whatever was decided from this list of pods has been done.
        self.world_mut().forget_pods(workload);
        if outcome == RestartOutcome::Write(Outcome::Done) {
            self.remember_restart(workload, plan.restarted.as_ref());
        }
        if matches!(action, RestartAction::RemovePods { .. }) {
            self.remember_removal(workload, &outcome);
        }
        self.reporter.restart(workload, action, &why, &outcome).await;
        self.announce(workload, news, &outcome).await;
        let wait = plan.recheck.map(|at| at.duration_since(now()).try_into().unwrap_or_default());
        self.settle_restart(&RestartOf::Workload(workload.clone()), action.label(), &outcome, wait)
    }

    /// Keeps since when something is missing, until nothing is due; forgets what is of no use then.
    fn remember_missing(&self, workload: &WorkloadKey, state: &RestartState) {
        match state {
            RestartState::Waiting(wait)
                if matches!(wait.reason, WaitReason::MissingObject | WaitReason::AbsentObject) =>
            {
                self.world_mut().memory_mut().at_workload(workload, |memory| {
                    memory.missing_since.get_or_insert_with(now);
                });
            }
            RestartState::Current | RestartState::Unwatched => {
                let mut world = self.world_mut();
                world.forget_pods(workload);
                world.memory_mut().at_workload(workload, |memory| {
                    memory.attempt = None;
                    memory.missing_since = None;
                    if *state == RestartState::Unwatched {
                        memory.restarted = None;
                    }
                });
            }
            _ if self.world().memory().workload(workload).missing_since.is_some() => {
                let world = &mut *self.world_mut();
                let inputs = world.workloads().get(workload).map(|facts| Inputs::of(world, workload, facts));
                if inputs.is_none_or(|inputs| inputs.missing.is_empty() && inputs.absent.is_empty()) {
                    world.memory_mut().at_workload(workload, |memory| memory.missing_since = None);
                }
            }
            _ => {}
        }
    }
}

/// The monitors behind an action that act with a ServiceAccount, where the last answer about it is too old:
/// rights that are withdrawn stop it, also where nobody could be asked for a while.
fn monitors_to_ask_again(
    world: &World,
    workload: &WorkloadKey,
    facts: &WorkloadFacts,
    now: Timestamp,
) -> Vec<NamespacedName> {
    let is_by_account = |name: &NamespacedName| {
        world.monitors().get(name).is_some_and(|facts| facts.spec.service_account_name.is_some())
    };
    let is_old = |name: &NamespacedName| {
        let answer = world.monitor_authority(name);
        answer.is_some_and(|known| now.duration_since(known.asked) >= STANDING_ANSWER)
    };
    let monitors = Inputs::of(world, workload, facts).monitors.into_iter();
    monitors.filter(|name| is_by_account(name) && is_old(name)).collect()
}
