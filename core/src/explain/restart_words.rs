//! The words for states and waits of restarts, each text in one place: the compiler tells an author who adds
//! a state or a wait that words for it are missing.

use std::collections::BTreeSet;

use super::{
    foresee::Foreseen,
    restart_outlook::{RestartCourse, RestartState},
};
use crate::{
    model::WorkloadFacts,
    names::{NamespacedName, ObjectKey},
    plan::restart::{RestartAction, WaitReason, WorkloadPlan, WorkloadState, because, missing},
};

/// The word for a state.
pub(super) fn state(plan: &WorkloadPlan) -> RestartState {
    match (&plan.state, &plan.action) {
        (
            _,
            Some(
                RestartAction::Rollout { .. }
                | RestartAction::Begin { .. }
                | RestartAction::RemovePods { .. },
            ),
        ) => RestartState::Due,
        (_, Some(RestartAction::Adopt { .. })) => RestartState::Unrecorded,
        (WorkloadState::NotWatched, None) => RestartState::Unwatched,
        (WorkloadState::Unauthorized(_), None) => RestartState::Unauthorized,
        (WorkloadState::UpToDate, None) => RestartState::Current,
        (WorkloadState::Waiting(wait), None) => waiting(wait.reason),
        (WorkloadState::Restarting, None) => RestartState::Restarting,
        (WorkloadState::Paused, None) => RestartState::Paused,
        (WorkloadState::Suspended, None) => RestartState::Suspended,
        (WorkloadState::Held { .. }, None) => RestartState::Held,
        (WorkloadState::Failed { .. }, None) => RestartState::Failed,
    }
}

/// The word for what waits.
pub(super) fn waiting(reason: WaitReason) -> RestartState {
    match reason {
        // The user who asks could not be told.
        WaitReason::Starting | WaitReason::Authority | WaitReason::Facts => RestartState::Unknown,
        WaitReason::MissingObject
        | WaitReason::QuietPeriod
        | WaitReason::RolloutUnfinished
        | WaitReason::MinInterval
        | WaitReason::PodsNotReady
        | WaitReason::DisruptionBudget
        | WaitReason::AbsentObject
        | WaitReason::Backoff
        | WaitReason::Budget
        | WaitReason::Stage
        | WaitReason::Window => RestartState::Waiting,
        // Not before a person has done something, or an hour has passed.
        WaitReason::CircuitOpen | WaitReason::StageStopped => RestartState::Stopped,
    }
}

/// What a wait is about, for its words.
#[derive(Debug)]
pub(super) struct About<'a> {
    /// Objects that pods cannot start without, and that are not there.
    pub(super) missing: &'a BTreeSet<ObjectKey>,
    /// The only monitor with a window.
    pub(super) windowed: Option<&'a NamespacedName>,
}

/// What becomes of it: the course, a word, and why.
pub(super) fn told<'f>(
    foreseen: &'f Foreseen<WorkloadPlan>,
    facts: &WorkloadFacts,
    about: &About<'_>,
) -> (RestartCourse, &'f str, String) {
    let then = &foreseen.then;
    if !then.needs.is_empty() {
        return (RestartCourse::Unknown, "Unread", "what it takes to tell could not be read".into());
    }
    match &then.action {
        Some(
            RestartAction::Rollout { .. } | RestartAction::Begin { .. } | RestartAction::RemovePods { .. },
        ) => {
            let reason = foreseen.waits.first().map_or("Due", |reason| reason.as_str());
            return (RestartCourse::Restart, reason, restarts(foreseen, &because(&then.causes), about));
        }
        Some(RestartAction::Adopt { .. }) => {
            let (reason, message) = match (then.due_since, &facts.applied) {
                (Some(_), _) => {
                    ("PodsYounger", "every pod is younger than the change: only the record is written".into())
                }
                (None, None) => ("New", "seen for the first time: what runs is taken for current".into()),
                (None, Some(_)) => ("Recorded", recorded()),
            };
            return (RestartCourse::Record, reason, message);
        }
        None => {}
    }
    match &then.state {
        WorkloadState::NotWatched => (RestartCourse::Unaffected, "NotAsked", not_asked().1),
        WorkloadState::Unauthorized(monitor) => {
            let message =
                format!("ConfigMonitor {monitor} may not restart it: its status says what it lacks");
            (RestartCourse::Refuse, "Unauthorized", message)
        }
        WorkloadState::UpToDate => (RestartCourse::Current, "Current", String::new()),
        WorkloadState::Waiting(wait) => {
            (RestartCourse::Wait, wait.reason.as_str(), waits_for(wait.reason, about))
        }
        WorkloadState::Restarting => (RestartCourse::Wait, "Restarting", under_way()),
        WorkloadState::Paused => {
            let message = format!("{}, and it is paused: resume it, and it restarts", because(&then.causes));
            (RestartCourse::Hold, "Paused", message)
        }
        WorkloadState::Suspended => {
            let message = format!(
                "{}, and its annotation copyrator.dev/restart says \"false\": it restarts when that is taken away",
                because(&then.causes)
            );
            (RestartCourse::Hold, "Suspended", message)
        }
        WorkloadState::Held { partition, old } => {
            let message = format!(
                "{}, and {old} pods below its partition {partition} run the old: lower the partition to have them \
                 replaced, or use strategy Evict",
                because(&then.causes)
            );
            (RestartCourse::Hold, "Held", message)
        }
        WorkloadState::Failed { reason, message } => (RestartCourse::Refuse, *reason, message.clone()),
    }
}

/// Why it restarts; and, where it waits for a window, how to get past that.
pub(super) fn restarts<P>(foreseen: &Foreseen<P>, because: &str, about: &About<'_>) -> String {
    match foreseen.waits.contains(&WaitReason::Window) {
        true => format!("{because}; {}", waits_for(WaitReason::Window, about)),
        false => because.to_owned(),
    }
}

/// What has to pass first, in words.
pub(super) fn waits_for(reason: WaitReason, about: &About<'_>) -> String {
    let text = match reason {
        WaitReason::MissingObject => return format!("it uses {}", missing(about.missing)),
        WaitReason::Window => {
            let Some(NamespacedName { namespace, name }) = about.windowed else {
                return "its monitor's window is closed".into();
            };
            return format!(
                "the window of ConfigMonitor {namespace}/{name} is closed; past it, once: kubectl annotate cfgmon {name} \
                 -n {namespace} --overwrite copyrator.dev/restart-now=1"
            );
        }
        WaitReason::Starting => "not everything is known yet",
        WaitReason::Authority => "nobody has been asked yet whether its monitor may",
        WaitReason::Facts => "what it takes to tell could not be read",
        WaitReason::QuietPeriod => "the content may still be changing",
        WaitReason::RolloutUnfinished => "a rollout is under way, and has to end first",
        WaitReason::MinInterval => "the last restart was a moment ago",
        WaitReason::PodsNotReady => "other pods have to be ready first",
        WaitReason::DisruptionBudget => {
            "a PodDisruptionBudget lets no pod go now: raise the replicas, or relax the budget"
        }
        WaitReason::AbsentObject => {
            "it uses an optional ConfigMap or Secret that has gone, or never was, and may still come"
        }
        WaitReason::Backoff => {
            "it has restarted often of late, so that each restart waits longer than the one before"
        }
        WaitReason::CircuitOpen => {
            "it has not become ready after any of its last restarts: mend the content or the workload; the next is tried \
             after an hour, or as soon as it is ready"
        }
        WaitReason::Budget => {
            "as many restarts as may be are under way, in the cluster or in its namespace (--max-rollouts)"
        }
        WaitReason::Stage => "others of its monitor come first, or as many as may be are under way",
        WaitReason::StageStopped => {
            "another workload of its monitor has failed with its new content: make that one ready, or change its content"
        }
    };
    text.to_owned()
}

/// Only what counts has changed.
pub(super) fn recorded() -> String {
    "something else counts for it now: that is recorded, and nobody restarts for it".into()
}

/// The workload is being restarted.
pub(super) fn under_way() -> String {
    "a restart for this content is under way".into()
}

/// Nobody asks for restarts: one word, and the sentence.
pub(super) fn not_asked() -> (&'static str, String) {
    ("NotAsked", "no monitor reaches it, and it has no annotation copyrator.dev/restart".into())
}
