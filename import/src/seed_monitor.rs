//! Import of the first Copyrator's `ConfigMonitor`, which names a ConfigMap, and the labels of the pods to
//! delete when the ConfigMap changes.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

use super::{
    finding::{Origin, Tool, differs, none},
    monitors::{DraftMonitor, MonitorDraft},
    workload::SeedMonitor,
};
use crate::{
    api::{ConfigMonitorSpec, DataKind, Strategy, StrategyType, WatchTerm, Workloads},
    names::NameKind,
};

/// Converts a monitor of the first Copyrator to a draft.
pub(super) fn draft(monitor: &SeedMonitor) -> MonitorDraft {
    let origin = Origin::new(Tool::SeedMonitor, "ConfigMonitor", &monitor.namespace, &monitor.name);
    let mut findings = Vec::new();
    let config_map = monitor.config_map.as_deref().filter(|name| NameKind::Object.is_name(name));
    if config_map.is_none() {
        findings.push(none("spec.configMap", "names no ConfigMap: write spec.watch by hand"));
    }
    let selector = monitor.selector.as_ref().filter(|labels| !labels.is_empty());
    if selector.is_none() {
        let told = "is not a map of labels, so the first Copyrator deletes no pod: write spec.workloads.podSelector by hand";
        findings.push(none("spec.podSelector", told));
    }
    let (Some(config_map), Some(labels)) = (config_map, selector) else {
        return MonitorDraft::nothing(origin, findings);
    };
    if let Some((key, value)) = labels.iter().next().filter(|_| labels.len() > 1) {
        findings.push(differs(
            "workloads.podSelector",
            format!(
                "a pod must have all of these labels; the first Copyrator uses only the first label ({key}={value}) and deletes every pod \
                 that has it: if one label is enough, write a monitor for each label"
            ),
        ));
    }
    findings.extend([
        differs(
            "strategy",
            "Copyrator deletes the pods one after the other, each after the last new pod is ready, and only pods that are older than the \
             content. Strategy Evict also respects PodDisruptionBudgets; Rollout uses the workload's own update strategy",
        ),
        differs(
            "pace",
            "Copyrator waits until the content is unchanged for 2s (quietPeriod), and at least 30s between two restarts (minInterval)",
        ),
        differs(
            "watch",
            "Copyrator restarts only for changed content; the first Copyrator deletes pods at every write, even of a label, and misses \
             writes while it is not running",
        ),
        differs(
            "authority",
            "the user who applies the monitor must be allowed to delete pods in the namespace; the first Copyrator did not check this",
        ),
    ]);
    let watch = vec![WatchTerm { kind: DataKind::ConfigMap, names: vec![config_map.to_owned()], keys: None }];
    let pods = LabelSelector { match_labels: Some(labels.clone()), match_expressions: None };
    let spec = ConfigMonitorSpec {
        watch,
        workloads: Some(Workloads { pod_selector: Some(pods), names: None }),
        strategy: Strategy { type_: StrategyType::Delete },
        suspend: true,
        ..ConfigMonitorSpec::default()
    };
    let (namespace, name) = (monitor.namespace.clone(), Some(monitor.name.clone()));
    let made = DraftMonitor { namespace, name, stem: monitor.name.clone(), spec };
    MonitorDraft { origin, findings, monitor: Some(made) }
}
