//! JSON Schemas for editors: what is checked in is what the code says, and they know a mistake when they see one.

use std::{collections::BTreeMap, env, fs};

use copyrator::crds::json_schemas;
use jsonschema::Validator;
use serde_json::{Value, json};

use crate::{documents, files, path};

const CARRIED: &str = "docs/schemas";

#[test]
fn the_schemas_in_the_documents_are_what_the_code_says() {
    for file in json_schemas() {
        let path = path(CARRIED).join(&file.name);
        if env::var_os("COPYRATOR_BLESS").is_some() {
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, &file.text).unwrap();
        }
        let carried = fs::read_to_string(&path).unwrap_or_default();
        assert!(
            carried == file.text,
            "{CARRIED}/{} is stale: COPYRATOR_BLESS=1 cargo test --test manifests",
            file.name
        );
    }
}

/// By file name.
fn validators() -> BTreeMap<String, Validator> {
    let of = |file: copyrator::crds::ManifestFile| {
        let schema: Value = serde_json::from_str(&file.text).expect("a schema is JSON");
        let validator = jsonschema::validator_for(&schema);
        (file.name, validator.expect("a schema that a validator takes"))
    };
    json_schemas().into_iter().map(of).collect()
}

/// Editors look at the first line of a document that says so, document by document.
#[test]
fn every_example_names_its_schema_and_follows_it() {
    let validators = validators();
    let mut ours = 0;
    for (name, text) in files("examples").into_iter().filter(|(name, _)| name.ends_with(".yaml")) {
        for part in text.split("\n---\n") {
            let [object] =
                documents(&name, part).try_into().unwrap_or_else(|_| panic!("{name}: one document"));
            let object: Value = object;
            if object["apiVersion"] != "copyrator.dev/v1alpha1" {
                continue;
            }
            let kind = object["kind"].as_str().unwrap().to_lowercase();
            let line = format!("# yaml-language-server: $schema=../docs/schemas/{kind}.json\napiVersion: ");
            assert!(part.contains(&line), "examples/{name}: {kind} lacks the line {line}");
            for schema in [format!("{kind}.json"), "all.json".to_owned()] {
                let wrong: Vec<String> =
                    validators[&schema].iter_errors(&object).map(|error| error.to_string()).collect();
                assert!(wrong.is_empty(), "examples/{name}: {schema}: {wrong:?}");
            }
            ours += 1;
        }
    }
    assert!(ours >= 10, "only {ours} objects of ours were found");
}

#[test]
fn what_is_misspelt_or_of_another_type_does_not_follow_it() {
    let validators = validators();
    let rule = json!({
        "apiVersion": "copyrator.dev/v1alpha1", "kind": "CopyratorRule", "metadata": { "name": "a" },
        "spec": { "source": { "kind": "Secret", "names": ["a"] }, "targets": [{ "names": ["b"] }] },
    });
    for (schema, change, is_fine) in [
        ("copyratorrule.json", json!({}), true),
        ("all.json", json!({}), true),
        ("copyratorrule.json", json!({ "spec": { "suspended": true } }), false),
        ("all.json", json!({ "spec": { "suspended": true } }), false),
        ("copyratorrule.json", json!({ "spec": { "source": { "kind": 1 } } }), false),
        ("copyratorrule.json", json!({ "spec": { "targets": "b" } }), false),
        ("copyratorrule.json", json!({ "spec": null }), false),
        ("configmonitor.json", json!({}), false),
        ("all.json", json!({ "kind": "Deployment" }), false),
    ] {
        let mut object = rule.clone();
        json_patch::merge(&mut object, &change);
        assert_eq!(validators[schema].is_valid(&object), is_fine, "{schema}: {change}");
    }
}
