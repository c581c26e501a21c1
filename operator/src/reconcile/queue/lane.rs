//! The lanes of the queue.

/// How urgent a key is, or for which scarce place it waits. A waiting key stays in its lane unless it is
/// requested in a lane that comes earlier in this enum.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Lane {
    /// A namespace that has just appeared waits for its objects.
    NewNamespace,
    /// A rendering that reads pods. Few renderings that read pods run at once, since all of their pods are in
    /// memory at the same time.
    Pods,
    /// A rendering whose tenant has used up its budget for expressions. The tenant's line waits until the
    /// budget has refilled.
    OverBudget,
    /// A change, handled before the sweep.
    Change,
    /// A regular check of everything, after all changes.
    Sweep,
    /// The status of a rule or monitor, in whatever lane it was requested. Planning a status examines all
    /// copies or workloads, and occupies a processor for that long. Statuses run one after the other, so that
    /// statuses delay no other key.
    Status,
}

pub(super) const LANES: usize = 6;

impl Lane {
    /// All lanes, in the order of their numbers, with their names in metrics.
    pub(crate) const ALL: [(Self, &'static str); LANES] = [
        (Self::NewNamespace, "new_namespace"),
        (Self::Pods, "pods"),
        (Self::OverBudget, "over_budget"),
        (Self::Change, "change"),
        (Self::Sweep, "sweep"),
        (Self::Status, "status"),
    ];

    /// Returns the order of the lanes. New namespaces always come first. Keys that wait for a scarce place
    /// come before changes unless the last key had waited for a scarce place, so that neither lane keeps the
    /// other waiting. A late status comes before keys that wait for scarce places, and before changes.
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

    /// Whether keys in this lane wait for a scarce place.
    pub(super) fn is_scarce(self) -> bool {
        matches!(self, Self::Pods | Self::OverBudget)
    }

    /// Returns how many keys of the lane run at once, if `limit` keys run in all.
    pub(super) fn places(self, limit: usize) -> usize {
        match self {
            Self::Status => 1,
            Self::Pods => 2,
            Self::NewNamespace | Self::OverBudget | Self::Change | Self::Sweep => limit,
        }
    }
}
