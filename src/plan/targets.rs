//! Which namespaces take a rule's copies, and why the others do not.

use std::sync::Arc;

use crate::{
    marks::COPIES,
    model::{NamespaceFacts, World},
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

/// The namespaces that take a rule's copies, in order.
pub fn targets<'w>(world: &'w World, rule: &'w CompiledRule) -> impl Iterator<Item = &'w Arc<str>> {
    world
        .namespaces
        .iter()
        .filter(|(name, facts)| takes_copies(world, name, facts) && is_named(rule, name, facts))
        .map(|(name, _)| name)
}
