//! The definition of rules is deleted and created again.

use std::{
    convert::Infallible,
    sync::{
        RwLock,
        atomic::{AtomicUsize, Ordering},
    },
};

use http::{Request, Response};
use http_body_util::{Either, Full, StreamBody};
use hyper::body::{Bytes, Frame};
use kube::{Client, client::Body};
use prometheus_client::metrics::counter::Counter;
use serde_json::json;

use super::super::*;
use crate::{
    api::{CopyratorRule, CopyratorTemplate},
    intake::AsWritten,
    model::World,
    observe::observer::{Listed, Requests},
    plan::Key,
};

/// Counts how often the keys affected by everything were asked for.
#[derive(Default)]
struct Counted(AtomicUsize);

impl Requests for Counted {
    fn request(&self, _: &Changed, _: BTreeSet<Key>) {}

    fn complete(&self, _: Option<Listed>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// The phases: there, deleted with its watch, or there again without the rules.
const THERE: usize = 0;
const GONE: usize = 1;
const ANEW: usize = 2;
/// An API server that has just started knows no roles for a moment, and refuses the definition alone.
const REFUSED: usize = 3;
/// It comes back right after it was looked for.
const COMING: usize = 4;

/// The watch of rules ends when the definition is deleted, and can only be started again with a list.
fn server(phase: &Arc<AtomicUsize>) -> Client {
    let phase = phase.clone();
    let service = tower::service_fn(move |request: Request<Body>| {
        let now = match phase.load(Ordering::Relaxed) {
            REFUSED => {
                phase.store(ANEW, Ordering::Relaxed);
                REFUSED
            }
            COMING => {
                phase.store(ANEW, Ordering::Relaxed);
                GONE
            }
            now => now,
        };
        let uri = request.uri();
        let is_watch = uri.query().is_some_and(|query| query.contains("watch=true"));
        let is_definition = uri.path().contains("customresourcedefinitions");
        let rule = json!({"apiVersion": "copyrator.dev/v1alpha1", "kind": "CopyratorRule",
            "metadata": {"namespace": "home", "name": "app", "uid": "r", "resourceVersion": "1"},
            "spec": {"source": {"kind": "ConfigMap", "names": ["app"]}, "targets": [{"names": ["shop"]}]}});
        let definition = |uid: &str| {
            json!({"apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadata",
                "metadata": {"name": "rules", "uid": uid, "creationTimestamp": "2026-01-01T00:00:00Z"}})
        };
        let rules = |items: serde_json::Value| {
            json!({"apiVersion": "copyrator.dev/v1alpha1", "kind": "CopyratorRuleList",
                "metadata": {"resourceVersion": "1"}, "items": items})
        };
        let answer = match (is_definition, is_watch, now) {
            (true, _, THERE) => Some(definition("before")),
            (true, _, ANEW) => Some(definition("after")),
            (false, false, THERE) => Some(rules(json!([rule]))),
            (false, false, ANEW) => Some(rules(json!([]))),
            _ => None,
        };
        let (code, reason) = if now == REFUSED { (403, "Forbidden") } else { (404, "NotFound") };
        let waits = is_watch && now == ANEW;
        if is_watch && now == THERE {
            phase.store(GONE, Ordering::Relaxed);
        }
        let (code, body) = match answer {
            Some(answer) => (200, Either::Right(Full::new(Bytes::from(answer.to_string())))),
            None if waits => {
                let never = futures::stream::pending::<Result<Frame<Bytes>, Infallible>>();
                (200, Either::Left(StreamBody::new(never)))
            }
            None => {
                let status = json!({"apiVersion": "v1", "kind": "Status", "status": "Failure", "code": code,
                    "reason": reason, "message": reason});
                (code, Either::Right(Full::new(Bytes::from(status.to_string()))))
            }
        };
        async move { Ok::<_, Infallible>(Response::builder().status(code).body(body).unwrap()) }
    });
    Client::new(service, "default")
}

/// The last thing that the watch reported may be the deletion of the definition: nothing counts as deleted
/// before rules are listed again. That takes seconds from when the definition is back, however long it was
/// away.
#[tokio::test(start_paused = true)]
async fn rules_are_in_doubt_from_when_their_watch_fails_until_they_are_listed_again() {
    let mut world = World::default();
    world.settings_mut().stores = [Store::ConfigMaps, Store::CopyratorRules].into();
    world.settings_mut().reads_definitions = true;
    world.set_listed(Store::ConfigMaps);
    let (world, requests) = (Arc::new(RwLock::new(world)), Arc::new(Counted::default()));
    let observer = Observer {
        world: world.clone(),
        requests: requests.clone(),
        events: Counter::default(),
        templates: Arc::default(),
    };
    let phase = Arc::new(AtomicUsize::new(THERE));
    let api = Api::<Decoded<AsWritten<CopyratorRule>>>::all(server(&phase));
    let stop = CancellationToken::new();
    let hours = Duration::from_secs(36_000);
    let watching = watch(api, watcher::Config::default(), observer, None, hours, stop.clone());
    let seen = || {
        let world = world.read().unwrap();
        let uid = world.definition().map(|definition| definition.uid.to_string());
        (world.rules().len(), uid, !world.is_in_doubt(), requests.0.load(Ordering::Relaxed))
    };
    let look = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(seen(), (1, Some("before".into()), false, 1));
        tokio::time::sleep(hours / 100).await;
        assert_eq!(seen(), (1, Some("before".into()), false, 1), "a list that failed says nothing");
        phase.store(ANEW, Ordering::Relaxed);
        tokio::time::sleep(Duration::from_secs(3)).await;
        assert_eq!(seen(), (0, Some("after".into()), true, 2));
        stop.cancel();
    };
    futures::join!(watching, look);
}

/// What is listed under no definition would not be removed before the next list.
#[tokio::test(start_paused = true)]
async fn a_definition_that_is_refused_or_absent_for_a_moment_is_read_again_before_the_list() {
    for phase in [REFUSED, COMING] {
        rules_are_listed_under_the_definition_after(phase).await;
    }
}

async fn rules_are_listed_under_the_definition_after(phase: usize) {
    let mut world = World::default();
    world.settings_mut().stores = [Store::ConfigMaps, Store::CopyratorRules].into();
    world.settings_mut().reads_definitions = true;
    let world = Arc::new(RwLock::new(world));
    let observer = Observer {
        world: world.clone(),
        requests: Arc::new(Counted::default()),
        events: Counter::default(),
        templates: Arc::default(),
    };
    let api = Api::<Decoded<AsWritten<CopyratorRule>>>::all(server(&Arc::new(AtomicUsize::new(phase))));
    let stop = CancellationToken::new();
    let watching =
        watch(api, watcher::Config::default(), observer, None, Duration::from_secs(36_000), stop.clone());
    let look = async {
        tokio::time::sleep(Duration::from_secs(60)).await;
        let world = world.read().unwrap();
        let uid = world.definition().map(|definition| &*definition.uid);
        assert_eq!(
            (uid, world.is_in_doubt(), world.unlisted().count()),
            (Some("after"), false, 1),
            "{phase}"
        );
        stop.cancel();
    };
    futures::join!(watching, look);
}

/// An install of an earlier version has no definition of templates: everything is looked at once, and not each time that
/// somebody looks whether the definition has come.
#[tokio::test(start_paused = true)]
async fn without_a_definition_of_templates_nothing_is_waited_for_and_nothing_looked_at_again() {
    let mut world = World::default();
    world.settings_mut().stores = [Store::ConfigMaps, Store::CopyratorTemplates].into();
    world.settings_mut().reads_definitions = true;
    world.set_listed(Store::ConfigMaps);
    let (world, requests) = (Arc::new(RwLock::new(world)), Arc::new(Counted::default()));
    let observer = Observer {
        world: world.clone(),
        requests: requests.clone(),
        events: Counter::default(),
        templates: Arc::default(),
    };
    let api = Api::<Decoded<AsWritten<CopyratorTemplate>>>::all(server(&Arc::new(AtomicUsize::new(GONE))));
    let stop = CancellationToken::new();
    let watching =
        watch(api, watcher::Config::default(), observer, None, Duration::from_secs(36_000), stop.clone());
    let look = async {
        for _ in 0..10 {
            tokio::time::sleep(Duration::from_secs(60)).await;
            let world = world.read().unwrap();
            let seen = (world.is_complete(), world.is_in_doubt(), requests.0.load(Ordering::Relaxed));
            assert_eq!(seen, (true, false, 1));
        }
        stop.cancel();
    };
    futures::join!(watching, look);
}
