//! Decides which namespaces get a rule's copies, and why the other namespaces get none.

use std::{collections::BTreeSet, sync::Arc};

use crate::{
    authority::Bounds,
    marks::COPIES,
    model::{NamespaceFacts, World},
    names::{Declarer, ObjectKey},
    validate::{CompiledRule, CompiledTarget},
};

/// Why a namespace gets no copies of any rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Declines {
    /// The namespace is being deleted.
    Terminating,
    /// The namespace holds Copyrator's own objects.
    Ours,
    /// The namespace belongs to Kubernetes, or to `--system-namespaces`.
    System,
    /// The namespace has the label `copyrator.dev/copies: refuse`.
    Refuses,
}

/// Why a namespace gets no copies of any rule; `None` for a namespace that may get copies.
pub fn declines(world: &World, name: &str, facts: &NamespaceFacts) -> Option<Declines> {
    if facts.terminating {
        Some(Declines::Terminating)
    } else if name == world.settings().own_namespace {
        Some(Declines::Ours)
    } else if world.settings().system_namespaces.contains(name) {
        Some(Declines::System)
    } else {
        // Any value but `accept` counts as `refuse`: a user who writes `Refuse` or `no` means `refuse`, and a
        // typing error must not let a Secret in.
        let refuses = facts.labels.get(COPIES).is_some_and(|value| value != "accept");
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
        && rule.targets.iter().any(|term| term.selects(name, |key| facts.labels.get(key).map(String::as_str)))
}

/// The first condition, in words, that this namespace lacks of each term of a rule's targets.
pub fn lacking(rule: &CompiledRule, name: &str, facts: &NamespaceFacts) -> Vec<String> {
    let terms = rule.targets.iter().enumerate().filter_map(|(index, term)| {
        if let Some(names) = term.names.as_ref().filter(|names| !names.matches(name)) {
            let names: Vec<&str> = names.entries().collect();
            return Some(format!("targets[{index}] names {}", names.join(", ")));
        }
        let label = |key: &str| facts.labels.get(key).map(String::as_str);
        let (wanted, value) = term.selector.as_ref()?.unmet(label)?;
        let has = value.map_or_else(
            || "the namespace does not have the label".to_owned(),
            |value| format!("the namespace has {value:?}"),
        );
        Some(format!("targets[{index}] requires the label {wanted}, but {has}"))
    });
    terms.collect()
}

/// Whether a rule can get more targets without being edited.
pub fn can_grow(rule: &CompiledRule) -> bool {
    rule.targets.iter().any(|term| term.names.as_ref().is_none_or(|names| names.literals().is_none()))
}

/// Whether a rule's terms could select a namespace of this name with the right labels.
fn could_be_named(rule: &CompiledRule, name: &str) -> bool {
    let by_name = rule.targets.iter().any(|term| term.names.as_ref().is_none_or(|names| names.matches(name)));
    by_name && !is_excluded(rule, name)
}

/// The namespaces that a rule's copies can be written to, if Copyrator reads only some namespaces: all
/// readable namespaces that the rule could select, whatever their labels are now. For the caller of a
/// command, the result has the namespaces that Copyrator presumably reads, since the proof of the grant
/// covers these namespaces. `None` if Copyrator reads all namespaces.
pub fn within(world: &World, rule: &Declarer, compiled: &CompiledRule) -> Option<BTreeSet<String>> {
    let places = world.namespace_scope().filter(|places| places.is_all())?;
    let only_source = match compiled.source_namespaces.as_slice() {
        [] => Some(&**rule.namespace()),
        [one] => Some(one.as_str()),
        _ => None,
    };
    let can_be = |name: &&Arc<str>| {
        could_be_named(compiled, name)
            && Some(&***name) != only_source
            && ***name != *world.settings().own_namespace
            && !world.settings().system_namespaces.contains(&***name)
    };
    Some(match places.supposed() {
        Some(supposed) => supposed.filter(can_be).map(ToString::to_string).collect(),
        None => world.namespaces().keys().filter(can_be).map(ToString::to_string).collect(),
    })
}

/// Whether the current spec makes Copyrator ask about deleting copies of this kind in this namespace
/// ([`crate::authority::rule_questions_within`]), whether or not the rule claims a slot in the namespace.
pub(super) fn was_asked_about(
    world: &World,
    rule: &Declarer,
    compiled: &CompiledRule,
    slot: &ObjectKey,
) -> bool {
    let by_name =
        |term: &CompiledTarget| term.names.as_ref().is_some_and(|names| names.matches(&slot.namespace));
    slot.kind == compiled.shape.kind
        && match within(world, rule, compiled) {
            Some(names) => names.contains(&*slot.namespace),
            None => can_grow(compiled) || compiled.targets.iter().any(by_name),
        }
}

/// The existing namespaces for which the API server is asked one by one about the rights of a rule's
/// identity.
pub fn bounds(world: &World, rule: &Declarer, compiled: &CompiledRule) -> Bounds {
    let tag = |name: &String| Some(Bounds::tag(name, &world.namespaces().get(name.as_str())?.uid));
    let sources = compiled.source_namespaces.iter().filter(|name| ***name != **rule.namespace());
    let can_grow = can_grow(compiled);
    let one_by_one = match within(world, rule, compiled) {
        Some(within) => Some(within.iter().filter_map(tag).collect()),
        None if can_grow => None,
        None => {
            let named = compiled.targets.iter().filter_map(|term| term.names.as_ref());
            Some(named.flat_map(|names| names.names()).filter_map(tag).collect())
        }
    };
    Bounds { sources: sources.filter_map(tag).collect(), targets: one_by_one, can_grow }
}

/// The target namespaces of a rule that cannot be read: the namespaces that the rule names, and the
/// namespaces of `--namespaces` that the rule could select.
pub fn unseen<'w>(world: &'w World, rule: &'w CompiledRule) -> BTreeSet<&'w str> {
    let Some(places) = world.namespace_scope() else { return BTreeSet::new() };
    let named = rule.targets.iter().filter_map(|term| term.names.as_ref()).flat_map(|names| names.names());
    let meant = named.map(String::as_str).filter(|name| !is_excluded(rule, name));
    let listed = places.names().map(|name| &**name).filter(|name| could_be_named(rule, name));
    let is_served = |name: &&str| {
        *name != world.settings().own_namespace && !world.settings().system_namespaces.contains(*name)
    };
    meant.chain(listed).filter(is_served).filter(|name| !world.sees(name)).collect()
}

/// The namespaces that get a rule's copies, in order. If the rule names its targets, only the named
/// namespaces are looked up.
pub fn targets<'w>(world: &'w World, rule: &'w CompiledRule) -> impl Iterator<Item = &'w Arc<str>> {
    let literals = literals(rule);
    let any = literals.is_none().then(|| world.namespaces().iter()).into_iter().flatten();
    let named = literals.into_iter().flatten().filter_map(|name| world.namespaces().get_key_value(name));
    named
        .chain(any)
        .filter(|(name, facts)| takes_copies(world, name, facts) && is_named(rule, name, facts))
        .map(|(name, _)| name)
}

/// How many namespaces can be among a rule's targets, at most.
pub(super) fn at_most(world: &World, rule: &CompiledRule) -> usize {
    literals(rule).map_or(world.namespaces().len(), |names| names.len())
}

/// The only possible targets of a rule that names its targets literally.
fn literals(rule: &CompiledRule) -> Option<BTreeSet<&str>> {
    let terms = rule.targets.iter().map(|term| term.names.as_ref()?.literals());
    let names: Option<Vec<&[String]>> = terms.collect();
    Some(names?.into_iter().flatten().map(String::as_str).collect())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::{
        api::CopyratorRuleSpec,
        authority::{Subject, rule_questions_within},
        model::{NamespaceRead, NamespaceScope, Store},
        names::Kind,
    };

    /// Copyrator asks about a missing right before a deletion, so both functions must agree.
    #[test]
    fn what_was_asked_about_deleting_is_what_the_spec_declares() {
        let rule = Declarer::rule("home", "app");
        let mut some = World::default();
        some.set_namespace_scope(Some(NamespaceScope::new(["a", "b"])));
        for place in ["a", "b"].map(Arc::from) {
            some.note_read(&place, NamespaceRead::Namespace(NamespaceFacts::default()));
            let others = [Store::ConfigMaps, Store::Secrets, Store::Deployments, Store::StatefulSets];
            let ours = [Store::DaemonSets, Store::CopyratorRules, Store::ConfigMonitors];
            for store in others.into_iter().chain(ours) {
                some.note_read(&place, NamespaceRead::Listed(store));
            }
        }
        for targets in [
            json!([{"names": ["a"]}, {"names": ["b"]}]),
            json!([{"names": ["a"], "namespaceSelector": {"matchLabels": {"team": "blue"}}}]),
            json!([{"names": ["a*"]}]),
            json!([{"names": ["a"]}, {"namespaceSelector": {}}]),
        ] {
            for kind in ["ConfigMap", "Secret"] {
                let spec: CopyratorRuleSpec = serde_json::from_value(json!({
                    "source": {"kind": "Secret", "names": ["app"]}, "targets": targets, "excludeTargets": ["b"],
                    "copy": {"kind": kind, "keys": {"include": ["k"]}}
                }))
                .unwrap();
                let compiled = CompiledRule::compile(&spec, &Default::default()).unwrap();
                for world in [&World::default(), &some] {
                    let within = within(world, &rule, &compiled);
                    let asked = rule_questions_within(
                        "home",
                        &spec,
                        compiled.kind,
                        &Subject::default(),
                        within.as_ref(),
                    );
                    for (kind, resource) in [(Kind::ConfigMap, "configmaps"), (Kind::Secret, "secrets")] {
                        for place in ["a", "b", "c"] {
                            let speaks = asked.iter().any(|one| {
                                let there = one.namespace.is_empty() || one.namespace == place;
                                one.verb == "delete" && one.resource == resource && there
                            });
                            let slot = ObjectKey::new(kind, place, "app");
                            let was = was_asked_about(world, &rule, &compiled, &slot);
                            assert_eq!(was, speaks, "{slot} of {targets}");
                        }
                    }
                }
            }
        }
    }
}
