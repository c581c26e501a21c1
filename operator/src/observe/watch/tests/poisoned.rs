//! What somebody writes that cannot be read, and lists that fail.

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
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Client,
    client::Body,
    runtime::watcher::Event::{Apply, Delete, Init, InitApply, InitDone},
};
use prometheus_client::metrics::counter::Counter;
use serde_json::{Value, json};

use super::super::*;
use crate::{
    intake::object::Slim,
    model::{UnreadObject, World},
    names::{Kind, ObjectKey},
    observe::observer::{Listed, Requests},
    plan::Key,
};

/// Counts how often statuses were asked for.
#[derive(Default)]
struct Asked(AtomicUsize);

impl Requests for Asked {
    fn request(&self, changed: &Changed, _: BTreeSet<Key>) {
        self.0.fetch_add(usize::from(*changed == Changed::Lists), Ordering::Relaxed);
    }

    fn complete(&self, _: Option<Listed>) {}
}

fn observer() -> (Observer, Arc<Asked>) {
    let mut world = World::default();
    world.settings_mut().stores = [Store::ConfigMaps].into();
    let asked = Arc::new(Asked::default());
    let observer = Observer {
        world: Arc::new(RwLock::new(world)),
        requests: asked.clone(),
        events: Counter::default(),
        templates: Arc::default(),
    };
    (observer, asked)
}

fn object(name: &str) -> Value {
    json!({"metadata": {"namespace": "shop", "name": name, "uid": name, "resourceVersion": "1"}})
}

/// An object that no decoder takes; with a name, if one is given.
fn poison(name: Option<&str>) -> Value {
    json!({"metadata": {"namespace": "shop", "name": name, "resourceVersion": "2", "labels": 7}})
}

fn key(name: &str) -> ObjectKey {
    ObjectKey::new(Kind::ConfigMap, "shop", name)
}

/// The names that are known, and those that cannot be read.
fn known(observer: &Observer) -> (Vec<String>, Vec<String>) {
    let world = observer.world.read().unwrap();
    let read = world.objects().map(|(key, _)| key.name.to_string()).collect();
    (read, world.unreadable().map(|(object, _)| object.name().to_string()).collect())
}

/// Otherwise what is copied of it would be deleted.
#[test]
fn an_object_that_cannot_be_read_is_not_one_that_was_deleted() {
    let (observer, _) = observer();
    let mut intake = Intake::<Slim<ConfigMap>>::new(observer.clone());
    let decoded = |object: Value| serde_json::from_value::<Decoded<Slim<ConfigMap>>>(object).unwrap();
    let list = |intake: &mut Intake<_>, objects: &[Value]| {
        intake.take(Init);
        objects.iter().for_each(|object| intake.take(InitApply(decoded(object.clone()))));
        intake.take(InitDone);
    };
    let names = |names: &[&str]| names.iter().map(ToString::to_string).collect::<Vec<_>>();
    list(&mut intake, &[object("a"), object("b")]);
    list(&mut intake, &[poison(Some("a")), object("b"), poison(Some("c"))]);
    assert_eq!(known(&observer), (names(&["a", "b"]), names(&["a", "c"])), "the others are read");
    let why = |name: &str| {
        let world = observer.world.read().unwrap();
        world.why_unreadable(&UnreadObject::Object(key(name))).map(str::to_owned)
    };
    assert!(why("a").unwrap().contains("labels"), "{:?}", why("a"));

    // An object without a name may be any of those that the list lacks.
    list(&mut intake, &[object("a"), poison(None)]);
    assert_eq!(known(&observer), (names(&["a", "b"]), names(&["c"])));

    intake.take(Apply(decoded(poison(Some("b")))));
    intake.take(Apply(decoded(object("c"))));
    assert_eq!(known(&observer), (names(&["a", "b", "c"]), names(&["b"])));
    // That it is deleted can be read, whatever it is.
    intake.take(Delete(decoded(poison(Some("b")))));
    assert_eq!(known(&observer), (names(&["a", "c"]), names(&[])));
    intake.take(Apply(decoded(poison(Some("d")))));
    list(&mut intake, &[object("a")]);
    assert_eq!(known(&observer), (names(&["a"]), names(&[])), "what is gone from the list is gone");
}

/// With this number of [`server`], the second page of each list fails.
const SECOND_PAGE: usize = 2;

/// A server whose watch always says something that is no event, or whose lists fail: from the first page on, or the second one.
fn server(lists: &Arc<AtomicUsize>, is_failing: &'static AtomicUsize) -> Client {
    let lists = lists.clone();
    let service = tower::service_fn(move |request: Request<Body>| {
        let is_watch = request.uri().query().is_some_and(|query| query.contains("watch=true"));
        let (code, body) = if is_watch {
            let line = Bytes::from_static(b"{\"type\":\"NEVER\",\"object\":{}}\n");
            (
                200,
                Either::Left(StreamBody::new(futures::stream::iter([Ok::<_, Infallible>(Frame::data(
                    line,
                ))]))),
            )
        } else if is_failing.load(Ordering::Relaxed) == SECOND_PAGE
            && request.uri().query().is_some_and(|query| !query.contains("continue="))
        {
            let metadata = json!({"resourceVersion": "1", "continue": "more"});
            let page =
                json!({"kind": "List", "apiVersion": "v1", "metadata": metadata, "items": [object("a")]});
            (200, Either::Right(Full::new(Bytes::from(page.to_string()))))
        } else if is_failing.load(Ordering::Relaxed) > 0 {
            (500, Either::Right(Full::new(Bytes::from_static(b"away"))))
        } else {
            lists.fetch_add(1, Ordering::Relaxed);
            let list = json!({"kind": "List", "apiVersion": "v1", "metadata": {"resourceVersion": "1"}, "items": [object("a")]});
            (200, Either::Right(Full::new(Bytes::from(list.to_string()))))
        };
        async move { Ok::<_, Infallible>(Response::builder().status(code).body(body).unwrap()) }
    });
    Client::new(service, "default")
}

/// Such an event would come again for ever if the watch went on from where it was. And each list costs the API server.
#[tokio::test(start_paused = true)]
async fn after_an_event_that_is_none_everything_is_listed_anew_and_not_all_the_time() {
    static WELL: AtomicUsize = AtomicUsize::new(0);
    let ((observer, _), lists, stop) = (observer(), Arc::<AtomicUsize>::default(), CancellationToken::new());
    let api = Api::<Decoded<Slim<ConfigMap>>>::all(server(&lists, &WELL));
    let hour = Duration::from_secs(36_000);
    let watching = watch(api, watcher::Config::default(), observer, None, hour, stop.clone());
    let look = async {
        tokio::time::sleep(Duration::from_secs(600)).await;
        let listed = lists.load(Ordering::Relaxed);
        assert!((10..60).contains(&listed), "{listed} lists in ten minutes");
        stop.cancel();
    };
    futures::join!(watching, look);
}

#[tokio::test(start_paused = true)]
async fn a_list_that_fails_for_a_minute_is_told_until_it_works_again() {
    static FAILING: AtomicUsize = AtomicUsize::new(1);
    let ((observer, asked), lists, stop) =
        (observer(), Arc::<AtomicUsize>::default(), CancellationToken::new());
    let api = Api::<Decoded<Slim<ConfigMap>>>::all(server(&lists, &FAILING));
    let hour = Duration::from_secs(36_000);
    let watching = watch(api, watcher::Config::default(), observer.clone(), None, hour, stop.clone());
    let told = || {
        let world = observer.world.read().unwrap();
        let failing = world.failing_lists().map(|(list, _)| list.to_string()).collect::<Vec<_>>();
        (failing, asked.0.load(Ordering::Relaxed))
    };
    let look = async {
        tokio::time::sleep(Duration::from_secs(50)).await;
        assert_eq!(told(), (vec![], 0), "the API server may be starting");
        tokio::time::sleep(Duration::from_secs(100)).await;
        assert_eq!(told(), (vec!["ConfigMaps".to_owned()], 1));
        FAILING.store(0, Ordering::Relaxed);
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert_eq!((told(), lists.load(Ordering::Relaxed) > 0), ((vec![], 2), true));
        FAILING.store(SECOND_PAGE, Ordering::Relaxed);
        tokio::time::sleep(Duration::from_secs(150)).await;
        assert_eq!(told().0, ["ConfigMaps"], "its first page alone is no list");
        stop.cancel();
    };
    futures::join!(watching, look);
}
