//! The OpenAPI 3.1 document, made from the table of operations and the types of their answers.

use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

use super::operation::{Form, Operation, ROOT, Verb};
use crate::site::Site;

/// The meaning of each parameter.
const PARAMETERS: [(&str, &str); 9] = [
    (
        "namespaces",
        "The namespaces to read, separated by commas; default: those of --namespaces, or else all that you may read",
    ),
    ("namespace", "Only rows of this namespace"),
    ("rule", "Only this rule, as namespace/name"),
    ("state", "Only rows with this state"),
    ("policy", "Only violations of this policy"),
    ("limit", "Maximum number of rows, 1 to 500; default: 100"),
    ("continue", "The value continue of the previous page"),
    (
        "after",
        "The id of the last event of an earlier stream: the new stream begins after this event; the header Last-Event-ID does the same",
    ),
    ("dryRun", "All: the API server checks the object but does not store it"),
];

/// Pattern of a namespace's name.
const LABEL: &str = "[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?";

/// The apiVersion of templates.
const TEMPLATES: &str = "copyrator.dev/v1alpha1";

/// The OpenAPI document of these operations, as JSON.
pub(super) fn document(operations: &[Operation], site: &Site) -> Value {
    let settings = SchemaSettings::draft2020_12().for_serialize().with(|settings| {
        settings.definitions_path = "/components/schemas".into();
    });
    let mut generator = settings.into_generator();
    let mut paths: Map<String, Value> = Map::new();
    for operation in operations {
        let schema = Value::from((operation.schema)(&mut generator));
        let path = paths.entry(format!("{ROOT}{}", operation.path)).or_insert_with(|| json!({}));
        path[operation.verb.word()] = described(operation, schema);
    }
    let mut schemas = generator.take_definitions(true);
    schemas.insert("Status".into(), status());
    json!({
        "openapi": "3.1.0",
        "info": { "title": "Copyrator console", "version": env!("CARGO_PKG_VERSION"),
            "description": "The output of the commands with -o json, with your own rights. Only templates can be written." },
        "servers": [{ "url": site.base.at("/") }],
        "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": {
                "bearer": { "type": "http", "scheme": "bearer", "description": site.session.bearer() },
                "cookie": { "type": "apiKey", "in": "cookie", "name": site.session.cookie() },
            },
        },
        "security": [{ "bearer": [] }, { "cookie": [] }],
    })
}

fn described(operation: &Operation, schema: Value) -> Value {
    let in_path = operation.path.split(['{', '}']).skip(1).step_by(2).map(|name| parameter(name, "path"));
    let in_path = in_path.map(|parameter| of_template(operation.path, parameter));
    let parameters = in_path.chain(operation.parameters.iter().map(|name| parameter(name, "query")));
    let problem = json!({ "description": "A Kubernetes Status", "content": content(json!({ "$ref": "#/components/schemas/Status" })) });
    let id = operation.path.trim_matches('/').replace(['/', '-'], "_").replace(['{', '}'], "");
    let mut all = json!({
        "operationId": format!("{}_{id}", operation.verb.word()),
        "summary": operation.summary,
        "parameters": parameters.collect::<Vec<_>>(),
        "responses": {
            "200": { "description": "The answer", "content": answered(operation.form, schema) },
            "default": problem,
        },
    });
    if matches!(operation.verb, Verb::Put | Verb::Delete) {
        // A session cookie does not authorize writes.
        all["security"] = json!([{ "bearer": [] }]);
        let version = "The expected resourceVersion, from ETag; if the template has another one: 409";
        if let Some(parameters) = all["parameters"].as_array_mut() {
            parameters
                .push(json!({ "name": "If-Match", "in": "header", "required": false, "description": version,
                "schema": { "type": "string", "pattern": "^\"?[0-9]+\"?$" } }));
        }
    }
    if matches!(operation.form, Form::Events)
        && let Some(parameters) = all["parameters"].as_array_mut()
    {
        parameters.push(json!({ "name": "Last-Event-ID", "in": "header", "required": false,
            "description": "The id of the last event that the client received", "schema": { "type": "string" } }));
    }
    if operation.verb == Verb::Put {
        all["responses"]["201"] = all["responses"]["200"].clone();
    }
    if operation.verb.has_body() {
        let description = match operation.verb {
            Verb::Put => "The template; apiVersion, kind, name and namespace are optional",
            _ => "A manifest or a List; YAML may have several documents",
        };
        let manifest = json!({ "type": "object", "description": description });
        all["requestBody"] = json!({ "required": true, "content": {
            "application/json": { "schema": manifest }, "application/yaml": { "schema": manifest } } });
    }
    all
}

fn parameter(name: &str, place: &str) -> Value {
    let meaning = PARAMETERS
        .iter()
        .find(|(known, _)| *known == name && place == "query")
        .map_or(name, |(_, meaning)| meaning);
    let schema = match name {
        "limit" => json!({ "type": "integer", "minimum": 1, "maximum": 500 }),
        // An empty value, as an empty form sends it, means all namespaces. Extra commas and spaces are
        // allowed.
        "namespaces" => {
            json!({ "type": "string", "pattern": format!("^[, ]*({LABEL}([, ]+{LABEL}){{0,49}}[, ]*)?$") })
        }
        "namespace" if place == "path" => json!({ "type": "string", "pattern": format!("^{LABEL}$") }),
        "name" => json!({ "type": "string", "pattern": "^[a-z0-9.:-]+$" }),
        // The kind is written as in kubectl: in any case, as a plural or short name, or with a group. Which
        // kinds are known depends on the cluster.
        "kind" => json!({ "type": "string", "pattern": "^[A-Za-z][A-Za-z0-9.-]*$" }),
        "dryRun" => json!({ "const": "All" }),
        _ => json!({ "type": "string" }),
    };
    json!({ "name": name, "in": place, "required": place == "path", "description": meaning, "schema": schema })
}

/// Narrows the pattern of a template's name, which has no colon.
fn of_template(path: &str, mut parameter: Value) -> Value {
    if path.contains("/templates/") && parameter["name"] == "name" {
        parameter["schema"]["pattern"] = json!("^[a-z0-9-]+([.][a-z0-9-]+)*$");
    }
    parameter
}

fn content(schema: Value) -> Value {
    json!({ "application/json": { "schema": schema } })
}

fn answered(form: Form, schema: Value) -> Value {
    if !matches!(form, Form::Events) {
        return content(wrapped(form, schema));
    }
    let description = "The data of each message follows contentSchema. An event `problem` contains a Status; an event `reset` means that \
     the server no longer knows the given id: connect again without an id";
    json!({ "text/event-stream": { "schema": { "type": "string", "description": description,
        "contentMediaType": "application/json", "contentSchema": schema } } })
}

/// Adds the fields that every answer of this form has.
fn wrapped(form: Form, schema: Value) -> Value {
    let of = |version: &str, kind: &str| {
        json!({ "type": "object", "required": ["apiVersion", "kind"],
            "properties": { "apiVersion": { "const": version }, "kind": { "const": kind } } })
    };
    match form {
        Form::Document(kind) => {
            json!({ "allOf": [of(copyrator_cli::arguments::output::API_VERSION, kind), schema] })
        }
        Form::Template => of(TEMPLATES, "CopyratorTemplate"),
        Form::Events | Form::Deleted => json!({ "type": "object", "required": ["apiVersion", "kind"] }),
        Form::List => {
            let mut list = of("v1", "List");
            list["properties"]["items"] = json!({ "type": "array", "items": { "type": "object" } });
            list
        }
    }
}

fn status() -> Value {
    json!({ "type": "object", "description": "A Kubernetes Status", "required": ["kind", "apiVersion", "message", "code"], "properties": {
        "kind": { "const": "Status" }, "apiVersion": { "const": "v1" }, "status": { "type": "string" }, "message": { "type": "string" },
        "reason": { "type": "string" }, "code": { "type": "integer" }, "details": { "type": "object" } } })
}
