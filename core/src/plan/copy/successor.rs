//! The successor of an object under another name: a rule or template that gives another name wants the same thing beside the object
//! that it made before. The old object is deleted once the new one is there, as one of the same name is once the API server has
//! accepted the new one.

use std::{iter, time::Duration};

use super::{
    claims::{claims_on, slots_in},
    templates::made_for,
};
use crate::{
    marks::CopyMarks,
    model::{Declaration, ObjectFacts, World, WriteFault},
    names::ObjectKey,
};

/// When to look again for a successor that is about to be written.
const SOON: Duration = Duration::from_secs(5);
/// When to look again for one that something keeps from being written.
const LATER: Duration = Duration::from_secs(30);

/// A successor that is not there yet.
pub(super) struct Awaited {
    pub(super) slot: ObjectKey,
    /// What keeps it from being written.
    pub(super) why: Option<String>,
    /// When to look again.
    pub(super) again: Duration,
}

/// The successor of an object that nothing wants any more, if it is yet to come. One that lacks room, which the object may take, is not
/// waited for.
pub(super) fn awaited(world: &World, slot: &ObjectKey, marks: &CopyMarks) -> Option<Awaited> {
    let is_wanted = |other: &ObjectKey| {
        // A template declares several objects, and marks do not say which of them takes whose place. An object of somebody else in the
        // place of one must not keep the others.
        let is_its = |facts: &ObjectFacts| {
            marks.rule.template().is_some()
                || facts.marks.as_deref().is_some_and(|other| other.rule == marks.rule)
        };
        let lacks_room =
            || world.memory().slot(other).attempt().is_some_and(|last| last.reason == WriteFault::NoRoom);
        let claims = claims_on(world, other);
        let mut claims = claims.iter().filter(|claim| claim.rule == &marks.rule);
        claims.any(|claim| claim.source.named() == marks.source && claim.inert(world).is_none())
            && !world.object(other).is_some_and(is_its)
            && !lacks_room()
    };
    let other = candidates(world, slot, marks).into_iter().find(is_wanted)?;
    // This does not plan that place, since that plan may ask about this one in turn.
    let refused = world.memory().slot(&other).attempt().map(|last| last.message.clone());
    let taken = world.object(&other).map(|_| "another object has that name".to_owned());
    let why = refused.or(taken);
    let again = if why.is_none() { SOON } else { LATER };
    Some(Awaited { slot: other, why, again })
}

/// The places of the same kind, in the same namespace, that the object's declaration has for what the object was made from.
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
