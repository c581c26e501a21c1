//! Facts about workloads and, if a restart looks due, about their pods.

use std::sync::Arc;

use jiff::Timestamp;

use super::{PodLabels, PodSelector, RareRestartFields, ResourceVersion, Uid, WriteFault};
use crate::names::{Kind, WorkloadKey};

/// Maximum number of ConfigMaps and Secrets that are kept for one pod template.
pub const MOST_REFERENCES: usize = 256;

/// Facts about a Deployment, StatefulSet or DaemonSet.
#[derive(Clone, Debug, PartialEq)]
pub struct WorkloadFacts {
    /// The workload's UID, which preconditions of writes carry.
    pub uid: Uid,
    /// The resource version that was last seen.
    pub resource_version: ResourceVersion,
    /// Whether the workload is marked for deletion.
    pub deleting: bool,
    /// The selector of the workload's pods.
    pub selector: PodSelector,
    /// The labels of the workload's pod template.
    pub template_labels: PodLabels,
    /// The ConfigMaps and Secrets that its pod template uses, sorted, without duplicates; the first
    /// [`MOST_REFERENCES`].
    pub references: Box<[Reference]>,
    /// The Secrets for pulling its images, sorted. Copyrator does not read their content.
    pub pull_secrets: Box<[Arc<str>]>,
    /// The workload's metadata that concerns restarts.
    pub restarts: RareRestartFields,
    /// When anybody last changed its pod template (1 s resolution).
    pub templated: Option<Timestamp>,
    /// The state of the workload's rollout, according to its controller. [`Self::rollout_at`] also considers
    /// the clock.
    pub rollout: Rollout,
    /// Whether the workload's controller reports a rollout that takes too long (`progressDeadlineSeconds`).
    pub own_deadline: bool,
    /// How many pods the workload wants.
    pub desired: i32,
    /// How many of the workload's pods are available.
    pub available: i32,
}

/// The record of ours that somebody removed from a workload while we watched: `kubectl replace` and `helm
/// upgrade --force` remove all fields that a manifest does not name. The facts keep the value of the record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LostRecord {
    /// The applied label was removed.
    Label,
    /// Both the label and, before the rollout was complete, the pod template's annotation were removed: it is
    /// unknown which content the pods run.
    Rollout,
}

impl WorkloadFacts {
    /// Keeps the records of ours that `known`, an earlier version, had and that somebody has removed. Without
    /// these records, a content change that waits for its quiet period would be forgotten, and the workload
    /// would be adopted with pods that run the old content.
    pub fn keep(&mut self, known: &Self) -> Option<LostRecord> {
        let label = known.restarts.applied.as_deref()?;
        let digest = digest_of(label);
        if self.uid != known.uid || self.restarts.applied.is_some() {
            return None;
        }
        let fields = &mut *self.restarts;
        fields.applied.clone_from(&known.restarts.applied);
        fields.recorded = known.restarts.recorded;
        fields.verified = known.restarts.verified;
        fields.track.clone_from(&known.restarts.track);
        fields.last_restart = fields.last_restart.max(known.restarts.last_restart);
        let is_rolling = matches!(known.rollout, Rollout::Unfinished | Rollout::Stuck);
        let is_ours = known.restarts.restarted_for.as_deref().is_some_and(|stamp| stamp.starts_with(digest));
        let is_cut_short =
            is_rolling && is_ours && self.restarts.restarted_for != known.restarts.restarted_for;
        Some(if is_cut_short { LostRecord::Rollout } else { LostRecord::Label })
    }
}

/// The part of a record that names the content: `<key id>.<digest>` of `<key id>.<digest>.<scope>`.
pub fn digest_of(record: &str) -> &str {
    record.match_indices('.').nth(1).map_or(record, |(dot, _)| &record[..dot])
}

#[cfg(test)]
impl WorkloadFacts {
    /// A workload without any annotation of ours, whose only pod is available.
    pub fn plain() -> Self {
        Self {
            uid: "u".into(),
            resource_version: "1".into(),
            deleting: false,
            selector: PodSelector::default(),
            template_labels: PodLabels::default(),
            references: Box::default(),
            pull_secrets: Box::default(),
            restarts: RareRestartFields::default(),
            templated: None,
            rollout: Rollout::Complete,
            own_deadline: true,
            desired: 1,
            available: 1,
        }
    }
}

/// The state of a rollout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rollout {
    /// Every pod is of the current template, and a Deployment's pods have been available.
    Complete,
    /// The controller is still replacing pods.
    Unfinished,
    /// The rollout takes too long: the Deployment's progress deadline, or our own deadline, has passed.
    Stuck,
    /// The Deployment has `spec.paused: true`.
    Paused,
    /// The update strategy is OnDelete: a change of the template replaces no pod.
    OnDelete,
    /// The StatefulSet's partition: the controller replaces only the pods from this ordinal on, and has
    /// replaced all of these pods.
    Partitioned(i32),
}

/// A ConfigMap or Secret that a pod template names.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Reference {
    /// The kind of the object, in the workload's namespace.
    pub kind: Kind,
    /// The object's name, in the workload's namespace.
    pub name: Arc<str>,
    /// The used keys, sorted; `None` means all keys.
    pub keys: Option<Vec<String>>,
    /// Whether every use is marked optional: the pods start without the object.
    pub optional: bool,
}

/// The pods of one workload (or the pods that a monitor's podSelector selects), as listed when a decision
/// needed the pods.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodsSeen {
    /// When the pods were listed.
    pub at: Timestamp,
    /// The version of the workload for which the pods were listed; `None` for pods that a monitor selects.
    pub resource_version: Option<ResourceVersion>,
    /// The pods, sorted by name.
    pub pods: Vec<PodFacts>,
}

/// The state of one pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodFacts {
    /// `metadata.name`, in the namespace of the pod's workload or monitor.
    pub name: String,
    /// The pod's UID, which preconditions of evictions carry.
    pub uid: String,
    /// When the pod was created (1 s resolution).
    pub created: Timestamp,
    /// Whether the pod is marked for deletion.
    pub leaving: bool,
    /// Whether the pod's phase is Succeeded or Failed.
    pub finished: bool,
    /// Whether the pod's condition `Ready` is True.
    pub ready: bool,
    /// Since when the condition `Ready` has its value (1 s resolution); `None` for a condition that is not
    /// set yet.
    pub ready_since: Option<Timestamp>,
    /// Whether a container of the pod is in CrashLoopBackOff.
    pub crashing: bool,
    /// The workload that owns the pod, for a Deployment through its ReplicaSet.
    pub workload: Option<WorkloadKey>,
    /// Whether the pod has a controller of any kind, which creates a new pod when this pod is deleted.
    pub controlled: bool,
    /// Whether the pod is a mirror pod or a pod of a Job: Copyrator never deletes such pods.
    pub untouchable: bool,
}

impl PodFacts {
    /// Whether the pod runs or will run, and is not being deleted.
    pub fn is_staying(&self) -> bool {
        !self.leaving && !self.finished
    }
}

/// The last deletion of a pod that a monitor itself selects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PodRemoved {
    /// When we deleted the pod.
    pub at: Timestamp,
    /// How many pods with a controller were listed.
    pub controlled: usize,
}

/// The last failed attempt to restart a workload or pods, kept until an attempt succeeds or the content
/// changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RestartAttempt {
    /// The intended content of the pods, in the form of a record.
    pub label: String,
    /// The number of attempts for that content.
    pub tries: u32,
    /// Why the attempt failed; `None` if a PodDisruptionBudget allows no eviction now, which is not a
    /// failure.
    pub failure: Option<AttemptFailure>,
    /// When the next attempt may be made.
    pub retry_at: Timestamp,
}

impl RestartAttempt {
    /// The number of attempts for this content, according to the last attempt.
    pub fn tries(last: Option<&Self>, label: &str) -> u32 {
        last.filter(|attempt| attempt.label == label).map_or(0, |attempt| attempt.tries)
    }
}

/// Why an attempt to restart a workload or pods has failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AttemptFailure {
    /// More than one PodDisruptionBudget covers a pod, which therefore can never be evicted.
    TooManyBudgets,
    /// The write has failed; the API server's message, without values.
    Write(WriteFault, String),
}
