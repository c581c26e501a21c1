//! What must be looked at again when something has changed. Asked on both sides of a change, so that what was
//! wanted before it and what is wanted after it are both looked at.

use std::{collections::BTreeSet, sync::Arc};

use super::{
    budget::next_in_line,
    claims::{Claim, claims_on, is_source, possible_sources, slot_in, slots_of, sources_of},
    reach::{monitors_reaching, monitors_watching, workloads_of, workloads_using},
    scan::{hangs_on_namespaces, is_judged},
    source_index::is_source_index,
    targets::{is_named, takes_copies, targets},
};
use crate::{
    api::ConflictPolicy,
    marks::CA_SECRET,
    model::{Kind, NamespacedName, ObjectKey, WorkloadKey, World},
};

/// A request to look at something. Never a payload: whoever handles it reads the world.
///
/// In the order in which they are best looked at: what slots and workloads may be done with is asked first, so that
/// none of them is looked at in vain and no status says meanwhile that nobody has asked.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Key {
    /// A rule's authority; and all of its slots, when that says something new.
    Rule(NamespacedName),
    /// A monitor's authority, and its pods; and all of its workloads, when the authority says something new.
    Monitor(NamespacedName),
    /// One possible copy.
    Slot(ObjectKey),
    /// One workload.
    Workload(WorkloadKey),
    /// A rule's status.
    RuleStatus(NamespacedName),
    /// A monitor's status.
    MonitorStatus(NamespacedName),
    /// A policy's status.
    Policy(Arc<str>),
    /// What is there already, which is to be held against the policies once more.
    Scan,
    /// The index of sources that annotations declare.
    SourceIndex,
    /// The webhook's CA and the webhook configurations, which follow the policies present.
    Hooks,
}

/// What has changed.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Changed {
    /// A namespace appeared, was relabelled, or went.
    Namespace(Arc<str>),
    /// A ConfigMap or Secret did.
    Object(ObjectKey),
    /// A rule was written or went.
    Rule(NamespacedName),
    /// A monitor was written or went.
    Monitor(NamespacedName),
    /// A policy was written or went.
    Policy(Arc<str>),
    /// A workload was written, made progress, or went.
    Workload(WorkloadKey),
    /// The index of annotated sources did, where it is read instead of the sources.
    SourceIndex,
}

impl Key {
    /// Where it is; `None` where it is of the whole cluster.
    pub fn namespace(&self) -> Option<&str> {
        match self {
            Self::Slot(key) => Some(&key.namespace),
            Self::Workload(key) => Some(&key.namespace),
            Self::Rule(name) | Self::Monitor(name) | Self::RuleStatus(name) | Self::MonitorStatus(name) => {
                Some(&name.namespace)
            }
            Self::Policy(_) | Self::Scan | Self::SourceIndex | Self::Hooks => None,
        }
    }
}

impl Changed {
    /// Where it is; `None` where it is of the whole cluster.
    pub fn namespace(&self) -> Option<&str> {
        match self {
            Self::Namespace(name) => Some(name),
            Self::Object(key) => Some(&key.namespace),
            Self::Workload(key) => Some(&key.namespace),
            Self::Rule(name) | Self::Monitor(name) => Some(&name.namespace),
            Self::Policy(_) | Self::SourceIndex => None,
        }
    }
}

/// What must be looked at again.
pub fn affected(world: &World, changed: &Changed) -> BTreeSet<Key> {
    match changed {
        Changed::Namespace(name) => namespace(world, name),
        Changed::Object(key) => object(world, key),
        // Its slots too: when it lets one go without having written it, another rule may want it.
        Changed::Rule(name) => {
            let slots = slots_to_check(world, name);
            slots.into_iter().chain([Key::Rule(name.clone())]).collect()
        }
        Changed::Monitor(name) => {
            let workloads = workloads_of(world, name).into_iter().map(Key::Workload);
            workloads.chain([Key::Monitor(name.clone())]).collect()
        }
        Changed::Policy(name) => BTreeSet::from([Key::Policy(name.clone()), Key::Scan, Key::Hooks]),
        Changed::Workload(key) => workload(world, key),
        // Only warnings are made of it.
        Changed::SourceIndex => BTreeSet::new(),
    }
}

/// Every slot of one rule, wanted or not any more, and those of its sources that another rule would take over if
/// they were none.
pub fn slots_to_check(world: &World, rule: &NamespacedName) -> BTreeSet<Key> {
    let wanted = slots_of(world, rule);
    let marked = world.copies_of_rule(rule).cloned();
    let takes_over = |claim: &Claim<'_>| claim.compiled.conflict != ConflictPolicy::Refuse;
    let mut contested = possible_sources(world, rule);
    contested.retain(|source| claims_on(world, source).iter().any(takes_over));
    wanted.into_iter().chain(marked).chain(contested.into_iter().cloned()).map(Key::Slot).collect()
}

/// Everything: at the start of leading, and in the sweep.
pub fn everything(world: &World) -> BTreeSet<Key> {
    let rules = world.rules.keys().flat_map(|rule| {
        let slots = slots_to_check(world, rule);
        slots.into_iter().chain([Key::Rule(rule.clone())])
    });
    let monitors = world.monitors.keys().flat_map(|monitor| {
        let workloads = workloads_of(world, monitor).into_iter().map(Key::Workload);
        workloads.chain([Key::Monitor(monitor.clone())])
    });
    let policies = world.policies.keys().cloned().map(Key::Policy);
    let copies = world.copies().cloned().map(Key::Slot);
    let workloads = world
        .workloads
        .iter()
        .filter(|(_, facts)| facts.restart.is_some() || facts.applied.is_some())
        .map(|(key, _)| Key::Workload(key.clone()));
    let scan = (!world.policies.is_empty()).then_some(Key::Scan);
    let index = world.annotations.then_some(Key::SourceIndex);
    let once = [Key::Hooks].into_iter().chain(scan).chain(index);
    rules.chain(monitors).chain(policies).chain(copies).chain(workloads).chain(once).collect()
}

fn namespace(world: &World, name: &Arc<str>) -> BTreeSet<Key> {
    let mut keys = BTreeSet::new();
    for kind in [Kind::ConfigMap, Kind::Secret] {
        let marked = world.objects_in(kind, name).filter(|(_, facts)| facts.marks.is_some());
        keys.extend(marked.map(|(key, _)| Key::Slot(key.clone())));
    }
    if hangs_on_namespaces(world) {
        keys.insert(Key::Scan);
    }
    let Some(facts) = world.namespaces.get(name) else { return keys };
    if !takes_copies(world, name, facts) {
        return keys;
    }
    for (rule, rule_facts) in &world.rules {
        let Ok(compiled) = &rule_facts.compiled else { continue };
        if is_named(compiled, name, facts) {
            let slots =
                sources_of(world, rule, compiled).filter_map(|(source, _)| slot_in(compiled, source, name));
            keys.extend(slots.map(Key::Slot));
            keys.insert(Key::RuleStatus(rule.clone()));
        }
    }
    keys
}

fn object(world: &World, key: &ObjectKey) -> BTreeSet<Key> {
    let mut keys: BTreeSet<Key> = world.copies_of_source(&key.named()).cloned().map(Key::Slot).collect();
    keys.extend(workloads_using(world, key).into_iter().map(Key::Workload));
    keys.extend(monitors_watching(world, key).into_iter().map(Key::Monitor));
    let own = key.annotation_rule();
    if world.rules.contains_key(&own) {
        keys.extend(slots_to_check(world, &own));
        keys.insert(Key::Rule(own));
        keys.insert(Key::SourceIndex);
    }
    if is_source_index(world, key) {
        keys.insert(Key::SourceIndex);
    }
    if is_judged(world, key) {
        keys.insert(Key::Scan);
    }
    // Webhooks mint with whatever CA is there, and hooks must have it trusted.
    if key.kind == Kind::Secret && *key.namespace == *world.own_namespace && &*key.name == CA_SECRET {
        keys.insert(Key::Hooks);
    }
    let facts = world.object(key);
    if facts.is_some_and(|facts| facts.marks.is_some()) || !claims_on(world, key).is_empty() {
        keys.insert(Key::Slot(key.clone()));
    }
    if let Some(facts) = facts {
        for (rule, rule_facts) in &world.rules {
            let Ok(compiled) = &rule_facts.compiled else { continue };
            if is_source(world, rule, compiled, key, facts) {
                let slots =
                    targets(world, compiled).filter_map(|namespace| slot_in(compiled, key, namespace));
                keys.extend(slots.map(Key::Slot));
                keys.insert(Key::RuleStatus(rule.clone()));
            }
        }
    }
    keys
}

fn workload(world: &World, key: &WorkloadKey) -> BTreeSet<Key> {
    let monitors = monitors_reaching(world, key).into_iter().map(Key::MonitorStatus);
    // Its place may have become free.
    let next = next_in_line(world, None).into_iter().map(Key::Workload);
    monitors.chain([Key::Workload(key.clone())]).chain(next).collect()
}
