//! Finds the objects that a rule copies now or once it may write, and that Copyrator therefore never
//! overwrites.

use super::claims::{is_source, namespaces_meant, sources_of};
use crate::{
    model::{ObjectFacts, RuleFacts, World},
    names::{Declarer, ObjectKey},
};

/// The first rule that copies this object, now or once the rule may write. If a copy overwrote such a source
/// while its rule is suspended or not yet authorized, the source would be lost. The sources of an invalid
/// rule are unknown, so an invalid rule counts as copying all objects in the namespaces of its sources. A
/// valid rule is considered only if `counts` allows it.
pub(super) fn copied_by<'w>(
    world: &'w World,
    key: &ObjectKey,
    facts: &ObjectFacts,
    counts: impl Fn(&Declarer) -> bool,
) -> Option<&'w Declarer> {
    let copies = |(rule, rule_facts): &(&Declarer, &RuleFacts)| match &rule_facts.compiled {
        Ok(compiled) => is_source(world, rule, compiled, key, facts) && counts(rule),
        Err(_) => match rule.as_annotated() {
            Some(source) => source == key,
            None => namespaces_meant(rule, rule_facts).contains(&&*key.namespace),
        },
    };
    world.rules().iter().find(copies).map(|(rule, _)| rule)
}

/// The objects that a rule copies, now or once it may write: see [`copied_by`].
pub(super) fn possible_sources<'w>(world: &'w World, rule: &'w Declarer) -> Vec<&'w ObjectKey> {
    let Some(facts) = world.rules().get(rule) else { return Vec::new() };
    match &facts.compiled {
        Ok(compiled) => sources_of(world, rule, compiled).map(|(key, _)| key).collect(),
        Err(_) => {
            let namespaces = namespaces_meant(rule, facts);
            let places = world
                .settings()
                .copied_kinds()
                .flat_map(|kind| namespaces.iter().map(move |namespace| (kind, *namespace)));
            places
                .flat_map(|(kind, namespace)| world.objects_in(kind, namespace))
                .map(|(key, _)| key)
                .collect()
        }
    }
}
