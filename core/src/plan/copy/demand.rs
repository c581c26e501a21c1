//! How many slots a rule claims, and which of these slots other rules claim, too: computed from the rule's
//! sources and targets, without enumerating all pairs. Also decides how much of a template is rendered: a
//! template that may write nothing costs nothing.

use std::collections::BTreeSet;

use super::{
    claims::{Claim, Wants, objects_meant, slots_in, sources_giving, sources_of},
    inert::{inert, inert_template, source_namespaces},
    possible_sources::possible_sources,
    targets::{at_most, is_named, targets},
    templates::{made_for_instance, too_many_objects},
};
use crate::{
    api::ConflictPolicy,
    model::World,
    names::{Declarer, InstanceName, ObjectKey},
    validate::{CompiledRule, Globs},
};

/// How many copies a rule would have, if this number is above the limit of one rule; else `None`. A rule
/// above the limit makes no new copies; its existing copies are kept up to date and removed as usual.
pub fn too_many(world: &World, rule: &Declarer, compiled: &CompiledRule) -> Option<usize> {
    let most = world.settings().spread_limits.max_copies;
    // With few namespaces or objects, the copies need not be counted.
    let places = at_most(world, compiled).max(1);
    let enough = most.checked_div(places)?.saturating_add(1);
    let objects = |namespace| match compiled.names.as_ref().and_then(Globs::literals) {
        Some(names) => names.len(),
        None => objects_meant(world, compiled, namespace).take(enough).count(),
    };
    let in_sight: usize = source_namespaces(rule, compiled).map(objects).sum();
    if most == 0 || in_sight.saturating_mul(places) <= most {
        return None;
    }
    let sources: Vec<&ObjectKey> = sources_of(world, rule, compiled).map(|(source, _)| source).collect();
    if sources.len().saturating_mul(places) <= most {
        return None;
    }
    let targets: BTreeSet<&str> = targets(world, compiled).map(|namespace| &**namespace).collect();
    let elsewhere = |source: &&ObjectKey| targets.len() - usize::from(targets.contains(&*source.namespace));
    let copies = sources.iter().map(elsewhere).fold(0, usize::saturating_add);
    (copies > most).then_some(copies)
}

/// The part of a template's selected instances that is rendered.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Demand {
    /// Render nothing: the template may write nothing at present.
    Nothing,
    /// Only the instances for which the template has made objects: all instances would need more objects than
    /// one template may have.
    Kept,
    /// Render all instances.
    All,
}

impl Demand {
    /// How much of this template is rendered at present.
    pub(crate) fn of(world: &World, template: &Declarer) -> Self {
        let facts = world.templates().get(template);
        let may = facts.filter(|facts| inert_template(world, template, facts).is_none());
        match may.and_then(|facts| facts.compiled.as_deref().ok()) {
            None => Self::Nothing,
            Some(compiled) if too_many_objects(world, template, compiled).is_some() => Self::Kept,
            Some(_) => Self::All,
        }
    }

    /// Whether the template is rendered for this instance, which the template selects.
    pub(crate) fn has(self, world: &World, template: &Declarer, instance: &InstanceName) -> bool {
        match self {
            Self::Nothing => false,
            Self::Kept => made_for_instance(world, template, instance).next().is_some(),
            Self::All => true,
        }
    }
}

/// [`too_many`] of the rule or template behind a claim.
pub(super) fn too_many_claimed(world: &World, claim: &Claim<'_>) -> Option<usize> {
    match &claim.wants {
        Wants::Copy { compiled, .. } => too_many(world, claim.rule, compiled),
        Wants::Object { compiled, .. } => too_many_objects(world, claim.rule, compiled),
    }
}

/// What to do about a rule that would have too many copies.
pub(crate) fn too_many_said(world: &World, copies: usize) -> String {
    let most = world.settings().spread_limits.max_copies;
    format!(
        "this would make {copies} copies, more than --max-copies-per-rule ({most}): Copyrator makes no new copy and maintains the \
         existing copies; select fewer objects or namespaces, split the rule or template, or let an administrator raise \
         --max-copies-per-rule"
    )
}

/// The other rules that write copies at present.
fn others<'w>(
    world: &'w World,
    rule: &'w Declarer,
) -> impl Iterator<Item = (&'w Declarer, &'w CompiledRule)> {
    world.rules().iter().filter(move |(other, _)| *other != rule).filter_map(|(other, facts)| {
        let compiled = facts.compiled.as_deref().ok()?;
        inert(world, other, facts).is_none().then_some((other, compiled))
    })
}

/// The slots that both this rule and a second rule claim: which of the two gets a slot depends on the facts
/// of this rule. The cost grows with the second rule's claims, not with this rule's.
pub fn shared(world: &World, rule: &Declarer) -> BTreeSet<ObjectKey> {
    let Some(Ok(compiled)) = world.rules().get(rule).map(|facts| &facts.compiled) else {
        return BTreeSet::new();
    };
    let mut shared = BTreeSet::new();
    for (other, theirs) in others(world, rule).filter(|(_, theirs)| theirs.shape.kind == compiled.shape.kind)
    {
        for (source, _) in sources_of(world, other, theirs) {
            if gives(world, rule, compiled, &theirs.shape.copy_name(source)) {
                shared.extend(claimed_by_both(world, compiled, theirs, source));
            }
        }
    }
    shared
}

/// The shared slots for one source of the rule.
pub(crate) fn shared_of<'w>(
    world: &'w World,
    rule: &Declarer,
    compiled: &'w CompiledRule,
    source: &'w ObjectKey,
) -> BTreeSet<ObjectKey> {
    let name = compiled.shape.copy_name(source);
    let others = world.rules().copying_to(&name).filter(|(other, theirs)| {
        let may = || world.rules().get(other).is_some_and(|facts| inert(world, other, facts).is_none());
        *other != rule
            && theirs.shape.kind == compiled.shape.kind
            && may()
            && gives(world, other, theirs, &name)
    });
    others.flat_map(|(_, theirs)| claimed_by_both(world, theirs, compiled, source)).collect()
}

/// The slots of one source that two rules copy under the same name, in targets of the first and the second
/// rule.
fn claimed_by_both<'w>(
    world: &'w World,
    one: &'w CompiledRule,
    its: &'w CompiledRule,
    source: &'w ObjectKey,
) -> impl Iterator<Item = ObjectKey> {
    slots_in(its, source, targets(world, its)).filter(move |slot| {
        let facts = world.namespaces().get(&slot.namespace);
        facts.is_some_and(|facts| is_named(one, &slot.namespace, facts))
    })
}

/// Whether a rule has copies of this name.
fn gives(world: &World, rule: &Declarer, compiled: &CompiledRule, copy: &str) -> bool {
    source_namespaces(rule, compiled)
        .any(|namespace| sources_giving(world, rule, compiled, namespace, copy).next().is_some())
}

/// The sources of a rule that another rule would overwrite if they were not sources.
pub(crate) fn taken_over(world: &World, rule: &Declarer) -> Vec<ObjectKey> {
    let takers: Vec<_> =
        others(world, rule).filter(|(_, theirs)| theirs.conflict != ConflictPolicy::Refuse).collect();
    if takers.is_empty() {
        return Vec::new();
    }
    let is_taken = |source: &&ObjectKey| {
        takers.iter().any(|(other, theirs)| {
            let facts = world.namespaces().get(&source.namespace);
            theirs.shape.kind == source.kind
                && facts.is_some_and(|facts| is_named(theirs, &source.namespace, facts))
                && gives(world, other, theirs, &source.name)
        })
    };
    possible_sources(world, rule).into_iter().filter(is_taken).cloned().collect()
}
