//! The model of the cluster at one moment. Watches write the model; the planner and the webhook read it.

use std::{collections::BTreeMap, sync::Arc};

use jiff::Timestamp;

use super::{
    Authority, ChangedKeys, Declaration, Definition, HookCoverage, InstanceFacts, InstancesRead, LostRecord,
    Memory, MonitorFacts, NamespaceFacts, NamespaceScope, PodsSeen, PolicyFacts, Remark, Rules, ScanResult,
    Settings, Store, TemplateFacts, Unseen, WorkloadFacts, cluster::Cluster,
};
use crate::{
    api::WorkloadKind,
    digest::DigestKey,
    names::{Declarer, InstanceKind, Kind, NamespacedName, ObjectKey, WorkloadKey},
};

/// The model of the cluster at one moment: the observed state, the process's memory of its own actions, and
/// its settings.
///
/// This file has the functions that read observations. Functions that are named after events change the
/// observations (`changes.rs`, `objects.rs`, `answers.rs`), so that related facts change together.
#[derive(Debug, Default)]
pub struct World {
    pub(super) cluster: Cluster,
    pub(super) memory: Memory,
    settings: Settings,
}

impl World {
    /// An empty world with these settings.
    pub fn new(settings: Settings) -> Self {
        Self { settings, ..Self::default() }
    }

    /// The settings of this process.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The settings of this process, mutable.
    pub fn settings_mut(&mut self) -> &mut Settings {
        &mut self.settings
    }

    /// The process's memory of its own actions.
    pub fn memory(&self) -> &Memory {
        &self.memory
    }

    /// The process's memory of its own actions, mutable.
    pub fn memory_mut(&mut self) -> &mut Memory {
        &mut self.memory
    }

    /// Whether every store is listed, and every namespace of a limited scope was read or refused. A plan that
    /// reads the ConfigMaps or Secrets of a namespace may still have to wait for their list
    /// ([`Self::is_listing`]).
    pub fn is_complete(&self) -> bool {
        !self.settings.stores.is_empty()
            && self.is_listed()
            && self.namespace_scope().is_none_or(|places| places.unsettled().next().is_none())
    }

    /// Whether every store that this process keeps is listed.
    pub fn is_listed(&self) -> bool {
        self.unlisted().next().is_none()
    }

    /// The stores that are not listed yet.
    pub fn unlisted(&self) -> impl Iterator<Item = Store> {
        self.settings.stores.difference(&self.cluster.listed).copied()
    }

    /// Whether a watch of our own kinds has failed since it last listed. The CustomResourceDefinition may
    /// have been deleted meanwhile, and the objects with it.
    pub fn is_in_doubt(&self) -> bool {
        !self.cluster.in_doubt.is_empty()
    }

    /// The only namespaces that this process reads; `None` if the process reads all namespaces.
    pub fn namespace_scope(&self) -> Option<&NamespaceScope> {
        self.cluster.namespace_scope.as_ref()
    }

    /// Whether all lists of a namespace were read. Always true if all namespaces are watched.
    pub fn sees(&self, namespace: &str) -> bool {
        self.cluster.namespace_scope.is_none() || self.cluster.namespaces.contains_key(namespace)
    }

    /// Why a namespace is not read: the reason, and a message with the fix; `None` for a namespace that is
    /// read.
    pub fn unseen(&self, namespace: &str) -> Option<(Unseen, String)> {
        let scope = self.namespace_scope().filter(|_| !self.sees(namespace))?;
        Some(scope.why_unseen(namespace))
    }

    /// The key of digests and marks; `None` until the key was read.
    pub fn key(&self) -> Option<&DigestKey> {
        self.cluster.key.as_ref()
    }

    /// Whether the API server corrects or refuses forged author annotations; `None` until checked.
    pub fn stamps_guarded(&self) -> Option<bool> {
        self.cluster.stamps_guarded
    }

    /// Namespaces by name; if the process reads only some namespaces, the namespaces that were read
    /// completely.
    pub fn namespaces(&self) -> &BTreeMap<Arc<str>, NamespaceFacts> {
        &self.cluster.namespaces
    }

    /// All rules, by name, with their indexes.
    pub fn rules(&self) -> &Rules {
        &self.cluster.rules
    }

    /// All templates, by name.
    pub fn templates(&self) -> &BTreeMap<Declarer, TemplateFacts> {
        &self.cluster.templates
    }

    /// The read state of a kind that templates are rendered for.
    pub fn instances_read(&self, kind: &InstanceKind) -> InstancesRead {
        self.cluster.instances.read(kind)
    }

    /// The read state of a kind that templates declare.
    pub fn granted_read(&self, kind: Kind) -> InstancesRead {
        match kind {
            Kind::Granted(_) => self.cluster.granted_read.get(&kind).cloned().unwrap_or_default(),
            // The planner makes no decision before all stores are listed.
            _ => InstancesRead::Listed,
        }
    }

    /// Every object of a kind that templates are rendered for.
    pub fn instances<'w>(
        &'w self,
        kind: &InstanceKind,
    ) -> impl Iterator<Item = (&'w NamespacedName, &'w InstanceFacts)> + use<'w> {
        self.cluster.instances.of(kind)
    }

    /// The objects of a kind that templates are rendered for, in one namespace.
    pub fn instances_in<'w>(
        &'w self,
        kind: &InstanceKind,
        namespace: &'w str,
    ) -> impl Iterator<Item = (&'w NamespacedName, &'w InstanceFacts)> + use<'w> {
        self.cluster.instances.within(kind, namespace)
    }

    /// The object of this kind and name; `None` for an unknown object.
    pub fn instance(&self, kind: &InstanceKind, name: &NamespacedName) -> Option<&InstanceFacts> {
        self.cluster.instances.get(kind, name)
    }

    /// The rule or template of this name.
    pub fn declaration(&self, name: &Declarer) -> Option<Declaration<'_>> {
        match name {
            Declarer::Template(_) => self.templates().get(name).map(Declaration::Template),
            _ => self.rules().get(name).map(Declaration::Rule),
        }
    }

    /// The CustomResourceDefinition under which rules were listed; `None` if the process may not read
    /// definitions.
    pub fn definition(&self) -> Option<&Definition> {
        self.cluster.definitions.get(&Store::CopyratorRules)
    }

    /// The CustomResourceDefinition of a rule or template.
    pub fn definition_of(&self, name: &Declarer) -> Option<&Definition> {
        self.cluster.definitions.get(&Store::declaring(name))
    }

    /// How many rules and templates were deleted so far.
    pub fn rules_gone(&self) -> u64 {
        self.cluster.rules_gone
    }

    /// The last answer about a rule's identity.
    pub fn rule_authority(&self, rule: &Declarer) -> Option<&Authority> {
        self.cluster.rule_authority.get(rule)
    }

    /// Whether annotations declare sources that this process does not know.
    pub fn sources_omitted(&self) -> bool {
        self.cluster.sources_omitted
    }

    /// All monitors, by name.
    pub fn monitors(&self) -> &BTreeMap<Declarer, MonitorFacts> {
        &self.cluster.monitors
    }

    /// The monitors of one namespace.
    pub fn monitors_in<'w>(
        &'w self,
        namespace: &'w str,
    ) -> impl Iterator<Item = (&'w Declarer, &'w MonitorFacts)> {
        self.monitors()
            .range(Declarer::monitor(namespace, "")..)
            .take_while(move |(key, _)| **key.namespace() == *namespace)
    }

    /// The last answer about a monitor's identity.
    pub fn monitor_authority(&self, monitor: &Declarer) -> Option<&Authority> {
        self.cluster.monitor_authority.get(monitor)
    }

    /// The pods that a monitor's podSelector selected when they were last listed.
    pub fn selected_pods(&self, monitor: &Declarer) -> Option<&PodsSeen> {
        self.cluster.selected_pods.get(monitor)
    }

    /// When we wrote the `podsApplied` in a monitor's status (1 s resolution).
    pub fn pods_recorded(&self, monitor: &Declarer) -> Option<Timestamp> {
        self.cluster.pods_recorded.get(monitor).copied()
    }

    /// When somebody wrote `copyrator.dev/restart-now` on a monitor (1 s resolution).
    pub fn restart_now(&self, monitor: &Declarer) -> Option<Timestamp> {
        self.cluster.restart_now.get(monitor).copied()
    }

    /// All policies, by name.
    pub fn policies(&self) -> &BTreeMap<Arc<str>, PolicyFacts> {
        &self.cluster.policies
    }

    /// Whether the API server calls the webhook for a policy's writes, as last seen.
    pub fn hooked(&self, policy: &str) -> Option<&HookCoverage> {
        self.cluster.hooked.get(policy)
    }

    /// The existing objects that violate a policy, as found by the last scan.
    pub fn scan_result(&self, policy: &str) -> Option<&ScanResult> {
        self.cluster.scan_results.get(policy)
    }

    /// All workloads, by kind and name.
    pub fn workloads(&self) -> &BTreeMap<WorkloadKey, Box<WorkloadFacts>> {
        &self.cluster.workloads
    }

    /// The workloads of one namespace.
    pub fn workloads_in<'w>(
        &'w self,
        namespace: &'w Arc<str>,
    ) -> impl Iterator<Item = (&'w WorkloadKey, &'w WorkloadFacts)> {
        WorkloadKind::ALL.into_iter().flat_map(move |kind| {
            let from = WorkloadKey { kind, namespace: namespace.clone(), name: "".into() };
            self.workloads()
                .range(from..)
                .take_while(move |(key, _)| key.kind == kind && key.namespace == *namespace)
                .map(|(key, facts)| (key, &**facts))
        })
    }

    /// The record of ours that somebody removed from a workload; the workload's facts still have the record.
    pub fn lost_record(&self, workload: &WorkloadKey) -> Option<LostRecord> {
        self.cluster.lost_records.get(workload).copied()
    }

    /// The pods of a workload that seemed due for a restart, as last listed.
    pub fn pods(&self, workload: &WorkloadKey) -> Option<&PodsSeen> {
        self.cluster.pods.get(workload)
    }

    /// The keys of an object that changed between two fetches by this process.
    pub fn changed_keys(&self, object: &ObjectKey) -> Option<&ChangedKeys> {
        self.cluster.changed_keys.get(object)
    }

    /// The problem to report to the object's author as an Event.
    pub fn remark(&self, object: &ObjectKey) -> Option<&Remark> {
        self.cluster.remarks.get(object)
    }
}
