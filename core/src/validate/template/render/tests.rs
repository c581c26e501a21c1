//! What templates as people write them come to for an instance.

use serde_json::json;

use super::*;
use crate::validate::template::tests::{compiled, nginx};

fn instance() -> Value {
    json!({"apiVersion": "web.example.com/v1", "kind": "NginxServer", "metadata": {"name": "shop", "namespace": "web"},
        "spec": {"replicas": 3, "version": 1.27, "resources": {"limits": {"cpu": "1"}}}})
}

fn namespace() -> Value {
    json!({"metadata": {"name": "web", "labels": {"team": "blue"}}})
}

fn rendered(template: &CompiledTemplate, id: &str, instance: &Instance<'_>) -> Result<Rendering, String> {
    let object = template.objects.iter().find(|object| object.id == id).unwrap();
    template.render(object, instance).map_err(|fault| fault.to_string())
}

#[test]
fn an_instance_gets_its_objects_each_after_what_it_reads() {
    let (namespace, object) = (namespace(), instance());
    let template = compiled(&nginx()).unwrap();
    let ids: Vec<&str> = template.objects.iter().map(|object| object.id.as_str()).collect();
    assert_eq!(ids, ["deploy", "service"]);
    let mut for_shop = Instance { namespace: Some(&namespace), object: Some(&object), ..Instance::default() };
    let waiting = Rendering::WaitingFor(["deploy".to_owned()].into());
    assert_eq!(rendered(&template, "service", &for_shop), Ok(waiting));
    let Ok(Rendering::Object(Rendered { name, body })) = rendered(&template, "deploy", &for_shop) else {
        panic!()
    };
    assert_eq!(name, "shop");
    assert_eq!(body["metadata"], json!({"name": "shop", "labels": {"team": "blue"}}));
    assert_eq!(body["spec"]["replicas"], json!(3), "a number stays a number");
    let container = &body["spec"]["template"]["spec"]["containers"][0];
    assert_eq!(container["image"], "nginx:1.27");
    assert_eq!(container["resources"], json!({"limits": {"cpu": "1"}}));
    assert_eq!(container["command"][2], "echo ${HOME}");

    let mut deploy = body;
    deploy["metadata"]["uid"] = json!("u-1");
    for_shop.existing = [("deploy", &deploy)].into();
    let Ok(Rendering::Object(service)) = rendered(&template, "service", &for_shop) else { panic!() };
    assert_eq!(service.body["metadata"]["annotations"], json!({"of": "u-1"}));
    let pods_only = Ok(Some(json!({"podNames": []})));
    assert_eq!(template.render_status(&for_shop), pods_only, "there is no status of the Deployment yet");
    let mut stored = deploy.clone();
    stored["status"] = json!({});
    for_shop.existing = [("deploy", &stored)].into();
    assert_eq!(template.render_status(&for_shop), pods_only, "the API server stores an empty one");

    let mut running = deploy.clone();
    running["status"] = json!({"availableReplicas": 2});
    let pods = [json!({"metadata": {"name": "shop-a"}}), json!({"metadata": {"name": "shop-b"}})];
    for_shop.existing = [("deploy", &running)].into();
    for_shop.pods = BTreeMap::from([("deploy", pods.iter().collect())]);
    let status = json!({"availableReplicas": 2, "podNames": ["shop-a", "shop-b"]});
    assert_eq!(template.render_status(&for_shop), Ok(Some(status)));

    let mut hidden = object.clone();
    hidden["spec"]["expose"] = json!(false);
    let for_hidden = Instance { object: Some(&hidden), ..for_shop };
    assert_eq!(rendered(&template, "service", &for_hidden), Ok(Rendering::Excluded));
}

#[test]
fn a_field_whose_expression_gives_null_is_left_out() {
    let (namespace, mut object) = (namespace(), instance());
    object["spec"]["resources"] = Value::Null;
    let instance = Instance { namespace: Some(&namespace), object: Some(&object), ..Instance::default() };
    let template = compiled(&nginx()).unwrap();
    let Ok(Rendering::Object(deploy)) = rendered(&template, "deploy", &instance) else { panic!() };
    assert_eq!(deploy.body.pointer("/spec/template/spec/containers/0/resources"), None);
    let mut spec = nginx();
    spec["objects"][1]["template"]["spec"]["paused"] = json!("${object.spec.?paused}");
    let Ok(Rendering::Object(deploy)) = rendered(&compiled(&spec).unwrap(), "deploy", &instance) else {
        panic!()
    };
    assert_eq!(deploy.body["spec"].get("paused"), None, "an optional that holds nothing");
}

/// A status that changes every second costs nothing unless an expression reads it.
#[test]
fn what_no_expression_reads_changes_nothing() {
    let (namespace, object) = (namespace(), instance());
    let template = compiled(&nginx()).unwrap();
    let mut later = object.clone();
    later["metadata"]["resourceVersion"] = json!("8");
    later["metadata"]["generation"] = json!(2);
    later["status"] = json!({"heartbeat": 7});
    let one = |object| {
        let instance = Instance { namespace: Some(&namespace), object: Some(object), ..Instance::default() };
        rendered(&template, "deploy", &instance)
    };
    assert_eq!(one(&object), one(&later));
}

#[test]
fn an_instance_that_cannot_be_rendered_is_told_the_expression_and_no_value() {
    let namespace = namespace();
    let template = compiled(&nginx()).unwrap();
    let fault = |change: fn(&mut Value)| {
        let mut object = instance();
        change(&mut object);
        let instance = Instance { namespace: Some(&namespace), object: Some(&object), ..Instance::default() };
        rendered(&template, "deploy", &instance).unwrap_err()
    };
    for (change, said) in [
        (
            (|object| drop(object["spec"].as_object_mut().unwrap().remove("replicas"))) as fn(&mut Value),
            "spec.replicas: ${object.spec.replicas}: no such key: read a key that may be missing with .? and a default, as in \
             a.?b.?c.orValue(1)",
        ),
        (
            |object| object["spec"]["version"] = json!({"hunter2": 1}),
            "spec.template.spec.containers[0].image: ${object.spec.version}: within a string, the expression must return a string, number \
             or boolean",
        ),
        (
            |object| object["spec"]["resources"] = json!({"securityContext": {"privileged": true}}),
            "spec.template.spec.containers[0].resources: ${object.spec.resources}: returns securityContext, which must be literal in the \
             template",
        ),
        (
            |object| object["metadata"]["name"] = json!("Shop/.."),
            "metadata.name: is not a valid object name: lower-case letters, digits, - and ., at most 253",
        ),
    ] {
        assert_eq!(fault(change), said);
    }
}

/// A controller fills a status in step by step. What is read as optional may be missing, but for the status itself.
#[test]
fn an_object_waits_for_what_it_reads_of_a_status() {
    let (namespace, object) = (namespace(), instance());
    let annotated = |expression: &str| {
        let mut spec = nginx();
        spec["objects"][0]["template"]["metadata"]["annotations"] = json!({"of": expression});
        compiled(&spec).unwrap()
    };
    for (expression, status, waits) in [
        ("${string(deploy.status.replicas)}", json!(null), true),
        ("${string(deploy.status.replicas)}", json!({}), true),
        ("${string(deploy.status.replicas)}", json!({"observedGeneration": 1}), true),
        ("${string(deploy.status.replicas)}", json!({"replicas": 1}), false),
        ("${string(deploy.status.?replicas.orValue(0))}", json!({}), true),
        ("${string(deploy.status.?replicas.orValue(0))}", json!({"observedGeneration": 1}), false),
        ("${string(has(deploy.status.replicas))}", json!({"observedGeneration": 1}), false),
        ("${string('replicas' in deploy.status)}", json!({"observedGeneration": 1}), false),
        ("${deploy.metadata.name}", json!(null), false),
    ] {
        let template = annotated(expression);
        let deploy = json!({"metadata": {"name": "shop"}, "status": status});
        let existing = [("deploy", &deploy)].into();
        let for_shop =
            Instance { namespace: Some(&namespace), object: Some(&object), existing, ..Instance::default() };
        let made = rendered(&template, "service", &for_shop);
        let expected = Ok(Rendering::WaitingFor(["deploy".to_owned()].into()));
        assert_eq!(made == expected, waits, "{expression} of {status}: {made:?}");
        assert!(made.is_ok(), "{expression} of {status}: {made:?}");
    }
}

/// What reads an object that is not wanted is not wanted either, and does not wait for it.
#[test]
fn an_excluded_object_takes_its_readers_along() {
    let (namespace, object) = (namespace(), instance());
    let mut spec = nginx();
    spec["objects"][1]["includeWhen"] = json!("object.spec.replicas > 5");
    let template = compiled(&spec).unwrap();
    let mut instance = Instance { namespace: Some(&namespace), object: Some(&object), ..Instance::default() };
    assert_eq!(rendered(&template, "deploy", &instance), Ok(Rendering::Excluded));
    instance.excluded = ["deploy"].into();
    assert_eq!(rendered(&template, "service", &instance), Ok(Rendering::Excluded));
    assert_eq!(template.render_status(&instance), Ok(Some(json!({}))), "what was written is taken back");
}

/// Values of expressions share parts: a list of ten times a list of ten times … takes little, until it becomes JSON.
#[test]
fn no_expression_makes_an_object_that_no_memory_holds() {
    let namespace = namespace();
    let large = json!({"metadata": {"name": "a"}, "spec": {"text": "x".repeat(100_000)}});
    let ten = "[x, x, x, x, x, x, x, x, x, x]";
    let doubled = (0..9).fold("[1]".to_owned(), |list, _| format!("{list}.map(x, {ten})"));
    for expression in [
        format!("${{{doubled}}}"),
        format!("${{[{}]}}", vec!["object.spec.text"; 40].join(", ")),
        "${object.spec.text}".repeat(40),
    ] {
        let config_map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"a": expression}});
        let for_each = json!({"objects": {"apiVersion": "a.b/v1", "kind": "A"}});
        let template =
            compiled(&json!({"forEach": for_each, "objects": [{"id": "a", "template": config_map}]}))
                .unwrap();
        let instance = Instance { namespace: Some(&namespace), object: Some(&large), ..Instance::default() };
        let fault = rendered(&template, "a", &instance).unwrap_err();
        assert!(fault.contains("larger than 1 MiB") || fault.contains("costs too much"), "{fault}");
    }
}

#[test]
fn numbers_are_written_as_fields_of_integers_take_them() {
    let namespace = namespace();
    let object = json!({"metadata": {"name": "a"}, "spec": {"share": 0.5}});
    let data = json!({"whole": "${4.0 * object.spec.share}", "text": "v${4.0 * object.spec.share}", "part": "${object.spec.share}"});
    let config_map =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": data});
    let for_each = json!({"objects": {"apiVersion": "a.b/v1", "kind": "A"}});
    let template =
        compiled(&json!({"forEach": for_each, "objects": [{"id": "a", "template": config_map}]})).unwrap();
    let instance = Instance { namespace: Some(&namespace), object: Some(&object), ..Instance::default() };
    let Ok(Rendering::Object(made)) = rendered(&template, "a", &instance) else { panic!() };
    assert_eq!(made.body["data"], json!({"whole": 2, "text": "v2", "part": 0.5}));
}

/// What the API server counts up at every write of an object. A template that reads it and writes a status would answer itself for ever.
#[test]
fn nothing_that_each_write_changes_is_read() {
    let with_versions = |mut object: Value| {
        object["metadata"]["uid"] = json!("u-1");
        object["metadata"]["generation"] = json!(7);
        object["metadata"]["resourceVersion"] = json!("8");
        object["metadata"]["managedFields"] = json!([{"manager": "kubectl", "operation": "Update"}]);
        object
    };
    let (namespace, object) = (with_versions(namespace()), with_versions(instance()));
    let deploy = with_versions(json!({"metadata": {"name": "shop"}, "status": {"availableReplicas": 1}}));
    let pod = with_versions(json!({"metadata": {"name": "shop-a"}}));
    let for_shop = Instance {
        namespace: Some(&namespace),
        object: Some(&object),
        existing: [("deploy", &deploy)].into(),
        pods: [("deploy", vec![&pod])].into(),
        ..Instance::default()
    };
    let seen = |expression: &str| {
        let mut spec = nginx();
        spec["objects"][0]["template"]["spec"]["seen"] = json!(expression);
        spec["writeStatus"]["seen"] = json!(expression);
        let template = compiled(&spec).unwrap();
        let made = rendered(&template, "service", &for_shop).map(|made| match made {
            Rendering::Object(made) => made.body["spec"]["seen"].clone(),
            other => panic!("{other:?}"),
        });
        let status = template.render_status(&for_shop).map_err(|fault| fault.to_string());
        (made, status.map(|status| status.unwrap()["seen"].clone()))
    };
    for variable in ["namespaceObject", "object", "deploy", "pods(deploy)[0]"] {
        let uid = seen(&format!("${{{variable}.metadata.?uid.orValue('none')}}"));
        assert_eq!(uid, (Ok(json!("u-1")), Ok(json!("u-1"))), "{variable}");
        for field in ["generation", "resourceVersion", "managedFields"] {
            let read = format!("${{{variable}.metadata.{field}}}");
            let absent =
                "no such key: read a key that may be missing with .? and a default, as in a.?b.?c.orValue(1)";
            let fault = |path: &str| Err(format!("{path}.seen: {read}: {absent}"));
            assert_eq!(seen(&read), (fault("spec"), fault("status")), "{read}");
            let read = format!("${{{variable}.metadata.?{field}.orValue('none')}}");
            assert_eq!(seen(&read), (Ok(json!("none")), Ok(json!("none"))), "{read}");
        }
    }
}
