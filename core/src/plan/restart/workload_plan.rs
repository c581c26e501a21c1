//! The plan of one workload: how it stands, what to do, and what is lacking or has to pass first.

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

/// One workload: how it stands, what to do now, what is lacking to decide, and when to look again by the
/// clock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkloadPlan {
    /// How the workload stands before the action.
    pub state: RestartState,
    /// What to do now.
    pub action: Option<RestartAction>,
    /// What must be fetched to decide.
    pub needs: Vec<Need>,
    /// When to plan again though nothing has happened.
    pub recheck: Option<Timestamp>,
    /// Since when its pods may run old content.
    pub due_since: Option<Timestamp>,
    /// How its restart goes, once the action is done: to be remembered where others wait for it.
    pub restarted: Option<LastRestart>,
    /// What has changed, where a restart is due; empty where only keys have gone.
    pub causes: Vec<Cause>,
}

/// One thing to do to a workload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RestartAction {
    /// Record the content that it runs with: no restart.
    Adopt {
        /// The value of the applied label to write.
        label: String,
        /// How its restarts have gone, for the labels that say so.
        track: TrackRecord,
    },
    /// Change the pod template's annotation, and record the content, in one request.
    Rollout {
        /// The value of the applied label to write.
        label: String,
        /// The pod template's annotation.
        stamp: String,
        /// How its restarts have gone, this one included, for the labels that say so.
        track: TrackRecord,
    },
    /// Record that pods are to be replaced one by one: the first step of it, so that nothing of it is only in
    /// memory.
    Begin {
        /// The value of the applied label to write.
        label: String,
        /// How its restarts have gone, this one included, for the labels that say so.
        track: TrackRecord,
    },
    /// Remove these pods; the controller makes new ones.
    RemovePods {
        /// For this content, as it will be recorded.
        label: String,
        /// The pods to remove, by name and UID.
        pods: Vec<RemovePod>,
        /// Whether they are evicted or deleted.
        how: Removal,
    },
}

impl RestartAction {
    /// Whether pods are replaced for it.
    pub fn restarts(&self) -> bool {
        !matches!(self, Self::Adopt { .. })
    }

    /// The content that it is for, as a [`crate::model::RestartAttempt`] names it.
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
