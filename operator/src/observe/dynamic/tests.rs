use std::{
    convert::Infallible,
    sync::{
        Arc, RwLock,
        atomic::{AtomicUsize, Ordering},
    },
};

use http::{Request, Response};
use http_body_util::{Either, Full, StreamBody};
use hyper::body::{Bytes, Frame};
use jiff::Timestamp;
use kube::client::Body;
use prometheus_client::metrics::counter::Counter;
use serde_json::{Value, json};

use super::*;
use crate::{
    api::CopyratorTemplate,
    intake::{AsWritten, watched::Watched as _},
    names::{GrantedKinds, NamespacedName, TemplateKind},
    observe::observer::{Listed, Requests},
    plan::Key,
    read::instances::InstancesOf,
};

struct Unheard;

impl Requests for Unheard {
    fn request(&self, _: &Changed, _: BTreeSet<Key>) {}

    fn complete(&self, _: Option<Listed>) {}
}

/// The API server answers, and its watch says nothing.
const WELL: usize = 0;
/// It says so for the first time of the kind.
const FAILING: usize = 1;
/// Nothing answers.
const AWAY: usize = 2;

/// A server that has one object less each time it was not well, and says of the kind that it is of this scope and plural.
fn server(phase: &Arc<AtomicUsize>, lists: &Arc<AtomicUsize>, served: Value) -> Client {
    let (phase, lists) = (phase.clone(), lists.clone());
    let service = tower::service_fn(move |request: Request<Body>| {
        let (now, path) = (phase.load(Ordering::Relaxed), request.uri().path().to_owned());
        let is_watch = request.uri().query().is_some_and(|query| query.contains("watch=true"));
        let answer = |code: u16, body: Value| {
            Response::builder()
                .status(code)
                .body(Either::Right(Full::new(Bytes::from(body.to_string()))))
                .unwrap()
        };
        let answer = match (now, path.ends_with("/v1"), is_watch) {
            (AWAY, ..) => Err(std::io::Error::other("connection refused")),
            (_, true, _) => {
                Ok(answer(200, json!({"groupVersion": "cache.example.com/v1", "resources": [served]})))
            }
            (FAILING, ..) => {
                let status = json!({"kind": "Status", "status": "Failure", "code": 500, "reason": "", "message": "its conversion"});
                Ok(answer(500, status))
            }
            (_, _, true) => {
                // A moment later the watch ends, as the API server ends each.
                let end = futures::stream::once(async {
                    tokio::time::sleep(Duration::from_secs(60)).await;
                    Ok::<_, Infallible>(Frame::data(Bytes::new()))
                });
                Ok(Response::new(Either::Left(StreamBody::new(end.boxed()))))
            }
            (_, _, false) => {
                let number = 2_usize.saturating_sub(lists.fetch_add(1, Ordering::Relaxed));
                let object = |name: usize| {
                    json!({"apiVersion": "cache.example.com/v1", "kind": "Memcached",
                    "metadata": {"namespace": "shop", "name": name.to_string(), "uid": name.to_string(), "resourceVersion": "1"}})
                };
                let items: Vec<Value> = (0..number).map(object).collect();
                Ok(answer(
                    200,
                    json!({"kind": "MemcachedList", "apiVersion": "cache.example.com/v1",
                    "metadata": {"resourceVersion": "1"}, "items": items}),
                ))
            }
        };
        async move { answer }
    });
    Client::new(service, "default")
}

fn memcached() -> TemplateKind {
    TemplateKind::read("cache.example.com/v1/Memcached/memcacheds/forEach", &GrantedKinds::default()).unwrap()
}

fn served(plural: &str, namespaced: bool) -> Value {
    json!({"name": plural, "singularName": "", "namespaced": namespaced, "kind": "Memcached", "verbs": []})
}

/// A template that is rendered for each Memcached of this API version.
fn template(api_version: &str) -> AsWritten<CopyratorTemplate> {
    let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}});
    let spec = json!({"forEach": {"objects": {"apiVersion": api_version, "kind": "Memcached"}}, "objects": [{"id": "a", "template": object}]});
    serde_json::from_value(
        json!({"apiVersion": "copyrator.dev/v1alpha1", "kind": "CopyratorTemplate", "spec": spec,
        "metadata": {"name": "caches", "namespace": "shop", "uid": "u", "generation": 1}}),
    )
    .unwrap()
}

struct Watched {
    world: Arc<RwLock<World>>,
    observer: Observer,
    phase: Arc<AtomicUsize>,
    lists: Arc<AtomicUsize>,
}

impl Watched {
    fn new() -> Self {
        let mut world = World::default();
        world.set_all_listed();
        let world = Arc::new(RwLock::new(world));
        let observer = Observer {
            world: world.clone(),
            requests: Arc::new(Unheard),
            events: Counter::default(),
            templates: Arc::default(),
        };
        let watched = Self { world, observer, phase: Arc::default(), lists: Arc::default() };
        watched.declare("cache.example.com/v1");
        watched
    }

    /// The template is written.
    fn declare(&self, api_version: &str) {
        let template = template(api_version);
        self.observer.change(&template.changed(), template.prepare(Timestamp::now()));
    }

    /// The template is deleted.
    fn undeclare(&self) {
        let changed = template("").changed();
        self.observer.change(&changed, |world| {
            AsWritten::<CopyratorTemplate>::forget(&changed, world);
            true
        });
    }

    fn lists(&self) -> usize {
        self.lists.load(Ordering::Relaxed)
    }

    fn read(&self) -> InstancesRead {
        self.world.read().unwrap().instances_read(&memcached().kind)
    }

    fn names(&self) -> Vec<NamespacedName> {
        self.world.read().unwrap().instances(&memcached().kind).map(|(name, _)| name.clone()).collect()
    }

    /// Watches while `looking` looks.
    async fn during(&self, served: Value, looking: impl Future<Output = ()>) {
        let observer = self.observer.clone();
        let (client, stop) = (server(&self.phase, &self.lists, served), CancellationToken::new());
        let (config, hours) = (watcher::Config::default(), Duration::from_secs(36_000));
        let watching = watch_kind(client, InstancesOf(memcached()), config, observer, hours, stop.clone());
        let looking = async {
            looking.await;
            stop.cancel();
        };
        futures::join!(watching, looking);
    }

    async fn until(&self, what: &str, is: impl Fn(&InstancesRead) -> bool) {
        for _ in 0..3_000 {
            if is(&self.read()) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        panic!("{what}: {:?}", self.read());
    }
}

/// A conversion webhook that fails: what the last watch told may be long past.
#[tokio::test(start_paused = true)]
async fn a_kind_whose_watch_fails_is_in_doubt_and_then_not_known() {
    let watched = Watched::new();
    let looking = async {
        watched.until("it is listed", |read| *read == InstancesRead::Listed).await;
        assert_eq!(watched.names().len(), 2);
        watched.phase.store(FAILING, Ordering::Relaxed);
        watched.until("at first it may come back", |read| *read == InstancesRead::Doubtful).await;
        let told = |read: &InstancesRead| matches!(read, InstancesRead::Failed(why) if why.contains("its conversion"));
        watched.until("then it is told", told).await;
        assert_eq!(watched.names().len(), 2, "nothing counts as gone");
        watched.phase.store(WELL, Ordering::Relaxed);
        watched.until("it is listed anew", |read| *read == InstancesRead::Listed).await;
        assert_eq!(watched.names().len(), 1);
    };
    watched.during(served("memcacheds", true), looking).await;
}

/// Nobody is told of a kind when the API server is away: it is none of the kind's.
#[tokio::test(start_paused = true)]
async fn while_the_api_server_does_not_answer_a_kind_stays_in_doubt() {
    let watched = Watched::new();
    let looking = async {
        watched.until("it is listed", |read| *read == InstancesRead::Listed).await;
        watched.phase.store(AWAY, Ordering::Relaxed);
        watched.until("it is in doubt", |read| *read == InstancesRead::Doubtful).await;
        tokio::time::sleep(Duration::from_secs(600)).await;
        assert_eq!((watched.read(), watched.names().len()), (InstancesRead::Doubtful, 2));
        watched.phase.store(WELL, Ordering::Relaxed);
        watched.until("it is listed anew", |read| *read == InstancesRead::Listed).await;
    };
    watched.during(served("memcacheds", true), looking).await;
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_ends_goes_on_without_a_list() {
    let watched = Watched::new();
    let looking = async {
        watched.until("it is listed", |read| *read == InstancesRead::Listed).await;
        tokio::time::sleep(Duration::from_secs(600)).await;
        assert_eq!((watched.read(), watched.lists.load(Ordering::Relaxed)), (InstancesRead::Listed, 1));
    };
    watched.during(served("memcacheds", true), looking).await;
}

/// The API server answers a list of objects that are in no namespace like any other.
#[tokio::test(start_paused = true)]
async fn a_kind_that_is_granted_otherwise_than_it_is_served_says_so() {
    let other =
        json!({"name": "memcacheds", "singularName": "", "namespaced": true, "kind": "Redis", "verbs": []});
    for (served, why) in [
        (served("memcacheds", false), "Memcached is cluster-scoped"),
        (served("caches", true), "as caches, but the chart's value templates.kinds has memcacheds"),
        (other, "memcacheds of cache.example.com/v1 are of kind Redis, not Memcached"),
    ] {
        let watched = Watched::new();
        let told = |read: &InstancesRead| matches!(read, InstancesRead::Failed(said) if said.contains(why));
        watched.during(served, watched.until(why, told)).await;
        assert_eq!(watched.lists.load(Ordering::Relaxed), 0);
    }
}

/// A kind that is granted costs nothing until a template reads it, and afterwards.
#[tokio::test(start_paused = true)]
async fn a_kind_is_watched_while_a_template_reads_it() {
    let watched = Watched::new();
    watched.undeclare();
    let minute = || tokio::time::sleep(Duration::from_secs(60));
    let looking = async {
        minute().await;
        assert_eq!((watched.read(), watched.lists()), (InstancesRead::NotYet, 0), "no template, no list");
        watched.declare("cache.example.com/v2");
        minute().await;
        assert_eq!((watched.read(), watched.lists()), (InstancesRead::NotYet, 0), "another version");
        watched.declare("cache.example.com/v1");
        watched.until("it is listed", |read| *read == InstancesRead::Listed).await;
        assert_eq!((watched.names().len(), watched.lists()), (2, 1));
        watched.undeclare();
        tokio::task::yield_now().await;
        watched.declare("cache.example.com/v1");
        minute().await;
        assert_eq!(watched.lists(), 1, "a template that comes back at once finds the watch");
        watched.declare("cache.example.com/v2");
        watched.until("nothing is known of it", |read| *read == InstancesRead::NotYet).await;
        assert_eq!(watched.names(), [], "nothing is kept of it");
        minute().await;
        watched.declare("cache.example.com/v1");
        watched.until("it is listed anew", |read| *read == InstancesRead::Listed).await;
        assert_eq!((watched.names().len(), watched.lists()), (1, 2));
    };
    watched.during(served("memcacheds", true), looking).await;
}
