//! Objects that templates are rendered for. Their kinds are known at run time only, and nothing is kept of them but what
//! expressions can read.

use std::collections::BTreeMap;

use kube::core::DynamicObject;
use serde_json::{Value, json};

use crate::{
    marks::MARK,
    model::{Body, InstanceFacts, World},
    names::{InstanceKind, NamespacedName},
    validate::visible,
};

/// An object, reduced.
pub struct Instance {
    /// Its namespace and name.
    pub name: NamespacedName,
    facts: InstanceFacts,
    seen: Value,
}

impl Instance {
    /// Takes an object of this kind as it was listed or watched.
    pub fn new(kind: &InstanceKind, object: DynamicObject) -> Self {
        let DynamicObject { metadata: meta, mut data, .. } = object;
        let text = |value: &Option<String>| value.as_deref().unwrap_or_default().to_owned();
        let labels: BTreeMap<String, String> = meta.labels.clone().unwrap_or_default();
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
            labels,
            is_marked,
            terminating: meta.deletion_timestamp.is_some(),
            body: Some(Body::new(&seen)),
        };
        let name = NamespacedName::new(text(&meta.namespace), text(&meta.name));
        Self { name, facts, seen }
    }

    /// Whether the world has this very version of it already.
    pub fn is_known(&self, kind: &InstanceKind, world: &World) -> bool {
        let is_this = |known: &InstanceFacts| {
            known.uid == self.facts.uid
                && known.resource_version == self.facts.resource_version
                && known.body.is_some()
        };
        world.instance(kind, &self.name).is_some_and(is_this)
    }

    /// Takes it into the world; returns whether anything has changed that a template reads.
    pub fn put(self, kind: &InstanceKind, world: &mut World) -> bool {
        world.set_instance(kind, &self.name, self.facts, &self.seen)
    }
}
