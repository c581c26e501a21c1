//! What a decision lacks. The reconciler fetches it into the world and plans again.

use crate::model::{NamespacedName, ObjectKey, WorkloadKey};

/// A fact that must be fetched before the decision can be made.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Need {
    /// The content of this ConfigMap or Secret, reduced to a [`crate::model::Fingerprint`].
    Fingerprint(ObjectKey),
    /// The pods of this workload.
    Pods(WorkloadKey),
    /// The pods that this monitor's podSelector finds.
    SelectedPods(NamespacedName),
}
