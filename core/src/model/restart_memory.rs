//! What this process remembers of the restarts of one workload, and of one monitor. A method that changes a record says what
//! has happened.

use std::collections::BTreeSet;

use jiff::Timestamp;

use super::{LastRestart, PodRemoved, RestartAttempt, WaitReason, Waiting};
use crate::names::WorkloadKey;

/// What is remembered of the restarts of one workload.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RestartMemory {
    attempt: Option<Box<RestartAttempt>>,
    wait: Option<Waiting>,
    missing_since: Option<Timestamp>,
    circuit_open: bool,
    /// Somebody has taken its restart back, and an Event has said so.
    taken_back: bool,
    restarted: Option<LastRestart>,
    /// Whether it was due or restarting when we last looked: others may wait for it.
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

    /// The last attempt to restart it, if it failed.
    pub fn attempt(&self) -> Option<&RestartAttempt> {
        self.attempt.as_deref()
    }

    /// What a due restart waits for.
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

    /// Whether the circuit is open, and an Event has said so.
    pub fn is_circuit_open(&self) -> bool {
        self.circuit_open
    }

    /// The result of the last restart, if other workloads wait for it.
    pub fn restarted(&self) -> Option<&LastRestart> {
        self.restarted.as_ref()
    }

    /// When we last deleted a pod of it; no managedFields entry says so.
    pub fn removed_at(&self) -> Option<Timestamp> {
        self.removed_at
    }

    /// A due restart waits. Returns for what it waited before, if that was something else.
    pub fn wait_for(&mut self, reason: WaitReason, now: Timestamp) -> Option<WaitReason> {
        let before = self.wait.replace(Waiting::after(self.wait, reason, now))?.reason;
        (before != reason).then_some(before)
    }

    /// It waits for nothing, or its plan lacks facts. Returns for what it waited before.
    pub fn waits_no_more(&mut self) -> Option<WaitReason> {
        Some(self.wait.take()?.reason)
    }

    /// An object that the workload uses, optional or not, is missing, or none is.
    pub fn missing(&mut self, is_missing: bool, now: Timestamp) {
        self.missing_since = is_missing.then(|| self.missing_since.unwrap_or(now));
    }

    /// Its circuit is open or closed. Returns whether it has just opened.
    pub fn circuit(&mut self, is_open: bool) -> bool {
        let was_open = std::mem::replace(&mut self.circuit_open, is_open);
        is_open && !was_open
    }

    /// Its last restart is taken back, or is not (any more). Returns whether it has just become so.
    pub fn taken_back(&mut self, is_taken_back: bool) -> bool {
        let was_taken_back = std::mem::replace(&mut self.taken_back, is_taken_back);
        is_taken_back && !was_taken_back
    }

    /// Whether its last restart is taken back, and an Event has said so.
    pub fn is_taken_back(&self) -> bool {
        self.taken_back
    }

    /// It is due or restarting, so others may wait for it.
    pub fn goes_on(&mut self) {
        self.waited_for = true;
    }

    /// It is neither due nor restarting any more. Returns whether others may have waited for it.
    pub fn ended(&mut self) -> bool {
        std::mem::take(&mut self.waited_for)
    }

    /// Its last restart has come to this.
    pub fn restart_seen(&mut self, restarted: LastRestart) {
        self.restarted = Some(restarted);
    }

    /// It runs with what it should, or no monitor watches it.
    pub fn settled(&mut self, is_watched: bool) {
        self.attempt = None;
        self.restarted.take_if(|_| !is_watched);
    }

    /// An attempt to restart it has failed.
    pub fn failed(&mut self, attempt: RestartAttempt) {
        self.attempt = Some(Box::new(attempt));
    }

    /// An attempt has succeeded, or the last one does not count any more.
    pub fn forget_attempt(&mut self) {
        self.attempt = None;
    }

    /// Pods of it were deleted, so that they restart.
    pub fn pods_removed(&mut self, now: Timestamp) {
        self.attempt = None;
        self.removed_at = Some(now);
    }

    /// It was deleted: only that others waited for it matters.
    pub(super) fn gone(&mut self) {
        *self = Self { waited_for: self.waited_for, ..Self::default() };
    }

    /// Others may have led since.
    pub(super) fn term_over(&mut self) {
        *self = Self { removed_at: self.removed_at, ..Self::default() };
    }
}

/// What is remembered of one monitor: of restarts of the pods that it selects, and of what was reported.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MonitorMemory {
    attempt: Option<Box<RestartAttempt>>,
    wait: Option<Waiting>,
    removed: Option<PodRemoved>,
    /// The workloads reported to have failed, so that others of the monitor wait.
    failures_told: BTreeSet<WorkloadKey>,
}

impl MonitorMemory {
    pub(super) const NOTHING: &Self =
        &Self { attempt: None, wait: None, removed: None, failures_told: BTreeSet::new() };

    /// The last attempt to delete some of the pods, if it failed.
    pub fn attempt(&self) -> Option<&RestartAttempt> {
        self.attempt.as_deref()
    }

    /// What a due deletion waits for.
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

    /// A due deletion waits for this, or for nothing.
    pub fn wait_for(&mut self, reason: Option<WaitReason>, now: Timestamp) {
        self.wait = reason.map(|reason| Waiting::after(self.wait, reason, now));
    }

    /// An attempt to delete pods has failed.
    pub fn failed(&mut self, attempt: RestartAttempt) {
        self.attempt = Some(Box::new(attempt));
    }

    /// Pods were deleted. `removed` is `None` where it is not known how many there were.
    pub fn pods_removed(&mut self, removed: Option<PodRemoved>) {
        self.attempt = None;
        self.removed = removed.or(self.removed);
    }

    /// These workloads have failed, and people are told. Returns those of which they were told before.
    pub fn failures_told(&mut self, failed: BTreeSet<WorkloadKey>) -> BTreeSet<WorkloadKey> {
        std::mem::replace(&mut self.failures_told, failed)
    }

    /// Others may have led since.
    pub(super) fn term_over(&mut self) {
        *self = Self { removed: self.removed, ..Self::default() };
    }
}
