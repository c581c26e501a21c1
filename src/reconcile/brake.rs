//! What is remembered of restarts that wait or are under way, and which workloads are looked at when one of
//! these ends.

use std::time::Duration;

use super::{Lane, Reconciler, now};
use crate::{
    model::WorkloadFacts,
    names::{NamespacedName, WorkloadKey},
    plan::{
        Key, at_after,
        restart::{
            RestartAction, SelectedPodsState, WaitReason, WorkloadPlan, WorkloadState, monitors_reaching,
            next_in_line, plan_workload,
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
        let (plan, facts) = (plan_workload(world, workload, now), world.workloads.get(workload).cloned());
        let (label, span) = match &plan.action {
            Some(RestartAction::Rollout { label, .. } | RestartAction::Begin { label, .. }) => {
                (label, UNTIL_SEEN)
            }
            Some(RestartAction::RemovePods { label, .. }) => (label, UNTIL_NEXT_POD),
            Some(RestartAction::Adopt { .. }) | None => return (plan, facts),
        };
        world.under_way.reserve(workload, label, at_after(now, span));
        (plan, facts)
    }

    /// Nothing came of a restart, or it is over.
    pub(super) fn release(&self, workload: &WorkloadKey) {
        self.world_mut().under_way.release(workload);
        self.look_at_next_in_line();
    }

    /// Keeps what a workload waits for; workloads that wait behind it for a place are looked at when it no
    /// longer waits.
    pub(super) fn remember_wait(&self, workload: &WorkloadKey, plan: &WorkloadPlan) {
        let ended = match (&plan.state, &plan.action) {
            (WorkloadState::Waiting(wait), None) => {
                let reason = wait.reason.as_str();
                let budget = WaitReason::Budget.as_str();
                let had_turn = reason != budget && self.world().waits.since(workload, budget).is_some();
                self.world_mut().waits.note(workload, reason, now());
                if had_turn {
                    // Its place is free: it waits for something else first.
                    self.look_at_next_in_line();
                }
                return;
            }
            _ if self.world().waits.is_waiting(workload) => self.world_mut().waits.end(workload),
            _ => None,
        };
        if ended.is_some_and(|waiting| waiting.reason == WaitReason::Budget.as_str()) {
            self.look_at_next_in_line();
        }
    }

    /// Keeps what the pods wait for that a monitor finds itself.
    pub(super) fn remember_pods_wait(&self, monitor: &NamespacedName, state: &SelectedPodsState) {
        match state {
            SelectedPodsState::Waiting(wait) => {
                self.world_mut().pod_waits.note(monitor, wait.reason.as_str(), now());
            }
            _ if self.world().pod_waits.is_waiting(monitor) => {
                self.world_mut().pod_waits.end(monitor);
            }
            _ => {}
        }
    }

    /// It cannot be told now whether it waits: no other workload waits for it.
    pub(super) fn forget_wait(&self, workload: &WorkloadKey) {
        if self.world_mut().waits.end(workload).is_some() {
            self.look_at_next_in_line();
        }
    }

    /// Tells once that a circuit has opened.
    pub(super) async fn note_circuit(&self, workload: &WorkloadKey, state: &WorkloadState) {
        let is_open = match state {
            WorkloadState::Waiting(wait) => wait.reason == WaitReason::CircuitOpen,
            WorkloadState::Failed { reason, .. } => *reason == WaitReason::CircuitOpen.as_str(),
            _ => false,
        };
        let is_over =
            matches!(state, WorkloadState::UpToDate | WorkloadState::Restarting | WorkloadState::NotWatched);
        let was_open = self.world().circuits.contains(workload);
        if is_open && !was_open {
            let monitors = {
                let world = &mut *self.world_mut();
                world.circuits.insert(workload.clone());
                monitors_reaching(world, workload)
            };
            self.reporter.circuit_open(workload, &monitors).await;
        } else if is_over && was_open {
            self.world_mut().circuits.remove(workload);
        }
    }

    /// Another process decides now, and remembers for itself.
    pub fn forget_waits(&self) {
        let world = &mut *self.world_mut();
        world.waits.clear();
        world.pod_waits.clear();
        world.circuits.clear();
        world.restarted.clear();
        world.waited_for.clear();
        world.missing_since.clear();
        world.restart_attempts.clear();
        world.pod_attempts.clear();
    }

    fn look_at_next_in_line(&self) {
        let next = next_in_line(&self.world(), Some(now()));
        for workload in next {
            self.queue.add(Key::Workload(workload), Lane::Change);
        }
    }
}
