//! The workloads of a monitor in line, and what is known of each: kept for one look at a world, since every
//! workload asks about those before it.

use std::{
    cell::RefCell,
    collections::{BTreeMap, BTreeSet},
    rc::Rc,
};

use crate::{
    model::RestartResult,
    names::{NamespacedName, WorkloadKey},
};

/// Whether a workload is to be restarted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Readiness {
    /// The workload runs the current content, or the reconciler does not restart it.
    No,
    /// Its content is not known yet.
    Unknown,
    /// It is, and its pods that have been replaced already fail with the new content.
    Failed,
    /// It is, and something else than its turn holds it back.
    Held,
    /// It is, and its owner holds back its old pods, by a partition: no workload waits for that.
    Left,
    /// It is, and only these monitors' windows hold it back.
    Ready(BTreeSet<NamespacedName>),
}

/// What one look at a world found out about the workloads of monitors, kept for the next question of the same
/// look: a status asks for each of them.
#[derive(Debug, Default)]
pub(crate) struct Lines {
    pub(super) due: RefCell<BTreeMap<WorkloadKey, Readiness>>,
    pub(super) lines: RefCell<BTreeMap<NamespacedName, Rc<Line>>>,
}

/// One workload in the line, in which they come by the group of their stage, and by name.
#[derive(Debug)]
pub(super) struct StagedWorkload {
    pub(super) group: usize,
    pub(super) key: WorkloadKey,
    /// How its last restart goes, for those who wait for it.
    pub(super) result: RestartResult,
}

/// The workloads of a monitor, in line, and what is asked of them again and again.
#[derive(Debug)]
pub(super) struct Line {
    pub(super) workloads: Vec<StagedWorkload>,
    pub(super) at: BTreeMap<WorkloadKey, usize>,
    pub(super) failed: usize,
    pub(super) under_way: usize,
    /// The first group of which one is under way.
    pub(super) first_under_way: Option<usize>,
    pub(super) front: RefCell<Front>,
}

/// What is known of which workloads are due, from the front of a line as far as somebody has asked.
#[derive(Debug, Default)]
pub(super) struct Front {
    /// Up to each workload, how many are due and held back by nothing but their turn.
    pub(super) ready: Vec<usize>,
    /// The first one that is due, for whatever reason it does not go, and its group.
    pub(super) first_due: Option<(usize, usize)>,
}

impl Line {
    pub(super) fn of(mut workloads: Vec<StagedWorkload>) -> Self {
        workloads.sort_by(|a, b| (a.group, &a.key.name, a.key.kind).cmp(&(b.group, &b.key.name, b.key.kind)));
        let failed = workloads.iter().filter(|one| matches!(one.result, RestartResult::Failed(_))).count();
        let under_way = workloads.iter().filter(|one| one.result == RestartResult::UnderWay).count();
        let first_under_way = workloads.iter().find(|one| one.result == RestartResult::UnderWay);
        let first_under_way = first_under_way.map(|one| one.group);
        let at = workloads.iter().enumerate().map(|(at, one)| (one.key.clone(), at)).collect();
        Self { workloads, at, failed, under_way, first_under_way, front: RefCell::default() }
    }
}
