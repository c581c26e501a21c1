//! Deployments that run, and how they stand: restarts are counted by what became of them, not by what anybody says to
//! have done.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use copyrator::marks::APPLIED;
use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use k8s_openapi::api::core::v1::Pod;
use kube::api::ListParams;
use kube::{Api, Client};
use serde_json::{Value, json};

use crate::Outcome;
use crate::arena::Arena;
use crate::objects::{collection, namespace, text};

/// How long many Deployments may take to run.
const PATIENCE: Duration = Duration::from_secs(300);
/// How long nothing must be written until no restart is to come: a quiet period of 2 s, and more.
pub(crate) const QUIET: Duration = Duration::from_secs(4);
/// How often a list of them is asked for.
const LOOK: Duration = Duration::from_millis(250);
/// Creation times have seconds: what is this far apart is surely told apart.
const SECOND: Duration = Duration::from_millis(1100);

/// How a Deployment stands.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct DeploymentState {
    /// Goes up with each change of its spec.
    pub(crate) generation: i64,
    /// It runs what its template says, with one pod.
    pub(crate) is_running: bool,
    /// The operator has marked it.
    pub(crate) applied: Option<String>,
}

/// A Deployment of one pod that uses `env_from`. Its pod needs no scheduler.
pub(crate) fn running(namespace: &str, name: &str, env_from: &Value) -> Value {
    let labels = json!({"app": name});
    let container = json!({"name": "app", "image": "registry.example.com/app:1.0.0", "envFrom": env_from});
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": name, "namespace": namespace, "labels": labels},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels}, "spec": {"nodeName": "node-0", "containers": [container]},
            },
        },
    })
}

/// The collection of a namespace's Deployments.
pub(crate) fn deployments(namespace: &str) -> String {
    format!("/apis/apps/v1/namespaces/{namespace}/deployments")
}

/// A ConfigMap or Secret with a value of its own for each seed.
pub(crate) fn content(kind: &str, namespace: &str, name: &str, seed: &str) -> Value {
    let field = if kind == "Secret" { "stringData" } else { "data" };
    json!({
        "apiVersion": "v1", "kind": kind, "metadata": {"namespace": namespace, "name": name},
        field: {"value": text(256, seed)},
    })
}

/// A monitor that restarts whatever refers to Secrets or ConfigMaps with these names, at a pace.
pub(crate) fn monitor(namespace: &str, kind: &str, names: &str, pace: Value) -> Value {
    json!({
        "apiVersion": "copyrator.dev/v1alpha1", "kind": "ConfigMonitor",
        "metadata": {"name": "monitor", "namespace": namespace},
        "spec": {"watch": [{"kind": kind, "names": [names]}], "pace": pace},
    })
}

impl Arena {
    /// Creates a namespace with no labels of its own.
    pub(crate) async fn create_namespace(&self, name: &str) -> Outcome<()> {
        self.create("/api/v1/namespaces", [namespace(name, &[])]).await
    }

    /// Creates a ConfigMap or Secret.
    pub(crate) async fn create_content(&self, object: Value) -> Outcome<()> {
        let plural = if object["kind"] == "Secret" { "secrets" } else { "configmaps" };
        let place = object["metadata"]["namespace"].as_str().unwrap_or_default().to_owned();
        self.create(&collection(&place, plural), [object]).await
    }

    /// Creates a namespace with a Secret `shared` and so many Deployments that use it.
    pub(crate) async fn create_users(&self, team: &str, size: usize) -> Outcome<()> {
        self.create_namespace(team).await?;
        self.create_content(content("Secret", team, "shared", "0")).await?;
        let uses = json!([{"secretRef": {"name": "shared"}}]);
        let workload = |number: usize| running(team, &format!("app-{number:05}"), &uses);
        self.create(&deployments(team), (0..size).map(workload)).await
    }

    /// Has everything that uses a team's Secret `shared` restart as soon as it changes.
    pub(crate) async fn watch_users(&self, team: &str) -> Outcome<()> {
        let pace = json!({"quietPeriod": "0s", "minInterval": "0s"});
        self.create_monitor(monitor(team, "Secret", "shared", pace)).await
    }

    /// Creates a ConfigMonitor in the namespace that it names.
    pub(crate) async fn create_monitor(&self, monitor: Value) -> Outcome<()> {
        let place = monitor["metadata"]["namespace"].as_str().unwrap_or_default();
        let path = format!("/apis/copyrator.dev/v1alpha1/namespaces/{place}/configmonitors");
        self.create(&path, [monitor.clone()]).await
    }
}

/// The Deployments of a namespace.
pub(crate) async fn standings(
    client: &Client,
    namespace: &str,
) -> Outcome<BTreeMap<String, DeploymentState>> {
    let list = Api::<Deployment>::namespaced(client.clone(), namespace).list(&ListParams::default()).await?;
    let standing = |deployment: Deployment| {
        let (meta, status) = (deployment.metadata, deployment.status.unwrap_or_default());
        let generation = meta.generation.unwrap_or_default();
        let counts = [status.replicas, status.updated_replicas, status.available_replicas];
        let standing = DeploymentState {
            generation,
            is_running: status.observed_generation == Some(generation)
                && counts.iter().all(|count| *count == Some(1)),
            applied: meta.labels.and_then(|mut labels| labels.remove(APPLIED)),
        };
        (meta.name.unwrap_or_default(), standing)
    };
    Ok(list.items.into_iter().map(standing).collect())
}

/// Waits until all Deployments of a namespace are as wanted, and pods that exist are a second old: those.
pub(crate) async fn until_all(
    client: &Client,
    namespace: &str,
    what: &str,
    wanted: impl Fn(&DeploymentState) -> bool,
) -> Outcome<BTreeMap<String, DeploymentState>> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let all = standings(client, namespace).await?;
        let Some((name, standing)) = all.iter().find(|(_, standing)| !wanted(standing)) else {
            tokio::time::sleep(SECOND).await;
            return Ok(all);
        };
        if Instant::now() > deadline {
            return Err(format!("{what}: {namespace}/{name} is not after {PATIENCE:?}: {standing:?}").into());
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// How many ReplicaSets the Deployments called so have had; all of the namespace where there is no name.
pub(crate) async fn revisions(client: &Client, namespace: &str, name: Option<&str>) -> Outcome<usize> {
    let params = labelled(name);
    let list = Api::<ReplicaSet>::namespaced(client.clone(), namespace).list_metadata(&params).await?;
    Ok(list.items.len())
}

/// When the oldest pod that is to stay of the Deployment called so was created.
pub(crate) async fn oldest_pod(client: &Client, namespace: &str, name: &str) -> Outcome<Option<Timestamp>> {
    let pods = Api::<Pod>::namespaced(client.clone(), namespace).list_metadata(&labelled(Some(name))).await?;
    let staying = pods.items.into_iter().filter(|pod| pod.metadata.deletion_timestamp.is_none());
    Ok(staying.filter_map(|pod| Some(pod.metadata.creation_timestamp?.0)).min())
}

fn labelled(name: Option<&str>) -> ListParams {
    name.map_or_else(ListParams::default, |name| ListParams::default().labels(&format!("app={name}")))
}
