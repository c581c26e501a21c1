//! Types of fields, and statuses that templates write, in the cluster of [`super::operators`].

use serde_json::{Value, json};

use crate::bed::objects::{condition, ours, uid, version};
use crate::bed::{Bed, Story, eventually, same};

/// What the chart grants. Of the last two it says that the status is where it is not.
pub fn granted() -> [Value; 3] {
    [("pairs", "Pair", "status"), ("bares", "Bare", "status"), ("fulls", "Full", "statusField")].map(
        |(plural, kind, status)| {
            json!({ "apiVersion": format!("{plural}.example.com/v1"), "kind": kind, "resource": plural, "use": ["forEach", status] })
        },
    )
}

fn definition(status: &Value) -> Value {
    definition_of("pairs", "Pair", json!({ "status": {} }), status)
}

fn definition_of(plural: &str, kind: &str, subresources: Value, status: &Value) -> Value {
    let spec = json!({ "type": "object", "properties": { "size": { "type": "integer" } } });
    let schema = json!({ "type": "object", "properties": { "spec": spec, "status": { "type": "object", "properties": status } } });
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": { "name": format!("{plural}.{plural}.example.com") },
        "spec": {
            "group": format!("{plural}.example.com"), "scope": "Namespaced",
            "names": { "plural": plural, "singular": kind.to_lowercase(), "kind": kind },
            "versions": [{ "name": "v1", "served": true, "storage": true, "subresources": subresources,
                "schema": { "openAPIV3Schema": schema } }],
        },
    })
}

pub fn define(bed: &Bed) {
    let number = json!({ "type": "integer" });
    bed.admin.create(&definition(&json!({ "a": number, "b": number }))).ok();
    eventually("the kind is served", || {
        let listed = bed.admin.try_list("Pair");
        if listed.code == 200 { Ok(()) } else { Err(listed.body.to_string()) }
    });
}

fn pair(namespace: &str) -> Value {
    json!({ "apiVersion": "pairs.example.com/v1", "kind": "Pair", "metadata": { "namespace": namespace, "name": "one" }, "spec": { "size": 1 } })
}

fn deployment(name: &str, replicas: Value, more: Value) -> Value {
    let pods = json!({ "metadata": { "labels": { "app": name } }, "spec": { "containers": [{ "name": "a", "image": "example.com/a" }] } });
    let mut spec =
        json!({ "replicas": replicas, "selector": { "matchLabels": { "app": name } }, "template": pods });
    more.as_object().into_iter().flatten().for_each(|(field, value)| spec[field] = value.clone());
    json!({ "apiVersion": "apps/v1", "kind": "Deployment", "metadata": { "name": name }, "spec": spec })
}

/// A template of the story's home for each Pair of its namespaces.
fn template(story: &Story<'_>, name: &str, object: Value, status: Value) -> Value {
    let namespaces = json!([{ "namespaceSelector": story.selector() }]);
    let mut spec = json!({
        "forEach": { "objects": { "apiVersion": "pairs.example.com/v1", "kind": "Pair", "namespaces": namespaces } },
        "objects": [{ "id": "made", "template": object }],
        "deletionGrace": "0s",
    });
    if !status.is_null() {
        spec["writeStatus"] = status;
    }
    ours("CopyratorTemplate", &story.home, name, spec)
}

fn config_map(name: &str) -> Value {
    json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": name }, "data": { "a": "b" } })
}

/// The API server's words, before anything of the instance is written; another instance, and another text, are tried by themselves.
pub fn a_type_error_stops_its_instance_before_anything_is_written(bed: &Bed) {
    let story = Story::new(bed, "mistyped");
    let (admin, place) = (story.admin(), story.target("a"));
    admin.create(&pair(&place)).ok();
    let text = |replicas: Value, more: Value| {
        let mut text = template(&story, "web", deployment("web", replicas, more), Value::Null);
        let first = json!({ "id": "first", "template": config_map("first") });
        text["spec"]["objects"].as_array_mut().expect("a list").insert(0, first);
        text
    };
    admin.create(&text(json!("three"), json!({ "replicsa": 3 }))).ok();
    let told = story.until_condition("CopyratorTemplate", "web", "Degraded", "True", "TypeError")["status"]
        .to_string();
    for said in [".spec.replicas: expected numeric", ".spec.replicsa: field not declared in schema"] {
        assert!(told.contains(said), "{told}");
    }
    story.marker("told");
    assert!(
        admin.get("Deployment", &place, "web").is_none() && admin.get("ConfigMap", &place, "first").is_none()
    );

    // Another text ends it, and a wrong one leaves everything as it is.
    admin.apply(&text(json!("${object.spec.size}"), json!({}))).ok();
    story.until_condition("CopyratorTemplate", "web", "Ready", "True", "AllRendered");
    let made = admin.get("Deployment", &place, "web").expect("it is there");
    assert_eq!(made["spec"]["replicas"], 1);
    let mut wrong = text(json!("${object.spec.size}0"), json!({}));
    wrong["spec"]["objects"][0]["template"]["data"]["a"] = "changed".into();
    admin.apply(&wrong).ok();
    story.until_condition("CopyratorTemplate", "web", "Degraded", "True", "TypeError");
    let before = bed.our_writes_in(&place);
    story.marker("stays");
    let still = admin.get("Deployment", &place, "web").expect("it is there");
    assert_eq!((uid(&still), &still["spec"]), (uid(&made), &made["spec"]));
    assert_eq!(admin.get("ConfigMap", &place, "first").expect("it is there")["data"]["a"], "b");
    assert_eq!(bed.our_writes_in(&place), before, "it was sent again");

    // One instance's value does not stop another instance.
    let other = story.target("b");
    let mut seven = pair(&other);
    seven["spec"]["size"] = 7.into();
    admin.create(&seven).ok();
    admin.merge("Pair", &place, "one", &json!({ "spec": { "size": 2 } })).ok();
    admin
        .apply(&text(json!("${object.spec.size == 7 ? dyn('seven') : dyn(object.spec.size)}"), json!({})))
        .ok();
    eventually("the other instance is written", || {
        let made = admin.get("Deployment", &place, "web").ok_or("it is gone")?;
        same(made["spec"]["replicas"].clone(), json!(2))
    });
    story.until_condition("CopyratorTemplate", "web", "Degraded", "True", "TypeError");
    assert!(admin.get("Deployment", &other, "web").is_none());
    admin.delete("CopyratorTemplate", &story.home, "web").ok();
    story.until_gone("Deployment", &place, "web");
}

/// The chart says `status` of a kind without the subresource, and `statusField` of one with it. Each is told with the other word, once.
pub fn a_status_that_has_its_place_elsewhere_is_told(bed: &Bed) {
    let story = Story::new(bed, "elsewhere");
    let (admin, place) = (story.admin(), story.target("a"));
    let number = json!({ "a": { "type": "integer" } });
    for (plural, kind, subresources, entry) in [
        ("bares", "Bare", json!({}), "kind: Bare, resource: bares, use: [forEach, statusField]}"),
        ("fulls", "Full", json!({ "status": {} }), "kind: Full, resource: fulls, use: [forEach, status]}"),
    ] {
        admin.create(&definition_of(plural, kind, subresources, &number)).ok();
        eventually("the kind is served", || {
            let listed = admin.try_list(kind);
            if listed.code == 200 { Ok(()) } else { Err(listed.body.to_string()) }
        });
        let mut instance = pair(&place);
        let mut text = template(&story, plural, config_map(plural), json!({ "a": "${object.spec.size}" }));
        for object in [&mut instance, &mut text["spec"]["forEach"]["objects"]] {
            object["apiVersion"] = format!("{plural}.example.com/v1").into();
            object["kind"] = kind.into();
        }
        admin.create(&instance).ok();
        admin.create(&text).ok();
        let told = story.until_condition("CopyratorTemplate", plural, "Degraded", "True", "NotKept");
        assert!(told["status"].to_string().contains(entry), "{}", told["status"]);
        let statuses = || {
            let uris = bed.our_writes_in(&place).into_iter().map(|(_, uri)| uri);
            uris.filter(|uri| uri.contains(plural) && uri.contains("copyrator-status-")).count()
        };
        story.marker(&format!("{plural}-told"));
        let before = statuses();
        admin.merge(kind, &place, "one", &json!({ "metadata": { "labels": { "seen": "yes" } } })).ok();
        story.marker(&format!("{plural}-quiet"));
        assert!(before > 0 && statuses() == before, "it was written again: {before}");
        admin.delete("CopyratorTemplate", &story.home, plural).ok();
    }
}

/// A field goes with the text that named it, while the template writes a status: its author is asked for the right to as long.
pub fn fields_that_are_written_no_more_go(bed: &Bed) {
    let story = Story::new(bed, "fewer");
    let (admin, place) = (story.admin(), story.target("a"));
    admin.create(&pair(&place)).ok();
    let write = |status: Value| admin.apply(&template(&story, "sizes", config_map("sizes"), status)).ok();
    let until = |wanted: Value| {
        eventually(&format!("the status is {wanted}"), || {
            let pair = admin.get("Pair", &place, "one").ok_or("it is gone")?;
            same(pair["status"].clone(), wanted.clone()).map(|()| pair)
        })
    };
    write(json!({ "a": "${object.spec.size}", "b": "${object.spec.size + 1}" }));
    until(json!({ "a": 1, "b": 2 }));
    write(json!({ "b": "${object.spec.size + 1}" }));
    until(json!({ "b": 2 }));
    admin.merge_status("Pair", &place, "one", &json!({ "a": 9 })).ok();
    let pair = until(json!({ "a": 9, "b": 2 }));
    write(Value::Null);
    story.marker("quiet");
    let still = admin.get("Pair", &place, "one").expect("it is there");
    assert_eq!(
        (&still["status"], version(&still)),
        (&pair["status"], version(&pair)),
        "it was written again"
    );
    admin.delete("CopyratorTemplate", &story.home, "sizes").ok();
}

/// Each keeps its fields of one status, and a third one does not get one of them.
pub fn templates_write_one_status_beside_each_other(bed: &Bed) {
    let story = Story::new(bed, "beside");
    let (admin, place) = (story.admin(), story.target("a"));
    admin.create(&pair(&place)).ok();
    let until = |wanted: Value| {
        eventually(&format!("the status is {wanted}"), || {
            let pair = admin.get("Pair", &place, "one").ok_or("it is gone")?;
            same(pair["status"].clone(), wanted.clone())
        })
    };
    let write =
        |name: &str, status: Value| admin.create(&template(&story, name, config_map(name), status)).ok();
    write("first", json!({ "a": "${object.spec.size}" }));
    write("second", json!({ "b": "${object.spec.size + 1}" }));
    until(json!({ "a": 1, "b": 2 }));
    write("third", json!({ "b": "${object.spec.size * 0}" }));
    let told = story.until_condition("CopyratorTemplate", "third", "Degraded", "True", "FieldOwned");
    assert!(told["status"].to_string().contains("status.b"), "{}", told["status"]);
    admin.merge("Pair", &place, "one", &json!({ "spec": { "size": 5 } })).ok();
    until(json!({ "a": 5, "b": 6 }));
    // What it has written stays, and the others go on.
    admin.delete("CopyratorTemplate", &story.home, "second").ok();
    admin.merge("Pair", &place, "one", &json!({ "spec": { "size": 7 } })).ok();
    until(json!({ "a": 7, "b": 6 }));
    for name in ["first", "third"] {
        admin.delete("CopyratorTemplate", &story.home, name).ok();
    }
}

/// Two templates that make of each other's word a larger one each time. They are told, and one that is changed ends it.
pub fn templates_that_drive_each_other_are_braked(bed: &Bed) {
    let story = Story::new(bed, "unstable");
    let (admin, place) = (story.admin(), story.target("a"));
    admin.create(&pair(&place)).ok();
    let next = |of: &str| format!("${{object.?status.?{of}.orValue(0) + 1}}");
    admin.create(&template(&story, "first", config_map("first"), json!({ "a": next("b") }))).ok();
    admin.create(&template(&story, "second", config_map("second"), json!({ "b": next("a") }))).ok();
    let told = story.until_condition("CopyratorTemplate", "first", "Degraded", "True", "Unstable")["status"]
        .to_string();
    assert!(told.contains("for Pair one: this template reads status.b, which CopyratorTemplate"), "{told}");
    admin.apply(&template(&story, "first", config_map("first"), json!({ "a": "${object.spec.size}" }))).ok();
    eventually("it has come to rest", || {
        let pair = admin.get("Pair", &place, "one").ok_or("it is gone")?;
        same(pair["status"].clone(), json!({ "a": 1, "b": 2 }))
    });
    eventually("nothing is wrong", || {
        for name in ["first", "second"] {
            let template = admin.get("CopyratorTemplate", &story.home, name).ok_or("it is gone")?;
            same(condition(&template, "Degraded"), None).map_err(|_| template["status"].to_string())?;
        }
        Ok(())
    });
    for name in ["first", "second"] {
        admin.delete("CopyratorTemplate", &story.home, name).ok();
    }
}
