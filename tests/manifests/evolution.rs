//! The kinds of a version take every object of the version before, and mean by it what that one meant.

use std::{collections::BTreeSet, process::Command};

use copyrator::crds;
use serde_json::{Value, json};

use crate::{documents, path};

/// What `tests/previous/definitions.sh` says by this exit code is not there.
const LACKS_HISTORY: i32 = 3;

/// Objects of the earlier version are read by this one, and while an upgrade or a rollback is under way the earlier one
/// reads objects through the definitions of this one. So a definition only gains: nothing goes or gets narrower, what is new
/// is optional, and has no default, which the API server would write into objects that the other build then does not
/// understand (docs/decisions/tests.md).
#[test]
fn definitions_only_gain() {
    let file = "tests/previous/definitions.yaml";
    let text = std::fs::read_to_string(path(file)).expect(file);
    let before = documents(file, &text);
    assert_eq!(before.len(), 3, "{file} does not have our three kinds");
    let now = crds::manifests();
    for old in before {
        let name = old["metadata"]["name"].as_str().expect("a name");
        let new = now.iter().find(|one| one["metadata"]["name"] == name).expect(name);
        assert_eq!(losses(&old, new), [""; 0], "{name}");
    }
}

/// Both files are renewed after a release, and one without the other would hold us to a version that nobody comes from.
#[test]
fn the_definitions_before_are_those_of_the_pinned_commit() {
    let said = Command::new(path("tests/previous/definitions.sh")).output().expect("the script starts");
    let error = String::from_utf8_lossy(&said.stderr);
    if said.status.code() == Some(LACKS_HISTORY) {
        println!("SKIPPED the definitions of the version before: {error}");
        return;
    }
    assert!(said.status.success(), "{error}");
    let file = "tests/previous/definitions.yaml";
    let kept = std::fs::read(path(file)).expect(file);
    assert!(kept == said.stdout, "{file} is of another commit: tests/previous/definitions.sh >{file}");
}

#[test]
fn what_is_lost_or_asked_for_is_found() {
    let definition = |version: Value| json!({ "spec": { "scope": "Cluster", "versions": [version] } });
    let schema = |properties: Value| {
        let spec = json!({ "type": "object", "properties": properties });
        let whole = json!({ "type": "object", "properties": { "spec": spec } });
        definition(
            json!({ "name": "v1", "served": true, "storage": true, "schema": { "openAPIV3Schema": whole } }),
        )
    };
    let old = schema(json!({ "a": { "type": "string", "maxLength": 9, "enum": ["x", "y"] } }));
    for (new, expected) in [
        (json!({ "a": { "type": "string", "maxLength": 9, "enum": ["x", "y", "z"] } }), ""),
        (json!({ "a": { "type": "string", "enum": ["x", "y"] }, "b": { "type": "string" } }), ""),
        (json!({ "a": { "type": "string", "minLength": 1, "maxLength": 9 } }), ""),
        (json!({ "a": { "type": "string", "minLength": 2 } }), ".spec.a.minLength is new"),
        (json!({}), ".spec.a is gone"),
        (
            json!({ "a": { "type": "integer", "enum": ["x", "y"] } }),
            ".spec.a.type was \"string\", is \"integer\"",
        ),
        (json!({ "a": { "type": "string", "enum": ["x"] } }), ".spec.a.enum lacks \"y\""),
        (
            json!({ "a": { "type": "string", "maxLength": 8, "enum": ["x", "y"] } }),
            ".spec.a.maxLength is narrower",
        ),
        (json!({ "a": { "type": "string", "minLength": 1, "enum": ["x", "y"] } }), ""),
        (
            json!({ "a": { "type": "string", "enum": ["x", "y"] }, "b": { "type": "string", "default": "x" } }),
            ".spec.b is new and has a default",
        ),
    ] {
        assert_eq!(losses(&old, &schema(new.clone())).join("; "), expected, "{new}");
    }
    let mut demanding = old.clone();
    demanding["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["required"] = json!(["spec"]);
    assert_eq!(losses(&old, &demanding), [" requires \"spec\""]);
    let mut other = old.clone();
    other["spec"]["versions"][0]["name"] = "v2".into();
    assert_eq!(losses(&old, &other), ["v1 is gone"]);
}

/// What objects of the old definition would miss under the new one.
fn losses(old: &Value, new: &Value) -> Vec<String> {
    let mut found = Vec::new();
    for part in ["group", "names", "scope"] {
        if old["spec"][part] != new["spec"][part] {
            found.push(format!("{part} has changed"));
        }
    }
    for version in list(&old["spec"]["versions"]) {
        let same = |one: &&Value| one["name"] == version["name"];
        let Some(now) = list(&new["spec"]["versions"]).iter().find(same) else {
            found.push(format!("{} is gone", version["name"].as_str().unwrap_or_default()));
            continue;
        };
        if (&version["served"], &version["storage"]) != (&now["served"], &now["storage"]) {
            found.push("what is served and stored has changed".into());
        }
        let schema = |version: &Value| version["schema"]["openAPIV3Schema"].clone();
        compare("", &schema(version), &schema(now), &mut found);
    }
    found
}

fn compare(at: &str, old: &Value, new: &Value, found: &mut Vec<String>) {
    for key in ["type", "format", "pattern", "nullable", "default", "x-kubernetes-preserve-unknown-fields"] {
        // An earlier version of ours knows what the default of a status says: nobody has looked at the object yet.
        let is_of_status = (at, key, &old[key]) == (".status", "default", &Value::Null);
        if old[key] != new[key] && !is_of_status {
            found.push(format!("{at}.{key} was {}, is {}", old[key], new[key]));
        }
    }
    let listed = list(&old["enum"]);
    // Without a list every value is taken that the bounds take.
    let takes = |value: &Value| new["enum"].is_null() || list(&new["enum"]).contains(value);
    let is_within = |sign: f64, bound: f64| {
        let length = |value: &Value| value.as_str().map_or(f64::NAN, |text| text.len() as f64);
        !listed.is_empty() && listed.iter().all(|value| sign * length(value) <= sign * bound)
    };
    for value in listed.iter().filter(|value| !takes(value)) {
        found.push(format!("{at}.enum lacks {value}"));
    }
    for (key, sign) in [
        ("maxLength", 1.0),
        ("maxItems", 1.0),
        ("maxProperties", 1.0),
        ("maximum", 1.0),
        ("minLength", -1.0),
        ("minItems", -1.0),
        ("minimum", -1.0),
    ] {
        match (old[key].as_f64(), new[key].as_f64()) {
            (None, Some(now)) if key.ends_with("Length") && is_within(sign, now) => {}
            (None, Some(_)) => found.push(format!("{at}.{key} is new")),
            (Some(before), Some(now)) if sign * now < sign * before => {
                found.push(format!("{at}.{key} is narrower"));
            }
            _ => {}
        }
    }
    for value in list(&new["required"]).iter().filter(|value| !list(&old["required"]).contains(value)) {
        found.push(format!("{at} requires {value}"));
    }
    for (name, schema) in old["properties"].as_object().into_iter().flatten() {
        let path = format!("{at}.{name}");
        match new["properties"].get(name) {
            None => found.push(format!("{path} is gone")),
            Some(now) => compare(&path, schema, now, found),
        }
    }
    let added: BTreeSet<&String> = new["properties"]
        .as_object()
        .into_iter()
        .flatten()
        .filter(|(name, _)| old["properties"].get(name.as_str()).is_none())
        .map(|(name, schema)| {
            if schema.get("default").is_some() {
                found.push(format!("{at}.{name} is new and has a default"));
            }
            name
        })
        .collect();
    rules(at, old, new, &added, found);
    for inner in ["items", "additionalProperties"] {
        if old[inner].is_object() {
            compare(&format!("{at}.{inner}"), &old[inner], &new[inner], found);
        }
    }
}

/// A new rule of the schema is about what is new, which objects of the earlier version lack.
fn rules(at: &str, old: &Value, new: &Value, added: &BTreeSet<&String>, found: &mut Vec<String>) {
    let of = |schema: &Value| -> BTreeSet<String> {
        let rules = list(&schema["x-kubernetes-validations"]).iter();
        rules.filter_map(|rule| rule["rule"].as_str().map(str::to_owned)).collect()
    };
    for rule in of(new).difference(&of(old)) {
        if !added.iter().any(|name| rule.contains(&format!("!has(self.{name})"))) {
            found.push(format!("{at} has the rule {rule:?}, of nothing that is new"));
        }
    }
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}
