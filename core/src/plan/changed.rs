//! A change in the world, by name.

use std::sync::Arc;

use crate::{
    model::{UnreadObject, World},
    names::{InstanceKind, Kind, NamespacedName, ObjectKey, WorkloadKey},
};

/// A change in the world, by name alone.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Changed {
    /// A namespace appeared, was relabelled, or went.
    Namespace(Arc<str>),
    /// An object of a kind that can be a copy, such as a ConfigMap, appeared, was changed, or went.
    Object(ObjectKey),
    /// A rule was written or went.
    Rule(NamespacedName),
    /// A template was written or went.
    Template(NamespacedName),
    /// An object that templates are rendered for appeared, changed in a field that they read, or went.
    Instance(InstanceKind, NamespacedName),
    /// The objects of such a kind became known or unknown.
    Instances(InstanceKind),
    /// The objects of a kind that templates declare became known or unknown.
    Granted(Kind),
    /// A monitor was written or went.
    Monitor(NamespacedName),
    /// A policy was written or went.
    Policy(Arc<str>),
    /// A workload was written, made progress, or went.
    Workload(WorkloadKey),
    /// The index of annotated sources changed, where it is read instead of the sources.
    SourceIndex,
    /// A list or watch has failed for long, or works again.
    Lists,
}

impl Changed {
    /// The changed object, as the world names an unreadable one. `None` if the world holds such an object as
    /// invalid instead, or if the change is about no object.
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

    /// The namespace of the change; `None` if it is about the whole cluster.
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

/// The unreadable objects that match `is_such`, as changes.
pub fn unread<'w>(
    world: &'w World,
    is_such: impl Fn(&UnreadObject) -> bool + 'w,
) -> impl Iterator<Item = Changed> + 'w {
    world.unreadable().map(|(object, _)| object).filter(move |object| is_such(object)).map(Changed::from)
}
