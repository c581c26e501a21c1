//! The workloads of a monitor in their order, with the facts of each workload. The line is cached for one
//! look at a world, since the decision about a workload depends on all earlier workloads.

use std::{
    cell::RefCell,
    collections::{BTreeMap, BTreeSet},
    rc::Rc,
};

use crate::{
    model::RestartResult,
    names::{Declarer, WorkloadKey},
};

/// Whether a workload is to be restarted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Readiness {
    /// The workload runs the current content, or the reconciler does not restart it.
    No,
    /// The workload's content is not known yet.
    Unknown,
    /// The workload is due, and its replaced pods already fail with the new content.
    Failed,
    /// The workload is due, and a different reason than its turn delays the restart.
    Held,
    /// The workload is due, and its owner keeps old pods by a partition: no workload waits for these pods.
    Left,
    /// The workload is due, and only the windows of these monitors delay it.
    Ready(BTreeSet<Declarer>),
}

/// Cached results about the workloads of monitors, for one look at a world: a status asks for each workload.
#[derive(Debug, Default)]
pub(crate) struct Lines {
    pub(super) due: RefCell<BTreeMap<WorkloadKey, Readiness>>,
    pub(super) lines: RefCell<BTreeMap<Declarer, Rc<Line>>>,
}

/// One workload in the line. The line is sorted by the group of the stage, then by name.
#[derive(Debug)]
pub(super) struct StagedWorkload {
    pub(super) group: usize,
    pub(super) key: WorkloadKey,
    /// The result of the workload's last restart, for the workloads that wait for this one.
    pub(super) result: RestartResult,
}

/// The workloads of a monitor in their order, and results that are needed again and again.
#[derive(Debug)]
pub(super) struct Line {
    pub(super) workloads: Vec<StagedWorkload>,
    pub(super) at: BTreeMap<WorkloadKey, usize>,
    pub(super) failed: usize,
    pub(super) under_way: usize,
    /// The first group with a workload under way.
    pub(super) first_under_way: Option<usize>,
    pub(super) front: RefCell<Front>,
}

/// The due workloads at the front of a line, as far as computed.
#[derive(Debug, Default)]
pub(super) struct Front {
    /// For each workload: how many workloads, from the first up to this one, are due and delayed only by
    /// their turn.
    pub(super) ready: Vec<usize>,
    /// The index and the group of the first workload that is due or may be due, whatever delays the workload.
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
