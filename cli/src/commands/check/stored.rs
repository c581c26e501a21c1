//! An object of a file as the API server would send it to the webhook, with the fields that the API server
//! fills in. Also finds faults for which the API server would refuse the object.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::{Map, Value};

use super::{
    input::Item,
    report::{Finding, title},
};
use crate::{
    api::PolicyKind,
    validate::{Candidate, CandidateError},
};

/// Label that the API server puts on every namespace.
pub(super) const NAMESPACE_NAME: &str = "kubernetes.io/metadata.name";

/// The object as the webhook would see it, or why the API server would refuse it.
pub(super) fn stored(item: &Item, kind: PolicyKind) -> Result<Value, Vec<Finding>> {
    let mut object = item.value.clone();
    let faults = faults(item, &object);
    if !faults.is_empty() {
        return Err(faults);
    }
    match kind {
        PolicyKind::Namespace => object["metadata"]["labels"][NAMESPACE_NAME] = item.name.as_str().into(),
        PolicyKind::ConfigMap => object["metadata"]["namespace"] = item.namespace.as_str().into(),
        PolicyKind::Secret => {
            object["metadata"]["namespace"] = item.namespace.as_str().into();
            merge_string_data(&mut object);
            if object["type"].as_str().is_none_or(str::is_empty) {
                object["type"] = "Opaque".into();
            }
        }
    }
    // The API server refuses everything that the webhook's decoder refuses.
    match Candidate::decode(kind, &object.to_string()).err() {
        None => Ok(object),
        Some(CandidateError::NotBase64 { key }) => {
            let what = "is not base64; encode it, or write it as it is: a Secret's under stringData, a ConfigMap's under data";
            Err(vec![fault(item, Some(&key), what)])
        }
        Some(CandidateError::Unreadable { .. }) => {
            Err(vec![fault(item, None, "cannot be read; compare its fields with kubectl explain")])
        }
    }
}

fn fault(item: &Item, key: Option<&str>, what: &str) -> Finding {
    let named = title(item.kind, &item.namespace, &item.name);
    let of = key.map(|key| format!(", key {key}")).unwrap_or_default();
    Finding::refused("manifest", key, format!("{named}{of}: {what}"))
}

/// Moves `stringData`, base64-encoded, into `data`, where it overrides existing keys.
fn merge_string_data(object: &mut Value) {
    let texts = object.as_object_mut().and_then(|object| object.remove("stringData"));
    let Some(Value::Object(texts)) = texts else { return };
    for (key, text) in texts {
        object["data"][key] = STANDARD.encode(text.as_str().unwrap_or_default()).into();
    }
}

/// Finds fields that are not maps of strings. The messages quote no value.
fn faults(item: &Item, object: &Value) -> Vec<Finding> {
    let fault = |key: Option<&str>, what: &str| fault(item, key, what);
    let Some(metadata) = object["metadata"].as_object() else {
        return vec![fault(None, "metadata is not a map; write metadata.name at least")];
    };
    let is_text =
        |field: &str| metadata.get(field).and_then(Value::as_str).is_some_and(|text| !text.is_empty());
    let mut faults = Vec::new();
    if !is_text("name") && !is_text("generateName") {
        faults.push(fault(None, "has no metadata.name; give it one, as text"));
    }
    let maps = [
        ("metadata.labels", metadata.get("labels")),
        ("metadata.annotations", metadata.get("annotations")),
        ("data", object.get("data")),
        ("binaryData", object.get("binaryData")),
        ("stringData", object.get("stringData")),
    ];
    for (field, map) in maps {
        match map {
            None | Some(Value::Null) => {}
            Some(Value::Object(map)) => faults.extend(texts(map).map(|(key, is)| {
                let what = format!("{field} has {is} there, and takes text only; put it in quotes");
                fault(Some(key), &what)
            })),
            Some(_) => faults.push(fault(None, &format!("{field} is not a map; write keys and values"))),
        }
    }
    if object.get("immutable").is_some_and(|value| !value.is_boolean() && !value.is_null()) {
        faults.push(fault(None, "immutable is neither true nor false; write one of them, without quotes"));
    }
    faults
}

/// The entries that are not text, with their type.
fn texts(map: &Map<String, Value>) -> impl Iterator<Item = (&str, &'static str)> {
    map.iter().filter_map(|(key, value)| {
        let is = match value {
            Value::Null | Value::String(_) => return None,
            Value::Bool(_) => "a boolean",
            Value::Number(_) => "a number",
            Value::Array(_) => "a list",
            Value::Object(_) => "a map",
        };
        Some((key.as_str(), is))
    })
}
