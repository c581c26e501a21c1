//! What is remembered of restarts that wait or are under way, and which workloads are looked at when one of
//! these ends.

use std::time::Duration;

use super::{Lane, Reconciler, now};
use crate::{
    model::{WaitReason, Waiting, WorkloadFacts},
    names::{NamespacedName, WorkloadKey},
    plan::{
        Key, at_after,
        restart::{
            Failure, RestartAction, RestartState, WorkloadPlan, monitors_reaching, next_in_line,
            plan_workload,
        },
    },
};

/// A rollout is under way until the watch shows it, or for so long: the write may have been lost.
const UNTIL_SEEN: Duration = Duration::from_secs(10);
/// A workload whose pods are removed one by one is under way for so long after each of them, beside what its
/// record says: a replacement that takes long outlasts the time for which a record counts.
const UNTIL_NEXT_POD: Duration = Duration::from_secs(60);

impl Reconciler {
    /// Plans once more, under the lock under which a decision counts as under way: only one of two plans made
    /// at one time gets the last place.
    pub(super) fn reserve(&self, workload: &WorkloadKey) -> (WorkloadPlan, Option<WorkloadFacts>) {
        let world = &mut *self.world_mut();
        let now = now();
        let (plan, facts) = (plan_workload(world, workload, now), world.workloads().get(workload).cloned());
        let (label, span) = match &plan.action {
            Some(RestartAction::Rollout { label, .. } | RestartAction::Begin { label, .. }) => {
                (label, UNTIL_SEEN)
            }
            Some(RestartAction::RemovePods { label, .. }) => (label, UNTIL_NEXT_POD),
            Some(RestartAction::Adopt { .. }) | None => return (plan, facts),
        };
        world.memory_mut().reserve(workload, label, at_after(now, span));
        (plan, facts)
    }

    /// Nothing came of a restart, or it is over.
    pub(super) fn release(&self, workload: &WorkloadKey) {
        self.world_mut().memory_mut().release(workload);
        self.look_at_next_in_line();
    }

    /// Keeps what a workload waits for; workloads that wait behind it for a place are looked at when it no
    /// longer waits.
    pub(super) fn remember_wait(&self, workload: &WorkloadKey, plan: &WorkloadPlan) {
        let ended = match (&plan.state, &plan.action) {
            (RestartState::Waiting(wait), None) => {
                let reason = wait.reason;
                let had_turn = reason != WaitReason::Budget
                    && self.world().memory().workload(workload).waits_since(WaitReason::Budget).is_some();
                self.world_mut().memory_mut().at_workload(workload, |memory| memory.wait_for(reason, now()));
                if had_turn {
                    // Its place is free: it waits for something else first.
                    self.look_at_next_in_line();
                }
                return;
            }
            _ => self.end_wait(workload),
        };
        if ended.is_some_and(|waiting| waiting.reason == WaitReason::Budget) {
            self.look_at_next_in_line();
        }
    }

    /// Keeps what the pods wait for that a monitor finds itself.
    pub(super) fn remember_pods_wait(&self, monitor: &NamespacedName, state: &RestartState) {
        match state {
            RestartState::Waiting(wait) => {
                let reason = wait.reason;
                self.world_mut().memory_mut().at_monitor(monitor, |pods| pods.wait_for(reason, now()));
            }
            _ if self.world().memory().monitor(monitor).wait.is_some() => {
                self.world_mut().memory_mut().at_monitor(monitor, |pods| pods.wait = None);
            }
            _ => {}
        }
    }

    /// It cannot be told now whether it waits: no other workload waits for it.
    pub(super) fn forget_wait(&self, workload: &WorkloadKey) {
        if self.end_wait(workload).is_some() {
            self.look_at_next_in_line();
        }
    }

    fn end_wait(&self, workload: &WorkloadKey) -> Option<Waiting> {
        self.world().memory().workload(workload).wait?;
        self.world_mut().memory_mut().at_workload(workload, |memory| memory.wait.take())
    }

    /// Tells once that a circuit has opened.
    pub(super) async fn note_circuit(&self, workload: &WorkloadKey, state: &RestartState) {
        let is_open = match state {
            RestartState::Waiting(wait) => wait.reason == WaitReason::CircuitOpen,
            state => *state == RestartState::Failed(Failure::CircuitOpen),
        };
        let is_over = matches!(
            state,
            RestartState::Current
                | RestartState::Unrecorded
                | RestartState::Due
                | RestartState::Restarting
                | RestartState::Unwatched
        );
        let was_open = self.world().memory().workload(workload).circuit_open;
        if is_open && !was_open {
            let monitors = {
                let world = &mut *self.world_mut();
                world.memory_mut().at_workload(workload, |memory| memory.circuit_open = true);
                monitors_reaching(world, workload)
            };
            self.reporter.circuit_open(workload, &monitors).await;
        } else if is_over && was_open {
            self.world_mut().memory_mut().at_workload(workload, |memory| memory.circuit_open = false);
        }
    }

    /// Another process decides now, and remembers for itself.
    pub fn forget_waits(&self) {
        self.world_mut().memory_mut().lose_lease();
    }

    fn look_at_next_in_line(&self) {
        let next = next_in_line(&self.world(), Some(now()));
        for workload in next {
            self.queue.add(Key::Workload(workload), Lane::Change);
        }
    }
}
