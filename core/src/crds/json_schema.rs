//! JSON Schemas (draft 7) of our kinds, for editors and linters. The schemas have the rules of the
//! CustomResourceDefinitions, and also refuse unknown fields, so that an editor marks a misspelt field.

use serde_json::{Map, Value, json};

use super::{
    definition,
    manifest_file::{ManifestFile, rendered},
};
use crate::api::{GROUP, VERSION};

const DRAFT: &str = "http://json-schema.org/draft-07/schema#";

/// One file for each kind, and `all.json` for users who want one schema for all kinds.
pub fn json_schemas() -> Vec<ManifestFile> {
    let kinds = kinds();
    let each = kinds.iter().map(|(kind, schema)| {
        let mut schema = schema.clone();
        schema["$schema"] = DRAFT.into();
        file(&kind.to_lowercase(), &schema)
    });
    each.chain([file("all", &bundle(&kinds))]).collect()
}

/// The schema for all kinds of ours, as text.
pub fn json_schema() -> String {
    text(&bundle(&kinds()))
}

fn file(stem: &str, schema: &Value) -> ManifestFile {
    ManifestFile { name: format!("{stem}.json"), text: text(schema) }
}

fn text(schema: &Value) -> String {
    rendered(serde_json::to_string_pretty(schema)) + "\n"
}

/// All kinds of ours, each with its schema.
fn kinds() -> Vec<(String, Value)> {
    let of = |definition: Value| {
        let kind = definition["spec"]["names"]["kind"].as_str().unwrap_or_default().to_owned();
        let mut schema = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"].clone();
        translate(&mut schema);
        let properties = &mut schema["properties"];
        properties["apiVersion"] = json!({ "const": format!("{GROUP}/{VERSION}") });
        properties["kind"] = json!({ "const": kind });
        properties["metadata"] = json!({ "type": "object" });
        // Only Copyrator writes the status, so the schema does not check the fields of the status.
        properties["status"] = json!({ "type": ["object", "null"] });
        schema["required"] = json!(["apiVersion", "kind", "metadata", "spec"]);
        schema["title"] = kind.as_str().into();
        (kind, schema)
    };
    definition::objects().map(of).collect()
}

/// The schema for all kinds, which applies one kind's schema by the object's `kind`.
fn bundle(kinds: &[(String, Value)]) -> Value {
    let names: Vec<&String> = kinds.iter().map(|(kind, _)| kind).collect();
    let definitions: Map<String, Value> = kinds.iter().cloned().collect();
    let choices = kinds.iter().map(|(kind, _)| {
        json!({
            "if": { "properties": { "kind": { "const": kind } } },
            "then": { "$ref": format!("#/definitions/{kind}") },
        })
    });
    json!({
        "$schema": DRAFT,
        "title": "Copyrator",
        "type": "object",
        "required": ["apiVersion", "kind"],
        "properties": { "kind": { "enum": names } },
        "allOf": choices.collect::<Vec<_>>(),
        "definitions": definitions,
    })
}

/// Translates a schema from Kubernetes' OpenAPI to JSON Schema.
fn translate(schema: &mut Value) {
    let Some(fields) = schema.as_object_mut() else { return };
    let is_open = fields.get("x-kubernetes-preserve-unknown-fields") == Some(&Value::Bool(true));
    fields.retain(|key, _| !key.starts_with("x-kubernetes-"));
    // The size of a number in memory is not a format in JSON Schema.
    if fields.get("format").and_then(Value::as_str).is_some_and(|format| format.starts_with("int")) {
        fields.remove("format");
    }
    if fields.remove("nullable") == Some(Value::Bool(true)) {
        if let Some(kind) = fields.get("type").cloned() {
            fields.insert("type".into(), json!([kind, "null"]));
        }
        if let Some(words) = fields.get_mut("enum").and_then(Value::as_array_mut)
            && !words.contains(&Value::Null)
        {
            words.push(Value::Null);
        }
    }
    if let Some(properties) = fields.get_mut("properties").and_then(Value::as_object_mut) {
        properties.values_mut().for_each(translate);
        if !is_open && !fields.contains_key("additionalProperties") {
            fields.insert("additionalProperties".into(), false.into());
        }
    }
    for below in ["items", "additionalProperties"] {
        fields.get_mut(below).into_iter().for_each(translate);
    }
}
