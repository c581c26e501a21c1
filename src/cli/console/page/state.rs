//! States by shape and word as well as colour.

use maud::{Markup, html};

use crate::{
    cli::standing::copies::State,
    explain::RestartOutlook,
    plan::restart::{Concern, RestartState},
};

/// A shape with its colour, as `style.css` has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    /// A filled circle: in order.
    Good,
    /// A half circle: it goes on by itself.
    UnderWay,
    /// An open circle: not there yet.
    Open,
    /// A diamond: it leaves.
    Leaving,
    /// A dashed circle: not known.
    Unknown,
    /// Two bars: it waits.
    Waiting,
    /// A square: something is in the way.
    Blocked,
    /// A triangle: somebody has to look.
    Bad,
}

impl Shape {
    fn class(self) -> &'static str {
        match self {
            Self::Good => "good",
            Self::UnderWay => "underway",
            Self::Open => "open",
            Self::Leaving => "leaving",
            Self::Unknown => "unknown",
            Self::Waiting => "waiting",
            Self::Blocked => "blocked",
            Self::Bad => "bad",
        }
    }

    /// The shape alone; a word stands beside it, or in the title around it.
    pub(super) fn mark(self) -> Markup {
        html! { i .s .(self.class()) aria-hidden="true" {} }
    }

    /// The shape with its word.
    pub(super) fn with(self, word: &str) -> Markup {
        html! { span .state .(self.class()) { (self.mark()) (word) } }
    }
}

/// How a copy's state looks.
pub(super) fn of_copy(state: State) -> Shape {
    match state {
        State::Failed => Shape::Bad,
        State::Blocked => Shape::Blocked,
        State::Missing => Shape::Open,
        State::Outdated => Shape::UnderWay,
        State::Waiting => Shape::Waiting,
        State::Unknown => Shape::Unknown,
        State::Leaving => Shape::Leaving,
        State::Current => Shape::Good,
    }
}

/// The word for a copy's state.
pub(super) fn word(state: State) -> &'static str {
    match state {
        State::Failed => "Failed",
        State::Blocked => "Blocked",
        State::Missing => "Missing",
        State::Outdated => "Outdated",
        State::Unknown => "Unknown",
        State::Leaving => "Leaving",
        State::Waiting => "Waiting",
        State::Current => "Current",
    }
}

/// The states of copies, the worst first.
pub(super) const STATES: [State; 8] = [
    State::Failed,
    State::Blocked,
    State::Missing,
    State::Outdated,
    State::Unknown,
    State::Leaving,
    State::Waiting,
    State::Current,
];

/// How a workload's state looks.
pub(super) fn of_restart(state: &RestartState) -> Shape {
    match state.concern() {
        Concern::Worrying => Shape::Bad,
        Concern::UnderWay => Shape::UnderWay,
        Concern::Settled => Shape::Good,
    }
}

/// A workload's state with its word.
pub(super) fn restart(row: &RestartOutlook) -> Markup {
    of_restart(&row.state).with(row.state.as_str())
}

/// How a node of a tree stands: a word of `plan` for a copy, of `status` for a workload.
pub(super) fn of_node(state: &str) -> (Shape, String) {
    let (shape, word) = match state {
        "refuse" => (Shape::Blocked, "refused"),
        "unknown" | "Unknown" => (Shape::Unknown, "not known"),
        "create" => (Shape::Open, "to be made"),
        "change" => (Shape::UnderWay, "to be changed"),
        "remove" => (Shape::Leaving, "leaving"),
        "wait" | "Waiting" => (Shape::Waiting, "waiting"),
        "current" | "Current" => (Shape::Good, "in order"),
        "Restarting" | "Unrecorded" => (Shape::UnderWay, ""),
        "Unwatched" => (Shape::Open, ""),
        _ => (Shape::Bad, ""),
    };
    (shape, if word.is_empty() { state.to_lowercase() } else { word.to_owned() })
}
