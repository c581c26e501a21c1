//! How the old pods of one workload are replaced, for every kind and strategy: what begins it, and what goes
//! on with it until none is left. docs/restarting.md has the table, and a test holds it against this.

use jiff::Timestamp;

use super::{
    backoff,
    brake::{Wait, WaitReason},
    budget::has_place,
    pods::{self, Before, Removal, RemovePod},
    restarts::{Case, LOOK_AGAIN, LOOK_AGAIN_ANYWAY},
    soak, stage, window,
    workload_plan::{RestartAction, WorkloadPlan, WorkloadState},
};
use crate::{
    api::StrategyType,
    model::{PodFacts, PodsSeen, Rollout, Went},
    plan::{Need, at_after},
};

impl Case<'_> {
    /// Why nobody restarts it, no matter who asks.
    pub(super) fn stopped(&self) -> Option<WorkloadState> {
        if self.facts.rollout == Rollout::Paused {
            return Some(WorkloadState::Paused);
        }
        let says_no = self.facts.restart.as_deref().is_some_and(|text| text.trim() == "false");
        (self.world.settings().annotations && says_no).then_some(WorkloadState::Suspended)
    }

    /// The first step for these old pods. Where the template is enough, it is the only one. Where pods are
    /// removed one by one, a record that they are to be removed is written first: it survives us, and content
    /// that changes back half-way differs from what is written.
    pub(super) fn begin(
        &self,
        seen: &PodsSeen,
        stale: &[&PodFacts],
        since: Timestamp,
        before: Before,
    ) -> Result<WorkloadPlan, Wait> {
        let (label, pending) = (self.content.label(), self.content.label_while(Some(before)));
        let restarting =
            |action| self.went(Went::UnderWay, WorkloadPlan::act(WorkloadState::Restarting, action));
        let rollout =
            |label| RestartAction::Rollout { label, stamp: self.stamp(), track: self.track_with_next() };
        // Nothing of the controller's to do: with a new template it would replace pods that run the content
        // already.
        if let Rollout::Partitioned(partition) = self.facts.rollout
            && self.pace.strategy == StrategyType::Rollout
            && self.is_held(stale, partition)
        {
            return Ok(WorkloadPlan::rest(self.held(stale, partition)));
        }
        self.opens(since, self.facts.last_restart)?;
        if !has_place(self.world, self.key, self.now) {
            return Ok(self.look_anyway(WaitReason::Budget));
        }
        if self.pace.strategy != StrategyType::Rollout {
            before.is_past(self.now)?;
            self.next(seen, stale, since)?;
            return Ok(restarting(RestartAction::Begin { label: pending, track: self.track_with_next() }));
        }
        match self.facts.rollout {
            // The template first: the pods that come are of the new revision.
            Rollout::OnDelete => {
                before.is_past(self.now)?;
                self.next(seen, stale, since)?;
                Ok(restarting(rollout(pending)))
            }
            Rollout::Partitioned(_) => {
                before.is_past(self.now)?;
                Ok(restarting(rollout(pending)))
            }
            _ => Ok(restarting(rollout(label))),
        }
    }

    /// The next step, until none is left of those that began before then. A list of pods that is too old to
    /// act by still says how it stands.
    pub(super) fn go_on(&self, before: Before) -> WorkloadPlan {
        if let Some(state) = self.stopped() {
            let plan = WorkloadPlan::rest(state);
            // Nothing waits for a workload that its owner has taken out.
            return match plan.state {
                WorkloadState::Suspended => self.went(Went::Through, plan),
                _ => plan,
            };
        }
        let need = |state| {
            let plan = WorkloadPlan::need(vec![Need::Pods(self.key.clone())]);
            self.went(Went::UnderWay, WorkloadPlan { state, ..plan })
        };
        let Some(seen) = self.last_seen() else { return need(WorkloadState::Restarting) };
        let plan = self.step(seen, before).unwrap_or_else(|wait| self.went(Went::UnderWay, self.wait(wait)));
        match pods::is_fresh(seen, before.time(), self.now) {
            true => plan,
            false => need(plan.state),
        }
    }

    fn step(&self, seen: &PodsSeen, before: Before) -> Result<WorkloadPlan, Wait> {
        let stale = self.stale(seen, before);
        if stale.is_empty() {
            return Ok(self.replaced());
        }
        let failed = soak::failed_among(self.replacements(seen, &stale), self.now);
        if let (Some(why), Some(_)) = (failed, self.soak()) {
            let state = WorkloadState::Failed { reason: "StageFailed", message: self.stage_failed(&why) };
            let recheck = Some(at_after(self.now, soak::WATCH));
            return Ok(self.went(Went::Failed(why), WorkloadPlan { recheck, ..WorkloadPlan::rest(state) }));
        }
        self.patience()?;
        // It has its turn, but for where another one has failed meanwhile.
        stage::goes_on(self.world, self.lines, self.key, &self.inputs.monitors, self.now)
            .map_err(Wait::for_event)?;
        let by_controller = || {
            let recheck = Some(pods::add(self.now, LOOK_AGAIN_ANYWAY));
            self.went(
                Went::UnderWay,
                WorkloadPlan { recheck, ..WorkloadPlan::rest(WorkloadState::Restarting) },
            )
        };
        if self.pace.strategy != StrategyType::Rollout || self.facts.rollout == Rollout::OnDelete {
            return self.remove(seen, &stale, before);
        }
        match self.facts.rollout {
            // Nothing waits for pods that their owner holds.
            Rollout::Partitioned(partition) if self.is_held(&stale, partition) => {
                Ok(self.went(Went::Through, WorkloadPlan::rest(self.held(&stale, partition))))
            }
            Rollout::Partitioned(_) if self.is_stamped() => match self.rollout_is_late() {
                Some(state) => {
                    let why = "its rollout has not come to its partition in time".to_owned();
                    Ok(self.went(Went::Failed(why), WorkloadPlan::rest(state)))
                }
                None => Ok(by_controller()),
            },
            Rollout::Unfinished => Ok(by_controller()),
            // Begun by removal, under another strategy.
            _ => {
                let streak = self.facts.track.streak;
                backoff::interval(&self.pace, streak, self.facts.last_restart, self.now)?;
                self.begin(seen, &stale, before.time(), before)
            }
        }
    }

    /// Removes the next pod.
    fn remove(&self, seen: &PodsSeen, stale: &[&PodFacts], before: Before) -> Result<WorkloadPlan, Wait> {
        let pod = self.next(seen, stale, before.time())?;
        self.opens(before.time(), Some(pod.created))?;
        // A rolling update of somebody else's replaces pods already; one that does not serve can go at once.
        if self.facts.rollout == Rollout::Unfinished && pod.ready {
            return Ok(self.after_rollout());
        }
        let action = RestartAction::RemovePods {
            label: self.content.label(),
            pods: vec![RemovePod::from(pod)],
            how: Removal::by(self.pace.strategy),
        };
        let recheck = Some(pods::add(self.now, LOOK_AGAIN));
        let plan = WorkloadPlan { recheck, ..WorkloadPlan::act(WorkloadState::Restarting, action) };
        Ok(self.went(Went::UnderWay, plan))
    }

    /// Only the clock tells that a partitioned rollout is stuck.
    fn rollout_is_late(&self) -> Option<WorkloadState> {
        let began = self.facts.last_restart.filter(|_| self.facts.restarted_by_us())?;
        (at_after(began, soak::PATIENCE) <= self.now).then(|| WorkloadState::Failed {
            reason: "RolloutStuck",
            message: "has not become ready in time since the restart; see the events of its pods".into(),
        })
    }

    /// Whether the windows of all its monitors are open.
    fn opens(&self, since: Timestamp, last: Option<Timestamp>) -> Result<(), Wait> {
        window::opens(self.world, &self.inputs.monitors, since, last, self.now)
    }

    /// The pod that goes next, when one may.
    fn next<'p>(
        &self,
        seen: &PodsSeen,
        stale: &[&'p PodFacts],
        since: Timestamp,
    ) -> Result<&'p PodFacts, Wait> {
        let pod = pods::next_of_workload(self.facts, self.key.kind, seen, stale)
            .ok_or(Wait::until(WaitReason::PodsNotReady, pods::add(self.now, LOOK_AGAIN)))?;
        if !self.is_nudged(since, Some(pod.created)) {
            backoff::interval(&self.pace, self.facts.track.streak, Some(pod.created), self.now)?;
        }
        Ok(pod)
    }

    /// The pods that run old content and are to stay.
    pub(super) fn stale<'p>(&self, seen: &'p PodsSeen, before: Before) -> Vec<&'p PodFacts> {
        let is_stale = |pod: &&PodFacts| pod.is_staying() && !pod.untouchable && before.is_before(pod);
        seen.pods.iter().filter(is_stale).collect()
    }

    /// The latest list of pods for this version of the workload.
    pub(super) fn last_seen(&self) -> Option<&PodsSeen> {
        let seen = self.world.pods(self.key)?;
        (seen.resource_version == self.facts.resource_version).then_some(seen)
    }

    /// The pods that are not to be replaced any more: those that came for them, for one.
    fn replacements<'p>(
        &self,
        seen: &'p PodsSeen,
        stale: &[&'p PodFacts],
    ) -> impl Iterator<Item = &'p PodFacts> {
        seen.pods.iter().filter(|pod| !stale.iter().any(|old| old.uid == pod.uid))
    }

    /// Whether the latest list of pods shows that there is nothing to do above the partition.
    pub(super) fn is_seen_held(&self, since: Timestamp) -> bool {
        let Rollout::Partitioned(partition) = self.facts.rollout else { return false };
        self.pace.strategy == StrategyType::Rollout
            && self.last_seen().is_some_and(|seen| {
                let stale = self.stale(seen, pods::before(since, self.facts.recorded));
                !stale.is_empty() && self.is_held(&stale, partition)
            })
    }

    fn is_held(&self, stale: &[&PodFacts], partition: i32) -> bool {
        stale.iter().all(|pod| pods::ordinal(&pod.name) < i64::from(partition))
    }

    fn held(&self, stale: &[&PodFacts], partition: i32) -> WorkloadState {
        WorkloadState::Held { partition, old: stale.len() }
    }
}
