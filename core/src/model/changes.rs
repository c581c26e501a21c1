//! What happens to a world: what watches tell of, lists show and fetches bring. What is forgotten with a key is
//! forgotten here, in one place a kind.

use std::{collections::BTreeMap, sync::Arc};

use jiff::Timestamp;

use super::{
    Definition, Hooked, MonitorFacts, NamespaceFacts, Places, PodsSeen, PolicyFacts, RuleFacts, Standing,
    Store, Taken, WorkloadFacts, World,
};
use crate::{
    api::CopyratorRuleStatus,
    digest::DigestKey,
    names::{NamespacedName, ObjectKey, WorkloadKey},
};

impl World {
    /// The key of digests and marks has been read.
    pub fn set_key(&mut self, key: DigestKey) {
        self.cluster.key = Some(key);
    }

    /// A list of a store is through; whether that is its first.
    pub fn set_listed(&mut self, store: Store) -> bool {
        self.cluster.listed.insert(store)
    }

    /// Everything has been listed at once.
    pub fn set_all_listed(&mut self) {
        self.cluster.listed = self.settings().stores.clone();
    }

    /// A store has to be listed again before anything is decided.
    pub fn forget_listed(&mut self, store: Store) {
        self.cluster.listed.remove(&store);
    }

    /// A watch has failed: nothing is taken for gone before its next list.
    pub fn begin_doubt(&mut self, store: Store, place: Option<Arc<str>>) {
        self.cluster.in_doubt.insert((store, place));
    }

    /// It has listed again, or its place is out of sight and left alone anyway.
    pub fn end_doubt(&mut self, store: Store, place: Option<Arc<str>>) {
        self.cluster.in_doubt.remove(&(store, place));
    }

    /// This process looks at these namespaces only.
    pub fn set_places(&mut self, places: Option<Places>) {
        self.cluster.places = places;
    }

    /// It has been seen whether the API server keeps stamps on annotations honest; whether that is news.
    pub fn set_stamps_guarded(&mut self, guarded: bool) -> bool {
        self.cluster.stamps_guarded.replace(guarded) != Some(guarded)
    }

    /// Takes in one namespace, and says whether that is news. For a namespace that is new under its name,
    /// nobody has been asked yet whether the rules that name it may do what they declare.
    pub fn set_namespace(&mut self, name: Arc<str>, facts: NamespaceFacts) -> bool {
        let cluster = &mut self.cluster;
        let known = cluster.namespaces.get(&name);
        let is_news = known != Some(&facts);
        if known.is_none_or(|known| known.uid != facts.uid) {
            let rules = &cluster.rules;
            let names_it = |facts: &RuleFacts| {
                facts.compiled.as_ref().is_ok_and(|compiled| compiled.names_namespace(&name))
            };
            cluster.rule_authority.retain(|rule, _| !rules.get(rule).is_some_and(names_it));
        }
        cluster.namespaces.insert(name, facts);
        is_news
    }

    /// A namespace is gone.
    pub fn forget_namespace(&mut self, name: &str) {
        self.cluster.namespaces.remove(name);
    }

    /// Rules were listed under this definition.
    pub fn set_definition(&mut self, definition: Option<Definition>) {
        self.cluster.definition = definition;
    }

    /// Takes in one rule.
    pub fn set_rule(&mut self, rule: NamespacedName, facts: RuleFacts) {
        self.cluster.rules.insert(rule, facts);
    }

    /// A rule's status is this now; what it was before. `None` where there is no such rule.
    pub fn set_rule_status(
        &mut self,
        rule: &NamespacedName,
        status: CopyratorRuleStatus,
    ) -> Option<Option<CopyratorRuleStatus>> {
        self.cluster.rules.status_mut(rule).map(|known| known.replace(status))
    }

    /// A rule is gone, or annotations declare it no longer: those never go with a definition.
    pub fn forget_rule(&mut self, rule: &NamespacedName) {
        self.cluster.rules.remove(rule);
        self.cluster.rule_authority.remove(rule);
        self.cluster.deletions.remove(rule);
        self.cluster.rules_gone += u64::from(rule.annotated().is_none());
    }

    /// Takes in one monitor.
    pub fn set_monitor(&mut self, monitor: NamespacedName, facts: MonitorFacts) {
        self.cluster.monitors.insert(monitor, facts);
    }

    /// Corrects what is known of a monitor, if it is known.
    pub fn edit_monitor<T>(
        &mut self,
        monitor: &NamespacedName,
        edit: impl FnOnce(&mut MonitorFacts) -> T,
    ) -> Option<T> {
        self.cluster.monitors.get_mut(monitor).map(edit)
    }

    /// When we wrote the `podsApplied` that a monitor has, as its managedFields say.
    pub fn set_pods_recorded(&mut self, monitor: &NamespacedName, at: Option<Timestamp>) {
        set(&mut self.cluster.pods_recorded, monitor, at);
    }

    /// When somebody wrote `copyrator.dev/restart-now` on a monitor, as its managedFields say.
    pub fn set_restart_now(&mut self, monitor: &NamespacedName, at: Option<Timestamp>) {
        set(&mut self.cluster.restart_now, monitor, at);
    }

    /// A monitor is gone, however it was declared.
    pub fn forget_monitor(&mut self, monitor: &NamespacedName) {
        self.cluster.monitors.remove(monitor);
        self.cluster.pods_recorded.remove(monitor);
        self.cluster.restart_now.remove(monitor);
        self.cluster.monitor_authority.remove(monitor);
        self.cluster.selected_pods.remove(monitor);
        self.memory.forget_monitor(monitor);
    }

    /// There are sources that only annotations declare and that this process does not know, or there are not.
    pub fn set_sources_omitted(&mut self, omitted: bool) {
        self.cluster.sources_omitted = omitted;
    }

    /// Nothing is declared by annotations any more.
    pub fn forget_annotated(&mut self) {
        let declared = self.rules().keys().chain(self.monitors().keys());
        let annotated: Vec<_> = declared.filter(|name| name.annotated().is_some()).cloned().collect();
        for name in annotated {
            self.forget_rule(&name);
            self.forget_monitor(&name);
        }
    }

    /// What is wrong with annotations of an object that look like ours; `None`: nothing is.
    pub fn set_misspelt(&mut self, object: &ObjectKey, what: Option<String>) {
        set(&mut self.cluster.misspelt, object, what);
    }

    /// How many other objects of the kind and namespace have such annotations; counted up to `most`.
    pub fn misspelt_beside(&self, object: &ObjectKey, most: usize) -> usize {
        let first = ObjectKey::new(object.kind, &*object.namespace, "");
        let beside = self.cluster.misspelt.range(first..).map(|(key, _)| key);
        let beside = beside.take_while(|key| key.kind == object.kind && key.namespace == object.namespace);
        beside.filter(|key| *key != object).take(most).count()
    }

    /// Takes in one policy.
    pub fn set_policy(&mut self, policy: Arc<str>, facts: PolicyFacts) {
        self.cluster.policies.insert(policy, facts);
    }

    /// Corrects what is known of a policy, if it is known.
    pub fn edit_policy(&mut self, policy: &str, edit: impl FnOnce(&mut PolicyFacts)) {
        if let Some(facts) = self.cluster.policies.get_mut(policy) {
            edit(facts);
        }
    }

    /// It has been looked at whether writes are judged by a policy; whether that is news.
    pub fn set_hooked(&mut self, policy: &Arc<str>, hooked: Hooked) -> bool {
        let is_news = self.hooked(policy) != Some(&hooked) && self.cluster.policies.contains_key(policy);
        if is_news {
            self.cluster.hooked.insert(policy.clone(), hooked);
        }
        is_news
    }

    /// What is there has been held against the policies.
    pub fn set_standing(&mut self, standing: BTreeMap<Arc<str>, Standing>) {
        self.cluster.standing = standing;
    }

    /// A policy is gone.
    pub fn forget_policy(&mut self, policy: &str) {
        self.cluster.policies.remove(policy);
        self.cluster.hooked.remove(policy);
        self.cluster.standing.remove(policy);
    }

    /// Takes in a workload as a watch shows it; whether that is news. What somebody took from it while we
    /// looked is kept.
    pub fn see_workload(&mut self, workload: WorkloadKey, mut facts: WorkloadFacts) -> bool {
        let kept = self.workloads().get(&workload).and_then(|known| facts.keep(known));
        let taken = match (kept, self.taken(&workload)) {
            (Some(Taken::Label), Some(before)) => Some(before),
            (kept, _) => kept,
        };
        set(&mut self.cluster.taken, &workload, taken);
        self.set_workload(workload, facts)
    }

    /// Takes in a workload as it is; whether that is news.
    pub fn set_workload(&mut self, workload: WorkloadKey, facts: WorkloadFacts) -> bool {
        self.memory.see(&workload, Some(&facts));
        self.cluster.workloads.insert(workload, facts.clone()) != Some(facts)
    }

    /// Takes in what somebody took from a workload.
    pub fn set_taken(&mut self, workload: &WorkloadKey, taken: Option<Taken>) {
        set(&mut self.cluster.taken, workload, taken);
    }

    /// Corrects what is known of a workload, if it is known.
    pub fn edit_workload(&mut self, workload: &WorkloadKey, edit: impl FnOnce(&mut WorkloadFacts)) {
        if let Some(facts) = self.cluster.workloads.get_mut(workload) {
            edit(facts);
            self.memory.see(workload, Some(&*facts));
        }
    }

    /// A workload is gone.
    pub fn forget_workload(&mut self, workload: &WorkloadKey) {
        self.cluster.workloads.remove(workload);
        self.cluster.pods.remove(workload);
        self.cluster.taken.remove(workload);
        self.memory.forget_workload(workload);
    }

    /// The pods of a workload have been listed.
    pub fn set_pods(&mut self, workload: &WorkloadKey, seen: PodsSeen) {
        self.cluster.pods.insert(workload.clone(), seen);
    }

    /// Corrects what is known of the pods of a workload, if they are known.
    pub fn edit_pods(&mut self, workload: &WorkloadKey, edit: impl FnOnce(&mut PodsSeen)) {
        if let Some(seen) = self.cluster.pods.get_mut(workload) {
            edit(seen);
        }
    }

    /// The pods of a workload are other ones by now, or nobody has to know them any more.
    pub fn forget_pods(&mut self, workload: &WorkloadKey) {
        self.cluster.pods.remove(workload);
    }

    /// The pods that a monitor's podSelector finds have been listed.
    pub fn set_selected_pods(&mut self, monitor: &NamespacedName, seen: PodsSeen) {
        self.cluster.selected_pods.insert(monitor.clone(), seen);
    }

    /// Corrects what is known of the pods that a monitor's podSelector finds, if they are known.
    pub fn edit_selected_pods(&mut self, monitor: &NamespacedName, edit: impl FnOnce(&mut PodsSeen)) {
        if let Some(seen) = self.cluster.selected_pods.get_mut(monitor) {
            edit(seen);
        }
    }

    /// The pods that a monitor's podSelector finds are other ones by now; what they were.
    pub fn forget_selected_pods(&mut self, monitor: &NamespacedName) -> Option<PodsSeen> {
        self.cluster.selected_pods.remove(monitor)
    }
}

/// Keeps a value, or none.
fn set<K: Clone + Ord, V>(values: &mut BTreeMap<K, V>, key: &K, value: Option<V>) {
    match value {
        Some(value) => drop(values.insert(key.clone(), value)),
        None => drop(values.remove(key)),
    }
}
