//! What the admission tests share: a world, an authorizer, and one call.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, RwLock},
    time::Duration,
};

use axum::{Router, body::Body};
use copyrator::{
    admit::Parties,
    api::{
        ConfigMonitorSpec, ConfigMonitorStatus, ConfigPolicySpec, CopyratorRuleSpec, CopyratorRuleStatus,
        WorkloadKind, set_condition,
    },
    authority::Question,
    intake::watched::Watched as _,
    model::{Declared, NamespaceFacts, Reference, Rollout, WorkloadFacts, World},
    names::{Declarer, Kind, WorkloadKey},
    testing::{AdmitState, AskError, Authorizer, Metrics, Shedding, router},
    validate::{CompiledMonitor, CompiledPolicy, CompiledRule},
};
use futures::future::BoxFuture;
use http::{Request, StatusCode};
use http_body_util::BodyExt as _;
use k8s_openapi::{
    api::core::v1::ConfigMap,
    apimachinery::pkg::apis::meta::v1::{Condition, Time},
};
use serde_json::{Value, json};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt as _;

/// An authorizer that says what it is told to, and remembers what it was asked.
#[derive(Default)]
pub struct Table {
    /// `verb resource` that are refused.
    pub refused: BTreeSet<&'static str>,
    /// Panics or fails instead of answering.
    pub fault: Option<&'static str>,
    /// With the fault `wait`: answers once this is cancelled.
    pub go_on: CancellationToken,
    /// What was asked: `user verb resource namespace name`.
    pub asked: Mutex<Vec<String>>,
}

impl Authorizer for Table {
    fn allowed<'a>(&'a self, question: &'a Question) -> BoxFuture<'a, Result<bool, AskError>> {
        let line = [
            &*question.subject.user,
            question.verb,
            &*question.resource,
            &question.namespace,
            question.name.as_deref().unwrap_or(""),
        ];
        self.asked.lock().unwrap().push(line.join(" "));
        Box::pin(async move {
            match self.fault {
                Some("panic") => panic!("hunter2-swordfish"),
                Some("hang") => std::future::pending().await,
                Some("wait") => {
                    self.go_on.cancelled().await;
                    Ok(true)
                }
                Some(_) => Err(AskError::TimedOut),
                None => Ok(!self.refused.contains(&*format!("{} {}", question.verb, question.resource))),
            }
        })
    }
}

/// A cluster with namespaces, policies, and whatever a test adds.
pub struct Cluster {
    pub world: World,
    pub table: Arc<Table>,
    pub metrics: Metrics,
    pub most: usize,
}

impl Cluster {
    pub fn new() -> Self {
        let mut world = World::default();
        world.settings_mut().own_namespace = "copyrator-system".into();
        world.settings_mut().annotations = true;
        for name in ["platform", "shop", "team-b", "team-c"] {
            let labels = BTreeMap::from([("team".to_owned(), "blue".to_owned())]);
            world.set_namespace(name.into(), NamespaceFacts { labels, ..NamespaceFacts::default() });
        }
        Self { world, table: Arc::default(), metrics: Metrics::default(), most: 8 }
    }

    pub fn refuse(mut self, what: &'static str) -> Self {
        self.table = Arc::new(Table { refused: BTreeSet::from([what]), ..Table::default() });
        self
    }

    pub fn fault(mut self, fault: &'static str) -> Self {
        self.table = Arc::new(Table { fault: Some(fault), ..Table::default() });
        self
    }

    pub fn policy(mut self, name: &str, spec: Value) -> Self {
        let spec: ConfigPolicySpec = serde_json::from_value(spec).unwrap();
        let compiled = CompiledPolicy::compile(&spec).map(Arc::new);
        assert!(compiled.is_ok(), "{compiled:?}");
        self.world.set_policy(name.into(), declared(spec, compiled, None));
        self
    }

    pub fn rule(mut self, namespace: &str, name: &str, spec: Value) -> Self {
        let spec: CopyratorRuleSpec = serde_json::from_value(spec).unwrap();
        let compiled = CompiledRule::compile(&spec, &Default::default()).map(Arc::new);
        let status = CopyratorRuleStatus { conditions: allowed(), ..CopyratorRuleStatus::default() };
        self.world.set_rule(Declarer::rule(namespace, name), declared(spec, compiled, Some(status)));
        self
    }

    pub fn monitor(mut self, namespace: &str, name: &str, spec: Value) -> Self {
        let spec: ConfigMonitorSpec = serde_json::from_value(spec).unwrap();
        let compiled = CompiledMonitor::compile(&spec).map(Arc::new);
        let status = ConfigMonitorStatus { conditions: allowed(), ..ConfigMonitorStatus::default() };
        self.world.set_monitor(Declarer::monitor(namespace, name), declared(spec, compiled, Some(status)));
        self
    }

    /// What the reconciler's index says of annotated sources.
    pub fn indexed(mut self, sources: Value) -> Self {
        let index = json!({"sources": sources, "omitted": 0}).to_string();
        let index =
            ConfigMap { data: Some([("sources.json".to_owned(), index)].into()), ..ConfigMap::default() };
        index.put(&mut self.world, "2026-01-01T00:00:00Z".parse().unwrap());
        self
    }

    /// What the reconciler's index says of a template of namespace `platform`.
    pub fn template(mut self, name: &str, spec: Value) -> Self {
        let template = json!({"namespace": "platform", "name": name, "spec": spec});
        let index = json!({"sources": [], "templates": [template], "omitted": 0}).to_string();
        let index =
            ConfigMap { data: Some([("sources.json".to_owned(), index)].into()), ..ConfigMap::default() };
        index.put(&mut self.world, "2026-01-01T00:00:00Z".parse().unwrap());
        self
    }

    /// A Deployment that uses one object.
    pub fn deployment(mut self, namespace: &str, name: &str, kind: Kind, uses: &str) -> Self {
        let key =
            WorkloadKey { kind: WorkloadKind::Deployment, namespace: namespace.into(), name: name.into() };
        let facts = WorkloadFacts {
            uid: "u".into(),
            resource_version: "1".into(),
            deleting: false,
            selector: Default::default(),
            template_labels: Default::default(),
            references: [Reference { kind, name: uses.into(), keys: None, optional: false }].into(),
            pull_secrets: Default::default(),
            restarts: Default::default(),
            templated: None,
            own_deadline: true,
            rollout: Rollout::Complete,
            desired: 1,
            available: 1,
        };
        self.world.set_workload(key, facts);
        self
    }

    /// The webhook over this cluster.
    pub fn app(self) -> App {
        let own = ["system:serviceaccount:copyrator-system:copyrator".to_owned()].into();
        let world = Arc::new(RwLock::new(self.world));
        let shedding = Shedding::new(self.most);
        let heavy = shedding.heavy();
        let state = AdmitState {
            world: world.clone(),
            authorizer: self.table.clone(),
            parties: Arc::new(Parties { own, default_grace: Duration::from_secs(420), ..Parties::default() }),
            shedding,
            metrics: self.metrics.clone(),
        };
        App { router: router(state), world, table: self.table, metrics: self.metrics, heavy }
    }
}

/// What the reconciler says of a spec that was allowed.
fn allowed() -> Vec<Condition> {
    let mut conditions = Vec::new();
    let now = Time("2026-01-01T00:00:00Z".parse().unwrap());
    set_condition(&mut conditions, "Authorized", Some((true, "Allowed", String::new())), 1, &now);
    conditions
}

fn declared<Spec, Compiled, Status>(
    spec: Spec,
    compiled: Result<Arc<Compiled>, Vec<copyrator::api::Problem>>,
    status: Option<Status>,
) -> Declared<Spec, Compiled, Status> {
    Declared {
        uid: "u".into(),
        resource_version: "1".into(),
        generation: 1,
        created: "2026-01-01T00:00:00Z".parse().unwrap(),
        annotations: BTreeMap::new(),
        spec,
        compiled,
        status,
    }
}

/// The webhook, what it knows, and what it was asked.
pub struct App {
    pub router: Router,
    pub world: Arc<RwLock<World>>,
    pub table: Arc<Table>,
    pub metrics: Metrics,
    /// The turns of judgements that may take much memory.
    pub heavy: Arc<Semaphore>,
}

/// An answer of the webhook.
pub struct Answer {
    pub status: StatusCode,
    pub text: String,
}

impl Answer {
    /// The `response` of the review.
    pub fn response(&self) -> Value {
        assert_eq!(self.status, 200, "{}", self.text);
        let review: Value = serde_json::from_str(&self.text).unwrap();
        assert_eq!(
            (&review["apiVersion"], &review["kind"]),
            (&json!("admission.k8s.io/v1"), &json!("AdmissionReview"))
        );
        review["response"].clone()
    }

    /// Allowed, without a word.
    pub fn allowed(&self) -> Value {
        let response = self.response();
        assert_eq!(response["allowed"], true, "{response}");
        response
    }

    /// The message of a refusal.
    pub fn refused(&self, code: u16, reason: &str) -> String {
        let response = self.response();
        let status = &response["status"];
        assert_eq!(
            (&response["allowed"], &status["code"], &status["reason"]),
            (&json!(false), &json!(code), &json!(reason)),
            "{response}"
        );
        status["message"].as_str().unwrap().to_owned()
    }

    pub fn warnings(&self) -> Vec<String> {
        let warnings: Vec<String> =
            serde_json::from_value(self.response()["warnings"].clone()).unwrap_or_default();
        assert!(warnings.iter().all(|warning| warning.len() <= 120), "{warnings:?}");
        warnings
    }
}

/// A recorded review.
pub fn recorded(name: &str) -> Value {
    let path = format!("{}/tests/reviews/{name}.json", env!("CARGO_MANIFEST_DIR"));
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

impl App {
    /// Sends a recorded review, and checks what holds for every answer to one.
    pub async fn send(&self, path: &str, name: &str) -> Answer {
        let review = recorded(name);
        let answer = self.send_value(path, &review).await;
        if answer.status == 200 {
            assert_eq!(answer.response()["uid"], review["request"]["uid"]);
        }
        answer
    }

    pub async fn send_value(&self, path: &str, review: &Value) -> Answer {
        self.send_bytes(path, review.to_string().into_bytes()).await
    }

    pub async fn send_bytes(&self, path: &str, body: impl Into<Body>) -> Answer {
        let request =
            Request::post(path).header("content-type", "application/json").body(body.into()).unwrap();
        self.call(request).await
    }

    /// Sends a request. No answer, whatever it is, holds the value of a Secret.
    pub async fn call(&self, request: Request<Body>) -> Answer {
        let response = self.router.clone().oneshot(request).await.unwrap();
        let status = response.status();
        let bytes = response.into_body().collect().await.unwrap().to_bytes();
        let text = String::from_utf8(bytes.to_vec()).unwrap();
        assert!(!text.contains("swordfish") && !text.contains("aHVudGVyMi"), "{text}");
        Answer { status, text }
    }
}
