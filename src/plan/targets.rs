//! Which namespaces take a rule's copies, and why the others do not.

use std::{collections::BTreeSet, sync::Arc};

use crate::{
    marks::COPIES,
    model::{NamespaceFacts, NamespacedName, World},
    validate::CompiledRule,
};

/// Why a namespace takes no copies, whatever rules say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Declines {
    /// It is going.
    Terminating,
    /// Our own objects live there.
    Ours,
    /// It is Kubernetes' own, or configured to be left alone.
    System,
    /// Its label says so.
    Refuses,
}

/// Why a namespace takes no copies; `None` where it is there and stays, is no system namespace and not ours, and does
/// not refuse.
pub fn declines(world: &World, name: &str, facts: &NamespaceFacts) -> Option<Declines> {
    if facts.terminating {
        Some(Declines::Terminating)
    } else if name == world.own_namespace {
        Some(Declines::Ours)
    } else if world.system_namespaces.contains(name) {
        Some(Declines::System)
    } else {
        let refuses = facts.labels.get(COPIES).map(String::as_str) == Some("refuse");
        refuses.then_some(Declines::Refuses)
    }
}

/// Whether a namespace takes copies at all.
pub fn takes_copies(world: &World, name: &str, facts: &NamespaceFacts) -> bool {
    declines(world, name, facts).is_none()
}

/// Whether a rule excludes this namespace by name.
pub fn is_excluded(rule: &CompiledRule, name: &str) -> bool {
    rule.exclude.matches(name)
}

/// Whether a rule names this namespace as a target.
pub fn is_named(rule: &CompiledRule, name: &str, facts: &NamespaceFacts) -> bool {
    !is_excluded(rule, name)
        && rule.targets.iter().any(|term| {
            term.names.as_ref().is_none_or(|names| names.matches(name))
                && term
                    .selector
                    .as_ref()
                    .is_none_or(|selector| selector.matches(|key| facts.labels.get(key).map(String::as_str)))
        })
}

/// What each term of a rule's targets lacks to name this namespace, in words: the first thing of each.
pub fn lacking(rule: &CompiledRule, name: &str, facts: &NamespaceFacts) -> Vec<String> {
    let terms = rule.targets.iter().enumerate().filter_map(|(index, term)| {
        if let Some(names) = term.names.as_ref().filter(|names| !names.matches(name)) {
            let names: Vec<&str> = names.entries().collect();
            return Some(format!("targets[{index}] names {}", names.join(", ")));
        }
        let label = |key: &str| facts.labels.get(key).map(String::as_str);
        let (wanted, value) = term.selector.as_ref()?.unmet(label)?;
        let has =
            value.map_or_else(|| "it has no such label".to_owned(), |value| format!("it has {value:?}"));
        Some(format!("targets[{index}] wants the label {wanted}, and {has}"))
    });
    terms.collect()
}

/// Whether a rule's targets can become more without anybody writing it.
pub fn can_grow(rule: &CompiledRule) -> bool {
    rule.targets.iter().any(|term| term.names.as_ref().is_none_or(|names| names.literals().is_none()))
}

/// Whether a rule could name this namespace, whatever its labels are.
fn could_be_named(rule: &CompiledRule, name: &str) -> bool {
    let by_name = rule.targets.iter().any(|term| term.names.as_ref().is_none_or(|names| names.matches(name)));
    by_name && !is_excluded(rule, name)
}

/// The namespaces that a rule's copies can go to, where not all are looked at: all of those in sight that it could name,
/// whatever their labels are at present. Where a person looks, those that Copyrator is taken to see: by them it has asked,
/// and proves that it was granted. `None`: what it declares says all.
pub fn within(world: &World, rule: &NamespacedName, compiled: &CompiledRule) -> Option<BTreeSet<String>> {
    let places = world.places.as_ref()?;
    let only_source = match compiled.source_namespaces.as_slice() {
        [] => Some(&*rule.namespace),
        [one] => Some(one.as_str()),
        _ => None,
    };
    let can_be = |name: &&Arc<str>| {
        could_be_named(compiled, name)
            && Some(&***name) != only_source
            && ***name != *world.own_namespace
            && !world.system_namespaces.contains(&***name)
    };
    Some(match places.supposed() {
        Some(supposed) => supposed.filter(can_be).map(ToString::to_string).collect(),
        None => world.namespaces.keys().filter(can_be).map(ToString::to_string).collect(),
    })
}

/// The namespaces that a rule means and that are not seen: those that it names, and those we are to look at and cannot
/// that it could name.
pub fn unseen<'w>(world: &'w World, rule: &'w CompiledRule) -> BTreeSet<&'w str> {
    let Some(places) = &world.places else { return BTreeSet::new() };
    let named = rule.targets.iter().filter_map(|term| term.names.as_ref()).flat_map(|names| names.names());
    let meant = named.map(String::as_str).filter(|name| !is_excluded(rule, name));
    let listed = places.names().map(|name| &**name).filter(|name| could_be_named(rule, name));
    let is_served = |name: &&str| *name != world.own_namespace && !world.system_namespaces.contains(*name);
    meant.chain(listed).filter(is_served).filter(|name| !world.sees(name)).collect()
}

/// The namespaces that take a rule's copies, in order.
pub fn targets<'w>(world: &'w World, rule: &'w CompiledRule) -> impl Iterator<Item = &'w Arc<str>> {
    world
        .namespaces
        .iter()
        .filter(|(name, facts)| takes_copies(world, name, facts) && is_named(rule, name, facts))
        .map(|(name, _)| name)
}
