//! A change in the world, by name.

use std::sync::Arc;

use crate::{
    model::{UnreadObject, World},
    names::{Declarer, InstanceKind, Kind, NamespacedName, ObjectKey, WorkloadKey},
};

/// A change in the world, by name alone.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Changed {
    /// A namespace was created, relabelled or deleted.
    Namespace(Arc<str>),
    /// An object of a kind that can be a copy, such as a ConfigMap, was created, changed or deleted.
    Object(ObjectKey),
    /// A rule was written or deleted.
    Rule(Declarer),
    /// A template was written or deleted.
    Template(Declarer),
    /// An object that templates are rendered for was created, deleted, or changed in a field that a template
    /// reads.
    Instance(InstanceKind, NamespacedName),
    /// The objects of a kind that templates are rendered for became known or unknown.
    Instances(InstanceKind),
    /// The objects of a kind that templates declare became known or unknown.
    Granted(Kind),
    /// A monitor was written or deleted.
    Monitor(Declarer),
    /// A policy was written or deleted.
    Policy(Arc<str>),
    /// A workload was written, made progress, or was deleted.
    Workload(WorkloadKey),
    /// The index of annotated sources changed, for a process that reads the index instead of the sources.
    SourceIndex,
    /// A list or watch has failed for long, or works again.
    Lists,
}

impl Changed {
    /// The changed object, under the name that an unreadable object has in the world. `None` if the world
    /// stores an unreadable object of the kind as invalid instead, or if the change is about no object.
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

    /// The namespace of the change; `None` for a change of the whole cluster.
    pub fn namespace(&self) -> Option<&str> {
        match self {
            Self::Namespace(name) => Some(name),
            Self::Object(key) => Some(&key.namespace),
            Self::Workload(key) => Some(&key.namespace),
            Self::Rule(name) | Self::Template(name) | Self::Monitor(name) => Some(name.namespace()),
            Self::Instance(_, name) => Some(&name.namespace),
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
