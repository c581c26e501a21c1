//! What has changed in the world, by name.

use std::sync::Arc;

use crate::{
    model::{UnreadObject, World},
    names::{InstanceKind, Kind, NamespacedName, ObjectKey, WorkloadKey},
};

/// What has changed in the world, by name alone.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Changed {
    /// A namespace appeared, was relabelled, or went.
    Namespace(Arc<str>),
    /// A ConfigMap or Secret did.
    Object(ObjectKey),
    /// A rule was written or went.
    Rule(NamespacedName),
    /// A template was written or went.
    Template(NamespacedName),
    /// An object that templates are rendered for appeared, changed in what they read of it, or went.
    Instance(InstanceKind, NamespacedName),
    /// Whether the objects of such a kind are known did.
    Instances(InstanceKind),
    /// Whether the objects of a kind that templates declare are known did.
    Granted(Kind),
    /// A monitor was written or went.
    Monitor(NamespacedName),
    /// A policy was written or went.
    Policy(Arc<str>),
    /// A workload was written, made progress, or went.
    Workload(WorkloadKey),
    /// The index of annotated sources did, where it is read instead of the sources.
    SourceIndex,
    /// A list or watch has failed for long, or works again.
    Lists,
}

impl Changed {
    /// The name under which the world knows the object where it cannot be read; `None` where it is invalid then, or is none.
    pub fn unread_object(&self) -> Option<UnreadObject> {
        match self {
            Self::Namespace(name) => Some(UnreadObject::Namespace(name.clone())),
            Self::Object(key) => Some(UnreadObject::Object(key.clone())),
            Self::Workload(key) => Some(UnreadObject::Workload(key.clone())),
            Self::Instance(kind, name) => Some(UnreadObject::Instance(kind.clone(), name.clone())),
            Self::Rule(_)
            | Self::Template(_)
            | Self::Monitor(_)
            | Self::Policy(_)
            | Self::Instances(_)
            | Self::Granted(_)
            | Self::SourceIndex
            | Self::Lists => None,
        }
    }

    /// Where it is; `None` where it is of the whole cluster.
    pub fn namespace(&self) -> Option<&str> {
        match self {
            Self::Namespace(name) => Some(name),
            Self::Object(key) => Some(&key.namespace),
            Self::Workload(key) => Some(&key.namespace),
            Self::Rule(name) | Self::Template(name) | Self::Instance(_, name) | Self::Monitor(name) => {
                Some(&name.namespace)
            }
            Self::Policy(_) | Self::Instances(_) | Self::Granted(_) | Self::SourceIndex | Self::Lists => None,
        }
    }
}

impl From<&UnreadObject> for Changed {
    fn from(object: &UnreadObject) -> Self {
        match object.clone() {
            UnreadObject::Namespace(name) => Self::Namespace(name),
            UnreadObject::Object(key) => Self::Object(key),
            UnreadObject::Workload(key) => Self::Workload(key),
            UnreadObject::Instance(kind, name) => Self::Instance(kind, name),
        }
    }
}

/// The objects that cannot be read and are such.
pub fn unread<'w>(
    world: &'w World,
    is_such: impl Fn(&UnreadObject) -> bool + 'w,
) -> impl Iterator<Item = Changed> + 'w {
    world.unreadable().map(|(object, _)| object).filter(move |object| is_such(object)).map(Changed::from)
}
