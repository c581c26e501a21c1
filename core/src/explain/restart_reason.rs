//! Reasons for the state of a workload, or of the pods that a monitor itself selects, and for their outlook.

use serde::{Serialize, Serializer};

use crate::{model::WaitReason, plan::restart::RestartState};

/// Why a workload, or a monitor's pods, restart, wait or do not restart. JSON and commands write one word for
/// the reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RestartReason {
    /// The state is the reason.
    State(RestartState),
    /// The workload restarts once this wait has passed.
    After(WaitReason),
    /// The workload is seen for the first time: only the record is written.
    New,
    /// Every pod is younger than the change: only the record is written.
    PodsYounger,
    /// The facts that the decision depends on could not be read.
    Unread,
    /// The workload's record cannot be verified without the key of digests.
    Unverified,
    /// The workload uses no key that changes.
    KeyNotUsed,
    /// The workload runs the new content already.
    SameContent,
    /// The object that changes opts out: no workload restarts for it.
    Exempt,
    /// The monitors and annotations that declare the workload's restarts do not watch the object that
    /// changes.
    NotWatched,
    /// The monitor that reaches the workload is suspended.
    Suspended,
    /// The workload's annotation has a word that Copyrator does not understand.
    MalformedAnnotation,
    /// The workload's annotation declares restarts, and no object exists that the workload could restart for.
    NothingUsed,
}

impl RestartReason {
    /// The word for commands.
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::State(state) => state.reason(),
            Self::After(wait) => wait.as_str(),
            Self::New => "New",
            Self::PodsYounger => "PodsYounger",
            Self::Unread => "Unread",
            Self::Unverified => "Unverified",
            Self::KeyNotUsed => "KeyNotUsed",
            Self::SameContent => "SameContent",
            Self::Exempt => "Exempt",
            Self::NotWatched => "NotWatched",
            Self::Suspended => "Suspended",
            Self::MalformedAnnotation => "MalformedAnnotation",
            Self::NothingUsed => "NothingUsed",
        }
    }
}

impl Serialize for RestartReason {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}
