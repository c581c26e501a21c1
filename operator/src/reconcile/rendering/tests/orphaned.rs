//! `kubectl delete --cascade=orphan` of an instance, where the watch of the objects is ahead of the watch of
//! the instances.

use std::sync::{Arc, Mutex};

use http::Method;
use serde_json::{Value, json};

use super::{
    instances::{put, template_for_each, world_with_kind},
    settle,
};
use crate::{
    model::{Authority, Owner},
    names::{Kind, ObjectKey},
    reconcile::{
        context::now,
        tests::{Oracle, Server, reconciler},
    },
};

/// The writes of the object, where the API server has these instances and the object has lost its owner.
async fn writes(instances: Value) -> usize {
    let mut world = world_with_kind();
    let each = template_for_each(&mut world, ("each", 1, 1), json!({}));
    let fresh = Authority { asked: now(), ..world.rule_authority(&each).unwrap().clone() };
    world.set_rule_authority(&each, fresh);
    put(&mut world, ("shop", "a"), 1, json!({"spec": {"size": 3}}));
    assert_eq!(settle(&mut world), ["ConfigMap shop/cache-a"]);
    let slot = ObjectKey::new(Kind::ConfigMap, "shop", "cache-a");
    let mut facts = world.object(&slot).unwrap().clone();
    assert_ne!(facts.owners, Owner::NONE);
    (facts.owners, facts.resource_version) = (Owner::NONE, "9".into());
    let metadata = json!({"namespace": "shop", "name": "cache-a", "uid": *facts.uid, "resourceVersion": "9"});
    let object =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"size": "3"}});
    world.set_object(slot.clone(), Some(facts));

    let server = Server::default();
    let list = json!({"apiVersion": "cache.example.com/v1", "kind": "MemcachedList", "metadata": {}, "items": instances});
    let found = [("/namespaces/shop/memcacheds", list), ("/configmaps/cache-a", object)];
    server.found.lock().unwrap().extend(found.map(|(path, answer)| (path.to_owned(), (200, answer))));
    let reconciler = reconciler(&server, &Arc::new(Oracle(Mutex::new(Some(true)))), world);
    reconciler.context.queue().open();
    reconciler.slots.handle(&slot).await;
    let asked = server.asked.lock().unwrap();
    let is_write = |uri: &str| uri.contains("/configmaps/cache-a") && !uri.contains("dryRun");
    asked.iter().filter(|(method, uri, _)| *method == Method::PATCH && is_write(uri)).count()
}

/// With its owner back, Kubernetes would delete the object that the user keeps.
#[tokio::test]
async fn an_object_gets_its_owner_back_only_while_its_instance_lives() {
    let instance = |uid: &str, more: Value| {
        let mut metadata = json!({"name": "a", "namespace": "shop", "uid": uid});
        metadata.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        json!([{"apiVersion": "cache.example.com/v1", "kind": "Memcached", "metadata": metadata}])
    };
    assert_eq!(writes(instance("shop-a", json!({}))).await, 1, "somebody has removed the owner");
    let deleted = json!({"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["orphan"]});
    for (instances, case) in [
        (instance("shop-a", deleted), "being deleted"),
        (instance("other", json!({})), "made anew"),
        (json!([]), "gone"),
    ] {
        assert_eq!(writes(instances).await, 0, "{case}");
    }
}
