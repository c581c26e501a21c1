//! Every example is what our types read, wholly, and compiles.

use std::{collections::BTreeSet, fs};

use copyrator::{
    api::{ConfigMonitor, ConfigPolicy, CopyratorRule, CopyratorTemplate, Problem},
    names::{GrantedKinds, TemplateKind},
    validate::{
        CompiledMonitor, CompiledPolicy, CompiledRule, CompiledTemplate, Instance, Rendering, unserved,
    },
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;

use crate::{documents, files, path};

/// Reads an object and makes sure that none of its fields was skipped.
fn read<T: DeserializeOwned + Serialize>(at: &str, object: &Value) -> T {
    let read: T = serde_json::from_value(object.clone()).unwrap_or_else(|error| panic!("{at}: {error}"));
    let written = serde_json::to_value(&read).unwrap();
    kept(at, &object["spec"], &written["spec"]);
    read
}

/// Every field of `before` is also in `after`, unless it is empty.
fn kept(at: &str, before: &Value, after: &Value) {
    match (before, after) {
        (Value::Object(before), Value::Object(after)) => {
            for (key, value) in before {
                let at = format!("{at}.{key}");
                match after.get(key) {
                    Some(after) => kept(&at, value, after),
                    None => assert!(
                        value == &serde_json::json!([]) || value == &serde_json::json!({}),
                        "{at} is lost"
                    ),
                }
            }
        }
        (Value::Array(before), Value::Array(after)) => {
            assert_eq!(before.len(), after.len(), "{at}");
            before.iter().zip(after).for_each(|(before, after)| kept(at, before, after));
        }
        _ => assert_eq!(before, after, "{at}"),
    }
}

/// What the page about copies grants.
fn granted() -> BTreeSet<TemplateKind> {
    TemplateKind::read_all(["cert-manager.io/v1/Issuer/issuers/render+copy"], &GrantedKinds::default())
        .unwrap()
}

/// What is wrong with an object of ours; it panics where that is not even read.
pub(crate) fn check(at: &str, object: &Value) -> Result<(), Vec<Problem>> {
    match object["kind"].as_str().unwrap() {
        "CopyratorRule" => {
            CompiledRule::compile(&read::<CopyratorRule>(at, object).spec, &granted()).map(drop)
        }
        "ConfigMonitor" => CompiledMonitor::compile(&read::<ConfigMonitor>(at, object).spec).map(drop),
        "ConfigPolicy" => CompiledPolicy::compile(&read::<ConfigPolicy>(at, object).spec).map(drop),
        "CopyratorTemplate" => {
            let template = CompiledTemplate::compile(&read::<CopyratorTemplate>(at, object).spec)?;
            let unserved = unserved(&template);
            if unserved.is_empty() { Ok(()) } else { Err(unserved) }
        }
        _ => Ok(()),
    }
}

#[test]
fn every_example_is_understood() {
    let mut ours = 0;
    for (name, text) in files("examples").into_iter().filter(|(name, _)| name.ends_with(".yaml")) {
        assert!(text.starts_with("# "), "{name} does not say what it shows");
        for object in documents(&name, &text) {
            let at = format!("{name}: {}/{}", object["kind"], object["metadata"]["name"]);
            check(&at, &object).unwrap_or_else(|problems| panic!("{at}: {problems:?}"));
            ours += usize::from(object["apiVersion"] == "copyrator.dev/v1alpha1");
        }
    }
    assert!(ours >= 10, "only {ours} objects of ours were found");
}

/// An example that says "Every field" has every field.
#[test]
fn an_example_with_every_field_lacks_none() {
    let mut kinds = 0;
    for definition in files("charts/copyrator/files").iter().flat_map(|(_, text)| definition(text)) {
        let kind = &definition["spec"]["names"]["kind"];
        let schema = &definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
        let fields = schema["properties"]["spec"]["properties"].as_object().unwrap();
        for (name, text) in files("examples").iter().filter(|(_, text)| text.starts_with("# Every field of"))
        {
            for object in documents(name, text).iter().filter(|object| object["kind"] == *kind) {
                let spec = object["spec"].as_object().unwrap();
                let lacking: Vec<&String> =
                    fields.keys().filter(|field| !spec.contains_key(*field)).collect();
                assert!(lacking.is_empty(), "examples/{name} lacks {lacking:?}");
                kinds += 1;
            }
        }
    }
    assert_eq!(kinds, 3);
}

/// A definition, if that is one.
fn definition(text: &str) -> Option<Value> {
    let is_one = text.contains("kind: CustomResourceDefinition");
    is_one.then(|| documents("a definition", text).remove(0))
}

/// What a reader pastes from the pages about the kinds works too.
#[test]
fn every_object_on_the_pages_about_kinds_is_understood() {
    for page in ["README.md", "docs/copying.md", "docs/restarting.md", "docs/policies.md"] {
        let text = fs::read_to_string(path(page)).unwrap();
        let blocks = text.split("\n```yaml").skip(1).filter_map(|rest| rest.split_once('\n'));
        let blocks =
            blocks.filter(|(after, _)| after.is_empty()).filter_map(|(_, rest)| rest.split("```").next());
        let objects: Vec<Value> = blocks.flat_map(|block| documents(page, block)).collect();
        for object in &objects {
            let at = format!("{page}: {}/{}", object["kind"], object["metadata"]["name"]);
            check(&at, object).unwrap_or_else(|problems| panic!("{at}: {problems:?}"));
        }
        let least = if page == "README.md" { 3 } else { 1 };
        assert!(objects.len() >= least, "{page}: only {} objects were found", objects.len());
    }
}

/// Their definitions allow an object without `spec`, and an operator in Python gives it its defaults.
#[test]
fn examples_of_operators_render_an_object_without_a_spec() {
    for (file, replicas) in [("memcached.yaml", 1), ("nginx-server.yaml", 1)] {
        let text = fs::read_to_string(path("examples").join(file)).unwrap();
        let all = documents(file, &text);
        let template = all.iter().find(|object| object["kind"] == "CopyratorTemplate").unwrap();
        let compiled = CompiledTemplate::compile(&read::<CopyratorTemplate>(file, template).spec).unwrap();
        let namespace = serde_json::json!({"metadata": {"name": "web"}});
        let plain = serde_json::json!({"metadata": {"name": "plain", "namespace": "web"}});
        let instance = Instance { namespace: Some(&namespace), object: Some(&plain), ..Instance::default() };
        let deploy = compiled.objects.iter().find(|object| object.id == "deploy").unwrap();
        let Ok(Rendering::Object(made)) = compiled.render(deploy, &instance) else { panic!("{file}") };
        assert_eq!(made.body["spec"]["replicas"], replicas, "{file}");
    }
}
