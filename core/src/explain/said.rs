//! The sentence for each state of a restart. Statuses, Events and commands use the same sentence. The
//! compiler reports a new state or wait without a sentence.

use std::collections::BTreeSet;

use crate::{
    model::{AttemptFailure, RolloutFault, WaitReason, World},
    names::{Declarer, NamespacedName, ObjectKey},
    plan::restart::{Cause, Failure, Inputs, Overwritten, RestartState, TakenBack, because, missing},
};

/// The objects and monitors that a sentence names, beside the state.
#[derive(Debug)]
pub struct About<'a> {
    causes: &'a [Cause],
    missing: &'a BTreeSet<ObjectKey>,
    /// The only monitor with a window; `None` for several monitors, since the sentence does not say which
    /// window is closed.
    windowed: Option<&'a Declarer>,
    /// The first monitor that declares the restart.
    monitor: Option<&'a Declarer>,
}

impl<'a> About<'a> {
    /// Creates an `About` for states whose sentence names no object and no monitor.
    pub(super) fn nothing() -> Self {
        const NO_OBJECTS: &BTreeSet<ObjectKey> = &BTreeSet::new();
        Self { causes: &[], missing: NO_OBJECTS, windowed: None, monitor: None }
    }

    /// Creates an `About` for a workload with these inputs that restarts for these causes.
    pub fn workload(world: &World, inputs: &'a Inputs<'_>, causes: &'a [Cause]) -> Self {
        let mut windowed = inputs.monitors.iter().filter(|name| has_window(world, name));
        let windowed = windowed.next().filter(|_| windowed.next().is_none());
        Self { causes, missing: &inputs.missing, windowed, monitor: inputs.monitors.first() }
    }

    /// Creates an `About` for the pods that a monitor itself selects.
    pub fn pods(world: &World, monitor: &'a Declarer, causes: &'a [Cause]) -> Self {
        Self { causes, windowed: Some(monitor).filter(|name| has_window(world, name)), ..Self::nothing() }
    }
}

fn has_window(world: &World, monitor: &Declarer) -> bool {
    let compiled = world.monitors().get(monitor).and_then(|facts| facts.compiled.as_ref().ok());
    compiled.is_some_and(|compiled| compiled.window.is_some())
}

/// The sentence for a state, with the fix; empty if the current content runs.
pub fn said(state: &RestartState, about: &About<'_>) -> String {
    match state {
        RestartState::Failed(failure) => failed(failure),
        RestartState::Unauthorized(monitor) => {
            format!("ConfigMonitor {monitor} may not restart the workload: the monitor's status says which right is missing")
        }
        RestartState::Waiting(wait) => waits_for(wait.reason, about),
        RestartState::Held { partition, old } => format!(
            "{}, and the StatefulSet's partition {partition} keeps {old} pods on the old content: lower the partition, or use strategy \
             Evict",
            because(about.causes)
        ),
        RestartState::TakenBack(taken_back) => said_of_taken_back(taken_back, about),
        RestartState::Paused => {
            format!("{}, but the workload is paused: it restarts when you resume it", because(about.causes))
        }
        RestartState::OptedOut => format!(
            "{}, but the workload has the annotation copyrator.dev/restart: \"false\": it restarts when you remove the annotation",
            because(about.causes)
        ),
        RestartState::Due => because(about.causes),
        RestartState::Restarting => "Copyrator is restarting the workload for this content".into(),
        RestartState::Unrecorded => {
            "the list of objects or keys that the workload uses has changed, but no content: Copyrator updates its record and does not \
             restart the workload".into()
        }
        RestartState::Unwatched => {
            "no monitor selects this workload, and it has no annotation copyrator.dev/restart".into()
        }
        RestartState::Current => String::new(),
    }
}

/// Returns the sentence about an undone restart: who undid it, which content runs, and how to repeat the
/// restart.
fn said_of_taken_back(taken_back: &TakenBack, about: &About<'_>) -> String {
    let TakenBack { old, what, manager, is_traced } = taken_back;
    let pods = if *old == 1 { "1 pod runs".into() } else { format!("{old} pods run") };
    let why = match (what, manager, is_traced) {
        (Overwritten::Template, Some(manager), true) => format!(
            "field manager {manager} undid the last restart by a change of the pod template, and {pods} older content"
        ),
        (Overwritten::Template, manager, _) => {
            let owner = manager
                .as_ref()
                .map(|manager| format!("; field manager {manager} owns the rest of the template"));
            format!(
                "a writer undid the last restart: it removed copyrator.dev/restarted-for from the pod template, and {pods} older content \
                 (managedFields do not show which writer removed a field{})",
                owner.unwrap_or_default()
            )
        }
        (Overwritten::Strategy, ..) => format!(
            "the update strategy became OnDelete before the last restart was complete, and {pods} older content"
        ),
        (Overwritten::Record, manager, _) => {
            let by = manager.as_ref().map(|manager| format!("field manager {manager}"));
            format!(
                "{} changed the workload's label copyrator.dev/applied, and {pods} perhaps older content (the pods are older than the \
                 last change of the content)",
                by.as_deref().unwrap_or("another writer")
            )
        }
    };
    let again = match about.monitor.map(Declarer::named) {
        Some(NamespacedName { namespace, name }) => format!(
            "to restart the workload: kubectl annotate cfgmon {name} -n {namespace} --overwrite copyrator.dev/restart-now=1. If a writer \
             changes the template back each time, use strategy Evict"
        ),
        None => "to restart the workload: kubectl rollout restart, or delete these pods. If a writer changes the template back each time, \
         replace the annotation by a ConfigMonitor with strategy Evict"
            .into(),
    };
    format!("{why}. Copyrator does not repeat the restart; {again}")
}

/// Why an attempt or a restart has failed.
pub fn failed(failure: &Failure) -> String {
    match failure {
        Failure::Attempt(AttemptFailure::TooManyBudgets) => {
            "a pod matches more than one PodDisruptionBudget, so the API server never evicts it: narrow the budgets' selectors until only \
             one matches"
                .into()
        }
        Failure::Attempt(AttemptFailure::Write(_, message)) => message.clone(),
        Failure::RolloutStuck => {
            "the workload did not become ready in time after the restart: see the events of its pods".into()
        }
        Failure::CircuitOpen => circuit_open(),
        Failure::Stage { fault, content, last_good } => {
            let last_good = match last_good {
                Some(content) => format!("the last content that worked is {content}"),
                None => "the last content that worked is not known".into(),
            };
            format!(
                "the workload failed with changed content: {}. The content is {content}; {last_good}. Its monitor restarts no other \
                 workload until this workload is ready or its content changes",
                shown_by(fault)
            )
        }
    }
}

/// The fault that shows that a restart has failed.
fn shown_by(fault: &RolloutFault) -> String {
    match fault {
        RolloutFault::Deadline => {
            "the rollout exceeded its progress deadline; see the events of its pods".into()
        }
        RolloutFault::Partition => "the rollout did not reach its partition in time".into(),
        RolloutFault::PodCrashes(pod) => format!("its pod {pod} crashes repeatedly"),
        RolloutFault::PodNotReadyAnyMore(pod) => format!("its pod {pod} was ready and is now not ready"),
        RolloutFault::PodNeverReady(pod) => format!("its pod {pod} does not become ready"),
    }
}

/// The sentence for a wait.
pub(super) fn waits_for(reason: WaitReason, about: &About<'_>) -> String {
    let text = match reason {
        WaitReason::MissingObject => return format!("the workload uses {}", missing(about.missing)),
        WaitReason::Window => {
            let Some(NamespacedName { namespace, name }) = about.windowed.map(Declarer::named) else {
                return "the window of its monitor is closed".into();
            };
            return format!(
                "the window of ConfigMonitor {namespace}/{name} is closed; to restart once outside the window: kubectl annotate cfgmon \
                 {name} -n {namespace} --overwrite copyrator.dev/restart-now=1"
            );
        }
        WaitReason::CircuitOpen => return circuit_open(),
        WaitReason::Starting => "Copyrator has not read all objects yet",
        WaitReason::Authority => {
            "the API server has not answered yet whether the monitor may restart this workload"
        }
        WaitReason::Facts => "Copyrator could not read an object that this decision needs",
        WaitReason::QuietPeriod => "the content may still be changing",
        WaitReason::RolloutUnfinished => "a rollout is in progress and must finish first",
        WaitReason::MinInterval => "the last restart is too recent (minInterval)",
        WaitReason::PodsNotReady => "other pods must become ready first",
        WaitReason::DisruptionBudget => {
            "a PodDisruptionBudget allows no eviction now: increase the replicas, or relax the budget"
        }
        WaitReason::AbsentObject => {
            "the workload uses an optional ConfigMap or Secret that does not exist and may still be created"
        }
        WaitReason::Backoff => {
            "the workload restarted often recently, so Copyrator waits longer before each restart"
        }
        WaitReason::Budget => {
            "the maximum number of restarts is in progress in the cluster or in the namespace (--max-rollouts)"
        }
        WaitReason::Stage => {
            "other workloads of the monitor restart first, or the monitor's maximum number of restarts is in progress"
        }
        WaitReason::StageStopped => {
            "another workload of the monitor failed with its new content: make that workload ready, or change its content"
        }
    };
    text.to_owned()
}

/// The sentence for an open circuit, with or without new content.
fn circuit_open() -> String {
    "the workload did not become ready after any of its last restarts, so Copyrator restarts it at most once an hour: see the events of \
     its pods, and fix the content or the workload"
        .into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::restart::Wait;

    /// Each state has its own sentence: two different waits never share one.
    #[test]
    fn every_wait_has_a_sentence_of_its_own() {
        let about = About::nothing();
        let sentence = |reason: &WaitReason| said(&RestartState::Waiting(Wait::for_event(*reason)), &about);
        let sentences: BTreeSet<String> = WaitReason::ALL.iter().map(sentence).collect();
        assert_eq!(sentences.len(), WaitReason::ALL.len());
        assert!(sentences.iter().all(|sentence| !sentence.is_empty() && !sentence.ends_with('.')));
        let waiting = said(&RestartState::Waiting(Wait::for_event(WaitReason::CircuitOpen)), &about);
        assert_eq!(waiting, said(&RestartState::Failed(Failure::CircuitOpen), &about));
    }

    #[test]
    fn a_failed_stage_names_what_fails_and_both_contents() {
        let stage = |last_good: Option<&str>| Failure::Stage {
            fault: RolloutFault::PodCrashes("web-1".into()),
            content: "k.new".into(),
            last_good: last_good.map(str::to_owned),
        };
        assert_eq!(
            failed(&stage(Some("k.old"))),
            "the workload failed with changed content: its pod web-1 crashes repeatedly. The content is k.new; the last content that \
             worked is k.old. Its monitor restarts no other workload until this workload is ready or its content changes"
        );
        assert!(failed(&stage(None)).contains("the last content that worked is not known"));
    }
}
