//! Tells people and metrics what came of a plan: each thing once, and never a value.

use k8s_openapi::api::core::v1::ObjectReference;
use kube::{
    Client,
    runtime::events::{Event, EventType, Recorder, Reporter as Controller},
};
use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family},
    registry::Registry,
};

use super::{outcome::Outcome, restart::RestartOutcome};
use crate::{
    model::{NamespacedName, ObjectKey, WorkloadKey},
    plan::{CopyAction, RemovePod, SlotPlan},
};

/// Labels of the count of writes: bounded, for both come from closed lists.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct WriteLabels {
    action: &'static str,
    outcome: &'static str,
}

/// Publishes Events, log lines and counts.
#[derive(Clone)]
pub struct Reporter {
    recorder: Recorder,
    writes: Family<WriteLabels, Counter>,
}

impl Reporter {
    /// Publishes through `client`, as the instance `host`.
    pub fn new(client: Client, host: &str) -> Self {
        let controller = Controller { controller: "copyrator".into(), instance: Some(host.to_owned()) };
        Self { recorder: Recorder::new(client, controller), writes: Family::default() }
    }

    /// Adds the counts to a registry.
    pub fn register(&self, registry: &mut Registry) {
        registry.register("writes", "Writes to the API server by action and outcome", self.writes.clone());
    }

    /// One write to one slot. Failures are logged when they are news; Events count how often they come.
    pub async fn copy(
        &self,
        slot: &ObjectKey,
        plan: &SlotPlan,
        action: &CopyAction,
        outcome: &Outcome,
        is_news: bool,
    ) {
        let verb = match action {
            CopyAction::Write(write) if write.anew => "replace_copy",
            CopyAction::Write(write) if write.replaces.is_none() => "create_copy",
            CopyAction::Write(_) => "update_copy",
            CopyAction::MarkRemoval(..) => "mark_removal",
            CopyAction::Unmark(_) => "unmark_removal",
            CopyAction::Delete(_) => "delete_copy",
            CopyAction::Release(_) => "release_copy",
        };
        self.count(verb, outcome.label());
        let rule = plan.rule.as_ref().map(ToString::to_string).unwrap_or_default();
        match outcome {
            Outcome::Done => tracing::debug!(%slot, rule, action = verb, "written"),
            Outcome::Refused { message, .. } | Outcome::Retry { message, .. } if is_news => {
                tracing::warn!(%slot, rule, action = verb, message, "not written");
            }
            other => tracing::debug!(%slot, rule, action = verb, outcome = other.label(), "not written"),
        }
        match (verb, outcome) {
            ("replace_copy", Outcome::Done) => {
                let note = format!(
                    "the source of rule {rule} could not be applied to it, so it was deleted and made again"
                );
                self.event(EventType::Normal, "CopyReplaced", note, &about_object(slot)).await;
            }
            ("delete_copy", Outcome::Done) => {
                let note = format!("no rule wants it any more (it belonged to {rule})");
                self.event(EventType::Normal, "CopyRemoved", note, &about_object(slot)).await;
            }
            (_, Outcome::Refused { message, .. }) => {
                if let Some(rule) = &plan.rule {
                    let note = format!("{slot}: {message}");
                    self.event(EventType::Warning, "CopyRefused", note, &about_rule(rule)).await;
                }
            }
            _ => {}
        }
    }

    /// One restart, or the attempt at one.
    pub async fn restart(&self, workload: &WorkloadKey, verb: &'static str, outcome: &RestartOutcome) {
        self.count(verb, outcome.label());
        tracing::info!(%workload, action = verb, outcome = outcome.label(), "restart");
        let note = match verb {
            "adopt" => return,
            "rollout" => "restarted: the content that it uses has changed",
            _ => "a pod was removed: the content that it uses has changed",
        };
        self.restarted(outcome, note, &about_workload(workload)).await;
    }

    /// Pods that a monitor finds itself were removed, or could not be.
    pub async fn pods(&self, monitor: &NamespacedName, pods: &[RemovePod], outcome: &RestartOutcome) {
        self.count("remove_pods", outcome.label());
        let names: Vec<&str> = pods.iter().map(|pod| pod.name.as_str()).collect();
        let note = format!("removed for changed content: {}", names.join(", "));
        let reference = ObjectReference { kind: Some("ConfigMonitor".into()), ..about_rule(monitor) };
        self.restarted(outcome, &note, &reference).await;
    }

    async fn restarted(&self, outcome: &RestartOutcome, note: &str, about: &ObjectReference) {
        match outcome.failure() {
            None if *outcome == RestartOutcome::Write(Outcome::Done) => {
                self.event(EventType::Normal, "Restarted", note.to_owned(), about).await;
            }
            Some(message) => self.event(EventType::Warning, "RestartFailed", message, about).await,
            None => {}
        }
    }

    fn count(&self, action: &'static str, outcome: &'static str) {
        self.writes.get_or_create(&WriteLabels { action, outcome }).inc();
    }

    async fn event(&self, type_: EventType, reason: &str, note: String, about: &ObjectReference) {
        let note = note.chars().take(1000).collect();
        let event =
            Event { type_, reason: reason.into(), note: Some(note), action: reason.into(), secondary: None };
        if let Err(error) = self.recorder.publish(&event, about).await {
            tracing::debug!(reason, %error, "an Event could not be published");
        }
    }
}

fn about_object(key: &ObjectKey) -> ObjectReference {
    ObjectReference {
        api_version: Some("v1".into()),
        kind: Some(key.kind.to_string()),
        namespace: Some(key.namespace.to_string()),
        name: Some(key.name.to_string()),
        ..ObjectReference::default()
    }
}

fn about_rule(rule: &NamespacedName) -> ObjectReference {
    ObjectReference {
        api_version: Some(format!("{}/{}", crate::api::GROUP, crate::api::VERSION)),
        kind: Some("CopyratorRule".into()),
        namespace: Some(rule.namespace.to_string()),
        name: Some(rule.name.to_string()),
        ..ObjectReference::default()
    }
}

fn about_workload(key: &WorkloadKey) -> ObjectReference {
    ObjectReference {
        api_version: Some("apps/v1".into()),
        kind: Some(key.kind.to_string()),
        namespace: Some(key.namespace.to_string()),
        name: Some(key.name.to_string()),
        ..ObjectReference::default()
    }
}
