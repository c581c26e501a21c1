//! The state of a rollout, from a workload's spec and status. `kubectl rollout status` reports a different
//! state, since it waits for pods to be available: a DaemonSet with one node down, or a StatefulSet with one
//! crashing pod, would count as rolling out for ever. This file decides by the revision of the pods whether a
//! rollout is running; the controller deals with pods that are not available.

use serde::Deserialize;

use crate::{api::WorkloadKind, model::Rollout};

/// The fields of a workload's spec that decide about rollouts.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Desired {
    pub(super) replicas: Option<i32>,
    pub(super) paused: Option<bool>,
    pub(super) update_strategy: Option<UpdateStrategy>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct UpdateStrategy {
    #[serde(rename = "type")]
    type_: Option<String>,
    rolling_update: Option<RollingUpdate>,
}

#[derive(Deserialize)]
struct RollingUpdate {
    partition: Option<i32>,
}

/// The fields of a workload's status that describe its rollout.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Status {
    observed_generation: i64,
    replicas: i32,
    updated_replicas: i32,
    ready_replicas: i32,
    available_replicas: i32,
    current_revision: Option<String>,
    update_revision: Option<String>,
    desired_number_scheduled: i32,
    current_number_scheduled: i32,
    updated_number_scheduled: i32,
    number_available: i32,
    conditions: Option<Vec<Condition>>,
}

#[derive(Deserialize)]
struct Condition {
    #[serde(rename = "type")]
    type_: String,
    reason: Option<String>,
}

impl Status {
    /// How many pods are available.
    pub(super) fn available(&self, kind: WorkloadKind) -> i32 {
        match kind {
            WorkloadKind::Deployment => self.available_replicas,
            WorkloadKind::StatefulSet => self.ready_replicas,
            WorkloadKind::DaemonSet => self.number_available,
        }
    }

    /// Whether the workload's controller has seen this generation.
    pub(super) fn is_of(&self, generation: i64) -> bool {
        self.observed_generation >= generation
    }

    fn progressing(&self, reason: &str) -> bool {
        let mut conditions = self.conditions.iter().flatten();
        conditions.any(|one| one.type_ == "Progressing" && one.reason.as_deref() == Some(reason))
    }
}

/// How many pods a workload wants.
pub(super) fn desired(kind: WorkloadKind, spec: &Desired, status: &Status) -> i32 {
    match kind {
        WorkloadKind::Deployment | WorkloadKind::StatefulSet => spec.replicas.unwrap_or(1),
        WorkloadKind::DaemonSet => status.desired_number_scheduled,
    }
}

/// The state of the workload's rollout.
pub(super) fn rollout(kind: WorkloadKind, generation: i64, spec: &Desired, status: &Status) -> Rollout {
    if spec.paused == Some(true) {
        return Rollout::Paused;
    }
    let strategy = spec.update_strategy.as_ref();
    let on_delete = strategy.is_some_and(|one| one.type_.as_deref() == Some("OnDelete"));
    let partition = strategy.and_then(|one| one.rolling_update.as_ref()?.partition).unwrap_or(0);
    if on_delete {
        return Rollout::OnDelete;
    }
    let is_seen = status.is_of(generation);
    if kind == WorkloadKind::StatefulSet && partition > 0 {
        let is_through = status.updated_replicas >= status.ready_replicas.saturating_sub(partition);
        return if is_seen && is_through { Rollout::Partitioned(partition) } else { Rollout::Unfinished };
    }
    if is_seen && status.progressing("ProgressDeadlineExceeded") {
        return Rollout::Stuck;
    }
    let wanted = desired(kind, spec, status);
    let is_complete = match kind {
        // The Deployment controller itself reports when a rollout is complete, and does not withdraw the
        // report: neither one flapping pod of fifty nor a quota that prevents scaling up should delay
        // restarts. Without a progress deadline, the controller reports no progress. With the strategy
        // Recreate, the controller still reports completion while no pod exists.
        WorkloadKind::Deployment => {
            let was_complete = status.progressing("NewReplicaSetAvailable") && status.updated_replicas > 0;
            let is_available = status.replicas == wanted && status.available_replicas >= wanted;
            status.updated_replicas == status.replicas && (was_complete || is_available)
        }
        // Equal revisions with old pods mean that somebody rolled back during the rollout. `replicas` also
        // counts terminating pods, which stay for ever on a lost node; `updatedReplicas` and `readyReplicas`
        // do not.
        WorkloadKind::StatefulSet => {
            status.update_revision == status.current_revision
                && status.updated_replicas >= status.ready_replicas
        }
        // A node whose pod cannot be created (because of a quota) has no pod of the old revision either.
        WorkloadKind::DaemonSet => {
            status.updated_number_scheduled >= wanted.min(status.current_number_scheduled)
        }
    };
    if is_seen && is_complete { Rollout::Complete } else { Rollout::Unfinished }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn stands(kind: WorkloadKind, spec: Value, status: Value) -> Rollout {
        let spec: Desired = serde_json::from_value(spec).unwrap();
        let status: Status = serde_json::from_value(status).unwrap();
        rollout(kind, 2, &spec, &status)
    }

    #[test]
    fn deployments() {
        let stands = |spec, status| stands(WorkloadKind::Deployment, spec, status);
        let done =
            json!({"observedGeneration": 2, "replicas": 3, "updatedReplicas": 3, "availableReplicas": 3});
        let with = |key: &str, value: Value| {
            let mut status = done.clone();
            status[key] = value;
            status
        };
        let progressing = |reason: &str| json!([{"type": "Progressing", "reason": reason}]);
        assert_eq!(stands(json!({"replicas": 3}), done.clone()), Rollout::Complete);
        assert_eq!(stands(json!({"replicas": 3, "paused": true}), done.clone()), Rollout::Paused);
        assert_eq!(stands(json!({"replicas": 3}), with("observedGeneration", json!(1))), Rollout::Unfinished);
        assert_eq!(stands(json!({"replicas": 3}), with("replicas", json!(4))), Rollout::Unfinished);
        assert_eq!(stands(json!({"replicas": 3}), with("updatedReplicas", json!(1))), Rollout::Unfinished);
        let mut flapping = with("availableReplicas", json!(2));
        assert_eq!(stands(json!({"replicas": 3}), flapping.clone()), Rollout::Unfinished);
        flapping["conditions"] = progressing("NewReplicaSetAvailable");
        assert_eq!(stands(json!({"replicas": 3}), flapping.clone()), Rollout::Complete);
        assert_eq!(stands(json!({"replicas": 9}), flapping.clone()), Rollout::Complete, "a quota");
        flapping["replicas"] = json!(4);
        assert_eq!(stands(json!({"replicas": 3}), flapping.clone()), Rollout::Unfinished);
        (flapping["replicas"], flapping["updatedReplicas"]) = (json!(0), json!(0));
        assert_eq!(stands(json!({"replicas": 3}), flapping), Rollout::Unfinished, "Recreate");
        let stuck = with("conditions", progressing("ProgressDeadlineExceeded"));
        assert_eq!(stands(json!({"replicas": 3}), stuck), Rollout::Stuck);
        assert_eq!(stands(json!({"replicas": 0}), json!({"observedGeneration": 2})), Rollout::Complete);
        assert_eq!(stands(json!({}), json!({})), Rollout::Unfinished);
    }

    #[test]
    fn stateful_sets_and_daemon_sets() {
        let set = |spec, status| stands(WorkloadKind::StatefulSet, spec, status);
        let done = json!({"observedGeneration": 2, "replicas": 2, "updatedReplicas": 2, "readyReplicas": 2, "currentRevision": "a", "updateRevision": "a"});
        assert_eq!(set(json!({"replicas": 2}), done.clone()), Rollout::Complete);
        let mut rolling = done.clone();
        rolling["updateRevision"] = json!("b");
        assert_eq!(set(json!({"replicas": 2}), rolling), Rollout::Unfinished);
        // One pod crashes, so the third pod is not created; another pod is terminating on a lost node.
        let mut crashing = done.clone();
        crashing["readyReplicas"] = json!(1);
        assert_eq!(set(json!({"replicas": 3}), crashing.clone()), Rollout::Complete);
        crashing["updatedReplicas"] = json!(1);
        assert_eq!(set(json!({"replicas": 2}), crashing), Rollout::Complete);
        let mut rolled_back = done.clone();
        rolled_back["updatedReplicas"] = json!(1);
        assert_eq!(set(json!({"replicas": 2}), rolled_back), Rollout::Unfinished);
        let mut unseen = done.clone();
        unseen["observedGeneration"] = json!(1);
        assert_eq!(set(json!({"replicas": 2}), unseen), Rollout::Unfinished);
        let partitioned = |partition| json!({"replicas": 3, "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": partition}}});
        assert_eq!(set(partitioned(2), done.clone()), Rollout::Partitioned(2));
        let part = json!({"observedGeneration": 2, "replicas": 3, "updatedReplicas": 1, "readyReplicas": 3, "currentRevision": "a", "updateRevision": "b"});
        assert_eq!(set(partitioned(2), part.clone()), Rollout::Partitioned(2));
        assert_eq!(set(partitioned(1), part), Rollout::Unfinished, "the partition was lowered");
        assert_eq!(set(json!({"updateStrategy": {"type": "OnDelete"}}), done), Rollout::OnDelete);

        let daemon = |status| stands(WorkloadKind::DaemonSet, json!({}), status);
        let done = json!({"observedGeneration": 2, "desiredNumberScheduled": 2, "currentNumberScheduled": 2, "updatedNumberScheduled": 2, "numberAvailable": 2});
        assert_eq!(daemon(done.clone()), Rollout::Complete);
        let mut node_down = done.clone();
        node_down["numberAvailable"] = json!(1);
        assert_eq!(daemon(node_down), Rollout::Complete);
        let mut rolling = done;
        rolling["updatedNumberScheduled"] = json!(1);
        assert_eq!(daemon(rolling.clone()), Rollout::Unfinished);
        rolling["currentNumberScheduled"] = json!(1);
        assert_eq!(daemon(rolling), Rollout::Complete, "a node whose pod cannot be made");
    }
}
