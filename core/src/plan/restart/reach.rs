//! Finds the monitors and annotations that reach a workload, and the workloads that restart for a changed
//! object.

use std::collections::BTreeSet;

use crate::{
    model::{MonitorFacts, Refusal, WorkloadFacts, World},
    names::{Declarer, Kind, NameKind, ObjectKey, WorkloadKey},
    validate::{CompiledMonitor, CompiledStage, WorkloadChoice},
};

/// Why a monitor reaches a workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// The monitor names the workload, or its podSelector matches the pod template.
    Declared,
    /// The monitor reaches every workload that references a watched object.
    ByReference,
}

/// How a monitor reaches this workload, if it does.
pub fn declared_reach(compiled: &CompiledMonitor, key: &WorkloadKey, facts: &WorkloadFacts) -> Option<Reach> {
    match &compiled.workloads {
        WorkloadChoice::References => {
            let uses = facts.references.iter().any(|one| compiled.watches(one.kind, &one.name).is_some());
            uses.then_some(Reach::ByReference)
        }
        WorkloadChoice::Pods(selector, _) => {
            facts.template_labels.are_selected_by(selector).then_some(Reach::Declared)
        }
        WorkloadChoice::Names(names) => {
            let is_named = names.iter().any(|(kind, name)| *kind == key.kind && **name == *key.name);
            is_named.then_some(Reach::Declared)
        }
    }
}

/// Whether a monitor may act; `None` until the API server has been asked about this very generation.
pub fn standing<'w>(
    world: &'w World,
    name: &Declarer,
    monitor: &MonitorFacts,
) -> Option<&'w Result<(), Refusal>> {
    let authority = world.monitor_authority(name)?;
    let is_current = authority.uid == monitor.uid && authority.generation == monitor.generation;
    is_current.then_some(&authority.answer)
}

/// The request in a workload's own annotation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wish<'w> {
    /// The annotation is `true`: every object that the workload's pod template uses.
    Everything,
    /// The objects that the annotation names: `configmap/a,secret/b`.
    Listed(Vec<(Kind, &'w str)>),
}

impl<'w> Wish<'w> {
    /// Whether the request includes this object, by its name or by `true`.
    pub fn names(&self, kind: Kind, name: &str) -> bool {
        match self {
            Self::Everything => true,
            Self::Listed(listed) => listed.contains(&(kind, name)),
        }
    }

    /// The objects that the annotation lists.
    pub fn listed(&self) -> impl Iterator<Item = (Kind, &'w str)> + '_ {
        let listed = match self {
            Self::Everything => &[][..],
            Self::Listed(listed) => listed,
        };
        listed.iter().copied()
    }
}

/// The request in the workload's annotation, if annotations are enabled. Words that name no object are
/// skipped: one typing error must not make the other words ineffective.
pub fn annotated<'w>(world: &World, facts: &'w WorkloadFacts) -> Option<Wish<'w>> {
    let text = facts.restarts.restart.as_deref().filter(|_| world.settings().annotations)?.trim();
    if text == "true" {
        return Some(Wish::Everything);
    }
    let listed: Vec<_> = text.split(',').filter_map(restart_word).collect();
    (!listed.is_empty()).then_some(Wish::Listed(listed))
}

/// The object that one word of the annotation names.
pub(super) fn restart_word(word: &str) -> Option<(Kind, &str)> {
    let (kind, name) = word.trim().split_once('/')?;
    let kind = Kind::named(kind).filter(|kind| kind.data().is_some())?;
    NameKind::Object.is_name(name).then_some((kind, name))
}

/// The workloads that restart, or might restart, when this object changes. Includes workloads of suspended
/// and unauthorized monitors, whose statuses about the workload change.
pub fn workloads_using(world: &World, object: &ObjectKey) -> BTreeSet<WorkloadKey> {
    let monitors: Vec<&CompiledMonitor> = world
        .monitors_in(&object.namespace)
        .filter_map(|(_, monitor)| monitor.compiled.as_deref().ok())
        .filter(|compiled| compiled.watches(object.kind, &object.name).is_some())
        .collect();
    let uses = |key: &WorkloadKey, facts: &WorkloadFacts| {
        let references =
            || facts.references.iter().any(|one| one.kind == object.kind && one.name == object.name);
        let by_annotation = || match annotated(world, facts) {
            Some(Wish::Everything) => references(),
            Some(listed) => listed.names(object.kind, &object.name),
            None => false,
        };
        let by_monitor = |compiled: &&CompiledMonitor| match declared_reach(compiled, key, facts) {
            Some(Reach::Declared) => true,
            Some(Reach::ByReference) => references(),
            None => false,
        };
        monitors.iter().any(by_monitor) || by_annotation()
    };
    let found = world.workloads_in(&object.namespace).filter(|(key, facts)| uses(key, facts));
    found.map(|(key, _)| key.clone()).collect()
}

/// The workloads whose pod template names this object, whether or not a monitor or annotation declares their
/// restarts.
pub fn workloads_referring(world: &World, object: &ObjectKey) -> BTreeSet<WorkloadKey> {
    let refers = |facts: &WorkloadFacts| {
        facts.references.iter().any(|one| one.kind == object.kind && one.name == object.name)
    };
    let found = world.workloads_in(&object.namespace).filter(|(_, facts)| refers(facts));
    found.map(|(key, _)| key.clone()).collect()
}

/// The monitors that watch this object.
pub fn monitors_watching(world: &World, object: &ObjectKey) -> BTreeSet<Declarer> {
    let watching = world.monitors_in(&object.namespace).filter(|(_, monitor)| {
        monitor.compiled.as_ref().is_ok_and(|compiled| compiled.watches(object.kind, &object.name).is_some())
    });
    watching.map(|(name, _)| name.clone()).collect()
}

/// The workloads that a monitor reaches.
pub fn workloads_of(world: &World, monitor: &Declarer) -> BTreeSet<WorkloadKey> {
    let compiled = world.monitors().get(monitor).and_then(|facts| facts.compiled.as_deref().ok());
    let Some(compiled) = compiled else { return BTreeSet::new() };
    let reached = world
        .workloads_in(monitor.namespace())
        .filter(|(key, facts)| declared_reach(compiled, key, facts).is_some());
    reached.map(|(key, _)| key.clone()).collect()
}

/// The monitors that reach a workload and report it in their statuses.
pub fn monitors_reaching(world: &World, key: &WorkloadKey) -> BTreeSet<Declarer> {
    let Some(facts) = world.workloads().get(key) else { return BTreeSet::new() };
    let reaching = world.monitors_in(&key.namespace).filter(|(_, monitor)| {
        monitor.compiled.as_ref().is_ok_and(|compiled| declared_reach(compiled, key, facts).is_some())
    });
    reaching.map(|(name, _)| name.clone()).collect()
}

/// The monitors of a workload that have a stage and may act, with their stages.
pub(super) fn staged<'w>(
    world: &'w World,
    monitors: &'w BTreeSet<Declarer>,
) -> impl Iterator<Item = (&'w Declarer, &'w CompiledMonitor, &'w CompiledStage)> {
    monitors.iter().filter_map(|name| {
        let facts = world.monitors().get(name)?;
        let compiled = facts.compiled.as_deref().ok().filter(|compiled| !compiled.suspend)?;
        let may = standing(world, name, facts).is_some_and(Result::is_ok);
        Some((name, compiled, compiled.stage.as_ref().filter(|_| may)?))
    })
}
