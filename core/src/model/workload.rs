//! What is known of workloads and, where a restart looks due, of their pods.

use std::{collections::BTreeMap, sync::Arc};

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

use super::{TrackRecord, progress::digest_of};
use crate::names::{Kind, WorkloadKey};

/// What is known of a Deployment, StatefulSet or DaemonSet.
#[derive(Clone, Debug, PartialEq)]
pub struct WorkloadFacts {
    /// Its UID.
    pub uid: Box<str>,
    /// Its resource version.
    pub resource_version: Box<str>,
    /// Marked for deletion.
    pub deleting: bool,
    /// Its pod selector.
    pub selector: LabelSelector,
    /// The labels of its pod template.
    pub template_labels: BTreeMap<String, String>,
    /// What its pod template uses, sorted, without duplicates.
    pub references: Vec<Reference>,
    /// Secrets that its pods' images are pulled with, sorted: no content that a process reads.
    pub pull_secrets: Vec<Arc<str>>,
    /// The value of its annotation `copyrator.dev/restart`.
    pub restart: Option<String>,
    /// The value of its label `copyrator.dev/applied`.
    pub applied: Option<String>,
    /// The value of the pod template's annotation `copyrator.dev/restarted-for`.
    pub restarted_for: Option<String>,
    /// When we last restarted it: the time of our own managedFields entry for restarts.
    pub last_restart: Option<Timestamp>,
    /// When somebody, us included, last wrote something of its pod template (1 s resolution).
    pub templated: Option<Timestamp>,
    /// When we wrote the applied label that is there, for whatever purpose (1 s resolution); `None` where
    /// somebody else wrote it.
    pub recorded: Option<Timestamp>,
    /// How its restarts have gone, as its labels say.
    pub track: TrackRecord,
    /// How its rollout stands, by its controller's word; by the clock too, see [`Self::rollout_at`].
    pub rollout: Rollout,
    /// Its controller itself says when a rollout takes too long.
    pub own_deadline: bool,
    /// How many pods it wants.
    pub desired: i32,
    /// How many of its pods serve.
    pub available: i32,
}

/// What somebody took from a workload while we looked (`kubectl replace`, `helm upgrade --force`: what a
/// manifest does not name goes). Its facts keep what it said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Taken {
    /// The applied label.
    Label,
    /// The label and, before the rollout was through, the pod template's annotation: what its pods run is not
    /// known.
    Rollout,
}

impl WorkloadFacts {
    /// Keeps what `known`, an earlier version of it, said of our restarts, where it was taken from it: a
    /// change of content that waits for its quiet period would be forgotten, and the workload adopted with
    /// pods that run the old one.
    pub fn keep(&mut self, known: &Self) -> Option<Taken> {
        let label = known.applied.as_deref()?;
        let digest = digest_of(label);
        if self.uid != known.uid || self.applied.is_some() {
            return None;
        }
        self.applied.clone_from(&known.applied);
        self.recorded = known.recorded;
        self.track.clone_from(&known.track);
        self.last_restart = self.last_restart.max(known.last_restart);
        let is_rolling = matches!(known.rollout, Rollout::Unfinished | Rollout::Stuck);
        let is_ours = known.restarted_for.as_deref().is_some_and(|stamp| stamp.starts_with(digest));
        let is_cut_short = is_rolling && is_ours && self.restarted_for != known.restarted_for;
        Some(if is_cut_short { Taken::Rollout } else { Taken::Label })
    }
}

#[cfg(test)]
impl WorkloadFacts {
    /// One that nobody asks anything of, with its only pod serving.
    pub fn plain() -> Self {
        Self {
            uid: "u".into(),
            resource_version: "1".into(),
            deleting: false,
            selector: LabelSelector::default(),
            template_labels: BTreeMap::new(),
            references: Vec::new(),
            pull_secrets: Vec::new(),
            restart: None,
            applied: None,
            restarted_for: None,
            last_restart: None,
            templated: None,
            recorded: None,
            track: TrackRecord::default(),
            rollout: Rollout::Complete,
            own_deadline: true,
            desired: 1,
            available: 1,
        }
    }
}

/// How a rollout stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rollout {
    /// Every pod is of the current template, and a Deployment's have been available.
    Complete,
    /// Under way.
    Unfinished,
    /// It takes too long: its progress deadline has passed (Deployments), or ours.
    Stuck,
    /// `spec.paused` (Deployments only).
    Paused,
    /// The update strategy is OnDelete: a change of the template replaces no pod.
    OnDelete,
    /// A change of the template replaces the pods from this ordinal on, and has done so (StatefulSets only).
    Partitioned(i32),
}

/// A ConfigMap or Secret that a pod template names.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Reference {
    /// ConfigMap or Secret.
    pub kind: Kind,
    /// Its name, in the workload's namespace.
    pub name: Arc<str>,
    /// The keys used, sorted; `None` means all.
    pub keys: Option<Vec<String>>,
    /// Every use is marked optional: pods start without it.
    pub optional: bool,
}

/// The pods of one workload (or, for a monitor, those its podSelector finds), as listed when they mattered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodsSeen {
    /// When they were listed.
    pub at: Timestamp,
    /// The version of the workload (or monitor) that they were listed for.
    pub resource_version: Box<str>,
    /// The pods, sorted by name.
    pub pods: Vec<PodFacts>,
}

/// One pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodFacts {
    /// Its name.
    pub name: String,
    /// Its UID.
    pub uid: String,
    /// Creation (resolution 1 s).
    pub created: Timestamp,
    /// Marked for deletion.
    pub leaving: bool,
    /// Succeeded or failed.
    pub finished: bool,
    /// Ready.
    pub ready: bool,
    /// Since when it is ready, or not (1 s resolution); `None` where nobody has said yet.
    pub ready_since: Option<Timestamp>,
    /// A container of it crashes again and again.
    pub crashing: bool,
    /// The workload that owns it, through its ReplicaSet where there is one.
    pub workload: Option<WorkloadKey>,
    /// It has a controller of any kind, so that another pod follows when it goes.
    pub controlled: bool,
    /// A mirror pod or a pod of a Job: never touched.
    pub untouchable: bool,
}

impl PodFacts {
    /// Runs, or is about to, and nobody has asked it to go.
    pub fn is_staying(&self) -> bool {
        !self.leaving && !self.finished
    }
}

/// The last removal of a pod that a monitor finds itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PodRemoved {
    /// When.
    pub at: Timestamp,
    /// How many pods there were then that a controller brings back.
    pub controlled: usize,
}

/// What became of the last attempt to restart something, kept until it succeeds or the content changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RestartAttempt {
    /// The content that was to be run, as it would have been recorded.
    pub label: String,
    /// How often it has been tried for that content.
    pub tries: u32,
    /// One word from the list in [`crate::plan::restart::monitor_status`].
    pub reason: &'static str,
    /// What the API server said, without values.
    pub message: String,
    /// It is not tried again before.
    pub retry_at: Timestamp,
}
