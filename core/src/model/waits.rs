//! The wait of a due restart: its reason, and its beginning.

use std::fmt;

use jiff::{SignedDuration, Timestamp};

/// Why a restart, or the decision about a restart, waits. For each reason, docs/restart-model.md names the
/// deciding function and the end of the wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum WaitReason {
    /// The stores are not complete yet.
    Starting,
    /// Copyrator has not asked the API server yet whether the monitor has the rights.
    Authority,
    /// Content or pods have to be fetched first.
    Facts,
    /// An object that pods cannot start without does not exist.
    MissingObject,
    /// An optional object of the pods is absent. If the object does not appear, the content is recorded
    /// without it.
    AbsentObject,
    /// The content may still be changing.
    QuietPeriod,
    /// The rollout under way has to end first.
    RolloutUnfinished,
    /// The last restart was a moment ago.
    MinInterval,
    /// Other pods have to be ready first.
    PodsNotReady,
    /// A PodDisruptionBudget allows no eviction now.
    DisruptionBudget,
    /// Restarts have followed one another quickly, so each restart waits longer than the previous restart.
    Backoff,
    /// The workload was not ready after several restarts in a row.
    CircuitOpen,
    /// The cluster's limit of restarts under way (`--max-rollouts`) is reached.
    Budget,
    /// Other workloads of the monitor come first, or the monitor's limit of restarts under way is reached.
    Stage,
    /// A different workload of the same monitor has failed with its new content.
    StageStopped,
    /// The window of the workload's monitor is closed.
    Window,
}

impl WaitReason {
    /// All reasons, each once.
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

    /// The event that ends the wait, unless the content changes before.
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

/// The end of a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// Copyrator reads the missing facts, or the API server answers.
    Knowledge,
    /// The wait ends at the time that the wait names.
    Clock,
    /// An event in the cluster ends the wait; a time that the wait names is only the time to look again.
    Event,
    /// The action of a person ends the wait.
    Person,
}

impl fmt::Display for WaitReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The wait of one restart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Waiting {
    /// Why the restart waits.
    pub reason: WaitReason,
    /// Since when the restart has waited for this reason.
    pub since: Timestamp,
    /// When this reason was last confirmed.
    pub seen: Timestamp,
}

impl Waiting {
    /// The age from which an unconfirmed wait is ignored: if we cannot examine a workload, other workloads
    /// must not wait for it.
    const STALE: SignedDuration = SignedDuration::from_mins(3);

    /// Creates a wait for this reason. If the previous wait has the same reason, the new wait keeps its
    /// beginning.
    pub fn after(before: Option<Self>, reason: WaitReason, now: Timestamp) -> Self {
        let since = before.and_then(|before| before.since_for(reason)).unwrap_or(now);
        Self { reason, since, seen: now }
    }

    /// Since when the restart has waited for this reason; `None` if the restart waits for a different reason.
    pub fn since_for(&self, reason: WaitReason) -> Option<Timestamp> {
        (self.reason == reason).then_some(self.since)
    }

    /// Whether the wait was confirmed recently.
    pub fn is_fresh(&self, now: Timestamp) -> bool {
        now.duration_since(self.seen) < Self::STALE
    }
}
