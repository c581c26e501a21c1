//! Changes of a [`World`] by the results of watches, lists and fetches. For each kind, one function forgets
//! all facts of a deleted object.

use std::{collections::BTreeMap, sync::Arc};

use jiff::Timestamp;
use serde_json::Value;

use super::{
    Declaration, Definition, HookCoverage, InstanceFacts, InstancesRead, LostRecord, MonitorFacts,
    NamespaceFacts, NamespaceRead, NamespaceScope, PodsSeen, PolicyFacts, Remark, RenderedSet, RuleFacts,
    ScanResult, SpecVersion, StatusAnswer, StatusFault, Store, TemplateFacts, WorkloadFacts, World,
};
use crate::{
    api::CopyratorRuleStatus,
    digest::DigestKey,
    names::{Declarer, InstanceKind, InstanceName, Kind, NamespacedName, ObjectKey, WorkloadKey},
};

impl World {
    /// Sets the key of digests and marks.
    pub fn set_key(&mut self, key: DigestKey) {
        self.cluster.key = Some(key);
    }

    /// Notes that a store was listed completely; returns whether the store was not listed before.
    pub fn set_listed(&mut self, store: Store) -> bool {
        self.cluster.listed.insert(store)
    }

    /// Marks every store as listed.
    pub fn set_all_listed(&mut self) {
        self.cluster.listed = self.settings().stores.clone();
    }

    /// Marks a store as incomplete: the planner makes no decision until the store is listed again.
    pub fn forget_listed(&mut self, store: Store) {
        self.cluster.listed.remove(&store);
    }

    /// Notes that a watch has failed: until the next list of the watch, a missing object is not treated as
    /// deleted.
    pub fn begin_doubt(&mut self, store: Store, place: Option<Arc<str>>) {
        self.cluster.in_doubt.insert((store, place));
    }

    /// Notes that the watch has listed again, or that its namespace cannot be read, so that Copyrator changes
    /// nothing in it anyway.
    pub fn end_doubt(&mut self, store: Store, place: Option<Arc<str>>) {
        self.cluster.in_doubt.remove(&(store, place));
    }

    /// Sets the only namespaces that this process reads; `None` for all.
    pub fn set_namespace_scope(&mut self, places: Option<NamespaceScope>) {
        self.cluster.namespace_scope = places;
    }

    /// Notes the result of reading one kind in one namespace. Returns whether the namespace became readable
    /// or unreadable.
    pub fn note_read(&mut self, name: &Arc<str>, read: NamespaceRead) -> bool {
        let Some(scope) = &mut self.cluster.namespace_scope else { return false };
        let Some(facts) = scope.note(name, read) else { return false };
        let known = self.cluster.namespaces.get(name);
        let uid = |facts: &NamespaceFacts| facts.uid.clone();
        let is_other = known.map(uid) != facts.as_ref().map(uid);
        let has_turned = known.is_some() != facts.is_some();
        if is_other {
            scope.changes += 1;
        }
        match facts {
            Some(facts) => drop(self.set_namespace(name.clone(), facts)),
            None => self.forget_namespace(name),
        }
        if is_other {
            // The questions about rights covered only the namespaces that were readable.
            self.cluster.rule_authority.clear();
            self.memory.forget_attempts_in(name);
        }
        has_turned
    }

    /// Sets whether the API server corrects or refuses forged author annotations; returns whether the value
    /// has changed.
    pub fn set_stamps_guarded(&mut self, guarded: bool) -> bool {
        self.cluster.stamps_guarded.replace(guarded) != Some(guarded)
    }

    /// Stores one namespace; returns whether its facts have changed. If the UID is new, answers about the
    /// rights of rules and templates that name the namespace are forgotten.
    pub fn set_namespace(&mut self, name: Arc<str>, facts: NamespaceFacts) -> bool {
        let cluster = &mut self.cluster;
        let known = cluster.namespaces.get(&name);
        // Only templates read annotations.
        let reads = |(of, template): (&Declarer, &TemplateFacts)| {
            template.compiled.as_ref().is_ok_and(|compiled| {
                compiled.reads_annotations && compiled.goes_into(of.namespace(), &name, &facts.labels)
            })
        };
        let are_read = cluster.templates.iter().any(reads);
        let is_same = |known: &NamespaceFacts| match are_read {
            true => *known == facts,
            false => {
                let NamespaceFacts { annotations, annotations_cut, .. } = known.clone();
                NamespaceFacts { annotations, annotations_cut, ..facts.clone() } == *known
            }
        };
        let is_news = !known.is_some_and(is_same);
        if known.is_none_or(|known| known.uid != facts.uid) {
            let (rules, templates) = (&cluster.rules, &cluster.templates);
            let rule_names_it = |facts: &RuleFacts| {
                facts.compiled.as_ref().is_ok_and(|compiled| compiled.names_namespace(&name))
            };
            let template_names_it = |facts: &TemplateFacts| {
                facts.compiled.as_ref().is_ok_and(|compiled| compiled.names_namespace(&name))
            };
            cluster.rule_authority.retain(|of, _| {
                !rules.get(of).is_some_and(rule_names_it) && !templates.get(of).is_some_and(template_names_it)
            });
        }
        cluster.namespaces.insert(name, facts);
        is_news
    }

    /// Forgets a namespace that was deleted.
    pub fn forget_namespace(&mut self, name: &str) {
        self.cluster.namespaces.remove(name);
    }

    /// Sets the CustomResourceDefinition under which rules, or templates, were listed; returns whether the
    /// definition has changed.
    pub fn set_definition(&mut self, store: Store, definition: Option<Definition>) -> bool {
        let is_other = self.cluster.definitions.get(&store) != definition.as_ref();
        set(&mut self.cluster.definitions, &store, definition);
        is_other
    }

    /// Stores one rule, as listed or watched.
    pub fn set_rule(&mut self, rule: Declarer, facts: RuleFacts) {
        self.cluster.rules.insert(rule, facts);
    }

    /// Sets a rule's status and returns the previous status; `None` for an unknown rule.
    pub fn set_rule_status(
        &mut self,
        rule: &Declarer,
        status: CopyratorRuleStatus,
    ) -> Option<Option<CopyratorRuleStatus>> {
        self.cluster.rules.status_mut(rule).map(|known| known.replace(status))
    }

    /// Forgets a rule that was deleted, or that annotations no longer declare. Only a deleted rule adds to
    /// `rules_gone`: annotations are not deleted with a CustomResourceDefinition.
    pub fn forget_rule(&mut self, rule: &Declarer) {
        self.cluster.rules.remove(rule);
        self.cluster.rule_authority.remove(rule);
        self.cluster.rights.remove(rule);
        self.cluster.rules_gone += u64::from(rule.as_annotated().is_none());
    }

    /// Stores one template, as listed or watched.
    pub fn set_template(&mut self, template: Declarer, facts: TemplateFacts) {
        self.cluster.templates.insert(template, facts);
    }

    /// Sets a template's status and returns the previous status; `None` for an unknown template.
    pub fn set_template_status(
        &mut self,
        template: &Declarer,
        status: CopyratorRuleStatus,
    ) -> Option<Option<CopyratorRuleStatus>> {
        self.cluster.templates.get_mut(template).map(|known| known.status.replace(status))
    }

    /// Forgets a template that was deleted, and its declarations.
    pub fn forget_template(&mut self, template: &Declarer) {
        self.cluster.templates.remove(template);
        self.memory.template_gone(template);
        self.cluster.rendered.forget(template);
        self.cluster.rule_authority.remove(template);
        self.cluster.rights.remove(template);
        self.cluster.rules_gone += 1;
    }

    /// Sets the objects that a template declares for a namespace or object; `None` if the template does not
    /// select the namespace or object. A set that was rendered from another version of the template is
    /// dropped.
    pub fn set_rendered(&mut self, template: &Declarer, instance: &InstanceName, set: Option<RenderedSet>) {
        let version = self.declaration(template).map(Declaration::version);
        let set = set.filter(|set| {
            let (uid, generation) = &set.template;
            version == Some(SpecVersion { uid, generation: *generation })
        });
        self.cluster.rendered.replace(template, instance, set);
    }

    /// Notes why the status of an object differs from its declaration in a template; `None` if the status
    /// does not differ.
    pub fn set_status_fault(
        &mut self,
        template: &Declarer,
        instance: &InstanceName,
        fault: Option<StatusFault>,
    ) {
        if let Some(set) = self.cluster.rendered.set_mut(template, instance) {
            set.status_fault = fault;
        }
    }

    /// Notes the result of writing a template's status, which left the object as `seen`.
    pub fn set_status_answer(
        &mut self,
        template: &Declarer,
        instance: &InstanceName,
        seen: &Value,
        fault: Option<(StatusFault, Timestamp)>,
    ) {
        if let Some(set) = self.cluster.rendered.set_mut(template, instance) {
            set.status_answer = Some(StatusAnswer { fields: set.status_fields(seen), fault });
        }
    }

    /// Stores one object that templates may be rendered for; `seen` is the part that expressions can read.
    /// Returns whether a template must be rendered again: if no field that the template reads has changed,
    /// the result would be the same.
    pub fn set_instance(
        &mut self,
        kind: &InstanceKind,
        name: &NamespacedName,
        facts: InstanceFacts,
        seen: &Value,
    ) -> bool {
        let cluster = &mut self.cluster;
        let before = cluster.instances.get(kind, name);
        let is_same = before.is_some_and(|before| {
            let of = |facts: &InstanceFacts| (facts.uid.clone(), facts.is_marked, facts.terminating);
            of(before) == of(&facts) && before.labels == facts.labels
        });
        let instance = InstanceName::of_object(name);
        let (uid, version) = (facts.uid.clone(), facts.resource_version.clone());
        cluster.instances.set(kind, name, Some(facts));
        let is_kept = cluster.instances.get(kind, name).is_some_and(|facts| facts.body.is_some());
        let mut is_news = !is_same;
        for (template, facts) in &cluster.templates {
            let Some(compiled) = facts.compiled.as_deref().ok().filter(|it| it.instance_kind() == Some(kind))
            else {
                continue;
            };
            let set = cluster.rendered.set_mut(template, &instance);
            let known = cluster.instances.get(kind, name);
            let is_selected =
                known.is_some_and(|known| compiled.selects_object(&name.name, known.labels.as_ref()));
            // A template that does not select the object need not be rendered again.
            if is_same && set.is_none() && !is_selected {
                continue;
            }
            let set = set.filter(|_| is_kept);
            // Somebody may have changed the status that the template writes.
            is_news |= set.as_ref().is_none_or(|set| !set.is_written(seen));
            match set.and_then(|set| set.instance.as_mut()) {
                Some(read) if read.uid == uid && read.read == compiled.read_of(seen) => {
                    read.resource_version = version.clone();
                }
                _ => is_news = true,
            }
        }
        is_news
    }

    /// Forgets an object that templates may be rendered for.
    pub fn forget_instance(&mut self, kind: &InstanceKind, name: &NamespacedName) {
        self.cluster.instances.set(kind, name, None);
    }

    /// Sets the read state of a kind that templates are rendered for; returns whether the state has changed.
    pub fn set_instances_read(&mut self, kind: &InstanceKind, read: InstancesRead) -> bool {
        self.cluster.instances.set_read(kind, read)
    }

    /// Sets the read state of a kind that templates declare and that is known at run time only; returns
    /// whether the state has changed.
    pub fn set_granted_read(&mut self, kind: Kind, read: InstancesRead) -> bool {
        self.cluster.granted_read.insert(kind, read.clone()).unwrap_or_default() != read
    }

    /// Stores one monitor, as listed or watched.
    pub fn set_monitor(&mut self, monitor: Declarer, facts: MonitorFacts) {
        self.cluster.monitors.insert(monitor, facts);
    }

    /// Changes the facts of a monitor, if the monitor is known.
    pub fn edit_monitor<T>(
        &mut self,
        monitor: &Declarer,
        edit: impl FnOnce(&mut MonitorFacts) -> T,
    ) -> Option<T> {
        self.cluster.monitors.get_mut(monitor).map(edit)
    }

    /// Sets when we wrote the `podsApplied` in a monitor's status, by its managedFields.
    pub fn set_pods_recorded(&mut self, monitor: &Declarer, at: Option<Timestamp>) {
        set(&mut self.cluster.pods_recorded, monitor, at);
    }

    /// Sets when somebody wrote `copyrator.dev/restart-now` on a monitor, by its managedFields.
    pub fn set_restart_now(&mut self, monitor: &Declarer, at: Option<Timestamp>) {
        set(&mut self.cluster.restart_now, monitor, at);
    }

    /// Forgets a monitor, however it was declared.
    pub fn forget_monitor(&mut self, monitor: &Declarer) {
        self.cluster.monitors.remove(monitor);
        self.cluster.pods_recorded.remove(monitor);
        self.cluster.restart_now.remove(monitor);
        self.cluster.monitor_authority.remove(monitor);
        self.cluster.selected_pods.remove(monitor);
        self.memory.forget_monitor(monitor);
    }

    /// Sets whether annotations declare sources that this process does not know.
    pub fn set_sources_omitted(&mut self, omitted: bool) {
        self.cluster.sources_omitted = omitted;
    }

    /// Forgets all rules and monitors that annotations declare.
    pub fn forget_annotated(&mut self) {
        let declared = self.rules().keys().chain(self.monitors().keys());
        let annotated: Vec<_> = declared.filter(|name| name.as_annotated().is_some()).cloned().collect();
        for name in annotated {
            self.forget_rule(&name);
            self.forget_monitor(&name);
        }
    }

    /// Sets the problem to report to the object's author as an Event; `None` clears the problem.
    pub fn set_remark(&mut self, object: &ObjectKey, remark: Option<Remark>) {
        set(&mut self.cluster.remarks, object, remark);
    }

    /// The number of other objects of the same kind and namespace with a problem to report, counted up to
    /// `most`.
    pub fn remarks_beside(&self, object: &ObjectKey, most: usize) -> usize {
        let first = ObjectKey::new(object.kind, &*object.namespace, "");
        let beside = self.cluster.remarks.range(first..).map(|(key, _)| key);
        let beside = beside.take_while(|key| key.kind == object.kind && key.namespace == object.namespace);
        beside.filter(|key| *key != object).take(most).count()
    }

    /// Stores one policy, as listed or watched.
    pub fn set_policy(&mut self, policy: Arc<str>, facts: PolicyFacts) {
        self.cluster.policies.insert(policy, facts);
    }

    /// Changes the facts of a policy, if the policy is known.
    pub fn edit_policy(&mut self, policy: &str, edit: impl FnOnce(&mut PolicyFacts)) {
        if let Some(facts) = self.cluster.policies.get_mut(policy) {
            edit(facts);
        }
    }

    /// Sets whether the API server calls the webhook for a policy's writes; returns whether the value has
    /// changed.
    pub fn set_hooked(&mut self, policy: &Arc<str>, hooked: HookCoverage) -> bool {
        let is_news = self.hooked(policy) != Some(&hooked) && self.cluster.policies.contains_key(policy);
        if is_news {
            self.cluster.hooked.insert(policy.clone(), hooked);
        }
        is_news
    }

    /// Sets the results of checking all existing objects against the policies.
    pub fn set_scan_results(&mut self, results: BTreeMap<Arc<str>, ScanResult>) {
        self.cluster.scan_results = results;
    }

    /// Forgets a policy that was deleted.
    pub fn forget_policy(&mut self, policy: &str) {
        self.cluster.policies.remove(policy);
        self.cluster.hooked.remove(policy);
        self.cluster.scan_results.remove(policy);
    }

    /// Stores a workload from a watch; returns whether its facts have changed. Keeps a record of ours that
    /// somebody has removed from the workload since its earlier version.
    pub fn see_workload(&mut self, workload: WorkloadKey, mut facts: WorkloadFacts) -> bool {
        let kept = self.workloads().get(&workload).and_then(|known| facts.keep(known));
        let taken = match (kept, self.lost_record(&workload)) {
            (Some(LostRecord::Label), Some(before)) => Some(before),
            (kept, _) => kept,
        };
        set(&mut self.cluster.lost_records, &workload, taken);
        self.set_workload(workload, facts)
    }

    /// Stores a workload's current facts; returns whether the facts have changed.
    pub fn set_workload(&mut self, mut workload: WorkloadKey, facts: WorkloadFacts) -> bool {
        self.share_namespace(&mut workload.namespace);
        self.memory.see(&workload, Some(&facts));
        // Clone the facts, since a clone has no spare capacity, which matters for tens of thousands of
        // workloads.
        let facts = Box::new(facts.clone());
        let is_news = self.workloads().get(&workload) != Some(&facts);
        self.cluster.workloads.insert(workload, facts);
        is_news
    }

    /// Sets which record of ours somebody has removed from a workload.
    pub fn set_lost_record(&mut self, workload: &WorkloadKey, taken: Option<LostRecord>) {
        set(&mut self.cluster.lost_records, workload, taken);
    }

    /// Changes the facts of a workload, if the workload is known.
    pub fn edit_workload(&mut self, workload: &WorkloadKey, edit: impl FnOnce(&mut WorkloadFacts)) {
        if let Some(facts) = self.cluster.workloads.get_mut(workload) {
            edit(facts);
            self.memory.see(workload, Some(&*facts));
        }
    }

    /// Forgets a workload that was deleted.
    pub fn forget_workload(&mut self, workload: &WorkloadKey) {
        self.cluster.workloads.remove(workload);
        self.cluster.pods.remove(workload);
        self.cluster.lost_records.remove(workload);
        self.memory.forget_workload(workload);
    }

    /// Sets the pods of a workload, as listed.
    pub fn set_pods(&mut self, workload: &WorkloadKey, seen: PodsSeen) {
        self.cluster.pods.insert(workload.clone(), seen);
    }

    /// Changes the known pods of a workload, if its pods are known.
    pub fn edit_pods(&mut self, workload: &WorkloadKey, edit: impl FnOnce(&mut PodsSeen)) {
        if let Some(seen) = self.cluster.pods.get_mut(workload) {
            edit(seen);
        }
    }

    /// Forgets the pods of a workload: the pods have changed, or are no longer needed.
    pub fn forget_pods(&mut self, workload: &WorkloadKey) {
        self.cluster.pods.remove(workload);
    }

    /// Sets the pods that a monitor's podSelector selects, as listed.
    pub fn set_selected_pods(&mut self, monitor: &Declarer, seen: PodsSeen) {
        self.cluster.selected_pods.insert(monitor.clone(), seen);
    }

    /// Changes the known pods that a monitor's podSelector selects, if its pods are known.
    pub fn edit_selected_pods(&mut self, monitor: &Declarer, edit: impl FnOnce(&mut PodsSeen)) {
        if let Some(seen) = self.cluster.selected_pods.get_mut(monitor) {
            edit(seen);
        }
    }

    /// Forgets the pods that a monitor's podSelector selects, and returns them.
    pub fn forget_selected_pods(&mut self, monitor: &Declarer) -> Option<PodsSeen> {
        self.cluster.selected_pods.remove(monitor)
    }
}

/// Sets a value, or removes it.
fn set<K: Clone + Ord, V>(values: &mut BTreeMap<K, V>, key: &K, value: Option<V>) {
    match value {
        Some(value) => drop(values.insert(key.clone(), value)),
        None => drop(values.remove(key)),
    }
}
