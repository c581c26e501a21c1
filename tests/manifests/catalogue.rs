//! What catalogues of charts show of ours (annotations of Artifact Hub) is so.

use serde_json::Value;

use crate::{documents, examples, files, path};

fn chart() -> Value {
    let text = std::fs::read_to_string(path("charts/copyrator/Chart.yaml")).unwrap();
    documents("Chart.yaml", &text).remove(0)
}

/// An annotation whose text is a list in YAML.
fn list(name: &str) -> Vec<Value> {
    let chart = chart();
    let text = chart["annotations"][format!("artifacthub.io/{name}")]
        .as_str()
        .unwrap_or_else(|| panic!("no {name}"));
    documents(name, text).remove(0).as_array().unwrap().clone()
}

#[test]
fn the_image_is_the_one_that_the_chart_installs() {
    let values = std::fs::read_to_string(path("charts/copyrator/values.yaml")).unwrap();
    let image = &documents("values.yaml", &values)[0]["image"];
    let [registry, repository] = ["registry", "repository"].map(|key| image[key].as_str().unwrap());
    let version = chart()["appVersion"].as_str().unwrap().to_owned();
    assert_eq!(version, env!("CARGO_PKG_VERSION"));
    let images: Vec<Value> = list("images").iter().map(|one| one["image"].clone()).collect();
    assert_eq!(images, [format!("{registry}/{repository}:{version}")]);
}

#[test]
fn the_kinds_are_those_of_the_definitions() {
    let facts = |kind: &Value, version: &Value, name: &Value| {
        [kind, version, name].map(|fact| fact.as_str().unwrap().to_owned())
    };
    let mut told: Vec<_> =
        list("crds").iter().map(|one| facts(&one["kind"], &one["version"], &one["name"])).collect();
    told.sort();
    let carried = files("charts/copyrator/files");
    let mut defined: Vec<_> = carried
        .iter()
        .flat_map(|(name, text)| documents(name, text))
        .filter(|object| object["kind"] == "CustomResourceDefinition")
        .map(|one| {
            let spec = &one["spec"];
            facts(&spec["names"]["kind"], &spec["versions"][0]["name"], &one["metadata"]["name"])
        })
        .collect();
    defined.sort();
    assert_eq!(told, defined);
    for one in list("crds") {
        assert!(one["displayName"].is_string() && one["description"].is_string(), "{one}");
    }
}

#[test]
fn there_is_a_sound_example_of_each_kind() {
    let mut kinds: Vec<String> = Vec::new();
    for object in list("crdsExamples") {
        let at = format!("crdsExamples: {}", object["kind"]);
        examples::check(&at, &object).unwrap_or_else(|problems| panic!("{at}: {problems:?}"));
        assert_eq!(object["apiVersion"], "copyrator.dev/v1alpha1", "{at}");
        kinds.push(object["kind"].as_str().unwrap().to_owned());
    }
    kinds.sort();
    let mut defined: Vec<Value> = list("crds").iter().map(|one| one["kind"].clone()).collect();
    defined.sort_by_key(Value::to_string);
    assert_eq!(kinds, defined);
}

#[test]
fn changes_and_links_have_the_form_that_is_read() {
    let kinds = ["added", "changed", "deprecated", "removed", "fixed", "security"];
    let changes = list("changes");
    assert!(!changes.is_empty());
    for change in changes {
        assert!(change["kind"].as_str().is_some_and(|kind| kinds.contains(&kind)), "{change}");
        assert!(change["description"].as_str().is_some_and(|text| !text.is_empty()), "{change}");
    }
    let source = env!("CARGO_PKG_REPOSITORY");
    for link in list("links") {
        let url = link["url"].as_str().unwrap().to_owned();
        let below = url.strip_prefix(source).unwrap_or_else(|| panic!("{url} is elsewhere"));
        if let Some(file) = below.strip_prefix("/blob/main/") {
            assert!(path(file).is_file(), "{url}: there is no {file}");
        }
        assert!(link["name"].is_string(), "{link}");
    }
}
