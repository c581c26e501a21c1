//! The fields that a write changes in an object without `data`, with the values before and after. Values of
//! ConfigMaps and Secrets are never shown; [`super::Difference`] has the names of their keys.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value};

use crate::{
    marks::{MANAGED_BY, PREFIX},
    names::Kind,
    paths::{inside, is_content, item_name, of_item},
    validate::printable,
};

/// The maximum number of fields of one object in the result.
const MOST: usize = 32;
/// The longest part of a value that is shown, in bytes.
const LONGEST_VALUE: usize = 160;
/// The compared parts of an object's metadata.
const METADATA: [&str; 2] = ["labels", "annotations"];

/// A field that a write changes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FieldChange {
    /// Such as `spec.template.spec.containers[web].image`.
    pub path: String,
    /// Its value as JSON text, of which at most 160 bytes are shown; absent where the field is not there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub old: Option<String>,
    /// Its value after the write, in the same form; absent where the field goes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub new: Option<String>,
}

/// Returns the fields in which an object before and after a write differs, by path and without our marks, and
/// whether the list is incomplete. A ConfigMap or Secret has no such fields.
pub fn field_changes(kind: Kind, before: &Value, after: &Value) -> (Vec<FieldChange>, bool) {
    let mut found = Vec::new();
    if kind.data().is_some() {
        return (found, false);
    }
    for part in METADATA {
        let declared = |object: &Value| {
            let mut all = object["metadata"][part].as_object().cloned().unwrap_or_default();
            all.retain(|key, _| !key.starts_with(PREFIX) && key != MANAGED_BY);
            all
        };
        compare_fields(&inside("metadata", part), &declared(before), &declared(after), &mut found);
    }
    let content = |object: &Value| {
        let mut all = object.as_object().cloned().unwrap_or_default();
        all.retain(|field, _| is_content(field));
        all
    };
    compare_fields("", &content(before), &content(after), &mut found);
    found.sort_unstable();
    let has_more = found.len() > MOST;
    found.truncate(MOST);
    (found, has_more)
}

fn compare_fields(
    path: &str,
    before: &Map<String, Value>,
    after: &Map<String, Value>,
    found: &mut Vec<FieldChange>,
) {
    let fields: BTreeSet<&String> = before.keys().chain(after.keys()).collect();
    for field in fields {
        let of = |object: &'_ Map<String, Value>| object.get(field).cloned().unwrap_or_default();
        compare(inside(path, field), &of(before), &of(after), found);
    }
}

fn compare(path: String, before: &Value, after: &Value, found: &mut Vec<FieldChange>) {
    if before == after || found.len() > MOST {
        return;
    }
    match (before, after) {
        (Value::Object(before), Value::Object(after)) => compare_fields(&path, before, after, found),
        (Value::Array(items), Value::Array(others)) if let Some(pairs) = paired(items, others) => {
            for (place, (item, other)) in pairs.into_iter().enumerate() {
                let named = if item.is_null() { other } else { item };
                compare(of_item(&path, named, place), item, other, found);
            }
        }
        _ => {
            let said =
                |value: &Value| (!value.is_null()).then(|| printable(value.to_string(), LONGEST_VALUE));
            found.push(FieldChange { path, old: said(before), new: said(after) });
        }
    }
}

/// Pairs the items of two lists by name, with null for an item that one of the lists lacks. `None` if the
/// list changes as a whole: an item has no name, two items have the same name, or only the order changes.
fn paired<'v>(before: &'v [Value], after: &'v [Value]) -> Option<Vec<(&'v Value, &'v Value)>> {
    let names = |items: &[Value]| items.iter().map(item_name).collect::<Option<Vec<_>>>();
    let (old, new) = (names(before)?, names(after)?);
    let are_distinct = |names: &[String]| names.iter().collect::<BTreeSet<_>>().len() == names.len();
    if !are_distinct(&old) || !are_distinct(&new) {
        return None;
    }
    let other = |name: &String| new.iter().position(|it| it == name).map_or(&Value::Null, |at| &after[at]);
    let kept = old.iter().zip(before).map(|(name, item)| (item, other(name)));
    let added = new.iter().zip(after).filter(|(name, _)| !old.contains(name));
    let pairs: Vec<_> = kept.chain(added.map(|(_, item)| (&Value::Null, item))).collect();
    pairs.iter().any(|(item, other)| item != other).then_some(pairs)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn said(before: &Value, after: &Value) -> Vec<String> {
        let (changes, has_more) = field_changes(Kind::Deployment, before, after);
        assert!(!has_more);
        let of = |value: Option<String>| value.unwrap_or_else(|| "nothing".into());
        changes.into_iter().map(|it| format!("{}: {} to {}", it.path, of(it.old), of(it.new))).collect()
    }

    #[test]
    fn changes_are_named_with_their_values() {
        let before = json!({
            "metadata": { "labels": { "app": "web", "old": "1", MANAGED_BY: "copyrator" },
                "annotations": { "copyrator.dev/digest": "abc" }, "resourceVersion": "1" },
            "spec": { "replicas": 2, "minReadySeconds": 5, "template": { "spec": {
                "nodeSelector": { "disk": "ssd", "zone": "a" },
                "containers": [
                    { "name": "proxy", "image": "proxy" },
                    { "name": "web", "image": "web:1", "args": ["-v", "-x"], "env": [{ "name": "A", "value": "1" }, { "name": "B", "value": "2" }],
                      "ports": [{ "containerPort": 80, "protocol": "TCP" }] },
                    { "name": "gone", "image": "gone" },
                ] } } },
            "status": { "replicas": 2 },
        });
        let after = json!({
            "metadata": { "labels": { "app": "shop", MANAGED_BY: "copyrator" },
                "annotations": { "copyrator.dev/digest": "def" }, "resourceVersion": "2" },
            "spec": { "replicas": 3, "template": { "spec": {
                "nodeSelector": { "disk": "ssd" },
                "containers": [
                    { "name": "proxy", "image": "proxy" },
                    { "name": "web", "image": "web:2", "args": ["-x", "-v"], "env": [{ "name": "A", "value": "1" }, { "name": "C", "value": "3" }],
                      "ports": [{ "containerPort": 80, "protocol": "TCP" }] },
                ] } } },
        });
        let changes = [
            "metadata.labels.app: \"web\" to \"shop\"",
            "metadata.labels.old: \"1\" to nothing",
            "spec.minReadySeconds: 5 to nothing",
            "spec.replicas: 2 to 3",
            "spec.template.spec.containers[gone]: {\"image\":\"gone\",\"name\":\"gone\"} to nothing",
            "spec.template.spec.containers[web].args: [\"-v\",\"-x\"] to [\"-x\",\"-v\"]",
            "spec.template.spec.containers[web].env[B]: {\"name\":\"B\",\"value\":\"2\"} to nothing",
            "spec.template.spec.containers[web].env[C]: nothing to {\"name\":\"C\",\"value\":\"3\"}",
            "spec.template.spec.containers[web].image: \"web:1\" to \"web:2\"",
            "spec.template.spec.nodeSelector.zone: \"a\" to nothing",
        ];
        assert_eq!(said(&before, &after), changes);
        assert_eq!(said(&before, &before), [""; 0]);
    }

    #[test]
    fn a_list_changes_as_a_whole_where_its_items_have_no_names_of_their_own() {
        for (before, after) in [
            (json!([{ "from": 1 }, {}]), json!([{ "from": 1 }])),
            (json!([{ "name": "a" }, { "name": "b" }]), json!([{ "name": "b" }, { "name": "a" }])),
            (json!([{ "name": "a" }, { "name": "a" }]), json!([{ "name": "a" }])),
        ] {
            let object = |rules: &Value| json!({ "spec": { "rules": rules } });
            assert_eq!(said(&object(&before), &object(&after)), [format!("spec.rules: {before} to {after}")]);
        }
    }

    #[test]
    fn no_value_of_a_secret_or_config_map_is_shown() {
        for kind in [Kind::Secret, Kind::ConfigMap] {
            let of = |value: &str| json!({ "data": { "a": value } });
            assert_eq!(field_changes(kind, &of("b"), &of("c")), (Vec::new(), false));
        }
    }

    #[test]
    fn long_values_and_many_fields_are_cut() {
        let long = "x".repeat(10_000);
        let all: Map<String, Value> = (0..100).map(|at| (at.to_string(), json!(long))).collect();
        let (changes, has_more) =
            field_changes(Kind::Deployment, &json!({ "spec": {} }), &json!({ "spec": all }));
        assert!(has_more && changes.len() == MOST);
        let value = changes[0].new.as_deref().unwrap_or_default();
        assert!(value.len() <= LONGEST_VALUE && value.ends_with('…'), "{value}");
    }
}
