//! The state of a workload, or of the pods that a monitor itself selects. Statuses, Events, commands and
//! metrics use the word and the severity from this file, and the sentence from `explain::said`.

use std::fmt;

use serde::{Serialize, Serializer};

use super::brake::Wait;
use crate::{
    model::{AttemptFailure, Ending, RolloutFault, WaitReason},
    names::Declarer,
};

/// The current state of a workload, or of the pods that a monitor itself selects; JSON has the word for the
/// state. For the outlook after its waits, see `explain::RestartCourse`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RestartState {
    /// The workload could not be restarted, or has not become ready after its restart.
    Failed(Failure),
    /// This monitor reaches the workload, and may not restart it.
    Unauthorized(Declarer),
    /// A restart is due, or may be due, and this wait has to end first.
    Waiting(Wait),
    /// Pods below the partition run old content: the user who set the partition releases them by lowering it.
    Held {
        /// The StatefulSet's `partition`: pods of a lower ordinal stay.
        partition: i32,
        /// How many pods below the partition run old content.
        old: usize,
    },
    /// Somebody undid a restart before all pods were replaced, or overwrote its record: old pods stay.
    TakenBack(TakenBack),
    /// A restart is due, or has left old pods, and rollouts are paused: the restart continues when rollouts
    /// are resumed.
    Paused,
    /// A restart is due, and the workload's own annotation opts out.
    OptedOut,
    /// A restart is due, and no gate delays its next step.
    Due,
    /// The workload is being restarted.
    Restarting,
    /// The workload presumably runs the current content, and the record is still to be written.
    Unrecorded,
    /// No monitor or annotation declares restarts, or the monitor itself selects no pods.
    Unwatched,
    /// The workload runs the current content.
    Current,
}

/// Why pods run older content, and how many.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TakenBack {
    /// How many pods began before the content that the record names.
    pub old: usize,
    /// The part that somebody changed.
    pub what: Overwritten,
    /// The field manager, other than ours, that last wrote the changed part.
    pub manager: Option<String>,
    /// Whether the manager wrote the part after our restart. If a manager only removed fields, managedFields
    /// do not name the manager.
    pub is_traced: bool,
}

/// The part of a workload that somebody changed, so that pods with older content stay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Overwritten {
    /// The pod template, which was ours to change for the restart.
    Template,
    /// The update strategy, which is `OnDelete` now.
    Strategy,
    /// The label `copyrator.dev/applied`: the label was copied, restored, or kept in Git.
    Record,
}

/// Why a restart was not possible, or failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The last attempt has failed.
    Attempt(AttemptFailure),
    /// The workload has not become ready in time.
    RolloutStuck,
    /// The workload has not become ready in time, again and again.
    CircuitOpen,
    /// The workload runs changed content and has failed: no other workload of its monitor follows.
    Stage {
        /// The fault that shows that the workload has failed.
        fault: RolloutFault,
        /// The content, as a keyed digest.
        content: String,
        /// The last other content that worked, if known.
        last_good: Option<String>,
    },
}

impl Failure {
    /// The word for a failed stage.
    pub const STAGE_FAILED: &str = "StageFailed";

    /// The word for statuses and commands.
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Attempt(AttemptFailure::TooManyBudgets) => "TooManyBudgets",
            Self::Attempt(AttemptFailure::Write(fault, _)) => fault.as_str(),
            Self::RolloutStuck => "RolloutStuck",
            Self::CircuitOpen => WaitReason::CircuitOpen.as_str(),
            Self::Stage { .. } => Self::STAGE_FAILED,
        }
    }
}

/// How urgently a person should look.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Concern {
    /// A restart is due or will not happen, and the problem does not resolve itself in time.
    Worrying,
    /// The restart continues by itself.
    UnderWay,
    /// No action of a person is needed.
    Settled,
}

impl RestartState {
    /// The word for the state. A wait that ends only by a person's action or after an hour is `Stopped`; a
    /// wait for missing facts is `Unknown`.
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Failed(_) => "Failed",
            Self::Unauthorized(_) => "Unauthorized",
            Self::Waiting(wait) if wait.is_stopped() => "Stopped",
            Self::Waiting(wait) if wait.reason.ended_by() == Ending::Knowledge => "Unknown",
            Self::Waiting(_) => "Waiting",
            Self::Held { .. } => "Held",
            Self::TakenBack(_) => "TakenBack",
            Self::Paused => "Paused",
            // Users look for this word.
            Self::OptedOut => "Suspended",
            Self::Due => "Due",
            Self::Restarting => "Restarting",
            Self::Unrecorded => "Unrecorded",
            Self::Unwatched => "Unwatched",
            Self::Current => "Current",
        }
    }

    /// The word for the reason of the state.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Failed(failure) => failure.as_str(),
            Self::Waiting(wait) => wait.reason.as_str(),
            Self::Unwatched => "NotAsked",
            // `copyrator plan` also uses this word for a workload of which only the record is written.
            Self::Unrecorded => "Recorded",
            Self::Unauthorized(_)
            | Self::Held { .. }
            | Self::TakenBack(_)
            | Self::Paused
            | Self::OptedOut
            | Self::Due
            | Self::Restarting
            | Self::Current => self.as_str(),
        }
    }

    /// The position of the state in a list that begins with the worst state.
    pub fn rank(&self) -> u8 {
        match self {
            Self::Failed(_) => 0,
            Self::Unauthorized(_) => 1,
            Self::Waiting(wait) if wait.is_stopped() => 2,
            Self::TakenBack(_) => 3,
            Self::Held { .. } => 4,
            Self::Paused => 5,
            Self::OptedOut => 6,
            Self::Waiting(wait) if wait.reason.ended_by() == Ending::Knowledge => 7,
            Self::Due => 8,
            Self::Waiting(_) => 9,
            Self::Restarting => 10,
            Self::Unrecorded => 11,
            Self::Unwatched => 12,
            Self::Current => 13,
        }
    }

    /// How urgently a person should look.
    pub fn concern(&self) -> Concern {
        match self {
            Self::Failed(_)
            | Self::Unauthorized(_)
            | Self::Held { .. }
            | Self::TakenBack(_)
            | Self::Paused
            | Self::OptedOut
            | Self::Due => Concern::Worrying,
            Self::Waiting(wait) if wait.is_stopped() => Concern::Worrying,
            Self::Waiting(_) | Self::Restarting | Self::Unrecorded => Concern::UnderWay,
            Self::Unwatched | Self::Current => Concern::Settled,
        }
    }

    /// The wait, if the workload waits.
    pub fn wait(&self) -> Option<Wait> {
        match self {
            Self::Waiting(wait) => Some(*wait),
            _ => None,
        }
    }
}

impl From<Wait> for RestartState {
    fn from(wait: Wait) -> Self {
        Self::Waiting(wait)
    }
}

impl fmt::Display for RestartState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Serialize for RestartState {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Scripts sort and filter by these words.
    #[test]
    fn states_have_words_a_rank_and_a_concern() {
        use Concern::{Settled, UnderWay, Worrying};
        let waits = |reason| RestartState::Waiting(Wait::for_event(reason));
        let monitor = Declarer::monitor("shop", "web");
        let taken_back = TakenBack { old: 1, what: Overwritten::Template, manager: None, is_traced: false };
        let worst_first = [
            (RestartState::Failed(Failure::RolloutStuck), "Failed RolloutStuck", Worrying),
            (RestartState::Unauthorized(monitor), "Unauthorized Unauthorized", Worrying),
            (waits(WaitReason::StageStopped), "Stopped StageStopped", Worrying),
            (RestartState::TakenBack(taken_back), "TakenBack TakenBack", Worrying),
            (RestartState::Held { partition: 1, old: 1 }, "Held Held", Worrying),
            (RestartState::Paused, "Paused Paused", Worrying),
            (RestartState::OptedOut, "Suspended Suspended", Worrying),
            (waits(WaitReason::Facts), "Unknown FactsMissing", UnderWay),
            (RestartState::Due, "Due Due", Worrying),
            (waits(WaitReason::QuietPeriod), "Waiting QuietPeriod", UnderWay),
            (RestartState::Restarting, "Restarting Restarting", UnderWay),
            (RestartState::Unrecorded, "Unrecorded Recorded", UnderWay),
            (RestartState::Unwatched, "Unwatched NotAsked", Settled),
            (RestartState::Current, "Current Current", Settled),
        ];
        for (rank, (state, words, concern)) in worst_first.into_iter().enumerate() {
            assert_eq!(format!("{state} {}", state.reason()), words);
            assert_eq!((usize::from(state.rank()), state.concern()), (rank, concern), "{words}");
            assert_eq!(serde_json::to_value(&state).unwrap(), words.split(' ').next().unwrap());
        }
    }
}
