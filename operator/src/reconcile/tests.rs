#![allow(clippy::unwrap_used)] // tests, their set-up functions too
//! Keys looked at against a server that answers as told and keeps what it was asked.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::{Mutex, RwLock},
};

use futures::{FutureExt, future::BoxFuture};
use http::{Method, Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use jiff::Timestamp;
use k8s_openapi::api::apps::v1::Deployment;
use kube::client::Body;
use serde_json::{Value, json};

use super::*;
use crate::{
    access::AskError,
    act::{keys::KeyKeeper, leader::IsLeader},
    api::{ConfigMonitorSpec, CopyratorRuleSpec},
    authority::Question,
    config::Config,
    connect::{Target, WriteClient},
    digest::{DigestKey, Fingerprint, KeyPrint},
    hooks::Endpoint,
    intake::{watched::Watched, workload::Workload},
    marks::{AUTHOR, AUTHOR_GROUPS},
    model::{Authority, Declared, NamespaceFacts, ObjectFacts, Store, World},
    names::{Declarer, Kind, ObjectKey, WorkloadKey},
    serve::Readiness,
    validate::{CompiledMonitor, CompiledRule},
};

const NAMESPACE: &str = "shop";

#[derive(Clone, Default)]
pub(super) struct Server {
    pub(super) asked: Arc<Mutex<Vec<(Method, String, Value)>>>,
    /// What it has, by the end of the path, with the code; elsewhere a list of pods.
    pub(super) found: Arc<Mutex<BTreeMap<String, (u16, Value)>>>,
    /// Answers to the next patches; 200 when there are none left.
    patches: Arc<Mutex<VecDeque<u16>>>,
}

impl Server {
    fn client(&self) -> Client {
        let server = self.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let server = server.clone();
            async move { Ok::<_, Infallible>(server.answer(request).await) }
        });
        Client::new(service, "default")
    }

    async fn answer(&self, request: Request<Body>) -> Response<Full<Bytes>> {
        let (method, uri) = (request.method().clone(), request.uri().to_string());
        let found = self.found(request.uri().path()).filter(|_| method == Method::GET);
        let body = request.into_body().collect().await.unwrap().to_bytes();
        let body = serde_json::from_slice(&body).unwrap_or_default();
        let code = match method {
            Method::PATCH => self.patches.lock().unwrap().pop_front().unwrap_or(200),
            _ => found.as_ref().map_or(200, |(code, _)| *code),
        };
        let answer = if let Some((_, found)) = found {
            found
        } else if code != 200 {
            let reason = if code == 400 { "BadRequest" } else { "Conflict" };
            json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": reason, "message": "no"})
        } else if method == Method::GET {
            let owner = json!([{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-1", "uid": "r", "controller": true}]);
            let pod = json!({"metadata": {"name": "web-1-a", "namespace": NAMESPACE, "uid": "p", "creationTimestamp": "2026-01-01T00:00:00Z",
                "labels": {"pod-template-hash": "1"}, "ownerReferences": owner}});
            json!({"apiVersion": "v1", "kind": "PodList", "metadata": {}, "items": [pod]})
        } else {
            json!({"apiVersion": "v1", "kind": "Any", "metadata": {"name": "any"}})
        };
        self.asked.lock().unwrap().push((method, uri, body));
        Response::builder().status(code).body(Full::from(answer.to_string())).unwrap()
    }

    fn found(&self, path: &str) -> Option<(u16, Value)> {
        let found = self.found.lock().unwrap();
        let mut found = found.iter().filter(|(end, _)| path.ends_with(end.as_str()));
        found.next().map(|(_, found)| found.clone())
    }

    /// Answers the next patches with these codes: 400 with the reason of an object that cannot be decoded.
    pub(super) fn answer_patches(&self, codes: &[u16]) {
        self.patches.lock().unwrap().extend(codes);
    }

    /// The patches so far, by field manager.
    fn patched(&self) -> Vec<(String, Value)> {
        let asked = self.asked.lock().unwrap();
        let patches = asked.iter().filter(|(method, ..)| *method == Method::PATCH);
        let manager = |uri: &str| uri.rsplit_once("fieldManager=").map(|(_, name)| name.to_owned());
        patches.map(|(_, uri, body)| (manager(uri).unwrap_or_default(), body.clone())).collect()
    }
}

struct Always;

impl IsLeader for Always {
    fn is_leader(&self) -> bool {
        true
    }
}

/// Says what it is told to; `None` is no answer.
#[derive(Default)]
pub(super) struct Oracle(pub(super) Mutex<Option<bool>>);

impl Authorizer for Oracle {
    fn allowed<'a>(&'a self, _: &'a Question) -> BoxFuture<'a, Result<bool, AskError>> {
        let answer = self.0.lock().unwrap().ok_or(AskError::TimedOut);
        Box::pin(async move { answer })
    }
}

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

/// A Deployment that uses a ConfigMap and is watched for it by an account's monitor, asked about long ago.
fn world(monitor: Value, applied: &str) -> World {
    let mut world = World::default();
    let key = DigestKey::new(&[7; DigestKey::LENGTH]);
    world.settings_mut().stores = [Store::ConfigMaps].into();
    world.set_all_listed();
    let object = ObjectKey::new(Kind::ConfigMap, NAMESPACE, "app");
    let facts = ObjectFacts {
        uid: "o".into(),
        resource_version: "1".into(),
        labels: Default::default(),
        deletion: None,
        created: Timestamp::UNIX_EPOCH,
        owners: 0,
        changed_at: now() - jiff::SignedDuration::from_secs(60),
        content_fields: 0,
        restart: None,
        marks: None,
        ownership: None,
        examined: None,
        trace: Default::default(),
        seen: Default::default(),
    };
    world.set_object(object.clone(), Some(facts));
    let print = KeyPrint { digest: key.value(b"2"), size: 1, binary: false };
    let print = Fingerprint {
        uid: "o".into(),
        resource_version: "1".into(),
        type_: None,
        immutable: false,
        keys: [("k".to_owned(), print)].into(),
        annotations: BTreeMap::new(),
        role: None,
        keeper: None,
    };
    world.assume_fingerprint(&object, print);
    let workload = json!({
        "metadata": {"name": "web", "namespace": NAMESPACE, "uid": "w", "resourceVersion": "5",
            "labels": {"copyrator.dev/applied": format!("{}.{applied}", key.id())}},
        "spec": {"replicas": 1, "selector": {"matchLabels": {"app": "web"}}, "template": {
            "metadata": {"labels": {"app": "web"}},
            "spec": {"containers": [{"envFrom": [{"configMapRef": {"name": "app"}}]}]}}},
        "status": {"replicas": 1, "updatedReplicas": 1, "availableReplicas": 1},
    });
    serde_json::from_value::<Workload<Deployment>>(workload).unwrap().put(&mut world, now());
    let spec: ConfigMonitorSpec = serde_json::from_value(monitor).unwrap();
    let facts = Declared {
        uid: "m".into(),
        resource_version: "8".into(),
        generation: 1,
        created: at(0),
        annotations: [(AUTHOR, "alice"), (AUTHOR_GROUPS, "[]")]
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .into(),
        compiled: CompiledMonitor::compile(&spec).map(Arc::new),
        spec,
        status: None,
    };
    world.set_monitor(monitor_name(), facts);
    let authority = Authority {
        uid: "m".into(),
        generation: 1,
        identity: String::new(),
        answer: Ok(()),
        asked: at(0),
        questions: 0,
        refusals: 0,
    };
    world.set_monitor_authority(&monitor_name(), authority);
    world.set_key(key);
    world
}

fn monitor_name() -> Declarer {
    Declarer::monitor(NAMESPACE, "web")
}

fn web() -> WorkloadKey {
    let kind = crate::api::WorkloadKind::Deployment;
    WorkloadKey { kind, namespace: NAMESPACE.into(), name: "web".into() }
}

pub(super) fn reconciler(server: &Server, oracle: &Arc<Oracle>, world: World) -> Reconciler {
    let client = server.client();
    let writer = Writer::new(WriteClient::of(client.clone()), Arc::new(Always));
    let config = Config {
        cluster: Target::default(),
        webhook: false,
        reconciler: true,
        namespace: "copyrator".into(),
        namespaces: [].into(),
        rule_name: None,
        webhook_addr: ([127, 0, 0, 1], 0).into(),
        admin_addr: ([127, 0, 0, 1], 0).into(),
        endpoint: Endpoint::Url(String::new()),
        hook_timeout: None,
        tls_dir: None,
        certificate_times: Default::default(),
        leaf_renewal: None,
        max_in_flight: 1,
        client_ca: None,
        client_names: Vec::new(),
        peer_rate: 0,
        spread_limits: Default::default(),
        max_writes_in_flight: 16,
        max_rollouts: 0,
        sweep_interval: std::time::Duration::from_secs(3600),
        deletion_grace: std::time::Duration::ZERO,
        system_namespaces: Default::default(),
        trusted_writers: Vec::new(),
        reconciler_account: String::new(),
        read_definitions: false,
        annotations: true,
        copy_kinds: Default::default(),
        template_kinds: Default::default(),
        owner_cluster_role: None,
        drain_delay: std::time::Duration::ZERO,
        host: "host".into(),
    };
    let hooks = Readiness::new(CancellationToken::new()).require("hooks");
    let world = Arc::new(RwLock::new(world));
    let handles = Handles {
        client: client.clone(),
        account: "us".into(),
        hooks: HookWriter::new(
            client.clone(),
            writer.clone(),
            &config,
            hooks.clone(),
            hooks.clone(),
            hooks.clone(),
        ),
        digest_key: KeyKeeper::new(client.clone(), writer.clone(), "copyrator", hooks),
        writer,
        authorizer: oracle.clone(),
        trusted_writers: TrustedWriters::default(),
        definitions: Definitions::new(client.clone()),
        reporter: Reporter::new(&WriteClient::of(client), "host", world.clone()),
    };
    Reconciler::new(Context::new(world, Arc::default()), handles)
}

#[tokio::test]
async fn an_account_is_asked_about_anew_before_anything_restarts() {
    let spec = json!({"watch": [{"kind": "ConfigMap", "names": ["app"]}], "serviceAccountName": "restarter"});
    for (answer, restarts) in [(None, false), (Some(false), false), (Some(true), true)] {
        let (server, oracle) = (Server::default(), Arc::new(Oracle(Mutex::new(answer))));
        let reconciler = reconciler(&server, &oracle, world(spec.clone(), "old"));
        reconciler.context.queue().open();
        assert!(matches!(reconciler.workloads.handle(&web()).await, Again::After(_)));
        assert_eq!(
            reconciler.context.queue().next().await,
            Key::Monitor(monitor_name()),
            "it asks, once for all"
        );
        assert!(server.patched().is_empty());
        let again = reconciler.monitors.handle(&monitor_name()).await;
        assert_eq!(matches!(again, Again::Backoff(_)), answer.is_none(), "{answer:?}: {again:?}");
        reconciler.workloads.handle(&web()).await;
        assert_eq!(!server.patched().is_empty(), restarts, "{answer:?}");
    }
    // And before pods go that it finds itself.
    let mut spec = spec;
    spec["workloads"] = json!({"podSelector": {"matchLabels": {"app": "web"}}});
    spec["strategy"] = json!({"type": "Delete"});
    let (server, oracle) = (Server::default(), Arc::new(Oracle::default()));
    let reconciler = reconciler(&server, &oracle, world(spec, "old"));
    assert!(matches!(reconciler.monitors.handle(&monitor_name()).await, Again::Backoff(_)));
    assert!(server.patched().is_empty(), "recorded");
    *oracle.0.lock().unwrap() = Some(true);
    reconciler.monitors.handle(&monitor_name()).await;
    assert_eq!(server.patched().len(), 1);
}

#[tokio::test]
async fn a_restart_that_met_another_writer_comes_back() {
    let (server, oracle) = (Server::default(), Arc::new(Oracle::default()));
    let spec = json!({"watch": [{"kind": "ConfigMap", "names": ["app"]}]});
    let reconciler = reconciler(&server, &oracle, world(spec, "old"));
    server.patches.lock().unwrap().push_back(409);
    assert_eq!(reconciler.workloads.handle(&web()).await, Again::Backoff(None));
    assert!(
        reconciler.context.world().memory().workload(&web()).attempt().is_none(),
        "a conflict is no refusal"
    );
    assert_eq!(reconciler.workloads.handle(&web()).await, Again::OnChange);
    let patched = server.patched();
    let managers: Vec<&str> = patched.iter().map(|(manager, _)| manager.as_str()).collect();
    assert_eq!(managers, ["copyrator-restart", "copyrator-restart"]);
    assert_eq!(patched[0].1["metadata"]["resourceVersion"], "5");
}

/// Two workers write one monitor's status. Were what its pods run with part of what both apply, the slower
/// one would take it away, and the next change of content would pass for its first sight.
#[tokio::test]
async fn what_pods_run_with_is_recorded_apart_from_the_status() {
    let spec = json!({
        "watch": [{"kind": "ConfigMap", "names": ["app"]}],
        "workloads": {"podSelector": {"matchLabels": {"app": "web"}}},
        "strategy": {"type": "Delete"},
    });
    let (server, oracle) = (Server::default(), Arc::new(Oracle::default()));
    let reconciler = reconciler(&server, &oracle, world(spec, "old"));
    server.patches.lock().unwrap().push_back(409);
    assert_eq!(reconciler.monitors.handle(&monitor_name()).await, Again::Backoff(None));
    assert!(
        reconciler.context.world().monitors()[&monitor_name()].status.is_none(),
        "what was not written is not known"
    );
    assert_eq!(reconciler.monitors.handle(&monitor_name()).await, Again::OnChange);

    let recorded = server.patched().pop().unwrap();
    assert_eq!(recorded.0, "copyrator-pods");
    assert_eq!(recorded.1["metadata"]["resourceVersion"], "8", "on the version it was decided on");
    let applied = recorded.1["status"]["podsApplied"].as_str().unwrap().to_owned();
    assert_eq!(recorded.1["status"], json!({"podsApplied": applied}));

    let status = json!({"podsApplied": applied});
    let status = serde_json::from_value(status).unwrap();
    reconciler.context.world_mut().edit_monitor(&monitor_name(), |facts| facts.status = status);
    let key = Key::MonitorStatus(monitor_name());
    reconciler.look_at(&key).await;
    let status = server.patched().pop().unwrap();
    assert_eq!(status.0, "copyrator-status");
    assert!(
        status.1["status"].is_object() && status.1["status"].get("podsApplied").is_none(),
        "{}",
        status.1
    );
}

/// A status that said that nobody knows what its object may do stood for two seconds, with copies there.
#[tokio::test]
async fn a_status_waits_for_the_answer_that_is_being_asked_for() {
    let spec = json!({"watch": [{"kind": "ConfigMap", "names": ["app"]}], "serviceAccountName": "restarter"});
    let (server, oracle) = (Server::default(), Arc::new(Oracle(Mutex::new(Some(true)))));
    let mut world = world(spec, "old");
    world.forget_monitor_authority(&monitor_name(), |_| true);
    let reconciler = reconciler(&server, &oracle, world);
    let (asking, status) = (Key::Monitor(monitor_name()), Key::MonitorStatus(monitor_name()));
    reconciler.context.queue().open();
    reconciler.context.queue().add(asking.clone(), Lane::Change);
    for _ in ["waits", "is being looked at"] {
        assert!(matches!(reconciler.look_at(&status).await, Again::After(_)));
        assert!(server.patched().is_empty());
        let _ = reconciler.context.queue().next().now_or_never();
    }
    let again = reconciler.monitors.handle(&monitor_name()).await;
    reconciler.context.queue().done(&asking, again);
    reconciler.look_at(&status).await;
    let said = server.patched().pop().unwrap().1;
    assert_eq!(said["status"]["conditions"][0]["reason"], "Watching", "{said}");
}

/// A status plans all slots of its rule: told at each slot of a sweep, 50 rules with 400 slots each took a core for half a minute.
#[tokio::test(start_paused = true)]
async fn a_sweep_that_finds_nothing_to_do_has_no_news_for_statuses() {
    let rule = Declarer::rule(NAMESPACE, "app");
    let slot = ObjectKey::new(Kind::ConfigMap, "blue", "app");
    for (lane, is_told) in [(Lane::Sweep, false), (Lane::Change, true)] {
        let mut world = world(json!({"watch": [{"kind": "ConfigMap", "names": ["app"]}]}), "old");
        world.set_namespace("blue".into(), NamespaceFacts::default());
        let spec: CopyratorRuleSpec = serde_json::from_value(
            json!({"source": {"kind": "ConfigMap", "names": ["app"]}, "targets": [{"names": ["blue"]}]}),
        )
        .unwrap();
        let facts = Declared {
            uid: "r".into(),
            resource_version: "9".into(),
            generation: 1,
            created: at(0),
            annotations: BTreeMap::new(),
            compiled: CompiledRule::compile(&spec, &Default::default()).map(Arc::new),
            spec,
            status: None,
        };
        world.set_rule(rule.clone(), facts);
        let reconciler = reconciler(&Server::default(), &Arc::default(), world);
        let queue = reconciler.context.queue();
        queue.open();
        queue.add(Key::Slot(slot.clone()), lane);
        let key = queue.next().await;
        let again = reconciler.look_at(&key).await;
        queue.done(&key, again);
        tokio::time::advance(std::time::Duration::from_secs(1)).await;
        let told = queue.next().now_or_never();
        assert_eq!(told, is_told.then(|| Key::RuleStatus(rule.clone())), "{lane:?}");
    }
}

/// Otherwise each copy of such a page would be compared an interval later.
#[tokio::test(start_paused = true)]
async fn copies_are_compared_once_every_store_is_listed() {
    let mut world = world(json!({"watch": [{"kind": "ConfigMap", "names": ["app"]}]}), "old");
    world.settings_mut().stores.insert(Store::ServiceAccounts);
    let server = Server::default();
    let copy =
        json!({"metadata": {"name": "app", "namespace": NAMESPACE, "uid": "o", "resourceVersion": "1"}});
    let page = json!({"metadata": {}, "items": [copy]});
    server.found.lock().unwrap().insert("configmaps".to_owned(), (200, page));
    let reconciler = reconciler(&server, &Arc::default(), world);
    let minute = std::time::Duration::from_secs(60);
    assert!(tokio::time::timeout(minute, reconciler.verify()).await.is_err(), "nothing is listed yet");
    reconciler.context.world_mut().set_listed(Store::ServiceAccounts);
    assert!(tokio::time::timeout(minute, reconciler.verify()).await.is_ok());
}
