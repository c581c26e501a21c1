//! Who wants a copy where. A *slot* is the place of one possible copy: kind, namespace and name.

use std::{collections::BTreeSet, sync::Arc};

use super::targets::{is_named, takes_copies, targets};
use crate::{
    marks::{CA_SECRET, KEY_SECRET, Proof},
    model::{Authority, Kind, NamespacedName, ObjectFacts, ObjectKey, RuleFacts, World},
    validate::CompiledRule,
};

/// One rule's wish for one slot.
#[derive(Clone, Debug)]
pub struct Claim<'w> {
    /// The rule.
    pub rule: &'w NamespacedName,
    /// What is known of it.
    pub facts: &'w RuleFacts,
    /// Its spec, understood.
    pub compiled: &'w CompiledRule,
    /// The object it wants copied there.
    pub source: ObjectKey,
    /// Further objects that the rule would copy to the same slot; the alphabetically first namespace wins.
    pub duplicates: Vec<ObjectKey>,
}

/// What keeps a rule from writing. Its copies are kept as they are meanwhile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Inert {
    /// Its spec is not understood.
    Quarantined,
    /// `suspend: true`.
    Suspended,
    /// A namespace of its sources is not seen: what is there nobody knows.
    Unseen,
    /// Its identity may not do what it declares, or has not been asked yet.
    Unauthorized,
}

/// What keeps a rule from writing, if anything.
pub fn inert(world: &World, rule: &NamespacedName, facts: &RuleFacts) -> Option<Inert> {
    match &facts.compiled {
        Err(_) => Some(Inert::Quarantined),
        Ok(compiled) if compiled.suspend => Some(Inert::Suspended),
        Ok(compiled) if unseen_source(world, rule, compiled).is_some() => Some(Inert::Unseen),
        Ok(_) => {
            let may = authority(world, rule, facts).is_some_and(|authority| authority.answer.is_ok());
            (!may).then_some(Inert::Unauthorized)
        }
    }
}

/// The first namespace of a rule's sources that is not seen, if there is one.
pub fn unseen_source<'w>(
    world: &World,
    rule: &'w NamespacedName,
    compiled: &'w CompiledRule,
) -> Option<&'w str> {
    world.places.as_ref()?;
    source_namespaces(rule, compiled).into_iter().find(|namespace| !world.sees(namespace))
}

/// What the API server said of this very generation of a rule, once it has been asked.
pub(super) fn authority<'w>(
    world: &'w World,
    rule: &NamespacedName,
    facts: &RuleFacts,
) -> Option<&'w Authority> {
    let authority = world.rule_authority.get(rule)?;
    (authority.uid == facts.uid && authority.generation == facts.generation).then_some(authority)
}

/// Every rule's claim on one slot, in the order of the rules' names.
pub fn claims_on<'w>(world: &'w World, slot: &ObjectKey) -> Vec<Claim<'w>> {
    let Some(namespace) = world.namespaces.get(&slot.namespace) else { return Vec::new() };
    if !takes_copies(world, &slot.namespace, namespace) {
        return Vec::new();
    }
    let claim = |(rule, facts): (&'w NamespacedName, &'w RuleFacts)| {
        let compiled = facts.compiled.as_deref().ok()?;
        if compiled.shape.kind != slot.kind {
            return None;
        }
        // First what rules out most rules at the least cost: this is asked for each slot of each rule.
        let mut sources = sources_for(world, rule, compiled, slot).into_iter();
        let source = sources.next()?;
        is_named(compiled, &slot.namespace, namespace).then(|| Claim {
            rule,
            facts,
            compiled,
            source,
            duplicates: sources.collect(),
        })
    };
    world.rules.iter().filter_map(claim).collect()
}

/// The slots that a rule claims.
pub fn slots_of(world: &World, rule: &NamespacedName) -> BTreeSet<ObjectKey> {
    let Some(compiled) = world.rules.get(rule).and_then(|facts| facts.compiled.as_deref().ok()) else {
        return BTreeSet::new();
    };
    let sources: Vec<_> = sources_of(world, rule, compiled).map(|(key, _)| key).collect();
    let mut slots = BTreeSet::new();
    for namespace in targets(world, compiled) {
        slots.extend(sources.iter().filter_map(|source| slot_in(compiled, source, namespace)));
    }
    slots
}

/// The slots of one source in one namespace that a rule claims.
pub fn slot_in(compiled: &CompiledRule, source: &ObjectKey, namespace: &Arc<str>) -> Option<ObjectKey> {
    let name = compiled.shape.copy_name(source);
    (*namespace != source.namespace).then(|| ObjectKey::new(compiled.shape.kind, namespace.clone(), name))
}

/// The objects that a rule copies, by namespace and name.
pub fn sources_of<'w>(
    world: &'w World,
    rule: &'w NamespacedName,
    compiled: &'w CompiledRule,
) -> impl Iterator<Item = (&'w ObjectKey, &'w ObjectFacts)> {
    source_namespaces(rule, compiled)
        .into_iter()
        .flat_map(move |namespace| world.objects_in(compiled.kind, namespace))
        .filter(move |(key, facts)| is_source(world, rule, compiled, key, facts))
}

/// Whether a rule copies this object.
pub fn is_source(
    world: &World,
    rule: &NamespacedName,
    compiled: &CompiledRule,
    key: &ObjectKey,
    facts: &ObjectFacts,
) -> bool {
    key.kind == compiled.kind
        && is_source_namespace(rule, compiled, &key.namespace)
        && compiled.names.as_ref().is_none_or(|names| names.matches(&key.name))
        && compiled
            .object_selector
            .as_ref()
            .is_none_or(|selector| selector.matches(|label| facts.labels.get(label).map(|value| &**value)))
        && !is_copy(world, key, facts)
        && !is_secret_of_ours(world, key)
}

/// What our digests and certificates rest on is copied nowhere, whoever may read it: with it marks and grants could
/// be forged. (As a target our namespace is out of the question anyway.)
fn is_secret_of_ours(world: &World, key: &ObjectKey) -> bool {
    key.kind == Kind::Secret
        && *key.namespace == *world.own_namespace
        && [KEY_SECRET, CA_SECRET].contains(&&*key.name)
}

/// The first rule that copies this object, at present or once it may: a source that were overwritten meanwhile
/// (a rule is suspended, or its identity has not been asked about yet after a restart of ours) would be lost. What a
/// rule means that is not understood nobody knows: everything where its sources are.
pub fn copied_by<'w>(world: &'w World, key: &ObjectKey, facts: &ObjectFacts) -> Option<&'w NamespacedName> {
    let copies = |(rule, rule_facts): &(&NamespacedName, &RuleFacts)| match &rule_facts.compiled {
        Ok(compiled) => is_source(world, rule, compiled, key, facts),
        Err(_) => match rule.annotated() {
            Some(source) => source == *key,
            None => namespaces_meant(rule, rule_facts).contains(&&*key.namespace),
        },
    };
    world.rules.iter().find(copies).map(|(rule, _)| rule)
}

/// The objects that a rule copies, at present or once it may: see [`copied_by`].
pub fn possible_sources<'w>(world: &'w World, rule: &'w NamespacedName) -> Vec<&'w ObjectKey> {
    let Some(facts) = world.rules.get(rule) else { return Vec::new() };
    match &facts.compiled {
        Ok(compiled) => sources_of(world, rule, compiled).map(|(key, _)| key).collect(),
        Err(_) => {
            let namespaces = namespaces_meant(rule, facts);
            let kinds = [Kind::ConfigMap, Kind::Secret].into_iter();
            let places = kinds.flat_map(|kind| namespaces.iter().map(move |namespace| (kind, *namespace)));
            places
                .flat_map(|(kind, namespace)| world.objects_in(kind, namespace))
                .map(|(key, _)| key)
                .collect()
        }
    }
}

/// Where the sources of a rule may be that is not understood: of one that cannot even be read, in its own namespace.
fn namespaces_meant<'w>(rule: &'w NamespacedName, facts: &'w RuleFacts) -> BTreeSet<&'w str> {
    namespaces_of(rule, &facts.spec.source.namespaces)
}

/// Whether an object is a copy of ours: it is then no source (no copy of a copy: replicator#407, config-syncer#474).
pub fn is_copy(world: &World, key: &ObjectKey, facts: &ObjectFacts) -> bool {
    match &world.key {
        Some(_) => proof(world, key, facts).is_some_and(|proof| proof != Proof::Forged),
        None => facts.marks.is_some(),
    }
}

/// What an object's marks prove; `None` where there are none, or no key yet. With another key nothing but the labels
/// can be believed, since the admission policy for copies guards those: annotations anybody writes on what is his.
pub(super) fn proof(world: &World, key: &ObjectKey, facts: &ObjectFacts) -> Option<Proof> {
    let (marks, digest_key) = (facts.marks.as_deref()?, world.key.as_ref()?);
    let label = |name: &str| facts.labels.get(name).map(|value| value.to_string());
    Some(match marks.proof(key, digest_key) {
        Proof::UnknownKey if !marks.is_labelled(label) => Proof::Forged,
        proof => proof,
    })
}

fn is_source_namespace(rule: &NamespacedName, compiled: &CompiledRule, namespace: &str) -> bool {
    match compiled.source_namespaces.as_slice() {
        [] => *rule.namespace == *namespace,
        namespaces => namespaces.iter().any(|one| one == namespace),
    }
}

fn source_namespaces<'w>(rule: &'w NamespacedName, compiled: &'w CompiledRule) -> BTreeSet<&'w str> {
    namespaces_of(rule, &compiled.source_namespaces)
}

fn namespaces_of<'w>(rule: &'w NamespacedName, named: &'w [String]) -> BTreeSet<&'w str> {
    match named {
        [] => BTreeSet::from([&*rule.namespace]),
        named => named.iter().map(String::as_str).collect(),
    }
}

/// The objects that a rule would copy to one slot, the alphabetically first namespace first.
fn sources_for(
    world: &World,
    rule: &NamespacedName,
    compiled: &CompiledRule,
    slot: &ObjectKey,
) -> Vec<ObjectKey> {
    if compiled.shape.name == "{name}" {
        if compiled.names.as_ref().is_some_and(|names| !names.matches(&slot.name)) {
            return Vec::new();
        }
        let same_name = |namespace| ObjectKey::new(compiled.kind, namespace, slot.name.clone());
        let is_it = |key: &ObjectKey| {
            world.object(key).is_some_and(|facts| is_source(world, rule, compiled, key, facts))
        };
        let elsewhere =
            source_namespaces(rule, compiled).into_iter().filter(|other| **other != *slot.namespace);
        return elsewhere.map(same_name).filter(is_it).collect();
    }
    let lands_here =
        |key: &ObjectKey| *key.namespace != *slot.namespace && compiled.shape.copy_name(key) == *slot.name;
    sources_of(world, rule, compiled).map(|(key, _)| key.clone()).filter(lands_here).collect()
}
