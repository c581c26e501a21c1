//! `ConfigMonitor`: what restarts when content changes.

use std::fmt;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, LabelSelector, Time};
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{DataKind, Problem, Span};

/// What restarts when content changes: the watched objects, the workloads, and how fast.
#[derive(CustomResource, KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "copyrator.dev",
    version = "v1alpha1",
    kind = "ConfigMonitor",
    shortname = "cfgmon",
    category = "copyrator",
    namespaced,
    status = "ConfigMonitorStatus",
    derive = "PartialEq",
    derive = "Default",
    doc = "Restarts workloads when the content of ConfigMaps or Secrets changes.",
    printcolumn(name = "Strategy", type_ = "string", json_path = ".spec.strategy.type"),
    printcolumn(name = "Workloads", type_ = "integer", json_path = ".status.workloads"),
    printcolumn(name = "UpToDate", type_ = "integer", json_path = ".status.upToDate"),
    printcolumn(name = "Restarting", type_ = "integer", json_path = ".status.restarting"),
    printcolumn(name = "Waiting", type_ = "integer", json_path = ".status.waiting"),
    printcolumn(name = "Failed", type_ = "integer", json_path = ".status.failed"),
    printcolumn(
        name = "Ready",
        type_ = "string",
        json_path = ".status.conditions[?(@.type=='Ready')].status"
    ),
    printcolumn(
        name = "Reason",
        type_ = "string",
        json_path = ".status.conditions[?(@.type=='Ready')].reason"
    ),
    printcolumn(name = "Problem", type_ = "string", json_path = ".status.problems[0].reason"),
    printcolumn(name = "LastRestart", type_ = "date", json_path = ".status.lastRestartTime"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
pub struct ConfigMonitorSpec {
    /// The objects, in the monitor's own namespace, whose content counts.
    #[schemars(length(min = 1, max = 64))]
    pub watch: Vec<WatchTerm>,
    /// What restarts. Absent: whatever workload references a watched object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workloads: Option<Workloads>,
    /// How a restart is done.
    #[serde(default)]
    pub strategy: Strategy,
    /// How soon restarts follow changes, and how many run at once.
    #[serde(default)]
    pub pace: Pace,
    /// When restarts may begin. Absent: at any time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window: Option<Window>,
    /// Act with this ServiceAccount of the monitor's own namespace instead of with the monitor's author.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub service_account_name: Option<String>,
    /// Suspend the monitor: nothing is restarted for it.
    #[serde(default)]
    pub suspend: bool,
}

/// One set of watched objects.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WatchTerm {
    /// The kind of the objects.
    pub kind: DataKind,
    /// Names or globs of the objects.
    #[schemars(length(min = 1, max = 64), inner(length(min = 1, max = 253)))]
    pub names: Vec<String>,
    /// Keys or globs whose content counts. Default: all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 64), inner(length(min = 1, max = 253)))]
    pub keys: Option<Vec<String>>,
}

/// What restarts: by labels of the pods, or by name.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("has(self.podSelector) != has(self.names)")
    .message("workloads needs exactly one of podSelector and names"))]
pub struct Workloads {
    /// Labels of the pods; `{}` means every pod of the namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod_selector: Option<LabelSelector>,
    /// Workloads by kind and name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 64))]
    pub names: Option<Vec<WorkloadName>>,
}

/// The kinds of workload whose pod template Copyrator restarts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[allow(missing_docs, reason = "a doc comment on a variant makes its schema unstructural")]
pub enum WorkloadKind {
    Deployment,
    StatefulSet,
    DaemonSet,
}

impl fmt::Display for WorkloadKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.resource().kind)
    }
}

/// One workload by name.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct WorkloadName {
    /// Deployment, StatefulSet or DaemonSet.
    pub kind: WorkloadKind,
    /// Name of the workload, in the monitor's own namespace.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
}

/// How a restart is done.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Strategy {
    /// `Rollout` changes an annotation of the pod template, `Evict` asks the eviction API, which honours
    /// PodDisruptionBudgets, `Delete` deletes the pods.
    #[serde(rename = "type", default)]
    pub type_: StrategyType,
}

/// The ways to restart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[allow(missing_docs, reason = "a doc comment on a variant makes its schema unstructural")]
pub enum StrategyType {
    #[default]
    Rollout,
    Evict,
    Delete,
}

/// How fast restarts follow changes and one another.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Pace {
    /// How long content must stay unchanged before a restart. Default `2s`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quiet_period: Option<Span>,
    /// The least time between two restarts of one workload. Default `30s`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_interval: Option<Span>,
    /// How many of the workloads may be under way at once: restarting, or ready for less than `soak`. Default: no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub max_concurrent: Option<i32>,
    /// How long a restarted workload must stay ready before the next one follows. Default `0s`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub soak: Option<Span>,
    /// The order of restarts: selectors on the labels of the pod templates, one for each group. A group
    /// begins when the restarts of the one before it are complete; workloads that no selector matches come
    /// last.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    pub order: Vec<LabelSelector>,
}

/// When restarts may begin: from each time of the schedule on, for as long as the duration says.
#[derive(KubeSchema, Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Window {
    /// When it opens: minute, hour, day of month, month, day of week, as cron has them, or `@daily` and the like.
    #[schemars(length(min = 1, max = 128))]
    #[x_kube(validation = Rule::new("self.matches('^(@[a-z]+|[^ @]+( +[^ @]+){4})$')")
        .message("schedule needs five fields: minute, hour, day of month, month, day of week, as in \"0 2 * * *\""))]
    pub schedule: String,
    /// The time zone of the schedule, as in `Europe/Berlin`. Default `UTC`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 64))]
    pub time_zone: Option<String>,
    /// How long it stays open.
    #[x_kube(validation = Rule::new("duration(self) > duration('0s')")
        .message("duration must be longer than 0s, or the window never opens"))]
    pub duration: Span,
}

/// What the operator observed and did.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ConfigMonitorStatus {
    /// The generation of the spec that this status describes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// The generation that the monitor's identity was allowed to declare.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub authorized_generation: Option<i64>,
    /// The operator's signature on `authorizedGeneration`, which counts for nothing without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub authorized_proof: Option<String>,
    /// The user or ServiceAccount whose rights the monitor acts with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub identity: Option<String>,
    /// Keyed digest of the content that pods without a Deployment, StatefulSet or DaemonSet run with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pods_applied: Option<String>,
    /// How many workloads the monitor reaches.
    #[serde(default)]
    pub workloads: i64,
    /// How many of them run the current content.
    #[serde(default)]
    pub up_to_date: i64,
    /// How many are being restarted.
    #[serde(default)]
    pub restarting: i64,
    /// How many wait for their turn.
    #[serde(default)]
    pub waiting: i64,
    /// How many could not be restarted.
    #[serde(default)]
    pub failed: i64,
    /// When the last restart began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_restart_time: Option<Time>,
    /// When the next restart is due.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_restart_time: Option<Time>,
    /// The worst problems, at most 20.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 20))]
    pub problems: Vec<Problem>,
    /// Ready, Authorized, Degraded, Restarting, Stalled.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    pub conditions: Vec<Condition>,
}
