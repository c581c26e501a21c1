//! How a rollout stands, from a workload's spec and status, by the rules of `kubectl rollout status`.

use serde::Deserialize;

use crate::model::{Rollout, WorkloadKind};

/// What of a workload's spec decides about rollouts.
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

/// What the controllers say of it.
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

/// How its rollout stands.
pub(super) fn rollout(kind: WorkloadKind, generation: i64, spec: &Desired, status: &Status) -> Rollout {
    if spec.paused == Some(true) {
        return Rollout::Paused;
    }
    let strategy = spec.update_strategy.as_ref();
    let on_delete = strategy.is_some_and(|one| one.type_.as_deref() == Some("OnDelete"));
    let partition = strategy.and_then(|one| one.rolling_update.as_ref()?.partition).unwrap_or(0);
    if on_delete || (kind == WorkloadKind::StatefulSet && partition > 0) {
        return Rollout::Manual;
    }
    let is_seen = status.observed_generation >= generation;
    if is_seen && status.progressing("ProgressDeadlineExceeded") {
        return Rollout::Stuck;
    }
    let wanted = desired(kind, spec, status);
    let is_complete = match kind {
        // A pod that fails later does not undo a rollout that was complete once: the controller keeps saying
        // NewReplicaSetAvailable, or one flapping pod of fifty would hold up every restart.
        WorkloadKind::Deployment => {
            let is_available =
                status.available_replicas >= wanted || status.progressing("NewReplicaSetAvailable");
            status.updated_replicas == wanted && status.replicas == wanted && is_available
        }
        WorkloadKind::StatefulSet => {
            let is_updated = status.update_revision == status.current_revision;
            status.replicas == wanted && status.ready_replicas >= wanted && is_updated
        }
        WorkloadKind::DaemonSet => {
            status.updated_number_scheduled >= wanted && status.number_available >= wanted
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
        assert_eq!(stands(json!({"replicas": 3}), flapping), Rollout::Complete);
        let stuck = with("conditions", progressing("ProgressDeadlineExceeded"));
        assert_eq!(stands(json!({"replicas": 3}), stuck), Rollout::Stuck);
        assert_eq!(stands(json!({"replicas": 0}), json!({"observedGeneration": 2})), Rollout::Complete);
        assert_eq!(stands(json!({}), json!({})), Rollout::Unfinished);
    }

    #[test]
    fn stateful_sets_and_daemon_sets() {
        let set = |spec, status| stands(WorkloadKind::StatefulSet, spec, status);
        let done = json!({"observedGeneration": 2, "replicas": 1, "readyReplicas": 1, "currentRevision": "a", "updateRevision": "a"});
        assert_eq!(set(json!({"replicas": 1}), done.clone()), Rollout::Complete);
        let mut rolling = done.clone();
        rolling["updateRevision"] = json!("b");
        assert_eq!(set(json!({"replicas": 1}), rolling), Rollout::Unfinished);
        let partitioned = json!({"replicas": 1, "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 2}}});
        assert_eq!(set(partitioned, done.clone()), Rollout::Manual);
        assert_eq!(set(json!({"updateStrategy": {"type": "OnDelete"}}), done), Rollout::Manual);

        let daemon = |status| stands(WorkloadKind::DaemonSet, json!({}), status);
        let done = json!({"observedGeneration": 2, "desiredNumberScheduled": 2, "updatedNumberScheduled": 2, "numberAvailable": 2});
        assert_eq!(daemon(done.clone()), Rollout::Complete);
        let mut rolling = done;
        rolling["updatedNumberScheduled"] = json!(1);
        assert_eq!(daemon(rolling), Rollout::Unfinished);
    }
}
