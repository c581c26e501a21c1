//! Why a workload, or the pods that a monitor finds itself, stand so, and why what becomes of them does.

use serde::{Serialize, Serializer};

use crate::{model::WaitReason, plan::restart::RestartState};

/// Why something restarts, waits, or does not restart; as JSON, and for people, the word for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RestartReason {
    /// It stands so, and that says it.
    State(RestartState),
    /// It restarts once this has passed.
    After(WaitReason),
    /// It is seen for the first time: only the record is written.
    New,
    /// Every pod is younger than the change: only the record is written.
    PodsYounger,
    /// What the decision depends on could not be read.
    Unread,
    /// Its record cannot be verified without the key of digests.
    Unverified,
    /// It uses no key that changes.
    KeyNotUsed,
    /// It runs the new content already.
    SameContent,
    /// The object that changes says of itself that no workload restarts for it.
    Exempt,
    /// What asks for its restarts does not watch what changes.
    NotWatched,
    /// The monitor that reaches it is suspended.
    Suspended,
    /// Its annotation says nothing that is understood.
    MalformedAnnotation,
    /// Its annotation asks for restarts, and it uses nothing.
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
