//! Reports results as Events, log lines and metrics, each result once and without values.

use std::{
    collections::BTreeSet,
    sync::{Arc, PoisonError, RwLock},
};

use k8s_openapi::api::core::v1::ObjectReference;
use kube::runtime::events::{Event, EventType, Recorder, Reporter as Controller};
use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family},
    registry::Registry,
};

use super::{dedup::Dedup, restarts_reported::Restarts};
use crate::{
    connect::{WRITE_TIMEOUT, WriteClient},
    dry_run::outcome::Outcome,
    model::World,
    names::{Declarer, NamespacedName, ObjectKey, WorkloadKey},
    plan::{
        StatusEvent,
        copy::{CopyAction, LargeSpread, SlotPlan, Version},
        restart::{Failure, RestartState},
    },
};

/// Labels of the counter of writes; each label has a closed list of values.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct WriteLabels {
    action: &'static str,
    outcome: &'static str,
}

/// The result of the action on one slot, to report.
pub(crate) struct Told<'o> {
    pub(crate) outcome: &'o Outcome,
    /// Whether this failure is new for the slot.
    pub(crate) is_news: bool,
    /// Whether the action deleted the object in the slot, to create it again.
    pub(crate) deleted: bool,
}

/// Publishes Events, log lines and metrics. Clones share the memory of past reports.
#[derive(Clone)]
pub(crate) struct Reporter {
    recorder: Recorder,
    /// Provides the UID of an Event's object: `kubectl describe` shows no Event without it.
    pub(super) world: Arc<RwLock<World>>,
    pub(super) restarts: Restarts,
    writes: Family<WriteLabels, Counter>,
    /// The last report on each object that templates are rendered for, by template, object and topic.
    hindrances: Dedup<(Declarer, NamespacedName, String)>,
}

/// The subject of a report on an object that a template is rendered for.
#[derive(Clone, Copy)]
pub(crate) struct Hindrance<'a> {
    /// The template.
    pub template: &'a Declarer,
    /// The object that the template is rendered for.
    pub object: &'a NamespacedName,
    /// The topic within the template. Reports about different topics do not replace each other.
    pub what: &'a str,
}

impl Reporter {
    /// Creates a reporter that publishes through `client`, with `host` as the reporting instance. Publishing
    /// needs no leadership, so writes from just before the lease was lost are reported, too.
    pub(crate) fn new(client: &WriteClient, host: &str, world: Arc<RwLock<World>>) -> Self {
        let controller = Controller { controller: "copyrator".into(), instance: Some(host.to_owned()) };
        Self {
            recorder: Recorder::new(client.client(), controller),
            world,
            restarts: Restarts::default(),
            writes: Family::default(),
            hindrances: Dedup::default(),
        }
    }

    /// Registers the counters of writes and restarts.
    pub(crate) fn register(&self, registry: &mut Registry) {
        registry.register("writes", "Writes to the API server by action and outcome", self.writes.clone());
        self.restarts.register(registry);
    }

    /// Reports one write to one slot. Reports a failure only when it changes.
    pub(crate) async fn copy(&self, slot: &ObjectKey, plan: &SlotPlan, action: &CopyAction, told: &Told<'_>) {
        let Told { outcome, is_news, deleted } = *told;
        let verb = verb(action);
        self.count(verb, outcome.label());
        let of_rule = plan.rule.as_ref();
        let rule = of_rule.map(ToString::to_string).unwrap_or_default();
        match outcome {
            Outcome::Done => tracing::debug!(%slot, rule, action = verb, "written"),
            Outcome::Refused { message, .. } | Outcome::Retry { message, .. } if is_news => {
                tracing::warn!(%slot, rule, action = verb, message, "not written");
            }
            other => tracing::debug!(%slot, rule, action = verb, outcome = other.label(), "not written"),
        }
        let taken_over = match action {
            CopyAction::Write(write) => write.take_over.as_ref().and(write.replaces.as_ref()),
            _ => None,
        };
        if let Some(note) = deletion(slot, action, told) {
            tracing::info!(%slot, rule, action = verb, "deleted");
            let is_orderly = *outcome == Outcome::Done;
            let type_ = if is_orderly { EventType::Normal } else { EventType::Warning };
            let reason = if is_orderly && deleted { "CopyReplaced" } else { "CopyRemoved" };
            self.about_copy(type_, reason, note, slot, of_rule, taken_over).await;
        }
        match (outcome, action) {
            (Outcome::Done, CopyAction::Write(write)) if taken_over.is_some() => {
                let note = format!(
                    "took over the existing {slot}, as conflictPolicy allows: the object is now a copy of {}",
                    write.source
                );
                self.about_copy(EventType::Normal, "ObjectTakenOver", note, slot, of_rule, taken_over).await;
            }
            (Outcome::Refused { message, .. }, _) if is_news => {
                let note = format!("{slot}: {message}");
                self.about_copy(EventType::Warning, "CopyRefused", note, slot, of_rule, None).await;
            }
            _ => {}
        }
    }

    /// Publishes an Event on a rule about the object in one slot. If the object was foreign, publishes the
    /// Event on the object as well: the object's creator reads its Events, and may not see the rule.
    async fn about_copy(
        &self,
        type_: EventType,
        reason: &str,
        note: String,
        slot: &ObjectKey,
        rule: Option<&Declarer>,
        foreign: Option<&Version>,
    ) {
        if let Some(foreign) = foreign {
            let uid = Some(foreign.uid.to_string());
            let about = ObjectReference { uid, ..about_object(slot) };
            self.event(type_, reason, note.clone(), &about, None).await;
        }
        if let Some(rule) = rule {
            // The copy is the Event's second object: without it, the recorder would merge the refusals of a
            // hundred namespaces into one.
            self.event(type_, reason, note, &self.about_rule(rule), Some(about_object(slot))).await;
        }
    }

    /// Reports news about a rule or monitor that this object's annotations declare: a declaration in
    /// annotations has no status field.
    pub(crate) async fn status_event(&self, object: &ObjectKey, event: StatusEvent<'_>) {
        let type_ = if event.is_warning { EventType::Warning } else { EventType::Normal };
        self.event(type_, event.reason, event.message, &self.about(object), None).await;
    }

    /// Reports why an object lacks what a template declares for the object (reason and message). `None`: the
    /// object lacks nothing (any more).
    pub(crate) async fn hindered(&self, of: Hindrance<'_>, what: Option<(&'static str, String)>) {
        let (reason, message) = what.unzip();
        let key = (of.template.clone(), of.object.clone(), of.what.to_owned());
        let (Some(reason), Some(message)) = (reason, self.hindrances.is_new(&key, message)) else { return };
        let Some(about) = self.about_instance(of) else { return };
        let note = format!("{}: {message}", of.template.said());
        self.event_of(EventType::Warning, reason, note, &about, None).await;
    }

    /// Reports a source that is large for so many targets. Copyrator still copies the source.
    pub(crate) async fn large_spread(&self, rule: &Declarer, large: &LargeSpread) {
        tracing::warn!(%rule, what = %large, "a large spread");
        self.event(EventType::Warning, "LargeSpread", large.to_string(), &self.about_rule(rule), None).await;
    }

    /// Reports why a workload's restarts do not succeed, on the workload and on the monitors that restart it.
    pub(crate) async fn restarts_fail(
        &self,
        workload: &WorkloadKey,
        monitors: &BTreeSet<Declarer>,
        state: &RestartState,
        what: &str,
    ) {
        let (reason, note) = (state.reason(), format!("{} {}: {what}", workload.kind, workload.name));
        tracing::warn!(%workload, reason, what, "the restarts of a workload do not succeed");
        let workload = self.about_workload(workload);
        for about in monitors.iter().map(|monitor| self.about_monitor(monitor)).chain([workload]) {
            self.event(EventType::Warning, reason, note.clone(), &about, None).await;
        }
    }

    /// Reports on a monitor that a workload has failed with changed content, and that other workloads wait.
    pub(crate) async fn stage_failed(&self, monitor: &Declarer, workload: &WorkloadKey, what: String) {
        tracing::warn!(%monitor, %workload, what, "a stage has stopped");
        let (of_monitor, of_workload) = (self.about_monitor(monitor), self.about_workload(workload));
        self.event(
            EventType::Warning,
            Failure::STAGE_FAILED,
            what.clone(),
            &of_monitor,
            Some(of_workload.clone()),
        )
        .await;
        self.event(EventType::Warning, Failure::STAGE_FAILED, what, &of_workload, Some(of_monitor)).await;
    }

    pub(super) fn count(&self, action: &'static str, outcome: &'static str) {
        self.writes.get_or_create(&WriteLabels { action, outcome }).inc();
    }

    pub(super) async fn event(
        &self,
        type_: EventType,
        reason: &str,
        note: String,
        about: &ObjectReference,
        secondary: Option<ObjectReference>,
    ) {
        self.publish(type_, reason, reason.to_owned(), note, about, secondary).await;
    }

    pub(super) async fn publish(
        &self,
        type_: EventType,
        reason: &str,
        action: String,
        note: String,
        about: &ObjectReference,
        secondary: Option<ObjectReference>,
    ) {
        let note = note.chars().take(1000).collect();
        let event = Event { type_, reason: reason.into(), note: Some(note), action, secondary };
        match tokio::time::timeout(WRITE_TIMEOUT, self.recorder.publish(&event, about)).await {
            Ok(Ok(_)) => {}
            Ok(Err(error)) => tracing::debug!(reason, %error, "cannot publish an Event"),
            Err(_) => tracing::debug!(reason, "cannot publish an Event: no answer in time"),
        }
    }

    /// Returns the Event's object for a rule: the rule, the template, or the object whose annotations declare
    /// it.
    fn about_rule(&self, rule: &Declarer) -> ObjectReference {
        let world = self.world.read().unwrap_or_else(PoisonError::into_inner);
        let uid = world.declaration(rule).map(|declared| declared.version().uid);
        about_declarer(rule, uid)
    }

    /// Returns the Event's object for an object that a template is rendered for; `None` for an object that is
    /// not known (any more).
    fn about_instance(&self, of: Hindrance<'_>) -> Option<ObjectReference> {
        let world = self.world.read().unwrap_or_else(PoisonError::into_inner);
        let compiled = world.templates().get(of.template)?.compiled.as_deref().ok()?;
        let kind = compiled.instance_kind()?;
        Some(ObjectReference {
            api_version: Some(kind.api_version.to_string()),
            kind: Some(kind.kind.to_string()),
            namespace: Some(of.object.namespace.to_string()),
            name: Some(of.object.name.to_string()),
            uid: Some(world.instance(kind, of.object)?.uid.to_string()),
            ..ObjectReference::default()
        })
    }

    /// Returns the Event's object for a monitor: the monitor, or the object whose annotation declares it.
    pub(super) fn about_monitor(&self, monitor: &Declarer) -> ObjectReference {
        let world = self.world.read().unwrap_or_else(PoisonError::into_inner);
        let uid = world.monitors().get(monitor).map(|facts| &*facts.uid);
        about_declarer(monitor, uid)
    }

    /// Returns the Event's object for a ConfigMap or Secret.
    pub(super) fn about(&self, object: &ObjectKey) -> ObjectReference {
        let world = self.world.read().unwrap_or_else(PoisonError::into_inner);
        let uid = world.object(object).map(|facts| facts.uid.to_string());
        ObjectReference { uid, ..about_object(object) }
    }

    pub(super) fn about_workload(&self, key: &WorkloadKey) -> ObjectReference {
        let world = self.world.read().unwrap_or_else(PoisonError::into_inner);
        ObjectReference {
            api_version: Some(key.kind.resource().api_version.into()),
            kind: Some(key.kind.to_string()),
            namespace: Some(key.namespace.to_string()),
            name: Some(key.name.to_string()),
            uid: world.workloads().get(key).map(|facts| facts.uid.to_string()),
            ..ObjectReference::default()
        }
    }
}

/// Returns the value of a metric label.
fn verb(action: &CopyAction) -> &'static str {
    match action {
        CopyAction::Write(write) if write.take_over.is_some() => "take_over",
        CopyAction::Write(write) if write.anew => "replace_copy",
        CopyAction::Write(write) if write.replaces.is_none() => "create_copy",
        CopyAction::Write(_) => "update_copy",
        CopyAction::MarkRemoval(..) | CopyAction::MarkStaying(..) => "mark_removal",
        CopyAction::Unmark(_) => "unmark_removal",
        CopyAction::Vouch(..) => "vouch_for_copy",
        CopyAction::Delete(_) => "delete_copy",
        CopyAction::Release(_) => "release_copy",
    }
}

/// Returns why the object in the slot was deleted; `None` for an object that was not deleted.
fn deletion(slot: &ObjectKey, action: &CopyAction, told: &Told<'_>) -> Option<String> {
    const NO_UPDATE: &str = "an update cannot change an immutable field";
    let why_not = match told.outcome {
        Outcome::Done if told.deleted => {
            return Some(format!("deleted {slot} and created it again: {NO_UPDATE}"));
        }
        Outcome::Done => {
            let is_removal = matches!(action, CopyAction::Delete(_));
            return is_removal.then(|| format!("deleted {slot}: no rule or template declares it any more"));
        }
        Outcome::Refused { message, .. } | Outcome::Retry { message, .. } => message.as_str(),
        other => other.label(),
    };
    told.deleted.then(|| {
        format!(
            "deleted {slot} to create it again, because {NO_UPDATE} and a dry run of the new object succeeded; the new object does not \
             exist yet: {why_not}"
        )
    })
}

pub(super) fn about_object(key: &ObjectKey) -> ObjectReference {
    ObjectReference {
        api_version: Some(key.kind.resource().api_version.into()),
        kind: Some(key.kind.to_string()),
        namespace: Some(key.namespace.to_string()),
        name: Some(key.name.to_string()),
        ..ObjectReference::default()
    }
}

fn about_declarer(declarer: &Declarer, uid: Option<&str>) -> ObjectReference {
    let uid = uid.map(str::to_owned);
    let (kind, name) = match declarer {
        Declarer::Rule(name) => ("CopyratorRule", name),
        Declarer::Template(name) => ("CopyratorTemplate", name),
        Declarer::Monitor(name) => ("ConfigMonitor", name),
        Declarer::Annotated(object) => return ObjectReference { uid, ..about_object(object) },
    };
    ObjectReference {
        api_version: Some(format!("{}/{}", crate::api::GROUP, crate::api::VERSION)),
        kind: Some(kind.to_owned()),
        namespace: Some(name.namespace.to_string()),
        name: Some(name.name.to_string()),
        uid,
        ..ObjectReference::default()
    }
}
