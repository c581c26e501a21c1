//! The progress of a workload's last restart: whether the visible rollout is ours, and whether it takes too
//! long.

use jiff::{SignedDuration, Timestamp};

use super::{Rollout, WorkloadFacts, workload::digest_of};

/// Suffix of the pod template's annotation if the digest alone would not change the annotation.
pub const STAMPED_AGAIN: &str = "-again";

/// The deadline of rollouts whose controller sets no deadline: of StatefulSets and DaemonSets, and of
/// Deployments without a deadline. After the deadline, a rollout is stuck. Kubernetes has the same default
/// for Deployments.
pub(super) const DEADLINE: SignedDuration = SignedDuration::from_mins(10);

impl WorkloadFacts {
    /// The content that the pod template was last restarted for: `<key id>.<digest>`.
    pub fn stamped_for(&self) -> Option<&str> {
        let stamp = self.restarts.restarted_for.as_deref()?;
        Some(stamp.strip_suffix(STAMPED_AGAIN).unwrap_or(stamp))
    }

    /// Whether the pod template's annotation names the recorded content.
    pub fn is_stamped(&self) -> bool {
        let applied = self.restarts.applied.as_deref();
        applied.is_some_and(|applied| self.stamped_for() == Some(digest_of(applied)))
    }

    /// Whether the last change of the pod template was our restart, for the recorded content.
    pub fn restarted_by_us(&self) -> bool {
        self.is_stamped() && self.restarts.last_restart >= self.templated
    }

    /// The state of the rollout at this time; [`Rollout::Stuck`] also if only our own deadline has passed.
    pub fn rollout_at(&self, now: Timestamp) -> Rollout {
        match self.rollout_deadline() {
            Some(deadline) if deadline <= now => Rollout::Stuck,
            _ => self.rollout,
        }
    }

    /// When an unfinished rollout is considered stuck, if its controller sets no deadline.
    pub fn rollout_deadline(&self) -> Option<Timestamp> {
        let since = self.templated.max(self.restarts.last_restart)?;
        let by_clock = self.rollout == Rollout::Unfinished && !self.own_deadline;
        by_clock.then(|| since.checked_add(DEADLINE).unwrap_or(Timestamp::MAX))
    }

    /// The content with which the workload is ready now, or was last ready: `<key id>.<digest>`.
    pub fn last_good(&self) -> Option<&str> {
        match (&self.restarts.applied, self.is_ready() && !self.is_being_replaced()) {
            (Some(applied), true) => Some(digest_of(applied)),
            _ => self.restarts.track.last_good.as_deref(),
        }
    }

    /// Whether the rollout is complete and, if the workload wants pods, at least one pod is available. A
    /// DaemonSet's rollout can complete with no pod available, and with a node down some of its pods never
    /// become available.
    pub fn is_ready(&self) -> bool {
        match self.rollout {
            Rollout::Complete => self.available > 0 || self.desired <= 0,
            // With OnDelete, the user or Copyrator replaces the pods, and a partition keeps old pods: no
            // controller reports when the rollout is complete.
            Rollout::OnDelete | Rollout::Partitioned(_) => self.available >= self.desired,
            Rollout::Unfinished | Rollout::Stuck | Rollout::Paused => false,
        }
    }

    /// Whether the record says that pods are still to be replaced one by one.
    pub fn is_being_replaced(&self) -> bool {
        self.restarts.applied.as_deref().is_some_and(|applied| applied.matches('.').count() > 2)
    }

    /// Until when the workload uses up one place of the limit of restarts in the cluster; `None` if the
    /// workload uses up none. A restart of ours uses up a place, whatever its strategy, until it is complete,
    /// and for ten minutes at most: the owner's deadline limits how long a rollout may take, but not how long
    /// other restarts wait.
    pub(super) fn takes_place_until(&self) -> Option<Timestamp> {
        let is_rolling = self.rollout == Rollout::Unfinished && self.restarted_by_us();
        let by_pods = self.is_being_replaced() && !matches!(self.rollout, Rollout::Partitioned(_));
        let since =
            if is_rolling { self.restarts.last_restart } else { self.restarts.recorded.filter(|_| by_pods) }?;
        Some(since.checked_add(DEADLINE).unwrap_or(Timestamp::MAX))
    }
}
