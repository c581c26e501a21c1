//! The facts that a decision lacks. The reconciler fetches them into the world and plans again.

use std::sync::Arc;

use crate::{
    model::Right,
    names::{Declarer, Kind, ObjectKey, WorkloadKey},
};

/// A fact that must be fetched before the decision can be made.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Need {
    /// The content of this ConfigMap or Secret, reduced to a [`crate::digest::Fingerprint`].
    Fingerprint(ObjectKey),
    /// The list of the objects of this kind in this namespace, which a watch is about to complete.
    List(Kind, Arc<str>),
    /// Whether an object is in this slot that no watch shows, and the metadata of the object.
    Existing(ObjectKey),
    /// Whether this object, which somebody has changed, still has the fields that its template names.
    Drift(ObjectKey),
    /// The pods of this workload.
    Pods(WorkloadKey),
    /// The pods that this monitor's podSelector finds.
    SelectedPods(Declarer),
    /// Whether the identity of this rule has this right in this namespace.
    Right(Declarer, Right, Arc<str>),
}

impl Need {
    /// The object whose content the decision lacks; `None` for any other fact.
    pub fn content(&self) -> Option<&ObjectKey> {
        match self {
            Self::Fingerprint(object) => Some(object),
            Self::List(..)
            | Self::Existing(_)
            | Self::Drift(_)
            | Self::Pods(_)
            | Self::SelectedPods(_)
            | Self::Right(..) => None,
        }
    }
}
