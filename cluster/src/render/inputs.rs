//! The inputs of a rendering: the facts that the objects of a template are rendered from.

use std::{collections::BTreeSet, sync::Arc};

use serde_json::{Value, json};

use super::existing::{Existing, Lacking};
use crate::{
    digest::DigestKey,
    marks::status_manager,
    model::{
        Body, InstanceFacts, NamespaceFacts, ReadInstance, RenderedFault, RenderedObject, RenderedSet,
        StatusFault, StatusFaultKind, World, hash_of,
    },
    names::{Declarer, InstanceName, Kind, ObjectKey},
    plan::copy::{inert::inert_template, templates::selects},
    read::content::decode,
    validate::{CompiledObject, CompiledTemplate, Instance, RenderBudget, Rendering, declared_kind},
};

/// The facts that the objects are rendered from.
pub struct Inputs {
    version: (Box<str>, i64),
    /// The compiled template.
    pub compiled: Arc<CompiledTemplate>,
    namespace: Arc<str>,
    /// The facts about the namespace.
    pub facts: NamespaceFacts,
    /// The object that the template is rendered for; `None` for a template that is rendered for a namespace.
    pub object: Option<InstanceFacts>,
    /// The kinds of the template's objects, in the order of the objects.
    kinds: Vec<Kind>,
    key: DigestKey,
    /// The fields of the object's status that the template has written.
    pub(super) status_written: BTreeSet<Box<str>>,
}

impl Inputs {
    /// Returns the inputs; `None` if the template declares no objects for the instance, or may not declare
    /// any.
    pub fn of(world: &World, template: &Declarer, instance: &InstanceName) -> Option<Self> {
        let declared = world.templates().get(template)?;
        let compiled = declared.compiled.as_ref().ok()?;
        if inert_template(world, template, declared).is_some()
            || !selects(world, template, compiled, instance)
        {
            return None;
        }
        let object = compiled.instance_kind().zip(instance.object());
        let object = object.and_then(|(kind, name)| world.instance(kind, &name).cloned());
        let written = object.as_ref().and_then(|facts| facts.status_written.get(&*status_manager(template)));
        let status_written = written.cloned().unwrap_or_default();
        let granted = &world.settings().template_kinds;
        let kinds = compiled.objects.iter().map(|object| declared_kind(object, granted));
        Some(Self {
            version: (declared.uid.clone(), declared.generation),
            compiled: compiled.clone(),
            namespace: instance.namespace.clone(),
            facts: world.namespaces().get(&instance.namespace)?.clone(),
            object,
            status_written,
            kinds: kinds.collect::<Option<_>>()?,
            key: world.key()?.clone(),
        })
    }

    /// Whether the object's status has fields that the template has written and that this new status lacks.
    /// Without a new status, no field is withdrawn: rendering failed, or the API server was not asked whether
    /// the author may write it.
    pub fn leaves_over(&self, status: Option<&Value>) -> bool {
        status.is_some_and(|new| self.status_written.iter().any(|field| new.get(&**field).is_none()))
    }

    /// Renders the objects. `existing` are the objects that were read so far; the result names the objects to
    /// read next.
    pub fn render(&self, existing: &Existing) -> (RenderedSet, Lacking) {
        if self.facts.annotations_cut && self.compiled.reads_annotations {
            let failed = self.failed(
                "the namespace has annotations longer than 1 KiB, or more than 8 KiB of annotations, which templates cannot read: shorten \
                 them, or read labels instead",
            );
            return (failed, Lacking::new());
        }
        let object = match &self.object {
            None => None,
            Some(InstanceFacts { body: None, .. }) => {
                let failed = self.failed(
                    "the object is larger than 64 KiB, or the objects of its namespace need more than a quarter of what others leave of \
                     64 MiB: make the object smaller",
                );
                return (failed, Lacking::new());
            }
            Some(InstanceFacts { body: Some(body), .. }) => serde_json::from_str::<Value>(body.expose()).ok(),
        };
        let namespace = self.facts.as_object(&self.namespace);
        let mut instance =
            Instance { namespace: Some(&namespace), object: object.as_ref(), ..Instance::default() };
        let (mut objects, mut faults) = (Vec::<RenderedObject>::new(), Vec::new());
        let (mut budget, mut lacking) = (RenderBudget::default(), Lacking::new());
        for (position, (declared, kind)) in (0..).zip(self.compiled.objects.iter().zip(&self.kinds)) {
            let fault = |message| RenderedFault { id: declared.id.clone(), message, waits: false };
            let rendered = match self.compiled.render_within(declared, &instance, &mut budget) {
                Ok(Rendering::Object(rendered)) => {
                    self.object(position, declared, *kind, rendered.name, rendered.body)
                }
                Ok(Rendering::Excluded) => {
                    instance.excluded.insert(&declared.id);
                    continue;
                }
                Ok(Rendering::WaitingFor(ids)) => {
                    let ids: Vec<String> = ids.into_iter().collect();
                    faults.push(RenderedFault {
                        waits: true,
                        ..fault(format!("waits for {}", ids.join(", ")))
                    });
                    continue;
                }
                Err(error) => Err(error.to_string()),
            };
            match rendered {
                Ok(object) if objects.iter().any(|other| other.slot == object.slot) => {
                    faults.push(fault(format!(
                        "has the same kind and name as another object: {}",
                        object.slot
                    )));
                }
                Ok(object) => {
                    if object.is_read {
                        let (id, slot) = (&*declared.id, &object.slot);
                        let reads_pods = self.compiled.reads_pods(id);
                        match (existing.objects.get(slot), existing.unread.get(slot)) {
                            (_, Some(why)) => drop(instance.unread.insert(id, why)),
                            (Some(found), None) => {
                                instance.existing.extend(found.iter().map(|found| (id, found)));
                            }
                            (None, None) => {
                                lacking.insert(slot.clone(), reads_pods && !existing.pods_later);
                            }
                        }
                        if reads_pods && existing.pods_later {
                            instance.pods_later.insert(id);
                        }
                        instance.unread_pods.extend(existing.unread_pods.get(slot).map(|why| (id, &**why)));
                        instance.pods.insert(id, existing.pods.get(slot).into_iter().flatten().collect());
                    }
                    objects.push(object);
                }
                Err(message) => faults.push(fault(message)),
            }
        }
        let read = object.as_ref().map(|object| self.compiled.read_of(object));
        let mut set = self.set(read.unwrap_or_default(), objects, faults);
        match self.compiled.render_status(&instance) {
            Ok(status) => set.status = status.map(|status| Body::new(&status)),
            Err(fault) => {
                set.status_fault =
                    Some(StatusFault { kind: StatusFaultKind::Failed, message: fault.to_string() })
            }
        }
        (set, lacking)
    }

    /// Returns the result of a rendering. `read` is a hash of the values that expressions read of the object.
    fn set(&self, read: u64, objects: Vec<RenderedObject>, faults: Vec<RenderedFault>) -> RenderedSet {
        let instance = self.object.as_ref().map(|object| ReadInstance {
            uid: object.uid.clone(),
            resource_version: object.resource_version.clone(),
            read,
        });
        let (template, namespace) = (self.version.clone(), hash_of(&self.facts, &self.compiled));
        RenderedSet {
            template,
            namespace,
            instance,
            objects,
            faults,
            status: None,
            status_fault: None,
            status_answer: None,
        }
    }

    /// Returns a rendered object in the form of an object read from the API server, with its fingerprint.
    fn object(
        &self,
        position: u8,
        declared: &CompiledObject,
        kind: Kind,
        name: String,
        body: Value,
    ) -> Result<RenderedObject, String> {
        let slot = ObjectKey::new(kind, self.namespace.clone(), name);
        let labels = body["metadata"]["labels"].as_object().into_iter().flatten();
        let labels = labels.map(|(key, value)| (key.clone(), value.as_str().unwrap_or_default().to_owned()));
        let labels = labels.collect();
        let mut body = body;
        // An object from the API server has a UID and a version. The rendered object gets the UID of the
        // object that it is made for, or else of the template, and the template's generation.
        body["metadata"]["uid"] = json!(self.object.as_ref().map_or(&self.version.0, |object| &object.uid));
        body["metadata"]["resourceVersion"] = json!(self.version.1.to_string());
        let body = Body::new(&body);
        let content = decode(kind, body.expose())
            .ok_or_else(|| format!("is not a valid {kind}: the values of data must be strings"))?;
        let &CompiledObject { recreate, deletion, .. } = declared;
        let is_read = self.compiled.reads(&declared.id);
        let print = content.fingerprint(&self.key);
        Ok(RenderedObject { slot, position, print, labels, recreate, deletion, is_read, body })
    }

    /// Returns the result if rendering is impossible.
    pub fn failed(&self, message: &str) -> RenderedSet {
        let faults = vec![RenderedFault { id: String::new(), message: message.to_owned(), waits: false }];
        self.set(0, Vec::new(), faults)
    }
}
