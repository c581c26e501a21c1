//! What one template declares for one namespace or object: rendered from the world, and kept in it. The slots of what was declared
//! before and of what is declared now are looked at.

mod all;
mod existing;
mod inputs;
#[cfg(test)]
mod instances;
#[cfg(test)]
mod properties;
#[cfg(test)]
mod reading;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod typed;
#[cfg(test)]
mod unstable;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

pub(crate) use all::render_everything;
use jiff::SignedDuration;
use kube::Client;
use serde_json::Value;
use tokio::sync::Semaphore;

use self::{existing::Existing, inputs::Inputs};
use super::{
    Again, Lane,
    context::{Context, now},
    pace::STATUS_AFTER,
};
use crate::{
    act::{
        instance_status::{InstanceVersion, StatusWritten, write_instance_status},
        outcome::Outcome,
        writer::Writer,
    },
    model::{RenderedSet, StatusFault, StatusFaultKind},
    names::{InstanceName, NamespacedName, ObjectKey},
    observe::made::ReadError,
    plan::{
        Key,
        copy::{templates::is_known, unstable::StatusTurn},
    },
};

/// When to see whether others have left room.
const FOR_ROOM: Duration = Duration::from_secs(60);
/// What is declared for a namespace that is younger goes before other changes.
const NEW: SignedDuration = SignedDuration::from_mins(1);

/// How many renderings may have pods in memory at a time.
pub(super) const WITH_PODS: usize = 2;
/// The least time between two looks at pods, or two writes of a status, for one object.
const LOOK_AGAIN: Duration = Duration::from_secs(2);
/// When to try again where somebody else owns a field of a status.
const OWNED_AGAIN: Duration = Duration::from_secs(300);

/// Reconciles what templates declare.
pub(super) struct RenderingHandler {
    pub(super) context: Context,
    pub(super) client: Client,
    pub(super) writer: Writer,
    /// When pods were looked at, or a status was written, for templates that write one.
    pub(super) looked: Mutex<BTreeMap<(NamespacedName, InstanceName), Instant>>,
    /// A place for each rendering that may have pods in memory.
    pub(super) with_pods: Semaphore,
}

impl RenderingHandler {
    pub(super) async fn handle(&self, template: &NamespacedName, instance: &InstanceName) -> Again {
        let again = self.render(template, instance).await;
        let world = self.context.world();
        let compiled = world.templates().get(template).and_then(|facts| facts.compiled.as_deref().ok());
        let resync = compiled.and_then(|compiled| compiled.resync);
        let is_rendered = world.rendered(template, instance).is_some();
        resync.filter(|_| is_rendered).map_or(again, |resync| again.within(resync))
    }

    async fn render(&self, template: &NamespacedName, instance: &InstanceName) -> Again {
        let of = (template.clone(), instance.clone());
        let (inputs, is_whole) = {
            let world = self.context.world();
            (Inputs::of(&world, template, instance).map(Arc::new), is_known(&world, template, instance))
        };
        let wait = self.looked().get(&of).and_then(|at| LOOK_AGAIN.checked_sub(at.elapsed()));
        let (set, lane) = match &inputs {
            None => {
                self.looked().remove(&of);
                (None, Lane::Change)
            }
            Some(_) if is_whole && wait.is_some() => return Again::After(wait.unwrap_or_default()),
            Some(inputs) => {
                let is_new = now().duration_since(inputs.facts.created) < NEW;
                let lane = if is_new { Lane::NewNamespace } else { Lane::Change };
                match self.rendered(inputs, template, instance).await {
                    Ok(set) => (Some(set), lane),
                    Err(error) => {
                        tracing::debug!(%template, %error, "what a template reads cannot be read");
                        return Again::Backoff(None);
                    }
                }
            }
        };
        let again = self.keep(template, instance, set, lane);
        let Some(inputs) = inputs.filter(|inputs| inputs.compiled.writes_status()) else { return again };
        match wait {
            Some(wait) => Again::After(wait),
            None => self.write_status(&inputs, template, instance).await.unwrap_or(again),
        }
    }

    /// Renders, reads what expressions read of rendered objects, and renders again, until nothing is lacking.
    async fn rendered(
        &self,
        inputs: &Arc<Inputs>,
        template: &NamespacedName,
        instance: &InstanceName,
    ) -> Result<RenderedSet, ReadError> {
        let (mut existing, mut place) = (Existing::default(), None);
        loop {
            let (shared, failed) = (inputs.clone(), inputs.failed("rendering it ended in a panic"));
            // It can take 50 ms, and ends by its own budget. A panic could quote values, so it is not kept.
            let made = tokio::task::spawn_blocking(move || {
                let (set, lacking) = shared.render(&existing);
                (set, lacking, existing)
            });
            let Ok((set, lacking, known)) = made.await else { return Ok(failed) };
            existing = known;
            if lacking.is_empty() {
                return Ok(set);
            }
            let lacking = existing.of(&self.context.world(), (template, instance), lacking);
            if lacking.iter().any(|(.., reads_pods)| *reads_pods) {
                if place.is_none() {
                    place = self.with_pods.acquire().await.ok();
                }
                self.looked().insert((template.clone(), instance.clone()), Instant::now());
            }
            match existing.read(&self.client, lacking).await {
                Err(error @ ReadError::TooLarge(_)) => return Ok(inputs.failed(&error.to_string())),
                read => read?,
            }
        }
    }

    /// Keeps what was rendered in the world, and has its slots looked at where it is new.
    fn keep(
        &self,
        template: &NamespacedName,
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
        let marked = self.marked(template, instance);
        for slot in slots.into_iter().chain(marked) {
            self.context.queue().add(Key::Slot(slot), lane);
        }
        self.context.queue().add_by(Key::RuleStatus(template.clone()), STATUS_AFTER);
        if has_room { Again::OnChange } else { Again::After(FOR_ROOM) }
    }

    /// Writes the object's status, where it is another one, or has fields that an earlier text of the template wrote; `None` where
    /// nothing is left to do.
    async fn write_status(
        &self,
        inputs: &Inputs,
        template: &NamespacedName,
        instance: &InstanceName,
    ) -> Option<Again> {
        let (kind, name) = (inputs.compiled.instance_kind()?, instance.object()?);
        let object = inputs.object.as_ref()?;
        let (kind, place, status, is_current, turn) = {
            let world = self.context.world();
            let set = world.rendered(template, instance)?;
            let granted = world.settings().template_kind(kind)?.clone();
            let seen = serde_json::from_str::<Value>(object.body.as_ref()?.expose()).ok()?;
            let turn = StatusTurn::of(&world, template, instance, &seen);
            // Of a text without a value nothing is taken back.
            let is_current = set.is_written(&seen) && !(inputs.has_left_over && set.status.is_some());
            let status = set.status.as_ref();
            let status = status.and_then(|status| serde_json::from_str::<Value>(status.expose()).ok());
            (granted.clone(), granted.status?, status, is_current, turn)
        };
        self.looked().insert((template.clone(), instance.clone()), Instant::now());
        if is_current {
            return self.settled(template, instance, (turn.as_ref(), false));
        }
        if let Some(until) = turn.as_ref().and_then(|turn| turn.braked(&self.context.world(), now())) {
            self.told(template, instance, turn.as_ref());
            return Some(Again::After(until.duration_since(now()).unsigned_abs()));
        }
        let version =
            InstanceVersion { name: &name, uid: &object.uid, resource_version: &object.resource_version };
        let status = status.as_ref();
        match write_instance_status(&self.writer, (&kind, place), template, version, status).await {
            StatusWritten::Done => return self.settled(template, instance, (turn.as_ref(), true)),
            StatusWritten::Owned(message) => {
                let message = format!("{message}: leave the field out, or have its owner let it go");
                self.note(template, instance, Some(StatusFault { kind: StatusFaultKind::Owned, message }));
                return Some(Again::After(OWNED_AGAIN));
            }
            // An event of a newer version is on its way; where it is no news, it asks for nothing.
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

    /// Notes that a status is as it should be, or was written.
    fn settled(
        &self,
        template: &NamespacedName,
        instance: &InstanceName,
        (turn, is_written): (Option<&StatusTurn>, bool),
    ) -> Option<Again> {
        if let Some(turn) = turn {
            turn.remember(&mut self.context.world_mut(), is_written, now());
        }
        self.told(template, instance, turn)
    }

    /// Tells of templates that drive each other, or that there is nothing to tell. Returns when to look whether they have come to rest.
    fn told(
        &self,
        template: &NamespacedName,
        instance: &InstanceName,
        turn: Option<&StatusTurn>,
    ) -> Option<Again> {
        let fault = turn.and_then(|turn| turn.fault(&self.context.world(), now()));
        let (fault, until) = fault.unzip();
        self.note(template, instance, fault);
        until.map(|until| Again::After(until.duration_since(now()).unsigned_abs()))
    }

    /// Notes why a status is not as it should be, and has that told.
    fn note(&self, template: &NamespacedName, instance: &InstanceName, fault: Option<StatusFault>) {
        let world = &mut *self.context.world_mut();
        let rendering = |set: &RenderedSet| set.status.is_some() && set.status_fault != fault;
        if world.rendered(template, instance).is_some_and(rendering) {
            world.set_status_fault(template, instance, fault);
            self.context.queue().add_by(Key::RuleStatus(template.clone()), STATUS_AFTER);
        }
    }

    fn looked(&self) -> MutexGuard<'_, BTreeMap<(NamespacedName, InstanceName), Instant>> {
        self.looked.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The objects that were made for it. They may not be declared any more.
    fn marked(&self, template: &NamespacedName, instance: &InstanceName) -> Vec<ObjectKey> {
        let world = self.context.world();
        let source = instance.object().unwrap_or_else(|| template.clone());
        let is_its = |slot: &&ObjectKey| {
            let marks = world.object(slot).and_then(|object| object.marks.as_deref());
            marks.is_some_and(|marks| marks.rule == *template)
        };
        world.copies_of_source_in(&source, &instance.namespace).filter(is_its).cloned().collect()
    }
}
