//! How pages show states: by shape and word as well as colour.

use copyrator_cli::commands::tree::NodeState;
use maud::{Markup, html};

use crate::{
    explain::{CopyState, Course, RestartOutlook},
    model::Ending,
    plan::restart::{Concern, RestartState},
};

/// A shape with its colour, as `style.css` defines it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    /// A filled circle: in order.
    Good,
    /// A half circle: the work continues by itself.
    UnderWay,
    /// An open circle: the object does not exist yet.
    Open,
    /// A diamond: the object is being removed.
    Leaving,
    /// A dashed circle: the state is not known.
    Unknown,
    /// Two bars: the object waits.
    Waiting,
    /// A square: something blocks the object.
    Blocked,
    /// A triangle: a problem needs somebody's attention.
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

    /// The shape alone; a word is beside the shape, or in the title around it.
    pub(super) fn mark(self) -> Markup {
        html! { i .s .(self.class()) aria-hidden="true" {} }
    }

    /// The shape with its word.
    pub(super) fn with(self, word: &str) -> Markup {
        html! { span .state .(self.class()) { (self.mark()) (word) } }
    }
}

/// The shape for a copy's state.
pub(super) fn of_copy(state: CopyState) -> Shape {
    match state {
        CopyState::CreateFailed | CopyState::ChangeFailed => Shape::Bad,
        CopyState::Blocked => Shape::Blocked,
        CopyState::Missing => Shape::Open,
        CopyState::Outdated => Shape::UnderWay,
        CopyState::Waiting => Shape::Waiting,
        CopyState::Unknown => Shape::Unknown,
        CopyState::Leaving => Shape::Leaving,
        CopyState::Current => Shape::Good,
    }
}
/// The states of copies, the worst first.
pub(super) const STATES: [CopyState; 8] = [
    CopyState::ChangeFailed,
    CopyState::Blocked,
    CopyState::Missing,
    CopyState::Outdated,
    CopyState::Unknown,
    CopyState::Leaving,
    CopyState::Waiting,
    CopyState::Current,
];

/// The shape for a workload's state.
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

/// The shape and word for the state of a tree's node.
pub(super) fn of_node(state: &NodeState) -> (Shape, String) {
    match state {
        NodeState::Copy(course) => {
            let (shape, word) = of_course(*course);
            (shape, word.to_owned())
        }
        NodeState::Workload(state) => of_workload(state),
    }
}

fn of_workload(state: &RestartState) -> (Shape, String) {
    let in_lower_case = |shape| (shape, state.as_str().to_lowercase());
    match state {
        RestartState::Current => (Shape::Good, "in order".into()),
        RestartState::Waiting(wait) if wait.is_stopped() => in_lower_case(Shape::Bad),
        RestartState::Waiting(wait) if wait.reason.ended_by() == Ending::Knowledge => {
            (Shape::Unknown, "not known".into())
        }
        RestartState::Waiting(_) => in_lower_case(Shape::Waiting),
        RestartState::Restarting | RestartState::Unrecorded => in_lower_case(Shape::UnderWay),
        RestartState::Unwatched => in_lower_case(Shape::Open),
        RestartState::Failed(_)
        | RestartState::Unauthorized(_)
        | RestartState::Held { .. }
        | RestartState::TakenBack(_)
        | RestartState::Paused
        | RestartState::OptedOut
        | RestartState::Due => in_lower_case(Shape::Bad),
    }
}

/// The shape and word for the planned action on an object.
pub(super) fn of_course(course: Course) -> (Shape, &'static str) {
    match course {
        Course::Refuse => (Shape::Blocked, "refused"),
        Course::Unknown => (Shape::Unknown, "not known"),
        Course::Create => (Shape::Open, "to be made"),
        Course::Change => (Shape::UnderWay, "to be changed"),
        Course::Remove => (Shape::Leaving, "leaving"),
        Course::Wait => (Shape::Waiting, "waiting"),
        Course::Current => (Shape::Good, "in order"),
    }
}
