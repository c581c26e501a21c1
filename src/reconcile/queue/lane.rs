//! Lanes: how urgent a key is, or for which scarce place it waits.

/// How urgent a key is, or for which scarce place it waits. A key that waits stays in its lane unless somebody asks for it in a lane that
/// stands before that one here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Lane {
    /// A namespace that has just appeared waits for its objects.
    NewNamespace,
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

pub(super) const LANES: usize = 6;

impl Lane {
    /// All lanes, in the order of their numbers, with their names in metrics.
    pub(in crate::reconcile) const ALL: [(Self, &'static str); LANES] = [
        (Self::NewNamespace, "new_namespace"),
        (Self::Pods, "pods"),
        (Self::OverBudget, "over_budget"),
        (Self::Change, "change"),
        (Self::Sweep, "sweep"),
        (Self::Status, "status"),
    ];

    /// In what order keys are taken. New namespaces come first at all times. What waits for a scarce place goes before changes unless the
    /// last key did, too, so that neither keeps the other waiting; and a status that is late goes before both.
    pub(super) fn in_order(was_scarce: bool, is_late: bool) -> [Self; LANES] {
        let mut order =
            [Self::NewNamespace, Self::Pods, Self::OverBudget, Self::Change, Self::Status, Self::Sweep];
        if was_scarce {
            order[1..=3].rotate_right(1);
        }
        if is_late {
            order[1..=4].rotate_right(1);
        }
        order
    }

    /// Whether keys wait in the lane for a scarce place, whatever has caused them.
    pub(super) fn is_scarce(self) -> bool {
        matches!(self, Self::Pods | Self::OverBudget)
    }

    /// How many keys of the lane are looked at together, where `limit` keys are in all.
    pub(super) fn places(self, limit: usize) -> usize {
        match self {
            Self::Status => 1,
            Self::Pods => 2,
            Self::NewNamespace | Self::OverBudget | Self::Change | Self::Sweep => limit,
        }
    }
}
