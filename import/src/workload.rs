//! Parser of workloads that restarting tools use, and of the first Copyrator's monitors. From a pod template,
//! the parser keeps the references, and the annotations and other marks of restarting tools. The parser never
//! keeps the value of an environment variable.

use serde_json::Value;

use super::{
    finding::{Tool, is_of_interest},
    texts::{Texts, texts},
};
use crate::{api::WorkloadKind, intake::workload::references, model::Reference, names::NameKind};

/// A Deployment, StatefulSet or DaemonSet with annotations of a restarting tool, written by a user or by the
/// tool.
#[derive(Clone, Debug, PartialEq)]
pub struct AnnotatedWorkload {
    /// The kind of the workload.
    pub kind: WorkloadKind,
    /// The workload's namespace; empty if neither the workload nor the caller names a namespace.
    pub namespace: String,
    /// `metadata.name` of the workload.
    pub name: String,
    /// The workload's annotations that belong to other tools.
    pub annotations: Texts,
    /// The pod template's annotations that belong to other tools.
    pub template: Texts,
    /// ConfigMaps and Secrets that the pod template refers to; `None` if the template cannot be decoded. The
    /// decoder's message is dropped, since the message may quote a value.
    pub references: Option<Vec<Reference>>,
    /// Names of the environment variables that Reloader added (`STAKATER_…`).
    pub stakater: Vec<String>,
    /// The scheduler of the pods (`schedulerName`), if the pod template names a scheduler.
    pub scheduler: Option<String>,
    /// Whether the workload mounts secrets through a CSI driver.
    pub uses_csi: bool,
    /// Finalizers on the workload.
    pub finalizers: Vec<String>,
}

impl AnnotatedWorkload {
    /// Reads a workload, if the workload or its pod template has an annotation of a restarting tool.
    pub(super) fn read(
        kind: WorkloadKind,
        document: &Value,
        namespace: String,
        name: String,
        annotations: Texts,
    ) -> Option<Self> {
        let inner = &document["spec"]["template"];
        let mut template = texts(&inner["metadata"]["annotations"]);
        template.retain(|key, _| is_of_interest(key));
        let restarts = |key: &String| Tool::of_annotation(key).is_some_and(Tool::restarts);
        if !annotations.keys().chain(template.keys()).any(restarts) {
            return None;
        }
        let pod = &inner["spec"];
        let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let names = list(&pod["containers"]).into_iter().flat_map(|container| list(&container["env"]));
        let stakater = names.filter_map(|variable| text(&variable["name"]));
        Some(Self {
            kind,
            namespace,
            name,
            annotations,
            template,
            references: references(pod).ok().map(|all| all.into_iter().filter_map(existing).collect()),
            stakater: stakater.filter(|name| name.starts_with("STAKATER_")).collect(),
            scheduler: text(&pod["schedulerName"]),
            uses_csi: list(&pod["volumes"])
                .iter()
                .any(|volume| volume["csi"]["driver"] == "secrets-store.csi.k8s.io"),
            finalizers: list(&document["metadata"]["finalizers"]).iter().filter_map(text).collect(),
        })
    }

    pub(super) fn annotation(&self, key: &str) -> Option<&str> {
        self.annotations.get(key).map(String::as_str)
    }

    /// Whether the workload or its pod template has an annotation of this tool.
    pub(super) fn speaks_to(&self, tool: Tool) -> bool {
        self.annotations.keys().chain(self.template.keys()).any(|key| Tool::of_annotation(key) == Some(tool))
    }
}

/// Keeps a reference if its name is a valid object name. An invalid name must not be read as a glob.
fn existing(mut reference: Reference) -> Option<Reference> {
    if let Some(keys) = &mut reference.keys {
        keys.retain(|key| NameKind::DataKey.is_name(key));
    }
    let has_keys = reference.keys.as_ref().is_none_or(|keys| !keys.is_empty());
    (has_keys && NameKind::Object.is_name(&reference.name)).then_some(reference)
}

/// A `ConfigMonitor` of the first Copyrator.
#[derive(Clone, Debug, PartialEq)]
pub struct SeedMonitor {
    /// The monitor's namespace; empty if the monitor names no namespace.
    pub namespace: String,
    /// `metadata.name` of the monitor.
    pub name: String,
    /// The ConfigMap that the monitor watches.
    pub config_map: Option<String>,
    /// The labels of the pods, if the field is a map of texts.
    pub selector: Option<Texts>,
}

impl SeedMonitor {
    pub(super) fn read(document: &Value, namespace: String, name: String) -> Self {
        let spec = &document["spec"];
        // The first Copyrator's CRD has one spelling of the field, and its example the other spelling.
        let config_map = ["configMap", "configmap"].iter().find_map(|field| spec[field].as_str());
        let selector = spec["podSelector"].as_object().and_then(|pairs| {
            pairs.iter().map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned()))).collect()
        });
        Self { namespace, name, config_map: config_map.map(str::to_owned), selector }
    }
}
