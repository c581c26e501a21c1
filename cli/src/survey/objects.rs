//! ConfigMaps and Secrets of files, as if `kubectl apply` had just written them. The file is merged into the
//! existing object, and the code of the watches adds the result to the world. No value is ever shown:
//! differences are named by key.

use std::collections::{BTreeMap, BTreeSet};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use http::Request;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::Client;
use serde_json::{Map, Value, json};

use super::{
    file_outlook::{FileObject, FileOutlook},
    judged::{Refusal, judge},
};
use crate::{
    api::DataKind,
    arguments::manifests::Document,
    authority::Subject,
    digest::{DigestKey, Fingerprint},
    explain::{Course, Difference},
    intake::{object::Slim, watched::Watched as _},
    marks::{self, AUTHOR, AUTHOR_GROUPS},
    model::World,
    names::{Kind, ObjectKey},
    plan::Reason,
    read::content::{Content, decode},
};

/// The resource version of an object that is not applied yet.
const PLANNED: &str = "planned";
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// A ConfigMap or Secret of a file. `ObjectFile` has no `Debug`, so its content cannot reach a formatter.
pub struct ObjectFile {
    object: ObjectKey,
    place: String,
    value: Value,
}

/// The ConfigMaps and Secrets among the documents, and the other documents.
pub(crate) fn objects_in(documents: Vec<Document>, namespace: &str) -> (Vec<ObjectFile>, Vec<Document>) {
    let (mut objects, mut others) = (Vec::new(), Vec::new());
    for document in documents {
        let text =
            |pointer: &str| document.value.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        let (api_version, kind) = (text("/apiVersion"), text("/kind"));
        let is_one = |known: &Kind| {
            let known = known.resource();
            known.api_version == api_version && known.kind == kind
        };
        let Some(kind) = DataKind::ALL.into_iter().map(Kind::from).find(is_one) else {
            others.push(document);
            continue;
        };
        let home = Some(text("/metadata/namespace")).filter(|it| !it.is_empty()).unwrap_or(namespace);
        let object = ObjectKey::new(kind, home, text("/metadata/name"));
        let Document { place, value, .. } = document;
        objects.push(ObjectFile { object, place, value });
    }
    (objects, others)
}

/// Applies the files to the world, as the user `caller`. Returns the files with their resulting content.
pub(super) async fn apply(
    client: &Client,
    world: &mut World,
    files: Vec<ObjectFile>,
    caller: &Subject,
    now: Timestamp,
) -> (Vec<FileOutlook>, BTreeMap<ObjectKey, Content>) {
    let (mut all, mut contents) = (Vec::new(), BTreeMap::new());
    for file in files {
        let live = match exists(world, &file) {
            Ok(()) => fetch(client, &file.object).await,
            Err(refusal) => Err(refusal),
        };
        let applied = live.and_then(|live| one(world, &file, live, caller, now));
        let ObjectFile { object, place, .. } = file;
        all.push(match applied {
            Ok((course, difference, warnings, content)) => {
                contents.insert(object.clone(), content);
                let (of, reason, message) = (FileObject::Data(object), None, String::new());
                FileOutlook { course, of, place, reason, message, difference, warnings }
            }
            Err((reason, message)) => {
                let (course, of, reason) = (Course::Refuse, FileObject::Data(object), Some(reason));
                let (difference, warnings) = Default::default();
                FileOutlook { course, of, place, reason, message, difference, warnings }
            }
        });
    }
    (all, contents)
}

fn exists(world: &World, file: &ObjectFile) -> Result<(), Refusal> {
    if file.object.name.is_empty() {
        return Err((Reason::Invalid, "it has no metadata.name".into()));
    }
    let namespace = &file.object.namespace;
    match (world.namespaces().contains_key(namespace), world.unseen(namespace)) {
        (true, _) => Ok(()),
        (false, Some((reason, message))) => Err((reason.into(), message)),
        (false, None) => {
            Err((Reason::NotFound, format!("namespace {namespace} does not exist: create it first")))
        }
    }
}

/// Reads the whole object, to compare the file with it.
async fn fetch(client: &Client, object: &ObjectKey) -> Result<Option<Value>, Refusal> {
    let path = format!("{}/{}", object.kind.resource().path(Some(&object.namespace)), object.name);
    let unread = |why: String| (Reason::Unread, format!("cannot read {object}, to compare: {why}"));
    let request = Request::get(path).body(Vec::new()).map_err(|error| unread(error.to_string()))?;
    match client.request_text(request).await {
        Ok(text) => {
            let value =
                serde_json::from_str(&text).map_err(|_| unread("the answer is not an object".into()))?;
            Ok(Some(value))
        }
        Err(kube::Error::Api(said)) if said.code == 404 => Ok(None),
        Err(kube::Error::Api(said)) => Err(unread(said.message.clone())),
        Err(error) => Err(unread(error.to_string())),
    }
}

fn one(
    world: &mut World,
    file: &ObjectFile,
    live: Option<Value>,
    caller: &Subject,
    now: Timestamp,
) -> Result<(Course, Difference, Vec<String>, Content), Refusal> {
    let ObjectFile { object, value, .. } = file;
    let Some(key) = world.key().cloned() else {
        return Err((
            Reason::Unread,
            "the key that content is compared with was not read: run the command again".into(),
        ));
    };
    let invalid = || (Reason::Invalid, format!("it is not a valid {}", object.kind));
    let mut merged = merge(object, live.as_ref(), value).ok_or_else(invalid)?;
    let print = |value: &Value| -> Option<Fingerprint> { fingerprint(object.kind, value, &key) };
    let before = live.as_ref().and_then(print);
    let after = print(&merged).ok_or_else(invalid)?;
    let difference = difference(before.as_ref(), &after);
    let is_content = !(difference.keys_added.is_empty()
        && difference.keys_changed.is_empty()
        && difference.keys_removed.is_empty());
    if let Some(before) = &before {
        if before.type_ != after.type_ {
            return Err((Reason::Immutable, "a Secret's type cannot be changed: delete it first".into()));
        }
        if before.immutable && is_content {
            return Err((
                Reason::Immutable,
                "it is immutable: delete it first, or give it a new name".into(),
            ));
        }
        let source = world.object(object).and_then(|facts| facts.marks.as_deref()).map(|marks| &marks.source);
        if let Some(source) = source.filter(|_| is_content) {
            return Err((Reason::Copy, format!("it is a copy: change its source {source} instead")));
        }
    }
    if is_content || before.is_none() {
        let written = json!({
            "manager": "copyrator-plan", "operation": "Update",
            "time": Timestamp::from_second(now.as_second()).unwrap_or(now).to_string(),
            "fieldsV1": { "f:data": {} },
        });
        match merged["metadata"]["managedFields"].as_array_mut() {
            Some(entries) => entries.push(written),
            None => merged["metadata"]["managedFields"] = json!([written]),
        }
    }
    stamp(&mut merged, live.as_ref(), caller);
    let warnings = judge(world, object, &merged, live.as_ref(), caller, now)?;
    let content = decode(object.kind, &merged.to_string()).ok_or_else(invalid)?;
    put(world, object.kind, merged, now).ok_or_else(invalid)?;
    world.assume_fingerprint(object, after);
    let course = match (before, difference == Difference::default()) {
        (None, _) => Course::Create,
        (Some(_), true) => Course::Current,
        (Some(_), false) => Course::Change,
    };
    Ok((course, difference, warnings, content))
}

fn put(world: &mut World, kind: Kind, merged: Value, now: Timestamp) -> Option<()> {
    match kind.data()? {
        DataKind::ConfigMap => serde_json::from_value::<Slim<ConfigMap>>(merged).ok()?.put(world, now),
        DataKind::Secret => serde_json::from_value::<Slim<Secret>>(merged).ok()?.put(world, now),
    };
    Some(())
}

fn fingerprint(kind: Kind, value: &Value, key: &DigestKey) -> Option<Fingerprint> {
    Some(decode(kind, &value.to_string())?.fingerprint(key))
}

/// The result of `kubectl apply`: the content of the file, and the other existing content, except what an
/// earlier apply wrote.
fn merge(object: &ObjectKey, live: Option<&Value>, file: &Value) -> Option<Value> {
    let none = Value::Null;
    let live = live.unwrap_or(&none);
    let last = live["metadata"]["annotations"][LAST_APPLIED].as_str();
    let last: Value = last.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default();
    let mut merged = match live {
        Value::Null => json!({ "apiVersion": "v1", "kind": object.kind.to_string(), "metadata": {
            "namespace": &*object.namespace, "name": &*object.name, "uid": "not-applied-yet",
        }}),
        live => live.clone(),
    };
    merged["metadata"]["resourceVersion"] = PLANNED.into();
    for section in ["data", "binaryData"] {
        let mut values = as_map(&merged[section])?;
        for gone in applied_before(live, &last, section) {
            values.remove(&gone);
        }
        values.extend(as_map(&file[section])?);
        if section == "data" && object.kind == Kind::Secret {
            for (key, value) in as_map(&file["stringData"])? {
                values.insert(key, STANDARD.encode(value.as_str()?).into());
            }
        }
        merged[section] = Value::Object(values);
    }
    for field in ["immutable", "type"] {
        if !file[field].is_null() {
            merged[field] = file[field].clone();
        }
    }
    if object.kind == Kind::Secret && merged["type"].is_null() {
        merged["type"] = "Opaque".into();
    }
    for field in ["labels", "annotations"] {
        let mut words = as_map(&merged["metadata"][field])?;
        for gone in as_map(&last["metadata"][field])?.keys() {
            words.remove(gone);
        }
        words.extend(as_map(&file["metadata"][field])?);
        merged["metadata"][field] = Value::Object(words);
    }
    Some(merged)
}

/// The keys that an earlier `kubectl apply` wrote, according to its annotation or to managedFields: keys that
/// the file lacks are removed.
fn applied_before(live: &Value, last: &Value, section: &str) -> BTreeSet<String> {
    let mut keys: BTreeSet<String> =
        as_map(&last[section]).into_iter().flatten().map(|(key, _)| key).collect();
    if section == "data" {
        keys.extend(as_map(&last["stringData"]).into_iter().flatten().map(|(key, _)| key));
    }
    let entries = live["metadata"]["managedFields"].as_array().into_iter().flatten();
    for entry in entries.filter(|entry| entry["manager"] == "kubectl" && entry["operation"] == "Apply") {
        let owned = as_map(&entry["fieldsV1"][format!("f:{section}")]).into_iter().flatten();
        keys.extend(owned.filter_map(|(key, _)| key.strip_prefix("f:").map(str::to_owned)));
    }
    keys
}

/// A map, empty for an absent value; `None` for a value of a different type.
fn as_map(value: &Value) -> Option<Map<String, Value>> {
    match value {
        Value::Null => Some(Map::new()),
        Value::Object(map) => Some(map.clone()),
        _ => None,
    }
}

/// Stamps the caller who changes the annotations as their author, as the API server does.
fn stamp(merged: &mut Value, live: Option<&Value>, caller: &Subject) {
    let asks = |object: &Value| marks::ASKING.map(|key| object["metadata"]["annotations"][key].clone());
    let declares = |object: &Value| marks::declares(|key| object["metadata"]["labels"][key].as_str());
    let before = live.filter(|live| declares(live)).map(asks).unwrap_or_default();
    let after = asks(merged);
    if declares(merged) && after.iter().any(|value| !value.is_null()) && before != after {
        merged["metadata"]["annotations"][AUTHOR] = caller.user.as_str().into();
        merged["metadata"]["annotations"][AUTHOR_GROUPS] = json!(caller.groups).to_string().into();
    }
}

/// The names of the keys and fields that change.
fn difference(before: Option<&Fingerprint>, after: &Fingerprint) -> Difference {
    let none = BTreeMap::new();
    let old = before.map_or(&none, |print| &print.keys);
    let is_new = |key: &&String| !old.contains_key(*key);
    let differs = |(key, print): &(&String, &_)| old.get(*key).is_some_and(|known| known != *print);
    Difference {
        keys_added: after.keys.keys().filter(is_new).cloned().collect(),
        keys_changed: after.keys.iter().filter(differs).map(|(key, _)| key.clone()).collect(),
        keys_removed: old.keys().filter(|key| !after.keys.contains_key(*key)).cloned().collect(),
        fields: before
            .filter(|before| before.immutable != after.immutable)
            .map(|_| "immutable".to_owned())
            .into_iter()
            .collect(),
        ..Difference::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let object = ObjectKey::new(Kind::ConfigMap, "shop", "app");
        let key = DigestKey::new(&[7; DigestKey::LENGTH]);
        let file = json!({ "data": { "a": "2", "new": "1" } });
        let told = |live: &Value| {
            let merged = merge(&object, Some(live), &file).unwrap();
            let print = |value| fingerprint(Kind::ConfigMap, value, &key).unwrap();
            let Difference { keys_added, keys_changed, keys_removed, .. } =
                difference(Some(&print(live)), &print(&merged));
            format!("+{keys_added:?} ~{keys_changed:?} -{keys_removed:?}")
        };
        assert_eq!(told(&live(r#"{"data": {"a": "0", "b": "0"}}"#, &[])), r#"+["new"] ~["a"] -["b"]"#);
        assert_eq!(told(&live("", &["a", "c"])), r#"+["new"] ~["a"] -["c"]"#);
        assert_eq!(told(&live("", &[])), r#"+["new"] ~["a"] -[]"#);
    }

    #[test]
    fn a_secret_is_compared_decoded() {
        let object = ObjectKey::new(Kind::Secret, "shop", "app");
        let key = DigestKey::new(&[7; DigestKey::LENGTH]);
        let live = json!({ "metadata": { "uid": "u", "resourceVersion": "7" }, "type": "Opaque", "data": { "k": "djE=" } });
        let print = |value: &Value| fingerprint(Kind::Secret, value, &key).unwrap();
        for (text, changes) in [("v1", 0), ("v2", 1)] {
            let merged = merge(&object, Some(&live), &json!({ "stringData": { "k": text } })).unwrap();
            assert_eq!(
                difference(Some(&print(&live)), &print(&merged)).keys_changed.len(),
                changes,
                "{text}"
            );
        }
        assert!(merge(&object, Some(&live), &json!({ "stringData": { "k": 1 } })).is_none(), "no text");
    }
}
