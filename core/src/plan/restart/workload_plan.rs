//! The plan of one workload: its state, its action, and the missing facts.

use jiff::Timestamp;

use super::{
    brake::Wait,
    cause::Cause,
    pods::{Removal, RemovePod},
    state::RestartState,
};
use crate::{
    model::{LastRestart, TrackRecord, WaitReason},
    plan::Need,
};

/// The plan of one workload: its state, the action to take now, the facts to fetch first, and when to plan
/// again by the clock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkloadPlan {
    /// The workload's state before the action.
    pub state: RestartState,
    /// The action to take now.
    pub action: Option<RestartAction>,
    /// The facts to fetch before a decision.
    pub needs: Vec<Need>,
    /// When to plan again even without an event.
    pub recheck: Option<Timestamp>,
    /// Since when the workload's pods may run old content.
    pub due_since: Option<Timestamp>,
    /// The progress of the workload's restart once the action is done, to remember if other workloads wait
    /// for it.
    pub restarted: Option<LastRestart>,
    /// The objects that have changed, if a restart is due; empty if only keys were removed.
    pub causes: Vec<Cause>,
}

/// An action on a workload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RestartAction {
    /// Record the content that the workload runs with, without a restart.
    Adopt {
        /// The value of the applied label to write.
        label: String,
        /// The track record, for the labels.
        track: TrackRecord,
    },
    /// Change the pod template's annotation, and record the content, in one request.
    Rollout {
        /// The value of the applied label to write.
        label: String,
        /// The pod template's annotation.
        stamp: String,
        /// The track record with this restart, for the labels.
        track: TrackRecord,
    },
    /// Record that pods are to be replaced one by one. Writing the record is the first step, so the plan is
    /// never only in memory.
    Begin {
        /// The value of the applied label to write.
        label: String,
        /// The track record with this restart, for the labels.
        track: TrackRecord,
    },
    /// Remove these pods; the controller creates new pods.
    RemovePods {
        /// The content that the pods are removed for, as it will be recorded.
        label: String,
        /// The pods to remove, by name and UID.
        pods: Vec<RemovePod>,
        /// Whether the pods are evicted or deleted.
        how: Removal,
    },
}

impl RestartAction {
    /// Whether the action belongs to a restart, in which pods are replaced.
    pub fn restarts(&self) -> bool {
        !matches!(self, Self::Adopt { .. })
    }

    /// The content that the action is for, as a [`crate::model::RestartAttempt`] names it.
    pub fn label(&self) -> &str {
        match self {
            Self::Adopt { label, .. }
            | Self::Rollout { label, .. }
            | Self::Begin { label, .. }
            | Self::RemovePods { label, .. } => label,
        }
    }
}

impl WorkloadPlan {
    pub(super) fn rest(state: RestartState) -> Self {
        Self {
            state,
            action: None,
            needs: Vec::new(),
            recheck: None,
            due_since: None,
            restarted: None,
            causes: Vec::new(),
        }
    }

    pub(super) fn act(state: RestartState, action: RestartAction) -> Self {
        Self { action: Some(action), ..Self::rest(state) }
    }

    pub(super) fn need(needs: Vec<Need>) -> Self {
        Self { needs, ..Self::rest(RestartState::Waiting(Wait::for_event(WaitReason::Facts))) }
    }
}

impl From<Wait> for WorkloadPlan {
    fn from(wait: Wait) -> Self {
        Self { recheck: wait.until, ..Self::rest(RestartState::Waiting(wait)) }
    }
}
