//! What the API server does not keep of what was written: a mutating webhook or policy changes it, or the version in which the kind is
//! stored does not have the field. Writing it again would come to the same, so it is told and not repeated.

use std::collections::HashMap;

use jiff::Timestamp;
use serde_json::Value;

use super::problem::{CopyProblem, ProblemReason};
use crate::{
    api::Span,
    model::{NotKept, ObjectFacts, World},
    names::ObjectKey,
};

/// Fields of an object that a write does not decide.
const NOT_DECLARED: [&str; 7] =
    ["name", "namespace", "uid", "resourceVersion", "ownerReferences", "managedFields", "generation"];
/// How many fields a message names; of more only the number is told.
const MOST_NAMED: usize = 8;
/// How much of the name of an item of a list a path quotes, in characters.
const QUOTED: usize = 64;
/// Among how many items of a list one without a name is looked for, if it is not in its own place.
const SEARCHED: usize = 64;
/// What tells the items of a list apart, as in the lists that Kubernetes merges.
const NAMES: [&str; 8] =
    ["name", "key", "containerPort", "port", "mountPath", "devicePath", "topologyKey", "ip"];

/// The paths of the fields of `declared` that `stored` does not have with these values, such as
/// `spec.template.spec.containers[web].image`, at most `MOST_NAMED` and one. What the API server writes differently is the same
/// (quantities, durations, what is empty and left out), and what it adds does not count.
pub fn not_kept(declared: &Value, stored: &Value) -> Vec<String> {
    let mut lost = Vec::new();
    compare("", declared, stored, &mut lost);
    lost
}

/// Whether two objects differ in nothing but fields of these paths that the second one does not have: the version in which the kind is
/// stored leaves them out.
pub fn same_but_for(paths: &[String], mut applied: Value, stored: &Value) -> bool {
    leave_out("", &mut applied, stored, paths);
    applied == *stored
}

/// What to tell of an object that is in order: the fields that the API server does not keep.
pub(super) fn altered(world: &World, slot: &ObjectKey, existing: &ObjectFacts) -> Option<CopyProblem> {
    let NotKept { digest, fields } = world.memory().slot(slot).not_kept.as_deref()?;
    if existing.marks.as_deref()?.digest != *digest {
        return None;
    }
    let named = fields.iter().take(MOST_NAMED).map(String::as_str).collect::<Vec<_>>().join(", ");
    let more = if fields.len() > MOST_NAMED { " and others" } else { "" };
    let message = format!(
        "the API server took the object and does not keep what is declared for {named}{more}: a mutating webhook or policy changes it, or \
         the stored version of the kind leaves it out. It is not written again; have the webhook or policy leave this object out, or \
         declare what it makes of it"
    );
    Some(CopyProblem::new(slot, ProblemReason::NotKept, message))
}

fn compare(path: &str, declared: &Value, stored: &Value, lost: &mut Vec<String>) {
    if lost.len() > MOST_NAMED {
        return;
    }
    match (declared, stored) {
        (Value::Object(declared), Value::Object(stored)) => {
            let fields = declared
                .iter()
                .filter(|(field, _)| path != "metadata" || !NOT_DECLARED.contains(&field.as_str()));
            for (field, value) in fields {
                compare(&inside(path, field), value, stored.get(field).unwrap_or(&Value::Null), lost);
            }
        }
        (Value::Array(declared), Value::Array(stored)) => compare_lists(path, declared, stored, lost),
        (declared, Value::Null) if is_empty(declared) => {}
        (declared, stored) if is_same(declared, stored) => {}
        _ => lost.push(path.to_owned()),
    }
}

/// The order of items does not count, and there may be more: others add some. Each item is held against one other, so that the work
/// grows with the size of the object only.
fn compare_lists(path: &str, declared: &[Value], stored: &[Value], lost: &mut Vec<String>) {
    let by_key: HashMap<String, &Value> =
        stored.iter().rev().filter_map(|item| Some((key(item)?, item))).collect();
    for (place, item) in declared.iter().enumerate() {
        let (own, opposite) = (key(item), stored.get(place));
        let is_opposite = |it: &&Value| is_same(item, it) || own.is_some() && key(it) == own;
        let other = opposite.filter(is_opposite).or_else(|| match &own {
            Some(own) => by_key.get(own).copied(),
            None => stored.iter().take(SEARCHED).find(|it| *it == item).or(opposite),
        });
        compare(&item_of(path, place, item), item, other.unwrap_or(&Value::Null), lost);
    }
}

fn leave_out(path: &str, applied: &mut Value, stored: &Value, paths: &[String]) {
    match (applied, stored) {
        (Value::Object(applied), Value::Object(stored)) => {
            applied.retain(|field, _| stored.contains_key(field) || !paths.contains(&inside(path, field)));
            for (field, value) in applied {
                leave_out(&inside(path, field), value, stored.get(field).unwrap_or(&Value::Null), paths);
            }
        }
        (Value::Array(applied), Value::Array(stored)) => {
            for (place, (item, stored)) in applied.iter_mut().zip(stored).enumerate() {
                leave_out(&item_of(path, place, item), item, stored, paths);
            }
        }
        _ => {}
    }
}

fn inside(path: &str, field: &str) -> String {
    if path.is_empty() { field.to_owned() } else { format!("{path}.{field}") }
}

/// The path of an item: with its name, or its place where it has none. A scalar has none: paths quote no values.
fn item_of(path: &str, place: usize, item: &Value) -> String {
    let name = item.as_object().and_then(|_| key(item));
    let name = name.map_or_else(|| place.to_string(), |name| name.chars().take(QUOTED).collect());
    format!("{path}[{name}]")
}

/// What tells an item from others of its list; a scalar does so itself.
fn key(item: &Value) -> Option<String> {
    let key = match item {
        Value::Object(fields) => text(NAMES.iter().find_map(|field| fields.get(*field))?),
        Value::Array(_) | Value::Null => return None,
        scalar => text(scalar),
    };
    (!key.is_empty()).then_some(key)
}

/// What the API server leaves out where it is not there.
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

fn is_same(declared: &Value, stored: &Value) -> bool {
    let (declared, stored) = match (declared, stored) {
        (Value::Object(_) | Value::Array(_) | Value::Null, _)
        | (_, Value::Object(_) | Value::Array(_) | Value::Null) => {
            return false;
        }
        (declared, stored) => (text(declared), text(stored)),
    };
    let durations = [&declared, &stored].map(|text| Span::new(text.as_str()).get().ok());
    let times = [&declared, &stored].map(|text| text.parse::<Timestamp>().ok());
    let quantities = [&declared, &stored].map(|text| quantity(text));
    let are_same = |same: bool, are_read: bool| same && are_read;
    declared == stored
        || are_same(durations[0] == durations[1], durations[0].is_some())
        || are_same(times[0] == times[1], times[0].is_some())
        || are_same(quantities[0] == quantities[1], quantities[0].is_some())
}

/// A value as text: `1` for the number and for the text.
fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// A quantity, as exactly as a float has it
/// (<https://kubernetes.io/docs/reference/kubernetes-api/common-definitions/quantity/>).
fn quantity(text: &str) -> Option<f64> {
    let number = text.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
    let unit = match &text[number.len()..] {
        "" => 1.0,
        "n" => 1e-9,
        "u" => 1e-6,
        "m" => 1e-3,
        "k" => 1e3,
        "M" => 1e6,
        "G" => 1e9,
        "T" => 1e12,
        "P" => 1e15,
        "E" => 1e18,
        "Ki" => 1024.0,
        "Mi" => 1_048_576.0,
        "Gi" => 1_073_741_824.0,
        "Ti" => 1_099_511_627_776.0,
        "Pi" => 1_125_899_906_842_624.0,
        "Ei" => 1_152_921_504_606_846_976.0,
        _ => return None,
    };
    Some(number.parse::<f64>().ok()? * unit)
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
            (json!({"memory": "1024Mi"}), json!({"memory": "1Gi"})),
            (json!({"memory": "1e3"}), json!({"memory": "1k"})),
            (json!({"every": "60s"}), json!({"every": "1m0s"})),
            (json!({"at": "2026-01-01T01:00:00+01:00"}), json!({"at": "2026-01-01T00:00:00Z"})),
            (json!({"env": [], "hostNetwork": false, "resources": {"limits": {}}, "note": null}), json!({})),
            (json!({"a": "1"}), json!({"a": "1", "b": "default"})),
            (json!(["a", "b"]), json!(["b", "sidecar", "a"])),
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
            (json!({"cpu": "1"}), json!({"cpu": "2"}), "cpu"),
            (json!({"on": true}), json!({"on": false}), "on"),
            (json!({"on": true}), json!({}), "on"),
            (
                json!({"spec": {"containers": [{"name": "web", "image": "a:1"}]}}),
                json!({"spec": {"containers": [{"name": "proxy", "image": "b"}, {"name": "web", "image": "mirror/a:1"}]}}),
                "spec.containers[web].image",
            ),
            (json!({"args": ["a", "b"]}), json!({"args": ["a", "c"]}), "args[1]"),
            (json!({"args": ["a", "b"]}), json!({"args": ["a"]}), "args[1]"),
            (
                json!({"ports": [{"port": 80, "targetPort": 1}]}),
                json!({"ports": [{"port": 80, "targetPort": 2}]}),
                "ports[80].targetPort",
            ),
            (json!({"metadata": {"labels": {"app": "a"}}}), json!({"metadata": {}}), "metadata.labels"),
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
        assert_eq!(not_kept(&items(0), &items(20_000)).len(), MOST_NAMED + 1);
    }

    #[test]
    fn an_object_of_lists_in_lists_takes_no_longer_than_it_is_deep() {
        let nested = |leaf: u8| (0..100).fold(json!(leaf), |inner, _| json!([{"in": inner}]));
        assert_eq!(not_kept(&nested(1), &nested(0)).len(), 1);
    }

    #[test]
    fn what_the_stored_version_leaves_out_is_no_difference_and_the_rest_is() {
        let applied = json!({"spec": {"size": 1, "items": [{"name": "a", "extra": 2}]}});
        let paths = ["spec.items[a].extra".to_owned()];
        let same = |stored: Value| same_but_for(&paths, applied.clone(), &stored);
        assert!(same(json!({"spec": {"size": 1, "items": [{"name": "a"}]}})));
        assert!(
            !same(json!({"spec": {"size": 2, "items": [{"name": "a"}]}})),
            "somebody changed another one"
        );
        assert!(!same(json!({"spec": {"items": [{"name": "a"}]}})), "somebody took another one out");
        assert!(
            !same(json!({"spec": {"size": 1, "items": [{"name": "a", "extra": 3}]}})),
            "it has another value"
        );
    }
}
