//! Slots whose objects no watch shows. In namespaces where plans need no ConfigMaps and Secrets, watches show
//! only objects with our labels, so the reconciler asks the API server about other objects: once before the
//! first write after a start, and repeatedly about an object in the way of a copy.

use jiff::Timestamp;

use super::{
    claims::{Claim, Wants},
    inert::source_namespaces,
    rights::is_refused,
    slot_plan::SlotPlan,
    targets::is_named,
};
use crate::{
    model::{ObjectFacts, World},
    names::{Declarer, Kind, ObjectKey},
    plan::Need,
};

/// Whether an object may be in the slot that this process has never looked for: the namespace, the rule and
/// the source are older than the term of this leader. In all other cases the write itself reveals an object
/// in the slot, since the write only creates.
pub(super) fn is_unasked(world: &World, slot: &ObjectKey, claim: &Claim<'_>) -> bool {
    let memory = world.memory();
    let Some(began) = memory.term_began().filter(|_| slot.kind.data().is_some()) else { return false };
    let is_old = |created: Timestamp| created < began;
    let of_source = match &claim.wants {
        Wants::Copy { .. } => world.object(&claim.source).is_some_and(|source| is_old(source.created)),
        Wants::Object { .. } => true,
    };
    of_source
        && !world.knows(slot.kind, &slot.namespace)
        && world.namespaces().get(&slot.namespace).is_some_and(|namespace| is_old(namespace.created))
        && is_reported(world, claim)
        && !memory.is_empty_slot(slot)
        && memory.slot(slot).attempt().is_none()
}

/// A list that the plan of this slot needs and that is not complete yet: a rule may claim the slot for a
/// source that seems to be missing, or the object whose annotations declare the rule of the copy seems to be
/// missing.
pub(super) fn unlisted(world: &World, slot: &ObjectKey, holder: Option<&Declarer>) -> Option<Need> {
    if !world.is_listing_any() {
        return None;
    }
    let need = |kind: Kind, namespace: &str| {
        world.is_listing(kind, namespace).then(|| Need::List(kind, namespace.into()))
    };
    let declaring = holder.and_then(|rule| rule.as_annotated());
    let of_holder = declaring.and_then(|source| need(source.kind, &source.namespace));
    let target = world.namespaces().get(&slot.namespace);
    // A rule that may do nothing makes no slot wait but that of its own copy.
    let may = |rule: &Declarer| holder == Some(rule) || !is_refused(world, rule);
    let of_rules = world.rules().copying_to(&slot.name).filter(|(rule, compiled)| {
        let is_target = target.is_some_and(|facts| is_named(compiled, &slot.namespace, facts));
        compiled.shape.kind == slot.kind && is_target && may(rule)
    });
    let mut of_sources = of_rules.flat_map(|(rule, compiled)| {
        source_namespaces(rule, compiled).filter_map(move |name| need(compiled.kind, name))
    });
    of_holder.or_else(|| of_sources.next())
}

/// Whether a leader has worked on this version of the rule or template before. A rule that annotations
/// declare has no status, and counts as old as its source.
fn is_reported(world: &World, claim: &Claim<'_>) -> bool {
    let Some(declared) = world.declaration(claim.rule) else { return false };
    let generation = declared.version().generation;
    let reported = declared.status().and_then(|status| status.observed_generation);
    claim.rule.as_annotated().is_some() || reported == Some(generation)
}

/// The plan of a slot with an object that no watch shows: the reconciler asks again at the due time.
pub(super) fn asked_again(
    world: &World,
    slot: &ObjectKey,
    existing: Option<&ObjectFacts>,
    plan: SlotPlan,
    now: Timestamp,
) -> SlotPlan {
    if plan.rule.is_none() || existing.is_none_or(|facts| !facts.seen.is_only_asked()) {
        return plan;
    }
    match world.memory().due(slot).filter(|due| *due > now) {
        Some(due) => SlotPlan { recheck: Some(plan.recheck.map_or(due, |at| at.min(due))), ..plan },
        None => SlotPlan { action: None, needs: vec![Need::Existing(slot.clone())], ..plan },
    }
}
