//! Reports of restarts: on the workload why it restarted, on the changed object which workloads restart, and
//! in metrics how often and how late.

use std::{
    hash::{DefaultHasher, Hash as _, Hasher as _},
    sync::PoisonError,
};

use k8s_openapi::api::core::v1::ObjectReference;
use kube::runtime::events::EventType;

use super::{
    report::{Reporter, about_object},
    restart::RestartOutcome,
    restarts_reported::is_done,
};
use crate::{
    explain::failed,
    model::Remark,
    names::{Declarer, ObjectKey, WorkloadKey},
    plan::restart::{Cause, Failure, Removal, RemovePod, RestartAction, because},
};

/// The reason of a restart, and its delay.
#[derive(Clone, Debug, Default)]
pub(crate) struct Why {
    /// The objects that have changed.
    pub causes: Vec<Cause>,
    /// The monitors or annotations that declare the restart, in words: `ConfigMonitor web`.
    pub asked_by: Vec<String>,
    /// How long ago content last changed, in seconds.
    pub lag: Option<f64>,
}

impl Why {
    /// `ConfigMap app has changed (ConfigMonitor web)`.
    fn text(&self) -> String {
        match self.asked_by.as_slice() {
            [] => because(&self.causes),
            asked_by => format!("{} ({})", because(&self.causes), asked_by.join(", ")),
        }
    }
}

impl Reporter {
    /// Reports one restart, or a failed attempt.
    pub(crate) async fn restart(
        &self,
        workload: &WorkloadKey,
        action: &RestartAction,
        why: &Why,
        outcome: &RestartOutcome,
    ) {
        let (verb, strategy, note) = match action {
            RestartAction::Adopt { .. } => ("adopt", None, String::new()),
            RestartAction::Begin { .. } => ("begin", None, String::new()),
            RestartAction::Rollout { .. } => {
                ("rollout", Some("rollout"), format!("restarted because {}", why.text()))
            }
            RestartAction::RemovePods { how, .. } => {
                ("remove_pods", Some(word(*how)), format!("replaced a pod because {}", why.text()))
            }
        };
        self.count(verb, outcome.label());
        tracing::info!(%workload, action = verb, outcome = outcome.label(), "restart");
        if let Some(strategy) = strategy {
            self.restarts.count(strategy, outcome, why.lag);
            self.restarted(outcome, note, why, &self.about_workload(workload)).await;
        }
    }

    /// Reports the deletion of pods of a monitor's podSelector, or that the deletion failed.
    pub(crate) async fn pods(
        &self,
        monitor: &Declarer,
        pods: &[RemovePod],
        how: Removal,
        why: &Why,
        outcome: &RestartOutcome,
    ) {
        self.count("remove_pods", outcome.label());
        self.restarts.count(word(how), outcome, why.lag);
        let names: Vec<&str> = pods.iter().map(|pod| pod.name.as_str()).collect();
        let note = format!("replaced pods because {}: {}", because(&why.causes), names.join(", "));
        self.restarted(outcome, note, why, &self.about_monitor(monitor)).await;
    }

    /// Whether this change is not reported yet.
    pub(crate) fn is_news(&self, cause: &Cause) -> bool {
        let told = self.restarts.told.lock().unwrap_or_else(PoisonError::into_inner);
        told.get(&cause.object) != Some(&cause.changed_at)
    }

    /// Reports on the changed object which workloads restart, once for each change.
    pub(crate) async fn change_restarts(&self, cause: &Cause, note: String) {
        {
            let world = self.world.read().unwrap_or_else(PoisonError::into_inner);
            let mut told = self.restarts.told.lock().unwrap_or_else(PoisonError::into_inner);
            told.retain(|object, _| world.object(object).is_some());
            if told.insert(cause.object.clone(), cause.changed_at) == Some(cause.changed_at) {
                return;
            }
        }
        let about = self.about(&cause.object);
        self.event_of(EventType::Normal, "WorkloadsRestarted", note, &about, None).await;
    }

    /// Reports a problem to the workload's author as an Event; `None` clears the problem.
    pub(crate) async fn remark_of_workload(&self, workload: &WorkloadKey, remark: Option<Remark>) {
        let (reason, text) = remark.map(|Remark { reason, text }| (reason, text)).unzip();
        let (Some(reason), Some(text)) = (reason, self.restarts.remarks_of_workloads.is_new(workload, text))
        else {
            return;
        };
        tracing::warn!(%workload, reason, text, "Copyrator cannot interpret a part of this workload");
        self.event_of(EventType::Warning, reason, text, &self.about_workload(workload), None).await;
    }

    /// Reports a problem to the author of any other object as an Event; `None` clears the problem.
    pub(crate) async fn remark(&self, object: &ObjectKey, remark: Option<Remark>) {
        let (reason, text) = remark.map(|Remark { reason, text }| (reason, text)).unzip();
        let (Some(reason), Some(text)) = (reason, self.restarts.remarks.is_new(object, text)) else { return };
        self.event_of(EventType::Warning, reason, text, &self.about(object), None).await;
    }

    async fn restarted(&self, outcome: &RestartOutcome, note: String, why: &Why, about: &ObjectReference) {
        let first = why.causes.first().map(|cause| about_object(&cause.object));
        match outcome.refusal() {
            None if is_done(outcome) => {
                self.event_of(EventType::Normal, "Restarted", note, about, first).await;
            }
            Some(refusal) => {
                let note = failed(&Failure::Attempt(refusal));
                self.event(EventType::Warning, "RestartFailed", note, about, first).await;
            }
            None => {}
        }
    }

    /// Publishes an Event with a hash of the note in its action. If only the note differs, the recorder would
    /// treat the Event as a repetition and keep the first note.
    pub(super) async fn event_of(
        &self,
        type_: EventType,
        reason: &str,
        note: String,
        about: &ObjectReference,
        related: Option<ObjectReference>,
    ) {
        let mut hasher = DefaultHasher::new();
        note.hash(&mut hasher);
        let action = format!("{reason}-{:016x}", hasher.finish());
        self.publish(type_, reason, action, note, about, related).await;
    }
}

fn word(how: Removal) -> &'static str {
    match how {
        Removal::Evict => "evict",
        Removal::Delete => "delete",
    }
}
