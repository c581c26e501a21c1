//! The result of a restart of ours: whether its pods are replaced, have become ready, and have stayed ready
//! for the soak. The result is checked only for workloads that other workloads wait for. During a rollout and
//! a soak, pods are listed. A successful restart is remembered, and needs no more lists.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use crate::{
    api::WorkloadKind,
    model::{
        LastRestart, PodFacts, PodsSeen, RestartResult, Rollout, RolloutFault, WorkloadFacts, World,
        digest_of,
    },
    names::WorkloadKey,
    plan::at_after,
};

/// How old a list of pods may be to judge a restart by it.
const FRESH: SignedDuration = SignedDuration::from_secs(10);
/// When to look again at pods that may fail or recover.
pub(super) const WATCH: Duration = Duration::from_secs(15);
/// How long pods may take to become ready, if no controller has a deadline.
pub(super) const PATIENCE: Duration = Duration::from_secs(600);
/// Age (plus the soak) from which a complete restart without a remembered result is considered soaked: if its
/// pods are not ready now, the restart is not the cause.
const RECENT: Duration = Duration::from_secs(3600);

/// The result of a restart, with the facts to fetch, or the time to look again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Checked {
    /// The result, as far as known.
    pub result: RestartResult,
    /// Whether the pods have to be listed.
    pub needs_pods: bool,
    /// When to look again.
    pub recheck: Option<Timestamp>,
}

impl Checked {
    fn rest(result: RestartResult) -> Self {
        Self { result, needs_pods: false, recheck: None }
    }
}

/// The remembered result of the restart for the content that the workload records.
pub(super) fn remembered<'w>(
    world: &'w World,
    key: &WorkloadKey,
    facts: &WorkloadFacts,
) -> Option<&'w RestartResult> {
    let LastRestart { content, result } = world.memory().workload(key).restarted()?;
    (digest_of(facts.restarts.applied.as_deref()?) == content).then_some(result)
}

/// Since when the restart has been under way or over; `None` if the restart is so old that it must have
/// soaked. If we remove pods (`by_removal`), only the record shows that the restart is over.
pub(super) fn recent(
    facts: &WorkloadFacts,
    by_removal: bool,
    soak: Duration,
    now: Timestamp,
) -> Option<Timestamp> {
    let is_ours = facts.restarted_by_us();
    // A workload that was only adopted has not restarted.
    let recorded = facts.restarts.recorded.filter(|_| by_removal && facts.restarts.track.streak > 0);
    let began = facts.restarts.last_restart.filter(|_| is_ours).max(recorded);
    began.filter(|began| now < at_after(*began, RECENT.saturating_add(soak)))
}

/// Checks the restart of a workload that runs its recorded content.
pub(super) fn check(
    world: &World,
    key: &WorkloadKey,
    facts: &WorkloadFacts,
    by_removal: bool,
    soak: Duration,
    now: Timestamp,
) -> Checked {
    let known = remembered(world, key, facts);
    if known == Some(&RestartResult::Through) {
        return Checked::rest(RestartResult::Through);
    }
    let is_ours = facts.restarted_by_us();
    let began = recent(facts, by_removal, soak, now);
    let is_rolling = matches!(facts.rollout, Rollout::Unfinished | Rollout::Stuck);
    if known.is_none() && began.is_none() && !(is_ours && is_rolling) {
        return Checked::rest(RestartResult::Through);
    }
    if is_ours && facts.rollout_at(now) == Rollout::Stuck {
        let went = RestartResult::Failed(RolloutFault::Deadline);
        return Checked { recheck: Some(at_after(now, WATCH)), ..Checked::rest(went) };
    }
    let is_over = matches!(facts.rollout, Rollout::Complete | Rollout::OnDelete | Rollout::Partitioned(_));
    let was_ready = !by_removal && facts.rollout == Rollout::Complete && key.kind != WorkloadKind::DaemonSet;
    if is_over && soak.is_zero() && (was_ready || facts.available >= facts.desired) {
        return Checked::rest(RestartResult::Through);
    }
    let before = known.cloned().unwrap_or(RestartResult::UnderWay);
    let Some(seen) = world.pods(key).filter(|seen| now.duration_since(seen.at).abs() <= FRESH) else {
        return Checked { needs_pods: true, ..Checked::rest(before) };
    };
    let begun = facts.restarts.last_restart.filter(|_| !by_removal);
    let check = PodsCheck { facts, known, soak, seen, begun, is_over, was_ready, now };
    check.judge(before)
}

struct PodsCheck<'a> {
    facts: &'a WorkloadFacts,
    known: Option<&'a RestartResult>,
    soak: Duration,
    seen: &'a PodsSeen,
    /// When the rollout began. Earlier pods run the old content, and their state does not count.
    begun: Option<Timestamp>,
    is_over: bool,
    /// Whether all pods have been ready. A complete rollout of a Deployment or StatefulSet shows that all
    /// pods have been ready; a complete rollout of a DaemonSet does not.
    was_ready: bool,
    now: Timestamp,
}

impl PodsCheck<'_> {
    fn judge(&self, before: RestartResult) -> Checked {
        let watched = |went| Checked { recheck: Some(at_after(self.now, WATCH)), ..Checked::rest(went) };
        let staying = || self.seen.pods.iter().filter(|pod| pod.is_staying() && !pod.untouchable);
        let mut pods: Vec<&PodFacts> = staying().filter(|pod| self.is_new(pod)).collect();
        if let Some(pod) = pods.iter().find(|pod| pod.crashing && !pod.ready) {
            return watched(RestartResult::Failed(RolloutFault::PodCrashes(pod.name.clone())));
        }
        if !self.is_over {
            return watched(RestartResult::UnderWay);
        }
        if pods.is_empty() {
            // Our managedFields entry has been written again since the pods began.
            pods = staying().collect();
        }
        if self.seen.resource_version.as_ref() != Some(&self.facts.resource_version) {
            // The workload has changed since its pods were listed.
            return Checked { needs_pods: true, ..Checked::rest(before) };
        }
        if let Some(pod) = pods.iter().find(|pod| !pod.ready) {
            return watched(self.unready(pod));
        }
        let ready_since = pods.iter().map(|pod| pod.ready_since.unwrap_or(pod.created)).max();
        let until = ready_since.map_or(Timestamp::MIN, |since| at_after(since, self.soak));
        if until <= self.seen.at {
            return Checked::rest(RestartResult::Through);
        }
        let recheck = Some(until.max(at_after(self.now, Duration::from_secs(1))));
        Checked { needs_pods: until <= self.now, recheck, ..Checked::rest(RestartResult::Soaking) }
    }

    fn unready(&self, pod: &PodFacts) -> RestartResult {
        if let Some(RestartResult::Failed(fault)) = self.known {
            return RestartResult::Failed(fault.clone());
        }
        let since = self.begun.max(self.facts.restarts.recorded);
        let is_late = since.is_some_and(|since| at_after(since, PATIENCE) <= self.now);
        match self.was_ready || self.known == Some(&RestartResult::Soaking) {
            true => RestartResult::Failed(RolloutFault::PodNotReadyAnyMore(pod.name.clone())),
            false if is_late => RestartResult::Failed(RolloutFault::PodNeverReady(pod.name.clone())),
            false => RestartResult::UnderWay,
        }
    }

    fn is_new(&self, pod: &PodFacts) -> bool {
        self.begun.is_none_or(|begun| pod.created.as_second() >= begun.as_second())
    }
}

/// The fault of a restart that is done pod by pod: a replaced pod crashes, or does not become ready. After a
/// fault, the remaining old pods stay.
pub(super) fn failed_among<'p>(
    replaced: impl Iterator<Item = &'p PodFacts>,
    now: Timestamp,
) -> Option<RolloutFault> {
    let unready = |pod: &&PodFacts| pod.is_staying() && !pod.untouchable && !pod.ready;
    replaced.filter(unready).find_map(|pod| match pod.crashing {
        true => Some(RolloutFault::PodCrashes(pod.name.clone())),
        false => {
            (at_after(pod.created, PATIENCE) <= now).then(|| RolloutFault::PodNeverReady(pod.name.clone()))
        }
    })
}
