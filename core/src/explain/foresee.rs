//! Forecasts of restarts: the reconciler's own plan, made again for the time after each wait that ends by
//! time. Callers carry out planned copies in the world first, since workloads use copies.

use std::{collections::BTreeSet, sync::Arc};

use jiff::Timestamp;

use crate::{
    digest::Fingerprint,
    model::{ObjectFacts, Owner, WaitReason, World},
    names::{Declarer, ObjectKey, WorkloadKey},
    plan::{
        copy::{CopyAction, CopyWrite, SlotPlan},
        restart::{RestartState, SelectedPodsPlan, WorkloadPlan, plan_selected_pods, plan_workload},
    },
};

/// The maximum number of successive waits that a forecast skips; more waits never follow one another.
const WAITS: usize = 8;
/// The UID and version of a copy that is not written yet.
const PLANNED: &str = "planned";

/// The plan at present, and the plan after its waits.
#[derive(Clone, Debug)]
pub struct Foreseen<P> {
    /// The plan at present.
    pub now: P,
    /// The plan after every wait that ends by time.
    pub then: P,
    /// When every wait that ends by time is over.
    pub at: Timestamp,
    /// The reasons for the waits that end by time, in order.
    pub waits: Vec<WaitReason>,
}

/// Forecasts a workload's restart. Assumes that the workload's known pods stay the same.
pub fn foresee_workload(world: &mut World, key: &WorkloadKey, now: Timestamp) -> Foreseen<WorkloadPlan> {
    let plan = |at| {
        world.edit_pods(key, |seen| seen.at = at);
        plan_workload(world, key, at)
    };
    foresee(now, plan, |plan| &plan.state)
}

/// Forecasts the restart of the pods that a monitor itself selects.
pub fn foresee_pods(world: &mut World, monitor: &Declarer, now: Timestamp) -> Foreseen<SelectedPodsPlan> {
    let plan = |at| {
        world.edit_selected_pods(monitor, |seen| seen.at = at);
        plan_selected_pods(world, monitor, at)
    };
    foresee(now, plan, |plan| &plan.state)
}

fn foresee<P: Clone>(
    now: Timestamp,
    mut plan: impl FnMut(Timestamp) -> P,
    state: impl Fn(&P) -> &RestartState,
) -> Foreseen<P> {
    let first = plan(now);
    let mut foreseen = Foreseen { now: first.clone(), then: first, at: now, waits: Vec::new() };
    for _ in 0..WAITS {
        let Some(wait) = state(&foreseen.then).wait() else { break };
        let Some(until) = wait.ends_at().filter(|until| *until > foreseen.at) else { break };
        foreseen.waits.push(wait.reason);
        (foreseen.then, foreseen.at) = (plan(until), until);
    }
    foreseen
}

/// Carries out the plans of these slots in the world alone. Returns the slots whose copies appear, disappear
/// or change their content.
pub fn carry_out<'p>(
    world: &mut World,
    plans: impl IntoIterator<Item = (&'p ObjectKey, &'p SlotPlan)>,
    now: Timestamp,
) -> BTreeSet<ObjectKey> {
    let mut changed = BTreeSet::new();
    for (slot, plan) in plans {
        match &plan.action {
            Some(CopyAction::Write(write)) if !is_there(world, slot, write) => {
                make(world, slot, write, now);
                changed.insert(slot.clone());
            }
            Some(CopyAction::Delete(_)) => {
                world.set_object(slot.clone(), None);
                changed.insert(slot.clone());
            }
            // The planned write changes only marks, and not the content.
            Some(
                CopyAction::Write(_)
                | CopyAction::MarkRemoval(..)
                | CopyAction::MarkStaying(..)
                | CopyAction::Unmark(_)
                | CopyAction::Vouch(..)
                | CopyAction::Release(_),
            )
            | None => {}
        }
    }
    changed
}

fn is_there(world: &World, slot: &ObjectKey, write: &CopyWrite) -> bool {
    !write.anew && world.fingerprint(slot).is_some_and(|print| write.intent.same_content(print))
}

fn make(world: &mut World, slot: &ObjectKey, write: &CopyWrite, now: Timestamp) {
    let (intent, known) = (&write.intent, world.object(slot));
    let kept = known.filter(|_| !write.anew);
    let facts = ObjectFacts {
        uid: kept.map_or_else(|| PLANNED.into(), |facts| facts.uid.clone()),
        resource_version: PLANNED.into(),
        labels: Arc::new(intent.labels.iter().collect()),
        deletion: None,
        created: kept.map_or(now, |facts| facts.created),
        owners: Owner::hash(&intent.owner),
        // The time is in whole seconds, like the times that the API server writes.
        changed_at: Timestamp::from_second(now.as_second()).unwrap_or(now),
        content_fields: 0,
        restart: kept.and_then(|facts| facts.restart.clone()),
        marks: Some(Box::new(intent.marks.clone())),
        ownership: None,
        examined: None,
        trace: Default::default(),
        seen: Default::default(),
    };
    let print = Fingerprint {
        uid: facts.uid.clone(),
        resource_version: facts.resource_version.clone(),
        type_: intent.type_.clone(),
        immutable: intent.immutable,
        keys: intent.content.clone(),
        annotations: intent.annotations.clone(),
        role: None,
        keeper: None,
    };
    world.set_object(slot.clone(), Some(facts));
    world.assume_fingerprint(slot, print);
}
