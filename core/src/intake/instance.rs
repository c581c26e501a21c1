//! Objects that templates are rendered for. The kinds of instances are known at run time only. The world
//! keeps only the part of an instance that expressions can read.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ManagedFieldsEntry;
use kube::core::DynamicObject;
use serde_json::{Value, json};

use crate::{
    marks::{MARK, STATUS_MANAGER},
    model::{Body, InstanceFacts, World},
    names::{InstanceKind, NamespacedName},
    validate::visible,
};

/// The length of the name of a template's manager ([`crate::marks::status_manager`]).
const MANAGER: usize = STATUS_MANAGER.len() + 1 + 32;
/// The most status fields that are kept for a manager, and the longest name of such a field.
const MOST_FIELDS: usize = 64;
const LONGEST_FIELD: usize = 128;

/// An object that templates may be rendered for, reduced to the part that the world keeps.
pub struct Instance {
    /// The object's namespace and name.
    pub name: NamespacedName,
    facts: InstanceFacts,
    seen: Value,
}

impl Instance {
    /// Reduces an object of this kind that was listed or watched.
    pub fn new(kind: &InstanceKind, object: DynamicObject) -> Self {
        let DynamicObject { metadata: meta, mut data, .. } = object;
        let text = |value: &Option<String>| value.as_deref().unwrap_or_default().to_owned();
        let labels: BTreeMap<String, String> = meta.labels.clone().unwrap_or_default();
        let managers = meta.managed_fields.iter().flatten().filter_map(status_written);
        let status_written = managers.collect();
        let is_marked = meta.annotations.as_ref().is_some_and(|all| all.contains_key(MARK));
        let mut metadata = json!({
            "name": meta.name, "namespace": meta.namespace, "uid": meta.uid, "labels": labels,
            "annotations": meta.annotations.unwrap_or_default(),
        });
        if let Some(created) = &meta.creation_timestamp {
            metadata["creationTimestamp"] = json!(created);
        }
        if !data.is_object() {
            data = json!({});
        }
        data["apiVersion"] = json!(&*kind.api_version);
        data["kind"] = json!(&*kind.kind);
        data["metadata"] = metadata;
        let seen = visible(&data);
        let facts = InstanceFacts {
            uid: text(&meta.uid).into(),
            resource_version: text(&meta.resource_version).into(),
            labels: Some(labels),
            is_marked,
            terminating: meta.deletion_timestamp.is_some(),
            status_written,
            body: Some(Body::new(&seen)),
        };
        let name = NamespacedName::new(text(&meta.namespace), text(&meta.name));
        Self { name, facts, seen }
    }

    /// Whether the world already has this version of the object.
    pub fn is_known(&self, kind: &InstanceKind, world: &World) -> bool {
        let is_this = |known: &InstanceFacts| {
            known.uid == self.facts.uid
                && known.resource_version == self.facts.resource_version
                && known.body.is_some()
        };
        world.instance(kind, &self.name).is_some_and(is_this)
    }

    /// Stores the object in the world; returns whether any field that a template reads has changed.
    pub fn put(self, kind: &InstanceKind, world: &mut World) -> bool {
        world.set_instance(kind, &self.name, self.facts, &self.seen)
    }
}

/// Returns the status fields that one of our templates has applied; `None` if another manager has the entry.
/// Anybody who may change the object can forge such an entry. Therefore Copyrator applies a status because of
/// an entry only if the template's author may change the status, and keeps only a limited number of fields.
fn status_written(entry: &ManagedFieldsEntry) -> Option<(Box<str>, BTreeSet<Box<str>>)> {
    let manager = entry.manager.as_deref().filter(|manager| manager.starts_with(STATUS_MANAGER))?;
    let is_ours = manager.len() <= MANAGER;
    let fields =
        entry.fields_v1.as_ref().filter(|_| is_ours && entry.operation.as_deref() == Some("Apply"))?;
    let named = fields.0["f:status"].as_object()?.keys().filter_map(|key| key.strip_prefix("f:"));
    Some((
        manager.into(),
        named.filter(|field| field.len() <= LONGEST_FIELD).take(MOST_FIELDS).map(Box::from).collect(),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_templates_have_written_of_a_status_is_known() {
        let entry = |manager: &str, operation: &str, fields: Value| json!({"manager": manager, "operation": operation, "fieldsV1": fields});
        let fields = json!({"f:status": {"f:nodes": {}, "f:ready": {"f:deep": {}}, ".": {}}, "f:spec": {"f:size": {}}});
        let object: DynamicObject = serde_json::from_value(json!({
            "apiVersion": "a.b/v1", "kind": "A", "metadata": {"name": "a", "namespace": "shop", "managedFields": [
                entry("copyrator-status-1234", "Apply", fields.clone()), entry("copyrator-status-99", "Update", fields.clone()),
                entry("kubectl", "Apply", fields), entry("copyrator-status-5", "Apply", json!({"f:spec": {}})),
            ]},
        }))
        .unwrap();
        let instance = Instance::new(&InstanceKind::new("a.b/v1", "A"), object);
        let known =
            BTreeMap::from([("copyrator-status-1234".into(), ["nodes".into(), "ready".into()].into())]);
        assert_eq!(instance.facts.status_written, known);
    }

    /// Any user who may change an object can write such entries of managedFields.
    #[test]
    fn no_more_is_kept_of_what_was_written_than_a_template_writes() {
        let many: serde_json::Map<String, Value> =
            (0..1000).map(|number| (format!("f:{number}"), json!({}))).collect();
        let entry = |manager: String| json!({"manager": manager, "operation": "Apply", "fieldsV1": {"f:status": many}});
        let long = format!("{STATUS_MANAGER}-{}", "0".repeat(33));
        let object: DynamicObject = serde_json::from_value(json!({
            "apiVersion": "a.b/v1", "kind": "A", "metadata": {"name": "a", "namespace": "shop", "managedFields":
                [entry(crate::marks::status_manager(&crate::names::Declarer::rule("shop", "a"))), entry(long)]},
        }))
        .unwrap();
        let written = Instance::new(&InstanceKind::new("a.b/v1", "A"), object).facts.status_written;
        assert_eq!(written.values().map(BTreeSet::len).collect::<Vec<_>>(), [MOST_FIELDS]);
    }
}
