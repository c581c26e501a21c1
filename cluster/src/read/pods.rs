//! Lists pods when a restart seems due. Watching all pods would cost more than everything else together.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use jiff::Timestamp;
use k8s_openapi::{
    api::core::v1::Pod as FullPod,
    apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta, OwnerReference, Time},
};
use kube::{
    Api, Client, Resource,
    api::ListParams,
    core::{ParseExpressionError, Selector},
};
use serde::{Deserialize, Deserializer};

use crate::{
    api::WorkloadKind,
    model::{PodFacts, PodsSeen, WorkloadFacts},
    names::{Declarer, WorkloadKey},
};

/// How long one page may take.
const LIST_TIMEOUT: Duration = Duration::from_secs(10);
/// How many pods a page holds.
const PAGE: u32 = 500;
/// Annotation of a static pod's mirror in the API.
const MIRROR: &str = "kubernetes.io/config.mirror";
/// A container that is not ready after this many restarts is in a crash loop.
const CRASHES: i32 = 3;
/// Label that the Deployment controller sets on ReplicaSets and pods. The ReplicaSet's name ends with its
/// value.
const TEMPLATE_HASH: &str = "pod-template-hash";

/// Why pods could not be listed.
#[derive(Debug, thiserror::Error)]
pub enum PodsError {
    /// The selector is invalid; the API server would have refused it too.
    #[error("cannot select pods")]
    Selector(#[from] ParseExpressionError),
    /// The workload has no valid selector, or a selector that is too long to be kept.
    #[error("cannot select pods: the workload has no valid spec.selector, or one that is longer than 8 KiB")]
    NoSelector,
    /// The API server refused, or could not be reached.
    #[error("cannot list pods")]
    List(#[from] kube::Error),
    /// The API server did not answer in time.
    #[error("cannot list pods: no answer in {LIST_TIMEOUT:?}")]
    Timeout(#[from] tokio::time::error::Elapsed),
}

/// The pods of one workload. `now` is the time of the request.
///
/// # Errors
/// The API server gave no list.
pub async fn of_workload(
    client: &Client,
    key: &WorkloadKey,
    facts: &WorkloadFacts,
    now: Timestamp,
) -> Result<PodsSeen, PodsError> {
    let selector = facts.selector.query(&facts.template_labels).ok_or(PodsError::NoSelector)?;
    let listed = list(client, &key.namespace, &selector).await?;
    let mut pods: Vec<PodFacts> = listed.into_iter().filter_map(|pod| pod.of(key)).collect();
    pods.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(PodsSeen { at: now, resource_version: Some(facts.resource_version.clone()), pods })
}

/// The pods that a monitor's podSelector selects. `now` is the time of the request.
///
/// # Errors
/// The API server gave no list.
pub async fn of_selector(
    client: &Client,
    monitor: &Declarer,
    selector: &LabelSelector,
    now: Timestamp,
) -> Result<PodsSeen, PodsError> {
    let selector: Selector = selector.clone().try_into()?;
    let listed = list(client, monitor.namespace(), &selector.to_string()).await?;
    let mut pods: Vec<PodFacts> = listed.into_iter().map(|pod| pod.facts).collect();
    pods.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(PodsSeen { at: now, resource_version: None, pods })
}

async fn list(client: &Client, namespace: &str, selector: &str) -> Result<Vec<Pod>, PodsError> {
    let api: Api<Pod> = Api::namespaced(client.clone(), namespace);
    let mut params = ListParams::default().labels(selector).limit(PAGE);
    let mut pods = Vec::new();
    loop {
        let page = tokio::time::timeout(LIST_TIMEOUT, api.list(&params)).await??;
        pods.extend(page.items);
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => params.continue_token = Some(token),
            None => return Ok(pods),
        }
    }
}

/// A pod, reduced to facts while it is decoded.
#[derive(Clone, Debug)]
struct Pod {
    meta: ObjectMeta,
    facts: PodFacts,
    replica_set: Option<String>,
}

impl Pod {
    /// The facts, if the pod belongs to this workload. A selector can match other pods, so the owner decides.
    fn of(mut self, key: &WorkloadKey) -> Option<PodFacts> {
        // If the pods of a ReplicaSet lost their hash label, the ReplicaSet is recognised by its name, which
        // begins with the Deployment's name.
        let by_name = self.facts.workload.is_none() && key.kind == WorkloadKind::Deployment;
        let prefix = format!("{}-", key.name);
        if by_name && self.replica_set.is_some_and(|name| name.starts_with(&prefix)) {
            self.facts.workload = Some(key.clone());
        }
        (self.facts.workload.as_ref() == Some(key)).then_some(self.facts)
    }
}

impl Resource for Pod {
    crate::decoded::resource_names!(FullPod);

    fn meta(&self) -> &ObjectMeta {
        &self.meta
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.meta
    }
}

impl<'de> Deserialize<'de> for Pod {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Object::deserialize(deserializer).map(Object::into_pod)
    }
}

#[derive(Deserialize)]
struct Object {
    metadata: Metadata,
    #[serde(default)]
    status: Status,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata {
    name: String,
    #[serde(default)]
    namespace: String,
    #[serde(default)]
    uid: String,
    creation_timestamp: Option<Time>,
    deletion_timestamp: Option<Time>,
    labels: Option<BTreeMap<String, String>>,
    annotations: Option<BTreeMap<String, String>>,
    owner_references: Option<Vec<OwnerReference>>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Status {
    phase: Option<String>,
    conditions: Option<Vec<Condition>>,
    init_container_statuses: Option<Vec<Container>>,
    container_statuses: Option<Vec<Container>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Condition {
    #[serde(rename = "type")]
    type_: String,
    status: String,
    /// Kept as text, since a writer of pod statuses can write times that `Timestamp` cannot express.
    last_transition_time: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Container {
    #[serde(default)]
    ready: bool,
    #[serde(default)]
    restart_count: i32,
    state: Option<State>,
}

#[derive(Deserialize)]
struct State {
    waiting: Option<Waiting>,
}

#[derive(Deserialize)]
struct Waiting {
    reason: Option<String>,
}

impl Container {
    /// Whether the container is in a crash loop. The kubelet waits longer and longer before it restarts a
    /// container; between two waits, only the restart count shows the crash loop.
    fn is_crashing(&self) -> bool {
        let waiting = self.state.as_ref().and_then(|state| state.waiting.as_ref()?.reason.as_deref());
        waiting == Some("CrashLoopBackOff") || (!self.ready && self.restart_count >= CRASHES)
    }
}

impl Object {
    fn into_pod(self) -> Pod {
        let Self { metadata, status } = self;
        let owner = metadata.owner_references.iter().flatten().find(|owner| owner.controller == Some(true));
        let owned_by = |kind: &str| owner.is_some_and(|owner| owner.kind == kind);
        let is_mirror = metadata.annotations.as_ref().is_some_and(|all| all.contains_key(MIRROR));
        let replica_set = owner.filter(|owner| owner.kind == "ReplicaSet").map(|owner| owner.name.clone());
        let ready = status.conditions.iter().flatten().find(|one| one.type_ == "Ready");
        let containers = status.container_statuses.iter().chain(&status.init_container_statuses).flatten();
        let facts = PodFacts {
            created: metadata.creation_timestamp.as_ref().map_or(Timestamp::UNIX_EPOCH, |time| time.0),
            leaving: metadata.deletion_timestamp.is_some(),
            finished: matches!(status.phase.as_deref(), Some("Succeeded" | "Failed")),
            ready: ready.is_some_and(|one| one.status == "True"),
            ready_since: ready.and_then(|one| one.last_transition_time.as_ref()?.parse().ok()),
            crashing: containers.into_iter().any(Container::is_crashing),
            workload: owner.and_then(|owner| workload(owner, &metadata)),
            controlled: owner.is_some(),
            // A node owns the mirror pods of its static pods; deleting a mirror pod stops no container.
            untouchable: is_mirror || owned_by("Node") || owned_by("Job"),
            name: metadata.name.clone(),
            uid: metadata.uid,
        };
        let meta = ObjectMeta {
            name: Some(metadata.name),
            namespace: Some(metadata.namespace),
            ..ObjectMeta::default()
        };
        Pod { meta, facts, replica_set }
    }
}

/// Returns the workload behind an owner. A Deployment names its ReplicaSets after itself and the template's
/// hash, so ReplicaSets need not be watched. A ReplicaSet without such a hash belongs to no workload that we
/// know.
fn workload(owner: &OwnerReference, metadata: &Metadata) -> Option<WorkloadKey> {
    if !owner.api_version.starts_with("apps/") {
        return None;
    }
    let (kind, name): (_, Arc<str>) = match owner.kind.as_str() {
        "StatefulSet" => (WorkloadKind::StatefulSet, owner.name.as_str().into()),
        "DaemonSet" => (WorkloadKind::DaemonSet, owner.name.as_str().into()),
        "ReplicaSet" => {
            let hash = metadata.labels.as_ref()?.get(TEMPLATE_HASH)?;
            let deployment = owner.name.strip_suffix(hash.as_str())?.strip_suffix('-')?;
            (WorkloadKind::Deployment, deployment.into())
        }
        _ => return None,
    };
    Some(WorkloadKey { kind, namespace: metadata.namespace.as_str().into(), name })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pod(owner: Option<(&str, &str)>, more: serde_json::Value) -> Pod {
        let mut object = json!({
            "metadata": {"name": "p", "namespace": "shop", "uid": "u", "creationTimestamp": "2026-01-01T00:00:00Z",
                "labels": {"pod-template-hash": "abc"}},
            "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]},
        });
        if let Some((kind, name)) = owner {
            let version = if kind == "Job" { "batch/v1" } else { "apps/v1" };
            object["metadata"]["ownerReferences"] =
                json!([{"apiVersion": version, "kind": kind, "name": name, "uid": "o", "controller": true}]);
        }
        for (key, value) in more.as_object().unwrap() {
            object["metadata"][key] = value.clone();
        }
        serde_json::from_value(object).unwrap()
    }

    #[test]
    fn a_pod_knows_its_workload() {
        for (owner, expected) in [
            (Some(("ReplicaSet", "web-abc")), Some("Deployment shop/web")),
            (Some(("ReplicaSet", "bare")), None),
            (Some(("StatefulSet", "db")), Some("StatefulSet shop/db")),
            (Some(("Job", "once")), None),
            (None, None),
        ] {
            let facts = pod(owner, json!({})).facts;
            assert_eq!(facts.workload.map(|key| key.to_string()).as_deref(), expected, "{owner:?}");
            assert_eq!(facts.controlled, owner.is_some());
            assert!(facts.ready);
        }
    }

    #[test]
    fn some_pods_are_never_touched_or_are_going() {
        assert!(pod(Some(("Job", "once")), json!({})).facts.untouchable);
        assert!(pod(None, json!({"annotations": {"kubernetes.io/config.mirror": "x"}})).facts.untouchable);
        assert!(!pod(None, json!({})).facts.untouchable);
        assert!(pod(None, json!({"deletionTimestamp": "2026-01-01T00:00:00Z"})).facts.leaving);
    }

    #[test]
    fn a_pod_says_since_when_it_is_ready_and_whether_it_crashes() {
        let with = |containers: serde_json::Value| {
            let pod = json!({"metadata": {"name": "p", "creationTimestamp": "2026-01-01T00:00:00Z"},
                "status": {"conditions": [{"type": "Ready", "status": "False", "lastTransitionTime": "2026-01-01T00:00:09Z"}],
                    "containerStatuses": containers}});
            serde_json::from_value::<Pod>(pod).unwrap().facts
        };
        let fine = with(json!([{"restartCount": 2, "state": {"waiting": {"reason": "ContainerCreating"}}}]));
        assert_eq!((fine.ready, fine.crashing), (false, false));
        assert_eq!(fine.ready_since.map(|time| time.to_string()).as_deref(), Some("2026-01-01T00:00:09Z"));
        assert!(
            with(json!([{}, {"restartCount": 1, "state": {"waiting": {"reason": "CrashLoopBackOff"}}}]))
                .crashing
        );
        assert!(with(json!([{"restartCount": 3, "state": {"running": {}}}])).crashing);
        assert!(
            !with(json!([{"restartCount": 9, "ready": true, "state": {"running": {}}}])).crashing,
            "long ago"
        );
    }

    #[test]
    fn only_pods_that_the_workload_owns_are_its_own() {
        let web =
            WorkloadKey { kind: WorkloadKind::Deployment, namespace: "shop".into(), name: "web".into() };
        assert!(pod(Some(("ReplicaSet", "web-abc")), json!({})).of(&web).is_some());
        assert!(pod(Some(("ReplicaSet", "web-xyz")), json!({"labels": {}})).of(&web).is_some());
        assert!(pod(Some(("ReplicaSet", "other-abc")), json!({})).of(&web).is_none());
        assert!(pod(None, json!({})).of(&web).is_none());
    }
}
