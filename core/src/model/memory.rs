//! What this process remembers of its own actions: failed attempts, recent writes, and what it waits for.
//! None of it is in the cluster. A process that starts without it looks again, and waits a little longer at
//! most.
//!
//! A key has one record, or none if nothing is remembered of it.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;

use super::{
    Attempt, Differed, LastRestart, NotKept, PodRemoved, Repairs, RestartAttempt, Spread, UnderWay,
    WaitReason, Waiting, WorkloadFacts, WriteFault,
};
use crate::names::{InstanceName, NamespacedName, ObjectKey, WorkloadKey};

/// What this process remembers of its own actions.
#[derive(Debug, Default)]
pub struct Memory {
    slots: BTreeMap<ObjectKey, SlotMemory>,
    statuses: BTreeMap<(NamespacedName, InstanceName), StatusMemory>,
    sources: BTreeMap<ObjectKey, SourceMemory>,
    workloads: BTreeMap<WorkloadKey, RestartMemory>,
    monitors: BTreeMap<NamespacedName, MonitorMemory>,
    under_way: UnderWay,
}

/// What is remembered of one slot. For a minute after a large spread there are tens of thousands, so rare
/// fields are boxed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SlotMemory {
    /// The last attempt to write the copy, if it failed.
    pub attempt: Option<Box<Attempt>>,
    /// The recent writes, so that a fight with another writer is noticed.
    pub repairs: Option<Repairs>,
    /// What the API server does not keep of the object.
    pub not_kept: Option<Box<NotKept>>,
    /// What its last examination found, where that was a difference.
    pub differed: Option<Box<Differed>>,
}

/// What is remembered of a status that a template writes and reads what other templates make of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatusMemory {
    /// What the others had written when this was last looked at, as a hash.
    pub others: u64,
    /// The writes that followed a change of that.
    pub repairs: Repairs,
}

/// What is remembered of one ConfigMap or Secret that rules copy or workloads use.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SourceMemory {
    /// Why its content could not be read the last time, and a message.
    pub unread: Option<(WriteFault, String)>,
    /// Its latest spread, if the object has changed recently.
    pub spread: Option<Spread>,
}

/// What is remembered of the restarts of one workload.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RestartMemory {
    /// The last attempt to restart it, if it failed.
    pub attempt: Option<Box<RestartAttempt>>,
    /// What a due restart waits for.
    pub wait: Option<Waiting>,
    /// Since when the decision waits for an object that the pods cannot start without.
    pub missing_since: Option<Timestamp>,
    /// Whether the circuit is open, and an Event has said so.
    pub circuit_open: bool,
    /// The result of the last restart, if other workloads wait for it.
    pub restarted: Option<LastRestart>,
    /// Whether it was due or restarting when we last looked: others may wait for it.
    pub waited_for: bool,
    /// When we last deleted a pod of it; no managedFields entry says so.
    pub removed_at: Option<Timestamp>,
}

/// What is remembered of one monitor: of restarts of the pods that it selects, and of what was reported.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MonitorMemory {
    /// The last attempt to delete some of them, if it failed.
    pub attempt: Option<Box<RestartAttempt>>,
    /// What a due deletion waits for.
    pub wait: Option<Waiting>,
    /// The last deletion: the controller may take a moment to recreate the pod.
    pub removed: Option<PodRemoved>,
    /// The workloads reported to have failed, so that others of the monitor wait.
    pub failures_told: BTreeSet<WorkloadKey>,
}

impl SlotMemory {
    const NOTHING: &Self = &Self { attempt: None, repairs: None, not_kept: None, differed: None };
}

impl SourceMemory {
    const NOTHING: &Self = &Self { unread: None, spread: None };
}

impl RestartMemory {
    const NOTHING: &Self = &Self {
        attempt: None,
        wait: None,
        missing_since: None,
        circuit_open: false,
        restarted: None,
        waited_for: false,
        removed_at: None,
    };

    /// Notes what a due restart waits for.
    pub fn wait_for(&mut self, reason: WaitReason, now: Timestamp) {
        self.wait = Some(Waiting::after(self.wait, reason, now));
    }

    /// Since when a due restart has waited for this reason.
    pub fn waits_since(&self, reason: WaitReason) -> Option<Timestamp> {
        self.wait?.since_for(reason)
    }
}

impl MonitorMemory {
    const NOTHING: &Self = &Self { attempt: None, wait: None, removed: None, failures_told: BTreeSet::new() };

    /// Notes what a due deletion waits for.
    pub fn wait_for(&mut self, reason: WaitReason, now: Timestamp) {
        self.wait = Some(Waiting::after(self.wait, reason, now));
    }

    /// Since when a due deletion has waited for this reason.
    pub fn waits_since(&self, reason: WaitReason) -> Option<Timestamp> {
        self.wait?.since_for(reason)
    }
}

impl Memory {
    /// What is remembered of a slot.
    pub fn slot(&self, slot: &ObjectKey) -> &SlotMemory {
        self.slots.get(slot).unwrap_or(SlotMemory::NOTHING)
    }

    /// What is remembered of a status that a template writes for this.
    pub fn status(&self, template: &NamespacedName, instance: &InstanceName) -> Option<&StatusMemory> {
        self.statuses.get(&(template.clone(), instance.clone()))
    }

    /// Remembers this of such a status.
    pub fn set_status(&mut self, template: &NamespacedName, instance: &InstanceName, memory: StatusMemory) {
        self.statuses.insert((template.clone(), instance.clone()), memory);
    }

    /// The failed attempts to write copies.
    pub fn attempts(&self) -> impl Iterator<Item = (&ObjectKey, &Attempt)> {
        self.slots.iter().filter_map(|(slot, memory)| Some((slot, memory.attempt.as_deref()?)))
    }

    /// What is remembered of a ConfigMap or Secret that rules copy or workloads use.
    pub fn source(&self, object: &ObjectKey) -> &SourceMemory {
        self.sources.get(object).unwrap_or(SourceMemory::NOTHING)
    }

    /// Remembers why the content of an object could not be read the last time; `None`: it has been read.
    pub fn set_unread(&mut self, object: &ObjectKey, why: Option<(WriteFault, String)>) {
        self.at_source(object, |source| source.unread = why);
    }

    /// What is remembered of a workload.
    pub fn workload(&self, workload: &WorkloadKey) -> &RestartMemory {
        self.workloads.get(workload).unwrap_or(RestartMemory::NOTHING)
    }

    /// All workloads with a record, in order.
    pub fn workloads(&self) -> impl Iterator<Item = (&WorkloadKey, &RestartMemory)> {
        self.workloads.iter()
    }

    /// The workloads whose restart waits for this reason, as recently confirmed.
    pub fn waiting_for(
        &self,
        reason: WaitReason,
        now: Timestamp,
    ) -> impl Iterator<Item = (&WorkloadKey, Waiting)> {
        let is_it = move |waiting: &Waiting| waiting.reason == reason && waiting.is_fresh(now);
        self.workloads.iter().filter_map(move |(key, memory)| Some((key, memory.wait.filter(is_it)?)))
    }

    /// What is remembered of a monitor.
    pub fn monitor(&self, monitor: &NamespacedName) -> &MonitorMemory {
        self.monitors.get(monitor).unwrap_or(MonitorMemory::NOTHING)
    }

    /// Everything that restarts wait for, including those of selected pods.
    pub fn waits(&self) -> impl Iterator<Item = Waiting> {
        let of_workloads = self.workloads.values().filter_map(|memory| memory.wait);
        of_workloads.chain(self.monitors.values().filter_map(|memory| memory.wait))
    }

    /// The restarts of ours that are under way.
    pub fn under_way(&self) -> &UnderWay {
        &self.under_way
    }

    /// Changes what is remembered of a slot.
    pub fn at_slot<T>(&mut self, slot: &ObjectKey, change: impl FnOnce(&mut SlotMemory) -> T) -> T {
        at(&mut self.slots, slot, change)
    }

    /// Changes what is remembered of a ConfigMap or Secret that rules copy or workloads use.
    pub fn at_source<T>(&mut self, object: &ObjectKey, change: impl FnOnce(&mut SourceMemory) -> T) -> T {
        at(&mut self.sources, object, change)
    }

    /// Changes what is remembered of a workload.
    pub fn at_workload<T>(
        &mut self,
        workload: &WorkloadKey,
        change: impl FnOnce(&mut RestartMemory) -> T,
    ) -> T {
        at(&mut self.workloads, workload, change)
    }

    /// Changes what is remembered of a monitor.
    pub fn at_monitor<T>(
        &mut self,
        monitor: &NamespacedName,
        change: impl FnOnce(&mut MonitorMemory) -> T,
    ) -> T {
        at(&mut self.monitors, monitor, change)
    }

    /// Counts a restart as under way; see [`UnderWay::reserve`].
    pub fn reserve(&mut self, workload: &WorkloadKey, label: &str, until: Timestamp) {
        self.under_way.reserve(workload, label, until);
    }

    /// Ends a reservation: the restart did not happen, or is over.
    pub fn release(&mut self, workload: &WorkloadKey) {
        self.under_way.release(workload);
    }

    /// Forgets the waits and soaks of the last term: others have led since. Recent writes and refusals stay: they
    /// delay our next write if the lease soon comes back to us.
    pub fn begin_term(&mut self) {
        let before = std::mem::take(self);
        *self = Self {
            slots: before.slots,
            statuses: before.statuses,
            sources: before.sources,
            under_way: before.under_way,
            ..Self::default()
        };
        for (workload, RestartMemory { removed_at, .. }) in before.workloads {
            self.at_workload(&workload, |memory| memory.removed_at = removed_at);
        }
        for (monitor, MonitorMemory { removed, .. }) in before.monitors {
            self.at_monitor(&monitor, |memory| memory.removed = removed);
        }
    }

    /// Drops records that are too old to matter.
    pub fn expire(
        &mut self,
        now: Timestamp,
        is_over: impl Fn(&Repairs) -> bool,
        is_calm: impl Fn(&Spread) -> bool,
    ) {
        self.slots.retain(|_, memory| {
            memory.repairs.take_if(|repairs| is_over(repairs));
            memory != SlotMemory::NOTHING
        });
        self.statuses.retain(|_, memory| !is_over(&memory.repairs));
        self.sources.retain(|_, memory| {
            memory.spread.take_if(|spread| is_calm(spread));
            memory != SourceMemory::NOTHING
        });
        self.under_way.expire(now);
    }

    /// Forgets failed attempts and reads of an object that has changed or gone. Repairs and spreads stay:
    /// they are about who writes the object, and how often.
    pub(super) fn object_changed(&mut self, object: &ObjectKey) {
        self.at_slot(object, |memory| memory.attempt = None);
        self.at_source(object, |memory| memory.unread = None);
    }

    /// Forgets what the API server has made of an object that is gone.
    pub(super) fn object_gone(&mut self, object: &ObjectKey) {
        self.at_slot(object, |memory| (memory.not_kept, memory.differed) = (None, None));
    }

    /// Updates the restarts under way by a workload's facts.
    pub(super) fn see(&mut self, workload: &WorkloadKey, facts: Option<&WorkloadFacts>) {
        self.under_way.see(workload, facts);
    }

    /// Forgets a workload that was deleted, except that others waited for it: they are looked at next.
    pub(super) fn forget_workload(&mut self, workload: &WorkloadKey) {
        self.at_workload(workload, |memory| {
            *memory = RestartMemory { waited_for: memory.waited_for, ..RestartMemory::default() };
        });
        self.under_way.see(workload, None);
    }

    /// Forgets a monitor that was deleted.
    pub(super) fn forget_monitor(&mut self, monitor: &NamespacedName) {
        self.monitors.remove(monitor);
    }

    /// Forgets failed attempts in a namespace that can be read again or no longer: they were refused for lack
    /// of a right.
    pub(super) fn forget_attempts_in(&mut self, namespace: &str) {
        self.slots.retain(|slot, memory| {
            if *slot.namespace == *namespace {
                memory.attempt = None;
            }
            memory != SlotMemory::NOTHING
        });
        self.workloads.retain(|workload, memory| {
            if *workload.namespace == *namespace {
                memory.attempt = None;
            }
            memory != RestartMemory::NOTHING
        });
    }
}

/// Changes one record, and removes it if nothing is left to remember.
fn at<K: Clone + Ord, R: Default + PartialEq, T>(
    records: &mut BTreeMap<K, R>,
    key: &K,
    change: impl FnOnce(&mut R) -> T,
) -> T {
    let mut record = records.remove(key).unwrap_or_default();
    let result = change(&mut record);
    if record != R::default() {
        records.insert(key.clone(), record);
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{api::WorkloadKind, names::Kind};

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn there_is_no_record_of_nothing() {
        let (mut memory, slot) = (Memory::default(), ObjectKey::new(Kind::Secret, "shop", "app"));
        memory.at_source(&slot, |source| source.unread = Some((WriteFault::Failed, "no answer".into())));
        assert_eq!(memory.source(&slot).unread.as_ref().map(|(reason, _)| *reason), Some(WriteFault::Failed));
        memory.object_changed(&slot);
        assert!(memory.sources.is_empty() && memory.slots.is_empty());
    }

    /// Otherwise a lapse of the lease would let us delete the next pod before the last one is back.
    #[test]
    fn a_lost_lease_takes_what_we_waited_for_and_leaves_what_we_did() {
        let key = |name: &str| WorkloadKey {
            kind: WorkloadKind::Deployment,
            namespace: "shop".into(),
            name: name.into(),
        };
        let (mut memory, monitor) = (Memory::default(), NamespacedName::new("shop", "monitor"));
        memory.at_workload(&key("waits"), |it| it.waited_for = true);
        memory.at_workload(&key("removed"), |it| {
            it.removed_at = Some(at(1));
            it.missing_since = Some(at(1));
        });
        memory.at_monitor(&monitor, |it| it.removed = Some(PodRemoved { at: at(1), controlled: 2 }));
        memory.reserve(&key("begun"), "label", at(9));
        memory.begin_term();
        let left = RestartMemory { removed_at: Some(at(1)), ..RestartMemory::default() };
        assert_eq!(memory.workloads().collect::<Vec<_>>(), [(&key("removed"), &left)]);
        assert_eq!(memory.monitor(&monitor).removed.map(|removed| removed.controlled), Some(2));
        assert!(memory.under_way().is_reserved(&key("begun"), at(8)));
    }

    /// The workloads that waited for it are looked at when it is found to be gone.
    #[test]
    fn of_a_workload_that_is_gone_only_that_others_waited_is_known() {
        let web =
            WorkloadKey { kind: WorkloadKind::Deployment, namespace: "shop".into(), name: "web".into() };
        let mut memory = Memory::default();
        memory.at_workload(&web, |it| (it.waited_for, it.circuit_open) = (true, true));
        memory.forget_workload(&web);
        assert_eq!(*memory.workload(&web), RestartMemory { waited_for: true, ..RestartMemory::default() });
        memory.at_workload(&web, |it| it.waited_for = false);
        assert_eq!(memory.workloads().count(), 0);
    }
}
