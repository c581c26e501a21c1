//! What this process remembers of its own doings: what it tried, what it wrote a moment ago, and what it waits
//! for. None of it is in the cluster. A process that begins without it looks again, and waits a little longer
//! at most.
//!
//! There is one record a key, and none for a key of which there is nothing to remember.

use std::collections::BTreeMap;

use jiff::Timestamp;

use super::{
    Attempt, PodRemoved, Repairs, RestartAttempt, Restarted, Spread, UnderWay, Waiting, WorkloadFacts,
};
use crate::names::{NamespacedName, ObjectKey, WorkloadKey};

/// What this process remembers.
#[derive(Debug, Default)]
pub struct Memory {
    slots: BTreeMap<ObjectKey, SlotMemory>,
    sources: BTreeMap<ObjectKey, SourceMemory>,
    workloads: BTreeMap<WorkloadKey, RestartMemory>,
    monitors: BTreeMap<NamespacedName, PodsMemory>,
    under_way: UnderWay,
}

/// What is remembered of one slot. There are tens of thousands of them for a minute after a large spread:
/// what few of them have is boxed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SlotMemory {
    /// The last attempt to write it, where it did not succeed.
    pub attempt: Option<Box<Attempt>>,
    /// The writes of a moment ago, so that a fight over the object is noticed.
    pub repairs: Option<Repairs>,
}

/// What is remembered of one object that others are made of, or use.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SourceMemory {
    /// Why its content could not be read the last time: one word for the status, and a message.
    pub unread: Option<(&'static str, String)>,
    /// Its latest spread, where it has changed a moment ago.
    pub spread: Option<Spread>,
}

/// What is remembered of the restarts of one workload.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RestartMemory {
    /// The last attempt to restart it, where it did not succeed.
    pub attempt: Option<Box<RestartAttempt>>,
    /// What a restart that is due waits for.
    pub wait: Option<Waiting>,
    /// Since when the decision waits for an object that its pods cannot start without.
    pub missing_since: Option<Timestamp>,
    /// Its circuit is open, and that has been told.
    pub circuit_open: bool,
    /// How its last restart went, where others wait for that.
    pub restarted: Option<Restarted>,
    /// It was due, or under way, when we last looked: others may wait for it.
    pub waited_for: bool,
    /// When we last removed a pod of it: no managedFields entry tells of that.
    pub removed_at: Option<Timestamp>,
}

/// What is remembered of the restarts of pods that one monitor selects.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodsMemory {
    /// The last attempt to remove some of them, where it did not succeed.
    pub attempt: Option<Box<RestartAttempt>>,
    /// What a removal that is due waits for.
    pub wait: Option<Waiting>,
    /// The last removal: the controller that brings the pod back may take a moment.
    pub removed: Option<PodRemoved>,
}

impl SlotMemory {
    const NOTHING: &Self = &Self { attempt: None, repairs: None };
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

    /// It waits for this now.
    pub fn wait_for(&mut self, reason: &'static str, now: Timestamp) {
        self.wait = Some(Waiting::after(self.wait, reason, now));
    }

    /// Since when a restart that is due has waited for just this.
    pub fn waits_since(&self, reason: &str) -> Option<Timestamp> {
        self.wait?.since_for(reason)
    }
}

impl PodsMemory {
    const NOTHING: &Self = &Self { attempt: None, wait: None, removed: None };

    /// It waits for this now.
    pub fn wait_for(&mut self, reason: &'static str, now: Timestamp) {
        self.wait = Some(Waiting::after(self.wait, reason, now));
    }

    /// Since when a removal that is due has waited for just this.
    pub fn waits_since(&self, reason: &str) -> Option<Timestamp> {
        self.wait?.since_for(reason)
    }
}

impl Memory {
    /// What is remembered of a slot.
    pub fn slot(&self, slot: &ObjectKey) -> &SlotMemory {
        self.slots.get(slot).unwrap_or(SlotMemory::NOTHING)
    }

    /// The attempts to write that did not succeed.
    pub fn attempts(&self) -> impl Iterator<Item = (&ObjectKey, &Attempt)> {
        self.slots.iter().filter_map(|(slot, memory)| Some((slot, memory.attempt.as_deref()?)))
    }

    /// What is remembered of an object that others are made of, or use.
    pub fn source(&self, object: &ObjectKey) -> &SourceMemory {
        self.sources.get(object).unwrap_or(SourceMemory::NOTHING)
    }

    /// What is remembered of a workload.
    pub fn workload(&self, workload: &WorkloadKey) -> &RestartMemory {
        self.workloads.get(workload).unwrap_or(RestartMemory::NOTHING)
    }

    /// All workloads of which something is remembered, in order.
    pub fn workloads(&self) -> impl Iterator<Item = (&WorkloadKey, &RestartMemory)> {
        self.workloads.iter()
    }

    /// The workloads whose restart waits for this, as found not long ago.
    pub fn waiting_for(&self, reason: &str, now: Timestamp) -> impl Iterator<Item = (&WorkloadKey, Waiting)> {
        let is_it = move |waiting: &Waiting| waiting.reason == reason && waiting.is_fresh(now);
        self.workloads.iter().filter_map(move |(key, memory)| Some((key, memory.wait.filter(is_it)?)))
    }

    /// What is remembered of the pods that a monitor selects.
    pub fn pods(&self, monitor: &NamespacedName) -> &PodsMemory {
        self.monitors.get(monitor).unwrap_or(PodsMemory::NOTHING)
    }

    /// All that restarts wait for, those of selected pods included.
    pub fn waits(&self) -> impl Iterator<Item = Waiting> {
        let of_workloads = self.workloads.values().filter_map(|memory| memory.wait);
        of_workloads.chain(self.monitors.values().filter_map(|memory| memory.wait))
    }

    /// Restarts of ours that are under way.
    pub fn under_way(&self) -> &UnderWay {
        &self.under_way
    }

    /// Changes what is remembered of a slot.
    pub fn at_slot<T>(&mut self, slot: &ObjectKey, change: impl FnOnce(&mut SlotMemory) -> T) -> T {
        at(&mut self.slots, slot, change)
    }

    /// Changes what is remembered of an object that others are made of, or use.
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

    /// Changes what is remembered of the pods that a monitor selects.
    pub fn at_pods<T>(&mut self, monitor: &NamespacedName, change: impl FnOnce(&mut PodsMemory) -> T) -> T {
        at(&mut self.monitors, monitor, change)
    }

    /// Counts a restart as under way, see [`UnderWay::reserve`].
    pub fn reserve(&mut self, workload: &WorkloadKey, label: &str, until: Timestamp) {
        self.under_way.reserve(workload, label, until);
    }

    /// Nothing came of a reserved restart, or it is over.
    pub fn release(&mut self, workload: &WorkloadKey) {
        self.under_way.release(workload);
    }

    /// Another process decides now, and remembers for itself. What we have written, or were refused, stays:
    /// it holds the next write back where the lease comes back to us after a moment.
    pub fn lose_lease(&mut self) {
        let before = std::mem::take(self);
        *self = Self {
            slots: before.slots,
            sources: before.sources,
            under_way: before.under_way,
            ..Self::default()
        };
        for (workload, RestartMemory { removed_at, .. }) in before.workloads {
            self.at_workload(&workload, |memory| memory.removed_at = removed_at);
        }
        for (monitor, PodsMemory { removed, .. }) in before.monitors {
            self.at_pods(&monitor, |memory| memory.removed = removed);
        }
    }

    /// Drops what has been calm for long enough to say nothing any more.
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
        self.sources.retain(|_, memory| {
            memory.spread.take_if(|spread| is_calm(spread));
            memory != SourceMemory::NOTHING
        });
        self.under_way.expire(now);
    }

    /// The object is another, or gone: what was tried on it, or could not be read of it, says nothing any
    /// more. Repairs and spreads do: they are about who writes it, and how often.
    pub(super) fn object_changed(&mut self, object: &ObjectKey) {
        self.at_slot(object, |memory| memory.attempt = None);
        self.at_source(object, |memory| memory.unread = None);
    }

    /// Takes in how a workload stands.
    pub(super) fn see(&mut self, workload: &WorkloadKey, facts: Option<&WorkloadFacts>) {
        self.under_way.see(workload, facts);
    }

    /// A workload is gone. Whether others waited for it is known until it has been looked at: that looks at
    /// those.
    pub(super) fn forget_workload(&mut self, workload: &WorkloadKey) {
        self.at_workload(workload, |memory| {
            *memory = RestartMemory { waited_for: memory.waited_for, ..RestartMemory::default() };
        });
        self.under_way.see(workload, None);
    }

    /// A monitor is gone.
    pub(super) fn forget_monitor(&mut self, monitor: &NamespacedName) {
        self.monitors.remove(monitor);
    }

    /// A namespace has come into sight, or gone out of it: refusals there were refusals for lack of a right.
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

/// Changes one record; there is none where there is nothing to remember.
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
        memory.at_source(&slot, |source| source.unread = Some(("Failed", "no answer".into())));
        assert_eq!(memory.source(&slot).unread.as_ref().map(|(reason, _)| *reason), Some("Failed"));
        memory.object_changed(&slot);
        assert!(memory.sources.is_empty() && memory.slots.is_empty());
    }

    /// Else a lapse of the lease would have the next pod removed before the last one is back.
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
        memory.at_pods(&monitor, |it| it.removed = Some(PodRemoved { at: at(1), controlled: 2 }));
        memory.reserve(&key("begun"), "label", at(9));
        memory.lose_lease();
        let left = RestartMemory { removed_at: Some(at(1)), ..RestartMemory::default() };
        assert_eq!(memory.workloads().collect::<Vec<_>>(), [(&key("removed"), &left)]);
        assert_eq!(memory.pods(&monitor).removed.map(|removed| removed.controlled), Some(2));
        assert!(memory.under_way().is_reserved(&key("begun"), at(8)));
    }

    /// Who waited for it is looked at when it is found to be gone.
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
