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
                format!("is {text:?}, not \"true\": wave ignores the workload, and import does, too"),
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
        None => findings.push(none(
            "spec.template",
            "import cannot read the pod template: list the objects in spec.watch by hand",
        )),
    }
    for (annotation, kind) in EXTRA {
        for entry in workload.annotation(annotation).unwrap_or_default().split(',').map(str::trim) {
            extra(workload, annotation, kind, entry, &mut watched, &mut findings);
        }
    }
    let watch = watched.terms();
    if watch.is_empty() {
        findings.push(differs("watch", "the monitor would watch no object, so import makes no monitor"));
        return Some(MonitorDraft::nothing(origin, findings));
    }
    findings.extend(behaviour(Tool::Wave));
    findings.push(differs(
        UPDATE,
        "the monitor lists the objects and keys that the pod template uses now, also those of init containers, which wave ignores. It \
         does not follow later changes of the pod template: annotate the workload with copyrator.dev/restart=true instead to follow them",
    ));
    findings.push(differs(
        SCHEDULING,
        "Copyrator does not delay the scheduling of pods whose ConfigMap or Secret is missing: the kubelet starts their containers when \
         the object exists, without a restart by Copyrator",
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
            format!("{entry:?} is not a valid object name, so the monitor leaves it out"),
        ));
    } else if namespace == workload.namespace {
        watched.all(kind, name);
    } else {
        findings.push(none(
            annotation,
            format!(
                "{kind} {namespace}/{name} is in another namespace, and a monitor watches only its own: if the readers of {} may read the \
                 object, copy it there with a CopyratorRule in {namespace}, and add its name to spec.watch",
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
            "stays on the pod template and has no effect; removing it changes the pod template and causes one rollout",
        ));
    }
    if workload.finalizers.iter().any(|one| one == FINALIZER) {
        findings.push(differs(
            "metadata.finalizers",
            format!("an older wave set {FINALIZER}: Kubernetes cannot delete the workload until the finalizer is removed; remove it after \
             you uninstall wave"),
        ));
    }
    if workload.scheduler.as_deref() == Some(NO_SCHEDULER) {
        findings.push(differs(
            "schedulerName",
            format!(
                "is {NO_SCHEDULER} while an object is missing, and wave must reset it: create the object before you stop wave, or set \
                 schedulerName to the value of {SCHEDULING}"
            ),
        ));
    }
    findings
}
