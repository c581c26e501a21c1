//! Types of fields, and statuses that templates write, in the cluster of [`super::operators`].

use serde_json::{Value, json};

use crate::bed::objects::{condition, ours, uid, version};
use crate::bed::{Bed, Story, eventually, same};
use crate::plan::run;

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

/// Told once, before anything is written, with the way out; mended by another text, or another definition.
pub fn types_are_told_once(bed: &Bed) {
    let story = Story::new(bed, "mistyped");
    let (admin, place) = (story.admin(), story.target("a"));
    admin.create(&pair(&place)).ok();
    admin
        .create(&template(
            &story,
            "web",
            deployment("web", json!("three"), json!({ "replicsa": 3 })),
            Value::Null,
        ))
        .ok();
    let told = story.until_condition("CopyratorTemplate", "web", "Ready", "False", "TypeError")["status"]
        .to_string();
    for said in [
        "spec.objects[made].template.spec.replicas: is the text \\\"three\\\", and Deployment of apps/v1 takes a whole number here",
        "spec.objects[made].template.spec.replicsa: is no field that Deployment of apps/v1 has there; did you mean replicas?",
    ] {
        assert!(told.contains(said), "{told}");
    }
    story.marker("told");
    assert!(admin.get("Deployment", &place, "web").is_none());

    // Another text ends it, and a wrong one leaves what is there.
    let mended =
        template(&story, "web", deployment("web", json!("${object.spec.size}"), json!({})), Value::Null);
    admin.apply(&mended).ok();
    story.until_condition("CopyratorTemplate", "web", "Ready", "True", "AllRendered");
    let made = admin.get("Deployment", &place, "web").expect("it is there");
    assert_eq!(made["spec"]["replicas"], 1);
    let wrong =
        template(&story, "web", deployment("web", json!("${object.spec.size}0"), json!({})), Value::Null);
    admin.apply(&wrong).ok();
    story.until_condition("CopyratorTemplate", "web", "Ready", "False", "TypeError");
    admin.merge("Pair", &place, "one", &json!({ "spec": { "size": 2 } })).ok();
    story.marker("stays");
    let still = admin.get("Deployment", &place, "web").expect("it is there");
    assert_eq!((uid(&still), &still["spec"]), (uid(&made), &made["spec"]));
    let said = run(&story, None, &["plan", "-n", &story.home, "-f", "-"], &wrong.to_string());
    assert!(said.code == Some(1) && said.text.contains("TypeError"), "{}{}", said.text, said.notes);
    let mut other = wrong.clone();
    other["metadata"]["name"] = "other".into();
    let said = run(&story, None, &["plan", "-n", &story.home, "-f", "-"], &other.to_string());
    assert!(
        said.text.contains("TypeError") && said.text.contains("keeps its type"),
        "{}{}",
        said.text,
        said.notes
    );
    admin.delete("CopyratorTemplate", &story.home, "web").ok();
    story.until_gone("Deployment", &place, "web");

    // What the definition lacks it may have later.
    admin
        .create(&template(
            &story,
            "phases",
            config_map("phases"),
            json!({ "phase": "size ${object.spec.size}" }),
        ))
        .ok();
    let told = story.until_condition("CopyratorTemplate", "phases", "Ready", "False", "TypeError")["status"]
        .to_string();
    assert!(
        told.contains(
            "spec.writeStatus.phase: is no field that Pair of pairs.example.com/v1 has there; it has a, b"
        ),
        "{told}"
    );
    let (number, text) = (json!({ "type": "integer" }), json!({ "type": "string" }));
    admin.apply(&definition(&json!({ "a": number, "b": number, "phase": text }))).ok();
    eventually("the status is written", || {
        let pair = admin.get("Pair", &place, "one").ok_or("it is gone")?;
        same(pair["status"]["phase"].clone(), json!("size 2"))
    });
    story.until_condition("CopyratorTemplate", "phases", "Ready", "True", "AllRendered");
    admin.delete("CopyratorTemplate", &story.home, "phases").ok();
}

/// An object that may be left out is not held against its schema. What the API server then finds wrong with its fields (a 500 without a
/// reason) is told, and waits for a change of what is declared.
pub fn a_schema_error_waits_for_a_change(bed: &Bed) {
    let story = Story::new(bed, "unjudged");
    let (admin, place) = (story.admin(), story.target("a"));
    admin.create(&pair(&place)).ok();
    let mut wrong =
        template(&story, "web", deployment("web", json!(1), json!({ "replicsa": 3 })), Value::Null);
    wrong["spec"]["objects"][0]["includeWhen"] = "true".into();
    admin.create(&wrong).ok();
    let told = story.until_condition("CopyratorTemplate", "web", "Degraded", "True", "Refused")["status"]
        .to_string();
    assert!(told.contains("replicsa") && told.contains("every hour"), "{told}");
    let before = bed.our_writes_in(&place);
    admin.merge("Pair", &place, "one", &json!({ "spec": { "size": 2 } })).ok();
    story.marker("unchanged");
    assert_eq!(bed.our_writes_in(&place), before, "it was sent again");
    wrong["spec"]["objects"][0]["template"]["spec"].as_object_mut().expect("it is a map").remove("replicsa");
    admin.apply(&wrong).ok();
    story.until_condition("CopyratorTemplate", "web", "Ready", "True", "AllRendered");
    assert!(admin.get("Deployment", &place, "web").is_some());
}

/// The API server is the judge of what is called a type error, and of what is not.
pub fn no_type_error_is_one_that_the_api_server_takes(bed: &Bed) {
    let story = Story::new(bed, "judged");
    let container = |more: Value| {
        let mut container = json!({ "name": "a", "image": "example.com/a" });
        more.as_object().into_iter().flatten().for_each(|(field, value)| container[field] = value.clone());
        json!({ "template": { "metadata": { "labels": { "app": "x" } }, "spec": { "containers": [container] } } })
    };
    let refused = [
        json!({ "replicas": "3" }),
        json!({ "replicas": 1.5 }),
        json!({ "replicsa": 3 }),
        json!({ "paused": "true" }),
        json!({ "strategy": { "type": "Rolling" } }),
        json!({ "strategy": [] }),
        json!({ "strategy": { "rollingUpdate": { "maxSurge": true } } }),
        json!({ "selector": { "matchLabels": { "app": 1 } } }),
        container(json!({ "ports": [{ "containerPort": "http" }] })),
        container(json!({ "ports": { "containerPort": 80 } })),
        container(json!({ "imagePullPolicy": "Sometimes" })),
        container(json!({ "env": [{ "name": "A", "value": 1 }] })),
        container(json!({ "resources": { "limits": [] } })),
        container(json!({ "livenessProbe": { "httpGet": { "port": 80, "paths": "/" } } })),
    ];
    let taken = [
        json!({ "replicas": null, "paused": null }),
        json!({ "replicas": 3.0 }),
        json!({ "strategy": { "type": "RollingUpdate", "rollingUpdate": { "maxSurge": "20%", "maxUnavailable": 1 } } }),
        container(json!({ "imagePullPolicy": "", "ports": [{ "containerPort": 80, "protocol": "" }] })),
        container(
            json!({ "resources": { "limits": { "cpu": 1, "memory": "1Gi" }, "requests": { "cpu": 0.5 } } }),
        ),
        container(json!({ "livenessProbe": { "httpGet": { "port": "http", "path": "/" } } })),
        container(json!({ "ports": null, "env": [] })),
    ];
    for (index, (spec, is_refused)) in
        refused.iter().map(|spec| (spec, true)).chain(taken.iter().map(|spec| (spec, false))).enumerate()
    {
        let object = deployment("x", json!(1), spec.clone());
        let mut placed = object.clone();
        placed["metadata"]["namespace"] = story.home.as_str().into();
        let answer = story.admin().try_apply(&placed);
        let template = template(&story, &format!("t{index}"), object, Value::Null);
        let said = run(&story, None, &["plan", "-n", &story.home, "-f", "-"], &template.to_string());
        let is_told = said.text.contains("TypeError");
        assert_eq!(
            (answer.code >= 400, is_told),
            (is_refused, is_refused),
            "{spec}: {}\n{}{}",
            answer.body,
            said.text,
            said.notes
        );
    }
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
