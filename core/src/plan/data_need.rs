//! Where ConfigMaps and Secrets must be known, and no more: with no rule in sight, their writes concern nobody here.
//!
//! Every plan reads objects of the namespaces that are named here, and of no other. What is left out: an object that is neither in
//! such a namespace nor has a label of ours is not told that its annotations are misspelt or lack the label beside them.

use std::{borrow::Borrow, sync::Arc};

use super::{
    Changed,
    copy::{
        claims::{namespaces_meant, source_namespaces},
        targets::{is_named, takes_copies, targets},
        templates::{instances, instances_in},
    },
    policy::scan::{is_exempt, judging},
};
use crate::{
    api::{DataKind, PolicyKind},
    model::{DATA_KINDS, DataNeed, NamespaceFacts, PolicyFacts, WorkloadFacts, World},
    names::{NamespacedName, ObjectKey},
    validate::{CompiledRule, CompiledTemplate},
};

/// Where objects must be known for everything that there is. Our own are among them.
pub fn needed(world: &World) -> DataNeed {
    let mut need = DataNeed::in_namespace(&world.settings().own_namespace);
    world.rules().keys().for_each(|rule| of_rule(world, rule, &mut need));
    world.templates().keys().for_each(|template| of_template(world, template, &mut need));
    world.policies().values().for_each(|facts| of_policy(world, facts, &mut need));
    world.monitors().keys().for_each(|monitor| need.add_both(&monitor.namespace));
    for (key, _) in world.workloads().iter().filter(|(_, facts)| is_looked_at(facts)) {
        need.add_both(&key.namespace);
    }
    world.copies().for_each(|copy| of_copy(world, copy, &mut need));
    world.data_scope().into_iter().flat_map(|scope| scope.labelled()).for_each(|key| itself(key, &mut need));
    need
}

/// Where objects must be known besides, after this has changed: together with what was needed before, that is all of [`needed`].
pub fn needed_by(world: &World, changed: &Changed) -> DataNeed {
    let mut need = DataNeed::default();
    match changed {
        Changed::Namespace(name) => of_namespace(world, name, &mut need),
        Changed::Rule(rule) => of_rule(world, rule, &mut need),
        Changed::Template(template) => of_template(world, template, &mut need),
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
            if world.data_scope().is_some_and(|scope| scope.is_labelled(key)) {
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
        Changed::Instances(_) | Changed::Granted(_) | Changed::SourceIndex => {}
    }
    need
}

fn itself(key: &ObjectKey, need: &mut DataNeed) {
    if let Some(kind) = key.kind.data() {
        need.add(kind, &key.namespace);
    }
}

/// The sources of a rule, and the places of its copies, whether it may write or not: others are kept from overwriting its sources. An
/// invalid one may have any where its sources are.
fn of_rule(world: &World, rule: &NamespacedName, need: &mut DataNeed) {
    let Some(facts) = world.rules().get(rule) else { return };
    // Of the object that declares it, also where its annotations say nothing that is understood.
    rule.annotated().into_iter().for_each(|source| itself(&source, need));
    match &facts.compiled {
        Ok(compiled) => {
            if let Some(kind) = compiled.kind.data() {
                source_namespaces(rule, compiled).for_each(|name| need.add(kind, &name.into()));
            }
            if let Some(kind) = compiled.shape.kind.data() {
                in_each(need, kind, targets(world, compiled));
            }
        }
        Err(_) => namespaces_meant(rule, facts).into_iter().for_each(|name| need.add_both(&name.into())),
    }
}

/// The places of what a template declares.
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

/// Everything that a policy is about: each change of it is judged anew.
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

/// Of everything that selects namespaces, what selects this one.
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

/// The object that declares the rule of a copy: where it has lost its label it is found by nothing else, and the copies of such an
/// object stay.
fn of_copy(world: &World, copy: &ObjectKey, need: &mut DataNeed) {
    let marks = world.object(copy).and_then(|facts| facts.marks.as_deref());
    let source = marks.and_then(|marks| marks.rule.annotated());
    source.into_iter().for_each(|source| itself(&source, need));
}

/// Adds namespaces until all are.
fn in_each(need: &mut DataNeed, kind: DataKind, namespaces: impl Iterator<Item = impl Borrow<Arc<str>>>) {
    for namespace in namespaces {
        if need.is_all(kind) {
            return;
        }
        need.add(kind, namespace.borrow());
    }
}
