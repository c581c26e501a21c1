//! Everything known of the cluster at one moment. Watches write it, planner and webhook read it.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use jiff::Timestamp;

use super::{
    Authority, ChangedKeys, Definition, DeletionAnswers, Hooked, Labels, MonitorFacts, NamespaceFacts,
    ObjectFacts, Places, PodRemoved, PodsSeen, PolicyFacts, RestartAttempt, Restarted, RuleFacts, Rules,
    Spread, SpreadLimits, Standing, Taken, UnderWay, Waits, WorkloadFacts,
};
use crate::{
    api::WorkloadKind,
    digest::{DigestKey, Fingerprint},
    names::{NamespacedName, ObjectKey, WorkloadKey},
};

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

impl Store {
    /// It holds objects of a kind of ours: they go with their definition, and nothing tells the one from the
    /// other.
    pub fn is_ours(self) -> bool {
        matches!(self, Self::CopyratorRules | Self::ConfigMonitors | Self::ConfigPolicies)
    }
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
    /// What a policy refused was judged by this ([`crate::plan::copy::judged_by`]), and is tried again when
    /// that is not the same.
    pub judged_by: Option<u64>,
}

/// Writes of one content to one slot in a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Repairs {
    /// The content.
    pub digest: String,
    /// How many changed what was there.
    pub count: u32,
    /// Since when they are counted; where there were too many, when the next one may be.
    pub from: Timestamp,
    /// How many made it, its own first one among them: while it is missing its place is anybody's.
    pub made: u32,
    /// When the last of those was.
    pub made_at: Timestamp,
}

/// Everything known of the cluster at one moment.
#[derive(Debug, Default)]
pub struct World {
    /// Namespaces by name; where only some are looked at, those in sight ([`World::look`]).
    pub namespaces: BTreeMap<Arc<str>, NamespaceFacts>,
    /// Boxed: lists come in order, which leaves a tree's nodes half empty, and there are tens of thousands.
    objects: BTreeMap<ObjectKey, Box<ObjectFacts>>,
    /// Sets of labels; most objects have one that others have too.
    labels: BTreeSet<Arc<Labels>>,
    copies_by_rule: BTreeMap<NamespacedName, BTreeSet<ObjectKey>>,
    copies_by_source: BTreeMap<NamespacedName, BTreeSet<ObjectKey>>,
    /// Rules.
    pub rules: Rules,
    /// The definition that those were listed under; `None` where it may not be read.
    pub definition: Option<Definition>,
    /// Watches of our own kinds, by place, that have failed since they last listed: whatever went meanwhile
    /// may have gone with its definition.
    pub in_doubt: BTreeSet<(Store, Option<Arc<str>>)>,
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
    /// Which keys of them have changed between two fetches, as far as both were seen.
    pub changed_keys: BTreeMap<ObjectKey, ChangedKeys>,
    /// Pods of workloads whose restart looked due.
    pub pods: BTreeMap<WorkloadKey, PodsSeen>,
    /// Pods that a monitor's podSelector finds.
    pub selected_pods: BTreeMap<NamespacedName, PodsSeen>,
    /// Answers about the identities of rules.
    pub rule_authority: BTreeMap<NamespacedName, Authority>,
    /// Whether those may delete copies that the rules' present specs do not speak of, as far as somebody had
    /// to know.
    pub deletions: BTreeMap<NamespacedName, DeletionAnswers>,
    /// Answers about the identities of monitors.
    pub monitor_authority: BTreeMap<NamespacedName, Authority>,
    /// What became of attempts that did not succeed.
    pub attempts: BTreeMap<ObjectKey, Attempt>,
    /// Objects whose content could not be read the last time, and why: one word for the status, and a
    /// message.
    pub unread: BTreeMap<ObjectKey, (&'static str, String)>,
    /// What was written a moment ago, so that a fight over an object is noticed.
    pub repairs: BTreeMap<ObjectKey, Repairs>,
    /// The latest spread of each source that has changed a moment ago.
    pub spreads: BTreeMap<ObjectKey, Spread>,
    /// What became of attempts to restart a workload that did not succeed.
    pub restart_attempts: BTreeMap<WorkloadKey, RestartAttempt>,
    /// What became of attempts to remove pods that a monitor selects, that did not succeed.
    pub pod_attempts: BTreeMap<NamespacedName, RestartAttempt>,
    /// The last removal of a pod that a monitor selects: the controller that brings it back may take a
    /// moment.
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
    /// What is wrong with annotations of ConfigMaps and Secrets that look like ours, and count for nothing.
    pub misspelt: BTreeMap<ObjectKey, String>,
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
    /// Whether the API server keeps stamps on annotations honest, once that has been seen: else none is
    /// believed that has not been proven before.
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

    /// The same, with the key as it is kept.
    pub fn object_at(&self, key: &ObjectKey) -> Option<(&ObjectKey, &ObjectFacts)> {
        self.objects.get_key_value(key).map(|(key, facts)| (key, &**facts))
    }

    /// Every ConfigMap and Secret, in order.
    pub fn objects(&self) -> impl Iterator<Item = (&ObjectKey, &ObjectFacts)> {
        self.objects.iter().map(|(key, facts)| (key, &**facts))
    }

    /// The ConfigMaps or Secrets of one namespace.
    pub fn objects_in<'w>(
        &'w self,
        kind: crate::names::Kind,
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
            Some(mut facts) => {
                match self.labels.get(&facts.labels) {
                    Some(known) => facts.labels = known.clone(),
                    None => drop(self.labels.insert(facts.labels.clone())),
                }
                if let Some(marks) = &mut facts.marks {
                    add_to(&mut self.copies_by_rule, &mut marks.rule, &key);
                    add_to(&mut self.copies_by_source, &mut marks.source, &key);
                }
                self.objects.insert(key, Box::new(facts));
            }
            None => {
                self.objects.remove(&key);
                self.fingerprints.remove(&key);
                self.changed_keys.remove(&key);
            }
        }
    }

    /// Takes in one namespace, and says whether that is news. For a namespace that is new under its name,
    /// nobody has been asked yet whether the rules that name it may do what they declare.
    pub fn set_namespace(&mut self, name: Arc<str>, facts: NamespaceFacts) -> bool {
        let known = self.namespaces.get(&name);
        let is_news = known != Some(&facts);
        if known.is_none_or(|known| known.uid != facts.uid) {
            let rules = &self.rules;
            let names_it = |facts: &RuleFacts| {
                facts.compiled.as_ref().is_ok_and(|compiled| compiled.names_namespace(&name))
            };
            self.rule_authority.retain(|rule, _| !rules.get(rule).is_some_and(names_it));
        }
        self.namespaces.insert(name, facts);
        is_news
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

    /// Takes in what an object comes down to, as it was fetched.
    pub fn set_fingerprint(&mut self, key: &ObjectKey, print: Fingerprint) {
        let Some(facts) = self.objects.get(key) else { return };
        let before = self.fingerprints.get(key).filter(|before| before.uid == print.uid);
        if let Some(before) = before.filter(|before| before.keys != print.keys) {
            self.changed_keys.entry(key.clone()).or_default().note(before, &print, facts.changed_at);
        }
        self.fingerprints.insert(key.clone(), print);
    }

    fn unindex(&mut self, key: &ObjectKey) {
        let Some(facts) = self.objects.get(key) else { return };
        // This object's and the set's own.
        if Arc::strong_count(&facts.labels) == 2 {
            self.labels.remove(&facts.labels);
        }
        let Some(marks) = facts.marks.as_deref() else { return };
        let (rule, source) = (marks.rule.clone(), marks.source.clone());
        remove_from(&mut self.copies_by_rule, &rule, key);
        remove_from(&mut self.copies_by_source, &source, key);
    }
}

/// Adds a copy to those of a name, and has its marks share the name with theirs.
fn add_to(
    index: &mut BTreeMap<NamespacedName, BTreeSet<ObjectKey>>,
    at: &mut NamespacedName,
    key: &ObjectKey,
) {
    if let Some((known, _)) = index.get_key_value(at) {
        *at = known.clone();
    }
    index.entry(at.clone()).or_default().insert(key.clone());
}

fn remove_from<K: Ord>(index: &mut BTreeMap<K, BTreeSet<ObjectKey>>, at: &K, key: &ObjectKey) {
    if let Some(set) = index.get_mut(at) {
        set.remove(key);
        if set.is_empty() {
            index.remove(at);
        }
    }
}
