//! The gates before a write, in their order: the first gate that is shut decides the plan of the slot.
//! The gates of `action_gates.rs` follow. docs/copy-model.md has all gates as one table, and a test compares the table
//! with the code.

use jiff::Timestamp;

use super::{
    bound_role::unbound,
    claims::{Claim, Wants},
    demand::{too_many_claimed, too_many_said},
    hold::{AGAIN, held, last_attempt, refused_problem},
    intent::Intent,
    problem::{CopyProblem, ProblemReason},
    slot_plan::{CopyAction, SlotPlan, SlotState, Version},
    spread::{braked, too_large},
};
use crate::{
    api::Recreate,
    digest::Fingerprint,
    model::{Attempt, ObjectFacts, World, WriteFault},
    names::ObjectKey,
    plan::at_after,
    validate::keeps_data,
};

/// A write that is due.
pub(super) struct DueWrite<'w> {
    pub(super) world: &'w World,
    pub(super) slot: &'w ObjectKey,
    pub(super) claim: &'w Claim<'w>,
    /// The object in the slot.
    pub(super) existing: Option<&'w ObjectFacts>,
    /// The object in the slot, if the object has valid marks of ours.
    pub(super) ours: Option<&'w ObjectFacts>,
    /// The content to write.
    pub(super) print: &'w Fingerprint,
    pub(super) intent: &'w Intent,
    /// Whether the write takes over an object that Copyrator did not make.
    pub(super) takes_over: bool,
    /// Whether no update can make the change.
    pub(super) anew: bool,
    /// Whether the write only follows the source.
    pub(super) follows: bool,
    pub(super) now: Timestamp,
}

impl<'w> DueWrite<'w> {
    /// The last attempt, if it was for this exact content over this exact version.
    pub(super) fn last_attempt(&self) -> Option<&'w Attempt> {
        last_attempt(self.world, self.slot, self.existing, self.intent)
    }

    /// The state of the slot before the write: blocked, if the last attempt was refused.
    pub(super) fn state(&self) -> SlotState {
        let refused = self.last_attempt().filter(|last| !last.replace);
        refused.map_or(SlotState::Outdated, |last| {
            SlotState::Blocked(refused_problem(self.world, self.slot, last))
        })
    }

    fn plan(&self, state: SlotState) -> SlotPlan {
        SlotPlan::rest(Some(self.claim.rule), state)
    }

    /// A blocked slot. A removal mark comes off `marked`: a mark from a moment in which no rule wanted the
    /// copy would delete the copy without a grace in the next such moment.
    fn blocked(
        &self,
        problem: CopyProblem,
        marked: Option<&ObjectFacts>,
        recheck: Option<Timestamp>,
    ) -> SlotPlan {
        SlotPlan { action: unmark(marked), recheck, ..self.plan(SlotState::Blocked(problem)) }
    }
}

/// Removes the note of an orphaned copy that a rule claims again.
pub(super) fn unmark(existing: Option<&ObjectFacts>) -> Option<CopyAction> {
    let facts =
        existing.filter(|facts| facts.marks.as_deref().is_some_and(|it| it.remove_after.is_some()))?;
    Some(CopyAction::Unmark(Version::of(facts)))
}

/// A condition that may delay a write or another action.
pub struct Gate<F> {
    /// The gate's name in docs/copy-model.md.
    pub name: &'static str,
    /// The reasons that the gate may report while the gate is shut.
    pub says: &'static [&'static str],
    /// Asks the gate.
    pub ask: F,
}

macro_rules! gate {
    ($name:ident$(: $($reason:ident),+)?) => {
        Gate { name: stringify!($name), says: &[$($(stringify!($reason)),+)?], ask: $name }
    };
}
pub(super) use gate;

/// Returns the plan of the slot while the gate is shut.
type Shut = fn(&DueWrite<'_>) -> Option<SlotPlan>;

/// The gates before a write, in their order.
pub(super) const WRITE_GATES: [Gate<Shut>; 7] = [
    gate!(room_for_copies: TooMany),
    gate!(replaceable: Refused),
    gate!(bindable: Refused, Forbidden),
    gate!(small_enough: TooLarge),
    gate!(unmarked_after_refusal: Refused, RefusedByPolicy, TypeError, TooLarge, Conflict, Forbidden, Failed),
    gate!(next_try: Refused, RefusedByPolicy, TypeError, TooLarge, Conflict, Contested),
    gate!(calm_source: Braked),
];

/// Returns the plan of the first gate that is shut; `None` if the write may be made.
pub(super) fn first_shut(write: &DueWrite<'_>) -> Option<SlotPlan> {
    WRITE_GATES.iter().find_map(|gate| {
        let plan = (gate.ask)(write)?;
        let is_named = match &plan.state {
            SlotState::Blocked(problem) => gate.says.contains(&problem.reason.as_str()),
            _ => true,
        };
        debug_assert!(is_named, "{} says {:?}", gate.name, plan.state);
        Some(plan)
    })
}

/// Shut if the rule would have more copies than one rule may have. Existing copies are still written.
fn room_for_copies(write: &DueWrite<'_>) -> Option<SlotPlan> {
    let is_new = write.existing.is_none() || write.takes_over;
    let copies = too_many_claimed(write.world, write.claim).filter(|_| is_new)?;
    let said = too_many_said(write.world, copies);
    let problem = CopyProblem::new(write.slot, ProblemReason::TooMany, said);
    Some(write.plan(SlotState::Blocked(problem)))
}

/// Shut if no update turns the object into what its template declares, and the template does not allow to
/// delete and recreate it.
fn replaceable(write: &DueWrite<'_>) -> Option<SlotPlan> {
    let Wants::Object { object, .. } = &write.claim.wants else { return None };
    let refused = write.last_attempt().filter(|last| last.replace);
    let is_stuck =
        object.recreate == Recreate::Never && write.existing.is_some() && (write.anew || refused.is_some());
    if !is_stuck {
        return None;
    }
    let kind = write.slot.kind.resource().kind;
    let way_out = match keeps_data(kind) {
        false => "set recreate: OnImmutable, which deletes it and makes it anew, or delete it",
        true => {
            "it is not made anew, since its data would go with it: have the template declare what is there, or delete the object"
        }
    };
    let why = refused.map(|last| format!(" ({})", last.message)).unwrap_or_default();
    let message = format!("no update turns the {kind} into what the template declares{why}: {way_out}");
    let problem = CopyProblem::fault(write.slot, WriteFault::Refused, message);
    // The memory keeps the attempt as long as the slot has a time for planning again.
    Some(write.blocked(problem, write.ours, Some(at_after(write.now, AGAIN))))
}

/// Shut if the identity of the rule may not bind the ClusterRole of a RoleBinding, or if the answer about
/// this right is not known yet.
fn bindable(write: &DueWrite<'_>) -> Option<SlotPlan> {
    let DueWrite { world, slot, claim, print, now, .. } = write;
    let plan = unbound(world, slot, claim, print, *now)?;
    let marked = write.existing.filter(|_| !write.takes_over && plan.needs.is_empty());
    Some(SlotPlan { action: unmark(marked), ..plan })
}

/// Shut if all copies of the source together are larger than one source may be.
fn small_enough(write: &DueWrite<'_>) -> Option<SlotPlan> {
    let message = too_large(write.world, write.claim, write.print)?;
    let problem = CopyProblem::fault(write.slot, WriteFault::TooLarge, message);
    // Namespaces appear and disappear without an event for the slots in other namespaces.
    let marked = write.existing.filter(|_| !write.takes_over);
    Some(write.blocked(problem, marked, Some(at_after(write.now, AGAIN))))
}

/// Shut while a copy whose last write was refused has a removal mark: the mark is removed first.
fn unmarked_after_refusal(write: &DueWrite<'_>) -> Option<SlotPlan> {
    let action = unmark(write.ours.filter(|_| write.last_attempt().is_some()))?;
    Some(SlotPlan { action: Some(action), ..write.plan(write.state()) })
}

/// Shut until the next try after a refusal, and while another writer changes or deletes the copy again and
/// again.
fn next_try(write: &DueWrite<'_>) -> Option<SlotPlan> {
    let DueWrite { world, slot, existing, intent, now, .. } = write;
    let (problem, until) = held(world, slot, *existing, intent, *now)?;
    Some(SlotPlan { recheck: Some(until), ..write.plan(SlotState::Blocked(problem)) })
}

/// Shut while the source keeps changing: its content spreads more and more slowly.
fn calm_source(write: &DueWrite<'_>) -> Option<SlotPlan> {
    let until = braked(write.world, write.slot, write.now).filter(|_| write.follows)?;
    let state = SlotState::Braked(until);
    Some(SlotPlan { action: unmark(write.existing), recheck: Some(until), ..write.plan(state) })
}
