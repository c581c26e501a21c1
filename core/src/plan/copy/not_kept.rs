//! What the API server does not keep of what was written: a mutating webhook or policy changes it, or the version in which the kind is
//! stored does not have the field. Writing it again would come to the same, so it is told and not repeated.

use std::collections::HashMap;

use jiff::Timestamp;
use serde_json::{Map, Value};

use super::problem::{CopyProblem, ProblemReason};
use crate::{
    api::Span,
    model::{NotKept, ObjectFacts, World},
    names::ObjectKey,
};

/// Fields of an object's metadata that a write does not decide.
const NOT_DECLARED: [&str; 7] =
    ["name", "namespace", "uid", "resourceVersion", "ownerReferences", "managedFields", "generation"];
/// How many fields are looked for. A message names all of them but the last, of which it says that there are others.
const MOST: usize = 9;
/// How much of the name of a field or item a path quotes, in characters.
const QUOTED: usize = 64;
/// Among how many items of a list one without a key is looked for, if it is not in its own place.
const SEARCHED: usize = 64;

/// The paths of the fields of `declared` that `stored` does not have with these values, such as
/// `spec.template.spec.containers[web].image`: the first `MOST`. What the API server writes differently is the same (quantities,
/// durations, what is empty), and what it adds does not count.
pub fn not_kept(declared: &Value, stored: &Value) -> Vec<String> {
    let mut lost = Vec::new();
    compare("", declared, stored, &mut lost);
    lost
}

/// What to tell of an object that is in order: the fields that the API server does not keep.
pub(super) fn altered(world: &World, slot: &ObjectKey, existing: &ObjectFacts) -> Option<CopyProblem> {
    let NotKept { digest, fields } = world.memory().slot(slot).not_kept()?;
    if existing.marks.as_deref()?.digest != *digest {
        return None;
    }
    let named = fields.iter().take(MOST - 1).map(String::as_str).collect::<Vec<_>>().join(", ");
    let more = if fields.len() == MOST { " and others" } else { "" };
    let message = format!(
        "the API server took the object and does not keep what is declared for {named}{more}: a mutating webhook or policy changes it, or \
         the stored version of the kind leaves it out. It is not written again; have the webhook or policy leave this object out, or \
         declare what it makes of it"
    );
    Some(CopyProblem::new(slot, ProblemReason::NotKept, message))
}

fn compare(path: &str, declared: &Value, stored: &Value, lost: &mut Vec<String>) {
    if lost.len() == MOST {
        return;
    }
    match (declared, stored) {
        (Value::Object(declared), Value::Object(stored)) => {
            let is_declared = |field: &str| path != "metadata" || !NOT_DECLARED.contains(&field);
            for (field, value) in declared.iter().filter(|(field, _)| is_declared(field)) {
                compare(&inside(path, field), value, stored.get(field).unwrap_or(&Value::Null), lost);
            }
        }
        (Value::Array(declared), Value::Array(stored)) => compare_lists(path, declared, stored, lost),
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
        if lost.len() == MOST {
            return;
        }
        let (own, opposite) = (key(item), stored.get(place));
        let is_opposite = |it: &&Value| is_same(item, it) || own.is_some() && key(it) == own;
        let other = opposite.filter(is_opposite).or_else(|| match &own {
            Some(own) => by_key.get(own).copied(),
            None => stored.iter().take(SEARCHED).find(|it| *it == item).or(opposite),
        });
        // Paths quote names and ports, and no other value.
        let name = item.as_object().and_then(name).unwrap_or_else(|| place.to_string());
        compare(&format!("{path}[{}]", quoted(&name)), item, other.unwrap_or(&Value::Null), lost);
    }
}

fn inside(path: &str, field: &str) -> String {
    let field = quoted(field);
    if path.is_empty() { field } else { format!("{path}.{field}") }
}

fn quoted(name: &str) -> String {
    name.chars().take(QUOTED).collect()
}

/// What tells an item from others of its list, as in the lists that Kubernetes merges; a scalar does so itself.
fn key(item: &Value) -> Option<String> {
    match item {
        Value::Object(fields) => name(fields).or_else(|| {
            let parts = ["topologyKey", "whenUnsatisfiable", "key", "effect", "value", "ip"];
            let found: Vec<String> = parts.iter().filter_map(|field| scalar(fields.get(*field)?)).collect();
            (!found.is_empty()).then(|| found.join(" "))
        }),
        item => scalar(item),
    }
}

/// The name of an item: where it is mounted, its port with the protocol, or what it calls itself.
fn name(item: &Map<String, Value>) -> Option<String> {
    let field = |name: &str| scalar(item.get(name)?);
    let protocol =
        || field("protocol").filter(|it| it != "TCP").map_or_else(String::new, |it| format!("/{it}"));
    let port = || Some(field("containerPort").or_else(|| field("port"))? + &protocol());
    field("mountPath").or_else(|| field("devicePath")).or_else(port).or_else(|| field("name"))
}

fn scalar(value: &Value) -> Option<String> {
    (value.is_string() || value.is_number()).then(|| text(value)).filter(|text| !text.is_empty())
}

/// What says nothing, so that the API server may leave it out or put something in its place.
fn is_unset(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        _ => false,
    }
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
    let is_nested = |value: &Value| value.is_object() || value.is_array();
    if is_unset(declared) || (stored.is_null() && is_empty(declared)) {
        return true;
    }
    if stored.is_null() || is_nested(declared) || is_nested(stored) {
        return false;
    }
    let (declared, stored) = (text(declared), text(stored));
    let duration = |text: &str| Span::new(text).get().ok();
    let time = |text: &str| text.parse::<Timestamp>().ok();
    declared == stored
        || duration(&declared).is_some_and(|it| duration(&stored) == Some(it))
        || time(&declared).is_some_and(|it| time(&stored) == Some(it))
        || quantity(&declared).zip(quantity(&stored)).is_some_and(|(one, other)| are_close(one, other))
}

/// A value as text: `1` for the number and for the text.
fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// Whether two quantities are the same: `0.7` and `700m` are not quite, as floats.
fn are_close(one: f64, other: f64) -> bool {
    (one - other).abs() <= 1e-12 * one.abs().max(other.abs())
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
            (json!({"keys": [{"key": "s3cr3t", "x": 1}]}), json!({"keys": [{"key": "s3cr3t"}]}), "keys[0].x"),
            (json!({"keys": [{"name": {"token": "s3cr3t"}}]}), json!({"keys": [{}]}), "keys[0].name"),
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
        assert_eq!(not_kept(&items(0), &items(20_000)).len(), MOST);
    }

    #[test]
    fn an_object_of_lists_in_lists_takes_no_longer_than_it_is_deep() {
        let nested = |leaf: u8| (0..100).fold(json!(leaf), |inner, _| json!([{"in": inner}]));
        assert_eq!(not_kept(&nested(1), &nested(0)).len(), 1);
    }
}
