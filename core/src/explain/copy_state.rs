//! The state of a copy, and what a plan does about a copy, a rule or an object of a file.

use std::fmt;

use schemars::JsonSchema;
use serde::Serialize;

/// What happens to a copy, a rule or an object of a file; the worst first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Course {
    /// Nothing, although something should: Copyrator refuses it, or two rules claim it.
    Refuse,
    /// The outcome is unknown.
    Unknown,
    /// It is missing, and is created.
    Create,
    /// It exists, and is changed.
    Change,
    /// It is marked, deleted or released.
    Remove,
    /// Nothing for now.
    Wait,
    /// Nothing: it is in order.
    Current,
}

/// The word for the course in JSON.
impl fmt::Display for Course {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
    }
}

/// The state of a copy; the worst first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CopyState {
    /// The copy does not exist, and the last attempt to create it failed.
    CreateFailed,
    /// The copy exists and is due for a change, and the last attempt failed.
    ChangeFailed,
    /// An object is in the way, its rule lacks a right, or two rules claim the slot.
    Blocked,
    /// The copy does not exist yet.
    Missing,
    /// The copy exists, and is about to be changed.
    Outdated,
    /// The state of the copy is unknown.
    Unknown,
    /// No rule claims the copy any more: it is marked, deleted or released.
    Leaving,
    /// Nothing happens to the copy for now.
    Waiting,
    /// The copy is as it should be.
    Current,
}

impl CopyState {
    /// The word for statuses and commands.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::CreateFailed | Self::ChangeFailed => "Failed",
            Self::Blocked => "Blocked",
            Self::Missing => "Missing",
            Self::Outdated => "Outdated",
            Self::Unknown => "Unknown",
            Self::Leaving => "Leaving",
            Self::Waiting => "Waiting",
            Self::Current => "Current",
        }
    }

    /// What Copyrator does about the copy.
    pub fn action(self) -> Course {
        match self {
            Self::CreateFailed | Self::Missing => Course::Create,
            Self::ChangeFailed | Self::Outdated => Course::Change,
            Self::Blocked => Course::Refuse,
            Self::Unknown => Course::Unknown,
            Self::Leaving => Course::Remove,
            Self::Waiting => Course::Wait,
            Self::Current => Course::Current,
        }
    }

    /// Whether the last attempt to create or change the copy failed.
    pub fn has_failed(self) -> bool {
        matches!(self, Self::CreateFailed | Self::ChangeFailed)
    }
}

impl fmt::Display for CopyState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
