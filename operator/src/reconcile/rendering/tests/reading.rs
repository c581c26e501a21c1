//! Objects of a template that read each other, and statuses that are written.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::{
    act, at,
    instances::{kind, put, template_for_each, world_with_kind},
    plans,
};
use crate::{
    intake::{object::Slim, watched::Watched},
    model::World,
    names::{Declarer, GrantedKinds, InstanceName, Kind, NamespacedName, ObjectKey, TemplateKind},
    plan::{
        Changed, Key, affected,
        copy::{CopyAction, SlotState, template_report},
    },
    render::all::render_with,
};

fn config_map(id: &str, data: Value) -> Value {
    json!({"id": id, "template": {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": id}, "data": data}})
}

fn slot(name: &str) -> ObjectKey {
    ObjectKey::new(Kind::ConfigMap, "shop", name)
}

fn of_a() -> InstanceName {
    InstanceName { namespace: "shop".into(), object: Some("a".into()) }
}

fn settle(world: &mut World, given: &BTreeMap<ObjectKey, Value>) -> Vec<String> {
    render_with(world, given);
    act(world)
}

fn condition(world: &World, template: &Declarer, kind: &str) -> (String, String) {
    let report = template_report(world, template, at(100)).unwrap();
    let found = report.status.conditions.into_iter().find(|one| one.type_ == kind);
    found.map(|one| (one.reason, one.message)).unwrap_or_default()
}

#[test]
fn an_object_that_reads_another_waits_for_the_templates_own() {
    let mut world = world_with_kind();
    let reads = config_map("second", json!({"uid": "${first.metadata.uid}"}));
    let objects = json!([reads, config_map("first", json!({"of": "${object.metadata.name}"}))]);
    let each = template_for_each(&mut world, ("each", 1, 1), json!({"objects": objects}));
    put(&mut world, ("shop", "a"), 1, json!({}));
    let found: BTreeMap<ObjectKey, Value> =
        [(slot("first"), json!({"metadata": {"name": "first", "uid": "one"}}))].into();

    // Somebody else's object in its place is not it.
    let foreign =
        json!({"metadata": {"namespace": "shop", "name": "first", "uid": "foreign", "resourceVersion": "1"}});
    serde_json::from_value::<Slim<k8s_openapi::api::core::v1::ConfigMap>>(foreign)
        .unwrap()
        .put(&mut world, at(0));
    assert_eq!(settle(&mut world, &found), ["ConfigMap shop/first"]);
    let (reason, message) = condition(&world, &each, "Reconciling");
    assert_eq!((&*reason, &*message), ("WaitingFor", "for Memcached a: second waits for first"));
    // Nothing is in order and nothing can be written: that is not ready.
    assert_eq!(condition(&world, &each, "Ready").0, "WaitingFor");
    world.set_object(slot("first"), None);

    assert_eq!(settle(&mut world, &found), ["ConfigMap shop/first"]);
    assert!(
        affected(&world, &Changed::Object(slot("first"))).contains(&Key::Rendering(each.clone(), of_a()))
    );
    assert_eq!(settle(&mut world, &found), ["ConfigMap shop/first", "ConfigMap shop/second"]);
    assert!(
        !affected(&world, &Changed::Object(slot("second"))).contains(&Key::Rendering(each.clone(), of_a()))
    );
    assert_eq!(condition(&world, &each, "Ready").0, "AllRendered");

    // What reads it stays as it is while it is away.
    world.set_object(slot("first"), None);
    render_with(&mut world, &found);
    let plans = plans(&world);
    assert!(matches!(plans[&slot("first")].action, Some(CopyAction::Write(_))));
    assert_eq!((&plans[&slot("second")].action, &plans[&slot("second")].state), (&None, &SlotState::Kept));
}

#[test]
fn a_status_is_rendered_from_what_is_there_and_its_drift_is_news() {
    let mut world = world_with_kind();
    let status = json!({"uid": "${first.metadata.uid}", "size": "${object.spec.size}"});
    let objects = json!([config_map("first", json!({}))]);
    let each =
        template_for_each(&mut world, ("each", 1, 1), json!({"objects": objects, "writeStatus": status}));
    let (reason, message) = condition(&world, &each, "Ready");
    assert_eq!(reason, "KindNotGranted", "nothing may write the status");
    let entry = r#"[{"apiVersion":"cache.example.com/v1","kind":"Memcached","resource":"memcacheds","use":["forEach","status"]}]"#;
    let lacks = "may not write the status of Memcached of cache.example.com/v1;";
    assert!(message.contains(lacks) && !message.contains("reads no"), "{message}");
    assert!(message.contains(entry) && message.contains("needs statusField"), "{message}");
    let granted = "cache.example.com/v1/Memcached/memcacheds/forEach+statusField";
    let granted = TemplateKind::read(granted, &GrantedKinds::default()).unwrap();
    world.settings_mut().template_kinds = [granted].into();
    put(&mut world, ("shop", "a"), 1, json!({"spec": {"size": 3}}));
    let found: BTreeMap<ObjectKey, Value> =
        [(slot("first"), json!({"metadata": {"name": "first", "uid": "one"}}))].into();
    let written = |world: &World| -> Value {
        let set = world.rendered(&each, &of_a()).unwrap();
        set.status.as_ref().map(|status| serde_json::from_str(status.expose()).unwrap()).unwrap_or_default()
    };
    settle(&mut world, &found);
    assert_eq!(written(&world), json!({"size": 3}), "what it reads is not there yet");
    settle(&mut world, &found);
    assert_eq!(written(&world), json!({"uid": "one", "size": 3}));

    let done = json!({"spec": {"size": 3}, "status": {"uid": "one", "size": 3, "other": "x"}});
    put(&mut world, ("shop", "a"), 2, done.clone());
    assert!(!put(&mut world, ("shop", "a"), 3, done), "it is as it should be");
    let set = world.rendered(&each, &of_a()).unwrap();
    assert!(set.is_written(&json!({"status": {"uid": "one", "size": 3, "other": "y"}})));
    assert!(put(
        &mut world,
        ("shop", "a"),
        4,
        json!({"spec": {"size": 3}, "status": {"uid": "two", "size": 3}})
    ));
    assert_eq!(condition(&world, &each, "Ready").0, "AllRendered", "objects are as they should be");
    let instance = Changed::Instance(kind(), NamespacedName::new("shop", "a"));
    assert!(affected(&world, &instance).contains(&Key::Rendering(each, of_a())));
}
