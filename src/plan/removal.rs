//! Copies that nobody wants: a two-step, visible act, and only on complete knowledge.

use jiff::Timestamp;

use super::{
    claims::{Inert, inert, proof},
    clock::at_after,
    copies::{CopyAction, SlotPlan, SlotState, Version, is_anothers},
};
use crate::{
    marks::{OnRemoval, Proof},
    model::{NamespacedName, ObjectFacts, ObjectKey, World},
};

/// What to do about a slot that no rule claims.
pub(super) fn plan_unwanted(
    world: &World,
    slot: &ObjectKey,
    existing: Option<&ObjectFacts>,
    now: Timestamp,
) -> SlotPlan {
    let plan = |state| SlotPlan { state, rule: None, action: None, needs: Vec::new(), recheck: None };
    let Some((facts, marks)) = existing.and_then(|facts| Some((facts, facts.marks.as_deref()?))) else {
        return plan(SlotState::Nothing);
    };
    match proof(world, slot, facts) {
        Some(Proof::Forged) => return plan(SlotState::Nothing),
        // Removing takes proof; with the key lost a person decides.
        Some(Proof::UnknownKey) | None => return plan(SlotState::Kept),
        Some(Proof::Ours) => {}
    }
    let leaves_alone =
        facts.deleting || world.namespaces.get(&slot.namespace).is_none_or(|namespace| namespace.terminating);
    if leaves_alone || is_anothers(world, &marks.rule) || !world.is_complete() {
        return plan(SlotState::Kept);
    }
    if let Some(why) = holds_back(world, &marks.rule) {
        return SlotPlan { rule: Some(marks.rule.clone()), ..plan(SlotState::Inert(why)) };
    }
    let version = Version::of(facts);
    let act =
        |action, state| SlotPlan { action: Some(action), rule: Some(marks.rule.clone()), ..plan(state) };
    // The rule's present word counts; what the copy carries is for when the rule is gone.
    let rule = world.rules.get(&marks.rule).and_then(|facts| facts.compiled.as_deref().ok());
    let on_removal = match rule {
        Some(compiled) => OnRemoval::new(compiled.deletion, compiled.grace.unwrap_or(world.default_grace)),
        None => marks.on_removal.unwrap_or(OnRemoval::Retain),
    };
    match (on_removal, marks.remove_after) {
        (OnRemoval::Retain, _) => act(CopyAction::Release(version), SlotState::Kept),
        (OnRemoval::Delete(grace), _) if grace.is_zero() => {
            act(CopyAction::Delete(version), SlotState::Leaving(None))
        }
        (OnRemoval::Delete(grace), None) => {
            let after = at_after(now, grace);
            act(CopyAction::MarkRemoval(version, after), SlotState::Leaving(Some(after)))
        }
        (OnRemoval::Delete(_), Some(after)) if after <= now => {
            act(CopyAction::Delete(version), SlotState::Leaving(Some(after)))
        }
        (OnRemoval::Delete(_), Some(after)) => SlotPlan {
            recheck: Some(after),
            rule: Some(marks.rule.clone()),
            ..plan(SlotState::Leaving(Some(after)))
        },
    }
}

/// A rule that writes nothing at present removes nothing either: `Authorized=False` touches no copy, and a
/// spec that is not understood says nothing about what is unwanted.
fn holds_back(world: &World, rule: &NamespacedName) -> Option<Inert> {
    inert(world, rule, world.rules.get(rule)?)
}
