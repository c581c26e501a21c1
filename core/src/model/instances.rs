//! The objects that templates are rendered for, by kind, as far as expressions can read them.

use std::collections::{BTreeMap, BTreeSet};

use super::{Body, rendered::KEY_BYTES, room::Room};
use crate::names::{InstanceKind, NamespacedName};

/// How many bytes of such objects are kept, of all kinds together.
const MOST_BYTES: usize = 64 << 20;
/// The longest such object.
const LONGEST: usize = 64 << 10;

/// An object that templates may be rendered for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InstanceFacts {
    /// `metadata.uid`: an object that is deleted and created again has another.
    pub uid: Box<str>,
    /// The resource version that was last seen.
    pub resource_version: Box<str>,
    /// `metadata.labels`, all of them: selectors of templates match these.
    pub labels: BTreeMap<String, String>,
    /// Whether it has a mark of ours: such an object is never an instance.
    pub is_marked: bool,
    /// Whether it is marked for deletion. Until it is gone, everything of it stays as it is.
    pub terminating: bool,
    /// The fields of its status that templates of ours have written, by field manager.
    pub status_written: BTreeMap<Box<str>, BTreeSet<Box<str>>>,
    /// What expressions see of it; `None` where that is too large to be kept.
    pub body: Option<Body>,
}

/// What is known of the objects of a kind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum InstancesRead {
    /// They have not been listed yet.
    #[default]
    NotYet,
    /// All of them are known.
    Listed,
    /// All of them were known until their watch failed: they are listed once more, and nothing is removed meanwhile.
    Doubtful,
    /// The API server does not serve the kind.
    NotServed,
    /// They cannot be listed, and why.
    Failed(String),
}

impl InstancesRead {
    /// Whether what is known of them is decided on.
    pub fn is_known(&self) -> bool {
        matches!(self, Self::Listed | Self::Doubtful)
    }
}

/// The objects of all kinds.
#[derive(Debug)]
pub(super) struct Instances {
    kinds: BTreeMap<InstanceKind, OfKind>,
    room: Room,
}

#[derive(Debug, Default)]
struct OfKind {
    read: InstancesRead,
    objects: BTreeMap<NamespacedName, InstanceFacts>,
}

impl Default for Instances {
    fn default() -> Self {
        Self { kinds: BTreeMap::new(), room: Room::of(MOST_BYTES) }
    }
}

impl Instances {
    pub(super) fn read(&self, kind: &InstanceKind) -> InstancesRead {
        self.kinds.get(kind).map(|of| of.read.clone()).unwrap_or_default()
    }

    pub(super) fn set_read(&mut self, kind: &InstanceKind, read: InstancesRead) -> bool {
        let known = &mut self.kinds.entry(kind.clone()).or_default().read;
        std::mem::replace(known, read) != *known
    }

    pub(super) fn of<'i>(
        &'i self,
        kind: &InstanceKind,
    ) -> impl Iterator<Item = (&'i NamespacedName, &'i InstanceFacts)> + use<'i> {
        self.kinds.get(kind).into_iter().flat_map(|of| &of.objects)
    }

    pub(super) fn within<'i>(
        &'i self,
        kind: &InstanceKind,
        namespace: &'i str,
    ) -> impl Iterator<Item = (&'i NamespacedName, &'i InstanceFacts)> + use<'i> {
        let from = NamespacedName::new(namespace, "");
        let of_kind = self.kinds.get(kind).into_iter().flat_map(move |of| of.objects.range(from.clone()..));
        of_kind.take_while(move |(name, _)| *name.namespace == *namespace)
    }

    pub(super) fn get(&self, kind: &InstanceKind, name: &NamespacedName) -> Option<&InstanceFacts> {
        self.kinds.get(kind)?.objects.get(name)
    }

    /// Takes in an object, or its absence. What is too large is not kept.
    pub(super) fn set(&mut self, kind: &InstanceKind, name: &NamespacedName, facts: Option<InstanceFacts>) {
        let of = self.kinds.entry(kind.clone()).or_default();
        if let Some(before) = of.objects.remove(name) {
            self.room.give_back(&name.namespace, before.bytes());
        }
        let Some(mut facts) = facts else { return };
        if facts.bytes() > LONGEST || !self.room.has(&name.namespace, facts.bytes()) {
            // What anybody can make large is not kept either.
            facts.body = None;
            facts.status_written.clear();
        }
        self.room.take(&name.namespace, facts.bytes());
        of.objects.insert(name.clone(), facts);
    }
}

impl InstanceFacts {
    fn bytes(&self) -> usize {
        let labels = self.labels.iter().map(|(key, value)| key.len() + value.len() + KEY_BYTES);
        let written = self.status_written.iter().flat_map(|(manager, fields)| {
            fields.iter().map(|field| field.len() + KEY_BYTES).chain([manager.len() + KEY_BYTES])
        });
        self.body.as_ref().map_or(0, |body| body.expose().len())
            + labels.sum::<usize>()
            + written.sum::<usize>()
    }
}
