//! The objects that templates declare, as they were last rendered: one set for each template and what it is rendered for.

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
    names::{InstanceName, NamespacedName, ObjectKey},
    validate::CompiledTemplate,
};

/// How many bytes of rendered objects are kept, of all templates together.
const MOST_BYTES: usize = 64 << 20;
/// What is kept of a key beside its text, in bytes: a digest, a length, and its place in a map.
pub(super) const KEY_BYTES: usize = 128;

/// What one template declares for one namespace or object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RenderedSet {
    /// UID and generation of the template that was rendered.
    pub template: (Box<str>, i64),
    /// What was read of the namespace ([`hash_of`]).
    pub namespace: u64,
    /// The object that it was rendered for; `None` for a namespace.
    pub instance: Option<ReadInstance>,
    /// The objects, in the order in which they are written.
    pub objects: Vec<RenderedObject>,
    /// What could not be rendered. Nothing of the template that was made for the same is removed meanwhile.
    pub faults: Vec<RenderedFault>,
    /// What is to be written into the object's status, as far as it could be rendered.
    pub status: Option<Body>,
    /// Why that is not there.
    pub status_fault: Option<StatusFault>,
    /// What became of the last write of that status, where it was answered.
    pub status_answer: Option<StatusAnswer>,
}

/// What the API server has made of a status that was written: writing the same over the same comes to the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatusAnswer {
    /// What the object then had in the fields that are written, as a hash ([`RenderedSet::status_fields`]).
    pub fields: u64,
    /// What is to be told of it, and when it is tried again all the same.
    pub fault: Option<(StatusFault, Timestamp)>,
}

/// Why the status of an object is not as a template says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatusFault {
    /// Of what sort it is.
    pub kind: StatusFaultKind,
    /// What is wrong. Never a value.
    pub message: String,
}

/// The sorts of such faults.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StatusFaultKind {
    /// It could not be rendered or written.
    Failed,
    /// Somebody else owns a field of it.
    Owned,
    /// Templates drive each other to ever new values.
    Unstable,
    /// The API server does not keep it.
    NotKept,
}

impl RenderedSet {
    /// Whether both were rendered from the same text of the template, for the same namespace or object.
    pub fn is_of_same(&self, other: &Self) -> bool {
        let uid = |set: &Self| set.instance.as_ref().map(|instance| instance.uid.clone());
        self.template == other.template && uid(self) == uid(other)
    }

    /// Whether an object has the status that is to be written, or what the API server makes of it: others may add to its maps and
    /// lists, and a null may be left out. `seen` is what expressions see of the object.
    pub fn is_written(&self, seen: &Value) -> bool {
        let wanted = self.wanted_status();
        let mut fields = wanted.as_object().into_iter().flatten();
        fields.all(|(name, value)| seen["status"].get(name) == Some(value)) || self.answered(seen).is_some()
    }

    /// What became of the last write, if the object still is as it was left then.
    pub fn answered(&self, seen: &Value) -> Option<&StatusAnswer> {
        self.status_answer.as_ref().filter(|answer| answer.fields == self.status_fields(seen))
    }

    /// What an object has in the fields that are to be written, as a hash.
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
    /// `metadata.uid`: what was rendered for an object is not for the next one of its name.
    pub uid: Box<str>,
    /// Its latest version that gives what was rendered: one in which nothing has changed that is read.
    pub resource_version: Box<str>,
    /// What was read of it, as a hash.
    pub read: u64,
}

/// One object as a template declares it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RenderedObject {
    /// Kind, namespace and name of the object.
    pub slot: ObjectKey,
    /// Its place among the template's objects as they are rendered ([`CompiledTemplate::objects`]).
    pub position: u8,
    /// Its content, reduced to digests.
    pub print: Fingerprint,
    /// Its labels. The annotations are in the fingerprint.
    pub labels: BTreeMap<String, String>,
    /// Whether to delete and make anew what no update can change.
    pub recreate: Recreate,
    /// The object's own `deletionPolicy`; `None`: the template's.
    pub deletion: Option<DeletionPolicy>,
    /// Whether other expressions read it.
    pub is_read: bool,
    /// The whole object, to be written.
    pub body: Body,
}

/// What a template's expressions can read of a namespace, as a hash: whether it is what a set was rendered from. An
/// annotation that none of them reads changes nothing.
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
    /// Field, expression, and what is wrong. Never a value.
    pub message: String,
    /// Whether it only waits for other objects.
    pub waits: bool,
}

/// An object as JSON text. It reaches no formatter: a namespace's annotation may hold what its owner would not show.
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
    /// What the objects take: their text, and about so much for the digest of each key.
    fn bytes(&self) -> usize {
        let bytes = |object: &RenderedObject| object.body.0.len() + object.print.keys.len() * KEY_BYTES;
        self.objects.iter().map(bytes).sum()
    }
}

/// All sets, with an index by slot.
#[derive(Debug)]
pub(super) struct Rendered {
    sets: BTreeMap<NamespacedName, BTreeMap<InstanceName, RenderedSet>>,
    by_slot: BTreeMap<ObjectKey, BTreeSet<(NamespacedName, InstanceName)>>,
    /// Bytes of all objects, by the namespace of their templates.
    room: Room,
}

impl Default for Rendered {
    fn default() -> Self {
        Self { sets: BTreeMap::new(), by_slot: BTreeMap::new(), room: Room::of(MOST_BYTES) }
    }
}

impl Rendered {
    /// What a template declares for this, if that was rendered.
    pub(super) fn set(&self, template: &NamespacedName, instance: &InstanceName) -> Option<&RenderedSet> {
        self.sets.get(template)?.get(instance)
    }

    /// The same, to be changed in what is no part of its objects.
    pub(super) fn set_mut(
        &mut self,
        template: &NamespacedName,
        instance: &InstanceName,
    ) -> Option<&mut RenderedSet> {
        self.sets.get_mut(template)?.get_mut(instance)
    }

    /// Every set of a template.
    pub(super) fn sets_of<'r>(
        &'r self,
        template: &NamespacedName,
    ) -> impl Iterator<Item = (&'r InstanceName, &'r RenderedSet)> + use<'r> {
        self.sets.get(template).into_iter().flatten()
    }

    /// The sets of a template in one namespace.
    pub(super) fn sets_in<'r>(
        &'r self,
        template: &NamespacedName,
        namespace: &'r str,
    ) -> impl Iterator<Item = (&'r InstanceName, &'r RenderedSet)> + use<'r> {
        let of_template = self.sets.get(template).into_iter();
        let from = of_template.flat_map(move |sets| sets.range(InstanceName::from(namespace)..));
        from.take_while(move |(instance, _)| *instance.namespace == *namespace)
    }

    /// The objects that templates declare at this place, in the order of the templates.
    pub(super) fn at<'r>(
        &'r self,
        slot: &'r ObjectKey,
    ) -> impl Iterator<Item = (&'r NamespacedName, &'r InstanceName, &'r RenderedSet, &'r RenderedObject)>
    {
        self.by_slot.get(slot).into_iter().flatten().filter_map(move |(template, instance)| {
            let set = self.set(template, instance)?;
            Some((template, instance, set, set.objects.iter().find(|object| object.slot == *slot)?))
        })
    }

    /// Every place of a rendered object.
    pub(super) fn slots(&self) -> impl Iterator<Item = &ObjectKey> {
        self.by_slot.keys()
    }

    /// Bytes of each object.
    pub(super) fn sizes(&self) -> impl Iterator<Item = u64> {
        let objects = self.sets.values().flat_map(BTreeMap::values).flat_map(|set| &set.objects);
        objects.map(|object| object.body.0.len() as u64)
    }

    /// Replaces what a template declares for this. Where all objects would take too much memory, a fault stands in
    /// their place.
    pub(super) fn replace(
        &mut self,
        template: &NamespacedName,
        instance: &InstanceName,
        set: Option<RenderedSet>,
    ) {
        self.remove(template, instance);
        let Some(mut set) = set else { return };
        if !set.objects.is_empty() && !self.room.has(&template.namespace, set.bytes()) {
            let message = format!(
                "the objects of all templates of namespace {} together may take {} KiB here now, a quarter of what other \
                 namespaces leave of {} MiB: make them smaller, or select less",
                template.namespace,
                self.room.share(&template.namespace) >> 10,
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
        self.room.take(&template.namespace, set.bytes());
        self.sets.entry(template.clone()).or_default().insert(instance.clone(), set);
    }

    /// Forgets what a template declares.
    pub(super) fn forget(&mut self, template: &NamespacedName) {
        let instances: Vec<InstanceName> =
            self.sets_of(template).map(|(instance, _)| instance.clone()).collect();
        for instance in instances {
            self.remove(template, &instance);
        }
    }

    fn remove(&mut self, template: &NamespacedName, instance: &InstanceName) {
        let Some(sets) = self.sets.get_mut(template) else { return };
        let before = sets.remove(instance);
        if sets.is_empty() {
            self.sets.remove(template);
        }
        let Some(before) = before else { return };
        self.room.give_back(&template.namespace, before.bytes());
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
