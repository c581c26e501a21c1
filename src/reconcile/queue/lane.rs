//! Lanes: how urgent a key is, or for which scarce place it waits.

/// How urgent a key is, or for which scarce place it waits. A key that waits stays in its lane unless somebody asks for it in a lane that
/// stands before that one here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Lane {
    /// A namespace that has just appeared waits for its objects.
    NewNamespace,
    /// A template whose types are to be judged, one at a time: schemas are large, and users who may write definitions choose how large.
    Types,
    /// A rendering that reads pods: the pods of few workloads are in memory together.
    Pods,
    /// A rendering of a tenant whose expressions have used up the tenant's budget: the tenant's line waits until that is paid back.
    OverBudget,
    /// Something has changed, and is looked at before the sweep.
    Change,
    /// A regular look at everything, after all changes.
    Sweep,
    /// What there is to say of a rule or monitor, whatever lane it was asked for in: it looks at all of their
    /// copies or workloads, and takes a processor for that. Such keys run one after the other, so that
    /// nothing else waits for them.
    Status,
}

pub(super) const LANES: usize = 7;

impl Lane {
    /// All lanes, in the order of their numbers, with their names in metrics.
    pub(in crate::reconcile) const ALL: [(Self, &'static str); LANES] = [
        (Self::NewNamespace, "new_namespace"),
        (Self::Types, "types"),
        (Self::Pods, "pods"),
        (Self::OverBudget, "over_budget"),
        (Self::Change, "change"),
        (Self::Sweep, "sweep"),
        (Self::Status, "status"),
    ];

    /// In what order keys are taken while new namespaces have what they need.
    pub(super) const IN_ORDER: [Self; LANES] = [
        Self::NewNamespace,
        Self::Types,
        Self::Pods,
        Self::OverBudget,
        Self::Change,
        Self::Status,
        Self::Sweep,
    ];

    /// The same while a status has waited for so long that it goes before changes.
    pub(super) const STATUS_FIRST: [Self; LANES] = [
        Self::NewNamespace,
        Self::Status,
        Self::Types,
        Self::Pods,
        Self::OverBudget,
        Self::Change,
        Self::Sweep,
    ];

    /// How many keys of the lane are looked at together, where `limit` keys are in all.
    pub(super) fn places(self, limit: usize) -> usize {
        match self {
            Self::Types | Self::Status => 1,
            Self::Pods => 2,
            Self::NewNamespace | Self::OverBudget | Self::Change | Self::Sweep => limit,
        }
    }
}
