//! `ConfigPolicy`: what may be written.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, LabelSelector};
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{
    DataKind, Problem, Span,
    schema::{any_object, without_default},
};

/// What may be written into ConfigMaps, Secrets and Namespaces, and what is added when missing.
#[derive(CustomResource, KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "copyrator.dev",
    version = "v1alpha1",
    kind = "ConfigPolicy",
    plural = "configpolicies",
    shortname = "cfgpol",
    category = "copyrator",
    status = "ConfigPolicyStatus",
    derive = "PartialEq",
    derive = "Default",
    doc = "Declares what ConfigMaps, Secrets and Namespaces must look like to be accepted.",
    printcolumn(name = "Kinds", type_ = "string", json_path = ".status.kinds"),
    printcolumn(name = "Actions", type_ = "string", json_path = ".status.actions"),
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
    printcolumn(name = "Violations", type_ = "integer", json_path = ".status.violationCount"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("!('Namespace' in self.match.kinds) || !has(self.data) || size(self.data) == 0")
    .message("data has rules about keys, which Namespaces do not have: write a separate policy for Namespaces"))]
pub struct ConfigPolicySpec {
    /// The objects that the policy covers.
    #[serde(rename = "match")]
    pub match_: PolicyMatch,
    /// What keys must look like.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    pub data: Vec<DataRule>,
    /// What labels must look like.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub labels: Option<LabelRules>,
    /// How large an object may be.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limits: Option<Limits>,
    /// Warn the writer of a change that reaches further than this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub warn_above: Option<WarnAbove>,
    /// Whether an object, or a key of it, that a Deployment, StatefulSet or DaemonSet uses may be deleted. Default: Allow.
    #[serde(default)]
    #[schemars(transform = without_default)]
    pub while_in_use: WhileInUse,
    /// CEL expressions, as in a ValidatingAdmissionPolicy, with the extra variable `text`: the data, decoded, by key.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    pub validations: Vec<Validation>,
    /// Labels and annotations that are added when missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub defaults: Option<Defaults>,
    /// What happens when an object violates the policy. Default: `[Deny]`.
    #[serde(default = "deny", skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(min = 1, max = 3))]
    pub validation_actions: Vec<Action>,
    /// What happens to a write while Copyrator is unavailable.
    #[serde(default)]
    pub failure_policy: FailurePolicy,
}

fn deny() -> Vec<Action> {
    vec![Action::Deny]
}

/// The objects that a policy covers. Fields are AND-ed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PolicyMatch {
    /// ConfigMap, Secret or Namespace.
    #[schemars(length(min = 1, max = 3))]
    pub kinds: Vec<PolicyKind>,
    /// Names or globs. Default: all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 64), inner(length(min = 1, max = 253)))]
    pub names: Option<Vec<String>>,
    /// Labels the objects carry. Default: all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub object_selector: Option<LabelSelector>,
    /// Labels of the namespaces the objects are in. Default: all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace_selector: Option<LabelSelector>,
    /// Namespaces that the policy does not cover: names or globs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64), inner(length(min = 1, max = 253)))]
    pub exclude_namespaces: Vec<String>,
    /// Whether the policy also covers copies that a CopyratorRule makes. A copy that violates it is then not
    /// written, and existing ones count among the violations. Exclude: copies are not covered. Default:
    /// Include.
    #[serde(default)]
    #[schemars(transform = without_default)]
    pub copies: CopiesMatch,
}

/// Whether a policy also covers copies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[allow(missing_docs, reason = "a doc comment on a variant makes its schema unstructural")]
pub enum CopiesMatch {
    #[default]
    Include,
    Exclude,
}

impl From<DataKind> for PolicyKind {
    fn from(kind: DataKind) -> Self {
        match kind {
            DataKind::ConfigMap => Self::ConfigMap,
            DataKind::Secret => Self::Secret,
        }
    }
}

/// The kinds that a policy can cover.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[allow(missing_docs, reason = "a doc comment on a variant makes its schema unstructural")]
pub enum PolicyKind {
    ConfigMap,
    Secret,
    Namespace,
}

/// What some keys must look like.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("has(self.keys) || (has(self.format) && self.format == 'tls-pair')")
    .message("keys is required, except for format tls-pair"))]
#[x_kube(validation = Rule::new("!has(self.schema) || (has(self.format) && self.format in ['json', 'yaml', 'toml'])")
    .message("schema is allowed only with format json, yaml or toml"))]
#[x_kube(validation = Rule::new("!has(self.minRemaining) || (has(self.format) && self.format in ['pem-certificate', 'tls-pair'])")
    .message("minRemaining is allowed only with format pem-certificate or tls-pair"))]
pub struct DataRule {
    /// The rule's name, as refusals quote it.
    #[schemars(length(min = 1, max = 63))]
    pub name: String,
    /// Keys, or globs of keys, that the rule checks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 64), inner(length(min = 1, max = 253)))]
    pub keys: Option<Vec<String>>,
    /// Whether at least one key must match `keys`.
    #[serde(default)]
    pub required: bool,
    /// What the value must be. json, yaml (one or more documents), toml, properties (Java's): text that parses, in yaml,
    /// toml and properties without a key twice. url, integer, boolean: what they say. regex: a regular expression itself; to match a
    /// value against one, use pattern. pem-certificate: one or more certificates. pem-key: an unencrypted private key. tls-pair:
    /// tls.crt and tls.key belong together, and each certificate of tls.crt is issued by the next. dockerconfigjson: logins
    /// to registries, as a Secret of type kubernetes.io/dockerconfigjson has them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub format: Option<Format>,
    /// A JSON Schema (2020-12) that every document of the value must satisfy; with format json, yaml or toml. At most 64 KiB.
    /// `$ref` leads to places in the schema itself only (`#/$defs/...`), and not in circles.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "any_object")]
    pub schema: Option<Value>,
    /// For how long every certificate must remain valid, such as `168h`; `0s`: it has not expired. With
    /// format pem-certificate or tls-pair. Default: expiry is not checked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_remaining: Option<Span>,
    /// A regular expression that the whole value must match.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 1024))]
    pub pattern: Option<String>,
    /// Once set, the value never changes.
    #[serde(default)]
    pub immutable: bool,
}

/// What a value must be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[allow(missing_docs, reason = "a doc comment on a variant makes its schema unstructural")]
pub enum Format {
    Json,
    Yaml,
    Toml,
    Properties,
    Url,
    Integer,
    Boolean,
    Regex,
    PemCertificate,
    PemKey,
    TlsPair,
    Dockerconfigjson,
}

/// What labels must look like.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LabelRules {
    /// Labels that must be there.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64), inner(length(min = 1, max = 317)))]
    pub required: Vec<String>,
    /// Label to the regular expression that its whole value must match, where the label is set.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub patterns: BTreeMap<String, String>,
}

/// How large an object may be.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Limits {
    /// Bytes of all keys and values together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub max_bytes: Option<i64>,
}

/// Limits above which a write gets a warning. A limit that is absent is not checked.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct WarnAbove {
    /// Copies of the object, by all rules together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub copies: Option<i64>,
    /// Workloads that restart, where the object is and where its copies are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub restarts: Option<i64>,
}

/// Whether an object or key that a workload uses may be deleted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[allow(missing_docs, reason = "a doc comment on a variant makes its schema unstructural")]
pub enum WhileInUse {
    Refuse,
    #[default]
    Allow,
}

/// A CEL expression and the message of its refusal.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Validation {
    /// Must evaluate to true; an expression that never gives true or false is refused. Variables: `object`, `oldObject`, `request`,
    /// `text`.
    #[schemars(length(min = 1, max = 4096))]
    pub expression: String,
    /// The message of the refusal. Default: the expression.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1024))]
    pub message: Option<String>,
}

/// What is added when missing.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Defaults {
    /// Labels to add, by key.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// Annotations to add, by key.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
}

/// What happens when an object violates the policy: refuse the write, warn its author, or leave an audit
/// annotation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[allow(missing_docs, reason = "a doc comment on a variant makes its schema unstructural")]
pub enum Action {
    Deny,
    Warn,
    Audit,
}

/// What the API server does with a write while Copyrator is unavailable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[allow(missing_docs, reason = "a doc comment on a variant makes its schema unstructural")]
pub enum FailurePolicy {
    #[default]
    Ignore,
    Fail,
}

/// What the operator observed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ConfigPolicyStatus {
    /// The generation of the spec that this status describes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// The value of `match.kinds` for a column: `ConfigMap,Secret`. kubectl would show the list as JSON.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub kinds: String,
    /// The value of `validationActions` for a column: `Deny,Audit`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub actions: String,
    /// How many violations the existing objects have; absent until they have been checked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub violation_count: Option<i64>,
    /// The first of these violations, at most 20, by kind, namespace and name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 20))]
    pub violations: Vec<ExistingViolation>,
    /// Why the policy does not work, at most 20 problems.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 20))]
    pub problems: Vec<Problem>,
    /// The conditions Ready, Stalled and Degraded.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    pub conditions: Vec<Condition>,
}

/// A violation by an existing object. It holds no value.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub struct ExistingViolation {
    /// Kind of the object.
    pub kind: PolicyKind,
    /// Namespace of the object; empty for a Namespace.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// Name of the object.
    pub name: String,
    /// The rule that is violated: its name in the policy, or the field.
    pub rule: String,
    /// The key that violates it, where the rule is about keys.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// What is wrong, where, and what to do about it. Never a value.
    pub message: String,
}
