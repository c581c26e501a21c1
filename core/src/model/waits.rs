//! What a due restart waits for, and since when, as last decided.

use std::fmt;

use jiff::{SignedDuration, Timestamp};

/// What a restart, or the decision about it, waits for. docs/restart-model.md says which function decides that
/// it does, and what ends it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum WaitReason {
    /// The stores are not complete yet.
    Starting,
    /// The API server has not been asked yet whether a monitor may.
    Authority,
    /// Content or pods have to be fetched first.
    Facts,
    /// An object that pods cannot start without is not there.
    MissingObject,
    /// An object that pods can do without has gone, or never was, and what counts is recorded without it if
    /// it does not come back.
    AbsentObject,
    /// The content may still be changing.
    QuietPeriod,
    /// The rollout under way has to end first.
    RolloutUnfinished,
    /// The last restart was a moment ago.
    MinInterval,
    /// Other pods have to be ready first.
    PodsNotReady,
    /// A PodDisruptionBudget allows no pod to go now.
    DisruptionBudget,
    /// Restarts have followed one another soon, so that each waits longer than the one before.
    Backoff,
    /// Restarts in a row have not become ready.
    CircuitOpen,
    /// As many restarts as may be are under way in the cluster.
    Budget,
    /// Others of its monitor come first, or as many as may be are under way.
    Stage,
    /// Another workload of its monitor has failed with its new content.
    StageStopped,
    /// Its monitor's window is closed.
    Window,
}

impl WaitReason {
    /// Every reason, each of them once.
    pub const ALL: [Self; 16] = [
        Self::Starting,
        Self::Authority,
        Self::Facts,
        Self::MissingObject,
        Self::AbsentObject,
        Self::QuietPeriod,
        Self::RolloutUnfinished,
        Self::MinInterval,
        Self::PodsNotReady,
        Self::DisruptionBudget,
        Self::Backoff,
        Self::CircuitOpen,
        Self::Budget,
        Self::Stage,
        Self::StageStopped,
        Self::Window,
    ];

    /// What ends it, if not a change of the content.
    pub fn ended_by(self) -> Ending {
        match self {
            Self::Starting | Self::Authority | Self::Facts => Ending::Knowledge,
            Self::QuietPeriod
            | Self::MinInterval
            | Self::Backoff
            | Self::CircuitOpen
            | Self::Window
            | Self::AbsentObject
            | Self::MissingObject => Ending::Clock,
            Self::RolloutUnfinished
            | Self::PodsNotReady
            | Self::Budget
            | Self::Stage
            | Self::DisruptionBudget => Ending::Event,
            Self::StageStopped => Ending::Person,
        }
    }

    /// The word for statuses, commands and metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Starting => "Starting",
            Self::Authority => "AuthorityUnknown",
            Self::Facts => "FactsMissing",
            Self::MissingObject => "MissingObject",
            Self::AbsentObject => "AbsentObject",
            Self::QuietPeriod => "QuietPeriod",
            Self::RolloutUnfinished => "RolloutUnfinished",
            Self::MinInterval => "MinInterval",
            Self::PodsNotReady => "PodsNotReady",
            Self::DisruptionBudget => "DisruptionBudget",
            Self::Backoff => "Backoff",
            Self::CircuitOpen => "CircuitOpen",
            Self::Budget => "Budget",
            Self::Stage => "Stage",
            Self::StageStopped => "StageStopped",
            Self::Window => "Window",
        }
    }
}

/// What ends a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// What has to be known is asked or read.
    Knowledge,
    /// The clock: the time that the wait names is its end.
    Clock,
    /// Something happens in the cluster; a time that the wait names is when to look again.
    Event,
    /// A person does something.
    Person,
}

impl fmt::Display for WaitReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What one restart waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Waiting {
    /// What is waited for.
    pub reason: WaitReason,
    /// Since when it has been this.
    pub since: Timestamp,
    /// When this reason was last confirmed.
    pub seen: Timestamp,
}

impl Waiting {
    /// A wait that was not confirmed for this long is ignored: whatever keeps us from looking at its workload
    /// must not keep others waiting.
    const STALE: SignedDuration = SignedDuration::from_mins(3);

    /// What is waited for now, after what was waited for before.
    pub fn after(before: Option<Self>, reason: WaitReason, now: Timestamp) -> Self {
        let since = before.and_then(|before| before.since_for(reason)).unwrap_or(now);
        Self { reason, since, seen: now }
    }

    /// Since when it has been this, if it is this.
    pub fn since_for(&self, reason: WaitReason) -> Option<Timestamp> {
        (self.reason == reason).then_some(self.since)
    }

    /// Whether it was confirmed recently.
    pub fn is_fresh(&self, now: Timestamp) -> bool {
        now.duration_since(self.seen) < Self::STALE
    }
}
