//! Checks whether pods run older content than the record shows: somebody may have undone, paused or
//! overwritten a restart before its last pod was replaced. The record shows the content that we wrote; only
//! the pods show which content runs.

use jiff::{SignedDuration, Timestamp};

use super::{
    case::{Case, OldPods, is_held},
    own_gates::{Verdict, wait},
    state::{Overwritten, RestartState, TakenBack},
};
use crate::model::{PodsSeen, Rollout, WaitReason};

/// How soon pods are listed again after a change: a workload may change every second while it rolls out.
const AGAIN_AT_ONCE: SignedDuration = SignedDuration::from_secs(10);
/// The maximum age of a list of pods for the latest version of a workload: a little less than the sweep's
/// interval.
const AGAIN_ANYWAY: SignedDuration = SignedDuration::from_mins(55);

/// A list of pods, if it is recent enough to decide by.
pub(super) struct Listed<'w> {
    /// The list of pods; `None` without a usable list.
    pub(super) seen: Option<&'w PodsSeen>,
    /// When to list the pods again, if the workload has changed since the list.
    pub(super) again: Option<Timestamp>,
}

impl Case<'_> {
    /// The time before which pods with older content began, if only the pods can show whether such pods
    /// exist. `None` if all pods run the recorded content: our record is from a time when no old pod was
    /// left, or the controller replaces all pods by the template of our restart.
    pub(super) fn doubted_before(&self) -> Option<Timestamp> {
        let (restarts, changed) = (&self.facts.restarts, self.content.changed_at);
        if restarts.verified {
            return None;
        }
        let restart = match restarts.recorded {
            None => return changed,
            Some(_) => restarts.last_restart?,
        };
        let replaces_all =
            matches!(self.facts.rollout, Rollout::Complete | Rollout::Unfinished | Rollout::Stuck);
        let is_vouched_for = replaces_all && self.facts.is_stamped();
        (!is_vouched_for).then(|| changed.map_or(restart, |changed| changed.min(restart)))
    }

    /// The latest list of the workload's pods. A workload that has changed since may have other pods, so its
    /// pods are listed again.
    pub(super) fn listed(&self) -> Listed<'_> {
        let Some(seen) = self.world.pods(self.key) else { return Listed { seen: None, again: None } };
        let age = self.now.duration_since(seen.at).abs();
        let is_latest = seen.resource_version.as_ref() == Some(&self.facts.resource_version);
        let counts_for = if is_latest { AGAIN_ANYWAY } else { AGAIN_AT_ONCE };
        let again = seen.at.checked_add(AGAIN_AT_ONCE).ok().filter(|_| !is_latest);
        Listed { seen: Some(seen).filter(|_| age <= counts_for), again }
    }

    /// Why old pods stay although the record says that no pod is to be replaced.
    pub(super) fn taken_back(&self, old: usize) -> TakenBack {
        let restarts = &self.facts.restarts;
        let what = match (restarts.recorded, self.facts.rollout) {
            (None, _) => Overwritten::Record,
            (Some(_), Rollout::OnDelete) if self.facts.is_stamped() => Overwritten::Strategy,
            (Some(_), _) => Overwritten::Template,
        };
        let writer = restarts.other_writer.as_ref().filter(|_| what != Overwritten::Strategy);
        let is_traced = writer
            .is_some_and(|writer| what == Overwritten::Record || restarts.last_restart <= Some(writer.at));
        TakenBack { old, what, manager: writer.map(|writer| writer.manager.clone()), is_traced }
    }

    /// When any manager last wrote the record: a `restart-now` before this time was meant for an earlier
    /// restart.
    fn last_record(&self) -> Option<Timestamp> {
        let restarts = &self.facts.restarts;
        let by_other = restarts.other_writer.as_ref().filter(|_| restarts.recorded.is_none());
        restarts.last_restart.max(by_other.map(|writer| writer.at))
    }
}

/// Shut while old pods stay, until their owner or a `restart-now` has them replaced. The reconciler does not
/// repeat the restart: the user who undid it may want the old pods.
pub(super) fn undone(case: &Case<'_>, pods: &OldPods<'_>) -> Verdict {
    if case.is_nudged(pods.since, case.last_record()) {
        return Ok(());
    }
    if case.facts.is_stamped()
        && let Rollout::Partitioned(partition) = case.facts.rollout
    {
        return Err(match is_held(&pods.stale, partition) {
            true => RestartState::Held { partition, old: pods.stale.len() },
            false => RestartState::Restarting,
        });
    }
    if case.facts.rollout_at(case.now) == Rollout::Unfinished {
        return wait(WaitReason::RolloutUnfinished);
    }
    Err(RestartState::TakenBack(case.taken_back(pods.stale.len())))
}
