//! Templates whose text does not have the types of a kind.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use http::{Request, Response};
use kube::{Client, client::Body};
use serde_json::{Value, json};

use super::{
    super::all::render_all,
    answer, at,
    instances::{actions, put, ready, settle, template_for_each, world_with_kind},
};
use crate::{
    model::WriteFault,
    names::{InstanceName, Kind, ObjectKey},
    plan::{
        Key,
        copy::{Acted, plan_slot, settle_slot, template_report},
    },
    reconcile::{
        Again, Lane,
        tests::{Oracle, Server, reconciler},
        typed::judge_all,
    },
};

/// An API server that publishes the schemas of these groups and versions, and refuses to all others.
fn publishing(schemas: Value) -> Client {
    let service = tower::service_fn(move |request: Request<Body>| {
        let path = request.uri().path().trim_start_matches("/openapi/v3").to_owned();
        let paths: serde_json::Map<String, Value> = schemas
            .as_object()
            .unwrap()
            .keys()
            .map(|path| (path.clone(), json!({"serverRelativeURL": format!("/openapi/v3/{path}?hash=1")})))
            .collect();
        let found = match path.trim_start_matches('/') {
            "" => Some(json!({"paths": paths})),
            path => schemas
                .get(path)
                .filter(|schemas| !schemas.is_null())
                .map(|it| json!({"components": {"schemas": it}})),
        };
        async move {
            let (code, body) = found.map_or((404, json!({})), |body| (200, body));
            let body = Body::from(body.to_string().into_bytes());
            Ok::<_, std::convert::Infallible>(Response::builder().status(code).body(body).unwrap())
        }
    });
    Client::new(service, "default")
}

fn maps() -> Value {
    let data = json!({"type": "object", "additionalProperties": {"type": "string"}});
    json!({"ConfigMap": {"type": "object", "properties": {"data": data},
        "x-kubernetes-group-version-kind": [{"group": "", "version": "v1", "kind": "ConfigMap"}]}})
}

fn objects(name: &str, size: Value) -> Value {
    let metadata = json!({"name": format!("{name}-${{object.metadata.name}}")});
    json!([{"id": "cache", "template": {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"size": size}}}])
}

#[tokio::test]
async fn what_the_api_server_would_refuse_is_told_once_and_leaves_everything_as_it_is() {
    let mut world = world_with_kind();
    let each = template_for_each(&mut world, ("each", 1, 1), json!({}));
    put(&mut world, ("shop", "a"), 1, json!({"spec": {"size": 3}}));
    put(&mut world, ("shop", "b"), 1, json!({"spec": {"size": 3}}));
    assert_eq!(settle(&mut world), ["ConfigMap shop/cache-a", "ConfigMap shop/cache-b"]);

    // Under another name, so that the old ones would have to go.
    template_for_each(&mut world, ("each", 1, 2), json!({"objects": objects("new", json!(3))}));
    assert!(judge_all(&publishing(json!({"api/v1": maps()})), &mut world).await.is_empty());
    render_all(&mut world);
    assert_eq!(actions(&world), []);
    let (status, reason, message) = ready(&world, &each);
    assert_eq!((&*status, &*reason), ("False", "TypeError"));
    let said = "spec.objects[cache].template.data.size: is 3, and ConfigMap of v1 takes a text here: write it in quotes, \"3\"; nothing is \
                written or removed until the template or the definition of the kind is changed";
    assert_eq!(message, said);
    let report = template_report(&world, &each, at(100)).unwrap();
    let types: Vec<&str> = report.status.conditions.iter().map(|one| &*one.type_).collect();
    assert_eq!((types, report.status.problem_count), (vec!["Ready", "Authorized", "Stalled"], 1));

    // Another text is another matter.
    template_for_each(&mut world, ("each", 1, 3), json!({"objects": objects("cache", json!("3"))}));
    assert!(judge_all(&publishing(json!({"api/v1": maps()})), &mut world).await.is_empty());
    settle(&mut world);
    assert_eq!(ready(&world, &each).1, "AllRendered");
}

#[tokio::test]
async fn where_schemas_are_not_known_nothing_waits_for_them() {
    let mut world = world_with_kind();
    let each = template_for_each(
        &mut world,
        ("each", 1, 1),
        json!({"objects": objects("new", json!("${string(object.spec.size)}"))}),
    );
    put(&mut world, ("shop", "a"), 1, json!({"spec": {"size": 3}}));
    for (published, unread) in [(json!({}), 0), (json!({"api/v1": {}}), 0), (json!({"api/v1": null}), 1)] {
        let unknown = judge_all(&publishing(published.clone()), &mut world).await;
        assert_eq!(unknown.len(), unread, "{published}: {unknown:?}");
        let report = world.typed(&each).unwrap();
        assert_eq!((report.faults.len(), report.is_whole), (0, false));
        settle(&mut world);
        assert_eq!(ready(&world, &each).1, "AllRendered");
    }
}

/// Schemas are large, and one template is judged at a time: one that may do nothing keeps back none of others.
#[tokio::test]
async fn a_template_is_judged_once_it_may_and_writes_nothing_before() {
    let mut world = world_with_kind();
    world.settings_mut().judges_types = true;
    let each = template_for_each(&mut world, ("each", 1, 1), json!({}));
    put(&mut world, ("shop", "a"), 1, json!({"spec": {"size": 3}}));
    assert_eq!(settle(&mut world), [""; 0], "nothing is written before");
    let (status, reason, message) = ready(&world, &each);
    assert_eq!((&*status, &*reason), ("True", "Rendering"), "{message}");
    assert!(message.contains("held against the schemas"), "{message}");
    answer(&mut world, &each, false);
    // Nobody knows who wrote it, so the answer is no without a question.
    let server = Server::default();
    server.found.lock().unwrap().insert("/openapi/v3".to_owned(), (200, json!({"paths": {}})));
    let schemas =
        || server.asked.lock().unwrap().iter().filter(|(_, uri, _)| uri.contains("openapi")).count();
    let reconciler = reconciler(&server, &Arc::new(Oracle(Mutex::new(Some(true)))), world);
    let queue = reconciler.context.queue();
    queue.open();
    reconciler.rules.handle(&each).await;
    assert_eq!(schemas(), 0, "it may not");
    assert!(reconciler.context.world().typed(&each).is_none());

    answer(&mut reconciler.context.world_mut(), &each, true);
    queue.add(Key::Rule(each.clone()), Lane::Change);
    let told = reconciler.look_at(&Key::RuleStatus(each.clone())).await;
    assert!(matches!(told, Again::After(_)), "its status waits for the verdict: {told:?}");
    reconciler.rules.types.judge(&each).await;
    assert_eq!(schemas(), 1);
    let rendering =
        Key::Rendering(each.clone(), InstanceName { namespace: "shop".into(), object: Some("a".into()) });
    assert!(queue.is_at(&rendering), "that it is judged asks for what it declares");
    let mut world = reconciler.context.world_mut();
    assert_eq!(settle(&mut world), ["ConfigMap shop/cache-a"]);
    assert_eq!(ready(&world, &each).1, "AllRendered");
}

/// What the API server finds invalid waits for a change; that of a definition is seen by the address of its schema.
#[tokio::test(start_paused = true)]
async fn what_is_invalid_is_tried_again_when_the_definition_of_its_kind_is_another() {
    let mut world = world_with_kind();
    let each = template_for_each(&mut world, ("each", 1, 1), json!({}));
    put(&mut world, ("shop", "a"), 1, json!({"spec": {"size": 3}}));
    render_all(&mut world);
    let slot = ObjectKey::new(Kind::ConfigMap, "shop", "cache-a");
    let action = plan_slot(&world, &slot, at(100)).action.unwrap();
    let server = Server::default();
    let publish = |hash: u8| {
        let index =
            json!({"paths": {"api/v1": {"serverRelativeURL": format!("/openapi/v3/api/v1?hash={hash}")}}});
        let mut found = server.found.lock().unwrap();
        found.insert("/openapi/v3".to_owned(), (200, index));
        found.insert("/openapi/v3/api/v1".to_owned(), (200, json!({"components": {"schemas": maps()}})));
    };
    publish(1);
    let reconciler = reconciler(&server, &Arc::new(Oracle(Mutex::new(Some(true)))), world);
    reconciler.context.queue().open();
    assert_eq!(reconciler.rules.types.judge(&each).await, None, "nothing is to be looked at again");
    // The verdict asked for everything.
    reconciler.context.queue().close();
    reconciler.context.queue().open();
    let refused = || {
        let invalid = Acted::Refused(WriteFault::Unfit, "invalid".into());
        settle_slot(&mut reconciler.context.world_mut(), &slot, &action, invalid, at(100));
    };
    let is_held = || reconciler.context.world().memory().slot(&slot).attempt().is_some();
    refused();
    let again = Some(Duration::from_secs(60));
    for (hash, held) in [(1, true), (2, false)] {
        publish(hash);
        tokio::time::advance(Duration::from_secs(60)).await;
        assert_eq!(reconciler.rules.types.judge(&each).await, again);
        assert_eq!((is_held(), reconciler.context.queue().is_at(&Key::Slot(slot.clone()))), (held, !held));
    }
    tokio::time::advance(Duration::from_secs(60)).await;
    assert_eq!(reconciler.rules.types.judge(&each).await, None, "it is over");
}
