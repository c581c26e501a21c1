//! Everything known of the cluster at one moment. Watches write it, planner and webhook read it.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use jiff::Timestamp;

use super::{
    Authority, Fingerprint, Hooked, MonitorFacts, NamespaceFacts, NamespacedName, ObjectFacts, ObjectKey,
    Places, PodRemoved, PodsSeen, PolicyFacts, RestartAttempt, Restarted, RuleFacts, Spread, SpreadLimits,
    Standing, Taken, UnderWay, Waits, WorkloadFacts, WorkloadKey, WorkloadKind,
};
use crate::digest::DigestKey;

/// What must be known before anything is decided: the first list of each watch, and the key of digests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[allow(missing_docs, reason = "each is the plural of what it holds")]
pub enum Store {
    Namespaces,
    ConfigMaps,
    Secrets,
    Deployments,
    StatefulSets,
    DaemonSets,
    CopyratorRules,
    ConfigMonitors,
    ConfigPolicies,
    DigestKey,
    SourceIndex,
}

/// What became of the last attempt to write an object, kept until it succeeds or the object changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attempt {
    /// The version of the object that the attempt was decided on; `None` where it did not exist.
    pub resource_version: Option<Box<str>>,
    /// The content that was to be written.
    pub digest: String,
    /// Only deletion and creation anew can write it (an immutable object, a changed Secret type).
    pub replace: bool,
    /// One word from the documented list.
    pub reason: &'static str,
    /// What the API server said, without values.
    pub message: String,
    /// It is not tried again before.
    pub retry_at: Timestamp,
}

/// Writes of one content to one slot in a row: its own first one, and repairs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Repairs {
    /// The content.
    pub digest: String,
    /// How many.
    pub count: u32,
    /// Since when they are counted; where there were too many, when the next one may be.
    pub from: Timestamp,
}

/// Everything known of the cluster at one moment.
#[derive(Debug, Default)]
pub struct World {
    /// Namespaces by name; where only some are looked at, those in sight ([`World::look`]).
    pub namespaces: BTreeMap<Arc<str>, NamespaceFacts>,
    /// Boxed: lists come in order, which leaves a tree's nodes half empty, and there are tens of thousands.
    objects: BTreeMap<ObjectKey, Box<ObjectFacts>>,
    copies_by_rule: BTreeMap<NamespacedName, BTreeSet<ObjectKey>>,
    copies_by_source: BTreeMap<NamespacedName, BTreeSet<ObjectKey>>,
    /// Rules.
    pub rules: BTreeMap<NamespacedName, RuleFacts>,
    /// How many rules have gone: whatever was found out before the last of them does not speak of it.
    pub rules_gone: u64,
    /// Monitors.
    pub monitors: BTreeMap<NamespacedName, MonitorFacts>,
    /// Policies by name.
    pub policies: BTreeMap<Arc<str>, PolicyFacts>,
    /// Whether writes are judged by each policy, as last looked at.
    pub hooked: BTreeMap<Arc<str>, Hooked>,
    /// By how much what is there already breaks each policy, as last looked at.
    pub standing: BTreeMap<Arc<str>, Standing>,
    /// There are sources that only annotations declare and that this process does not know.
    pub sources_omitted: bool,
    /// Workloads; written by [`World::set_workload`], which keeps `under_way` too.
    pub workloads: BTreeMap<WorkloadKey, WorkloadFacts>,
    /// Restarts of ours under way.
    pub under_way: UnderWay,
    /// How many there may be, in the whole cluster; 0: as many as are due.
    pub max_rollouts: usize,
    /// What restarts that are due wait for.
    pub waits: Waits<WorkloadKey>,
    /// The same of pods that monitors find themselves.
    pub pod_waits: Waits<NamespacedName>,
    /// Workloads whose circuit is open, so that it is told once.
    pub circuits: BTreeSet<WorkloadKey>,
    /// Digests of the content of sources and used objects, as last fetched.
    pub fingerprints: BTreeMap<ObjectKey, Fingerprint>,
    /// Pods of workloads whose restart looked due.
    pub pods: BTreeMap<WorkloadKey, PodsSeen>,
    /// Pods that a monitor's podSelector finds.
    pub selected_pods: BTreeMap<NamespacedName, PodsSeen>,
    /// Answers about the identities of rules.
    pub rule_authority: BTreeMap<NamespacedName, Authority>,
    /// Answers about the identities of monitors.
    pub monitor_authority: BTreeMap<NamespacedName, Authority>,
    /// What became of attempts that did not succeed.
    pub attempts: BTreeMap<ObjectKey, Attempt>,
    /// Objects whose content could not be read the last time, and why.
    pub unread: BTreeMap<ObjectKey, String>,
    /// What was written a moment ago, so that a fight over an object is noticed.
    pub repairs: BTreeMap<ObjectKey, Repairs>,
    /// The latest spread of each source that has changed a moment ago.
    pub spreads: BTreeMap<ObjectKey, Spread>,
    /// What became of attempts to restart a workload that did not succeed.
    pub restart_attempts: BTreeMap<WorkloadKey, RestartAttempt>,
    /// What became of attempts to remove pods that a monitor selects, that did not succeed.
    pub pod_attempts: BTreeMap<NamespacedName, RestartAttempt>,
    /// The last removal of a pod that a monitor selects: whoever brings it back may take a moment.
    pub pods_removed: BTreeMap<NamespacedName, PodRemoved>,
    /// Since when a decision about a workload waits for an object that its pods cannot start without.
    pub missing_since: BTreeMap<WorkloadKey, Timestamp>,
    /// What somebody took from workloads while we looked; their facts keep what it said.
    pub taken: BTreeMap<WorkloadKey, Taken>,
    /// How restarts of workloads went that others wait for.
    pub restarted: BTreeMap<WorkloadKey, Restarted>,
    /// Workloads that were due, or under way, when we last looked: others may wait for them.
    pub waited_for: BTreeSet<WorkloadKey>,
    /// When somebody wrote `copyrator.dev/restart-now` on a monitor (1 s resolution).
    pub restart_now: BTreeMap<NamespacedName, Timestamp>,
    /// When we last removed a pod of a workload: no managedFields entry tells of it.
    pub removed_at: BTreeMap<WorkloadKey, Timestamp>,
    /// When we wrote the `podsApplied` that is in a monitor's status (1 s resolution).
    pub pods_recorded: BTreeMap<NamespacedName, Timestamp>,
    /// The only namespaces that this process looks at; `None`: it looks at all of them.
    pub places: Option<Places>,
    /// The stores whose first list is complete.
    pub complete: BTreeSet<Store>,
    /// The stores that this process keeps.
    pub expected: BTreeSet<Store>,
    /// The key of digests and marks, once read.
    pub key: Option<DigestKey>,
    /// Never targets.
    pub system_namespaces: BTreeSet<String>,
    /// Grace of rules that name none.
    pub default_grace: Duration,
    /// How fast and how far one source may spread.
    pub spread_limits: SpreadLimits,
    /// Where our own objects live.
    pub own_namespace: String,
    /// The only rule that is served, where the process serves one: copies of others are not its business.
    pub only_rule: Option<NamespacedName>,
    /// Whether annotations of ours on other people's objects count.
    pub annotations: bool,
    /// Whether the API server keeps stamps on annotations honest, once that has been seen: else none is believed that
    /// has not been proven before.
    pub stamps_guarded: Option<bool>,
}

impl World {
    /// Every store this process keeps is complete, and every place has been looked at or refused.
    pub fn is_complete(&self) -> bool {
        !self.expected.is_empty()
            && self.expected.is_subset(&self.complete)
            && self.places.as_ref().is_none_or(|places| places.unsettled().next().is_none())
    }

    /// What is known of one ConfigMap or Secret.
    pub fn object(&self, key: &ObjectKey) -> Option<&ObjectFacts> {
        self.objects.get(key).map(Box::as_ref)
    }

    /// Every ConfigMap and Secret, in order.
    pub fn objects(&self) -> impl Iterator<Item = (&ObjectKey, &ObjectFacts)> {
        self.objects.iter().map(|(key, facts)| (key, &**facts))
    }

    /// The ConfigMaps or Secrets of one namespace.
    pub fn objects_in<'w>(
        &'w self,
        kind: super::Kind,
        namespace: &'w str,
    ) -> impl Iterator<Item = (&'w ObjectKey, &'w ObjectFacts)> {
        let from = ObjectKey::new(kind, namespace, "");
        self.objects
            .range(from..)
            .take_while(move |(key, _)| key.kind == kind && &*key.namespace == namespace)
            .map(|(key, facts)| (key, &**facts))
    }

    /// The workloads of one namespace.
    pub fn workloads_in<'w>(
        &'w self,
        namespace: &'w Arc<str>,
    ) -> impl Iterator<Item = (&'w WorkloadKey, &'w WorkloadFacts)> {
        [WorkloadKind::Deployment, WorkloadKind::StatefulSet, WorkloadKind::DaemonSet].into_iter().flat_map(
            move |kind| {
                let from = WorkloadKey { kind, namespace: namespace.clone(), name: "".into() };
                self.workloads
                    .range(from..)
                    .take_while(move |(key, _)| key.kind == kind && key.namespace == *namespace)
            },
        )
    }

    /// The monitors of one namespace.
    pub fn monitors_in<'w>(
        &'w self,
        namespace: &'w str,
    ) -> impl Iterator<Item = (&'w NamespacedName, &'w MonitorFacts)> {
        self.monitors
            .range(NamespacedName::new(namespace, "")..)
            .take_while(move |(key, _)| &*key.namespace == namespace)
    }

    /// Takes in one ConfigMap or Secret, or its absence.
    pub fn set_object(&mut self, mut key: ObjectKey, facts: Option<ObjectFacts>) {
        if let Some((known, _)) = self.namespaces.get_key_value(&key.namespace) {
            // One name for all that is in it.
            key.namespace = known.clone();
        }
        self.unindex(&key);
        self.attempts.remove(&key);
        self.unread.remove(&key);
        match facts {
            Some(facts) => {
                if let Some(marks) = &facts.marks {
                    self.copies_by_rule.entry(marks.rule.clone()).or_default().insert(key.clone());
                    self.copies_by_source.entry(marks.source.clone()).or_default().insert(key.clone());
                }
                self.objects.insert(key, Box::new(facts));
            }
            None => {
                self.objects.remove(&key);
                self.fingerprints.remove(&key);
            }
        }
    }

    /// Takes in one workload, or its absence; whether that is news.
    pub fn set_workload(&mut self, key: WorkloadKey, facts: Option<WorkloadFacts>) -> bool {
        self.under_way.see(&key, facts.as_ref());
        match facts {
            Some(facts) => self.workloads.insert(key, facts.clone()) != Some(facts),
            None => self.workloads.remove(&key).is_some(),
        }
    }

    /// The objects whose marks name this rule, whether they verify or not.
    pub fn copies_of_rule(&self, rule: &NamespacedName) -> impl Iterator<Item = &ObjectKey> {
        self.copies_by_rule.get(rule).into_iter().flatten()
    }

    /// The objects whose marks name this source; marks do not say its kind.
    pub fn copies_of_source(&self, source: &NamespacedName) -> impl Iterator<Item = &ObjectKey> {
        self.copies_by_source.get(source).into_iter().flatten()
    }

    /// Every object that carries marks.
    pub fn copies(&self) -> impl Iterator<Item = &ObjectKey> {
        self.copies_by_rule.values().flatten()
    }

    /// The fingerprint of an object, where it is of the version that the store knows.
    pub fn fingerprint(&self, key: &ObjectKey) -> Option<&Fingerprint> {
        let facts = self.objects.get(key)?;
        self.fingerprints
            .get(key)
            .filter(|print| print.uid == facts.uid && print.resource_version == facts.resource_version)
    }

    fn unindex(&mut self, key: &ObjectKey) {
        let Some(marks) = self.objects.get(key).and_then(|facts| facts.marks.as_deref()) else { return };
        let (rule, source) = (marks.rule.clone(), marks.source.clone());
        remove_from(&mut self.copies_by_rule, &rule, key);
        remove_from(&mut self.copies_by_source, &source, key);
    }
}

fn remove_from<K: Ord>(index: &mut BTreeMap<K, BTreeSet<ObjectKey>>, at: &K, key: &ObjectKey) {
    if let Some(set) = index.get_mut(at) {
        set.remove(key);
        if set.is_empty() {
            index.remove(at);
        }
    }
}
