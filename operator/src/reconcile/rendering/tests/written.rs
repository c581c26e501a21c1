//! What becomes of writes into statuses, against a server that answers as told.

use std::{
    convert::Infallible,
    sync::{Arc, Mutex, RwLock},
};

use http::{Method, Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use kube::client::Body;
use serde_json::{Value, json};

use super::{
    super::*,
    at,
    instances::{kind, put, template_for_each, world_with_kind},
};
use crate::{
    act::leader::IsLeader,
    connect::WriteClient,
    model::World,
    names::{GrantedKinds, TemplateKind},
    plan::copy::template_report,
};

/// The answer to a patch with this body.
type Answer = dyn Fn(&Value) -> (u16, Value) + Send + Sync;

struct Always;

impl IsLeader for Always {
    fn is_leader(&self) -> bool {
        true
    }
}

/// A template that writes a status, and the API server.
struct Story {
    handler: RenderingHandler,
    template: Declarer,
    patches: Arc<Mutex<Vec<(String, Value)>>>,
    version: i64,
}

fn of_a() -> InstanceName {
    InstanceName { namespace: "shop".into(), object: Some("a".into()) }
}

impl Story {
    /// With this use granted, and this `writeStatus`; the API server answers so.
    fn new(
        used: &str,
        status: Value,
        answer: impl Fn(&Value) -> (u16, Value) + Send + Sync + 'static,
    ) -> Self {
        let mut world = world_with_kind();
        let granted = format!("cache.example.com/v1/Memcached/memcacheds/forEach+{used}");
        let granted = TemplateKind::read(&granted, &GrantedKinds::default()).unwrap();
        world.settings_mut().template_kinds = [granted].into();
        let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "made"}});
        let more = json!({"objects": [{"id": "made", "template": object}], "writeStatus": status});
        let template = template_for_each(&mut world, ("each", 1, 1), more);
        let (patches, answer): (_, Arc<Answer>) = (Arc::new(Mutex::new(Vec::new())), Arc::new(answer));
        let log = patches.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let (log, answer) = (log.clone(), answer.clone());
            async move {
                assert_eq!(request.method(), Method::PATCH);
                let path = request.uri().path().to_owned();
                let body = request.into_body().collect().await.unwrap().to_bytes();
                let body: Value = serde_json::from_slice(&body).unwrap();
                let (code, answer) = answer(&body);
                log.lock().unwrap().push((path, body));
                let answer = Full::<Bytes>::from(answer.to_string());
                Ok::<_, Infallible>(Response::builder().status(code).body(answer).unwrap())
            }
        });
        let client = Client::new(service, "default");
        let writer = Writer::new(WriteClient::of(client.clone()), Arc::new(Always));
        let context = Context::new(Arc::new(RwLock::new(world)), Arc::default());
        let handler = RenderingHandler {
            context,
            client,
            writer,
            looked: Mutex::default(),
            processor: Processor::default(),
        };
        let mut story = Self { handler, template, patches, version: 0 };
        story.put(json!({"spec": {"size": 3}}));
        story
    }

    /// The object as a watch brings it; returns whether it is news.
    fn put(&mut self, more: Value) -> bool {
        self.version += 1;
        put(&mut self.handler.context.world_mut(), ("shop", "a"), self.version, more)
    }

    /// Looks at it once the two seconds between two looks have passed; returns how many patches there were.
    async fn look(&self) -> (Again, usize) {
        self.handler.looked().clear();
        let before = self.patches.lock().unwrap().len();
        let again = self.handler.handle(&self.template, &of_a()).await;
        (again, self.patches.lock().unwrap().len() - before)
    }

    async fn patches(&self) -> usize {
        self.look().await.1
    }

    /// The time is over after which Copyrator tries again.
    fn time_passes(&self) {
        let world = &mut *self.handler.context.world_mut();
        let seen: Value = {
            let object = world.instance(&kind(), &of_a().object().unwrap()).unwrap();
            serde_json::from_str(object.body.as_ref().unwrap().expose()).unwrap()
        };
        let answer = world.rendered(&self.template, &of_a()).unwrap().status_answer.clone().unwrap();
        let fault = answer.fault.map(|(fault, _)| (fault, at(0)));
        world.set_status_answer(&self.template, &of_a(), &seen, fault);
    }

    fn degraded(&self) -> (String, String) {
        let world: &World = &self.handler.context.world();
        let report = template_report(world, &self.template, at(100)).unwrap();
        let found = report.status.conditions.into_iter().find(|one| one.type_ == "Degraded");
        found.map(|one| (one.reason, one.message)).unwrap_or_default()
    }
}

fn not_found(_: &Value) -> (u16, Value) {
    let details = json!({"name": "a", "group": "cache.example.com", "kind": "memcacheds"});
    let message = "memcacheds.cache.example.com \"a\" not found";
    (
        404,
        json!({"kind": "Status", "status": "Failure", "code": 404, "reason": "NotFound", "message": message, "details": details}),
    )
}

/// An object with this status.
fn stored(version: u64, status: Value) -> (u16, Value) {
    let metadata =
        json!({"namespace": "shop", "name": "a", "uid": "shop-a", "resourceVersion": version.to_string()});
    (
        200,
        json!({"apiVersion": "cache.example.com/v1", "kind": "Memcached", "metadata": metadata, "status": status}),
    )
}

/// The API server answers alike where there is no such object, of which an event is on its way.
#[tokio::test]
async fn a_subresource_that_is_not_there_is_told_and_not_asked_for_again() {
    let mut story = Story::new("status", json!({"size": "${object.spec.size}"}), not_found);
    let (again, patches) = story.look().await;
    assert_eq!((again, patches), (Again::After(LOOK_AGAIN), 1));
    assert_eq!(story.degraded().0, "", "the object may be gone");
    story.time_passes();
    let (again, patches) = story.look().await;
    assert_eq!((again, patches), (Again::After(REFUSED_AGAIN), 1));
    for _ in 0..3 {
        let (reason, message) = story.degraded();
        let entry = "resource: memcacheds, use: [forEach, statusField]}";
        assert!(reason == "NotKept" && message.contains(entry), "{reason}: {message}");
        let metadata = json!({"annotations": {"seen": story.version.to_string()}});
        assert!(!story.put(json!({"metadata": metadata, "spec": {"size": 3}})), "nothing reads it");
        let (again, patches) = story.look().await;
        assert!(patches == 0 && matches!(again, Again::After(wait) if wait > LOOK_AGAIN), "{again:?}");
    }
    assert!(story.put(json!({"spec": {"size": 4}})));
    assert_eq!(story.patches().await, 1, "another status is another matter");
    story.time_passes();
    assert_eq!(story.patches().await, 1, "the definition may be another one");
}

#[tokio::test]
async fn a_status_that_the_api_server_drops_is_told_and_not_written_again() {
    let mut story =
        Story::new("statusField", json!({"size": "${object.spec.size}"}), |_| stored(1, Value::Null));
    assert_eq!(story.look().await, (Again::After(REFUSED_AGAIN), 1));
    for _ in 0..3 {
        let (reason, message) = story.degraded();
        let entry = "resource: memcacheds, use: [forEach, status]}";
        assert!(reason == "NotKept" && message.contains(entry), "{reason}: {message}");
        assert!(!story.put(json!({"spec": {"size": 3}})));
        assert_eq!(story.patches().await, 0);
    }
    story.time_passes();
    assert_eq!(story.patches().await, 1);
}

/// Others add to a map or a list with keys, and the API server leaves a null out.
#[tokio::test]
async fn what_came_back_of_a_write_is_not_written_over_again() {
    let status = json!({"sizes": {"a": "${object.spec.size}"}, "note": null, "gone": "${object.spec.?gone.orValue([])}"});
    let mut story =
        Story::new("status", status, |_| stored(1, json!({"sizes": {"a": 3, "theirs": 1}, "gone": []})));
    assert_eq!(story.look().await, (Again::OnChange, 1));
    for theirs in [1, 2] {
        let seen = json!({"spec": {"size": 3}, "status": {"sizes": {"a": 3, "theirs": theirs}, "gone": [], "other": 1}});
        let is_news = story.put(seen);
        assert_eq!((is_news, story.patches().await), (theirs == 2, theirs - 1), "{theirs}");
    }
    assert_eq!(story.degraded().0, "");
    let fewer = json!({"spec": {"size": 3}, "status": {"sizes": {"theirs": 1}, "gone": []}});
    assert!(story.put(fewer));
    assert_eq!(story.patches().await, 1, "somebody has taken it away");
}

/// An operator that writes one field by hand does not stop the others.
#[tokio::test]
async fn fields_that_nobody_else_owns_are_written_beside_one_that_somebody_owns() {
    let status = json!({"a": "${object.spec.size}", "b": "${object.spec.size + 1}"});
    let mut story = Story::new("statusField", status, |body| match body["status"].get("a") {
        Some(_) => {
            let cause = json!({"reason": "FieldManagerConflict", "field": ".status.a", "message": "conflict with \"kubectl-edit\""});
            let message = "Apply failed with 1 conflict: conflict with \"kubectl-edit\": .status.a";
            let answer = json!({"kind": "Status", "status": "Failure", "code": 409, "reason": "Conflict", "message": message,
                "details": {"causes": [cause]}});
            (409, answer)
        }
        None => stored(2, json!({"a": 9, "b": body["status"]["b"]})),
    });
    assert_eq!(story.look().await, (Again::After(REFUSED_AGAIN), 2));
    let last = story.patches.lock().unwrap().last().unwrap().1.clone();
    assert_eq!((&last["status"], &last["metadata"]["uid"]), (&json!({"b": 4}), &json!("shop-a")));
    let (reason, message) = story.degraded();
    assert!(reason == "FieldOwned" && message.contains("kubectl-edit"), "{reason}: {message}");
    // Its owner lets it go.
    assert!(story.put(json!({"spec": {"size": 3}, "status": {"a": 9, "b": 4}})));
    assert_eq!(story.patches().await, 2, "Copyrator tries again");
}

#[tokio::test]
async fn a_field_that_has_no_value_any_more_is_taken_back_and_the_last_one_too() {
    let status = json!({"a": "${object.spec.?a}", "b": "${object.spec.?b}"});
    let mut story = Story::new("status", status, |body| stored(1, body["status"].clone()));
    let manager = crate::marks::status_manager(&story.template);
    let managers = |written: Value| json!([{"manager": manager, "operation": "Apply", "subresource": "status", "fieldsV1": {"f:status": written}}]);
    story.put(json!({"spec": {"a": 1, "b": 2}}));
    assert_eq!(story.patches().await, 1);
    for (spec, before, is_written) in [
        (json!({"a": 1, "b": 2}), json!({"f:a": {}, "f:b": {}}), None),
        (json!({"a": 1}), json!({"f:a": {}, "f:b": {}}), Some(json!({"a": 1}))),
        (json!({"a": 1}), json!({"f:a": {}}), None),
        (json!({}), json!({"f:a": {}}), Some(Value::Null)),
        (json!({}), json!({}), None),
    ] {
        let there: serde_json::Map<String, Value> = before
            .as_object()
            .unwrap()
            .keys()
            .map(|field| (field[2..].to_owned(), if field == "f:a" { json!(1) } else { json!(2) }))
            .collect();
        story.put(json!({"spec": spec, "status": there, "metadata": {"managedFields": managers(before)}}));
        assert_eq!(story.patches().await, usize::from(is_written.is_some()), "{spec}");
        if let Some(written) = is_written {
            assert_eq!(story.patches.lock().unwrap().last().unwrap().1["status"], written, "{spec}");
        }
    }
}
