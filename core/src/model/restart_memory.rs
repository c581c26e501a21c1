//! The memory of this process about the restarts of one workload, and of one monitor. A method that changes a
//! record has the name of the event.

use std::collections::BTreeSet;

use jiff::Timestamp;

use super::{LastRestart, PodRemoved, RestartAttempt, WaitReason, Waiting};
use crate::names::WorkloadKey;

/// The memory of the restarts of one workload.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RestartMemory {
    attempt: Option<Box<RestartAttempt>>,
    wait: Option<Waiting>,
    missing_since: Option<Timestamp>,
    circuit_open: bool,
    /// Whether somebody has undone the workload's restart, and an Event has reported that.
    taken_back: bool,
    restarted: Option<LastRestart>,
    /// Whether the workload was due or restarting when we last looked: other workloads may wait for it.
    waited_for: bool,
    removed_at: Option<Timestamp>,
}

impl RestartMemory {
    pub(super) const NOTHING: &Self = &Self {
        attempt: None,
        wait: None,
        missing_since: None,
        circuit_open: false,
        taken_back: false,
        restarted: None,
        waited_for: false,
        removed_at: None,
    };

    /// The last attempt to restart the workload, if the attempt failed.
    pub fn attempt(&self) -> Option<&RestartAttempt> {
        self.attempt.as_deref()
    }

    /// The wait of a due restart.
    pub fn wait(&self) -> Option<Waiting> {
        self.wait
    }

    /// Since when a due restart has waited for this reason.
    pub fn waits_since(&self, reason: WaitReason) -> Option<Timestamp> {
        self.wait?.since_for(reason)
    }

    /// Since when the decision waits for an object that the workload uses, optional or not.
    pub fn missing_since(&self) -> Option<Timestamp> {
        self.missing_since
    }

    /// Whether the circuit is open, and an Event has reported that.
    pub fn is_circuit_open(&self) -> bool {
        self.circuit_open
    }

    /// The result of the last restart, if other workloads wait for it.
    pub fn restarted(&self) -> Option<&LastRestart> {
        self.restarted.as_ref()
    }

    /// When we last deleted a pod of the workload; managedFields do not record deletions.
    pub fn removed_at(&self) -> Option<Timestamp> {
        self.removed_at
    }

    /// Notes that a due restart waits. Returns the previous reason, if the reason has changed.
    pub fn wait_for(&mut self, reason: WaitReason, now: Timestamp) -> Option<WaitReason> {
        let before = self.wait.replace(Waiting::after(self.wait, reason, now))?.reason;
        (before != reason).then_some(before)
    }

    /// Notes that the workload's restart does not wait, or that its plan lacks facts. Returns the previous
    /// reason.
    pub fn waits_no_more(&mut self) -> Option<WaitReason> {
        Some(self.wait.take()?.reason)
    }

    /// Notes whether an object that the workload uses, optional or not, is missing.
    pub fn missing(&mut self, is_missing: bool, now: Timestamp) {
        self.missing_since = is_missing.then(|| self.missing_since.unwrap_or(now));
    }

    /// Notes whether the workload's circuit is open. Returns whether the circuit has just opened.
    pub fn circuit(&mut self, is_open: bool) -> bool {
        let was_open = std::mem::replace(&mut self.circuit_open, is_open);
        is_open && !was_open
    }

    /// Notes whether somebody has undone the workload's last restart. Returns whether the answer is new.
    pub fn taken_back(&mut self, is_taken_back: bool) -> bool {
        let was_taken_back = std::mem::replace(&mut self.taken_back, is_taken_back);
        is_taken_back && !was_taken_back
    }

    /// Whether somebody has undone the workload's last restart, and an Event has reported that.
    pub fn is_taken_back(&self) -> bool {
        self.taken_back
    }

    /// Notes that the workload is due or restarting, so other workloads may wait for it.
    pub fn goes_on(&mut self) {
        self.waited_for = true;
    }

    /// Notes that the workload is no longer due or restarting. Returns whether other workloads may have
    /// waited for it.
    pub fn ended(&mut self) -> bool {
        std::mem::take(&mut self.waited_for)
    }

    /// Notes the state of the workload's last restart.
    pub fn restart_seen(&mut self, restarted: LastRestart) {
        self.restarted = Some(restarted);
    }

    /// Notes that the workload runs the current content, or that no monitor watches it.
    pub fn settled(&mut self, is_watched: bool) {
        self.attempt = None;
        self.restarted.take_if(|_| !is_watched);
    }

    /// Notes a failed attempt to restart the workload.
    pub fn failed(&mut self, attempt: RestartAttempt) {
        self.attempt = Some(Box::new(attempt));
    }

    /// Forgets the last failed attempt: a later attempt has succeeded, or the failed one no longer matters.
    pub fn forget_attempt(&mut self) {
        self.attempt = None;
    }

    /// Notes that we deleted some pods of the workload, to restart it.
    pub fn pods_removed(&mut self, now: Timestamp) {
        self.attempt = None;
        self.removed_at = Some(now);
    }

    /// Notes that the workload was deleted: only whether other workloads waited for it still matters.
    pub(super) fn gone(&mut self) {
        *self = Self { waited_for: self.waited_for, ..Self::default() };
    }

    /// Keeps only the removal of pods, since another process may have led meanwhile.
    pub(super) fn term_over(&mut self) {
        *self = Self { removed_at: self.removed_at, ..Self::default() };
    }
}

/// The memory of one monitor: restarts of the pods that the monitor selects, and the reports about them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MonitorMemory {
    attempt: Option<Box<RestartAttempt>>,
    wait: Option<Waiting>,
    removed: Option<PodRemoved>,
    /// The workloads reported as failed, for which other workloads of the monitor wait.
    failures_told: BTreeSet<WorkloadKey>,
}

impl MonitorMemory {
    pub(super) const NOTHING: &Self =
        &Self { attempt: None, wait: None, removed: None, failures_told: BTreeSet::new() };

    /// The last attempt to delete some of the pods, if it failed.
    pub fn attempt(&self) -> Option<&RestartAttempt> {
        self.attempt.as_deref()
    }

    /// The wait of a due deletion.
    pub fn wait(&self) -> Option<Waiting> {
        self.wait
    }

    /// Since when a due deletion has waited for this reason.
    pub fn waits_since(&self, reason: WaitReason) -> Option<Timestamp> {
        self.wait?.since_for(reason)
    }

    /// The last deletion: the controller may take a moment to recreate the pod.
    pub fn removed(&self) -> Option<PodRemoved> {
        self.removed
    }

    /// Notes why a due deletion waits; `None` for a deletion that does not wait.
    pub fn wait_for(&mut self, reason: Option<WaitReason>, now: Timestamp) {
        self.wait = reason.map(|reason| Waiting::after(self.wait, reason, now));
    }

    /// Notes a failed attempt to delete pods.
    pub fn failed(&mut self, attempt: RestartAttempt) {
        self.attempt = Some(Box::new(attempt));
    }

    /// Notes that pods were deleted. `removed` is `None` if their number is unknown.
    pub fn pods_removed(&mut self, removed: Option<PodRemoved>) {
        self.attempt = None;
        self.removed = removed.or(self.removed);
    }

    /// Sets the workloads that are reported as failed. Returns the workloads that were reported before.
    pub fn failures_told(&mut self, failed: BTreeSet<WorkloadKey>) -> BTreeSet<WorkloadKey> {
        std::mem::replace(&mut self.failures_told, failed)
    }

    /// Keeps only the removal of pods, since another process may have led meanwhile.
    pub(super) fn term_over(&mut self) {
        *self = Self { removed: self.removed, ..Self::default() };
    }
}
