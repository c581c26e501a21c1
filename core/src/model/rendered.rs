//! The objects that templates declare, as they were last rendered: for each template and namespace one set.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    hash::{DefaultHasher, Hash, Hasher},
    sync::Arc,
};

use super::NamespaceFacts;
use crate::{
    api::Recreate,
    digest::Fingerprint,
    names::{NamespacedName, ObjectKey},
    validate::CompiledTemplate,
};

/// How many bytes of rendered objects are kept, of all templates together.
const MOST_BYTES: usize = 64 << 20;
/// The templates of one namespace take this part of what others leave, so that something is always left for the next.
const SHARE: usize = 4;

/// What one template declares in one namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RenderedSet {
    /// UID and generation of the template that was rendered.
    pub template: (Box<str>, i64),
    /// What was read of the namespace ([`hash_of`]).
    pub namespace: u64,
    /// The objects, in the order in which they are written.
    pub objects: Vec<RenderedObject>,
    /// What could not be rendered. Nothing of the template is removed in the namespace meanwhile.
    pub faults: Vec<RenderedFault>,
}

/// One object as a template declares it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RenderedObject {
    /// Where it belongs.
    pub slot: ObjectKey,
    /// Its content, reduced to digests.
    pub print: Fingerprint,
    /// Its labels. The annotations are in the fingerprint.
    pub labels: BTreeMap<String, String>,
    /// Whether to delete and make anew what no update can change.
    pub recreate: Recreate,
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
    /// The object's `id`.
    pub id: String,
    /// Field, expression, and what is wrong. Never a value.
    pub message: String,
}

/// An object as JSON text. It reaches no formatter: a namespace's annotation may hold what its owner would not show.
#[derive(Clone, PartialEq, Eq)]
pub struct Body(Arc<str>);

impl Body {
    /// Keeps the text of an object.
    pub fn new(object: &serde_json::Value) -> Self {
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
    fn bytes(&self) -> usize {
        self.objects.iter().map(|object| object.body.0.len()).sum()
    }
}

/// All sets, with an index by slot.
#[derive(Debug, Default)]
pub(super) struct Rendered {
    sets: BTreeMap<NamespacedName, BTreeMap<Arc<str>, RenderedSet>>,
    by_slot: BTreeMap<ObjectKey, BTreeSet<NamespacedName>>,
    /// Bytes of all objects, by the namespace of their templates.
    bytes: BTreeMap<Arc<str>, usize>,
}

impl Rendered {
    /// What a template declares in a namespace, if that was rendered.
    pub(super) fn set(&self, template: &NamespacedName, namespace: &str) -> Option<&RenderedSet> {
        self.sets.get(template)?.get(namespace)
    }

    /// Every set of a template, by namespace.
    pub(super) fn sets_of<'r>(
        &'r self,
        template: &NamespacedName,
    ) -> impl Iterator<Item = (&'r Arc<str>, &'r RenderedSet)> + use<'r> {
        self.sets.get(template).into_iter().flatten()
    }

    /// The objects that templates declare at this place.
    pub(super) fn at<'r>(
        &'r self,
        slot: &'r ObjectKey,
    ) -> impl Iterator<Item = (&'r NamespacedName, &'r RenderedSet, &'r RenderedObject)> {
        self.by_slot.get(slot).into_iter().flatten().filter_map(move |template| {
            let set = self.set(template, &slot.namespace)?;
            Some((template, set, set.objects.iter().find(|object| object.slot == *slot)?))
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

    /// Replaces what a template declares in a namespace. Where all objects would take too much memory, a fault stands in
    /// their place.
    pub(super) fn replace(
        &mut self,
        template: &NamespacedName,
        namespace: &Arc<str>,
        set: Option<RenderedSet>,
    ) {
        self.remove(template, namespace);
        let Some(mut set) = set else { return };
        if !set.objects.is_empty() && !self.has_room(template, set.bytes()) {
            let message = format!(
                "the objects of all templates of namespace {} together may take {} KiB here now, a quarter of what other \
                 namespaces leave of {} MiB: make them smaller, or select fewer namespaces",
                template.namespace,
                self.share(template) >> 10,
                MOST_BYTES >> 20
            );
            set = RenderedSet {
                objects: Vec::new(),
                faults: vec![RenderedFault { id: String::new(), message }],
                ..set
            };
        }
        for object in &set.objects {
            self.by_slot.entry(object.slot.clone()).or_default().insert(template.clone());
        }
        *self.bytes.entry(template.namespace.clone()).or_default() += set.bytes();
        self.sets.entry(template.clone()).or_default().insert(namespace.clone(), set);
    }

    /// Forgets what a template declares.
    pub(super) fn forget(&mut self, template: &NamespacedName) {
        let namespaces: Vec<Arc<str>> =
            self.sets_of(template).map(|(namespace, _)| namespace.clone()).collect();
        for namespace in namespaces {
            self.remove(template, &namespace);
        }
    }

    fn has_room(&self, template: &NamespacedName, more: usize) -> bool {
        self.own_bytes(template).saturating_add(more) <= self.share(template)
    }

    fn own_bytes(&self, template: &NamespacedName) -> usize {
        self.bytes.get(&template.namespace).copied().unwrap_or_default()
    }

    /// How many bytes the templates of this one's namespace may take.
    fn share(&self, template: &NamespacedName) -> usize {
        let others = self.bytes.values().sum::<usize>().saturating_sub(self.own_bytes(template));
        MOST_BYTES.saturating_sub(others) / SHARE
    }

    fn remove(&mut self, template: &NamespacedName, namespace: &str) {
        let Some(sets) = self.sets.get_mut(template) else { return };
        let before = sets.remove(namespace);
        if sets.is_empty() {
            self.sets.remove(template);
        }
        let Some(before) = before else { return };
        if let Some(bytes) = self.bytes.get_mut(&template.namespace) {
            *bytes = bytes.saturating_sub(before.bytes());
            if *bytes == 0 {
                self.bytes.remove(&template.namespace);
            }
        }
        for object in before.objects {
            if let Some(templates) = self.by_slot.get_mut(&object.slot) {
                templates.remove(template);
                if templates.is_empty() {
                    self.by_slot.remove(&object.slot);
                }
            }
        }
    }
}
