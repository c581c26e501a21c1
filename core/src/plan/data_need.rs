//! The namespaces in which plans read ConfigMaps and Secrets: the namespaces of sources, the namespaces of
//! monitored workloads, and the namespaces that policies reach. Elsewhere plans read only objects with a
//! label of ours, and objects in the way of a copy.
//!
//! The price: if an object is neither in such a namespace nor has a label of ours, its author gets no report
//! that its annotations are misspelt or lack the label beside them.

use std::{borrow::Borrow, sync::Arc};

use super::{
    Changed,
    copy::{
        claims::{is_anothers, is_copy, namespaces_meant},
        inert::source_namespaces,
    },
    policy::scan::{is_exempt, judging},
};
use crate::{
    api::{DataKind, PolicyKind},
    model::{DATA_KINDS, DataNeed, NamespaceFacts, PolicyFacts, SeenBy, WorkloadFacts, World},
    names::{Declarer, ObjectKey},
};

#[cfg(test)]
mod tests;

/// The namespaces that all plans need. Our own namespace is always needed.
pub fn needed(world: &World) -> DataNeed {
    let mut need = DataNeed::in_namespace(&world.settings().own_namespace);
    world.rules().keys().for_each(|rule| of_rule(world, rule, &mut need));
    if serves_all(world) {
        world.policies().values().for_each(|facts| of_policy(world, facts, &mut need));
        world.monitors().keys().for_each(|monitor| need.add_both(monitor.namespace()));
        for (key, _) in world.workloads().iter().filter(|(_, facts)| is_looked_at(facts)) {
            need.add_both(&key.namespace);
        }
    }
    world.copies().for_each(|copy| of_copy(world, copy, &mut need));
    need
}

/// The namespaces that plans need in addition after this change: together with the earlier need, this is all
/// of [`needed`].
pub fn needed_by(world: &World, changed: &Changed) -> DataNeed {
    let mut need = DataNeed::default();
    match changed {
        Changed::Namespace(name) => of_namespace(world, name, &mut need),
        Changed::Rule(rule) => of_rule(world, rule, &mut need),
        Changed::Policy(_) | Changed::Monitor(_) | Changed::Workload(_) if !serves_all(world) => {}
        Changed::Policy(name) => {
            world.policies().get(name).into_iter().for_each(|facts| of_policy(world, facts, &mut need));
        }
        Changed::Monitor(name) => need.add_both(name.namespace()),
        Changed::Workload(key) => {
            if world.workloads().get(key).is_some_and(|facts| is_looked_at(facts)) {
                need.add_both(&key.namespace);
            }
        }
        Changed::Object(key) => {
            of_copy(world, key, &mut need);
            if world.monitors().contains_key(&Declarer::annotated(key.clone())) {
                need.add_both(&key.namespace);
            }
            of_source(world, key, &mut need);
        }
        Changed::Template(_)
        | Changed::Instance(..)
        | Changed::Instances(_)
        | Changed::Granted(_)
        | Changed::SourceIndex
        | Changed::Lists => {}
    }
    need
}

/// Whether this process serves all rules. Otherwise it serves one rule, and looks only at that rule's copies.
fn serves_all(world: &World) -> bool {
    world.settings().only_rule.is_none()
}

fn itself(key: &ObjectKey, need: &mut DataNeed) {
    if let Some(kind) = key.kind.data() {
        need.add(kind, &key.namespace);
    }
}

/// Adds the namespaces of a rule's sources, whether the rule may write or not: no other rule may overwrite
/// its sources. An invalid rule may have ConfigMaps or Secrets as sources, so both kinds are needed. The
/// watch by label shows annotated sources.
fn of_rule(world: &World, rule: &Declarer, need: &mut DataNeed) {
    let Some(facts) = world.rules().get(rule).filter(|_| rule.as_annotated().is_none()) else { return };
    match &facts.compiled {
        Ok(compiled) => {
            if let Some(kind) = compiled.kind.data() {
                source_namespaces(rule, compiled).for_each(|name| need.add(kind, &name.into()));
            }
        }
        Err(_) => namespaces_meant(rule, facts).into_iter().for_each(|name| need.add_both(&name.into())),
    }
}

/// Adds the namespaces that a policy reaches: the policy judges each change of an object in these namespaces.
fn of_policy(world: &World, facts: &PolicyFacts, need: &mut DataNeed) {
    let Some(policy) = judging(facts) else { return };
    for kind in judged(facts) {
        let reached = |(name, facts): &(&Arc<str>, &NamespaceFacts)| {
            !is_exempt(world, name) && policy.reaches(name, &facts.labels)
        };
        in_each(need, kind, world.namespaces().iter().filter(reached).map(|(name, _)| name));
    }
}

fn judged(facts: &PolicyFacts) -> impl Iterator<Item = DataKind> {
    DATA_KINDS.into_iter().filter(|kind| facts.spec.match_.kinds.contains(&PolicyKind::from(*kind)))
}

/// Adds the kinds that policies judge in this namespace, if policies reach the namespace.
fn of_namespace(world: &World, name: &Arc<str>, need: &mut DataNeed) {
    let Some(facts) = world.namespaces().get(name) else { return };
    for policy in world.policies().values() {
        let reaches = judging(policy).is_some_and(|it| it.reaches(name, &facts.labels));
        if reaches && !is_exempt(world, name) {
            judged(policy).for_each(|kind| need.add(kind, name));
        }
    }
}

/// Whether a workload's own annotation declares restarts, or the workload has an applied label.
fn is_looked_at(facts: &WorkloadFacts) -> bool {
    facts.restarts.restart.is_some() || facts.restarts.applied.is_some()
}

/// Adds the annotated source of a copy, if the source has lost its label: the copies stay while the source
/// has the annotations. Forged marks are ignored.
fn of_copy(world: &World, copy: &ObjectKey, need: &mut DataNeed) {
    let marks = world.object(copy).filter(|facts| is_copy(world, copy, facts));
    let rule = marks.and_then(|facts| facts.marks.as_deref()).map(|marks| &marks.rule);
    let source = rule.filter(|rule| !is_anothers(world, rule)).and_then(|rule| rule.as_annotated());
    let is_shown =
        |source: &ObjectKey| world.object(source).is_some_and(|facts| facts.seen.is_by(SeenBy::Declaring));
    let lacks = |source: &ObjectKey| world.has_listed_declaring(source.kind) && !is_shown(source);
    source.filter(|source| lacks(source)).into_iter().for_each(|source| itself(source, need));
}

/// Adds an object that has lost its label, if it has copies.
fn of_source(world: &World, source: &ObjectKey, need: &mut DataNeed) {
    if world.object(source).is_some_and(|facts| facts.seen.is_by(SeenBy::Declaring)) {
        return;
    }
    let rule = Declarer::annotated(source.clone());
    world.copies_of_rule(&rule).for_each(|copy| of_copy(world, copy, need));
}

/// Adds namespaces, until all are in the need and no further one makes a difference.
fn in_each(need: &mut DataNeed, kind: DataKind, namespaces: impl Iterator<Item = impl Borrow<Arc<str>>>) {
    for namespace in namespaces {
        if need.is_all(kind) {
            return;
        }
        need.add(kind, namespace.borrow());
    }
}
