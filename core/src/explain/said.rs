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
            "{}, and {old} pods below its partition {partition} run the old: lower the partition to have them replaced, \
             or use strategy Evict",
            because(about.causes)
        ),
        RestartState::TakenBack(taken_back) => said_of_taken_back(taken_back, about),
        RestartState::Paused => {
            format!("{}, and it is paused: resume it, and it restarts", because(about.causes))
        }
        RestartState::OptedOut => format!(
            "{}, and its annotation copyrator.dev/restart says \"false\": it restarts when that is taken away",
            because(about.causes)
        ),
        RestartState::Due => because(about.causes),
        RestartState::Restarting => "a restart for this content is under way".into(),
        RestartState::Unrecorded => {
            "the objects or keys that count for the workload have changed, but no content: Copyrator records that, and does not restart the workload".into()
        }
        RestartState::Unwatched => {
            "no monitor reaches it, and it has no annotation copyrator.dev/restart".into()
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
            "its last restart was taken back: field manager {manager} changed the pod template after it, and {pods} older content"
        ),
        (Overwritten::Template, manager, _) => {
            let owner = manager
                .as_ref()
                .map(|manager| format!("; field manager {manager} owns the template otherwise"));
            format!(
                "its last restart was taken back: copyrator.dev/restarted-for was removed from the pod template (managedFields do not \
                 name who only removes a field{}), and {pods} older content",
                owner.unwrap_or_default()
            )
        }
        (Overwritten::Strategy, ..) => format!(
            "its update strategy became OnDelete before its last restart was through, and {pods} older content"
        ),
        (Overwritten::Record, manager, _) => {
            let by = manager.as_ref().map(|manager| format!("field manager {manager}"));
            format!(
                "{} wrote its label copyrator.dev/applied, and {pods} perhaps older content (begun before it changed)",
                by.as_deref().unwrap_or("somebody else")
            )
        }
    };
    let again = match about.monitor.map(Declarer::named) {
        Some(NamespacedName { namespace, name }) => format!(
            "to restart it: kubectl annotate cfgmon {name} -n {namespace} --overwrite copyrator.dev/restart-now=1, with \
             strategy Evict where somebody changes the template back each time"
        ),
        None => "to restart it: kubectl rollout restart, or delete these pods; where somebody changes the template back each \
                 time, a ConfigMonitor with strategy Evict in place of the annotation"
            .into(),
    };
    format!("{why}. Copyrator does not repeat it by itself; {again}")
}

/// Why an attempt or a restart has failed.
pub fn failed(failure: &Failure) -> String {
    match failure {
        Failure::Attempt(AttemptFailure::TooManyBudgets) => {
            "a pod is under more than one PodDisruptionBudget and can never be evicted: narrow the selector of all but one"
                .into()
        }
        Failure::Attempt(AttemptFailure::Write(_, message)) => message.clone(),
        Failure::RolloutStuck => {
            "it has not become ready in time since the restart; see the events of its pods".into()
        }
        Failure::CircuitOpen => circuit_open(),
        Failure::Stage { fault, content, last_good } => {
            let last_good = match last_good {
                Some(content) => format!("the last that worked is {content}"),
                None => "the last that worked is not known".into(),
            };
            format!(
                "it runs changed content and has failed: {}. This content is {content}, {last_good}. No other workload of \
                 its monitor restarts before it is ready or its content is changed",
                shown_by(fault)
            )
        }
    }
}

/// The fault that shows that a restart has failed.
fn shown_by(fault: &RolloutFault) -> String {
    match fault {
        RolloutFault::Deadline => "its progress deadline has passed; see the events of its pods".into(),
        RolloutFault::Partition => "its rollout has not come to its partition in time".into(),
        RolloutFault::PodCrashes(pod) => format!("its pod {pod} crashes again and again"),
        RolloutFault::PodNotReadyAnyMore(pod) => format!("its pod {pod} was ready and is not any more"),
        RolloutFault::PodNeverReady(pod) => format!("its pod {pod} does not become ready"),
    }
}

/// The sentence for a wait.
pub(super) fn waits_for(reason: WaitReason, about: &About<'_>) -> String {
    let text = match reason {
        WaitReason::MissingObject => return format!("it uses {}", missing(about.missing)),
        WaitReason::Window => {
            let Some(NamespacedName { namespace, name }) = about.windowed.map(Declarer::named) else {
                return "its monitor's window is closed".into();
            };
            return format!(
                "the window of ConfigMonitor {namespace}/{name} is closed; past it, once: kubectl annotate cfgmon {name} \
                 -n {namespace} --overwrite copyrator.dev/restart-now=1"
            );
        }
        WaitReason::CircuitOpen => return circuit_open(),
        WaitReason::Starting => "Copyrator has not read all objects yet",
        WaitReason::Authority => "the API server has not answered yet whether its monitor may restart it",
        WaitReason::Facts => "what the decision depends on could not be read",
        WaitReason::QuietPeriod => "the content may still be changing",
        WaitReason::RolloutUnfinished => "a rollout is under way, and has to end first",
        WaitReason::MinInterval => "the last restart was a moment ago",
        WaitReason::PodsNotReady => "other pods have to be ready first",
        WaitReason::DisruptionBudget => {
            "a PodDisruptionBudget allows no eviction now: raise the replicas, or relax the budget"
        }
        WaitReason::AbsentObject => {
            "it uses an optional ConfigMap or Secret that does not exist, and that may still be created"
        }
        WaitReason::Backoff => {
            "it has restarted often recently, so each restart waits longer than the one before"
        }
        WaitReason::Budget => {
            "the highest number of restarts is already under way, in the cluster or in the namespace (--max-rollouts)"
        }
        WaitReason::Stage => {
            "other workloads of its monitor restart first, or the highest number of restarts of the monitor is already under way"
        }
        WaitReason::StageStopped => {
            "another workload of its monitor has failed with its new content: make that one ready, or change its content"
        }
    };
    text.to_owned()
}

/// The sentence for an open circuit, with or without new content.
fn circuit_open() -> String {
    "it has not become ready after any of its last restarts, and is restarted once an hour at most until it is: see the \
     events of its pods, and mend the content or the workload"
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
            "it runs changed content and has failed: its pod web-1 crashes again and again. This content is k.new, the \
             last that worked is k.old. No other workload of its monitor restarts before it is ready or its content is \
             changed"
        );
        assert!(failed(&stage(None)).contains("the last that worked is not known"));
    }
}
