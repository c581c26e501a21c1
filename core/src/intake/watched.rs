//! Turns the objects of each watched kind into facts of the world.

use std::{collections::BTreeMap, sync::Arc};

use jiff::Timestamp;
use k8s_openapi::{api::core::v1::Namespace, apimachinery::pkg::apis::meta::v1::ObjectMeta};
use kube::Resource;
use serde::de::DeserializeOwned;

use super::{
    annotated,
    object::{self, OfKind, Slim},
    selection::Selection,
    workload::{Restartable, Workload},
};
use crate::{
    decoded::{Decoded, Unreadable},
    model::{DataWatch, Labels, NamespaceFacts, ObjectFacts, SeenBy, Store, UnreadObject, World},
    names::{NamespacedName, ObjectKey, WorkloadKey},
    plan::{Changed, unread},
};

/// A watched kind.
pub trait Watched:
    Resource<DynamicType = ()> + Clone + std::fmt::Debug + DeserializeOwned + Send + 'static
{
    /// The store that the kind fills.
    const STORE: Store;

    /// A label selector of the objects that are watched; `None`: all.
    const LABELS: Option<&'static str> = None;

    /// The key of the object that has this metadata, for the planner.
    fn named(meta: &ObjectMeta) -> Changed;

    /// The key of the object.
    fn changed(&self) -> Changed {
        Self::named(self.meta())
    }

    /// A substitute for an object that cannot be decoded; `None` leaves the object out.
    fn undecodable(_left: &Unreadable) -> Option<Self> {
        None
    }

    /// Whether the world already has this version of the object.
    fn is_known(&self, _world: &World) -> bool {
        false
    }

    /// Stores the object in the world, as seen at `now`. Returns whether anything that matters to a decision
    /// has changed.
    fn put(self, world: &mut World, now: Timestamp) -> bool;

    /// Stores the object in two steps, like [`put`](Self::put): the slow step runs before the world is
    /// locked.
    fn prepare(self, now: Timestamp) -> impl FnOnce(&mut World) -> bool {
        move |world| self.put(world, now)
    }

    /// Removes an object that was deleted from the world.
    fn forget(changed: &Changed, world: &mut World);

    /// Every object of the kind that the world has.
    fn known(world: &World) -> Vec<Changed>;

    /// Whether the absence of an object in this watch shows that an unreadable object is gone.
    fn clears_unreadable(_object: &UnreadObject, _world: &World) -> bool {
        true
    }

    /// The watch of ConfigMaps or Secrets that brings these objects, in one namespace or in all; `None` for
    /// other kinds.
    fn data_watch(_place: Option<&Arc<str>>) -> Option<DataWatch> {
        None
    }
}

/// Stores an object from a list that is read once, or notes that the object cannot be read. Returns whether
/// anything that matters to a decision has changed.
pub fn take_in<W: Watched>(object: Decoded<W>, world: &mut World, now: Timestamp) -> bool {
    let object = match object.read() {
        Ok(object) => object,
        Err(left) => match W::undecodable(&left) {
            Some(object) => object,
            None => return note_unreadable(&W::named(&left.metadata), &left, world),
        },
    };
    let named = object.changed().unread_object();
    let is_read_again = named.is_some_and(|named| world.note_unreadable(named, None));
    object.put(world, now) || is_read_again
}

/// Notes that an object cannot be read, if it has a name.
pub fn note_unreadable(changed: &Changed, left: &Unreadable, world: &mut World) -> bool {
    let object = changed.unread_object().filter(|_| left.metadata.name.is_some());
    object.is_some_and(|object| world.note_unreadable(object, Some(&left.why)))
}

pub(super) fn name(meta: &ObjectMeta) -> Arc<str> {
    meta.name.as_deref().unwrap_or_default().into()
}

pub(super) fn namespaced(meta: &ObjectMeta) -> NamespacedName {
    NamespacedName::new(meta.namespace.as_deref().unwrap_or_default(), name(meta))
}

/// The longest annotation of a namespace that is kept, and the most bytes of all of them.
const LONGEST_ANNOTATION: usize = 1 << 10;
const MOST_ANNOTATIONS: usize = 8 << 10;

/// The facts of a namespace that decisions need.
pub fn namespace_facts(namespace: &Namespace) -> NamespaceFacts {
    let (annotations, annotations_cut) = kept_annotations(&namespace.metadata);
    let phase = namespace.status.as_ref().and_then(|status| status.phase.as_deref());
    NamespaceFacts {
        uid: namespace.metadata.uid.clone().unwrap_or_default().into(),
        terminating: namespace.metadata.deletion_timestamp.is_some() || phase == Some("Terminating"),
        labels: namespace.metadata.labels.clone().unwrap_or_default(),
        annotations,
        annotations_cut,
        created: namespace.metadata.creation_timestamp.as_ref().map_or(Timestamp::UNIX_EPOCH, |time| time.0),
    }
}

/// Returns the annotations of a namespace that expressions can read, in order and up to a fixed size, and
/// whether some were left out for their size.
fn kept_annotations(meta: &ObjectMeta) -> (BTreeMap<String, String>, bool) {
    let (mut kept, mut is_cut, mut room) = (BTreeMap::new(), false, MOST_ANNOTATIONS);
    for (key, value) in meta.annotations.iter().flatten() {
        if key == "kubectl.kubernetes.io/last-applied-configuration" {
            continue;
        }
        match room.checked_sub(key.len() + value.len()).filter(|_| value.len() <= LONGEST_ANNOTATION) {
            Some(left) => {
                room = left;
                kept.insert(key.clone(), value.clone());
            }
            None => is_cut = true,
        }
    }
    (kept, is_cut)
}

impl Watched for Namespace {
    const STORE: Store = Store::Namespaces;

    fn named(meta: &ObjectMeta) -> Changed {
        Changed::Namespace(name(meta))
    }

    fn is_known(&self, world: &World) -> bool {
        world.namespaces().get(&name(&self.metadata)).is_some_and(|known| *known == namespace_facts(self))
    }

    fn put(self, world: &mut World, _now: Timestamp) -> bool {
        world.set_namespace(name(&self.metadata), namespace_facts(&self))
    }

    fn forget(changed: &Changed, world: &mut World) {
        if let Changed::Namespace(name) = changed {
            world.forget_namespace(name);
        }
    }

    fn known(world: &World) -> Vec<Changed> {
        let known = world.namespaces().keys().cloned().map(Changed::Namespace);
        known.chain(unread(world, |object| matches!(object, UnreadObject::Namespace(_)))).collect()
    }
}

impl<K: OfKind + Clone + std::fmt::Debug + 'static, S: Selection> Watched for Slim<K, S> {
    const STORE: Store = Store::of(K::KIND);
    const LABELS: Option<&'static str> = S::LABELS;

    fn named(meta: &ObjectMeta) -> Changed {
        let NamespacedName { namespace, name } = namespaced(meta);
        Changed::Object(ObjectKey { kind: K::KIND, namespace, name })
    }

    fn is_known(&self, world: &World) -> bool {
        let Changed::Object(key) = self.changed() else { return false };
        let is_this = |known: &ObjectFacts| known.is_version_of(&self.facts) && known.seen.is_by(S::SEEN_BY);
        world.object(&key).is_some_and(is_this)
    }

    fn put(self, world: &mut World, now: Timestamp) -> bool {
        let Changed::Object(key) = self.changed() else { return false };
        if object::is_behind(world, &key, &self.facts, S::SEEN_BY) {
            return false;
        }
        // Annotations of an object in the way declare nothing: a watch shows each object with their label.
        if S::SEEN_BY != SeenBy::Asked {
            annotated::put(world, &key, &self.facts.uid, self.asks);
            annotated::put_remark(world, &key, self.misspelt, &self.facts.labels);
        }
        object::put(world, key, self.facts, S::SEEN_BY, now)
    }

    fn forget(changed: &Changed, world: &mut World) {
        if let Changed::Object(key) = changed
            && world.is_unseen_without(key, S::SEEN_BY)
        {
            annotated::put(world, key, "", None);
            annotated::put_remark(world, key, None, &Labels::default());
            world.set_object(key.clone(), None);
        }
    }

    fn known(world: &World) -> Vec<Changed> {
        let of_kind =
            world.objects().filter(|(key, facts)| key.kind == K::KIND && facts.seen.is_by(S::SEEN_BY));
        let known = of_kind.map(|(key, _)| Changed::Object(key.clone()));
        let is_of =
            |object: &UnreadObject| matches!(object, UnreadObject::Object(key) if key.kind == K::KIND);
        let is_of_watch = |object: &UnreadObject| is_of(object) && S::clears_unreadable(object, world);
        known.chain(unread(world, is_of_watch)).collect()
    }

    fn clears_unreadable(object: &UnreadObject, world: &World) -> bool {
        S::clears_unreadable(object, world)
    }

    fn data_watch(place: Option<&Arc<str>>) -> Option<DataWatch> {
        K::KIND.data().and_then(|kind| S::watch(kind, place))
    }
}

impl<K: Restartable + Clone + std::fmt::Debug + 'static> Watched for Workload<K> {
    const STORE: Store = Store::restarting(K::KIND);

    fn named(meta: &ObjectMeta) -> Changed {
        let NamespacedName { namespace, name } = namespaced(meta);
        Changed::Workload(WorkloadKey { kind: K::KIND, namespace, name })
    }

    fn is_known(&self, world: &World) -> bool {
        world.workloads().get(&self.key()).is_some_and(|known| {
            known.uid == self.facts.uid && known.resource_version == self.facts.resource_version
        })
    }

    fn put(self, world: &mut World, _now: Timestamp) -> bool {
        world.see_workload(self.key(), self.facts)
    }

    fn forget(changed: &Changed, world: &mut World) {
        if let Changed::Workload(key) = changed {
            world.forget_workload(key);
        }
    }

    fn known(world: &World) -> Vec<Changed> {
        let of_kind = world.workloads().keys().filter(|key| key.kind == K::KIND);
        let known = of_kind.cloned().map(Changed::Workload);
        let is_of =
            |object: &UnreadObject| matches!(object, UnreadObject::Workload(key) if key.kind == K::KIND);
        known.chain(unread(world, is_of)).collect()
    }
}
