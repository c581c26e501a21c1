//! The objects that templates are rendered for, by kind, as far as expressions can read them.

use std::collections::{BTreeMap, BTreeSet};

use super::{Body, rendered::KEY_BYTES, room::Room};
use crate::names::{InstanceKind, NamespacedName};

/// Maximum bytes of these objects of all kinds together.
const MOST_BYTES: usize = 64 << 20;
/// Maximum bytes of one object.
const LONGEST: usize = 64 << 10;

/// An object that templates may be rendered for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InstanceFacts {
    /// `metadata.uid`: an object that is deleted and created again has a new UID.
    pub uid: Box<str>,
    /// The resource version that was last seen.
    pub resource_version: Box<str>,
    /// All `metadata.labels`, which selectors of templates match. `None` if the labels are too large to be
    /// kept: templates are not rendered for such an object, and the objects that were made for it stay.
    pub labels: Option<BTreeMap<String, String>>,
    /// Whether the object has a mark of ours: such an object is never an instance.
    pub is_marked: bool,
    /// Whether the object is marked for deletion. Until the object is gone, the objects that were made for it
    /// stay unchanged.
    pub terminating: bool,
    /// The fields of the object's status that templates of ours have written, by field manager.
    pub status_written: BTreeMap<Box<str>, BTreeSet<Box<str>>>,
    /// The part of the object that expressions can read; `None` if the part is too large to be kept.
    pub body: Option<Body>,
}

/// The read state of a kind: whether its objects are known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum InstancesRead {
    /// The objects have not been listed yet.
    #[default]
    NotYet,
    /// All objects are known.
    Listed,
    /// All objects were known until their watch failed. The objects are listed again, and none is removed
    /// meanwhile.
    Doubtful,
    /// The API server does not serve the kind.
    NotServed,
    /// The objects cannot be listed, for this reason.
    Failed(String),
}

impl InstancesRead {
    /// Whether decisions may rely on the known objects.
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

    /// Takes in an object, or its absence. Fields that are too large are not kept.
    pub(super) fn set(&mut self, kind: &InstanceKind, name: &NamespacedName, facts: Option<InstanceFacts>) {
        let of = self.kinds.entry(kind.clone()).or_default();
        if let Some(before) = of.objects.remove(name) {
            self.room.give_back(&name.namespace, before.bytes());
        }
        let Some(mut facts) = facts else { return };
        let is_kept =
            |facts: &InstanceFacts| facts.bytes() <= LONGEST && self.room.has(&name.namespace, facts.bytes());
        if !is_kept(&facts) {
            // Any user can make these fields large.
            facts.body = None;
            facts.status_written.clear();
            if !is_kept(&facts) {
                facts.labels = None;
            }
        }
        self.room.take(&name.namespace, facts.bytes());
        of.objects.insert(name.clone(), facts);
    }
}

impl InstanceFacts {
    fn bytes(&self) -> usize {
        let written = self.status_written.iter().flat_map(|(manager, fields)| {
            fields.iter().map(|field| field.len() + KEY_BYTES).chain([manager.len() + KEY_BYTES])
        });
        self.body.as_ref().map_or(0, |body| body.expose().len())
            + self.labels.as_ref().map_or(0, bytes_of)
            + written.sum::<usize>()
    }
}

fn bytes_of(labels: &BTreeMap<String, String>) -> usize {
    labels.iter().map(|(key, value)| key.len() + value.len() + KEY_BYTES).sum()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// An object whose body and labels have about so many bytes.
    fn facts(body: usize, labels: usize) -> InstanceFacts {
        let label = |at: usize| (format!("{at:0>200}"), "x".repeat(1024 - 200 - KEY_BYTES));
        InstanceFacts {
            uid: "u".into(),
            resource_version: "1".into(),
            labels: Some((0..labels / 1024).map(label).collect()),
            is_marked: false,
            terminating: false,
            status_written: BTreeMap::new(),
            body: Some(Body::new(&json!("x".repeat(body)))),
        }
    }

    /// The labels of an object are as large as its writer likes.
    #[test]
    fn nothing_is_kept_of_an_object_beyond_its_room() {
        let kind = InstanceKind::new("a.b/v1", "A");
        let mut instances = Instances { kinds: BTreeMap::new(), room: Room::of(4 * (100 << 10)) };
        let mut keeps = |name: &str, facts: InstanceFacts| {
            let name = NamespacedName::new("shop", name);
            instances.set(&kind, &name, Some(facts));
            let known = instances.get(&kind, &name).unwrap();
            (known.body.is_some(), known.labels.is_some())
        };
        assert_eq!(
            keeps("large", facts(LONGEST, 1024)),
            (false, true),
            "a template can leave it out by its labels"
        );
        assert_eq!(keeps("labels", facts(10, 2 * LONGEST)), (false, false));
        assert_eq!(keeps("a", facts(40 << 10, 20 << 10)), (true, true));
        assert_eq!(keeps("b", facts(20 << 10, 20 << 10)), (false, true), "without room for all of it");
        assert_eq!(keeps("c", facts(10, 20 << 10)), (false, false), "without any room");
        let kept: usize = instances.of(&kind).map(|(_, facts)| facts.bytes()).sum();
        assert!(kept <= 100 << 10, "{kept}");
        instances.set(&kind, &NamespacedName::new("shop", "a"), None);
        instances.set(&kind, &NamespacedName::new("shop", "c"), Some(facts(10, 20 << 10)));
        let known = instances.get(&kind, &NamespacedName::new("shop", "c")).unwrap();
        assert!(known.body.is_some() && known.labels.is_some());
    }
}
