//! Plans for an object in a slot that somebody has deleted and that a finalizer keeps with its content.

use std::time::Duration;

use jiff::Timestamp;

use super::{
    problem::{CopyProblem, ProblemReason},
    slot_plan::{SlotPlan, SlotState},
};
use crate::{
    model::Deletion,
    names::{Declarer, ObjectKey},
    plan::at_after,
};

/// How long a deletion takes, unless a finalizer delays it.
const GOES_WITHIN: Duration = Duration::from_secs(60);

/// Plans the slot of an object that is being deleted. The plan writes no object: a write to the terminating
/// object would not last, and no object can be created in its place. At first the slot has the state
/// `meanwhile`. A deletion that takes longer than a minute is a problem, whose message ends with `then`, the
/// next step.
pub(super) fn plan_terminating(
    rule: &Declarer,
    slot: &ObjectKey,
    deletion: &Deletion,
    meanwhile: SlotState,
    then: &str,
    now: Timestamp,
) -> SlotPlan {
    let late = at_after(deletion.since, GOES_WITHIN);
    match now < late {
        true => SlotPlan { recheck: Some(late), ..SlotPlan::rest(Some(rule), meanwhile) },
        false => SlotPlan::rest(Some(rule), SlotState::Blocked(problem(slot, deletion, then))),
    }
}

fn problem(slot: &ObjectKey, deletion: &Deletion, then: &str) -> CopyProblem {
    let kept = match deletion.finalizers.as_slice() {
        [] => "something".to_owned(),
        names => format!("finalizer {}", names.join(", ")),
    };
    let kind = slot.kind.resource().singular();
    let message = format!(
        "the object was deleted at {}, but {kept} still keeps it with its old content: wait for the finalizer's controller, or remove the \
         finalizers (kubectl -n {} patch {kind} {} --type merge -p '{{\"metadata\":{{\"finalizers\":null}}}}'); {then}",
        deletion.since, slot.namespace, slot.name
    );
    CopyProblem::new(slot, ProblemReason::Terminating, message)
}
