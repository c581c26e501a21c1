//! Everything known of the cluster at one moment. Watches write it, planner and webhook read it.

use std::{collections::BTreeMap, sync::Arc};

use jiff::Timestamp;

use super::{
    Authority, ChangedKeys, Definition, Hooked, Memory, MonitorFacts, NamespaceFacts, Places, PodsSeen,
    PolicyFacts, Rules, Settings, Standing, Store, Taken, WorkloadFacts, cluster::Cluster,
};
use crate::{
    api::WorkloadKind,
    digest::DigestKey,
    names::{NamespacedName, ObjectKey, WorkloadKey},
};

/// Everything known of the cluster at one moment: what is observed, what this process remembers of its own
/// doings, and how it is set.
///
/// What is observed is read here, and changed by what is said to have happened (`changes.rs`, `objects.rs`,
/// `answers.rs`, `places.rs`), so that what hangs together changes together.
#[derive(Debug, Default)]
pub struct World {
    pub(super) cluster: Cluster,
    pub(super) memory: Memory,
    settings: Settings,
}

impl World {
    /// Of which nothing is known yet.
    pub fn new(settings: Settings) -> Self {
        Self { settings, ..Self::default() }
    }

    /// How this process is set.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The same, to be set otherwise.
    pub fn settings_mut(&mut self) -> &mut Settings {
        &mut self.settings
    }

    /// What this process remembers.
    pub fn memory(&self) -> &Memory {
        &self.memory
    }

    /// The same, to be changed.
    pub fn memory_mut(&mut self) -> &mut Memory {
        &mut self.memory
    }

    /// Every store this process keeps is listed, and every place has been looked at or refused.
    pub fn is_complete(&self) -> bool {
        !self.settings.stores.is_empty()
            && self.is_listed()
            && self.places().is_none_or(|places| places.unsettled().next().is_none())
    }

    /// Every store this process keeps is listed.
    pub fn is_listed(&self) -> bool {
        self.unlisted().next().is_none()
    }

    /// The stores that are still to be listed.
    pub fn unlisted(&self) -> impl Iterator<Item = Store> {
        self.settings.stores.difference(&self.cluster.listed).copied()
    }

    /// Whether a watch of our own kinds has failed since it last listed: whatever went meanwhile may have
    /// gone with its definition.
    pub fn is_in_doubt(&self) -> bool {
        !self.cluster.in_doubt.is_empty()
    }

    /// The only namespaces that this process looks at; `None`: it looks at all of them.
    pub fn places(&self) -> Option<&Places> {
        self.cluster.places.as_ref()
    }

    /// The key of digests and marks, once read.
    pub fn key(&self) -> Option<&DigestKey> {
        self.cluster.key.as_ref()
    }

    /// Whether the API server keeps stamps on annotations honest, once that has been seen.
    pub fn stamps_guarded(&self) -> Option<bool> {
        self.cluster.stamps_guarded
    }

    /// Namespaces by name; where only some are looked at, those in sight.
    pub fn namespaces(&self) -> &BTreeMap<Arc<str>, NamespaceFacts> {
        &self.cluster.namespaces
    }

    /// Rules by name.
    pub fn rules(&self) -> &Rules {
        &self.cluster.rules
    }

    /// The definition that those were listed under; `None` where it may not be read.
    pub fn definition(&self) -> Option<&Definition> {
        self.cluster.definition.as_ref()
    }

    /// How many rules have gone.
    pub fn rules_gone(&self) -> u64 {
        self.cluster.rules_gone
    }

    /// What was last answered about the identity of a rule.
    pub fn rule_authority(&self, rule: &NamespacedName) -> Option<&Authority> {
        self.cluster.rule_authority.get(rule)
    }

    /// There are sources that only annotations declare and that this process does not know.
    pub fn sources_omitted(&self) -> bool {
        self.cluster.sources_omitted
    }

    /// Monitors by name.
    pub fn monitors(&self) -> &BTreeMap<NamespacedName, MonitorFacts> {
        &self.cluster.monitors
    }

    /// The monitors of one namespace.
    pub fn monitors_in<'w>(
        &'w self,
        namespace: &'w str,
    ) -> impl Iterator<Item = (&'w NamespacedName, &'w MonitorFacts)> {
        self.monitors()
            .range(NamespacedName::new(namespace, "")..)
            .take_while(move |(key, _)| &*key.namespace == namespace)
    }

    /// What was last answered about the identity of a monitor.
    pub fn monitor_authority(&self, monitor: &NamespacedName) -> Option<&Authority> {
        self.cluster.monitor_authority.get(monitor)
    }

    /// The pods that a monitor's podSelector found when they were last listed.
    pub fn selected_pods(&self, monitor: &NamespacedName) -> Option<&PodsSeen> {
        self.cluster.selected_pods.get(monitor)
    }

    /// When we wrote the `podsApplied` that is in a monitor's status (1 s resolution).
    pub fn pods_recorded(&self, monitor: &NamespacedName) -> Option<Timestamp> {
        self.cluster.pods_recorded.get(monitor).copied()
    }

    /// When somebody wrote `copyrator.dev/restart-now` on a monitor (1 s resolution).
    pub fn restart_now(&self, monitor: &NamespacedName) -> Option<Timestamp> {
        self.cluster.restart_now.get(monitor).copied()
    }

    /// Policies by name.
    pub fn policies(&self) -> &BTreeMap<Arc<str>, PolicyFacts> {
        &self.cluster.policies
    }

    /// Whether writes are judged by a policy, as last looked at.
    pub fn hooked(&self, policy: &str) -> Option<&Hooked> {
        self.cluster.hooked.get(policy)
    }

    /// By how much what is there already breaks a policy, as last looked at.
    pub fn standing(&self, policy: &str) -> Option<&Standing> {
        self.cluster.standing.get(policy)
    }

    /// Workloads by name.
    pub fn workloads(&self) -> &BTreeMap<WorkloadKey, WorkloadFacts> {
        &self.cluster.workloads
    }

    /// The workloads of one namespace.
    pub fn workloads_in<'w>(
        &'w self,
        namespace: &'w Arc<str>,
    ) -> impl Iterator<Item = (&'w WorkloadKey, &'w WorkloadFacts)> {
        [WorkloadKind::Deployment, WorkloadKind::StatefulSet, WorkloadKind::DaemonSet].into_iter().flat_map(
            move |kind| {
                let from = WorkloadKey { kind, namespace: namespace.clone(), name: "".into() };
                self.workloads()
                    .range(from..)
                    .take_while(move |(key, _)| key.kind == kind && key.namespace == *namespace)
            },
        )
    }

    /// What somebody took from a workload while we looked; its facts keep what it said.
    pub fn taken(&self, workload: &WorkloadKey) -> Option<Taken> {
        self.cluster.taken.get(workload).copied()
    }

    /// The pods of a workload whose restart looked due, as last listed.
    pub fn pods(&self, workload: &WorkloadKey) -> Option<&PodsSeen> {
        self.cluster.pods.get(workload)
    }

    /// Which keys of an object have changed between two fetches, as far as both were seen.
    pub fn changed_keys(&self, object: &ObjectKey) -> Option<&ChangedKeys> {
        self.cluster.changed_keys.get(object)
    }

    /// What is wrong with annotations of a ConfigMap or Secret that look like ours, and count for nothing.
    pub fn misspelt(&self, object: &ObjectKey) -> Option<&String> {
        self.cluster.misspelt.get(object)
    }
}
