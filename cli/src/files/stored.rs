//! The object of a file as the API server would store it after `kubectl apply`: laid over the object in the cluster, with the
//! fields that the API server fills in. Also finds faults for which the API server would refuse the object.

use std::fmt;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use jiff::Timestamp;
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Map, Value};

use super::{FileKind, Item};
use crate::{
    api::{ConfigMonitorSpec, ConfigPolicySpec, CopyratorRuleSpec, CopyratorTemplateSpec},
    validate::{Candidate, CandidateError},
};

/// Label that the API server puts on every namespace.
pub(crate) const NAMESPACE_NAME: &str = "kubernetes.io/metadata.name";
/// Annotation in which `kubectl apply` keeps the file of its last call.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";
/// Fields of metadata that the API server does not take from a file.
const SERVERS_OWN: [&str; 7] = [
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "managedFields",
];
/// The maps of texts that `kubectl apply` merges key by key. The API server stores none of these maps empty.
const MAPS: [&str; 4] = ["/data", "/binaryData", "/metadata/labels", "/metadata/annotations"];

/// A fault for which the API server would refuse an object. The message quotes no value.
#[derive(Debug)]
pub(crate) struct Fault {
    pub key: Option<String>,
    pub what: String,
}

impl Fault {
    pub(super) fn new(what: impl Into<String>) -> Self {
        Self { key: None, what: what.into() }
    }

    fn of_key(key: &str, what: impl Into<String>) -> Self {
        Self { key: Some(key.to_owned()), what: what.into() }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.key {
            Some(key) => write!(f, "key {key}: {}", self.what),
            None => f.write_str(&self.what),
        }
    }
}

/// Returns the object as the API server would store it in place of `live`, or why the API server would refuse the object.
pub(crate) fn stored(item: &Item, live: Option<&Value>, now: Timestamp) -> Result<Value, Vec<Fault>> {
    let faults = faults(&item.value);
    if !faults.is_empty() {
        return Err(faults);
    }
    let Item { of, value, .. } = item;
    let mut object = value.clone();
    if let Some(metadata) = object["metadata"].as_object_mut() {
        metadata.retain(|field, _| !SERVERS_OWN.contains(&field.as_str()));
    }
    if of.kind == FileKind::Secret {
        encode_string_data(&mut object);
    }
    if let Some(live) = live.filter(|_| of.kind.policed().is_some()) {
        object = applied(&object, live);
    }
    for map in MAPS {
        let mut entries = entries(&object, map);
        entries.values_mut().filter(|value| value.is_null()).for_each(|value| *value = "".into());
        set(&mut object, map, entries);
    }
    let before = |field: &str| live.map(|live| live["metadata"][field].clone());
    let metadata = &mut object["metadata"];
    metadata["uid"] = before("uid").unwrap_or_else(|| "not-applied-yet".into());
    metadata["resourceVersion"] = "planned".into();
    metadata["creationTimestamp"] = before("creationTimestamp").unwrap_or_else(|| now.to_string().into());
    if !of.name.namespace.is_empty() {
        metadata["namespace"] = (*of.name.namespace).into();
    }
    let Some(kind) = of.kind.policed() else {
        let generation = before("generation").and_then(|number| number.as_i64()).unwrap_or_default();
        metadata["generation"] = (generation + 1).into();
        object["status"] = live.map(|live| live["status"].clone()).unwrap_or_default();
        return Ok(object);
    };
    if of.kind == FileKind::Namespace {
        metadata["labels"][NAMESPACE_NAME] = (*of.name.name).into();
    }
    if of.kind == FileKind::Secret && object["type"].as_str().is_none_or(str::is_empty) {
        object["type"] = "Opaque".into();
    }
    // The API server refuses everything that the webhook's decoder refuses.
    match Candidate::decode(kind, &object.to_string()).err() {
        None => Ok(object),
        Some(CandidateError::NotBase64 { key }) => {
            let what = "is not base64; encode it, or write it as it is: a Secret's under stringData, a ConfigMap's under data";
            Err(vec![Fault::of_key(&key, what)])
        }
        Some(CandidateError::Unreadable { .. }) => {
            Err(vec![Fault::new("cannot be read; compare its fields with kubectl explain")])
        }
    }
}

/// Returns the spec of a kind of Copyrator with defaults; `None` for other kinds, and for a spec that cannot be decoded.
pub(crate) fn spec(kind: FileKind, written: &Value) -> Option<Value> {
    fn with_defaults<S: DeserializeOwned + Serialize>(written: &Value) -> Option<Value> {
        serde_json::to_value(S::deserialize(written).ok()?).ok()
    }
    match kind {
        FileKind::Rule => with_defaults::<CopyratorRuleSpec>(written),
        FileKind::Monitor => with_defaults::<ConfigMonitorSpec>(written),
        FileKind::Policy => with_defaults::<ConfigPolicySpec>(written),
        FileKind::Template => with_defaults::<CopyratorTemplateSpec>(written),
        FileKind::ConfigMap | FileKind::Secret | FileKind::Namespace => None,
    }
}

/// Moves `stringData`, base64-encoded, into `data`, where it overrides existing keys.
fn encode_string_data(object: &mut Value) {
    let texts = object.as_object_mut().and_then(|object| object.remove("stringData"));
    let Some(Value::Object(texts)) = texts else { return };
    for (key, text) in texts {
        object["data"][key] = STANDARD.encode(text.as_str().unwrap_or_default()).into();
    }
}

/// The result of `kubectl apply`: the content of the file, and the other existing content, except what an
/// earlier apply wrote.
fn applied(file: &Value, live: &Value) -> Value {
    let last = live["metadata"]["annotations"][LAST_APPLIED].as_str();
    let last: Value = last.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default();
    let mut merged = live.clone();
    for map in MAPS {
        let mut all = entries(live, map);
        all.retain(|key, _| !is_applied(live, &last, map, key));
        all.extend(entries(file, map));
        // In a patch, null removes a key.
        all.retain(|_, value| !value.is_null());
        set(&mut merged, map, all);
    }
    for field in ["immutable", "type"] {
        if !file[field].is_null() {
            merged[field] = file[field].clone();
        }
    }
    merged
}

/// Whether an earlier `kubectl apply` wrote a key, according to its annotation or to managedFields.
fn is_applied(live: &Value, last: &Value, map: &str, key: &str) -> bool {
    let fields = map.replace('/', "/f:");
    let managed = live["metadata"]["managedFields"].as_array().into_iter().flatten();
    let mut applied = managed.filter(|entry| entry["manager"] == "kubectl" && entry["operation"] == "Apply");
    let has = |map: Option<&Value>, key: &str| map.is_some_and(|map| map.get(key).is_some());
    has(last.pointer(map), key)
        || map == "/data" && has(last.get("stringData"), key)
        || applied.any(|entry| has(entry["fieldsV1"].pointer(&fields), &format!("f:{key}")))
}

fn entries(object: &Value, map: &str) -> Map<String, Value> {
    object.pointer(map).and_then(Value::as_object).cloned().unwrap_or_default()
}

fn set(object: &mut Value, map: &str, entries: Map<String, Value>) {
    let Some((parent, field)) = map.rsplit_once('/') else { return };
    let Some(Value::Object(parent)) = object.pointer_mut(parent) else { return };
    match entries.is_empty() {
        true => drop(parent.remove(field)),
        false => drop(parent.insert(field.to_owned(), entries.into())),
    }
}

/// Finds fields that are not maps of strings.
fn faults(object: &Value) -> Vec<Fault> {
    let Some(metadata) = object["metadata"].as_object() else {
        return vec![Fault::new("metadata is not a map; write metadata.name at least")];
    };
    let is_text =
        |field: &str| metadata.get(field).and_then(Value::as_str).is_some_and(|text| !text.is_empty());
    let mut faults = Vec::new();
    if !is_text("name") && !is_text("generateName") {
        faults.push(Fault::new("has no metadata.name; give it one, as text"));
    }
    for map in MAPS.into_iter().chain(["/stringData"]) {
        let field = map.trim_start_matches('/').replace('/', ".");
        match object.pointer(map) {
            None | Some(Value::Null) => {}
            Some(Value::Object(map)) => faults.extend(texts(map).map(|(key, is)| {
                Fault::of_key(key, format!("{field} has {is} there, and takes text only; put it in quotes"))
            })),
            Some(_) => faults.push(Fault::new(format!("{field} is not a map; write keys and values"))),
        }
    }
    if object.get("immutable").is_some_and(|value| !value.is_boolean() && !value.is_null()) {
        let what = "immutable is neither true nor false; write one of them, without quotes";
        faults.push(Fault::new(what));
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::files::{Document, Place, item};

    fn read(value: Value) -> Item {
        let place = Place { file: "f.yaml".into(), line: 1, document: 1, item: 0 };
        item(Document { place, value }, "shop").unwrap_or_else(|_| panic!("the kind is judged"))
    }

    fn told(file: Value, live: Option<&Value>) -> Result<Value, Vec<String>> {
        let stored = stored(&read(file), live, Timestamp::UNIX_EPOCH);
        stored.map_err(|faults| faults.iter().map(Fault::to_string).collect())
    }

    fn file(kind: &str, fields: Value) -> Value {
        let mut object = json!({ "apiVersion": "v1", "kind": kind, "metadata": { "name": "app" } });
        object.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        object
    }

    fn live(last: &str, owned: &[&str]) -> Value {
        let owned: Map<String, Value> = owned.iter().map(|key| (format!("f:{key}"), json!({}))).collect();
        json!({
            "metadata": {
                "namespace": "shop", "name": "app", "uid": "u", "resourceVersion": "7",
                "annotations": { LAST_APPLIED: last },
                "managedFields": [
                    { "manager": "kubectl", "operation": "Apply", "fieldsV1": { "f:data": owned } },
                    { "manager": "somebody", "operation": "Update", "fieldsV1": { "f:data": { "f:theirs": {} } } },
                ],
            },
            "data": { "a": "1", "b": "1", "c": "1", "theirs": "1" },
        })
    }

    /// Both ways of `kubectl apply` remove what they wrote before, and nothing else.
    #[test]
    fn a_file_is_laid_over_what_is_there_as_apply_does() {
        let data = |live: &Value| {
            let object =
                told(file("ConfigMap", json!({ "data": { "a": "2", "new": "1", "c": null } })), Some(live));
            let object = object.unwrap();
            assert_eq!(object["metadata"]["uid"], "u");
            object["data"]
                .as_object()
                .unwrap()
                .iter()
                .map(|(key, value)| format!("{key}={value}"))
                .collect::<Vec<_>>()
        };
        let (b, theirs) = (r#"b="1""#, r#"theirs="1""#);
        let (a, new) = (r#"a="2""#, r#"new="1""#);
        assert_eq!(data(&live(r#"{"data": {"a": "0", "b": "0"}}"#, &[])), [a, new, theirs]);
        assert_eq!(data(&live("", &["a", "c"])), [a, b, new, theirs]);
        assert_eq!(data(&live(r#"{"stringData": {"b": "0"}}"#, &[])), [a, new, theirs]);
    }

    #[test]
    fn the_api_server_fills_in_what_a_file_leaves_out() {
        let fields = json!({ "data": { "a": "MQ==" }, "stringData": { "a": "2", "b": null }, "type": "" });
        let secret = told(file("Secret", fields), None).unwrap();
        assert_eq!((&secret["data"], &secret["type"]), (&json!({ "a": "Mg==", "b": "" }), &json!("Opaque")));
        assert!(secret.get("stringData").is_none() && secret["metadata"]["namespace"] == "shop", "{secret}");
        let mut exported = file("ConfigMap", json!({ "data": {} }));
        exported["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
        exported["metadata"]["labels"] = json!({});
        let map = told(exported, None).unwrap();
        assert!(map.get("data").is_none() && map["metadata"].get("labels").is_none(), "{map}");
        assert!(map["metadata"].get("deletionTimestamp").is_none(), "{map}");
        let map = told(file("ConfigMap", json!({ "stringData": { "a": "2" } })), None).unwrap();
        assert!(map.get("data").is_none(), "only a Secret has stringData: {map}");
        let namespace = told(file("Namespace", json!({})), None).unwrap();
        assert_eq!(namespace["metadata"]["labels"], json!({ NAMESPACE_NAME: "app" }));
        let tls = json!({ "metadata": {}, "type": "kubernetes.io/tls" });
        assert_eq!(told(file("Secret", json!({})), Some(&tls)).unwrap()["type"], "kubernetes.io/tls");
    }

    #[test]
    fn what_the_api_server_refuses_is_named_by_key_and_not_quoted() {
        for (fields, expected) in [
            (json!({ "stringData": { "k": 4711 } }), "key k: stringData has a number there"),
            (json!({ "data": "4711" }), "data is not a map"),
            (json!({ "data": { "k": "4711!" } }), "key k: is not base64"),
            (json!({ "immutable": "4711" }), "immutable is neither true nor false"),
            (json!({ "metadata": {} }), "has no metadata.name"),
            (json!({ "metadata": "4711" }), "metadata is not a map"),
        ] {
            let said = told(file("Secret", fields), None).unwrap_err().join("; ");
            assert!(said.starts_with(expected) && !said.contains("4711"), "{said}");
        }
    }
}
