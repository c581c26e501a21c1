//! What one template declares for one namespace or object: rendered from the world, and kept in it. The slots of what was declared
//! before and of what is declared now are looked at.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use jiff::SignedDuration;
use serde_json::{Value, json};

use super::{
    Again, Lane,
    context::{Context, now},
};
use crate::{
    digest::DigestKey,
    model::{
        Body, InstanceFacts, NamespaceFacts, ReadInstance, RenderedFault, RenderedObject, RenderedSet,
        TemplateFacts, World, hash_of,
    },
    names::{InstanceName, NamespacedName, ObjectKey},
    observe::content::decode,
    plan::{
        Key,
        copy::{
            claims::inert_template,
            templates::{instances, selects},
        },
    },
    validate::{CompiledObject, CompiledTemplate, Instance, RenderBudget, Rendering, rendered_kind},
};

/// How long a status waits for further namespaces.
const STATUS_AFTER: Duration = Duration::from_millis(200);
/// When to see whether others have left room.
const FOR_ROOM: Duration = Duration::from_secs(60);
/// What is declared for a namespace that is younger goes before other changes.
const NEW: SignedDuration = SignedDuration::from_mins(1);

/// Reconciles what templates declare.
pub(super) struct RenderingHandler {
    pub(super) context: Context,
}

impl RenderingHandler {
    pub(super) async fn handle(&self, template: &NamespacedName, instance: &InstanceName) -> Again {
        let inputs = Inputs::of(&self.context.world(), template, instance);
        let (set, lane) = match inputs {
            None => (None, Lane::Change),
            Some(inputs) => {
                let is_new = now().duration_since(inputs.facts.created) < NEW;
                let lane = if is_new { Lane::NewNamespace } else { Lane::Change };
                let failed = inputs.failed("rendering it ended in a panic");
                // It can take 50 ms, and ends by its own budget. A panic could quote values, so it is not
                // kept.
                let set = tokio::task::spawn_blocking(move || inputs.render()).await;
                (Some(set.unwrap_or(failed)), lane)
            }
        };
        let has_room;
        let slots: BTreeSet<ObjectKey> = {
            let world = &mut *self.context.world_mut();
            let before = world.rendered(template, instance);
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

    /// The objects that were made for it. They may not be declared any more.
    fn marked(&self, template: &NamespacedName, instance: &InstanceName) -> Vec<ObjectKey> {
        let world = self.context.world();
        let source = instance.object().unwrap_or_else(|| template.clone());
        let is_here = |slot: &&ObjectKey| {
            let marks = world.object(slot).and_then(|object| object.marks.as_deref());
            slot.namespace == instance.namespace && marks.is_some_and(|marks| marks.rule == *template)
        };
        world.copies_of_source(&source).filter(is_here).cloned().collect()
    }
}

/// What every template declares that may, rendered into the world at once: for commands.
pub(crate) fn render_all(world: &mut World) {
    let of_template = |(template, facts): (&NamespacedName, &TemplateFacts)| {
        let compiled = facts.compiled.as_ref().ok()?;
        let selected = instances(world, template, compiled);
        Some(selected.map(|instance| (template.clone(), instance)).collect::<Vec<_>>())
    };
    let all: Vec<_> = world.templates().iter().filter_map(of_template).flatten().collect();
    for (template, instance) in all {
        let set = Inputs::of(world, &template, &instance).map(|inputs| inputs.render());
        world.set_rendered(&template, &instance, set);
    }
}

/// What the objects are rendered from.
struct Inputs {
    version: (Box<str>, i64),
    compiled: Arc<CompiledTemplate>,
    namespace: Arc<str>,
    facts: NamespaceFacts,
    /// The object that it is rendered for, where it is one.
    object: Option<InstanceFacts>,
    key: DigestKey,
}

impl Inputs {
    /// `None` where the template declares nothing there, or may not.
    fn of(world: &World, template: &NamespacedName, instance: &InstanceName) -> Option<Self> {
        let declared = world.templates().get(template)?;
        let compiled = declared.compiled.as_ref().ok()?;
        if inert_template(world, template, declared).is_some()
            || !selects(world, template, compiled, instance)
        {
            return None;
        }
        let object = compiled.instance_kind().zip(instance.object());
        Some(Self {
            version: (declared.uid.clone(), declared.generation),
            compiled: compiled.clone(),
            namespace: instance.namespace.clone(),
            facts: world.namespaces().get(&instance.namespace)?.clone(),
            object: object.and_then(|(kind, name)| world.instance(kind, &name).cloned()),
            key: world.key()?.clone(),
        })
    }

    fn render(&self) -> RenderedSet {
        if self.facts.annotations_cut && self.compiled.reads_annotations {
            return self.failed(
                "the namespace has annotations that are not read, since they are longer than 1 KiB or there are more than 8 KiB of \
                 them: shorten them, or read labels instead",
            );
        }
        let object = match &self.object {
            None => None,
            Some(InstanceFacts { body: None, .. }) => {
                return self.failed(
                    "the object is larger than 64 KiB, or those of its namespace take more than a quarter of what others leave of \
                     64 MiB: make it smaller",
                );
            }
            Some(InstanceFacts { body: Some(body), .. }) => serde_json::from_str::<Value>(body.expose()).ok(),
        };
        let namespace = as_object(&self.namespace, &self.facts);
        let mut instance =
            Instance { namespace: Some(&namespace), object: object.as_ref(), ..Instance::default() };
        let (mut objects, mut faults) = (Vec::<RenderedObject>::new(), Vec::new());
        let mut budget = RenderBudget::default();
        for declared in &self.compiled.objects {
            let rendered = match self.compiled.render_within(declared, &instance, &mut budget) {
                Ok(Rendering::Object(rendered)) => self.object(declared, rendered.name, rendered.body),
                Ok(Rendering::Excluded) => {
                    instance.excluded.insert(&declared.id);
                    continue;
                }
                Ok(Rendering::WaitingFor(ids)) => {
                    let ids: Vec<String> = ids.into_iter().collect();
                    Err(format!("waits for {}", ids.join(", ")))
                }
                Err(fault) => Err(fault.to_string()),
            };
            match rendered {
                Ok(object) if objects.iter().any(|other| other.slot == object.slot) => {
                    let message = format!("has the same kind and name as another object: {}", object.slot);
                    faults.push(RenderedFault { id: declared.id.clone(), message });
                }
                Ok(object) => objects.push(object),
                Err(message) => faults.push(RenderedFault { id: declared.id.clone(), message }),
            }
        }
        let read = object.as_ref().map(|object| self.compiled.read_of(object));
        self.set(read.unwrap_or_default(), objects, faults)
    }

    /// What is known once it is rendered; `read` is what was read of the object.
    fn set(&self, read: u64, objects: Vec<RenderedObject>, faults: Vec<RenderedFault>) -> RenderedSet {
        let instance = self.object.as_ref().map(|object| ReadInstance {
            uid: object.uid.clone(),
            resource_version: object.resource_version.clone(),
            read,
        });
        let (template, namespace) = (self.version.clone(), hash_of(&self.facts, &self.compiled));
        RenderedSet { template, namespace, instance, objects, faults }
    }

    /// The object as the API server would give it, reduced to digests.
    fn object(&self, declared: &CompiledObject, name: String, body: Value) -> Result<RenderedObject, String> {
        let kind = rendered_kind(declared).ok_or_else(|| {
            format!("{} {} is not rendered by this version of Copyrator", declared.api_version, declared.kind)
        })?;
        let slot = ObjectKey::new(kind, self.namespace.clone(), name);
        let labels = body["metadata"]["labels"].as_object().into_iter().flatten();
        let labels = labels.map(|(key, value)| (key.clone(), value.as_str().unwrap_or_default().to_owned()));
        let labels = labels.collect();
        let mut body = body;
        // An object that was read has them. What is made from the template bears the template's, and the UID of the
        // object that it is made for.
        body["metadata"]["uid"] = json!(self.object.as_ref().map_or(&self.version.0, |object| &object.uid));
        body["metadata"]["resourceVersion"] = json!(self.version.1.to_string());
        let body = Body::new(&body);
        let content = decode(kind, body.expose())
            .ok_or_else(|| format!("is no valid {kind}: the values of data must be texts"))?;
        let recreate = declared.recreate;
        Ok(RenderedObject { slot, print: content.fingerprint(&self.key), labels, recreate, body })
    }

    /// What is known where nothing can be rendered.
    fn failed(&self, message: &str) -> RenderedSet {
        let faults = vec![RenderedFault { id: String::new(), message: message.to_owned() }];
        self.set(0, Vec::new(), faults)
    }
}

/// The namespace as expressions read it.
fn as_object(name: &str, facts: &NamespaceFacts) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {
            "name": name,
            "uid": facts.uid,
            "labels": facts.labels,
            "annotations": facts.annotations,
            "creationTimestamp": facts.created.to_string(),
        },
    })
}

#[cfg(test)]
mod instances;
#[cfg(test)]
mod properties;
#[cfg(test)]
mod tests;
