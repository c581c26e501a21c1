//! Objects of a template that cannot be read, or are read too often: looked at against a server.

use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use super::{
    at,
    instances::{put, template_for_each, world_with_kind},
    settle,
};
use crate::{
    model::{RenderedFault, World},
    names::{GrantedKinds, InstanceName, Kind, ObjectKey, TemplateKind},
    plan::copy::template_report,
    reconcile::{
        Again, Reconciler,
        tests::{Oracle, Server, reconciler},
    },
};

fn of(name: &str) -> InstanceName {
    InstanceName { namespace: "shop".into(), object: Some(name.into()) }
}

fn started(server: &Server, world: World) -> Reconciler {
    let reconciler = reconciler(server, &Arc::new(Oracle(Mutex::new(Some(true)))), world);
    reconciler.context.queue().open();
    reconciler
}

/// A world in which statuses may be written.
fn world() -> World {
    let mut world = world_with_kind();
    let granted = "cache.example.com/v1/Memcached/memcacheds/forEach+status";
    world.settings_mut().template_kinds =
        [TemplateKind::read(granted, &GrantedKinds::default()).unwrap()].into();
    world
}

fn config_map(id: &str, data: Value) -> Value {
    let metadata = json!({"name": format!("{id}-${{object.metadata.name}}")});
    json!({"id": id, "template": {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}})
}

fn uid(world: &World, kind: Kind, name: &str) -> String {
    world.object(&ObjectKey::new(kind, "shop", name)).unwrap().uid.to_string()
}

/// Such as an object whose definition has a conversion that fails, or that our own account may not get.
#[tokio::test(start_paused = true)]
async fn what_cannot_be_read_is_a_fault_of_its_instance_and_hinders_no_other() {
    let mut world = world();
    let objects = json!([
        config_map("first", json!({})),
        config_map("second", json!({"uid": "${first.metadata.uid}"}))
    ]);
    let more = json!({"objects": objects, "writeStatus": {"uid": "${first.metadata.uid}", "size": "${object.spec.size}"}});
    let each = template_for_each(&mut world, ("each", 1, 1), more);
    for name in ["a", "b"] {
        put(
            &mut world,
            ("shop", name),
            1,
            json!({"spec": {"size": 3}, "status": {"uid": "earlier", "size": 3}}),
        );
    }
    assert_eq!(settle(&mut world), ["ConfigMap shop/first-a", "ConfigMap shop/first-b"]);
    let server = Server::default();
    let failing = |message: &str, code: u16| {
        (code, json!({"kind": "Status", "status": "Failure", "message": message, "reason": "", "code": code}))
    };
    let first = |name: &str| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "uid": uid(&world, Kind::ConfigMap, name)}});
    let found = |name: &str, answer: (u16, Value)| {
        server.found.lock().unwrap().insert(format!("/configmaps/{name}"), answer);
    };
    found("first-a", failing("conversion webhook failed", 500));
    found("first-b", (200, first("first-b")));
    let there = first("first-a");
    let reconciler = started(&server, world);
    let look = async |name: &str| {
        tokio::time::advance(super::super::LOOK_AGAIN).await;
        reconciler.renderings.handle(&each, &of(name)).await
    };
    let faults = |name: &str| -> Vec<RenderedFault> {
        reconciler.context.world().rendered(&each, &of(name)).unwrap().faults.clone()
    };
    assert!(matches!(look("a").await, Again::Backoff(_)));
    look("b").await;
    assert_eq!(faults("b"), []);
    let [fault] = &faults("a")[..] else { panic!("{:?}", faults("a")) };
    assert_eq!((&*fault.id, fault.waits), ("second", false));
    let said = "uses first, which Copyrator could not read: cannot get ConfigMap shop/first-a: conversion webhook failed (500 ); \
     Copyrator tries again";
    assert!(fault.message.contains(said), "{fault:?}");

    let report = template_report(&reconciler.context.world(), &each, at(100)).expect("the status says it");
    // The server's answers have no status.
    let problems = report.status.problems.iter().filter(|it| it.reason == "RenderFailed");
    let problems: Vec<_> =
        problems.map(|it| (&*it.reason, &*it.name, it.message.contains("for Memcached a: "))).collect();
    assert_eq!(problems, [("RenderFailed", "writeStatus", true), ("RenderFailed", "second", true)]);
    let patched = |name: &str| {
        let asked = server.asked.lock().unwrap();
        asked
            .iter()
            .filter(|(method, uri, _)| method == "PATCH" && uri.contains(&format!("/memcacheds/{name}")))
            .count()
    };
    assert_eq!((patched("a"), patched("b")), (0, 1), "what it reads is not taken back");

    found(
        "first-a",
        failing(
            "configmaps \"first-a\" is forbidden: User \"us\" cannot get resource \"configmaps\" in API group \"\" in the namespace \"shop\"",
            403,
        ),
    );
    assert!(matches!(look("a").await, Again::Backoff(_)));
    let message = faults("a").remove(0).message;
    assert!(
        message.contains("own account us may not get configmaps in namespace shop")
            && message.contains("copyrator doctor"),
        "{message}"
    );

    found("first-a", (200, there));
    look("a").await;
    assert_eq!(faults("a"), []);
    assert_eq!(patched("a"), 1);
}

/// An instance that somebody edits all the time has its objects at once, and its pods are listed every two seconds.
#[tokio::test(start_paused = true)]
async fn pods_are_listed_every_two_seconds_however_often_an_instance_changes() {
    let mut world = world();
    world.settings_mut().copy_kinds.insert(Kind::Deployment);
    let pod = json!({"metadata": {"labels": {"app": "a"}}, "spec": {"containers": [{"name": "a", "image": "a:1"}]}});
    let spec = json!({"replicas": "${object.spec.size}", "selector": {"matchLabels": {"app": "a"}}, "template": pod});
    let deploy = json!({"id": "deploy", "template": {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": spec}});
    // It waits for a status that never comes.
    let waits = config_map("waits", json!({"is": "${string(deploy.status.replicas)}"}));
    let names = config_map("names", json!({"of": "${string(pods(deploy).size())}"}));
    let more = json!({"objects": [deploy, waits, names], "writeStatus": {"pods": "${pods(deploy).map(pod, pod.metadata.name)}"}});
    let each = template_for_each(&mut world, ("each", 1, 1), more);
    put(&mut world, ("shop", "a"), 1, json!({"spec": {"size": 1}}));
    settle(&mut world);
    let server = Server::default();
    let web = json!({"apiVersion": "apps/v1", "kind": "Deployment", "spec": {"selector": {"matchLabels": {"app": "a"}}},
        "metadata": {"name": "web", "namespace": "shop", "uid": uid(&world, Kind::Deployment, "web")}});
    server.found.lock().unwrap().insert("/deployments/web".to_owned(), (200, web));
    let reconciler = started(&server, world);
    let listed = || server.asked.lock().unwrap().iter().filter(|(_, uri, _)| uri.contains("/pods?")).count();
    let look = async || reconciler.renderings.handle(&each, &of("a")).await;
    let rendered = |id: &str| -> Option<Value> {
        let world = reconciler.context.world();
        let set = world.rendered(&each, &of("a")).unwrap();
        let body = set.objects.iter().find(|object| object.slot.name.starts_with(id))?.body.clone();
        serde_json::from_str(body.expose()).ok()
    };
    let status = || {
        let world = reconciler.context.world();
        let status = world.rendered(&each, &of("a")).unwrap().status.clone();
        status.map(|status| status.expose().to_owned())
    };
    look().await;
    assert_eq!((listed(), rendered("names").unwrap()["data"]["of"].clone()), (1, json!("1")));
    let known = status();
    assert_eq!(known.as_deref(), Some(r#"{"pods":["web-1-a"]}"#));
    for size in 2..20 {
        put(&mut reconciler.context.world_mut(), ("shop", "a"), size, json!({"spec": {"size": size}}));
        assert!(matches!(look().await, Again::After(_)), "it comes back for its pods");
        assert_eq!(rendered("web").unwrap()["spec"]["replicas"], size, "at once");
        assert_eq!((listed(), status()), (1, known.clone()), "what was read of pods stands");
    }
    tokio::time::advance(super::super::LOOK_AGAIN).await;
    look().await;
    assert_eq!(listed(), 2);
    assert!(rendered("names").is_some());
}
