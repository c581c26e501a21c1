//! The gates before an action, in their order, after the gates before a write (`write_gates.rs`). Each gate
//! asks one question right before the action.
//!
//! The questions are no needs (`plan::Need`). A plan with needs is undecided, and statuses and commands wait
//! for the decision; here the plan is decided. The answer to a need stays in the world. The world keeps no
//! answer to these questions, because the answer may be older than the change that causes the next action.

use jiff::Timestamp;

use super::{
    guard::Guards,
    rights::{can_be_withdrawn, is_too_old},
    slot_plan::{CopyAction, CopyWrite, SlotPlan},
    trial::{Trial, trial},
    write_gates::{Gate, gate},
};
use crate::{
    model::{Definition, Owner, World},
    names::{Declarer, NamespacedName, ObjectKey, TemplateKind},
};

/// An action that is due.
pub struct DueAction<'w, 'p> {
    /// The world of the plan, or a newer world.
    pub world: &'w World,
    /// The slot of the plan.
    pub slot: &'p ObjectKey,
    /// The plan with the action.
    pub plan: &'p SlotPlan,
    /// The user name that writes copies.
    pub account: &'p str,
    /// The present time.
    pub now: Timestamp,
}

impl<'p> DueAction<'_, 'p> {
    fn write(&self) -> Option<&'p CopyWrite> {
        match &self.plan.action {
            Some(CopyAction::Write(write)) => Some(write),
            _ => None,
        }
    }
}

/// The question of a gate. The gate is open if the answer is yes.
pub enum Check<'p> {
    /// What may the identity of this rule do? The last answer is too old to write by, so only a later plan may
    /// find the gate open.
    Rights(&'p Declarer),
    /// Are the CustomResourceDefinitions of Copyrator there, and were the rules or templates listed under the
    /// present definition?
    Definitions {
        /// Whether a template made the object.
        of_template: bool,
        /// The definition under which the rules or templates were listed.
        listed_under: Option<Definition>,
        /// The number of rules deleted so far ([`World::rules_gone`]).
        rules_gone: u64,
    },
    /// Does the instance of this kind, name and UID exist, and is not being deleted?
    Instance(Box<TemplateKind>, NamespacedName, String),
    /// Do these policies accept the object?
    Policies(&'p CopyWrite, Box<Guards>),
    /// Does the API server find no type error in the objects of this trial?
    Types(Trial),
}

/// Returns the question of a gate about an action; `None` if the gate does not concern the action.
type Ask = for<'w, 'p> fn(&DueAction<'w, 'p>) -> Option<Check<'p>>;

/// The gates before an action, in the order in which the reconciler asks their questions.
pub const ACTION_GATES: [Gate<Ask>; 5] = [
    gate!(fresh_rights),
    gate!(definitions_there),
    gate!(instance_there),
    gate!(policies: RefusedByPolicy),
    gate!(types: TypeError),
];

/// Asks again before a write if rights of the rule can be withdrawn. The new answer stops the write at once if
/// a right was withdrawn.
fn fresh_rights<'p>(due: &DueAction<'_, 'p>) -> Option<Check<'p>> {
    due.write()?;
    let rule = due.plan.rule.as_ref()?;
    // The cheap condition comes first: a template with many objects has many rights.
    let is_due = is_too_old(due.world.rule_authority(rule)?, due.now)
        && can_be_withdrawn(due.world, rule, due.world.declaration(rule)?);
    is_due.then_some(Check::Rights(rule))
}

/// Asks before a removal: to a watch, `kubectl delete crd` looks like the deletion of every rule.
fn definitions_there<'p>(due: &DueAction<'_, 'p>) -> Option<Check<'p>> {
    let world = due.plan.action.as_ref().filter(|action| action.removes()).map(|_| due.world)?;
    let rule = world.object(due.slot).and_then(|facts| Some(&facts.marks.as_deref()?.rule));
    Some(Check::Definitions {
        of_template: rule.is_some_and(|rule| rule.as_template().is_some()),
        listed_under: rule.map_or_else(|| world.definition(), |rule| world.definition_of(rule)).cloned(),
        rules_gone: world.rules_gone(),
    })
}

/// Asks before an object without owners gets its instance back as its owner.
///
/// `kubectl delete --cascade=orphan` makes the garbage collector remove the owner from each object, and then
/// delete the instance. The watch of the objects can be ahead of the watch of the instances. Such an object
/// looks as if somebody had removed its owner; with the owner back, Kubernetes would delete the object that
/// the user wanted to keep.
fn instance_there<'p>(due: &DueAction<'_, 'p>) -> Option<Check<'p>> {
    let owner = due.write()?.intent.owner.as_ref()?;
    due.world.object(due.slot).filter(|facts| facts.owners == Owner::NONE)?;
    let is_its =
        |kind: &&TemplateKind| *kind.kind.kind == *owner.kind && *kind.kind.api_version == *owner.api_version;
    let kind = due.world.settings().template_kinds.iter().find(is_its)?.clone();
    let name = NamespacedName::new(due.slot.namespace.clone(), &*owner.name);
    Some(Check::Instance(Box::new(kind), name, owner.uid.clone()))
}

fn policies<'p>(due: &DueAction<'_, 'p>) -> Option<Check<'p>> {
    let write = due.write()?;
    let guards = Guards::of(due.world, due.slot, write, due.account)?;
    Some(Check::Policies(write, Box::new(guards)))
}

fn types<'p>(due: &DueAction<'_, 'p>) -> Option<Check<'p>> {
    trial(due.world, due.slot, due.plan, due.now).map(Check::Types)
}
