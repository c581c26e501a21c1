//! Problems of objects and lists that cannot be read: an object in a slot, the source of a copy, or a list
//! that has failed for long. Copyrator leaves an unreadable object unchanged, and the status reports the
//! object.

use super::{
    claims::{Claim, Wants},
    inert::source_namespaces,
    problem::{CopyProblem, ProblemReason},
};
use crate::{
    marks::{CopyMarks, write_time},
    model::{Declaration, ListName, ObjectFacts, Store, UnreadObject, World},
    names::{Declarer, InstanceKind, Kind, ObjectKey},
    plan::Reason,
    validate::{CompiledRule, CompiledTemplate},
};

/// The reason why the copy of a claim cannot be written: the copy or its source cannot be read. A copy stays
/// with a source that cannot be read, even if the rule would otherwise prefer a different source.
pub(super) fn unread_of_claim(
    world: &World,
    slot: &ObjectKey,
    claim: &Claim<'_>,
    existing: Option<&ObjectFacts>,
) -> Option<CopyProblem> {
    let source = || {
        let source = Some(&claim.source).filter(|_| matches!(claim.wants, Wants::Copy { .. }))?;
        world.unreadable_object(source).map(|why| problem(slot, source, why))
    };
    let own = world.unreadable_object(slot).map(|why| problem(slot, slot, why));
    let before = || unread_of_copy(world, slot, existing?.marks.as_deref()?);
    own.or_else(source).or_else(before)
}

/// The reason why an unclaimed object of ours is not removed: the object, or its source, cannot be read and
/// may be wanted. Once a template is gone, an unreadable instance of the template does not matter.
pub(super) fn unread_of_copy(world: &World, slot: &ObjectKey, marks: &CopyMarks) -> Option<CopyProblem> {
    let declaration = world.declaration(&marks.rule);
    let is_rendered_for = |kind: &InstanceKind| match declaration {
        Some(Declaration::Template(facts)) => {
            facts.compiled.as_ref().is_ok_and(|compiled| compiled.instance_kind() == Some(kind))
        }
        Some(Declaration::Rule(_)) | None => false,
    };
    let is_this = |object: &&UnreadObject| match object {
        UnreadObject::Object(key) => key == slot || (key.kind == slot.kind && key.named() == marks.source),
        UnreadObject::Instance(kind, name) => *name == marks.source && is_rendered_for(kind),
        UnreadObject::Namespace(_) | UnreadObject::Workload(_) => false,
    };
    let (object, why) = world.unreadable().find(|(object, _)| is_this(object))?;
    Some(problem(slot, object, why))
}

fn problem(slot: &ObjectKey, object: impl std::fmt::Display, why: &str) -> CopyProblem {
    CopyProblem::new(slot, ProblemReason::Unreadable, unreadable_said(object, why))
}

/// The message that an object cannot be read, with the fix.
pub fn unreadable_said(object: impl std::fmt::Display, why: &str) -> String {
    format!(
        "Copyrator cannot read {object} ({why}): it writes and removes nothing because of this object until the object is corrected or \
         deleted"
    )
}

/// The objects that a rule may copy and that cannot be read, each with the reason. The labels of these
/// objects are not known.
pub(super) fn unread_sources<'w>(
    world: &'w World,
    rule: &'w Declarer,
    compiled: &'w CompiledRule,
) -> impl Iterator<Item = (&'w UnreadObject, &'w str)> {
    world.unreadable().filter(move |(object, _)| {
        let UnreadObject::Object(key) = object else { return false };
        key.kind == compiled.kind
            && compiled.names.as_ref().is_none_or(|names| names.matches(&key.name))
            && source_namespaces(rule, compiled).any(|namespace| *namespace == *key.namespace)
    })
}

/// The objects that a template may be rendered for and that cannot be read, each with the reason.
pub(super) fn unread_instances<'w>(
    world: &'w World,
    template: &'w Declarer,
    compiled: &'w CompiledTemplate,
) -> impl Iterator<Item = (&'w UnreadObject, &'w str)> {
    world.unreadable().filter(move |(object, _)| {
        let UnreadObject::Instance(kind, name) = object else { return false };
        let takes = |facts| compiled.goes_into(template.namespace(), &name.namespace, facts);
        compiled.instance_kind() == Some(kind)
            && world.namespaces().get(&name.namespace).is_some_and(|facts| takes(&facts.labels))
    })
}

/// Reason and message of `Ready` for a status that may be out of date, since one of these lists has failed
/// for long.
pub(super) fn unread_lists(
    world: &World,
    declared: Store,
    kinds: impl IntoIterator<Item = Kind>,
    instances: Option<&InstanceKind>,
    reaches: impl Fn(&str) -> bool,
) -> Option<(Reason, String)> {
    let (mut stores, mut granted) = (vec![Store::Namespaces, declared], Vec::from_iter(instances.cloned()));
    for kind in kinds {
        match kind {
            Kind::Granted(_) => {
                let resource = kind.resource();
                granted.push(InstanceKind::new(resource.api_version, resource.kind));
            }
            _ => stores.push(Store::of(kind)),
        }
    }
    let is_of = |list: &ListName| match &list.kind {
        Some(kind) => granted.contains(kind),
        None => stores.contains(&list.store),
    };
    lists_said(world, is_of, reaches)
}

/// The first failing list for which `is_of` is true, if the list covers all namespaces or a namespace that
/// the declaration `reaches`. Until all first lists are complete, each failing list delays all decisions.
pub(crate) fn lists_said(
    world: &World,
    is_of: impl Fn(&ListName) -> bool,
    reaches: impl Fn(&str) -> bool,
) -> Option<(Reason, String)> {
    let is_listed = world.is_complete();
    let reaches = |list: &ListName| list.place.as_deref().is_none_or(|place| !is_listed || reaches(place));
    let (list, failing) = world.failing_lists().find(|(list, _)| is_of(list) && reaches(list))?;
    let message = format!(
        "this status may be outdated, because Copyrator cannot read {list} since {}: {}",
        write_time(failing.since),
        failing.why
    );
    Some((Reason::Unread, message))
}
