//! Stages of a monitor's restarts: which workload comes first, how many workloads restart at once, and that
//! no workload follows after a failed one. Every look reads the stages from the workloads themselves, so no
//! place in a sequence can be lost. Only the progress of a soak is remembered (see [`soak`](super::soak)).
//!
//! A workload has its turn if no other workload of the monitor has failed with its current content, no
//! workload of an earlier group is due or under way, and fewer workloads than allowed are under way. If fewer
//! places are free than workloads are due, the first workloads by name get the places: simultaneous plans for
//! different workloads agree on which of them restart.

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
    names::{Declarer, WorkloadKey},
    validate::{CompiledMonitor, CompiledStage},
};

/// Checks that this workload has its turn in each of these monitors.
///
/// # Errors
/// The reason to wait.
pub(super) fn may_go(
    world: &World,
    lines: &Lines,
    key: &WorkloadKey,
    monitors: &BTreeSet<Declarer>,
    now: Timestamp,
) -> Result<(), WaitReason> {
    for (name, compiled, stage) in staged(world, monitors) {
        Turns { world, lines, name, compiled, stage, now }.may_go(key)?;
    }
    Ok(())
}

/// Whether a pod-by-pod restart may continue: the workload has its turn already, and stops only if a
/// different workload has failed.
///
/// # Errors
/// A different workload has failed.
pub(super) fn goes_on(
    world: &World,
    lines: &Lines,
    key: &WorkloadKey,
    monitors: &BTreeSet<Declarer>,
    now: Timestamp,
) -> Result<(), WaitReason> {
    for (name, compiled, stage) in staged(world, monitors) {
        let turns = Turns { world, lines, name, compiled, stage, now };
        turns.is_stopped(key, &turns.line())?;
    }
    Ok(())
}

/// The workloads of a monitor whose turn it is now. The reconciler plans these workloads again when a restart
/// succeeds.
pub fn whose_turn(world: &World, monitor: &Declarer, now: Timestamp) -> Vec<WorkloadKey> {
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
    name: &'a Declarer,
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
        // Without a limit on workloads under way, only earlier groups count.
        let before = match free {
            Some(_) => mine,
            None => line.workloads.partition_point(|one| one.group < group),
        };
        match self.is_blocked(&line, before, group, free) {
            true => Err(WaitReason::Stage),
            false => Ok(()),
        }
    }

    /// Stops the workload if a different workload has failed. A workload that has failed itself may restart
    /// again: it is due, so its content has changed.
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

    /// Whether one of the first `before` workloads in the line is due and in an earlier group, or the first
    /// workloads already take all free places. Computes from the front which workloads are due, as far as
    /// necessary, and caches the results for the same look.
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
            // A workload that a second monitor's window shuts out does not keep its own group waiting.
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
            .workloads_in(self.name.namespace())
            .filter(|(key, facts)| !facts.deleting && declared_reach(self.compiled, key, facts).is_some());
        let workloads = reached.map(|(key, facts)| {
            let group = self.stage.group(|selector| facts.template_labels.are_selected_by(selector));
            StagedWorkload { group, key: key.clone(), result: self.went(key, facts) }
        });
        let line = Rc::new(Line::of(workloads.collect()));
        self.lines.lines.borrow_mut().insert(self.name.clone(), line.clone());
        line
    }

    /// The result of a workload's last restart. A failure or soak with outdated content is ignored: the
    /// workload is merely due. Content is compared only if the result depends on it.
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

    /// The result as the workload and our memory show it; a restart that soaks is under way.
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
            // Pods are being replaced one by one.
            _ if facts.is_being_replaced() => return RestartResult::UnderWay,
            Some(_) => return RestartResult::UnderWay,
            None => {}
        }
        // We have not planned the workload since we began to lead; its plan will show the result.
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

/// Whether we have begun a restart that the workload's record does not show yet: a restart of a moment ago,
/// or a pod-by-pod restart.
fn is_begun(world: &World, key: &WorkloadKey) -> bool {
    let recorded =
        world.workloads().get(key).and_then(|facts| facts.restarts.applied.as_deref()).map(digest_of);
    let ours = world.memory().workload(key).restarted().filter(|ours| ours.result == RestartResult::UnderWay);
    ours.is_some_and(|ours| recorded != Some(&*ours.content))
}
