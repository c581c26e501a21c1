//! `CopyratorTemplate`: objects that exist for each of some namespaces, or for each of some objects.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{ConflictPolicy, DeletionPolicy, Span, TargetTerm, schema::any_object};

/// Objects that are rendered from text with expressions: once for each of some namespaces, or for each of
/// some objects.
#[derive(CustomResource, KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "copyrator.dev",
    version = "v1alpha1",
    kind = "CopyratorTemplate",
    shortname = "copyt",
    category = "copyrator",
    namespaced,
    derive = "PartialEq",
    derive = "Default",
    doc = "Declares objects that exist for each of some namespaces, or for each of some objects."
)]
#[serde(rename_all = "camelCase")]
pub struct CopyratorTemplateSpec {
    /// What the objects are rendered for.
    pub for_each: ForEach,
    /// The objects, each in the namespace of what it is rendered for.
    #[schemars(length(min = 1, max = 32))]
    pub objects: Vec<TemplateObject>,
    /// Fields of the status of each object of `forEach.objects`, with expressions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "any_object")]
    pub write_status: Option<BTreeMap<String, Value>>,
    /// How often to render again what may depend on the time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resync: Option<Span>,
    /// What to do if an object that Copyrator did not make is in the way.
    #[serde(default)]
    pub conflict_policy: ConflictPolicy,
    /// What happens to a rendered object that is no longer wanted.
    #[serde(default)]
    pub deletion_policy: DeletionPolicy,
    /// How long an object is kept that the template no longer wants; `0s` deletes it at once. Default: the
    /// operator's `--deletion-grace`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deletion_grace: Option<Span>,
    /// Act with this ServiceAccount of the template's own namespace instead of with the template's author.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub service_account_name: Option<String>,
    /// Suspend the template: nothing is written or deleted for it.
    #[serde(default)]
    pub suspend: bool,
}

/// What the objects of a template are rendered for: exactly one of `namespaces` and `objects`.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("has(self.namespaces) != has(self.objects)")
    .message("forEach needs either namespaces or objects"))]
pub struct ForEach {
    /// Each of these namespaces. Terms are OR-ed, the fields of one term AND-ed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 64))]
    pub namespaces: Option<Vec<TargetTerm>>,
    /// Namespaces that are left out, whatever `namespaces` says: names or globs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64), inner(length(min = 1, max = 253)))]
    pub exclude_namespaces: Vec<String>,
    /// Each of these objects.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub objects: Option<InstanceSpec>,
}

/// The objects that a template is rendered for.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct InstanceSpec {
    /// Group and version of the objects, such as `web.example.com/v1`.
    #[schemars(length(min = 1, max = 317))]
    pub api_version: String,
    /// The kind of the objects.
    #[schemars(length(min = 1, max = 63))]
    pub kind: String,
    /// The namespaces of the objects. Default: the template's own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    pub namespaces: Vec<TargetTerm>,
    /// Names or globs. Default: all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 64), inner(length(min = 1, max = 253)))]
    pub names: Option<Vec<String>>,
    /// Labels the objects carry. Default: any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub object_selector: Option<LabelSelector>,
}

/// One object of a template.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TemplateObject {
    /// The name by which expressions of the other objects, and of `writeStatus`, read this one.
    #[schemars(length(min = 1, max = 63), pattern(r"^[a-zA-Z_][a-zA-Z0-9_]*$"))]
    pub id: String,
    /// A CEL expression: the object exists only while it is true.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 4096))]
    pub include_when: Option<String>,
    /// The object, with expressions as `${…}` in its values.
    #[schemars(schema_with = "any_object")]
    pub template: Value,
    /// Whether to delete the object and make it anew where the API server refuses a change of it as
    /// impossible.
    #[serde(default)]
    pub recreate: Recreate,
}

/// Whether an object is made anew where no update can change it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[allow(missing_docs, reason = "a doc comment on a variant makes its schema unstructural")]
pub enum Recreate {
    #[default]
    Never,
    OnImmutable,
}
