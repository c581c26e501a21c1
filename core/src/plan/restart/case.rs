//! One workload with the facts for the decision about its restart, and functions for the conditions of this
//! decision. `restarts.rs` and the gates decide by these conditions.

use std::time::Duration;

use jiff::Timestamp;

use super::{
    applied::{Applied, RecordDiff},
    brake::{Pace, Wait},
    inputs::{InputDigest, Inputs},
    line::Lines,
    nudge::is_nudged,
    pods::{self, Before, LOOK_AGAIN},
    reach::staged,
    retry::not_again_yet,
    soak,
    state::{Failure, RestartState},
    workload_plan::WorkloadPlan,
};
use crate::{
    api::StrategyType,
    model::{
        LostRecord, PodFacts, PodsSeen, RestartResult, Rollout, RolloutFault, WaitReason, WorkloadFacts,
        World,
    },
    names::{Kind, WorkloadKey},
};

/// One workload with the facts for the decision about its restart.
pub(super) struct Case<'w> {
    pub(super) world: &'w World,
    pub(super) lines: &'w Lines,
    pub(super) key: &'w WorkloadKey,
    pub(super) facts: &'w WorkloadFacts,
    pub(super) inputs: Inputs<'w>,
    pub(super) pace: Pace,
    pub(super) content: InputDigest,
    pub(super) applied: Option<Applied<'w>>,
    pub(super) now: Timestamp,
}

impl<'w> Case<'w> {
    /// Collects the facts for a decision. `Err` is the plan if a fact is missing, or if no decision is
    /// necessary.
    pub(super) fn of(
        world: &'w World,
        lines: &'w Lines,
        key: &'w WorkloadKey,
        now: Timestamp,
    ) -> Result<Self, Box<WorkloadPlan>> {
        let wait = |reason| Err(Box::new(Wait::for_event(reason).into()));
        let rest = |state| Err(Box::new(WorkloadPlan::rest(state)));
        let is_known = world.is_complete() && !world.is_listing_data(&key.namespace);
        let Some(digest_key) = world.key().filter(|_| is_known) else {
            return wait(WaitReason::Starting);
        };
        let namespace_stays = !world.namespaces().get(&key.namespace).is_some_and(|facts| facts.terminating);
        let facts = world.workloads().get(key).filter(|facts| !facts.deleting && namespace_stays);
        let Some(facts) = facts else { return rest(RestartState::Unwatched) };
        let inputs = Inputs::of(world, key, facts);
        if inputs.pending {
            // A decision without this monitor's objects would write one label now and a different label in a
            // moment.
            return wait(WaitReason::Authority);
        }
        let Some(pace) = inputs.pace.filter(|_| !inputs.is_empty()) else {
            let refused = inputs.refused.map(RestartState::Unauthorized);
            return rest(refused.unwrap_or(RestartState::Unwatched));
        };
        let Some(content) = inputs.content(world, digest_key) else {
            return Err(Box::new(WorkloadPlan::need(inputs.needs(world))));
        };
        let applied = Applied::read(facts.restarts.applied.as_deref(), facts.restarts.recorded, digest_key);
        Ok(Self { world, lines, key, facts, inputs, pace, content, applied, now })
    }

    /// How the record differs from the current content; `None` without a record. If somebody removed the
    /// record, the reconciler writes the record again, and repeats the rollout that was removed with the
    /// record.
    pub(super) fn difference(&self) -> Option<RecordDiff> {
        let difference = self.applied.map(|applied| applied.differs(&self.content))?;
        Some(match (difference, self.world.lost_record(self.key), self.content.changed_at) {
            (RecordDiff::Nothing, Some(LostRecord::Rollout), Some(since)) => RecordDiff::Content(since),
            (RecordDiff::Nothing, Some(_), _) => RecordDiff::Scope,
            (difference, ..) => difference,
        })
    }

    /// Why the reconciler does not restart the workload even if a monitor or an annotation declares restarts.
    pub(super) fn stopped(&self) -> Option<RestartState> {
        if self.facts.rollout == Rollout::Paused {
            return Some(RestartState::Paused);
        }
        let says_no = self.facts.restarts.restart.as_deref().is_some_and(|text| text.trim() == "false");
        (self.world.settings().annotations && says_no).then_some(RestartState::OptedOut)
    }

    /// The plan while an attempt for this very content has failed and its retry is not due yet.
    pub(super) fn tried(&self) -> Option<WorkloadPlan> {
        let attempt = self.world.memory().workload(self.key).attempt()?;
        let state = not_again_yet(attempt, &self.content.label(), self.now)?;
        Some(WorkloadPlan { recheck: Some(attempt.retry_at), ..WorkloadPlan::rest(state) })
    }

    /// Since when an object has been missing, if this process remembers the time.
    pub(super) fn missing_since(&self) -> Option<Timestamp> {
        self.world.memory().workload(self.key).missing_since()
    }

    /// Whether an object that new pods need to start is missing, even if the record was written without that
    /// object long ago. The watches leave out service-account tokens, so an existing token looks missing: an
    /// available pod shows that its Secrets existed.
    pub(super) fn lacks_object(&self) -> bool {
        let serves = self.facts.available > 0 || self.facts.desired <= 0;
        self.inputs.missing.iter().any(|object| object.kind == Kind::ConfigMap || !serves)
    }

    /// The state of a workload that runs changed content and has failed, so that other workloads wait.
    pub(super) fn stage_failed(&self, fault: RolloutFault) -> RestartState {
        let is_other = |content: &&str| *content != self.content.digest;
        let recorded = self.facts.restarts.track.last_good.as_deref().filter(is_other);
        let last_good = self.facts.last_good().filter(is_other).or(recorded).map(str::to_owned);
        RestartState::Failed(Failure::Stage { fault, content: self.content.digest.clone(), last_good })
    }

    /// How long the workload must stay ready before other workloads follow; `None` if no workload waits for
    /// this one.
    pub(super) fn soak(&self) -> Option<Duration> {
        staged(self.world, &self.inputs.monitors).map(|(_, _, stage)| stage.soak).max()
    }

    /// Whether a rollout that the reconciler began is remembered as failed.
    pub(super) fn is_known_to_fail(&self) -> bool {
        matches!(soak::remembered(self.world, self.key, self.facts), Some(RestartResult::Failed(_)))
    }

    /// Whether somebody has set `restart-now` since the change, and since the last restart.
    pub(super) fn is_nudged(&self, since: Timestamp, last: Option<Timestamp>) -> bool {
        self.inputs.monitors.iter().any(|monitor| is_nudged(self.world, monitor, since, last))
    }

    /// Whether we remove pods one by one, instead of the controller replacing them.
    pub(super) fn removes_pods(&self) -> bool {
        self.pace.strategy != StrategyType::Rollout || self.facts.rollout == Rollout::OnDelete
    }

    /// Whether the controller rolls out this very content, down to a partition.
    pub(super) fn is_partitioned_for_this(&self) -> bool {
        let is_stamped = self.facts.stamped_for() == Some(&*self.content.digest);
        is_stamped && matches!(self.facts.rollout, Rollout::Partitioned(_))
    }

    /// The pod to remove next.
    ///
    /// # Errors
    /// Too few pods are ready.
    pub(super) fn next<'p>(&self, pods: &OldPods<'p>) -> Result<&'p PodFacts, Wait> {
        let unready = Wait::until(WaitReason::PodsNotReady, pods::add(self.now, LOOK_AGAIN));
        pods::next_of_workload(self.facts, self.key.kind, pods.seen, &pods.stale).ok_or(unready)
    }

    /// The pods as last listed for this version of the workload, and the old pods among them.
    ///
    /// # Errors
    /// The pods have to be listed.
    pub(super) fn old_pods(&self, since: Timestamp, before: Before) -> Result<OldPods<'_>, RestartState> {
        let seen = self.last_seen().ok_or(Wait::for_event(WaitReason::Facts))?;
        Ok(OldPods::among(seen, since, before))
    }

    /// The latest list of pods for this version of the workload.
    fn last_seen(&self) -> Option<&PodsSeen> {
        let seen = self.world.pods(self.key)?;
        (seen.resource_version.as_ref() == Some(&self.facts.resource_version)).then_some(seen)
    }

    /// Whether the latest list of pods shows that all old pods are below the partition.
    pub(super) fn is_seen_held(&self, since: Timestamp) -> bool {
        let Rollout::Partitioned(partition) = self.facts.rollout else { return false };
        self.pace.strategy == StrategyType::Rollout
            && self.last_seen().is_some_and(|seen| {
                let stale = stale(seen, pods::before(since, self.facts.restarts.recorded));
                !stale.is_empty() && is_held(&stale, partition)
            })
    }
}

/// The pods of a workload, and which of them run old content.
pub(super) struct OldPods<'p> {
    /// All pods of the workload, as last listed.
    pub(super) seen: &'p PodsSeen,
    /// The pods that run old content and are not being deleted.
    pub(super) stale: Vec<&'p PodFacts>,
    /// Since when the old pods are to be replaced.
    pub(super) since: Timestamp,
    /// The time before which the old pods began.
    pub(super) before: Before,
}

impl<'p> OldPods<'p> {
    /// Finds the old pods in a list: pods that began before `before` and are not being deleted.
    pub(super) fn among(seen: &'p PodsSeen, since: Timestamp, before: Before) -> Self {
        Self { seen, stale: stale(seen, before), since, before }
    }
}

/// Whether the owner's partition keeps all of these pods.
pub(super) fn is_held(stale: &[&PodFacts], partition: i32) -> bool {
    stale.iter().all(|pod| pods::ordinal(&pod.name) < i64::from(partition))
}

/// The pods that run old content and are not being deleted.
fn stale(seen: &PodsSeen, before: Before) -> Vec<&PodFacts> {
    let is_stale = |pod: &&PodFacts| pod.is_staying() && !pod.untouchable && before.is_before(pod);
    seen.pods.iter().filter(is_stale).collect()
}
