//! The definitions: described, bounded, small, and the same bytes each time.

use copyrator::crds;
use serde_json::{Value, json};

use crate::documents;

/// Where client-side apply gives up, which keeps the whole object in an annotation (ESO#5205).
const LARGEST: usize = 262_144;

fn schemas() -> Vec<(String, Value)> {
    let objects = crds::manifests();
    let definitions = objects.into_iter().filter(|object| object["kind"] == "CustomResourceDefinition");
    definitions
        .map(|object| {
            let name = object["metadata"]["name"].as_str().unwrap().to_owned();
            (name, object["spec"]["versions"][0].clone())
        })
        .collect()
}

/// Calls `visit` with the path and schema of everything below a schema.
fn walk(path: &str, schema: &Value, visit: &mut dyn FnMut(&str, &Value)) {
    visit(path, schema);
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        walk(&format!("{path}.{name}"), property, visit);
    }
    if schema["items"].is_object() {
        walk(&format!("{path}[]"), &schema["items"], visit);
    }
}

#[test]
fn printing_is_stable_and_loses_nothing() {
    let text = crds::yaml(None, &[]);
    assert_eq!(text, crds::yaml(None, &[]));
    let bare = |objects: Vec<Value>| {
        let name = |object: &Value| format!("{}/{}", object["kind"], object["metadata"]["name"]);
        objects.iter().map(name).collect::<Vec<_>>()
    };
    let read = documents("yaml", &text);
    assert_eq!(bare(read.clone()), bare(crds::manifests()));
    assert_eq!(read, crds::manifests());
}

#[test]
fn every_field_is_described() {
    for (name, version) in schemas() {
        walk(&name, &version["schema"]["openAPIV3Schema"], &mut |path, schema| {
            let described = schema["description"].as_str().is_some_and(|text| !text.is_empty());
            assert!(described || path.ends_with("[]"), "{path} has no description");
        });
    }
}

#[test]
fn every_list_and_map_of_a_spec_is_bounded() {
    for (name, version) in schemas() {
        walk(&name, &version["schema"]["openAPIV3Schema"]["properties"]["spec"], &mut |path, schema| {
            assert!(schema["type"] != "array" || schema["maxItems"].is_i64(), "{path} has no maxItems");
            let map = schema["additionalProperties"].is_object();
            assert!(!map || schema["maxProperties"].is_i64(), "{path} has no maxProperties");
        });
    }
}

/// `kubectl wait`, Flux and Argo CD take an object for current whose status speaks of its generation, or has no `observedGeneration`.
#[test]
fn an_object_that_nobody_has_looked_at_yet_says_so() {
    for (name, version) in schemas() {
        let status = &version["schema"]["openAPIV3Schema"]["properties"]["status"];
        assert_eq!(status["default"], json!({ "observedGeneration": -1 }), "{name}");
    }
}

#[test]
fn definitions_are_small_and_cannot_be_scaled() {
    for (name, version) in schemas() {
        assert!(version.to_string().len() < LARGEST / 2, "{name} is too large");
        // A write through /scale changes the spec and passes by the author's stamp.
        assert_eq!(
            version["subresources"].as_object().unwrap().keys().collect::<Vec<_>>(),
            ["status"],
            "{name}"
        );
    }
}
