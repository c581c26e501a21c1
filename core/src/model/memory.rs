//! The memory of this process about its own actions: failed attempts, recent writes, and waits. The memory is
//! not stored in the cluster. A process that starts without a memory examines the objects again, and at most
//! waits a little longer.
//!
//! A key has one record (`copy_memory.rs`, `restart_memory.rs`), or none if the record would be empty.

use std::{collections::BTreeMap, sync::Arc};

use jiff::{SignedDuration, Timestamp};

use super::{
    Attempt, Repairs, SpecVersion, Spread, UnderWay, WaitReason, Waiting, WorkloadFacts, WriteFault,
    asked::Questions,
    copy_memory::{SlotMemory, SourceMemory, StatusMemory},
    restart_memory::{MonitorMemory, RestartMemory},
};
use crate::names::{Declarer, InstanceName, ObjectKey, WorkloadKey};

/// The memory of this process about its own actions.
#[derive(Debug, Default)]
pub struct Memory {
    slots: BTreeMap<ObjectKey, SlotMemory>,
    statuses: BTreeMap<(Declarer, InstanceName), StatusMemory>,
    sources: BTreeMap<ObjectKey, SourceMemory>,
    workloads: BTreeMap<WorkloadKey, RestartMemory>,
    monitors: BTreeMap<Declarer, MonitorMemory>,
    under_way: UnderWay,
    /// Templates whose expressions wait because namespaces used up their processor time, with these
    /// namespaces and until when the status lists each.
    over_budget: BTreeMap<Declarer, BTreeMap<Arc<str>, Timestamp>>,
    /// Rules and templates whose question to the API server is put off, and until when other rules do not
    /// wait for them.
    put_off: BTreeMap<Declarer, Timestamp>,
    /// UID and generation of templates with an instance all of whose objects have passed a dry run.
    passed: BTreeMap<Declarer, (Box<str>, i64)>,
    /// The objects in the way of copies that no watch shows.
    questions: Questions,
    /// When this process began to lead.
    term_began: Option<Timestamp>,
}

/// How long a status lists a namespace after its last wait. A namespace that uses up its budget again and
/// again does not cause a status write each time.
const OVER_BUDGET_FOR: SignedDuration = SignedDuration::from_mins(5);
/// Maximum number of remembered namespaces over budget for each template. Further namespaces wait too, but
/// the status does not list them.
const MOST_OVER_BUDGET: usize = 16;

/// How long a rule counts as put off after the last try to ask about the rule.
const PUT_OFF_FOR: SignedDuration = SignedDuration::from_mins(10);

impl Memory {
    /// Whether the question about a rule or template is put off, since the API server refused too many
    /// questions of its namespace.
    pub fn is_put_off(&self, rule: &Declarer) -> bool {
        self.put_off.contains_key(rule)
    }

    /// Puts off the question about a rule or template. Returns whether the question was not put off before.
    pub fn put_off(&mut self, rule: &Declarer, now: Timestamp) -> bool {
        self.put_off.insert(rule.clone(), now.saturating_add(PUT_OFF_FOR).unwrap_or(Timestamp::MAX)).is_none()
    }

    /// Notes that the API server was asked about a rule or template.
    pub fn asked(&mut self, rule: &Declarer) {
        self.put_off.remove(rule);
    }

    /// Whether all objects of an instance have passed a dry run for this version of a template.
    pub fn has_passed(&self, template: &Declarer, version: SpecVersion<'_>) -> bool {
        let passed = self.passed.get(template);
        passed.is_some_and(|(uid, generation)| **uid == *version.uid && *generation == version.generation)
    }

    /// Notes that all objects of an instance have passed a dry run for this version of a template.
    pub fn passed(&mut self, template: &Declarer, version: SpecVersion<'_>) {
        self.passed.insert(template.clone(), (version.uid.into(), version.generation));
    }

    /// Forgets a template that was deleted.
    pub(super) fn template_gone(&mut self, template: &Declarer) {
        self.passed.remove(template);
    }

    /// The memory of a slot.
    pub fn slot(&self, slot: &ObjectKey) -> &SlotMemory {
        self.slots.get(slot).unwrap_or(SlotMemory::NOTHING)
    }

    /// The memory of a status that a template writes for this instance.
    pub fn status(&self, template: &Declarer, instance: &InstanceName) -> Option<&StatusMemory> {
        self.statuses.get(&(template.clone(), instance.clone()))
    }

    /// Notes a look at a status that a template writes: the hash of what other templates have written, and
    /// the writes that followed a change by those templates.
    pub fn status_seen(
        &mut self,
        template: &Declarer,
        instance: &InstanceName,
        others: u64,
        repairs: Repairs,
    ) {
        self.statuses.insert((template.clone(), instance.clone()), StatusMemory::new(others, repairs));
    }

    /// The failed attempts to write copies.
    pub fn attempts(&self) -> impl Iterator<Item = (&ObjectKey, &Attempt)> {
        self.slots.iter().filter_map(|(slot, memory)| Some((slot, memory.attempt()?)))
    }

    /// The memory of a ConfigMap or Secret that rules copy or workloads use.
    pub fn source(&self, object: &ObjectKey) -> &SourceMemory {
        self.sources.get(object).unwrap_or(SourceMemory::NOTHING)
    }

    /// Notes that the content of an object was read.
    pub fn content_read(&mut self, object: &ObjectKey) {
        at(&mut self.sources, object, SourceMemory::read);
    }

    /// Notes why the content of an object could not be read.
    pub fn content_unreadable(&mut self, object: &ObjectKey, why: (WriteFault, String)) {
        at(&mut self.sources, object, |source| source.unreadable(why));
    }

    /// The memory of a workload.
    pub fn workload(&self, workload: &WorkloadKey) -> &RestartMemory {
        self.workloads.get(workload).unwrap_or(RestartMemory::NOTHING)
    }

    /// All workloads with a record, in order.
    pub fn workloads(&self) -> impl Iterator<Item = (&WorkloadKey, &RestartMemory)> {
        self.workloads.iter()
    }

    /// The workloads whose restart waits for this reason, if that was confirmed recently.
    pub fn waiting_for(
        &self,
        reason: WaitReason,
        now: Timestamp,
    ) -> impl Iterator<Item = (&WorkloadKey, Waiting)> {
        let is_it = move |waiting: &Waiting| waiting.reason == reason && waiting.is_fresh(now);
        self.workloads.iter().filter_map(move |(key, memory)| Some((key, memory.wait().filter(is_it)?)))
    }

    /// The memory of a monitor.
    pub fn monitor(&self, monitor: &Declarer) -> &MonitorMemory {
        self.monitors.get(monitor).unwrap_or(MonitorMemory::NOTHING)
    }

    /// The waits of all restarts, including restarts of selected pods.
    pub fn waits(&self) -> impl Iterator<Item = Waiting> {
        let of_workloads = self.workloads.values().filter_map(RestartMemory::wait);
        of_workloads.chain(self.monitors.values().filter_map(MonitorMemory::wait))
    }

    /// The namespaces that used up their processor time, so that expressions of this template have waited
    /// recently.
    pub fn over_budget_of(&self, template: &Declarer) -> impl Iterator<Item = &Arc<str>> {
        self.over_budget.get(template).into_iter().flat_map(BTreeMap::keys)
    }

    /// Notes that expressions of a template wait, since this namespace has used up its processor time.
    /// Returns whether the template's list of namespaces has changed.
    pub fn over_budget(&mut self, template: &Declarer, namespace: &Arc<str>, now: Timestamp) -> bool {
        let until = now.saturating_add(OVER_BUDGET_FOR).unwrap_or(Timestamp::MAX);
        let namespaces = self.over_budget.entry(template.clone()).or_default();
        if let Some(known) = namespaces.get_mut(namespace) {
            *known = until;
            return false;
        }
        let has_room = namespaces.len() < MOST_OVER_BUDGET;
        if has_room {
            namespaces.insert(namespace.clone(), until);
        }
        has_room
    }

    /// Forgets namespaces whose last wait, and rules whose last deferral, is long ago. Returns the templates
    /// that had such a namespace.
    pub fn within_budget(&mut self, now: Timestamp) -> Vec<Declarer> {
        self.put_off.retain(|_, until| *until >= now);
        let mut changed = Vec::new();
        self.over_budget.retain(|template, namespaces| {
            let before = namespaces.len();
            namespaces.retain(|_, until| *until >= now);
            if namespaces.len() < before {
                changed.push(template.clone());
            }
            !namespaces.is_empty()
        });
        changed
    }

    /// The restarts of ours that are under way.
    pub fn under_way(&self) -> &UnderWay {
        &self.under_way
    }

    /// Changes the memory of a slot.
    pub fn at_slot<T>(&mut self, slot: &ObjectKey, change: impl FnOnce(&mut SlotMemory) -> T) -> T {
        at(&mut self.slots, slot, change)
    }

    /// Changes the memory of a workload.
    pub fn at_workload<T>(
        &mut self,
        workload: &WorkloadKey,
        change: impl FnOnce(&mut RestartMemory) -> T,
    ) -> T {
        at(&mut self.workloads, workload, change)
    }

    /// Changes the memory of a monitor.
    pub fn at_monitor<T>(&mut self, monitor: &Declarer, change: impl FnOnce(&mut MonitorMemory) -> T) -> T {
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

    /// Forgets the waits, failed attempts and results of restarts, and which problems were reported, since
    /// another process may have led meanwhile. Keeps the memory of copies, of restarts under way, and of
    /// removed pods, which delays our next write if we soon get the lease again.
    pub fn begin_term(&mut self, now: Timestamp) {
        (self.questions, self.term_began) = (Questions::default(), Some(now));
        at_each(&mut self.workloads, |_, memory| memory.term_over());
        at_each(&mut self.monitors, |_, memory| memory.term_over());
    }

    /// When this process began to lead; `None` if the process has not led.
    pub fn term_began(&self) -> Option<Timestamp> {
        self.term_began
    }

    /// When to ask again about an object in the way of a copy; `None` if this process has not asked yet.
    pub fn due(&self, slot: &ObjectKey) -> Option<Timestamp> {
        self.questions.due(slot)
    }

    /// Whether the slot was empty when the reconciler or a watch last looked.
    pub fn is_empty_slot(&self, slot: &ObjectKey) -> bool {
        self.questions.is_empty(slot)
    }

    /// Notes that an object that no watch shows is in the way of a copy, which a rule or template in the
    /// namespace `payer` declares.
    pub fn in_the_way(&mut self, slot: &ObjectKey, payer: &Arc<str>, now: Timestamp) {
        self.questions.in_the_way(slot, payer, now);
    }

    /// Makes the question about an object in the way due at once.
    pub fn ask_now(&mut self, slot: &ObjectKey) {
        self.questions.ask_now(slot);
    }

    /// Notes that a slot is empty.
    pub fn found_empty(&mut self, slot: &ObjectKey) {
        self.questions.found_empty(slot);
    }

    /// Forgets the questions about all other slots.
    pub(super) fn retain_questions(&mut self, is_asked: impl Fn(&ObjectKey) -> bool) {
        self.questions.retain(is_asked);
    }

    /// Drops records that are too old to matter.
    pub fn expire(
        &mut self,
        now: Timestamp,
        is_over: impl Fn(&Repairs) -> bool,
        is_calm: impl Fn(&Spread) -> bool,
    ) {
        at_each(&mut self.slots, |_, memory| memory.expire(&is_over, &is_calm));
        self.statuses.retain(|_, memory| !is_over(memory.repairs()));
        self.under_way.expire(now);
    }

    /// Forgets failed attempts and reads of an object that was changed or deleted. Keeps repairs and spreads,
    /// which count the writes of the object.
    pub(super) fn object_changed(&mut self, object: &ObjectKey) {
        self.at_slot(object, SlotMemory::forget_attempt);
        at(&mut self.sources, object, SourceMemory::changed);
    }

    /// Notes that an object is in the slot.
    pub(super) fn slot_filled(&mut self, slot: &ObjectKey) {
        self.questions.filled(slot);
    }

    /// Forgets the results of writes and examinations of an object that is gone.
    pub(super) fn object_gone(&mut self, object: &ObjectKey) {
        self.at_slot(object, SlotMemory::gone);
    }

    /// Makes refused writes of this rule or template due at once, if they are of the kind and namespace of
    /// its deleted object.
    pub(super) fn freed(&mut self, object: &ObjectKey, rule: &Declarer) {
        let slots = self.slots.range_mut(first_beside(object)..);
        slots.take_while(|(slot, _)| is_beside(slot, object)).for_each(|(_, memory)| memory.freed(rule));
    }

    /// The slots of the kind and namespace of a deleted object whose refused write is due now.
    pub fn due_beside<'m>(&'m self, object: &'m ObjectKey) -> impl Iterator<Item = &'m ObjectKey> {
        let slots = self.slots.range(first_beside(object)..);
        let here = slots.take_while(|(slot, _)| is_beside(slot, object));
        here.filter(|(_, memory)| memory.is_due()).map(|(slot, _)| slot)
    }

    /// Updates the restarts under way from a workload's facts.
    pub(super) fn see(&mut self, workload: &WorkloadKey, facts: Option<&WorkloadFacts>) {
        self.under_way.see(workload, facts);
    }

    /// Forgets a workload that was deleted, but not whether other workloads waited for it: the waiting
    /// workloads are examined next.
    pub(super) fn forget_workload(&mut self, workload: &WorkloadKey) {
        self.at_workload(workload, RestartMemory::gone);
        self.under_way.see(workload, None);
    }

    /// Forgets a monitor that was deleted.
    pub(super) fn forget_monitor(&mut self, monitor: &Declarer) {
        self.monitors.remove(monitor);
    }

    /// Forgets failed attempts in a namespace that became readable or unreadable: a missing right may have
    /// caused them.
    pub(super) fn forget_attempts_in(&mut self, namespace: &str) {
        at_each(&mut self.slots, |slot, memory| {
            if *slot.namespace == *namespace {
                memory.forget_attempt();
            }
        });
        at_each(&mut self.workloads, |workload, memory| {
            if *workload.namespace == *namespace {
                memory.forget_attempt();
            }
        });
    }
}

/// The first key of the same kind in the same namespace.
fn first_beside(object: &ObjectKey) -> ObjectKey {
    ObjectKey { name: "".into(), ..object.clone() }
}

fn is_beside(slot: &ObjectKey, object: &ObjectKey) -> bool {
    slot.kind == object.kind && slot.namespace == object.namespace
}

/// Changes one record, and removes it if it is empty.
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

/// Changes every record, and removes empty records.
fn at_each<K: Ord, R: Default + PartialEq>(records: &mut BTreeMap<K, R>, mut change: impl FnMut(&K, &mut R)) {
    let nothing = R::default();
    records.retain(|key, record| {
        change(key, record);
        *record != nothing
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{api::WorkloadKind, model::PodRemoved, names::Kind};

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn there_is_no_record_of_nothing() {
        let (mut memory, slot) = (Memory::default(), ObjectKey::new(Kind::Secret, "shop", "app"));
        memory.content_unreadable(&slot, (WriteFault::Failed, "no answer".into()));
        assert_eq!(memory.source(&slot).unread().map(|(reason, _)| *reason), Some(WriteFault::Failed));
        memory.object_changed(&slot);
        assert!(memory.sources.is_empty() && memory.slots.is_empty());
    }

    /// Without this memory, a lapse of the lease would let us delete the next pod before the last pod is
    /// replaced.
    #[test]
    fn a_lost_lease_takes_what_we_waited_for_and_leaves_what_we_did() {
        let key = |name: &str| WorkloadKey {
            kind: WorkloadKind::Deployment,
            namespace: "shop".into(),
            name: name.into(),
        };
        let (mut memory, monitor) = (Memory::default(), Declarer::monitor("shop", "monitor"));
        memory.at_workload(&key("waits"), RestartMemory::goes_on);
        memory.at_workload(&key("removed"), |it| {
            it.pods_removed(at(1));
            it.missing(true, at(1));
        });
        let removed = PodRemoved { at: at(1), controlled: 2 };
        memory.at_monitor(&monitor, |it| it.pods_removed(Some(removed)));
        memory.reserve(&key("begun"), "label", at(9));
        memory.begin_term(at(0));
        let mut left = RestartMemory::default();
        left.pods_removed(at(1));
        assert_eq!(memory.workloads().collect::<Vec<_>>(), [(&key("removed"), &left)]);
        assert_eq!(memory.monitor(&monitor).removed(), Some(removed));
        assert!(memory.under_way().is_reserved(&key("begun"), at(8)));
    }

    /// Before this fix, two namespaces over their budget took turns in the status of a template, and each
    /// turn was a warning.
    #[test]
    fn a_namespace_over_its_budget_is_news_once_beside_others() {
        let (mut memory, kit) = (Memory::default(), Declarer::template("platform", "kit"));
        let over = |memory: &Memory| -> Vec<String> {
            memory.over_budget_of(&kit).map(ToString::to_string).collect()
        };
        let [bank, shop] = ["bank", "shop"].map(Arc::from);
        assert!(memory.over_budget(&kit, &bank, at(0)));
        assert!(memory.over_budget(&kit, &shop, at(0)));
        for second in 1..5 {
            let news = [&bank, &shop].map(|namespace| memory.over_budget(&kit, namespace, at(second)));
            assert_eq!(news, [false, false]);
            assert_eq!(over(&memory), ["bank", "shop"]);
        }
        assert!(!memory.over_budget(&kit, &shop, at(100)));
        assert_eq!(memory.within_budget(at(350)), std::slice::from_ref(&kit));
        assert_eq!(over(&memory), ["shop"]);
        assert_eq!(memory.within_budget(at(350)), []);

        let news = (0..1000).filter(|n| memory.over_budget(&kit, &format!("tenant-{n}").into(), at(360)));
        assert_eq!((news.count(), over(&memory).len()), (MOST_OVER_BUDGET - 1, MOST_OVER_BUDGET));
        assert_eq!(memory.within_budget(Timestamp::MAX), std::slice::from_ref(&kit));
        assert!(memory.over_budget.is_empty());
    }

    /// The workloads that waited for a deleted workload are examined when the deletion is noticed.
    #[test]
    fn of_a_workload_that_is_gone_only_that_others_waited_is_known() {
        let web =
            WorkloadKey { kind: WorkloadKind::Deployment, namespace: "shop".into(), name: "web".into() };
        let mut memory = Memory::default();
        memory.at_workload(&web, |it| {
            it.goes_on();
            it.circuit(true)
        });
        memory.forget_workload(&web);
        let mut left = RestartMemory::default();
        left.goes_on();
        assert_eq!(*memory.workload(&web), left);
        assert!(memory.at_workload(&web, RestartMemory::ended));
        assert_eq!(memory.workloads().count(), 0);
    }
}
