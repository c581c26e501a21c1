//! What is observed of the cluster. It is read and written as part of a [`World`](super::World).

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use jiff::Timestamp;

use super::{
    Authority, ChangedKeys, Definition, DeletionAnswers, Hooked, Labels, MonitorFacts, NamespaceFacts,
    ObjectFacts, Places, PodsSeen, PolicyFacts, Rules, Standing, Store, Taken, WorkloadFacts,
};
use crate::{
    digest::{DigestKey, Fingerprint},
    names::{NamespacedName, ObjectKey, WorkloadKey},
};

/// What is observed of the cluster.
#[derive(Debug, Default)]
pub(super) struct Cluster {
    /// Namespaces by name; where only some are looked at, those in sight ([`super::World::look`]).
    pub(super) namespaces: BTreeMap<Arc<str>, NamespaceFacts>,
    /// Boxed: lists come in order, which leaves a tree's nodes half empty, and there are tens of thousands.
    pub(super) objects: BTreeMap<ObjectKey, Box<ObjectFacts>>,
    /// Sets of labels; most objects have one that others have too.
    pub(super) labels: BTreeSet<Arc<Labels>>,
    pub(super) copies_by_rule: BTreeMap<NamespacedName, BTreeSet<ObjectKey>>,
    pub(super) copies_by_source: BTreeMap<NamespacedName, BTreeSet<ObjectKey>>,
    /// Digests of the content of sources and used objects, as last fetched.
    pub(super) fingerprints: BTreeMap<ObjectKey, Fingerprint>,
    /// Which keys of them have changed between two fetches, as far as both were seen.
    pub(super) changed_keys: BTreeMap<ObjectKey, ChangedKeys>,
    /// What is wrong with annotations of ConfigMaps and Secrets that look like ours, and count for nothing.
    pub(super) misspelt: BTreeMap<ObjectKey, String>,
    pub(super) rules: Rules,
    /// The definition that rules were listed under; `None` where it may not be read.
    pub(super) definition: Option<Definition>,
    /// How many rules have gone: whatever was found out before the last of them does not speak of it.
    pub(super) rules_gone: u64,
    /// Answers about the identities of rules.
    pub(super) rule_authority: BTreeMap<NamespacedName, Authority>,
    /// Whether those may delete copies that the rules' present specs do not speak of, as far as somebody had
    /// to know.
    pub(super) deletions: BTreeMap<NamespacedName, DeletionAnswers>,
    /// There are sources that only annotations declare and that this process does not know.
    pub(super) sources_omitted: bool,
    pub(super) monitors: BTreeMap<NamespacedName, MonitorFacts>,
    /// Answers about the identities of monitors.
    pub(super) monitor_authority: BTreeMap<NamespacedName, Authority>,
    /// Pods that a monitor's podSelector finds.
    pub(super) selected_pods: BTreeMap<NamespacedName, PodsSeen>,
    /// When we wrote the `podsApplied` that is in a monitor's status (1 s resolution).
    pub(super) pods_recorded: BTreeMap<NamespacedName, Timestamp>,
    /// When somebody wrote `copyrator.dev/restart-now` on a monitor (1 s resolution).
    pub(super) restart_now: BTreeMap<NamespacedName, Timestamp>,
    pub(super) policies: BTreeMap<Arc<str>, PolicyFacts>,
    /// Whether writes are judged by each policy, as last looked at.
    pub(super) hooked: BTreeMap<Arc<str>, Hooked>,
    /// By how much what is there already breaks each policy, as last looked at.
    pub(super) standing: BTreeMap<Arc<str>, Standing>,
    pub(super) workloads: BTreeMap<WorkloadKey, WorkloadFacts>,
    /// What somebody took from workloads while we looked; their facts keep what it said.
    pub(super) taken: BTreeMap<WorkloadKey, Taken>,
    /// Pods of workloads whose restart looked due.
    pub(super) pods: BTreeMap<WorkloadKey, PodsSeen>,
    /// The only namespaces that this process looks at; `None`: it looks at all of them.
    pub(super) places: Option<Places>,
    /// The stores whose first list is complete.
    pub(super) listed: BTreeSet<Store>,
    /// Watches of our own kinds, by place, that have failed since they last listed: whatever went meanwhile
    /// may have gone with its definition.
    pub(super) in_doubt: BTreeSet<(Store, Option<Arc<str>>)>,
    /// The key of digests and marks, once read.
    pub(super) key: Option<DigestKey>,
    /// Whether the API server keeps stamps on annotations honest, once that has been seen: else none is
    /// believed that has not been proven before.
    pub(super) stamps_guarded: Option<bool>,
}
