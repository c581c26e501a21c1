//! The namespaces whose ConfigMaps and Secrets the plans need. Writes in other namespaces change no plan.
//!
//! Every plan reads objects of these namespaces, and of no other. The price: if an object is neither in such
//! a namespace nor has a label of ours, its author gets no report that its annotations are misspelt or lack
//! the label beside them.

use std::{borrow::Borrow, sync::Arc};

use super::{
    Changed,
    copy::{
        claims::{is_anothers, is_copy, namespaces_meant},
        inert::source_namespaces,
        targets::{is_named, takes_copies, targets},
        templates::{instances, instances_in},
    },
    policy::scan::{is_exempt, judging},
};
use crate::{
    api::{DataKind, PolicyKind},
    model::{DATA_KINDS, DataNeed, NamespaceFacts, OurLabel, PolicyFacts, WorkloadFacts, World},
    names::{NamespacedName, ObjectKey},
    validate::{CompiledRule, CompiledTemplate},
};

#[cfg(test)]
mod tests;

/// The namespaces that all plans need. Our own is among them.
pub fn needed(world: &World) -> DataNeed {
    let mut need = DataNeed::in_namespace(&world.settings().own_namespace);
    world.rules().keys().for_each(|rule| of_rule(world, rule, &mut need));
    world.templates().keys().for_each(|template| of_template(world, template, &mut need));
    if serves_all(world) {
        world.policies().values().for_each(|facts| of_policy(world, facts, &mut need));
        world.monitors().keys().for_each(|monitor| need.add_both(&monitor.namespace));
        for (key, _) in world.workloads().iter().filter(|(_, facts)| is_looked_at(facts)) {
            need.add_both(&key.namespace);
        }
    }
    world.copies().for_each(|copy| of_copy(world, copy, &mut need));
    labelled(world).for_each(|key| itself(key, &mut need));
    need
}

/// The namespaces that plans need in addition after this change: together with the earlier need, this is all
/// of [`needed`].
pub fn needed_by(world: &World, changed: &Changed) -> DataNeed {
    let mut need = DataNeed::default();
    match changed {
        Changed::Namespace(name) => of_namespace(world, name, &mut need),
        Changed::Rule(rule) => of_rule(world, rule, &mut need),
        Changed::Template(template) => of_template(world, template, &mut need),
        Changed::Policy(_) | Changed::Monitor(_) | Changed::Workload(_) if !serves_all(world) => {}
        Changed::Policy(name) => {
            world.policies().get(name).into_iter().for_each(|facts| of_policy(world, facts, &mut need));
        }
        Changed::Monitor(name) => need.add_both(&name.namespace),
        Changed::Workload(key) => {
            if world.workloads().get(key).is_some_and(|facts| is_looked_at(facts)) {
                need.add_both(&key.namespace);
            }
        }
        Changed::Object(key) => {
            of_copy(world, key, &mut need);
            let declared = key.annotation_rule();
            of_rule(world, &declared, &mut need);
            if world.monitors().contains_key(&declared) {
                need.add_both(&key.namespace);
            }
            let has = |label| world.data_scope().is_some_and(|scope| scope.has(label, key));
            if labels(world).any(has) {
                itself(key, &mut need);
            }
        }
        Changed::Instance(kind, name) => {
            for (template, facts) in world.templates() {
                let Ok(compiled) = &facts.compiled else { continue };
                if compiled.instance_kind() == Some(kind) {
                    of_template_in(world, template, compiled, &name.namespace, &mut need);
                }
            }
        }
        Changed::Instances(_) | Changed::Granted(_) | Changed::SourceIndex | Changed::Lists => {}
    }
    need
}

/// Whether this process serves all rules. Otherwise it serves one rule, and looks only at that rule's copies.
fn serves_all(world: &World) -> bool {
    world.settings().only_rule.is_none()
}

/// The labels of ours that this process looks at.
fn labels(world: &World) -> impl Iterator<Item = OurLabel> {
    let declares = serves_all(world) && world.settings().annotations;
    [Some(OurLabel::Copy), declares.then_some(OurLabel::Declares)].into_iter().flatten()
}

/// Objects with such a label. While all namespaces are watched, no watch by label reports these objects, but
/// the world has them. Without them, their namespaces would be dropped, and then found to be needed.
fn labelled(world: &World) -> impl Iterator<Item = &ObjectKey> {
    let told = move |label| world.data_scope().into_iter().flat_map(move |scope| scope.labelled_with(label));
    let is_all = |key: &ObjectKey| {
        let wanted = world.data_scope().map(|scope| scope.wanted());
        key.kind.data().zip(wanted).is_some_and(|(kind, wanted)| wanted.is_all(kind))
    };
    let known = world.objects().filter(move |(key, _)| is_all(key));
    let known = known.filter(|(_, facts)| labels(world).any(|label| label.is_on(&facts.labels)));
    labels(world).flat_map(told).chain(known.map(|(key, _)| key))
}

fn itself(key: &ObjectKey, need: &mut DataNeed) {
    if let Some(kind) = key.kind.data() {
        need.add(kind, &key.namespace);
    }
}

/// Adds the namespaces of a rule's sources and of its copies, whether the rule may write or not: no other
/// rule may overwrite its sources. An invalid rule may have sources of either kind in its source namespaces.
fn of_rule(world: &World, rule: &NamespacedName, need: &mut DataNeed) {
    let Some(facts) = world.rules().get(rule) else { return };
    match (&facts.compiled, rule.annotated()) {
        (Ok(compiled), _) => {
            if let Some(kind) = compiled.kind.data() {
                source_namespaces(rule, compiled).for_each(|name| need.add(kind, &name.into()));
            }
            if let Some(kind) = compiled.shape.kind.data() {
                in_each(need, kind, targets(world, compiled));
            }
        }
        (Err(_), Some(source)) => itself(&source, need),
        (Err(_), None) => {
            namespaces_meant(rule, facts).into_iter().for_each(|name| need.add_both(&name.into()));
        }
    }
}

/// Adds the namespaces of the objects that a template declares.
fn of_template(world: &World, template: &NamespacedName, need: &mut DataNeed) {
    let Some(Ok(compiled)) = world.templates().get(template).map(|facts| &facts.compiled) else { return };
    for kind in declared(world, compiled) {
        in_each(need, kind, instances(world, template, compiled).map(|instance| instance.namespace));
    }
}

fn of_template_in(
    world: &World,
    template: &NamespacedName,
    compiled: &CompiledTemplate,
    namespace: &Arc<str>,
    need: &mut DataNeed,
) {
    for kind in declared(world, compiled) {
        if instances_in(world, template, compiled, namespace).next().is_some() {
            need.add(kind, namespace);
        }
    }
}

fn declared(world: &World, compiled: &CompiledTemplate) -> impl Iterator<Item = DataKind> {
    compiled.kinds(&world.settings().template_kinds).filter_map(|kind| kind.data())
}

/// Adds the namespaces that a policy reaches: each change of an object there is judged anew.
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

/// Adds what rules, templates and policies need in this namespace because they select it.
fn of_namespace(world: &World, name: &Arc<str>, need: &mut DataNeed) {
    let Some(facts) = world.namespaces().get(name) else { return };
    let targets_it =
        |compiled: &CompiledRule| takes_copies(world, name, facts) && is_named(compiled, name, facts);
    let rules = world.rules().values().filter_map(|facts| facts.compiled.as_deref().ok());
    for compiled in rules {
        if let Some(kind) = compiled.shape.kind.data().filter(|_| targets_it(compiled)) {
            need.add(kind, name);
        }
    }
    for (template, facts) in world.templates() {
        if let Ok(compiled) = &facts.compiled {
            of_template_in(world, template, compiled, name, need);
        }
    }
    for policy in world.policies().values() {
        let reaches = judging(policy).is_some_and(|it| it.reaches(name, &facts.labels));
        if reaches && !is_exempt(world, name) {
            judged(policy).for_each(|kind| need.add(kind, name));
        }
    }
}

/// Whether a workload restarts by its own annotation, or has a record.
fn is_looked_at(facts: &WorkloadFacts) -> bool {
    facts.restarts.restart.is_some() || facts.restarts.applied.is_some()
}

/// Adds the object that declares the rule of a copy. If that object has lost its label, only the copy leads
/// to it, and its copies stay. Forged marks are ignored.
fn of_copy(world: &World, copy: &ObjectKey, need: &mut DataNeed) {
    let marks = world.object(copy).filter(|facts| is_copy(world, copy, facts));
    let rule = marks.and_then(|facts| facts.marks.as_deref()).map(|marks| &marks.rule);
    let source = rule.filter(|rule| !is_anothers(world, rule)).and_then(|rule| rule.annotated());
    source.into_iter().for_each(|source| itself(&source, need));
}

/// Adds namespaces until the need covers all of them.
fn in_each(need: &mut DataNeed, kind: DataKind, namespaces: impl Iterator<Item = impl Borrow<Arc<str>>>) {
    for namespace in namespaces {
        if need.is_all(kind) {
            return;
        }
        need.add(kind, namespace.borrow());
    }
}
