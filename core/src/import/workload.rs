//! What a tool that restarts reads of a workload, and the first Copyrator's monitor. For a pod template that
//! is what it refers to, the annotations of such tools, and what they left in it: no value of an environment
//! variable is kept.

use serde_json::Value;

use super::{
    finding::Tool,
    names::{is_key, is_name},
    read::{Texts, is_of_interest, texts},
};
use crate::{api::WorkloadKind, intake::workload::references, model::Reference};

/// A Deployment, StatefulSet or DaemonSet that a tool which restarts is told of, or has written to.
#[derive(Clone, Debug, PartialEq)]
pub struct Restarted {
    /// Its kind.
    pub kind: WorkloadKind,
    /// Its namespace; empty where it says none and nobody else has.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its annotations, as far as another tool reads them.
    pub annotations: Texts,
    /// Those of its pod template, likewise.
    pub template: Texts,
    /// What its pod template refers to; `None` where it is not shaped like one. What is wrong with it is not
    /// kept: a parser quotes what it did not expect, and that may be a value.
    pub references: Option<Vec<Reference>>,
    /// The environment variables that Reloader put in (`STAKATER_…`): their names.
    pub stakater: Vec<String>,
    /// The scheduler that its pods wait for, where it is said.
    pub scheduler: Option<String>,
    /// It mounts what a secret store hands to the kubelet (CSI).
    pub uses_csi: bool,
    /// What must be done before it can be deleted.
    pub finalizers: Vec<String>,
}

impl Restarted {
    /// Reads a workload, if any annotation of such a tool is on it or its template.
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

    /// Whether an annotation of this tool is on it or its template.
    pub(super) fn speaks_to(&self, tool: Tool) -> bool {
        self.annotations.keys().chain(self.template.keys()).any(|key| Tool::of_annotation(key) == Some(tool))
    }
}

/// A reference, as far as what it names can exist: what is no name is nothing, and must not be read as a
/// glob.
fn existing(mut reference: Reference) -> Option<Reference> {
    if let Some(keys) = &mut reference.keys {
        keys.retain(|key| is_key(key));
    }
    let has_keys = reference.keys.as_ref().is_none_or(|keys| !keys.is_empty());
    (has_keys && is_name(&reference.name)).then_some(reference)
}

/// A `ConfigMonitor` of the first Copyrator.
#[derive(Clone, Debug, PartialEq)]
pub struct SeedMonitor {
    /// Its namespace; empty where it says none.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// The ConfigMap that it watches.
    pub config_map: Option<String>,
    /// The labels of pods, where they are a map of texts.
    pub selector: Option<Texts>,
}

impl SeedMonitor {
    pub(super) fn read(document: &Value, namespace: String, name: String) -> Self {
        let spec = &document["spec"];
        // Its definition says the one, its example the other.
        let config_map = ["configMap", "configmap"].iter().find_map(|field| spec[field].as_str());
        let selector = spec["podSelector"].as_object().and_then(|pairs| {
            pairs.iter().map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned()))).collect()
        });
        Self { namespace, name, config_map: config_map.map(str::to_owned), selector }
    }
}
