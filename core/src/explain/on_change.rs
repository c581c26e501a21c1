//! The effect of a change of one object: which workloads would restart, and which workloads use the object
//! and would not restart. The planner's inputs decide the effect.

use std::collections::BTreeSet;

use super::{
    restart_outlook::{because, exempt, not_asked, unwatched},
    restart_reason::RestartReason,
    said::About,
};
use crate::{
    model::{WaitReason, World},
    names::{Declarer, ObjectKey, WorkloadKey},
    plan::restart::{Inputs, RestartState, Wait, reach::workloads_referring, workloads_using},
};

/// The effect of a change of an object on one workload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OnChange {
    /// The workload that uses the object.
    pub workload: WorkloadKey,
    /// The monitors that declare the workload's restart.
    pub monitors: Vec<Declarer>,
    /// Whether the workload's own annotation declares its restart.
    pub by_annotation: bool,
    /// Why the workload does not restart: one word, and a sentence; `None` for a workload that restarts.
    pub declined: Option<(RestartReason, String)>,
}

/// Returns the effect of a change of this object on each workload that uses it, or that a monitor restarts
/// for it.
pub fn on_change(world: &World, object: &ObjectKey) -> Vec<OnChange> {
    let mut all: BTreeSet<WorkloadKey> = workloads_using(world, object);
    all.extend(workloads_referring(world, object));
    let one = |workload: WorkloadKey| {
        let facts = world.workloads().get(&workload)?;
        let inputs = Inputs::of(world, &workload, facts);
        let counts = inputs.objects.contains_key(object) && inputs.pace.is_some();
        let declined = || {
            exempt(world, object)
                .or_else(|| {
                    let state = RestartState::Unauthorized(inputs.refused.clone()?);
                    Some(because(state, &About::nothing()))
                })
                .or_else(|| {
                    let state = RestartState::Waiting(Wait::for_event(WaitReason::Authority));
                    inputs.pending.then(|| because(state, &About::nothing()))
                })
                .or_else(|| {
                    let asked = inputs.pace.is_some();
                    asked.then(|| {
                        let message = format!(
                            "the monitor or annotation of this workload does not watch {}",
                            object.name
                        );
                        (RestartReason::NotWatched, message)
                    })
                })
                .or_else(|| unwatched(world, &workload, facts))
                .unwrap_or_else(not_asked)
        };
        let declined = (!counts).then(declined);
        let (monitors, by_annotation) = match counts {
            true => (inputs.monitors.into_iter().collect(), inputs.by_annotation),
            false => (Vec::new(), false),
        };
        Some(OnChange { workload, monitors, by_annotation, declined })
    };
    all.into_iter().filter_map(one).collect()
}
