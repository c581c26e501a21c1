//! The rendering of one template for one namespace or object, made from the world and stored in it. The
//! handler queues the slots of the previous rendering and of the new one.

mod processor;
#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use jiff::{SignedDuration, Timestamp};
use kube::Client;
use serde_json::{Value, json};
use tokio::time::Instant;

pub(super) use self::processor::Processor;
use super::{
    Again, Lane,
    context::{Context, now},
    pace::STATUS_AFTER,
};
use crate::{
    act::{
        instance_status::{InstanceVersion, StatusWritten, write_instance_status},
        writer::Writer,
    },
    dry_run::outcome::Outcome,
    model::{RenderedSet, StatusFault, StatusFaultKind},
    names::{Declarer, InstanceName, ObjectKey},
    plan::{
        Key, at_after,
        copy::{
            status_kept::{status_lost, status_nowhere},
            templates::{is_known, made_for_instance},
            unstable::StatusTurn,
        },
    },
    render::{existing::Existing, inputs::Inputs},
};

/// Wait before the next attempt if the world has no room for a rendering.
const FOR_ROOM: Duration = Duration::from_secs(60);
/// A namespace younger than this has priority over other changes.
const NEW: SignedDuration = SignedDuration::from_mins(1);

/// Minimum time between two reads of pods, or two writes of a status, for one object.
const LOOK_AGAIN: Duration = Duration::from_secs(2);
/// Wait after a refusal: somebody else owns a field of a status, or the API server does not keep the field.
const REFUSED_AGAIN: Duration = Duration::from_secs(300);

/// Returns the time from now until `then`.
fn until(then: Timestamp) -> Duration {
    then.duration_since(now()).unsigned_abs()
}

/// Reconciles the renderings of templates.
pub(super) struct RenderingHandler {
    pub(super) context: Context,
    pub(super) client: Client,
    pub(super) writer: Writer,
    /// When pods were last read, or a status was last written, for a template and one object or namespace.
    pub(super) looked: Mutex<BTreeMap<(Declarer, InstanceName), Instant>>,
    /// Evaluates expressions.
    pub(super) processor: Processor,
}

impl RenderingHandler {
    pub(super) async fn handle(&self, template: &Declarer, instance: &InstanceName) -> Again {
        let again = self.render(template, instance).await;
        let world = self.context.world();
        let compiled = world.templates().get(template).and_then(|facts| facts.compiled.as_deref().ok());
        let resync = compiled.and_then(|compiled| compiled.resync);
        let is_rendered = world.rendered(template, instance).is_some();
        resync.filter(|_| is_rendered).map_or(again, |resync| again.within(resync))
    }

    async fn render(&self, template: &Declarer, instance: &InstanceName) -> Again {
        let of = (template.clone(), instance.clone());
        let key = Key::Rendering(template.clone(), instance.clone());
        let (inputs, is_whole) = {
            let world = self.context.world();
            (Inputs::of(&world, template, instance).map(Arc::new), is_known(&world, template, instance))
        };
        let wait = self.wait(&of);
        let Some(inputs) = inputs else {
            self.looked().remove(&of);
            return self.keep(template, instance, None, Lane::Change);
        };
        if let Some(wait) = wait.filter(|_| is_whole) {
            return Again::After(wait);
        }
        let is_new = now().duration_since(inputs.facts.created) < NEW;
        let lane = if is_new { Lane::NewNamespace } else { Lane::Change };
        let pods_later = wait.is_some() && inputs.compiled.reads_any_pods();
        if let Some(lane) = self.waits_in(&key, !pods_later && inputs.compiled.reads_any_pods()) {
            if lane == Lane::OverBudget {
                self.tell_over_budget(template, &key);
            }
            return Again::In(lane);
        }
        let (mut set, is_read) = self.rendered(&inputs, &key, template, instance, pods_later).await;
        if pods_later {
            self.keep_status(template, instance, &mut set);
        }
        let again = self.keep(template, instance, Some(set), lane);
        let again = match wait {
            Some(wait) if pods_later || inputs.compiled.writes_status() => Again::After(wait),
            None if inputs.compiled.writes_status() => {
                self.write_status(&inputs, template, instance).await.unwrap_or(again)
            }
            _ => again,
        };
        // Even after an error, pods are listed again only after the minimum time between two reads.
        if is_read { again } else { Again::Backoff(self.wait(&of)) }
    }

    /// Returns the lane in which a rendering has to wait first: until the budget of its tenant for
    /// expressions has refilled, or for one of the places for pods.
    fn waits_in(&self, key: &Key, reads_pods: bool) -> Option<Lane> {
        let queue = self.context.queue();
        let lane = queue.lane_of(key)?;
        let is_over = |tenant| queue.is_over_budget(tenant);
        if ![Lane::OverBudget, Lane::Pods].contains(&lane) && key.tenant().is_some_and(is_over) {
            return Some(Lane::OverBudget);
        }
        (reads_pods && lane != Lane::Pods).then_some(Lane::Pods)
    }

    /// Makes the template's status report that its expressions wait.
    fn tell_over_budget(&self, template: &Declarer, key: &Key) {
        let Some(tenant) = key.tenant() else { return };
        if self.context.world_mut().memory_mut().over_budget(template, tenant, now()) {
            tracing::warn!(%template, namespace = %tenant, "its expressions wait: the namespace has used up its processor time for them");
            self.context.queue().add_by(Key::RuleStatus(template.clone()), STATUS_AFTER);
        }
    }

    /// Returns how long to read no pods and write no status for this object.
    fn wait(&self, of: &(Declarer, InstanceName)) -> Option<Duration> {
        let wait = self.looked().get(of).and_then(|at| LOOK_AGAIN.checked_sub(at.elapsed()));
        wait.filter(|wait| !wait.is_zero())
    }

    /// Keeps the previous status while pods are not read again, since the status's expressions read pods.
    fn keep_status(&self, template: &Declarer, instance: &InstanceName, set: &mut RenderedSet) {
        let world = self.context.world();
        let before = world.rendered(template, instance).filter(|before| before.is_of_same(set));
        set.status = before.and_then(|before| before.status.clone());
        set.status_fault = before.and_then(|before| before.status_fault.clone());
        set.status_answer = before.and_then(|before| before.status_answer.clone());
    }

    /// Renders, reads the objects that expressions need, and renders again, until no object is lacking. Also
    /// returns whether every read succeeded; faults in the set report failed reads.
    async fn rendered(
        &self,
        inputs: &Arc<Inputs>,
        key: &Key,
        template: &Declarer,
        instance: &InstanceName,
        pods_later: bool,
    ) -> (RenderedSet, bool) {
        let mut existing = Existing { pods_later, ..Existing::default() };
        let tenant = key.tenant().unwrap_or(template.namespace());
        loop {
            let (shared, failed) = (inputs.clone(), inputs.failed("rendering it ended in a panic"));
            // Rendering can take 50 ms, and ends by its own budget. The message of a panic could quote
            // values, so it is dropped.
            let work = move || {
                let (set, lacking) = shared.render(&existing);
                (set, lacking, existing)
            };
            let (made, took) = self.processor.run(tenant, work).await;
            self.context.queue().expressions().charge(tenant, took.as_secs_f64());
            let Some((set, lacking, known)) = made else { return (failed, true) };
            existing = known;
            if lacking.is_empty() {
                return (set, !existing.is_lacking());
            }
            let lacking = existing.of(&self.context.world(), template, instance, lacking);
            if lacking.iter().any(|(.., reads_pods)| *reads_pods) {
                self.looked().insert((template.clone(), instance.clone()), Instant::now());
            }
            for error in existing.read(&self.client, lacking).await {
                let error = &error as &dyn std::error::Error;
                tracing::debug!(%template, error, "what a template reads cannot be read");
            }
        }
    }

    /// Stores a rendering in the world, and queues its slots if it is new.
    fn keep(
        &self,
        template: &Declarer,
        instance: &InstanceName,
        mut set: Option<RenderedSet>,
        lane: Lane,
    ) -> Again {
        let has_room;
        let slots: BTreeSet<ObjectKey> = {
            let world = &mut *self.context.world_mut();
            let before = world.rendered(template, instance);
            if let (Some(before), Some(set)) = (before, &mut set)
                && set.status_fault.is_none()
                && set.status == before.status
            {
                set.status_fault.clone_from(&before.status_fault);
                if set.is_of_same(before) {
                    set.status_answer.clone_from(&before.status_answer);
                }
            }
            if before == set.as_ref() {
                return Again::OnChange;
            }
            let declared = before.into_iter().chain(&set).flat_map(|set| &set.objects);
            let slots = declared.map(|object| object.slot.clone()).collect();
            let objects = set.as_ref().map_or(0, |set| set.objects.len());
            world.set_rendered(template, instance, set);
            has_room = world.rendered(template, instance).is_none_or(|set| set.objects.len() == objects);
            slots
        };
        let tenant = Key::Rendering(template.clone(), instance.clone()).tenant().cloned();
        let marked: Vec<ObjectKey> =
            made_for_instance(&self.context.world(), template, instance).cloned().collect();
        for slot in slots.into_iter().chain(marked) {
            self.context.queue().add_for(tenant.clone(), Key::Slot(slot), lane);
        }
        self.context.queue().add_by(Key::RuleStatus(template.clone()), STATUS_AFTER);
        if has_room { Again::OnChange } else { Again::After(FOR_ROOM) }
    }

    /// Writes the object's status if it differs, or has fields that the template wrote earlier and does not
    /// give any more; `None` if nothing is left to do.
    async fn write_status(
        &self,
        inputs: &Inputs,
        template: &Declarer,
        instance: &InstanceName,
    ) -> Option<Again> {
        let (kind, name) = (inputs.compiled.instance_kind()?, instance.object()?);
        let object = inputs.object.as_ref()?;
        let (kind, place, seen, status, is_current, turn, told) = {
            let world = self.context.world();
            let set = world.rendered(template, instance)?;
            let granted = world.settings().template_kind(kind)?.clone();
            let seen = serde_json::from_str::<Value>(object.body.as_ref()?.expose()).ok()?;
            let turn = StatusTurn::of(&world, template, instance, &seen);
            let told = set.answered(&seen).and_then(|answer| answer.fault.clone());
            let is_due = told.as_ref().is_some_and(|(_, again)| *again <= now());
            let status = set.status.as_ref();
            let status = status.and_then(|status| serde_json::from_str::<Value>(status.expose()).ok());
            let is_current = set.is_written(&seen) && !is_due && !inputs.leaves_over(status.as_ref());
            // Applying an empty status would create a status.
            let status = status.filter(|status| *status != json!({}));
            (granted.clone(), granted.status?, seen, status, is_current, turn, told)
        };
        self.looked().insert((template.clone(), instance.clone()), Instant::now());
        match told {
            Some((_, again)) if is_current => return Some(Again::After(until(again))),
            None if is_current => {
                self.remember(turn.as_ref(), false);
                return self.told(template, instance, turn.as_ref());
            }
            _ => {}
        }
        if let Some(over) = turn.as_ref().and_then(|turn| turn.braked(&self.context.world(), now())) {
            self.told(template, instance, turn.as_ref());
            return Some(Again::After(until(over)));
        }
        let version =
            InstanceVersion { name: &name, uid: &object.uid, resource_version: &object.resource_version };
        let status = status.as_ref();
        match write_instance_status(&self.writer, &kind, place, template, version, status).await {
            StatusWritten::Done(stored) => {
                let fault = status_lost(&kind, place, status.unwrap_or(&Value::Null), &stored);
                self.answered(template, instance, &json!({"status": stored}), fault.clone(), REFUSED_AGAIN);
                self.remember(turn.as_ref(), true);
                let Some(fault) = fault else { return self.told(template, instance, turn.as_ref()) };
                self.note(template, instance, Some(fault));
                return Some(Again::After(REFUSED_AGAIN));
            }
            StatusWritten::Owned { message, changed } => {
                self.remember(turn.as_ref().filter(|_| changed), true);
                let message = format!("{message}: leave the field out, or have its owner let it go");
                self.note(template, instance, Some(StatusFault { kind: StatusFaultKind::Owned, message }));
                return Some(Again::After(REFUSED_AGAIN));
            }
            // The object or its status subresource does not exist. If the object was deleted, an event will
            // follow.
            StatusWritten::Nowhere => {
                let (fault, is_first) = (status_nowhere(&kind), told.is_none());
                let wait = if is_first { LOOK_AGAIN } else { REFUSED_AGAIN };
                self.answered(template, instance, &seen, Some(fault.clone()), wait);
                if !is_first {
                    self.note(template, instance, Some(fault));
                }
                return Some(Again::After(wait));
            }
            // An event of a newer version will follow. If the newer version changes nothing, the event queues
            // no key, so look again.
            StatusWritten::Failed(Outcome::Stale) => return Some(Again::After(LOOK_AGAIN)),
            StatusWritten::Failed(Outcome::NotLeading | Outcome::NamespaceGone) => {}
            StatusWritten::Failed(Outcome::Retry { message, after, .. }) => {
                self.note(template, instance, Some(StatusFault { kind: StatusFaultKind::Failed, message }));
                return Some(Again::Backoff(after));
            }
            StatusWritten::Failed(Outcome::Refused { message, .. } | Outcome::NeedsReplacing(message)) => {
                self.note(template, instance, Some(StatusFault { kind: StatusFaultKind::Failed, message }));
                return Some(Again::Refused);
            }
            StatusWritten::Failed(_) => {}
        }
        None
    }

    /// Notes the result of a write that left the object as `seen`. The write is not repeated before the
    /// object or the wanted status changes, or this time has passed.
    fn answered(
        &self,
        template: &Declarer,
        instance: &InstanceName,
        seen: &Value,
        fault: Option<StatusFault>,
        wait: Duration,
    ) {
        let fault = fault.map(|fault| (fault, at_after(now(), wait)));
        self.context.world_mut().set_status_answer(template, instance, seen, fault);
    }

    /// Remembers that a status was up to date, or was written.
    fn remember(&self, turn: Option<&StatusTurn>, is_written: bool) {
        if let Some(turn) = turn {
            turn.remember(&mut self.context.world_mut(), is_written, now());
        }
    }

    /// Reports templates that drive each other, or clears that report. Returns when to check whether the
    /// templates have come to rest.
    fn told(&self, template: &Declarer, instance: &InstanceName, turn: Option<&StatusTurn>) -> Option<Again> {
        let fault = turn.and_then(|turn| turn.fault(&self.context.world(), now()));
        let (fault, over) = fault.unzip();
        self.note(template, instance, fault);
        over.map(|over| Again::After(until(over)))
    }

    /// Notes why a status is not up to date, and queues the template's status to report the reason.
    fn note(&self, template: &Declarer, instance: &InstanceName, fault: Option<StatusFault>) {
        let world = &mut *self.context.world_mut();
        let rendering = |set: &RenderedSet| set.status.is_some() && set.status_fault != fault;
        if world.rendered(template, instance).is_some_and(rendering) {
            world.set_status_fault(template, instance, fault);
            self.context.queue().add_by(Key::RuleStatus(template.clone()), STATUS_AFTER);
        }
    }

    fn looked(&self) -> MutexGuard<'_, BTreeMap<(Declarer, InstanceName), Instant>> {
        self.looked.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
