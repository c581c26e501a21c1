//! Whose turn it is among the workloads of a monitor: who comes first, how many at once, and that no workload
//! follows where one has failed. Everything is read off the workloads themselves, each time anew, so that
//! there is no place in a sequence to lose; only how a soak goes is remembered (see [`soak`](super::soak)).
//!
//! A workload has its turn if no other one of the monitor has failed with the content that is its current
//! one, no one of an earlier group is due or under way, and fewer are under way than may be. Where fewer
//! places are free than workloads are due, the first by name have them: plans made at one time, for different
//! workloads, agree on who goes.

use std::{collections::BTreeSet, rc::Rc};

use jiff::Timestamp;

use super::{
    line::{Line, Lines, Readiness, StagedWorkload},
    reach::{declared_reach, staged},
    readiness::readiness,
    soak::{recent, remembered},
};
use crate::{
    api::StrategyType,
    model::{LastRestart, RestartResult, Rollout, RolloutFault, WaitReason, WorkloadFacts, World, digest_of},
    names::{NamespacedName, WorkloadKey},
    validate::{CompiledMonitor, CompiledStage},
};

/// Whether it is this workload's turn by what each of these monitors says.
///
/// # Errors
/// What it waits for.
pub(super) fn may_go(
    world: &World,
    lines: &Lines,
    key: &WorkloadKey,
    monitors: &BTreeSet<NamespacedName>,
    now: Timestamp,
) -> Result<(), WaitReason> {
    for (name, compiled, stage) in staged(world, monitors) {
        Turns { world, lines, name, compiled, stage, now }.may_go(key)?;
    }
    Ok(())
}

/// Whether what goes pod by pod goes on: it has its turn already, and stops only where another workload has
/// failed.
///
/// # Errors
/// Another one has.
pub(super) fn goes_on(
    world: &World,
    lines: &Lines,
    key: &WorkloadKey,
    monitors: &BTreeSet<NamespacedName>,
    now: Timestamp,
) -> Result<(), WaitReason> {
    for (name, compiled, stage) in staged(world, monitors) {
        let turns = Turns { world, lines, name, compiled, stage, now };
        turns.is_stopped(key, &turns.line())?;
    }
    Ok(())
}

/// The workloads of a monitor whose turn it is now: where one gets through, these are looked at again.
pub fn whose_turn(world: &World, monitor: &NamespacedName, now: Timestamp) -> Vec<WorkloadKey> {
    let monitors = BTreeSet::from([monitor.clone()]);
    let lines = Lines::default();
    let mut next = Vec::new();
    for (name, compiled, stage) in staged(world, &monitors) {
        let turns = Turns { world, lines: &lines, name, compiled, stage, now };
        for workload in &turns.line().workloads {
            if !matches!(lines.due(world, &workload.key, now), Readiness::Ready(_)) {
                continue;
            }
            if turns.may_go(&workload.key).is_err() {
                break;
            }
            next.push(workload.key.clone());
        }
    }
    next
}

impl Lines {
    fn due(&self, world: &World, key: &WorkloadKey, now: Timestamp) -> Readiness {
        if let Some(due) = self.due.borrow().get(key) {
            return due.clone();
        }
        let due = readiness(world, key, now);
        self.due.borrow_mut().insert(key.clone(), due.clone());
        due
    }
}

struct Turns<'a> {
    world: &'a World,
    lines: &'a Lines,
    name: &'a NamespacedName,
    compiled: &'a CompiledMonitor,
    stage: &'a CompiledStage,
    now: Timestamp,
}

impl Turns<'_> {
    fn may_go(&self, key: &WorkloadKey) -> Result<(), WaitReason> {
        let line = self.line();
        let Some(mine) = line.at.get(key).copied() else { return Ok(()) };
        self.is_stopped(key, &line)?;
        if is_begun(self.world, key) {
            return Ok(());
        }
        let group = line.workloads[mine].group;
        let is_mine_under_way = line.workloads[mine].result == RestartResult::UnderWay;
        let under_way = line.under_way - usize::from(is_mine_under_way);
        let free = self.stage.max_concurrent.map(|max| max.saturating_sub(under_way));
        if line.first_under_way.is_some_and(|first| first < group) || free == Some(0) {
            return Err(WaitReason::Stage);
        }
        // Without a number of places only earlier groups count.
        let before = match free {
            Some(_) => mine,
            None => line.workloads.partition_point(|one| one.group < group),
        };
        match self.is_blocked(&line, before, group, free) {
            true => Err(WaitReason::Stage),
            false => Ok(()),
        }
    }

    /// Whether another one has failed. A workload that has failed itself may go again: it is due, so its
    /// content is another one.
    fn is_stopped(&self, key: &WorkloadKey, line: &Line) -> Result<(), WaitReason> {
        let has_failed = line
            .at
            .get(key)
            .is_some_and(|mine| matches!(line.workloads[*mine].result, RestartResult::Failed(_)));
        let others = line.failed - usize::from(has_failed);
        if others > 0 && !self.had_failed(key) {
            return Err(WaitReason::StageStopped);
        }
        Ok(())
    }

    /// Whether, of the first so many in the line, one of an earlier group is due, or as many have their turn
    /// as there are places. Which workloads are due is found out from the front, as far as it takes, once for
    /// all questions of the same look.
    fn is_blocked(&self, line: &Line, before: usize, group: usize, free: Option<usize>) -> bool {
        let mut front = line.front.borrow_mut();
        loop {
            let known = front.ready.len().min(before);
            let is_earlier_due = front.first_due.is_some_and(|(at, of)| at < before && of < group);
            let ready = known.checked_sub(1).map_or(0, |last| front.ready[last]);
            if is_earlier_due || free.is_some_and(|free| ready >= free) {
                return true;
            }
            if known == before {
                return false;
            }
            let workload = &line.workloads[known];
            let due = self.lines.due(self.world, &workload.key, self.now);
            if !matches!(due, Readiness::No | Readiness::Left) && front.first_due.is_none() {
                front.first_due = Some((known, workload.group));
            }
            // A workload that only another monitor's window shuts out keeps no workload of its own group
            // waiting.
            let has_turn = matches!(due, Readiness::Ready(shut) if shut.iter().all(|by| by == self.name));
            front.ready.push(ready + usize::from(has_turn));
        }
    }

    fn line(&self) -> Rc<Line> {
        if let Some(line) = self.lines.lines.borrow().get(self.name) {
            return line.clone();
        }
        let reached = self
            .world
            .workloads_in(&self.name.namespace)
            .filter(|(key, facts)| !facts.deleting && declared_reach(self.compiled, key, facts).is_some());
        let workloads = reached.map(|(key, facts)| {
            let group = self.stage.group(|selector| facts.template_labels.are_selected_by(selector));
            StagedWorkload { group, key: key.clone(), result: self.went(key, facts) }
        });
        let line = Rc::new(Line::of(workloads.collect()));
        self.lines.lines.borrow_mut().insert(self.name.clone(), line.clone());
        line
    }

    /// Content is only compared where that makes a difference: what failed or soaked with content that has
    /// been changed since is due, and nothing else.
    fn went(&self, key: &WorkloadKey, facts: &WorkloadFacts) -> RestartResult {
        let is_due = || {
            let readiness = self.lines.due(self.world, key, self.now);
            matches!(readiness, Readiness::Held | Readiness::Left | Readiness::Ready(_))
        };
        match self.seems(key, facts) {
            RestartResult::Failed(_) if is_due() => RestartResult::Through,
            RestartResult::UnderWay
                if !is_begun(self.world, key) && facts.rollout != Rollout::Unfinished && is_due() =>
            {
                RestartResult::Through
            }
            went => went,
        }
    }

    /// As the workload and our memory show it; what soaks is under way.
    fn seems(&self, key: &WorkloadKey, facts: &WorkloadFacts) -> RestartResult {
        if is_begun(self.world, key) || self.world.memory().under_way().is_reserved(key, self.now) {
            return RestartResult::UnderWay;
        }
        if let Some(LastRestart { result: RestartResult::Failed(fault), .. }) =
            self.world.memory().workload(key).restarted()
        {
            return RestartResult::Failed(fault.clone());
        }
        let is_ours = facts.restarted_by_us();
        match remembered(self.world, key, facts) {
            Some(RestartResult::Through) => return RestartResult::Through,
            _ if is_ours && facts.rollout_at(self.now) == Rollout::Stuck => {
                return RestartResult::Failed(RolloutFault::Deadline);
            }
            // Pod by pod.
            _ if facts.is_being_replaced() => return RestartResult::UnderWay,
            Some(_) => return RestartResult::UnderWay,
            None => {}
        }
        // Nobody has looked yet, since we began to lead: looking at it will tell.
        let by_removal = self.compiled.strategy != StrategyType::Rollout;
        let may_soak =
            || !self.stage.soak.is_zero() && recent(facts, by_removal, self.stage.soak, self.now).is_some();
        let is_rolling = is_ours && facts.rollout == Rollout::Unfinished;
        if is_rolling || may_soak() { RestartResult::UnderWay } else { RestartResult::Through }
    }

    fn had_failed(&self, key: &WorkloadKey) -> bool {
        let facts = self.world.workloads().get(key);
        facts.is_some_and(|facts| matches!(self.seems(key, facts), RestartResult::Failed(_)))
    }
}

/// Whether we have begun a restart that its record does not show yet: a moment ago, or pod by pod.
fn is_begun(world: &World, key: &WorkloadKey) -> bool {
    let recorded =
        world.workloads().get(key).and_then(|facts| facts.restarts.applied.as_deref()).map(digest_of);
    let ours = world.memory().workload(key).restarted().filter(|ours| ours.result == RestartResult::UnderWay);
    ours.is_some_and(|ours| recorded != Some(&*ours.content))
}
