//! How far a change reaches: counts only, from what the webhook knows (no ConfigMap or Secret).

use std::{borrow::Cow, collections::BTreeMap, sync::Arc};

use crate::{
    authority::{Identity, TrustedWriters},
    marks::AUTHORIZED,
    model::{Kind, NamespacedName, RuleFacts, WorkloadFacts, WorkloadKey, WorkloadKind, World},
    plan::targets::{is_named, takes_copies, targets},
    validate::{Candidate, CompiledMonitor, CompiledRule, WorkloadChoice, annotated_monitor, annotated_rule},
};

/// A number, and whether there may be more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Count {
    pub(super) known: usize,
    pub(super) at_least: bool,
}

/// How far a change of one object reaches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Reach {
    /// Its copies.
    pub(super) copies: usize,
    /// Workloads that restart.
    pub(super) restarts: usize,
    /// Bytes in all copies of one rule; the most that any comes to.
    pub(super) bytes: u64,
}

/// How many objects a new namespace will get, and from how many rules.
pub(super) fn into_namespace(world: &World, object: &Candidate<'_>) -> (Count, usize) {
    let labels = object.labels.clone().unwrap_or_default();
    let facts = crate::model::NamespaceFacts { labels, terminating: false };
    let mut count = Count::default();
    let mut rules = 0;
    if !takes_copies(world, &object.name, &facts) {
        return (count, rules);
    }
    for (name, rule) in &world.rules {
        let Some(compiled) = acting(rule) else { continue };
        let elsewhere = source_namespaces(name, compiled).any(|source| source != object.name);
        if !elsewhere || !is_named(compiled, &object.name, &facts) {
            continue;
        }
        match sources(name, rule, compiled) {
            Some(0) => continue,
            Some(number) => count.known += number,
            None => count.at_least = true,
        }
        rules += 1;
    }
    count.at_least |= world.sources_omitted;
    (count, rules)
}

/// The copies of an object, and the workloads that restart, when these of its keys change to what it will be.
pub(super) fn of_change(
    world: &World,
    kind: Kind,
    object: &Candidate<'_>,
    new: Option<&Candidate<'_>>,
    keys: &[String],
    trusted: &TrustedWriters,
) -> Reach {
    let own = watched_by(world, kind, object, trusted);
    let restarts = restarts(world, kind, &object.namespace, &object.name, keys, own.as_ref());
    let mut reach = Reach { restarts, ..Reach::default() };
    let written = world.rules.iter().filter(|(name, _)| name.annotated().is_none());
    let written = written.filter_map(|(name, rule)| {
        acting(rule).filter(|compiled| is_source(name, compiled, kind, object)).map(Cow::Borrowed)
    });
    let declared = declared_by(world, kind, object, trusted).map(Cow::Owned);
    for compiled in written.chain(declared) {
        let carried: Vec<_> =
            keys.iter().filter_map(|key| compiled.shape.keys.carried(key)).map(str::to_owned).collect();
        if carried.is_empty() {
            continue;
        }
        let source = crate::model::ObjectKey::new(kind, &*object.namespace, &*object.name);
        let copy = compiled.shape.copy_name(&source);
        let before = reach.copies;
        for namespace in targets(world, &compiled).filter(|namespace| ***namespace != *object.namespace) {
            reach.copies += 1;
            reach.restarts += self::restarts(world, compiled.shape.kind, namespace, &copy, &carried, None);
        }
        let size = new.map_or(0, |new| new.size_of(|key| compiled.shape.keys.carried(key).is_some()));
        reach.bytes = reach.bytes.max(size.saturating_mul((reach.copies - before) as u64));
    }
    reach
}

/// The rule that an object's own annotations declare, where somebody who may has declared it: the object says so itself,
/// whether its store is watched here or not. Whether the proof is good is the reconciler's to say.
fn declared_by(
    world: &World,
    kind: Kind,
    object: &Candidate<'_>,
    trusted: &TrustedWriters,
) -> Option<CompiledRule> {
    let asks = is_heard(world, object, trusted).then_some(object)?;
    let declared = annotated_rule(kind, &asks.name, |key| asks.annotation(key))?;
    declared.ok().map(|(_, compiled)| compiled)
}

/// The same of the monitor that its annotation declares.
fn watched_by(
    world: &World,
    kind: Kind,
    object: &Candidate<'_>,
    trusted: &TrustedWriters,
) -> Option<CompiledMonitor> {
    let asks = is_heard(world, object, trusted).then_some(object)?;
    let declared = annotated_monitor(kind, &asks.name, |key| asks.annotation(key))?;
    declared.ok().map(|(_, compiled)| compiled)
}

/// Whether its annotations count: who was never asked would learn by them what there is.
fn is_heard(world: &World, object: &Candidate<'_>, trusted: &TrustedWriters) -> bool {
    let none = BTreeMap::new();
    let annotations = object.annotations.as_ref().unwrap_or(&none);
    world.annotations
        && object.annotation(AUTHORIZED).is_some()
        && Identity::of_stored(&object.namespace, None, annotations, trusted).is_ok()
}

/// A rule's spec, where nothing known keeps it from acting.
fn acting(rule: &RuleFacts) -> Option<&CompiledRule> {
    let unauthorized = rule.status.as_ref().is_some_and(|status| {
        status.conditions.iter().any(|one| one.type_ == "Authorized" && one.status == "False")
    });
    rule.compiled.as_deref().ok().filter(|compiled| !compiled.suspend && !unauthorized)
}

fn source_namespaces<'w>(name: &'w NamespacedName, rule: &'w CompiledRule) -> impl Iterator<Item = &'w str> {
    let own = rule.source_namespaces.is_empty().then_some(&*name.namespace);
    rule.source_namespaces.iter().map(String::as_str).chain(own)
}

fn is_source(name: &NamespacedName, rule: &CompiledRule, kind: Kind, object: &Candidate<'_>) -> bool {
    rule.kind == kind
        && source_namespaces(name, rule).any(|namespace| namespace == object.namespace)
        && rule.names.as_ref().is_none_or(|names| names.matches(&object.name))
        && rule.object_selector.as_ref().is_none_or(|selector| selector.matches(|key| object.label(key)))
}

/// How many objects a rule copies: as its status says, else as many as it names, else unknown.
fn sources(name: &NamespacedName, facts: &RuleFacts, rule: &CompiledRule) -> Option<usize> {
    let status = facts.status.as_ref().filter(|status| status.observed_generation == Some(facts.generation));
    if let Some(status) = status {
        return usize::try_from(status.sources).ok();
    }
    let names = rule.names.as_ref().filter(|_| rule.object_selector.is_none())?.literals()?;
    Some(names.len() * source_namespaces(name, rule).count())
}

/// How many workloads of a namespace restart when these keys of one of its objects change.
fn restarts(
    world: &World,
    kind: Kind,
    namespace: &str,
    name: &str,
    keys: &[String],
    own: Option<&CompiledMonitor>,
) -> usize {
    let from = NamespacedName::new(namespace, "");
    let monitors: Vec<&CompiledMonitor> = world
        .monitors
        .range(from..)
        .take_while(|(monitor, _)| *monitor.namespace == *namespace)
        // What annotations declare the object says itself, whether its store is watched here or not.
        .filter(|(monitor, _)| monitor.annotated().is_none())
        .filter_map(|(_, monitor)| monitor.compiled.as_deref().ok())
        .chain(own)
        .filter(|monitor| !monitor.suspend && watches(monitor, kind, name, keys))
        .collect();
    let kinds = [WorkloadKind::Deployment, WorkloadKind::StatefulSet, WorkloadKind::DaemonSet];
    let workloads = kinds.into_iter().flat_map(|workload| {
        let from = WorkloadKey { kind: workload, namespace: Arc::from(namespace), name: Arc::from("") };
        world
            .workloads
            .range(from..)
            .take_while(move |(key, _)| key.kind == workload && *key.namespace == *namespace)
    });
    let due = |(key, facts): &(&WorkloadKey, &WorkloadFacts)| {
        let uses = uses(facts, kind, name, keys);
        (world.annotations && annotation_asks(facts, kind, name, uses))
            || monitors.iter().any(|monitor| match &monitor.workloads {
                WorkloadChoice::References => uses,
                WorkloadChoice::Pods(selector, _) => {
                    selector.matches(|label| facts.template_labels.get(label).map(String::as_str))
                }
                WorkloadChoice::Names(names) => {
                    names.iter().any(|(kind, name)| *kind == key.kind && **name == *key.name)
                }
            })
    };
    let says_no = |facts: &WorkloadFacts| {
        world.annotations && facts.restart.as_deref().is_some_and(|text| text.trim() == "false")
    };
    workloads.filter(|(_, facts)| !facts.deleting && !says_no(facts)).filter(due).count()
}

fn watches(monitor: &CompiledMonitor, kind: Kind, name: &str, keys: &[String]) -> bool {
    monitor.watch.iter().any(|term| {
        term.kind == kind
            && term.names.matches(name)
            && term.keys.as_ref().is_none_or(|globs| keys.iter().any(|key| globs.matches(key)))
    })
}

fn uses(facts: &WorkloadFacts, kind: Kind, name: &str, keys: &[String]) -> bool {
    facts.references.iter().any(|reference| {
        reference.kind == kind
            && &*reference.name == name
            && reference.keys.as_ref().is_none_or(|used| used.iter().any(|key| keys.contains(key)))
    })
}

fn annotation_asks(facts: &WorkloadFacts, kind: Kind, name: &str, uses: bool) -> bool {
    match facts.restart.as_deref().map(str::trim) {
        None => false,
        Some("true") => uses,
        Some(listed) => listed
            .split(',')
            .filter_map(|one| one.trim().split_once('/'))
            .any(|(listed, object)| listed.eq_ignore_ascii_case(&kind.to_string()) && object == name),
    }
}
