//! Import from wave: `wave.pusher.com/update-on-config-change: "true"` on a workload. wave then writes a hash
//! to the pod template: of all objects that the template refers to, and of `extra-configmaps` and
//! `extra-secrets`, also in other namespaces.

use super::{
    finding::{Finding, Origin, Tool, differs, none},
    monitors::{DraftMonitor, MonitorDraft, Watched, behaviour},
    workload::AnnotatedWorkload,
};
use crate::names::{Kind, NameKind};

const UPDATE: &str = "wave.pusher.com/update-on-config-change";
const EXTRA: [(&str, Kind); 2] =
    [("wave.pusher.com/extra-configmaps", Kind::ConfigMap), ("wave.pusher.com/extra-secrets", Kind::Secret)];
const HASH: &str = "wave.pusher.com/config-hash";
const FINALIZER: &str = "wave.pusher.com/finalizer";
const NO_SCHEDULER: &str = "wave.pusher.com/invalid";
const SCHEDULING: &str = "wave.pusher.com/scheduling-disabled";

/// Converts a workload with annotations of wave to a draft.
pub(super) fn draft(workload: &AnnotatedWorkload) -> Option<MonitorDraft> {
    if !workload.speaks_to(Tool::Wave) {
        return None;
    }
    let origin = Origin::new(Tool::Wave, workload.kind.to_string(), &workload.namespace, &workload.name);
    let mut findings = left_behind(workload);
    if workload.annotation(UPDATE) != Some("true") {
        if let Some(text) = workload.annotation(UPDATE) {
            findings.push(differs(
                UPDATE,
                format!("is {text:?} and not \"true\": wave ignores the workload, and so does this import"),
            ));
        }
        return (!findings.is_empty()).then(|| MonitorDraft::nothing(origin, findings));
    }
    let mut watched = Watched::default();
    match &workload.references {
        Some(references) => {
            for one in references {
                watched.keys(one.kind, &one.name, one.keys.as_deref());
            }
        }
        None => {
            findings.push(none("spec.template", "cannot be read: write the objects into spec.watch by hand"))
        }
    }
    for (annotation, kind) in EXTRA {
        for entry in workload.annotation(annotation).unwrap_or_default().split(',').map(str::trim) {
            extra(workload, annotation, kind, entry, &mut watched, &mut findings);
        }
    }
    let watch = watched.terms();
    if watch.is_empty() {
        findings.push(differs("watch", "no object is left for a monitor to watch, so no monitor is made"));
        return Some(MonitorDraft::nothing(origin, findings));
    }
    findings.extend(behaviour(Tool::Wave));
    findings.push(differs(
        UPDATE,
        "what the pod template refers to now is listed, init containers too, which wave passes over, and of each object the \
         keys that are used, also where a volume names them; what it will refer to later is not. copyrator.dev/restart=true \
         on the workload, in place of this monitor, follows the template",
    ));
    findings.push(differs(
        SCHEDULING,
        "pods that wait for an object are not kept from being scheduled: the kubelet starts them when it is there, without a \
         restart of ours",
    ));
    let monitor = Some(DraftMonitor::of(workload, watch));
    Some(MonitorDraft { origin, findings, monitor })
}

fn extra(
    workload: &AnnotatedWorkload,
    annotation: &str,
    kind: Kind,
    entry: &str,
    watched: &mut Watched,
    findings: &mut Vec<Finding>,
) {
    let (namespace, name) = entry.split_once('/').unwrap_or((&workload.namespace, entry));
    if entry.is_empty() {
    } else if !NameKind::Object.is_name(name) {
        findings.push(none(
            annotation,
            format!("{entry:?} is not a valid name, so the monitor watches nothing for it"),
        ));
    } else if namespace == workload.namespace {
        watched.all(kind, name);
    } else {
        findings.push(none(
            annotation,
            format!(
                "{kind} {namespace}/{name} is of another namespace, where a monitor does not look: have a CopyratorRule in \
                 {namespace} copy it to {}, if its readers may read it, and add its name to spec.watch",
                workload.namespace
            ),
        ));
    }
}

/// Returns findings about wave's own marks on the workload, and what happens to them once wave is removed.
fn left_behind(workload: &AnnotatedWorkload) -> Vec<Finding> {
    let mut findings = Vec::new();
    if workload.template.contains_key(HASH) {
        findings.push(differs(
            HASH,
            "stays on the pod template and does nothing; taking it off is a change of the template, and so one rollout",
        ));
    }
    if workload.finalizers.iter().any(|one| one == FINALIZER) {
        findings.push(differs(
            "metadata.finalizers",
            format!("{FINALIZER} is of an older wave: without wave nobody takes it off, and the workload cannot be deleted; take it off when wave is gone"),
        ));
    }
    if workload.scheduler.as_deref() == Some(NO_SCHEDULER) {
        findings.push(differs(
            "schedulerName",
            format!(
                "is {NO_SCHEDULER} while an object is missing, and stays so without wave: make the object before wave is \
                 stopped, or set it to what {SCHEDULING} says"
            ),
        ));
    }
    findings
}
