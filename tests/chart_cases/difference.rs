//! What two renderings differ in, as text that people read.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

/// Longer values are told by their length.
const LONG: usize = 160;

/// An object's kind and name, and its namespace where that is not the release's.
pub fn name(object: &Value) -> String {
    let name = object["metadata"]["name"].as_str().unwrap_or_default();
    let elsewhere = object["metadata"]["namespace"].as_str().filter(|it| *it != "copyrator-system");
    let place = elsewhere.map(|namespace| format!("{namespace}/")).unwrap_or_default();
    format!("{} {place}{name}", object["kind"].as_str().unwrap_or_default())
}

/// The objects' kinds and names, a line each.
pub fn names(objects: &[Value]) -> String {
    let mut names: Vec<String> = objects.iter().map(name).collect();
    names.sort();
    names.join("\n")
}

/// Objects that are gone, new and changed. What changes in several in the same way is told once.
pub fn difference(before: &[Value], after: &[Value]) -> String {
    let by_name = |objects: &[Value]| -> BTreeMap<String, Value> {
        let named: BTreeMap<String, Value> = objects.iter().map(|one| (name(one), one.clone())).collect();
        assert_eq!(named.len(), objects.len(), "two objects have one name: {}", names(objects));
        named
    };
    let (before, after) = (by_name(before), by_name(after));
    let mut text: Vec<String> = Vec::new();
    text.extend(before.keys().filter(|name| !after.contains_key(*name)).map(|name| format!("- {name}")));
    for (name, object) in after.iter().filter(|(name, _)| !before.contains_key(*name)) {
        text.push(format!("+ {name}"));
        let mut lines = Vec::new();
        leaves("", object, &mut lines);
        let is_own =
            |line: &&String| !["kind:", "apiVersion:", "metadata."].iter().any(|it| line.starts_with(it));
        let is_told = |line: &&String| {
            line.starts_with("metadata.annotations")
                || line.starts_with("metadata.labels.")
                    && !line.contains("app.kubernetes.io")
                    && !line.contains("helm.sh")
        };
        text.extend(
            lines.iter().filter(|line| is_own(line) || is_told(line)).map(|line| format!("    {line}")),
        );
    }
    let mut changes: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for (name, old) in &before {
        let Some(new) = after.get(name) else { continue };
        let mut lines = Vec::new();
        compare("", old, new, &mut lines);
        if !lines.is_empty() {
            changes.entry(lines.join("\n")).or_default().push(name);
        }
    }
    let mut changes: Vec<(Vec<&str>, String)> =
        changes.into_iter().map(|(lines, names)| (names, lines)).collect();
    changes.sort();
    for (names, lines) in changes {
        text.push(format!("~ {}", names.join(", ")));
        text.extend(lines.lines().map(|line| format!("    {line}")));
    }
    text.join("\n")
}

/// `PATH: VALUE` for all that has no parts.
fn leaves(path: &str, value: &Value, lines: &mut Vec<String>) {
    match parts(value) {
        Some(parts) if !parts.is_empty() => {
            parts.iter().for_each(|(key, part)| leaves(&joined(path, key), part, lines));
        }
        _ => lines.push(format!("{path}: {}", short(value))),
    }
}

fn compare(path: &str, old: &Value, new: &Value, lines: &mut Vec<String>) {
    if old == new {
        return;
    }
    if let (Some(old), Some(new)) = (words(old), words(new)) {
        lines.extend(
            old.iter().filter(|one| !new.contains(one)).map(|one| format!("{path} - {}", short(one))),
        );
        lines.extend(
            new.iter().filter(|one| !old.contains(one)).map(|one| format!("{path} + {}", short(one))),
        );
        return;
    }
    let (Some(old_parts), Some(new_parts)) = (parts(old), parts(new)) else {
        lines.push(format!("{path}: {} -> {}", short(old), short(new)));
        return;
    };
    let keys: BTreeSet<&String> = old_parts.keys().chain(new_parts.keys()).collect();
    for key in keys {
        let path = joined(path, key);
        match (old_parts.get(key), new_parts.get(key)) {
            (Some(old), Some(new)) => compare(&path, old, new, lines),
            (Some(old), None) => lines.push(format!("{path} - {}", short(old))),
            (None, Some(new)) => lines.push(format!("{path} + {}", short(new))),
            (None, None) => {}
        }
    }
}

/// The parts of a map or a list; those of a list by their names, where they have some, else by their places.
fn parts(value: &Value) -> Option<BTreeMap<String, Value>> {
    match value {
        Value::Object(map) => Some(map.iter().map(|(key, value)| (key.clone(), value.clone())).collect()),
        Value::Array(list) => {
            let key = |(place, one): (usize, &Value)| {
                let name = ["name", "alert"].iter().find_map(|key| one[*key].as_str());
                (name.map_or_else(|| place.to_string(), str::to_owned), one.clone())
            };
            Some(list.iter().enumerate().map(key).collect())
        }
        _ => None,
    }
}

/// A list of texts, such as arguments, whose places say nothing.
fn words(value: &Value) -> Option<&Vec<Value>> {
    value.as_array().filter(|list| !list.is_empty() && list.iter().all(Value::is_string))
}

fn joined(path: &str, key: &str) -> String {
    if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") }
}

fn short(value: &Value) -> String {
    let text = value.to_string();
    if text.len() > LONG { format!("({} bytes)", text.len()) } else { text }
}
