//! Which namespaces take a rule's copies.

use std::sync::Arc;

use crate::{
    marks::COPIES,
    model::{NamespaceFacts, World},
    validate::CompiledRule,
};

/// Whether a namespace takes copies at all: it is there and stays, is no system namespace and not ours,
/// and does not refuse.
pub fn takes_copies(world: &World, name: &str, facts: &NamespaceFacts) -> bool {
    !facts.terminating
        && !world.system_namespaces.contains(name)
        && name != world.own_namespace
        && facts.labels.get(COPIES).map(String::as_str) != Some("refuse")
}

/// Whether a rule names this namespace as a target.
pub fn is_named(rule: &CompiledRule, name: &str, facts: &NamespaceFacts) -> bool {
    !rule.exclude.matches(name)
        && rule.targets.iter().any(|term| {
            term.names.as_ref().is_none_or(|names| names.matches(name))
                && term
                    .selector
                    .as_ref()
                    .is_none_or(|selector| selector.matches(|key| facts.labels.get(key).map(String::as_str)))
        })
}

/// The namespaces that take a rule's copies, in order.
pub fn targets<'w>(world: &'w World, rule: &'w CompiledRule) -> impl Iterator<Item = &'w Arc<str>> {
    world
        .namespaces
        .iter()
        .filter(|(name, facts)| takes_copies(world, name, facts) && is_named(rule, name, facts))
        .map(|(name, _)| name)
}
