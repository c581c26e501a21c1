//! `CopyratorTemplate`: objects that exist for each of some namespaces, or for each of some objects.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, LabelSelector, Time};
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{
    ConflictPolicy, CopyratorRuleStatus, DeletionPolicy, Problem, Span, TargetTerm, schema::any_object,
};

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
    status = "CopyratorTemplateStatus",
    derive = "PartialEq",
    derive = "Default",
    doc = "Declares objects to create for each selected namespace, or for each selected object.",
    printcolumn(name = "Instances", type_ = "integer", json_path = ".status.instances"),
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
    /// What to do if an object that Copyrator did not make is in the way. `Refuse` leaves it alone and reports `Conflict`.
    /// `Adopt` takes it over if its content is the same and no controller or tool, such as Helm, keeps it; when no template wants it
    /// any more, Copyrator takes its marks off and does not delete it. `Overwrite` replaces its content, whoever keeps it; from
    /// then on it is an object of the template like any other, which is deleted when no template wants it any more.
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
    /// What happens to this object when the template no longer declares it, or when the object that it is rendered for is deleted.
    /// Default: the template's `deletionPolicy`; but a PersistentVolumeClaim or StatefulSet that the template no longer declares
    /// stays, since its data would go with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deletion_policy: Option<DeletionPolicy>,
}

/// Whether an object is made anew where no update can change it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[allow(missing_docs, reason = "a doc comment on a variant makes its schema unstructural")]
pub enum Recreate {
    #[default]
    Never,
    OnImmutable,
}

/// What the operator observed and did.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CopyratorTemplateStatus {
    /// The generation of the spec that this status describes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// The generation that the template's identity was allowed to declare.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub authorized_generation: Option<i64>,
    /// The operator's signature on `authorizedGeneration`, which counts for nothing without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub authorized_proof: Option<String>,
    /// When the identity was found to be allowed. The operator checks rights to write once for each version
    /// of the spec, and again where a named namespace is created anew; it keeps checking those of a
    /// `serviceAccountName`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub authorized_time: Option<Time>,
    /// The user or ServiceAccount whose rights the template acts with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub identity: Option<String>,
    /// How many namespaces or objects the template is rendered for.
    #[serde(default)]
    pub instances: i64,
    /// How many rendered objects should exist.
    #[serde(default)]
    pub desired: i64,
    /// How many of them exist with the right content.
    #[serde(default)]
    pub current: i64,
    /// How many rendered objects are no longer wanted, and will be deleted, or left as ordinary objects, when their grace is over.
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

/// The instances of a template are to it what the sources are to a rule.
impl From<CopyratorTemplateStatus> for CopyratorRuleStatus {
    fn from(status: CopyratorTemplateStatus) -> Self {
        Self {
            observed_generation: status.observed_generation,
            authorized_generation: status.authorized_generation,
            authorized_proof: status.authorized_proof,
            authorized_time: status.authorized_time,
            identity: status.identity,
            sources: status.instances,
            desired: status.desired,
            current: status.current,
            leaving: status.leaving,
            problem_count: status.problem_count,
            problems: status.problems,
            conditions: status.conditions,
        }
    }
}

impl From<CopyratorRuleStatus> for CopyratorTemplateStatus {
    fn from(status: CopyratorRuleStatus) -> Self {
        Self {
            observed_generation: status.observed_generation,
            authorized_generation: status.authorized_generation,
            authorized_proof: status.authorized_proof,
            authorized_time: status.authorized_time,
            identity: status.identity,
            instances: status.sources,
            desired: status.desired,
            current: status.current,
            leaving: status.leaving,
            problem_count: status.problem_count,
            problems: status.problems,
            conditions: status.conditions,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every field has a value of its own, so that none is lost or mistaken for another.
    #[test]
    fn a_status_is_the_same_after_it_was_that_of_a_rule() {
        let written = serde_json::json!({
            "observedGeneration": 1, "authorizedGeneration": 2, "authorizedProof": "p",
            "authorizedTime": "2026-01-01T00:00:00Z", "identity": "user alice", "instances": 3, "desired": 4,
            "current": 5, "leaving": 6, "problemCount": 7,
            "problems": [{"namespace": "shop", "name": "web", "reason": "Conflict", "message": "m"}],
            "conditions": [{"type": "Ready", "status": "True", "reason": "Ready", "message": "",
                "lastTransitionTime": "2026-01-01T00:00:00Z"}],
        });
        let status: CopyratorTemplateStatus = serde_json::from_value(written.clone()).unwrap();
        let as_rule = serde_json::to_value(CopyratorRuleStatus::from(status.clone())).unwrap();
        let mut expected = written.clone();
        let instances = expected.as_object_mut().unwrap().remove("instances");
        expected["sources"] = instances.unwrap();
        assert_eq!(as_rule, expected);
        let back = CopyratorTemplateStatus::from(CopyratorRuleStatus::from(status));
        assert_eq!(serde_json::to_value(back).unwrap(), written);
    }
}
