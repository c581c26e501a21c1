//! Manifests of copies: JSON for the API server, with content, which this file neither keeps nor shows.

use std::collections::BTreeMap;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::{Value, json};

use crate::{
    api::DataKind,
    marks::DEFINITION,
    model::{ForeignField, ObjectFacts},
    names::ObjectKey,
    paths::place,
    plan::copy::{CopyWrite, Intent},
    read::content::{self, Content},
};

/// Returns the manifest of a copy. Fields outside the manifest are not ours.
fn manifest(slot: &ObjectKey, intent: &Intent, content: &Content) -> Value {
    let values = intent.keys.iter().filter_map(|(from, to)| Some((to.as_str(), content.values.get(from)?)));
    let (labels, annotations) = (json!(intent.labels), json!(intent.annotations));
    let mut body = object(slot, labels, annotations, values, intent.type_.as_deref(), intent.immutable);
    if let Some(owner) = &intent.owner {
        body["metadata"]["ownerReferences"] = json!([owner]);
    }
    body
}

/// Returns the manifest that a write applies: with the annotation for the CustomResourceDefinition of its
/// rule.
pub fn of_write(slot: &ObjectKey, write: &CopyWrite, content: &Content) -> Value {
    let mut body = manifest(slot, &write.intent, content);
    if let Some(definition) = &write.definition {
        body["metadata"]["annotations"][DEFINITION] = json!(definition);
    }
    body
}

/// Returns the object as it will be after `write`, with the labels and annotations of other writers that the
/// write keeps. Without an existing object, returns the manifest of the copy.
pub fn as_it_will_be(
    slot: &ObjectKey,
    write: &CopyWrite,
    content: &Content,
    existing: Option<(&ObjectFacts, &Content)>,
) -> Value {
    let mut body = manifest(slot, &write.intent, content);
    if let Some((facts, now)) = existing {
        body["metadata"]["labels"] = json!(write.labels_after(Some(facts)));
        body["metadata"]["annotations"] =
            json!(write.annotations_after(facts, annotations(slot, facts, now)));
    }
    body
}

/// Nulls fields, so that a merge patch removes them.
pub fn take_off(body: &mut Value, fields: &[ForeignField]) {
    for field in fields {
        match field {
            ForeignField::Data(key) => body["data"][key] = Value::Null,
            ForeignField::BinaryData(key) => body["binaryData"][key] = Value::Null,
            ForeignField::Path(path) => place(body, path, Value::Null),
            ForeignField::Immutable | ForeignField::Type | ForeignField::Mark(_) => {}
        }
    }
}

/// Returns the existing object as far as we know it, with its copyable annotations, and our marks.
pub fn as_it_is(slot: &ObjectKey, facts: &ObjectFacts, content: &Content) -> Value {
    let values = content.values.iter().map(|(key, value)| (key.as_str(), value));
    let (labels, annotations) = (json!(*facts.labels), json!(annotations(slot, facts, content)));
    object(slot, labels, annotations, values, content.type_.as_deref(), content.immutable)
}

fn annotations(slot: &ObjectKey, facts: &ObjectFacts, content: &Content) -> BTreeMap<String, String> {
    let mut annotations = content.annotations.clone();
    annotations.extend(facts.marks.iter().flat_map(|marks| marks.annotations(slot)));
    annotations
}

fn object<'c>(
    slot: &ObjectKey,
    labels: Value,
    annotations: Value,
    values: impl Iterator<Item = (&'c str, &'c content::Value)>,
    type_: Option<&str>,
    immutable: bool,
) -> Value {
    let mut body = json!({
        "apiVersion": slot.kind.resource().api_version,
        "kind": slot.kind.resource().kind,
        "metadata": {
            "name": &*slot.name,
            "namespace": &*slot.namespace,
            "labels": labels,
            "annotations": annotations,
        },
    });
    let Some(kind) = slot.kind.data() else {
        for (path, value) in values {
            place(&mut body, path, serde_json::from_slice(&value.bytes).unwrap_or_default());
        }
        return body;
    };
    let mut data: BTreeMap<&str, Value> = BTreeMap::new();
    let mut binary: BTreeMap<&str, Value> = BTreeMap::new();
    for (key, value) in values {
        match (kind, value.binary, std::str::from_utf8(&value.bytes)) {
            (DataKind::ConfigMap, false, Ok(text)) => data.insert(key, json!(text)),
            (DataKind::ConfigMap, ..) => binary.insert(key, json!(STANDARD.encode(&value.bytes))),
            (DataKind::Secret, ..) => data.insert(key, json!(STANDARD.encode(&value.bytes))),
        };
    }
    if !data.is_empty() {
        body["data"] = json!(data);
    }
    if !binary.is_empty() {
        body["binaryData"] = json!(binary);
    }
    if let Some(type_) = type_ {
        body["type"] = json!(type_);
    }
    if immutable {
        body["immutable"] = json!(true);
    }
    body
}
