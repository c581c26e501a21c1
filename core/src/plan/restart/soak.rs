//! How a restart of ours went: are its pods replaced, did they become ready, and have they stayed so for the
//! soak? Only asked for workloads of which others wait. A rollout under way and a soak are looked at by
//! listing pods; one that went through is remembered, and costs no list any more.

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

/// How old a list of pods may be that shows no crash, or a failure.
const FRESH: SignedDuration = SignedDuration::from_secs(10);
/// When to look again at pods that may fail or recover.
pub(super) const WATCH: Duration = Duration::from_secs(15);
/// How long pods may take to become ready, where no controller has a deadline.
pub(super) const PATIENCE: Duration = Duration::from_secs(600);
/// A restart that is complete, and which we remember nothing of, has soaked if it began longer ago than that
/// (and the soak): what is not ready now was not ready because of it.
const RECENT: Duration = Duration::from_secs(3600);

/// How a restart went, and what else has to be known, or when to look again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Checked {
    /// How it went, for all we know.
    pub result: RestartResult,
    /// Its pods have to be listed.
    pub needs_pods: bool,
    /// When to look again.
    pub recheck: Option<Timestamp>,
}

impl Checked {
    fn rest(result: RestartResult) -> Self {
        Self { result, needs_pods: false, recheck: None }
    }
}

/// What is remembered of the restart for the content that is recorded on the workload.
pub(super) fn remembered<'w>(
    world: &'w World,
    key: &WorkloadKey,
    facts: &WorkloadFacts,
) -> Option<&'w RestartResult> {
    let LastRestart { content, result } = world.memory().workload(key).restarted()?;
    (digest_of(facts.restarts.applied.as_deref()?) == content).then_some(result)
}

/// Since when its restart has been over or under way, where that is not so long ago that it must have soaked.
/// Where we remove pods (`by_removal`), only the record tells that it is over.
pub(super) fn recent(
    facts: &WorkloadFacts,
    by_removal: bool,
    soak: Duration,
    now: Timestamp,
) -> Option<Timestamp> {
    let is_ours = facts.restarted_by_us();
    // What was only adopted has not restarted.
    let recorded = facts.restarts.recorded.filter(|_| by_removal && facts.restarts.track.streak > 0);
    let began = facts.restarts.last_restart.filter(|_| is_ours).max(recorded);
    began.filter(|began| now < at_after(*began, RECENT.saturating_add(soak)))
}

/// How the restart of a workload went that runs the content it is recorded with.
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
    /// Pods from before that run the old content: how they are says nothing.
    begun: Option<Timestamp>,
    is_over: bool,
    /// A rollout of a Deployment or StatefulSet is complete when all of its pods have been ready; a
    /// DaemonSet's is not.
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
            // Our managedFields entry has been written again since.
            pods = staying().collect();
        }
        if self.seen.resource_version.as_ref() != Some(&self.facts.resource_version) {
            // It has changed since they were listed.
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

/// What shows that a restart that is done pod by pod fails: a replaced pod crashes, or does not become ready.
/// The others stay.
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
