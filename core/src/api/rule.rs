//! `CopyratorRule`: what is copied where.

use std::{collections::BTreeMap, fmt};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, LabelSelector, Time};
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{GrantedKind, Problem, Span};

/// What is copied where: the sources, the target namespaces, and how a copy differs from its source.
#[derive(CustomResource, KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "copyrator.dev",
    version = "v1alpha1",
    kind = "CopyratorRule",
    shortname = "copyr",
    category = "copyrator",
    namespaced,
    status = "CopyratorRuleStatus",
    derive = "PartialEq",
    derive = "Default",
    doc = "Declares which objects, such as ConfigMaps and Secrets, exist as copies in which namespaces.",
    printcolumn(name = "Kind", type_ = "string", json_path = ".spec.source.kind"),
    printcolumn(name = "Sources", type_ = "integer", json_path = ".status.sources"),
    printcolumn(name = "Desired", type_ = "integer", json_path = ".status.desired"),
    printcolumn(name = "Current", type_ = "integer", json_path = ".status.current"),
    printcolumn(name = "Leaving", type_ = "integer", json_path = ".status.leaving"),
    printcolumn(name = "Problems", type_ = "integer", json_path = ".status.problemCount"),
    printcolumn(
        name = "Ready",
        type_ = "string",
        json_path = ".status.conditions[?(@.type=='Ready')].status"
    ),
    printcolumn(
        name = "Reason",
        type_ = "string",
        json_path = ".status.conditions[?(@.type=='Ready')].reason"
    ),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
pub struct CopyratorRuleSpec {
    /// Which objects are copied.
    pub source: SourceSpec,
    /// The namespaces that get a copy. Terms are OR-ed, the fields of one term AND-ed.
    #[schemars(length(min = 1, max = 64))]
    pub targets: Vec<TargetTerm>,
    /// Namespaces that never get a copy, whatever `targets` says: names or globs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64), inner(length(min = 1, max = 253)))]
    pub exclude_targets: Vec<String>,
    /// How a copy differs from its source. By default only its namespace does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub copy: Option<CopyShape>,
    /// What to do if an object that Copyrator did not make is in the way. `Refuse` leaves it alone and reports `Conflict`.
    /// `Adopt` takes it over if its content is the same and no controller or tool, such as Helm, keeps it; when no rule wants it
    /// any more, Copyrator takes its marks off and does not delete it. `Overwrite` replaces its content, whoever keeps it; from
    /// then on it is a copy like any other, which is deleted when no rule wants it any more.
    #[serde(default)]
    pub conflict_policy: ConflictPolicy,
    /// What happens to an orphaned copy: one that no rule asks for any more.
    #[serde(default)]
    pub deletion_policy: DeletionPolicy,
    /// How long an orphaned copy is kept before it is deleted; `0s` deletes it at once. Default: the
    /// operator's `--deletion-grace`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deletion_grace: Option<Span>,
    /// Act with this ServiceAccount of the rule's own namespace instead of with the rule's author.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub service_account_name: Option<String>,
    /// Suspend the rule: nothing is written or deleted for it.
    #[serde(default)]
    pub suspend: bool,
}

/// Which objects are copied.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("has(self.names) || has(self.objectSelector)")
    .message("source needs names, objectSelector or both"))]
pub struct SourceSpec {
    /// The kind of the objects. ConfigMaps and Secrets are copied in every installation; NetworkPolicies,
    /// ResourceQuotas, LimitRanges, PodDisruptionBudgets, ServiceAccounts and RoleBindings where the chart's value
    /// `copies.kinds` names them; custom resources where `templates.kinds` grants them with `copy`. Any other
    /// object is declared by a CopyratorTemplate.
    #[schemars(length(min = 1, max = 63))]
    pub kind: String,
    /// The API version of the kind, such as `networking.k8s.io/v1`. Default: the one in which the kind is copied;
    /// a custom resource needs it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub api_version: Option<String>,
    /// Names or globs. With `objectSelector`, both must match.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 64), inner(length(min = 1, max = 253)))]
    pub names: Option<Vec<String>>,
    /// Labels the objects carry; `{}` means every object of the kind. With `names`, both must match.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub object_selector: Option<LabelSelector>,
    /// The namespaces of the objects, by exact name. Default: the rule's own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64), inner(length(min = 1, max = 63)))]
    pub namespaces: Vec<String>,
    /// Which object is copied if several give their copies one name, such as ConfigMaps with hashed names of which `copy.name`
    /// leaves the hash out: `Newest` copies the one that was created last. Default: the object that was copied first stays the
    /// source while it exists, and the others are reported as `DuplicateName`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prefer: Option<Prefer>,
}

/// Which of several objects is copied whose copies get one name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[allow(missing_docs, reason = "a doc comment on a variant makes its schema unstructural")]
pub enum Prefer {
    Newest,
}

/// The kinds of objects that Copyrator writes. Rules copy [most of those that have a name here](Kind::is_copied).
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[allow(missing_docs, reason = "a doc comment on a variant makes its schema unstructural")]
pub enum Kind {
    #[default]
    ConfigMap,
    Secret,
    NetworkPolicy,
    ResourceQuota,
    LimitRange,
    PodDisruptionBudget,
    ServiceAccount,
    Deployment,
    Service,
    RoleBinding,
    #[serde(skip)]
    #[schemars(skip)]
    Granted(GrantedKind),
}

/// The kinds that hold data: keys with values.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[allow(missing_docs, reason = "a doc comment on a variant makes its schema unstructural")]
pub enum DataKind {
    #[default]
    ConfigMap,
    Secret,
}

impl From<DataKind> for Kind {
    fn from(kind: DataKind) -> Self {
        match kind {
            DataKind::ConfigMap => Self::ConfigMap,
            DataKind::Secret => Self::Secret,
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.resource().kind)
    }
}

/// One term of `targets`: a set of namespaces.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("has(self.names) || has(self.namespaceSelector)")
    .message("a target needs names, namespaceSelector or both"))]
pub struct TargetTerm {
    /// Labels the namespaces carry; `{}` means every namespace but the source's and the system ones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace_selector: Option<LabelSelector>,
    /// Names or globs of namespaces.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 64), inner(length(min = 1, max = 253)))]
    pub names: Option<Vec<String>>,
}

/// How a copy differs from its source.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CopyShape {
    /// The copy's name, with the placeholders `{name}` and `{namespace}` of the source.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub name: Option<String>,
    /// The copy's kind, where the source is a ConfigMap or Secret. Secret to ConfigMap needs literal
    /// `keys.include`; the reverse is refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<DataKind>,
    /// Which keys of a ConfigMap or Secret are carried over, and under what name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keys: Option<KeyShape>,
    /// The copy's labels. By default none are carried over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub labels: Option<MetaShape>,
    /// The copy's annotations. By default none are carried over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub annotations: Option<MetaShape>,
}

/// Which keys a copy has.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct KeyShape {
    /// Keys or globs that are carried over. Default: all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 64), inner(length(min = 1, max = 253)))]
    pub include: Option<Vec<String>>,
    /// Keys or globs that are not, whatever `include` says.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64), inner(length(min = 1, max = 253)))]
    pub exclude: Vec<String>,
    /// Old key to new key.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub rename: BTreeMap<String, String>,
}

/// Labels or annotations of a copy.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MetaShape {
    /// Set on every copy.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub set: BTreeMap<String, String>,
    /// Names or globs of those carried over from the source. Tracking marks of other tools never are.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64), inner(length(min = 1, max = 253)))]
    pub keep: Vec<String>,
}

/// What to do if an object that Copyrator did not make is in the way: report it and leave it alone
/// (`Refuse`), take it over if its content is the same (`Adopt`), or replace its content (`Overwrite`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[allow(missing_docs, reason = "a doc comment on a variant makes its schema unstructural")]
pub enum ConflictPolicy {
    #[default]
    Refuse,
    Adopt,
    Overwrite,
}

/// What happens to an orphaned copy: it is deleted (`Delete`), or it stays as an ordinary object (`Retain`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[allow(missing_docs, reason = "a doc comment on a variant makes its schema unstructural")]
pub enum DeletionPolicy {
    #[default]
    Delete,
    Retain,
}

/// What the operator observed and did.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CopyratorRuleStatus {
    /// The generation of the spec that this status describes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// The generation that the rule's identity was allowed to declare.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub authorized_generation: Option<i64>,
    /// The operator's signature on `authorizedGeneration`, which counts for nothing without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub authorized_proof: Option<String>,
    /// When the identity was found to be allowed. The operator checks rights to write once for each version
    /// of the spec, and again where a named namespace is created anew; it keeps checking rights to read in
    /// other namespaces than the rule's own, and those of a `serviceAccountName`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub authorized_time: Option<Time>,
    /// The user or ServiceAccount whose rights the rule acts with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub identity: Option<String>,
    /// How many objects are copied.
    #[serde(default)]
    pub sources: i64,
    /// How many copies should exist.
    #[serde(default)]
    pub desired: i64,
    /// How many of them exist with the right content.
    #[serde(default)]
    pub current: i64,
    /// How many copies are orphaned, and will be deleted when their grace is over.
    #[serde(default)]
    pub leaving: i64,
    /// How many problems there are.
    #[serde(default)]
    pub problem_count: i64,
    /// The worst problems, at most 20.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 20))]
    pub problems: Vec<Problem>,
    /// Ready, Authorized, Degraded, Reconciling, Stalled.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    pub conditions: Vec<Condition>,
}
