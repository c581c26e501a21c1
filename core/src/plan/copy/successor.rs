//! The successor of an object under a new name: after a change of the declared name, a rule or template wants
//! the same content under the new name, beside the earlier object. The old object is deleted once the new one
//! exists. The old object is deleted only after the API server has accepted the successor.

use std::{iter, time::Duration};

use jiff::Timestamp;

use super::{
    claims::{Claim, claims_on, slots_in},
    templates::made_for,
};
use crate::{
    marks::CopyMarks,
    model::{Attempt, Declaration, ObjectFacts, World, WriteFault},
    names::{Kind, ObjectKey},
    plan::at_after,
};

/// When to look again for a successor that is about to be written.
const SOON: Duration = Duration::from_secs(5);
/// When to look again for a successor whose write is refused or delayed.
const LATER: Duration = Duration::from_secs(30);

/// Age of a refused write from which the refused object is no successor: the template declared this object
/// before the edit that made the old object unwanted.
const LONG: Duration = Duration::from_secs(300);

/// A successor that does not exist yet, for which the old object waits.
pub(super) struct Awaited {
    pub(super) slot: ObjectKey,
    /// The reason why the successor is not written.
    pub(super) why: Option<String>,
    /// When to look again.
    pub(super) again: Duration,
}

/// The successor of an object that has been unwanted since this time, if the successor does not exist yet.
/// The old object does not wait for a successor that fits only once the old object is gone.
pub(super) fn awaited(
    world: &World,
    slot: &ObjectKey,
    marks: &CopyMarks,
    unwanted_since: Option<Timestamp>,
) -> Option<Awaited> {
    // Marks do not show which object of a template replaces which other object. An RBAC object that the
    // template no longer declares is removed at once.
    if marks.rule.as_template().is_some() && slot.kind == Kind::RoleBinding {
        return None;
    }
    let is_its = |facts: &ObjectFacts| facts.marks.as_deref().is_some_and(|other| other.rule == marks.rule);
    let is_no_successor = |other: &ObjectKey| {
        let attempt = world.memory().slot(other).attempt();
        let attempt = attempt.filter(|last| last.rule.as_ref() == Some(&marks.rule));
        // The edit that made an object of a template unwanted has not caused a write that was refused long
        // before.
        let is_older = |last: &Attempt| {
            let long_after = at_after(last.since, LONG);
            marks.rule.as_template().is_some() && unwanted_since.is_some_and(|since| long_after < since)
        };
        attempt.is_some_and(|last| last.reason == WriteFault::RoomHeld || is_older(last))
    };
    let is_wanted = |other: &ObjectKey| {
        let claims = claims_on(world, other);
        let mut claims = claims.iter().filter(|claim| claim.rule == &marks.rule);
        claims.any(|claim| claim.source.named() == marks.source && claim.inert(world).is_none())
            && !world.object(other).is_some_and(is_its)
            && !is_no_successor(other)
    };
    let other = candidates(world, slot, marks).into_iter().find(is_wanted)?;
    // The successor's slot is not planned at this point, since its plan may ask about this slot in turn.
    let refused = world.memory().slot(&other).attempt().map(|last| last.message.clone());
    let taken = world.object(&other).map(|_| "another object has that name".to_owned());
    let why = refused.or(taken);
    let again = if why.is_none() { SOON } else { LATER };
    Some(Awaited { slot: other, why, again })
}

/// The object of the same kind that the declaration of this claim has left in the slot's namespace, under a
/// name that the declaration no longer wants.
pub(super) fn predecessor_of(world: &World, slot: &ObjectKey, claim: &Claim<'_>) -> Option<ObjectKey> {
    let source = claim.source.named();
    let mut left = world.copies_of_source_in(&source, &slot.namespace);
    let is_left = |other: &&ObjectKey| {
        let marks = world.object(other).and_then(|facts| facts.marks.as_deref());
        other.kind == slot.kind
            && *other != slot
            && marks.is_some_and(|marks| marks.rule == *claim.rule)
            && !claims_on(world, other).iter().any(|one| one.rule == claim.rule)
    };
    left.find(is_left).cloned()
}

/// The slots of the same kind, in the same namespace, that the object's declaration has for the object's
/// source or instance.
fn candidates(world: &World, slot: &ObjectKey, marks: &CopyMarks) -> Vec<ObjectKey> {
    let all: Vec<ObjectKey> = match world.declaration(&marks.rule) {
        Some(Declaration::Rule(facts)) => {
            let Ok(compiled) = &facts.compiled else { return Vec::new() };
            let source =
                ObjectKey::new(compiled.kind, marks.source.namespace.clone(), marks.source.name.clone());
            slots_in(compiled, &source, iter::once(&slot.namespace)).collect()
        }
        Some(Declaration::Template(facts)) => {
            let Ok(compiled) = &facts.compiled else { return Vec::new() };
            let set = world.rendered(&marks.rule, &made_for(world, compiled, slot));
            set.into_iter().flat_map(|set| &set.objects).map(|object| object.slot.clone()).collect()
        }
        None => Vec::new(),
    };
    let is_beside = |other: &ObjectKey| {
        other.kind == slot.kind && other.namespace == slot.namespace && other.name != slot.name
    };
    all.into_iter().filter(is_beside).collect()
}
