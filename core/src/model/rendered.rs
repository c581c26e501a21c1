//! The objects that templates declare, as last rendered: one set for each template and instance.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    hash::{DefaultHasher, Hash, Hasher},
    sync::Arc,
};

use jiff::Timestamp;
use serde_json::Value;

use super::{NamespaceFacts, room::Room};
use crate::{
    api::{DeletionPolicy, Recreate},
    digest::Fingerprint,
    names::{Declarer, InstanceName, ObjectKey},
    validate::CompiledTemplate,
};

/// Maximum bytes of rendered objects of all templates together.
const MOST_BYTES: usize = 64 << 20;
/// Bytes that a key takes besides its text: a digest, a length, and its place in a map.
pub(super) const KEY_BYTES: usize = 128;

/// The objects and the status that one template declares for one namespace or object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RenderedSet {
    /// UID and generation of the template that was rendered.
    pub template: (Box<str>, i64),
    /// Hash of the namespace's fields that were read ([`hash_of`]).
    pub namespace: u64,
    /// The object that the template was rendered for; `None` for a namespace.
    pub instance: Option<ReadInstance>,
    /// The objects, in the order in which they are written.
    pub objects: Vec<RenderedObject>,
    /// Faults of objects that could not be rendered. While the list is not empty, the reconciler removes no
    /// object of the template for this instance.
    pub faults: Vec<RenderedFault>,
    /// The status to be written into the object, as far as it could be rendered.
    pub status: Option<Body>,
    /// Why the object does not have the declared status.
    pub status_fault: Option<StatusFault>,
    /// The result of the last write of the status, if the API server answered the write.
    pub status_answer: Option<StatusAnswer>,
}

/// The result of a status write. Writing the same status over the same fields would give the same result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatusAnswer {
    /// Hash of the object's values in the written fields after the write ([`RenderedSet::status_fields`]).
    pub fields: u64,
    /// The fault to report, and when to write again even without a change.
    pub fault: Option<(StatusFault, Timestamp)>,
}

/// Why the status of an object differs from its declaration in a template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatusFault {
    /// The kind of the fault.
    pub kind: StatusFaultKind,
    /// A description of the fault, without values.
    pub message: String,
}

/// The kinds of [`StatusFault`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StatusFaultKind {
    /// The status could not be rendered or written.
    Failed,
    /// Another field manager owns a field of the status.
    Owned,
    /// Templates read each other's status fields, so each write causes the next.
    Unstable,
    /// The API server does not keep the status.
    NotKept,
}

impl RenderedSet {
    /// Whether this set and the other one were rendered from the same version of the template, for the same
    /// namespace or object.
    pub fn is_of_same(&self, other: &Self) -> bool {
        let uid = |set: &Self| set.instance.as_ref().map(|instance| instance.uid.clone());
        self.template == other.template && uid(self) == uid(other)
    }

    /// Whether an object has the status to be written, or the status that the API server stores for it: other
    /// writers may add to the status's maps and lists, and may leave out a null. `seen` is the part of the
    /// object that expressions can read.
    pub fn is_written(&self, seen: &Value) -> bool {
        let wanted = self.wanted_status();
        let mut fields = wanted.as_object().into_iter().flatten();
        fields.all(|(name, value)| seen["status"].get(name) == Some(value)) || self.answered(seen).is_some()
    }

    /// The result of the last write, if the object's written fields have not changed since.
    pub fn answered(&self, seen: &Value) -> Option<&StatusAnswer> {
        self.status_answer.as_ref().filter(|answer| answer.fields == self.status_fields(seen))
    }

    /// Hash of an object's values in the fields to be written.
    pub fn status_fields(&self, seen: &Value) -> u64 {
        let wanted = self.wanted_status();
        let mut hasher = DefaultHasher::new();
        for name in wanted.as_object().into_iter().flat_map(|fields| fields.keys()) {
            (name, seen["status"].get(name).map(Value::to_string)).hash(&mut hasher);
        }
        hasher.finish()
    }

    fn wanted_status(&self) -> Value {
        self.status.as_ref().and_then(|status| serde_json::from_str(status.expose()).ok()).unwrap_or_default()
    }
}

/// The object that a template was rendered for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadInstance {
    /// `metadata.uid`: a set is not valid for a new object of the same name.
    pub uid: Box<str>,
    /// The latest version of the object that renders to the same set: no field that the template reads has
    /// changed.
    pub resource_version: Box<str>,
    /// Hash of the object's fields that were read.
    pub read: u64,
}

/// One object as a template declares it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RenderedObject {
    /// Kind, namespace and name of the object.
    pub slot: ObjectKey,
    /// The object's position among the template's objects in rendering order ([`CompiledTemplate::objects`]).
    pub position: u8,
    /// The object's content, reduced to digests.
    pub print: Fingerprint,
    /// The object's labels. The annotations are in the fingerprint.
    pub labels: BTreeMap<String, String>,
    /// Whether to delete and recreate the object if no update can change it.
    pub recreate: Recreate,
    /// The object's own `deletionPolicy`; `None` if the template's policy applies.
    pub deletion: Option<DeletionPolicy>,
    /// Whether expressions of the template read this object.
    pub is_read: bool,
    /// The whole object, to be written.
    pub body: Body,
}

/// Hash of the part of a namespace that a template's expressions can read, to recognise an outdated set.
/// Annotations are included only if an expression reads annotations.
pub fn hash_of(namespace: &NamespaceFacts, template: &CompiledTemplate) -> u64 {
    let NamespaceFacts { uid, labels, annotations, annotations_cut, created, terminating: _ } = namespace;
    let mut hasher = DefaultHasher::new();
    (uid, labels, created).hash(&mut hasher);
    template.reads_annotations.then_some((annotations, annotations_cut)).hash(&mut hasher);
    hasher.finish()
}

/// Why one object of a template could not be rendered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RenderedFault {
    /// The object's `id` in the template's `objects`.
    pub id: String,
    /// Field, expression, and fault, without values.
    pub message: String,
    /// Whether the object only waits for other objects.
    pub waits: bool,
}

/// An object as JSON text. `Debug` does not print the text: a namespace's annotation may hold private values.
#[derive(Clone, PartialEq, Eq)]
pub struct Body(Arc<str>);

impl Body {
    /// Keeps the text of an object.
    pub fn new(object: &Value) -> Self {
        Self(object.to_string().into())
    }

    /// The text, to be decoded and written.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Body {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Body({} bytes)", self.0.len())
    }
}

impl RenderedSet {
    /// The memory that the objects take: their text, and about `KEY_BYTES` for each key.
    fn bytes(&self) -> usize {
        let bytes = |object: &RenderedObject| object.body.0.len() + object.print.keys.len() * KEY_BYTES;
        self.objects.iter().map(bytes).sum()
    }
}

/// All sets, with an index by slot.
#[derive(Debug)]
pub(super) struct Rendered {
    sets: BTreeMap<Declarer, BTreeMap<InstanceName, RenderedSet>>,
    by_slot: BTreeMap<ObjectKey, BTreeSet<(Declarer, InstanceName)>>,
    /// Bytes of all objects, by the namespace of their templates.
    room: Room,
}

impl Default for Rendered {
    fn default() -> Self {
        Self { sets: BTreeMap::new(), by_slot: BTreeMap::new(), room: Room::of(MOST_BYTES) }
    }
}

impl Rendered {
    /// The set of a template for this instance, if it was rendered.
    pub(super) fn set(&self, template: &Declarer, instance: &InstanceName) -> Option<&RenderedSet> {
        self.sets.get(template)?.get(instance)
    }

    /// Like [`Self::set`], mutable; callers must not change the set's objects.
    pub(super) fn set_mut(
        &mut self,
        template: &Declarer,
        instance: &InstanceName,
    ) -> Option<&mut RenderedSet> {
        self.sets.get_mut(template)?.get_mut(instance)
    }

    /// Every set of a template.
    pub(super) fn sets_of<'r>(
        &'r self,
        template: &Declarer,
    ) -> impl Iterator<Item = (&'r InstanceName, &'r RenderedSet)> + use<'r> {
        self.sets.get(template).into_iter().flatten()
    }

    /// The sets of a template in one namespace.
    pub(super) fn sets_in<'r>(
        &'r self,
        template: &Declarer,
        namespace: &'r str,
    ) -> impl Iterator<Item = (&'r InstanceName, &'r RenderedSet)> + use<'r> {
        let of_template = self.sets.get(template).into_iter();
        let from = of_template.flat_map(move |sets| sets.range(InstanceName::from(namespace)..));
        from.take_while(move |(instance, _)| *instance.namespace == *namespace)
    }

    /// The objects that templates declare in this slot, in the order of the templates.
    pub(super) fn at<'r>(
        &'r self,
        slot: &'r ObjectKey,
    ) -> impl Iterator<Item = (&'r Declarer, &'r InstanceName, &'r RenderedSet, &'r RenderedObject)> {
        self.by_slot.get(slot).into_iter().flatten().filter_map(move |(template, instance)| {
            let set = self.set(template, instance)?;
            Some((template, instance, set, set.objects.iter().find(|object| object.slot == *slot)?))
        })
    }

    /// The slot of every rendered object.
    pub(super) fn slots(&self) -> impl Iterator<Item = &ObjectKey> {
        self.by_slot.keys()
    }

    /// Bytes of each object.
    pub(super) fn sizes(&self) -> impl Iterator<Item = u64> {
        let objects = self.sets.values().flat_map(BTreeMap::values).flat_map(|set| &set.objects);
        objects.map(|object| object.body.0.len() as u64)
    }

    /// Replaces the set of a template for this instance. If all rendered objects together would take too much
    /// memory, a fault replaces the objects of this set.
    pub(super) fn replace(&mut self, template: &Declarer, instance: &InstanceName, set: Option<RenderedSet>) {
        self.remove(template, instance);
        let Some(mut set) = set else { return };
        if !set.objects.is_empty() && !self.room.has(template.namespace(), set.bytes()) {
            let message = format!(
                "the objects of all templates of namespace {} may use {} KiB together (a quarter of what other namespaces leave of {} \
                 MiB): make the objects smaller, or select fewer instances",
                template.namespace(),
                self.room.share(template.namespace()) >> 10,
                MOST_BYTES >> 20
            );
            set = RenderedSet {
                objects: Vec::new(),
                faults: vec![RenderedFault { id: String::new(), message, waits: false }],
                ..set
            };
        }
        for object in &set.objects {
            let of_slot = self.by_slot.entry(object.slot.clone()).or_default();
            of_slot.insert((template.clone(), instance.clone()));
        }
        self.room.take(template.namespace(), set.bytes());
        self.sets.entry(template.clone()).or_default().insert(instance.clone(), set);
    }

    /// Forgets all sets of a template.
    pub(super) fn forget(&mut self, template: &Declarer) {
        let instances: Vec<InstanceName> =
            self.sets_of(template).map(|(instance, _)| instance.clone()).collect();
        for instance in instances {
            self.remove(template, &instance);
        }
    }

    fn remove(&mut self, template: &Declarer, instance: &InstanceName) {
        let Some(sets) = self.sets.get_mut(template) else { return };
        let before = sets.remove(instance);
        if sets.is_empty() {
            self.sets.remove(template);
        }
        let Some(before) = before else { return };
        self.room.give_back(template.namespace(), before.bytes());
        for object in before.objects {
            if let Some(of_slot) = self.by_slot.get_mut(&object.slot) {
                of_slot.remove(&(template.clone(), instance.clone()));
                if of_slot.is_empty() {
                    self.by_slot.remove(&object.slot);
                }
            }
        }
    }
}
