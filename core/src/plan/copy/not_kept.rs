//! The declared fields that the API server does not keep: a mutating webhook or policy changes the fields, or
//! the stored version of the kind does not have them. A second write would have the same result, so the
//! status names the fields, and the reconciler does not write again.

use std::collections::HashMap;

use serde_json::Value;

use super::{
    intent::Intent,
    problem::{CopyProblem, ProblemReason},
};
use crate::{
    model::{NotKept, ObjectFacts, World},
    names::ObjectKey,
    paths::{inside, item_name, of_item, scalar},
};

/// The beginning of the paths of labels.
const LABELS: &str = "metadata.labels";
/// The maximum number of fields to look for. If the search finds this many, a message leaves out the last
/// field and says that the list is not complete.
const MOST: usize = 9;
/// Fields of an object's metadata that a write does not decide.
const NOT_DECLARED: [&str; 7] =
    ["name", "namespace", "uid", "resourceVersion", "ownerReferences", "managedFields", "generation"];

/// Returns the paths of the fields of `declared` that `stored` does not have with these values, such as
/// `spec.template.spec.containers[web].image`: the first `MOST`. Fields and items that the API server adds
/// are ignored. A value that may be the declared value in another form is treated as kept (`may_be_same`).
pub fn not_kept(declared: &Value, stored: &Value) -> Vec<String> {
    let mut found = Vec::new();
    compare("", declared, stored, &mut found);
    found
}

fn compare(path: &str, declared: &Value, stored: &Value, found: &mut Vec<String>) {
    if found.len() == MOST {
        return;
    }
    match (declared, stored) {
        (Value::Object(fields), Value::Object(_)) => {
            let is_declared = |field: &str| path != "metadata" || !NOT_DECLARED.contains(&field);
            for (field, value) in fields.iter().filter(|(field, _)| is_declared(field)) {
                compare(&inside(path, field), value, &stored[field], found);
            }
        }
        (Value::Array(items), Value::Array(others)) => compare_items(path, items, others, found),
        // Labels and annotations have one form only.
        (declared, stored) if path.starts_with("metadata.") && declared.is_string() => {
            if declared != stored {
                found.push(path.to_owned());
            }
        }
        (declared, stored) if may_be_same(declared, stored) => {}
        _ => found.push(path.to_owned()),
    }
}

/// Compares lists: scalars in their order, ignoring added scalars; other items by name, else by position.
/// Each item is compared with only one stored item, so that the work grows with the size of the object only.
fn compare_items(path: &str, declared: &[Value], stored: &[Value], found: &mut Vec<String>) {
    let by_key: HashMap<String, &Value> =
        stored.iter().rev().filter_map(|item| Some((key(item)?, item))).collect();
    let mut left = stored.iter();
    for (place, item) in declared.iter().enumerate() {
        if found.len() == MOST {
            return;
        }
        let path = of_item(path, item, place);
        if !item.is_object() && !item.is_array() {
            if !left.any(|other| may_be_same(item, other)) {
                found.push(path);
                return;
            }
            continue;
        }
        let (own, opposite) = (key(item), stored.get(place));
        let is_opposite = |it: &&Value| own.is_none() || key(it) == own;
        let named = || own.as_ref().and_then(|own| by_key.get(own).copied());
        let other = opposite.filter(is_opposite).or_else(named);
        compare(&path, item, other.unwrap_or(&Value::Null), found);
    }
}

/// Whether the stored value may be the declared value in a form of the API server's own: quantities (`700m`
/// for `0.7`), durations (`1h30m0s` for `1.5h`), times, numbers as text, and an absent field for an empty
/// value. Two texts that both begin with a number are treated as equal.
fn may_be_same(declared: &Value, stored: &Value) -> bool {
    let is_unset = declared.is_null() || declared == "";
    if is_unset || declared == stored || (stored.is_null() && is_empty(declared)) {
        return true;
    }
    let is_numeric =
        |text: String| text.starts_with(|first: char| first.is_ascii_digit() || "+-.".contains(first));
    let are_numeric = || scalar(declared).is_some_and(is_numeric) && scalar(stored).is_some_and(is_numeric);
    (declared.is_string() || stored.is_string()) && are_numeric()
}

/// Whether the API server leaves this value out when it stores an object.
fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::Bool(true) => false,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.values().all(is_empty),
    }
}

/// The key of a list's item, as in the lists that Kubernetes merges.
fn key(item: &Value) -> Option<String> {
    item_name(item).or_else(|| {
        let parts = ["topologyKey", "whenUnsatisfiable", "key", "effect", "value", "ip"];
        let found: Vec<String> = parts.iter().filter_map(|field| scalar(item.get(field)?)).collect();
        (!found.is_empty()).then(|| found.join(" "))
    })
}

/// Returns the problem of an object that is in order except for fields that the API server does not keep.
pub(super) fn altered(world: &World, slot: &ObjectKey, existing: &ObjectFacts) -> Option<CopyProblem> {
    let NotKept { digest, fields } = world.memory().slot(slot).not_kept()?;
    if existing.marks.as_deref()?.digest != *digest {
        return None;
    }
    let named = fields.iter().take(MOST - 1).map(String::as_str).collect::<Vec<_>>().join(", ");
    let more = if fields.len() == MOST { " and others" } else { "" };
    let message = format!(
        "the API server accepted the object but did not keep the declared value of {named}{more}: a mutating webhook or policy changes \
         it, or the stored version of the kind lacks the field. Copyrator does not write the object again; exempt the object in the \
         webhook or policy, or declare the value that it sets"
    );
    Some(CopyProblem::new(slot, ProblemReason::NotKept, message))
}

/// Whether the API server is known to remove or change declared labels of the object.
pub(super) fn loses_labels(world: &World, slot: &ObjectKey, intent: &Intent) -> bool {
    let lost = world.memory().slot(slot).not_kept().filter(|lost| lost.digest == intent.marks.digest);
    lost.is_some_and(|lost| lost.fields.iter().any(|field| field.starts_with(LABELS)))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_the_api_server_writes_differently_is_kept() {
        for (declared, stored) in [
            (json!({"cpu": "1000m"}), json!({"cpu": "1"})),
            (json!({"cpu": 1}), json!({"cpu": "1"})),
            (json!({"cpu": "0.7"}), json!({"cpu": "700m"})),
            (json!({"memory": "4.1G"}), json!({"memory": "4100M"})),
            (
                json!({"clusterIP": "", "policy": null}),
                json!({"clusterIP": "10.96.0.5", "policy": "IfNotPresent"}),
            ),
            (
                json!([{"name": "data", "mountPath": "/a"}]),
                json!([{"name": "data", "mountPath": "/z"}, {"name": "data", "mountPath": "/a", "readOnly": false}]),
            ),
            (
                json!([{"port": 53, "protocol": "UDP"}, {"port": 53, "protocol": "TCP"}]),
                json!([{"port": 53, "protocol": "TCP"}, {"port": 53, "protocol": "UDP", "name": "dns"}]),
            ),
            (
                json!([{"port": 80}]),
                json!([{"port": 9, "protocol": "TCP"}, {"port": 80, "protocol": "TCP", "name": "web"}]),
            ),
            (json!({"memory": "1024Mi"}), json!({"memory": "1Gi"})),
            (json!({"memory": "1e3"}), json!({"memory": "1k"})),
            (json!({"every": "60s"}), json!({"every": "1m0s"})),
            (json!({"every": "1.5h"}), json!({"every": "1h30m0s"})),
            (json!({"at": "2026-01-01T01:00:00+01:00"}), json!({"at": "2026-01-01T00:00:00Z"})),
            (json!({"env": [], "hostNetwork": false, "resources": {"limits": {}}, "note": null}), json!({})),
            (json!({"a": "1"}), json!({"a": "1", "b": "default"})),
            (json!(["a", "b", "a"]), json!(["first", "a", "b", "between", "a", "last"])),
            (json!([{"name": "web"}]), json!([{"name": "proxy"}, {"name": "web", "image": "x"}])),
            (
                json!({"metadata": {"name": "a", "resourceVersion": "1"}}),
                json!({"metadata": {"name": "a", "resourceVersion": "2"}}),
            ),
        ] {
            assert_eq!(not_kept(&declared, &stored), Vec::<String>::new(), "{declared} {stored}");
        }
    }

    #[test]
    fn what_is_changed_or_left_out_is_named() {
        for (declared, stored, path) in [
            (json!({"spec": {"replicas": 2}}), json!({"spec": {"replicas": 3}}), "spec.replicas"),
            (json!({"spec": {"replicas": 2}}), json!({"spec": {}}), "spec.replicas"),
            (json!({"image": "a:1"}), json!({"image": "2"}), "image"),
            (json!({"on": true}), json!({"on": false}), "on"),
            (json!({"on": true}), json!({}), "on"),
            (
                json!({"spec": {"containers": [{"name": "web", "image": "a:1"}]}}),
                json!({"spec": {"containers": [{"name": "proxy", "image": "b"}, {"name": "web", "image": "mirror/a:1"}]}}),
                "spec.containers[web].image",
            ),
            (json!({"args": ["a", "b"]}), json!({"args": ["a", "c"]}), "args[1]"),
            (json!({"args": ["a", "b"]}), json!({"args": ["a"]}), "args[1]"),
            (json!({"args": ["a", "b"]}), json!({"args": ["b", "a"]}), "args[1]"),
            (
                json!({"rules": [{"to": ["x", "y"]}]}),
                json!({"rules": [{"to": ["y", "x"]}]}),
                "rules[0].to[1]",
            ),
            (
                json!({"ports": [{"port": 80, "targetPort": 1}]}),
                json!({"ports": [{"port": 80, "targetPort": 2}]}),
                "ports[80].targetPort",
            ),
            (json!({"keys": [{"key": "s3cr3t", "x": 1}]}), json!({"keys": [{"key": "s3cr3t"}]}), "keys[0].x"),
            (json!({"keys": [{"name": {"token": "s3cr3t"}}]}), json!({"keys": [{}]}), "keys[0].name"),
            (json!({"metadata": {"labels": {"app": "a"}}}), json!({"metadata": {}}), "metadata.labels"),
            (
                json!({"metadata": {"labels": {"app": "1.2"}}}),
                json!({"metadata": {"labels": {"app": "1.3"}}}),
                "metadata.labels.app",
            ),
            (json!({"spec": {"a": {"b": 1}}}), json!({"spec": {"a": 1}}), "spec.a"),
        ] {
            assert_eq!(not_kept(&declared, &stored), [path], "{declared} {stored}");
        }
    }

    /// However large the lists are that somebody's object has.
    #[test]
    fn there_is_a_limit_to_what_is_named_and_to_what_is_looked_for() {
        let items =
            |from: usize| json!((from..from + 20_000).map(|item| item.to_string()).collect::<Vec<_>>());
        assert_eq!(not_kept(&items(0), &json!([])), ["[0]"]);
        assert_eq!(not_kept(&items(0), &items(0)), [""; 0]);
        let named =
            |image: &str| json!((0..100).map(|at| json!({"name": at, "image": image})).collect::<Vec<_>>());
        assert_eq!(not_kept(&named("a"), &named("b")).len(), MOST);
    }

    #[test]
    fn an_object_of_lists_in_lists_takes_no_longer_than_it_is_deep() {
        let nested = |leaf: u8| (0..100).fold(json!(leaf), |inner, _| json!([{"in": inner}]));
        assert_eq!(not_kept(&nested(1), &nested(0)).len(), 1);
    }
}
