use serde_json::json;

use super::*;
use crate::api::CopyratorTemplateSpec;

/// What a server of Kubernetes 1.36 says of these, without descriptions and most fields; and of a custom resource.
fn components() -> BTreeMap<String, String> {
    let reference =
        |of: &str| json!({"allOf": [{"$ref": format!("#/components/schemas/{of}")}], "default": {}});
    let texts = json!({"type": "object", "additionalProperties": {"type": "string", "default": ""}});
    let apps = json!({"schemas": {
        "Deployment": {"type": "object", "properties": {
            "apiVersion": {"type": "string"}, "kind": {"type": "string"}, "metadata": reference("ObjectMeta"), "spec": reference("Spec")},
            "x-kubernetes-group-version-kind": [{"group": "apps", "version": "v1", "kind": "Deployment"}]},
        "Spec": {"type": "object", "required": ["selector", "template"], "properties": {
            "replicas": {"type": "integer", "format": "int32"}, "paused": {"type": "boolean"}, "template": reference("PodTemplate"),
            "selector": {"type": "object", "properties": {"matchLabels": texts}},
            "strategy": {"type": "object", "properties": {"type": {"type": "string", "enum": ["Recreate", "RollingUpdate"]},
                "maxSurge": {"$ref": "#/components/schemas/IntOrString"}}}}},
        "PodTemplate": {"type": "object", "properties": {"metadata": reference("ObjectMeta"), "spec": reference("PodSpec")}},
        "PodSpec": {"type": "object", "properties": {"containers": {"type": "array", "items": reference("Container")}}},
        "Container": {"type": "object", "properties": {"name": {"type": "string"}, "image": {"type": "string"},
            "ports": {"type": "array", "items": {"type": "object", "properties": {"containerPort": {"type": "integer"}}}},
            "resources": {"type": "object", "properties": {"limits": {"type": "object",
                "additionalProperties": {"$ref": "#/components/schemas/Quantity"}}}}}},
        "ObjectMeta": {"type": "object", "properties": {"labels": texts, "creationTimestamp": {"type": "string", "format": "date-time"}}},
        "Quantity": {"oneOf": [{"type": "string"}, {"type": "number"}]},
        "IntOrString": {"format": "int-or-string", "oneOf": [{"type": "integer"}, {"type": "string"}]},
    }});
    let widget = json!({"schemas": {"Widget": {"type": "object", "properties": {
        "spec": {"type": "object", "properties": {"size": {"type": "integer"}, "any": {"x-kubernetes-preserve-unknown-fields": true},
            "open": {"type": "object", "properties": {"a": {"type": "string"}}, "x-kubernetes-preserve-unknown-fields": true},
            "port": {"x-kubernetes-int-or-string": true}, "share": {"type": "number"}, "raw": {"type": "object"},
            "pod": {"type": "object", "x-kubernetes-embedded-resource": true, "properties": {"spec": {"type": "object", "properties": {"a": {"type": "string"}}}}},
            "choice": {"anyOf": [{"required": ["a"]}, {"required": ["b"]}], "type": "object", "properties": {"a": {"type": "string"}}},
            "elsewhere": {"$ref": "https://example.com/schema"}, "circle": {"$ref": "#/components/schemas/Circle"},
            "none": {"type": "string", "nullable": true}}},
        "status": {"type": "object", "properties": {"nodes": {"type": "array", "items": {"type": "string"}}, "ready": {"type": "integer"}}}},
        "x-kubernetes-group-version-kind": [{"group": "a.example.com", "version": "v1", "kind": "Widget"}]},
        "Circle": {"allOf": [{"$ref": "#/components/schemas/Circle"}, {"$ref": "#/components/schemas/Circle"}]}}});
    [("apps/v1", apps), ("a.example.com/v1", widget)]
        .map(|(of, text)| (of.to_owned(), text.to_string()))
        .into()
}

fn compiled(objects: Value, status: Option<Value>) -> CompiledTemplate {
    let mut spec: CopyratorTemplateSpec = serde_json::from_value(json!({
        "forEach": {"objects": {"apiVersion": "a.example.com/v1", "kind": "Widget"}}, "objects": objects,
    }))
    .unwrap();
    spec.write_status = status.map(|status| serde_json::from_value(status).unwrap());
    CompiledTemplate::compile(&spec).unwrap()
}

fn told(api_version: &str, kind: &str, spec: Value) -> Vec<String> {
    let template = json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": "a"}, "spec": spec});
    let typed = compiled(json!([{"id": "one", "template": template}]), None).held_against(&components());
    assert!(typed.unjudged.is_empty());
    let at = "spec.objects[one].template.spec.";
    let messages = typed.faults.into_iter().map(|fault| fault.message);
    messages
        .map(|message| message.strip_prefix(at).unwrap_or_else(|| panic!("{message}")).to_owned())
        .collect()
}

fn deployment(spec: Value) -> Vec<String> {
    told("apps/v1", "Deployment", spec)
}

fn widget(spec: Value) -> Vec<String> {
    told("a.example.com/v1", "Widget", spec)
}

#[test]
fn what_the_api_server_would_refuse_is_told_with_the_way_out() {
    let of = "Deployment of apps/v1";
    for (spec, said) in [
        (
            json!({"replicas": "three"}),
            format!("replicas: is the text \"three\", and {of} takes a whole number here"),
        ),
        (
            json!({"replicas": "3"}),
            format!(
                "replicas: is the text \"3\", and {of} takes a whole number here: write it without quotes"
            ),
        ),
        (json!({"replicas": 1.5}), format!("replicas: is 1.5, and {of} takes a whole number here")),
        (
            json!({"replicsa": 3}),
            format!("replicsa: is no field that {of} has there; did you mean replicas?"),
        ),
        (
            json!({"replicsa": "${object.spec.size}"}),
            format!("replicsa: is no field that {of} has there; did you mean replicas?"),
        ),
        (
            json!({"colour": 3}),
            format!(
                "colour: is no field that {of} has there; it has paused, replicas, selector, strategy, template"
            ),
        ),
        (
            json!({"replicas": "${object.spec.size}0"}),
            format!(
                "replicas: is a text with an expression in it, and {of} takes a whole number here: a value that is one expression and nothing \
                     else, ${{…}}, keeps its type"
            ),
        ),
        (
            json!({"replicas": "${string(object.spec.size)}"}),
            format!(
                "replicas: is an expression that gives a text, and {of} takes a whole number here: leave out string(…), or use int(…)"
            ),
        ),
        (
            json!({"paused": "true"}),
            format!(
                "paused: is the text \"true\", and {of} takes true or false here: write it without quotes"
            ),
        ),
        (
            json!({"template": {"metadata": {"labels": {"version": 2}}}}),
            format!(
                "template.metadata.labels.version: is 2, and {of} takes a text here: write it in quotes, \"2\""
            ),
        ),
        (
            json!({"template": {"metadata": {"labels": {"big": "${object.spec.size > 3}"}}}}),
            format!(
                "template.metadata.labels.big: is an expression that gives true or false, and {of} takes a text here: write string(…) around it"
            ),
        ),
        (
            json!({"template": {"spec": {"containers": [{"name": "a", "ports": [{"containerPort": 80}, {"containerPort": "http"}]}]}}}),
            format!(
                "template.spec.containers[0].ports[1].containerPort: is the text \"http\", and {of} takes a whole number here"
            ),
        ),
        (
            json!({"template": {"spec": {"containers": {"name": "a"}}}}),
            format!("template.spec.containers: is a map, and {of} takes a list here"),
        ),
        (json!({"template": {"spec": [1]}}), format!("template.spec: is a list, and {of} takes a map here")),
        (
            json!({"strategy": {"type": "Rolling"}}),
            format!(
                "strategy.type: is \"Rolling\", and {of} takes one of \"Recreate\", \"RollingUpdate\" here"
            ),
        ),
        (
            json!({"strategy": {"maxSurge": true}}),
            format!("strategy.maxSurge: is true, and {of} takes a whole number or a text here"),
        ),
    ] {
        assert_eq!(deployment(spec.clone()), [said], "{spec}");
    }
    assert_eq!(
        widget(json!({"size": "x", "sise": 1, "port": 1.5, "pod": {"spec": {"b": 1}}})),
        [
            "pod.spec.b: is no field that Widget of a.example.com/v1 has there; did you mean a?",
            "port: is 1.5, and Widget of a.example.com/v1 takes a whole number or a text here",
            "sise: is no field that Widget of a.example.com/v1 has there; did you mean size?",
            "size: is the text \"x\", and Widget of a.example.com/v1 takes a whole number here",
        ]
    );
}

#[test]
fn what_the_api_server_may_take_is_no_fault() {
    let container = json!({"name": "${object.metadata.name}", "image": "a:${object.spec.version}", "ports": null,
        "resources": {"limits": {"cpu": 1, "memory": "1Gi", "x": "${object.spec.size}m"}}});
    let spec = json!({
        "replicas": "${object.spec.size}", "paused": null, "selector": {"matchLabels": "${object.metadata.labels}"},
        "strategy": {"type": "", "maxSurge": "${object.spec.size}%"},
        "template": {"metadata": {"creationTimestamp": null, "labels": {"a": "${object.spec.size}"}}, "spec": {"containers": [container]}},
    });
    assert_eq!(deployment(spec), [""; 0]);
    assert_eq!(
        deployment(json!({"replicas": 3.0, "strategy": {"type": "${object.spec.kind}", "maxSurge": 1}})),
        [""; 0]
    );
    let spec = json!({
        "size": "${object.spec.size - 1}", "any": {"x": [1, "y"]}, "open": {"a": "x", "b": 1}, "port": "http", "share": 1, "raw": 3,
        "pod": {"apiVersion": "v1", "metadata": {"name": "a"}}, "choice": {"a": "x", "b": {"c": 1}}, "elsewhere": {"x": 1},
        "circle": {"x": 1}, "none": null,
    });
    assert_eq!(widget(spec), [""; 0]);
    // A field whose value may be left out may be left out for every object, and so may an object.
    assert_eq!(widget(json!({"newer": "${object.spec.?newer}", "newest": "${optional.none()}"})), [""; 0]);
    assert_eq!(widget(json!({"newer": "${object.spec.newer}"})).len(), 1);
    let template = json!({"apiVersion": "a.example.com/v1", "kind": "Widget", "metadata": {"name": "a"}, "spec": {"sise": 1}});
    let objects = json!([{"id": "one", "includeWhen": "object.spec.size > 1", "template": template}]);
    assert_eq!(compiled(objects, None).held_against(&components()), Typed::default());
}

#[test]
fn a_status_has_the_types_of_what_the_template_is_rendered_for() {
    let object = json!([{"id": "one", "template": {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"a": 1}}}]);
    let status =
        json!({"nodes": "${[object.metadata.name]}", "redy": 1, "ready": "x${object.metadata.name}"});
    let template = compiled(object, Some(status));
    let typed = template.held_against(&components());
    assert_eq!(typed.unjudged, [InstanceKind::new("v1", "ConfigMap")].into());
    let messages: Vec<&str> = typed.faults.iter().map(|fault| &*fault.message).collect();
    let [mistyped, unknown] = &messages[..] else { panic!("{messages:?}") };
    assert!(
        unknown.starts_with("spec.writeStatus.redy: is no field that Widget")
            && unknown.ends_with("did you mean ready?"),
        "{unknown}"
    );
    assert!(mistyped.starts_with("spec.writeStatus.ready: is a text with an expression in it"), "{mistyped}");
    assert_eq!(SpecFault::of(&typed.faults[0]), Some(SpecFault::TypeError));
    assert_eq!(template.typed_kinds().len(), 2);
}

/// A definition is written by a user, and so is what it publishes.
#[test]
fn a_schema_without_end_ends_and_what_it_says_then_is_nothing() {
    let many = |of: &str, spec: Value| {
        let named = json!([{"group": "a.example.com", "version": "v1", "kind": "Widget"}]);
        let schema =
            json!({"type": "object", "properties": {"spec": spec}, "x-kubernetes-group-version-kind": named});
        let all = json!({"schemas": {"Widget": schema, "Loop": {"$ref": "#/components/schemas/Loop"}, "Deep": {"type": "object",
            "properties": {"a": {"$ref": "#/components/schemas/Deep"}}}, "Wide": {"allOf": vec![json!({"$ref": "#/components/schemas/Wide"}); 1_000]},
            "Big": {"type": "object", "properties": (0..80_000).map(|at| (format!("field{at}"), json!({}))).collect::<serde_json::Map<_, _>>()}}});
        BTreeMap::from([(of.to_owned(), all.to_string())])
    };
    let of = |name: &str| json!({"$ref": format!("#/components/schemas/{name}")});
    let deep = (0..60).fold(json!("x"), |inner, _| json!({"a": inner}));
    for (name, spec, faults) in [
        ("Loop", json!({"x": 1}), 0),
        ("Wide", json!({"x": 1}), 0),
        ("Deep", deep, 1),
        ("Big", json!({"x": 1}), 0),
    ] {
        let template = json!({"apiVersion": "a.example.com/v1", "kind": "Widget", "metadata": {"name": "a"}, "spec": spec});
        let template = compiled(json!([{"id": "one", "template": template}]), None);
        let typed = template.held_against(&many("a.example.com/v1", of(name)));
        assert_eq!(typed.faults.len(), faults, "{name}: {:?}", typed.faults);
    }
    // The same schema for each of many items is read so often and no more.
    let items = json!({"type": "array", "items": {"additionalProperties": of("Big")}});
    let values: Vec<Value> = (0..2_000).map(|_| json!({"k": {"x": 1}})).collect();
    let template = json!({"apiVersion": "a.example.com/v1", "kind": "Widget", "metadata": {"name": "a"}, "spec": values});
    let template = compiled(json!([{"id": "one", "template": template}]), None);
    assert_eq!(template.held_against(&many("a.example.com/v1", items)).faults, []);
    for text in ["", "{", "[]", "{\"schemas\": 3}", "{\"schemas\": {\"Widget\": 3}}"] {
        let typed = template.held_against(&BTreeMap::from([("a.example.com/v1".to_owned(), text)]));
        assert_eq!((typed.faults.len(), typed.unjudged.len()), (0, 1), "{text}");
    }
}
