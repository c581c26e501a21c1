//! Objects in lists and watches that could not be read, and lists that cannot be read at all.
//!
//! An unreadable object is not treated as deleted: its last known facts stay, and the reconciler removes no
//! object because of it.

use std::{fmt, sync::Arc};

use jiff::Timestamp;

use super::Store;
use crate::names::{InstanceKind, NamespacedName, ObjectKey, WorkloadKey};

/// The name of an object that could not be read. Our custom resources are never in this list: an unreadable
/// custom resource is treated as invalid.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum UnreadObject {
    /// A namespace.
    Namespace(Arc<str>),
    /// An object of a kind that is copied or declared.
    Object(ObjectKey),
    /// A workload.
    Workload(WorkloadKey),
    /// An object that templates are rendered for.
    Instance(InstanceKind, NamespacedName),
}

impl UnreadObject {
    /// The namespace that contains the object; for a namespace, its name.
    pub fn namespace(&self) -> &Arc<str> {
        match self {
            Self::Namespace(name) => name,
            Self::Object(key) => &key.namespace,
            Self::Workload(key) => &key.namespace,
            Self::Instance(_, name) => &name.namespace,
        }
    }

    /// The name of the object.
    pub fn name(&self) -> &Arc<str> {
        match self {
            Self::Namespace(name) => name,
            Self::Object(key) => &key.name,
            Self::Workload(key) => &key.name,
            Self::Instance(_, name) => &name.name,
        }
    }
}

impl fmt::Display for UnreadObject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Namespace(name) => write!(f, "Namespace {name}"),
            Self::Object(key) => key.fmt(f),
            Self::Workload(key) => key.fmt(f),
            Self::Instance(kind, name) => write!(f, "{} {name}", kind.kind),
        }
    }
}

/// Identifies a list and the watch that continues it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ListName {
    /// The store that the list fills.
    pub store: Store,
    /// The only namespace that the list covers; `None` for all namespaces.
    pub place: Option<Arc<str>>,
    /// The kind of the objects, if the kind is known at run time only.
    pub kind: Option<InstanceKind>,
}

impl ListName {
    /// The list of a store, in one namespace or in all.
    pub fn of(store: Store, place: Option<Arc<str>>) -> Self {
        Self { store, place, kind: None }
    }

    /// The list of a kind that is known at run time only.
    pub fn of_kind(kind: InstanceKind) -> Self {
        Self { store: Store::RenderedGranted, place: None, kind: Some(kind) }
    }
}

impl fmt::Display for ListName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.kind {
            Some(kind) => write!(f, "{kind}")?,
            None => write!(f, "{:?}", self.store)?,
        }
        self.place.iter().try_for_each(|place| write!(f, " in namespace {place}"))
    }
}

/// A list that has failed for a long time, or the watch that continues it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailingList {
    /// The first failure after the last list that was complete.
    pub since: Timestamp,
    /// The last error.
    pub why: String,
}
