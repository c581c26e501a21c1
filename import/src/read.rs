//! Parser of the input documents. The parser keeps the metadata of ConfigMaps and Secrets, and the names of a
//! ClusterSecret's keys. The parser drops the values of Secrets, so no output can contain them.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::{
    elsewhere,
    finding::{Finding, Origin, Tool, is_of_interest, none},
    kyverno::{GenerateRule, PolicyException},
    namespace_config::NamespaceConfig,
    texts::{Texts, texts},
    workload::{AnnotatedWorkload, SeedMonitor},
};
use crate::{api::WorkloadKind, names::Kind};

/// Objects that may request copies or restarts, and the context that is needed to interpret them.
#[derive(Clone, Debug, Default)]
pub struct ImportInput {
    /// ConfigMaps and Secrets with annotations of interest.
    pub objects: Vec<AnnotatedObject>,
    /// ClusterSecrets, without their values.
    pub cluster_secrets: Vec<ClusterSecret>,
    /// Rules of the first Copyrator.
    pub seed_rules: Vec<SeedRule>,
    /// Rules of Kyverno's policies that generate objects, without values of Secrets.
    pub generate_rules: Vec<GenerateRule>,
    /// Rules that Kyverno's PolicyExceptions name.
    pub policy_exceptions: Vec<PolicyException>,
    /// NamespaceConfigs, without values of Secrets.
    pub namespace_configs: Vec<NamespaceConfig>,
    /// Workloads with annotations of a tool that restarts.
    pub workloads: Vec<AnnotatedWorkload>,
    /// Monitors of the first Copyrator.
    pub seed_monitors: Vec<SeedMonitor>,
    /// The labels of namespaces, if the input has the namespaces.
    pub namespaces: BTreeMap<String, Texts>,
    /// Objects that cannot be imported at all, with the reason.
    pub others: Vec<(Origin, Finding)>,
    /// How many objects were read, of any kind.
    pub looked_at: usize,
}

/// The metadata of a ConfigMap or Secret.
#[derive(Clone, Debug, PartialEq)]
pub struct AnnotatedObject {
    /// The kind: ConfigMap or Secret.
    pub kind: Kind,
    /// The object's namespace; empty if neither the object nor the caller names a namespace.
    pub namespace: String,
    /// `metadata.name` of the object.
    pub name: String,
    /// The object's annotations that belong to other tools.
    pub annotations: Texts,
}

impl AnnotatedObject {
    pub(super) fn annotation(&self, key: &str) -> Option<&str> {
        self.annotations.get(key).map(String::as_str)
    }
}

/// A ClusterSecret without its values.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ClusterSecret {
    /// The name of the ClusterSecret, which its Secrets have, too.
    pub name: String,
    /// The labels of the ClusterSecret, which its Secrets have, too.
    pub labels: Texts,
    /// Regular expressions of the namespaces that get the Secret; `None`: all.
    pub matched: Option<Vec<String>>,
    /// Regular expressions of the namespaces that do not get the Secret.
    pub avoided: Vec<String>,
    /// The `type` of the Secrets, if the ClusterSecret names a type.
    pub type_: Option<String>,
    /// Namespace and name of the Secret to copy from, and the keys if the ClusterSecret names keys.
    pub from: Option<(String, String, Option<Vec<String>>)>,
    /// The keys of the ClusterSecret's own data.
    pub keys: Vec<String>,
    /// Fields that this import does not know.
    pub unknown: Vec<String>,
}

/// A rule of the first Copyrator.
#[derive(Clone, Debug, PartialEq)]
pub struct SeedRule {
    /// The rule's namespace; empty if the rule names no namespace.
    pub namespace: String,
    /// `metadata.name` of the rule.
    pub name: String,
    /// The field `ruleType`, such as `secret`.
    pub rule_type: Option<String>,
    /// The field `selector`, if its value is a map of texts.
    pub selector: Option<Texts>,
    /// The field `namespace` or `namespaces`: where the sources are.
    pub sources: Vec<String>,
}

impl ImportInput {
    /// Reads a document, or each item of a list. `namespace` is used for an object that names no namespace.
    pub fn take(&mut self, mut document: Value, namespace: Option<&str>) {
        let text = |key: &str| document[key].as_str().unwrap_or_default().to_owned();
        let (kind, version) = (text("kind"), text("apiVersion"));
        if let (Some(kind), Value::Array(items)) = (kind.strip_suffix("List"), document["items"].take()) {
            for mut item in items {
                // The items of a typed list do not repeat its kind and version.
                if let (Some(item), false) = (item.as_object_mut(), kind.is_empty()) {
                    item.entry("kind").or_insert_with(|| kind.into());
                    item.entry("apiVersion").or_insert_with(|| version.as_str().into());
                }
                self.take(item, namespace);
            }
            return;
        }
        self.looked_at += 1;
        let group = version.split_once('/').map_or("", |(group, _)| group);
        let meta = Meta::of(&document, namespace);
        match (group, kind.as_str()) {
            ("", "ConfigMap") => self.objects.push(meta.annotated(Kind::ConfigMap)),
            ("", "Secret") => self.objects.push(meta.annotated(Kind::Secret)),
            ("", "Namespace") => drop(self.namespaces.insert(meta.name, meta.labels)),
            ("clustersecret.io" | "clustersecret.com", "ClusterSecret") => {
                self.cluster_secrets.push(cluster_secret(&document, meta));
            }
            (group, "CopyratorRule") if group != "copyrator.dev" || document.get("ruleType").is_some() => {
                self.seed_rules.push(seed_rule(&document, meta));
            }
            ("magalix.com", "ConfigMonitor") => {
                self.seed_monitors.push(SeedMonitor::read(&document, meta.namespace, meta.name));
            }
            ("kyverno.io", "ClusterPolicy") => {
                self.generate_rules.extend(GenerateRule::all(&document, None, &meta.name))
            }
            ("kyverno.io", "Policy") => {
                self.generate_rules.extend(GenerateRule::all(&document, Some(&meta.namespace), &meta.name));
            }
            ("kyverno.io", "PolicyException") => {
                self.policy_exceptions.extend(PolicyException::all(&document, &meta.namespace, &meta.name));
            }
            ("redhatcop.redhat.io", "NamespaceConfig") => {
                self.namespace_configs.push(NamespaceConfig::read(&document, &meta.name));
            }
            ("cert-manager.io", "Certificate") => self.certificate(&document, &meta),
            ("apps", "Deployment") => self.workload(WorkloadKind::Deployment, document, meta),
            ("apps", "StatefulSet") => self.workload(WorkloadKind::StatefulSet, document, meta),
            ("apps", "DaemonSet") => self.workload(WorkloadKind::DaemonSet, document, meta),
            _ => match elsewhere::unsaid(group, &kind, &meta.namespace, &meta.name) {
                Some(unsaid) if self.others.contains(&unsaid) => {}
                Some(unsaid) => self.others.push(unsaid),
                None => self.other(&kind, &document, meta),
            },
        }
    }

    fn workload(&mut self, kind: WorkloadKind, document: Value, meta: Meta) {
        match AnnotatedWorkload::read(
            kind,
            &document,
            meta.namespace.clone(),
            meta.name.clone(),
            meta.annotations.clone(),
        ) {
            Some(read) => self.workloads.push(read),
            None => self.other(&kind.to_string(), &document, meta),
        }
    }

    /// Adds a finding that a kind could not be listed.
    pub fn unread(&mut self, tool: Tool, kind: &str, scope: &str, why: &str) {
        let told = format!(
            "import could not list these objects {scope}, so the result lacks their rules, templates and monitors: {why}"
        );
        self.others.push((Origin::new(tool, kind, "", "*"), none(kind, told)));
    }

    /// Reads the annotations in a Certificate's `secretTemplate`, which cert-manager puts on the
    /// Certificate's Secret.
    fn certificate(&mut self, document: &Value, meta: &Meta) {
        let spec = &document["spec"];
        if let Some(name) = spec["secretName"].as_str() {
            let annotations = texts(&spec["secretTemplate"]["annotations"]);
            let secret = Meta { name: name.into(), annotations, ..meta.clone() };
            let secret = secret.annotated(Kind::Secret);
            if !secret.annotations.is_empty() {
                self.objects.push(secret);
            }
        }
    }

    /// Reads an object of a kind that another tool may copy or restart, and that Copyrator neither copies nor
    /// restarts through a pod template.
    fn other(&mut self, kind: &str, document: &Value, meta: Meta) {
        let inner = texts(&document["spec"]["template"]["metadata"]["annotations"]);
        let asked = meta
            .annotations
            .keys()
            .chain(inner.keys())
            .find_map(|key| Some((key, Tool::of_annotation(key)?)));
        let Some((annotation, tool)) = asked else { return };
        let message = match kind {
            "Job" | "CronJob" if tool.restarts() => format!(
                "Copyrator never starts or deletes a Job: a {kind} reads the new content at its next run"
            ),
            // A controller's objects carry the annotations of their owner.
            "Pod" | "ReplicaSet" | "ControllerRevision" if tool.restarts() => return,
            _ if tool.restarts() => format!(
                "Copyrator restarts only Deployments, StatefulSets and DaemonSets through their pod template: for the pods of this \
                 {kind}, write a ConfigMonitor with workloads.podSelector and strategy Evict"
            ),
            _ => format!(
                "Copyrator copies only ConfigMaps and Secrets: keep {tool} for this {kind}, or let your namespace provisioning create it"
            ),
        };
        let origin = Origin::new(tool, kind, &meta.namespace, &meta.name);
        self.others.push((origin, none(annotation, message)));
    }
}

#[derive(Clone)]
struct Meta {
    namespace: String,
    name: String,
    labels: Texts,
    annotations: Texts,
}

impl Meta {
    fn of(document: &Value, namespace: Option<&str>) -> Self {
        let meta = &document["metadata"];
        let text = |key: &str| meta[key].as_str().filter(|text| !text.is_empty());
        let mut annotations = texts(&meta["annotations"]);
        annotations.retain(|key, _| is_of_interest(key));
        Self {
            namespace: text("namespace").or(namespace).unwrap_or_default().into(),
            name: text("name").unwrap_or_default().into(),
            labels: texts(&meta["labels"]),
            annotations,
        }
    }

    fn annotated(self, kind: Kind) -> AnnotatedObject {
        let mut annotations = self.annotations;
        annotations.retain(|key, _| is_of_interest(key));
        AnnotatedObject { kind, namespace: self.namespace, name: self.name, annotations }
    }
}

/// Returns a list of texts; `None` for any other value.
fn list(value: &Value) -> Option<Vec<String>> {
    value.as_array()?.iter().map(|one| one.as_str().map(str::to_owned)).collect()
}

fn cluster_secret(document: &Value, meta: Meta) -> ClusterSecret {
    let none = Map::new();
    // Older ClusterSecrets have these fields at the top level, newer ClusterSecrets below `spec`.
    let fields = match document["spec"].as_object() {
        Some(spec) => spec,
        None => document.as_object().unwrap_or(&none),
    };
    let mut read = ClusterSecret { name: meta.name, labels: meta.labels, ..ClusterSecret::default() };
    for (field, value) in fields {
        match (field.as_str(), list(value)) {
            ("apiVersion" | "kind" | "metadata" | "status" | "spec", _) => {}
            (_, _) if value.is_null() => {}
            ("matchNamespace", Some(patterns)) => read.matched = Some(patterns),
            ("avoidNamespaces" | "avoidNamespace", Some(patterns)) => read.avoided = patterns,
            ("type", _) if value.is_string() => read.type_ = value.as_str().map(str::to_owned),
            ("data", _) => {
                let data = value.as_object().unwrap_or(&none);
                match data.get("valueFrom") {
                    Some(from) if from.is_object() => read.reference(&from["secretKeyRef"], data.len()),
                    _ => read.keys = data.keys().cloned().collect(),
                }
            }
            ("valueFrom", _) => read
                .reference(if value["secretKeyRef"].is_object() { &value["secretKeyRef"] } else { value }, 1),
            _ => read.unknown.push(field.clone()),
        }
    }
    read
}

impl ClusterSecret {
    fn reference(&mut self, from: &Value, fields: usize) {
        let text = |key: &str| from[key].as_str().filter(|text| !text.is_empty()).map(str::to_owned);
        let keys = list(&from["keys"]);
        let understood = fields == 1 && (keys.is_some() || from["keys"].is_null());
        match (text("namespace"), text("name")) {
            (Some(namespace), Some(name)) if understood => self.from = Some((namespace, name, keys)),
            _ => self.unknown.push("data.valueFrom".into()),
        }
    }
}

fn seed_rule(document: &Value, meta: Meta) -> SeedRule {
    let selector = document["selector"].as_object().and_then(|pairs| {
        pairs.iter().map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned()))).collect()
    });
    let one = |field: &str| document[field].as_str().map(|name| vec![name.to_owned()]);
    let sources =
        one("namespace").or_else(|| list(&document["namespace"])).or_else(|| list(&document["namespaces"]));
    SeedRule {
        namespace: meta.namespace,
        name: meta.name,
        rule_type: document["ruleType"].as_str().map(str::to_owned),
        selector,
        sources: sources.unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// The tool ClusterSecret logs values in debug mode, and kopf keeps the values in an annotation.
    #[test]
    fn nothing_secret_is_kept() {
        let mut found = ImportInput::default();
        let kopf = json!({"kopf.zalando.org/last-handled-configuration": "c2VjcmV0"});
        let last = json!({"kubectl.kubernetes.io/last-applied-configuration": "c2VjcmV0"});
        for document in [
            json!({"apiVersion": "clustersecret.io/v1", "kind": "ClusterSecret", "data": {"k": "c2VjcmV0"},
                "metadata": {"name": "a", "annotations": kopf}}),
            json!({"apiVersion": "v1", "kind": "Secret", "data": {"k": "c2VjcmV0"}, "stringData": {"k": "c2VjcmV0"},
                "metadata": {"name": "a", "annotations": last}}),
        ] {
            found.take(document, Some("home"));
        }
        assert_eq!(found.cluster_secrets[0].keys, ["k"]);
        assert_eq!(found.objects[0].namespace, "home");
        assert!(!format!("{found:?}").contains("c2VjcmV0"), "{found:?}");
    }

    #[test]
    fn lists_are_taken_apart() {
        let mut found = ImportInput::default();
        let named = |name: &str| json!({"metadata": {"name": name, "namespace": "shop"}});
        found
            .take(json!({"apiVersion": "v1", "kind": "SecretList", "items": [named("a"), named("b")]}), None);
        let item = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}});
        found.take(json!({"apiVersion": "v1", "kind": "List", "items": [item]}), None);
        let names: Vec<_> = found.objects.iter().map(|one| (one.kind, one.name.as_str())).collect();
        assert_eq!(names, [(Kind::Secret, "a"), (Kind::Secret, "b"), (Kind::ConfigMap, "c")]);
    }
}
