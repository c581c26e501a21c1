//! The reach of a change: the numbers of copies and restarts. The webhook does not watch ConfigMaps and
//! Secrets, so it derives the numbers from rules, monitors and workloads.

use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use crate::{
    model::{MonitorFacts, RuleFacts, TemplateFacts, WorkloadFacts, World},
    names::{Declarer, Kind, WorkloadKey},
    plan::copy::{
        targets::{bounds, targets},
        templates::template_bounds,
    },
    validate::{Candidate, CompiledMonitor, CompiledRule, CompiledTemplate, WorkloadChoice},
};

/// The reach of a change of one object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Reach {
    pub(super) copies: usize,
    /// Workloads that restart because of the change.
    pub(super) restarts: usize,
    /// Bytes in all copies of one rule; the largest sum of any rule.
    pub(super) bytes: u64,
}

/// Counts the copies of an object, and the workloads that restart, when these of its keys change. For a new
/// object, the object's own annotations do not count: Copyrator has not checked the rights of their author
/// yet.
pub(super) fn of_change(
    world: &World,
    kind: Kind,
    object: &Candidate<'_>,
    new: Option<&Candidate<'_>>,
    is_there: bool,
    keys: &[String],
) -> Reach {
    let restarts = restarts(world, kind, &object.namespace, &object.name, keys);
    let mut reach = Reach { restarts, ..Reach::default() };
    let rules = world.rules().iter().filter(|(name, _)| is_there || name.as_annotated().is_none());
    let acting = rules.filter_map(|(name, rule)| {
        let compiled = rule.compiled.as_deref().ok()?;
        is_source(name, compiled, kind, object).then(|| acting(world, name, rule))?
    });
    for compiled in acting {
        let carried: Vec<_> =
            keys.iter().filter_map(|key| compiled.shape.keys.carried(key)).map(str::to_owned).collect();
        if carried.is_empty() {
            continue;
        }
        let source = crate::names::ObjectKey::new(kind, &*object.namespace, &*object.name);
        let copy = compiled.shape.copy_name(&source);
        let before = reach.copies;
        for namespace in targets(world, compiled).filter(|namespace| ***namespace != *object.namespace) {
            reach.copies += 1;
            reach.restarts += self::restarts(world, compiled.shape.kind, namespace, &copy, &carried);
        }
        let size = new.map_or(0, |new| new.size_of(|key| compiled.shape.keys.carried(key).is_some()));
        reach.bytes = reach.bytes.max(size.saturating_mul((reach.copies - before) as u64));
    }
    reach
}

/// Returns a rule's spec if the rule acts: the API server has confirmed the rights for the current spec.
/// Rules of unchecked authors do not act here, since a warning about their sources would reveal which objects
/// exist. A user who can write statuses could forge an `Authorized` condition, so a process that holds the
/// key of digests verifies the proof as well. For annotations, only the reconciler's index counts, and not a
/// proof on the object.
pub(super) fn acting<'w>(world: &World, name: &Declarer, rule: &'w RuleFacts) -> Option<&'w CompiledRule> {
    let compiled = rule.compiled.as_deref().ok().filter(|compiled| !compiled.suspend)?;
    let is_proven = |key| rule.is_granted(key, &bounds(world, name, compiled));
    let conditions = rule.status.as_ref().map_or(&[][..], |status| &status.conditions);
    may(conditions, rule.generation, name, world.key().map(is_proven)).then_some(compiled)
}

/// Returns a template's spec if the template acts. A process that does not watch templates reads them from
/// the reconciler's index, which lists only templates that act.
pub(super) fn acting_template<'w>(
    world: &World,
    name: &Declarer,
    template: &'w TemplateFacts,
) -> Option<&'w CompiledTemplate> {
    let compiled = template.compiled.as_deref().ok().filter(|compiled| !compiled.suspend)?;
    let is_proven = |key| template.is_granted(key, &template_bounds(world, compiled));
    let conditions = template.status.as_ref().map_or(&[][..], |status| &status.conditions);
    may(conditions, template.generation, name, world.key().map(is_proven)).then_some(compiled)
}

/// Returns a monitor's spec if the monitor acts.
fn watching<'w>(world: &World, name: &Declarer, monitor: &'w MonitorFacts) -> Option<&'w CompiledMonitor> {
    let compiled = monitor.compiled.as_deref().ok().filter(|compiled| !compiled.suspend)?;
    let is_proven = world.key().map(|key| monitor.is_granted(key));
    let conditions = monitor.status.as_ref().map_or(&[][..], |status| &status.conditions);
    may(conditions, monitor.generation, name, is_proven).then_some(compiled)
}

/// Whether the status has `Authorized` for this generation, with a valid proof if this process can verify
/// proofs. For annotations, the status is only in the leader's memory, so the proof alone counts.
fn may(conditions: &[Condition], generation: i64, name: &Declarer, is_proven: Option<bool>) -> bool {
    let speaks = |one: &&Condition| one.type_ == "Authorized" && one.observed_generation == Some(generation);
    match conditions.iter().find(speaks) {
        Some(said) => said.status == "True" && is_proven.unwrap_or(true),
        None => name.as_annotated().is_some() && is_proven.unwrap_or(false),
    }
}

pub(super) fn source_namespaces<'w>(
    name: &'w Declarer,
    rule: &'w CompiledRule,
) -> impl Iterator<Item = &'w str> {
    let own = rule.source_namespaces.is_empty().then_some(&**name.namespace());
    rule.source_namespaces.iter().map(String::as_str).chain(own)
}

fn is_source(name: &Declarer, rule: &CompiledRule, kind: Kind, object: &Candidate<'_>) -> bool {
    rule.kind == kind
        && source_namespaces(name, rule).any(|namespace| namespace == object.namespace)
        && rule.names.as_ref().is_none_or(|names| names.matches(&object.name))
        && rule.object_selector.as_ref().is_none_or(|selector| selector.matches(|key| object.label(key)))
}

/// How many objects a rule copies: the number in its status, else the number of literal names, else `None`.
pub(super) fn sources(name: &Declarer, facts: &RuleFacts, rule: &CompiledRule) -> Option<usize> {
    let status = facts.status.as_ref().filter(|status| status.observed_generation == Some(facts.generation));
    if let Some(status) = status {
        return usize::try_from(status.sources).ok();
    }
    let names = rule.names.as_ref().filter(|_| rule.object_selector.is_none())?.literals()?;
    Some(names.len() * source_namespaces(name, rule).count())
}

/// How many workloads of a namespace restart when these keys of one of its objects change.
fn restarts(world: &World, kind: Kind, namespace: &str, name: &str, keys: &[String]) -> usize {
    let from = Declarer::monitor(namespace, "");
    let monitors: Vec<&CompiledMonitor> = world
        .monitors()
        .range(from..)
        .take_while(|(monitor, _)| **monitor.namespace() == *namespace)
        .filter(|(_, monitor)| monitor.compiled.as_ref().is_ok_and(|it| watches(it, kind, name, keys)))
        .filter_map(|(name, monitor)| watching(world, name, monitor))
        .collect();
    let namespace = Arc::from(namespace);
    let workloads = world.workloads_in(&namespace);
    let due = |(key, facts): &(&WorkloadKey, &WorkloadFacts)| {
        let uses = uses(facts, kind, name, keys);
        (world.settings().annotations && annotation_asks(facts, kind, name, uses))
            || monitors.iter().any(|monitor| match &monitor.workloads {
                WorkloadChoice::References => uses,
                WorkloadChoice::Pods(selector, _) => facts.template_labels.are_selected_by(selector),
                WorkloadChoice::Names(names) => {
                    names.iter().any(|(kind, name)| *kind == key.kind && **name == *key.name)
                }
            })
    };
    let says_no = |facts: &WorkloadFacts| {
        world.settings().annotations
            && facts.restarts.restart.as_deref().is_some_and(|text| text.trim() == "false")
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
    match facts.restarts.restart.as_deref().map(str::trim) {
        None => false,
        Some("true") => uses,
        Some(listed) => listed
            .split(',')
            .filter_map(|one| one.trim().split_once('/'))
            .any(|(listed, object)| listed.eq_ignore_ascii_case(&kind.to_string()) && object == name),
    }
}
