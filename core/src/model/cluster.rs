//! The observed state of the cluster, a part of a [`World`](super::World).

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use jiff::Timestamp;

use super::{
    Authority, ChangedKeys, DataScope, Definition, FailingList, HookCoverage, Labels, ListName, LostRecord,
    MonitorFacts, NamespaceFacts, NamespaceScope, ObjectFacts, Ownership, PodsSeen, PolicyFacts, Remark,
    RightAnswers, Rules, ScanResult, Store, TemplateFacts, UnreadObject, WorkloadFacts,
    instances::{Instances, InstancesRead},
    recalled::Recall,
    rendered::Rendered,
    shared::Shared,
};
use crate::{
    digest::{DigestKey, Fingerprint},
    marks::SharedMarks,
    names::{Declarer, Kind, NamespacedName, ObjectKey, WorkloadKey},
};

/// The observed state of the cluster.
#[derive(Debug, Default)]
pub(super) struct Cluster {
    /// Namespaces by name; if the process reads only some namespaces, the namespaces that the process could
    /// read completely.
    pub(super) namespaces: BTreeMap<Arc<str>, NamespaceFacts>,
    /// Objects by key. The facts are boxed, since inserting in the order of a list leaves the tree's nodes
    /// half empty, and a cluster has tens of thousands of objects.
    pub(super) objects: BTreeMap<Arc<ObjectKey>, Box<ObjectFacts>>,
    pub(super) labels: Shared<Labels>,
    pub(super) marks: Shared<SharedMarks>,
    pub(super) ownership: Shared<Ownership>,
    pub(super) copies_by_rule: BTreeMap<Declarer, BTreeSet<Arc<ObjectKey>>>,
    pub(super) copies_by_source: BTreeMap<NamespacedName, BTreeSet<Arc<ObjectKey>>>,
    /// Digests of the content of sources and of used objects, as last fetched.
    pub(super) fingerprints: BTreeMap<ObjectKey, Fingerprint>,
    /// The keys of an object that changed between two fetches by this process.
    pub(super) changed_keys: BTreeMap<ObjectKey, ChangedKeys>,
    /// The problems to report to the authors of objects as Events.
    pub(super) remarks: BTreeMap<ObjectKey, Remark>,
    pub(super) rules: Rules,
    pub(super) templates: BTreeMap<Declarer, TemplateFacts>,
    /// The objects that templates are rendered for.
    pub(super) instances: Instances,
    /// The objects that templates declare.
    pub(super) rendered: Rendered,
    /// The read state of kinds that templates declare and that are known at run time only.
    pub(super) granted_read: BTreeMap<Kind, InstancesRead>,
    /// The CustomResourceDefinitions under which rules and templates were listed, as far as they may be read.
    pub(super) definitions: BTreeMap<Store, Definition>,
    /// Counts the rules and templates that were deleted, so that a result from before a deletion can be
    /// recognised as outdated.
    pub(super) rules_gone: u64,
    /// Answers about the identities of rules and templates.
    pub(super) rule_authority: BTreeMap<Declarer, Authority>,
    /// Answers about further rights of identities, which plans have needed.
    pub(super) rights: BTreeMap<Declarer, RightAnswers>,
    /// Whether annotations declare sources that this process does not know.
    pub(super) sources_omitted: bool,
    pub(super) monitors: BTreeMap<Declarer, MonitorFacts>,
    /// Answers about the identities of monitors.
    pub(super) monitor_authority: BTreeMap<Declarer, Authority>,
    /// The pods that each monitor's podSelector selects.
    pub(super) selected_pods: BTreeMap<Declarer, PodsSeen>,
    /// When we wrote the `podsApplied` in each monitor's status (1 s resolution).
    pub(super) pods_recorded: BTreeMap<Declarer, Timestamp>,
    /// When somebody wrote `copyrator.dev/restart-now` on a monitor (1 s resolution).
    pub(super) restart_now: BTreeMap<Declarer, Timestamp>,
    pub(super) policies: BTreeMap<Arc<str>, PolicyFacts>,
    /// Whether the API server calls the webhook for each policy's writes, as last seen.
    pub(super) hooked: BTreeMap<Arc<str>, HookCoverage>,
    /// How many existing objects violate each policy, as last counted.
    pub(super) scan_results: BTreeMap<Arc<str>, ScanResult>,
    pub(super) workloads: BTreeMap<WorkloadKey, Box<WorkloadFacts>>,
    /// Records of ours that somebody removed from workloads while we watched; the workloads' facts keep them.
    pub(super) lost_records: BTreeMap<WorkloadKey, LostRecord>,
    /// The pods of workloads that seemed due for a restart.
    pub(super) pods: BTreeMap<WorkloadKey, PodsSeen>,
    /// The only namespaces that this process reads; `None` if the process reads all namespaces.
    pub(super) namespace_scope: Option<NamespaceScope>,
    /// The watches of ConfigMaps and Secrets, if only the needed namespaces are watched.
    pub(super) data_scope: Option<DataScope>,
    /// The stores whose first list is complete.
    pub(super) listed: BTreeSet<Store>,
    /// Watches of our own kinds, by namespace, that have failed since they last listed: the
    /// CustomResourceDefinition may have been deleted meanwhile, and the objects with it.
    pub(super) in_doubt: BTreeSet<(Store, Option<Arc<str>>)>,
    /// The lists and watches that have failed for a long time.
    pub(super) failing: BTreeMap<ListName, FailingList>,
    /// Why objects that lists and watches brought could not be read.
    pub(super) unreadable: BTreeMap<UnreadObject, Box<str>>,
    /// The key of digests and marks, once read.
    pub(super) key: Option<DigestKey>,
    /// Whether the API server corrects or refuses forged author annotations; `None` until known. While the
    /// value is `None`, only annotations that were proven before have an effect.
    pub(super) stamps_guarded: Option<bool>,
    /// The grants of annotations that an earlier leader has listed.
    pub(super) recall: Recall,
}
