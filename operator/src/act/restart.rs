//! Writes of workloads and deletions of pods; only this file makes them. Each action applies to the version
//! that it was planned for.

use std::time::Duration;

use http::Request;
use k8s_openapi::api::{
    apps::v1::{DaemonSet, Deployment, StatefulSet},
    core::v1::Pod,
};
use kube::{
    Api, Client, Error, Resource,
    api::{ApiResource, DeleteParams, DynamicObject, Patch, PatchParams, Preconditions},
    core::{PartialObjectMeta, Status},
};
use serde_json::{Value, json};

use super::writer::{WriteError, Writer};
use crate::{
    api::WorkloadKind,
    dry_run::outcome::Outcome,
    marks::{ADOPT_MANAGER, APPLIED, BRAKE, LAST_GOOD, RESTART_MANAGER, RESTARTED_FOR},
    model::{AttemptFailure, TrackRecord, WorkloadFacts, WriteFault},
    names::WorkloadKey,
    plan::restart::{Removal, RemovePod, RestartAction},
};

/// The result of a restart's action.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum RestartOutcome {
    /// A PodDisruptionBudget forbids evicting a pod now. Only this pod waits.
    Budget {
        /// The shortest wait before the next try, if the API server gave one.
        after: Option<Duration>,
    },
    /// The pod has two PodDisruptionBudgets: no eviction can ever succeed, and retries would only load the
    /// API server.
    TooManyBudgets,
    /// The outcome, as for any other write.
    Write(Outcome),
}

impl RestartOutcome {
    /// Returns the value of a metric label.
    pub(crate) fn label(&self) -> &'static str {
        match self {
            Self::Budget { .. } => "budget",
            Self::TooManyBudgets => "too_many_budgets",
            Self::Write(outcome) => outcome.label(),
        }
    }

    /// Returns the failure of a refused action, which is tried again slowly. Waiting for a budget is no
    /// failure.
    pub(crate) fn refusal(&self) -> Option<AttemptFailure> {
        match self {
            Self::TooManyBudgets => Some(AttemptFailure::TooManyBudgets),
            Self::Write(Outcome::Refused { reason, message }) => {
                Some(AttemptFailure::Write(*reason, message.clone()))
            }
            Self::Write(Outcome::NeedsReplacing(message)) => {
                Some(AttemptFailure::Write(WriteFault::Refused, message.clone()))
            }
            Self::Budget { .. }
            | Self::Write(
                Outcome::Done
                | Outcome::Stale
                | Outcome::NamespaceGone
                | Outcome::NotLeading
                | Outcome::Retry { .. },
            ) => None,
        }
    }
}

/// Restarts workloads and deletes pods.
#[derive(Clone)]
pub(crate) struct Restarter {
    writer: Writer,
}

impl Restarter {
    /// Creates a restarter that sends every request through `writer`.
    pub(crate) fn new(writer: Writer) -> Self {
        Self { writer }
    }

    /// Carries out one action on one workload, on the version that it was planned for.
    pub(crate) async fn act(
        &self,
        key: &WorkloadKey,
        facts: &WorkloadFacts,
        action: &RestartAction,
    ) -> RestartOutcome {
        match action {
            RestartAction::Adopt { .. } | RestartAction::Begin { .. } => {
                self.apply(key, ADOPT_MANAGER, manifest(key, facts, action)).await
            }
            RestartAction::Rollout { .. } => {
                self.apply(key, RESTART_MANAGER, manifest(key, facts, action)).await
            }
            RestartAction::RemovePods { pods, how, .. } => self.remove(&key.namespace, pods, *how).await,
        }
    }

    /// Deletes or evicts each pod independently. Returns the last failure, or `Done`.
    pub(crate) async fn remove(&self, namespace: &str, pods: &[RemovePod], how: Removal) -> RestartOutcome {
        let mut worst = RestartOutcome::Write(Outcome::Done);
        for pod in pods {
            let outcome = match how {
                Removal::Evict => self.evict(namespace, pod).await,
                Removal::Delete => self.delete(namespace, pod).await,
            };
            if !matches!(outcome, RestartOutcome::Write(Outcome::Done | Outcome::Stale)) {
                worst = outcome;
            }
        }
        worst
    }

    async fn apply(&self, key: &WorkloadKey, manager: &str, body: Value) -> RestartOutcome {
        let resource = resource(key.kind);
        let (params, patch) = (PatchParams::apply(manager).force(), Patch::Apply(body));
        self.send(|client| async {
            let api: Api<DynamicObject> = Api::namespaced_with(client, &key.namespace, &resource);
            api.patch_metadata(&key.name, &params, &patch).await.map(drop)
        })
        .await
    }

    /// Sends an eviction without `Api::evict`: kube 5.0 writes the options as `delete_options`. The API
    /// server ignores `delete_options`, and so it would ignore the precondition on the pod's UID.
    async fn evict(&self, namespace: &str, pod: &RemovePod) -> RestartOutcome {
        let path = format!("{}/{}/eviction", Pod::url_path(&(), Some(namespace)), pod.name);
        let request = Request::post(path).header("Content-Type", "application/json");
        let request = match request.body(eviction(namespace, pod).to_string().into_bytes()) {
            Ok(request) => request,
            Err(error) => {
                let outcome = Outcome::Refused { reason: WriteFault::Refused, message: error.to_string() };
                return RestartOutcome::Write(outcome);
            }
        };
        self.send(|client| async move { client.request::<Status>(request).await.map(drop) }).await
    }

    async fn delete(&self, namespace: &str, pod: &RemovePod) -> RestartOutcome {
        let preconditions = Preconditions { uid: Some(pod.uid.clone()), resource_version: None };
        let params = DeleteParams { preconditions: Some(preconditions), ..DeleteParams::default() };
        self.send(|client| async {
            let api: Api<PartialObjectMeta<Pod>> = Api::namespaced(client, namespace);
            api.delete(&pod.name, &params).await.map(drop)
        })
        .await
    }

    async fn send<F>(&self, request: impl FnOnce(Client) -> F) -> RestartOutcome
    where
        F: Future<Output = kube::Result<()>>,
    {
        match self.writer.send(request).await {
            Ok(()) => RestartOutcome::Write(Outcome::Done),
            Err(WriteError::Api(error)) => outcome(*error),
            Err(error) => RestartOutcome::Write(error.into()),
        }
    }
}

fn resource(kind: WorkloadKind) -> ApiResource {
    match kind {
        WorkloadKind::Deployment => ApiResource::erase::<Deployment>(&()),
        WorkloadKind::StatefulSet => ApiResource::erase::<StatefulSet>(&()),
        WorkloadKind::DaemonSet => ApiResource::erase::<DaemonSet>(&()),
    }
}

/// Returns the complete intent of one field manager: two partial intents under the name of one manager would
/// delete each other's fields. Without the UID, the resource version alone would create a deleted workload
/// again.
fn manifest(key: &WorkloadKey, facts: &WorkloadFacts, action: &RestartAction) -> Value {
    let resource = resource(key.kind);
    let mut body = json!({
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": {
            "name": &*key.name,
            "namespace": &*key.namespace,
            "uid": facts.uid.to_string(),
            "resourceVersion": facts.resource_version.to_string(),
        },
    });
    match action {
        RestartAction::Adopt { label, track } | RestartAction::Begin { label, track } => {
            body["metadata"]["labels"] = labels(label, track);
        }
        RestartAction::Rollout { label, stamp, track } => {
            body["metadata"]["labels"] = labels(label, track);
            body["spec"] = json!({"template": {"metadata": {"annotations": { RESTARTED_FOR: stamp }}}});
        }
        RestartAction::RemovePods { .. } => {}
    }
    body
}

/// Each of the two managers applies all labels: a label that a manager has written and then leaves out would
/// be deleted.
fn labels(applied: &str, track: &TrackRecord) -> Value {
    let mut labels = json!({ APPLIED: applied });
    if let Some(brake) = track.brake() {
        labels[BRAKE] = brake.into();
    }
    if let Some(last_good) = &track.last_good {
        labels[LAST_GOOD] = last_good.as_str().into();
    }
    labels
}

fn eviction(namespace: &str, pod: &RemovePod) -> Value {
    json!({
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": pod.name, "namespace": namespace},
        "deleteOptions": {"preconditions": {"uid": pod.uid}},
    })
}

fn outcome(error: Error) -> RestartOutcome {
    let Error::Api(status) = &error else { return RestartOutcome::Write(error.into()) };
    let details = status.details.as_ref();
    let by_budget =
        details.is_some_and(|one| one.causes.iter().any(|cause| cause.reason == "DisruptionBudget"));
    if status.code == 429 && by_budget {
        let seconds = details.map_or(0, |details| details.retry_after_seconds);
        return RestartOutcome::Budget { after: (seconds > 0).then(|| Duration::from_secs(seconds.into())) };
    }
    if status.code == 500 && status.message.contains("more than one PodDisruptionBudget") {
        return RestartOutcome::TooManyBudgets;
    }
    RestartOutcome::Write(error.into())
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use k8s_openapi::api::apps::v1::StatefulSet;

    use super::*;
    use crate::{
        intake::{watched::Watched as _, workload::Workload},
        model::World,
    };

    fn answer(json: Value) -> RestartOutcome {
        let status: Status = serde_json::from_value(json).unwrap();
        outcome(Error::Api(status.boxed()))
    }

    #[test]
    fn a_budget_is_told_from_an_overloaded_server() {
        let causes = json!([{"reason": "DisruptionBudget"}]);
        let budget = json!({"code": 429, "reason": "TooManyRequests", "details": {"causes": causes}});
        assert_eq!(answer(budget), RestartOutcome::Budget { after: None });
        let unready = json!({"code": 429, "details": {"causes": causes, "retryAfterSeconds": 10}});
        assert_eq!(answer(unready), RestartOutcome::Budget { after: Some(Duration::from_secs(10)) });
        let busy = answer(json!({"code": 429, "details": {"retryAfterSeconds": 1}}));
        assert!(matches!(busy, RestartOutcome::Write(Outcome::Retry { after: Some(_), .. })), "{busy:?}");
        let two = json!({"code": 500, "message": "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."});
        assert_eq!(answer(two), RestartOutcome::TooManyBudgets);
        let other_pod =
            answer(json!({"code": 409, "reason": "Conflict", "message": "Precondition failed: UID"}));
        assert_eq!(other_pod, RestartOutcome::Write(Outcome::Stale));
    }

    #[test]
    fn requests_name_the_very_object() {
        let pod = RemovePod { name: "web-0".into(), uid: "u".into() };
        assert_eq!(eviction("shop", &pod)["deleteOptions"]["preconditions"]["uid"], "u");
        let key =
            WorkloadKey { kind: WorkloadKind::StatefulSet, namespace: "shop".into(), name: "db".into() };
        let metadata = json!({"name": "db", "namespace": "shop", "uid": "w", "resourceVersion": "7"});
        let set: Workload<StatefulSet> = serde_json::from_value(json!({"metadata": metadata})).unwrap();
        let mut world = World::default();
        set.put(&mut world, Timestamp::UNIX_EPOCH);
        let track = TrackRecord { streak: 2, failures: 1, last_good: Some("k.c".into()) };
        let body = manifest(
            &key,
            &world.workloads()[&key],
            &RestartAction::Rollout { label: "k.d.s".into(), stamp: "k.d".into(), track },
        );
        let expected = json!({
            "apiVersion": "apps/v1",
            "kind": "StatefulSet",
            "metadata": {"name": "db", "namespace": "shop", "uid": "w", "resourceVersion": "7",
                "labels": {"copyrator.dev/applied": "k.d.s", "copyrator.dev/brake": "2.1",
                    "copyrator.dev/last-good": "k.c"}},
            "spec": {"template": {"metadata": {"annotations": {"copyrator.dev/restarted-for": "k.d"}}}},
        });
        assert_eq!(body, expected);
    }
}
