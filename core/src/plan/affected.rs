//! The keys to look at again after a change. Callers ask on both sides of the change, so that objects wanted
//! before and objects wanted after are both looked at.

use std::{collections::BTreeSet, sync::Arc};

use super::{
    changed::Changed,
    copy::{
        claims::{is_source, is_source_namespace, is_wanted, slots_in, slots_of, sources_of},
        demand::{Demand, shared, shared_of, taken_over},
        inert::{authority, inert},
        source_index::is_source_index,
        targets::{is_named, takes_copies, targets},
        templates::{instances, instances_in, selects},
        too_many,
    },
    policy::scan::{hangs_on_namespaces, is_judged},
    restart::{monitors_reaching, monitors_watching, next_in_line, workloads_of, workloads_using},
};
use crate::{
    marks::{CA_SECRET, KEY_SECRET},
    model::{RuleFacts, Store, World},
    names::{Declarer, InstanceKind, InstanceName, Kind, NamespacedName, ObjectKey, WorkloadKey},
    validate::{CompiledRule, CompiledTemplate},
};

/// A request to look at one thing, without a payload: the handler of the request reads the world.
///
/// The variants are in the order in which keys are best handled. Authority comes before slots and workloads:
/// without an answer about the authority, planning a slot is in vain, and a status would report that the API
/// server has not been asked.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Key {
    /// The authority of a rule or template; if the authority changes, also all slots of the rule or template.
    Rule(Declarer),
    /// The objects that a template declares for one namespace or object, and their slots.
    Rendering(Declarer, InstanceName),
    /// A monitor's authority and the monitor's own pods; if the authority changes, also all workloads of the
    /// monitor.
    Monitor(Declarer),
    /// One possible copy, by the place where it would be.
    Slot(ObjectKey),
    /// One workload, which may have to restart.
    Workload(WorkloadKey),
    /// The status of a rule or template, or the Events of a rule that annotations declare.
    RuleStatus(Declarer),
    /// The status of a monitor, or the Events of a monitor that annotations declare.
    MonitorStatus(Declarer),
    /// The status of a ConfigPolicy, by its name.
    Policy(Arc<str>),
    /// The problem to report to the author of an object.
    Remark(ObjectKey),
    /// The existing objects, to check against the policies once more.
    Scan,
    /// The index of sources that annotations declare.
    SourceIndex,
    /// The webhook's CA and the webhook configurations, which follow the policies present.
    Hooks,
    /// The Secret with the key of digests.
    DigestKey,
}

impl Key {
    /// The namespace of the key; `None` if the key belongs to the whole cluster.
    pub fn namespace(&self) -> Option<&str> {
        match self {
            Self::Slot(key) | Self::Remark(key) => Some(&key.namespace),
            Self::Workload(key) => Some(&key.namespace),
            Self::Rendering(_, instance) => Some(&instance.namespace),
            Self::Rule(name) | Self::Monitor(name) | Self::RuleStatus(name) | Self::MonitorStatus(name) => {
                Some(name.namespace())
            }
            Self::Policy(_) | Self::Scan | Self::SourceIndex | Self::Hooks | Self::DigestKey => None,
        }
    }

    /// The namespace that pays for the work if no other object has caused the work: the key's own namespace
    /// or, if a template is rendered for a namespace, the template's namespace. `None` if the key belongs to
    /// the whole cluster.
    pub fn tenant(&self) -> Option<&Arc<str>> {
        match self {
            Self::Rendering(template, InstanceName { object: None, .. }) => Some(template.namespace()),
            Self::Rendering(_, instance) => Some(&instance.namespace),
            Self::Slot(key) | Self::Remark(key) => Some(&key.namespace),
            Self::Workload(key) => Some(&key.namespace),
            Self::Rule(name) | Self::Monitor(name) | Self::RuleStatus(name) | Self::MonitorStatus(name) => {
                Some(name.namespace())
            }
            Self::Policy(_) | Self::Scan | Self::SourceIndex | Self::Hooks | Self::DigestKey => None,
        }
    }

    /// Whether the key must be handled again after this store was listed once more.
    fn is_of(&self, store: Store) -> bool {
        match self {
            Self::Slot(slot) => store == Store::of(slot.kind),
            Self::Rule(name) | Self::Rendering(name, _) | Self::RuleStatus(name) => {
                store == Store::declaring(name)
            }
            Self::Monitor(_) | Self::MonitorStatus(_) => store == Store::ConfigMonitors,
            Self::Workload(key) => store == Store::restarting(key.kind),
            Self::Policy(_) | Self::Scan => store == Store::ConfigPolicies,
            Self::Remark(key) => store == Store::of(key.kind),
            Self::SourceIndex => store == Store::ConfigMaps,
            Self::Hooks => [Store::ConfigPolicies, Store::Secrets].contains(&store),
            Self::DigestKey => store == Store::Secrets,
        }
    }
}

/// Returns the keys to look at again after this change.
pub fn affected(world: &World, changed: &Changed) -> BTreeSet<Key> {
    match changed {
        Changed::Namespace(name) => namespace(world, name),
        Changed::Object(key) => object(world, key),
        // The slots are affected, too: another rule may want a slot that this rule releases without having
        // written it.
        Changed::Rule(name) | Changed::Template(name) => {
            let slots = slots_to_check(world, name);
            slots.into_iter().chain([Key::Rule(name.clone())]).collect()
        }
        Changed::Instance(kind, name) => instance(world, kind, name),
        Changed::Instances(kind) => {
            let of_kind = of_kind(world, kind);
            of_kind.flat_map(|(name, _)| affected(world, &Changed::Template(name.clone()))).collect()
        }
        Changed::Granted(kind) => {
            let declares = |compiled: &CompiledTemplate| {
                compiled.kinds(&world.settings().template_kinds).any(|declared| declared == *kind)
            };
            let templates = world.templates().iter();
            let declaring = templates.filter(|(_, facts)| facts.compiled.as_deref().is_ok_and(declares));
            let marked = world.copies().filter(|slot| slot.kind == *kind).cloned().map(Key::Slot);
            let copies = |facts: &RuleFacts| facts.compiled.as_deref().is_ok_and(|rule| rule.kind == *kind);
            let copying = world.rules().iter().filter(|(_, facts)| copies(facts));
            declaring
                .flat_map(|(name, _)| affected(world, &Changed::Template(name.clone())))
                .chain(copying.flat_map(|(name, _)| affected(world, &Changed::Rule(name.clone()))))
                .chain(marked)
                .collect()
        }
        Changed::Monitor(name) => {
            let workloads = workloads_of(world, name).into_iter().map(Key::Workload);
            workloads.chain([Key::Monitor(name.clone())]).collect()
        }
        // A write that a policy refused may pass now.
        Changed::Policy(name) => {
            let refused = world.memory().attempts().filter(|(_, attempt)| attempt.judged_by.is_some());
            let slots = refused.map(|(slot, _)| Key::Slot(slot.clone()));
            slots.chain([Key::Policy(name.clone()), Key::Scan, Key::Hooks]).collect()
        }
        Changed::Workload(key) => workload(world, key),
        // The index serves warnings only.
        Changed::SourceIndex => BTreeSet::new(),
        // A failing list affects each status, which reports that it may be outdated.
        Changed::Lists => {
            let declared = world.rules().keys().chain(world.templates().keys()).cloned().map(Key::RuleStatus);
            declared.chain(world.monitors().keys().cloned().map(Key::MonitorStatus)).collect()
        }
    }
}

/// Every slot of one rule or template, still wanted or not, and each source of a rule that another rule would
/// overwrite if the object were no source. A rule that makes no copies has only its existing copies and the
/// slots that another rule may get instead: the rule's own key covers all other slots once the rule may
/// write.
pub fn slots_to_check(world: &World, rule: &Declarer) -> BTreeSet<Key> {
    if rule.as_template().is_some() {
        return template_keys(world, rule).into_iter().collect();
    }
    let wanted = match making(world, rule) {
        Some(_) => slots_of(world, rule),
        None => shared(world, rule),
    };
    let marked = world.copies_of_rule(rule).cloned();
    wanted.into_iter().chain(marked).chain(taken_over(world, rule)).map(Key::Slot).collect()
}

/// The compiled rule, if it makes copies at present.
fn making<'w>(world: &'w World, rule: &Declarer) -> Option<&'w CompiledRule> {
    let facts = world.rules().get(rule)?;
    let compiled = facts.compiled.as_deref().ok()?;
    let makes = inert(world, rule, facts).is_none() && too_many(world, rule, compiled).is_none();
    makes.then_some(compiled)
}

/// Every slot that a rule claims, whether the rule may write or not, and every copy, to explain why a copy is
/// missing. For a rule with too many copies, only the existing copies.
pub fn every_slot(world: &World) -> BTreeSet<ObjectKey> {
    let claimed = world.rules().iter().filter_map(|(rule, facts)| {
        let compiled = facts.compiled.as_deref().ok()?;
        too_many(world, rule, compiled).is_none().then(|| slots_of(world, rule))
    });
    let taken_over = world.rules().keys().flat_map(|rule| taken_over(world, rule));
    let rendered = world.rendered_slots().cloned();
    claimed.flatten().chain(world.copies().cloned()).chain(taken_over).chain(rendered).collect()
}

/// Every key: when a leader starts, and in the sweep.
pub fn everything(world: &World) -> BTreeSet<Key> {
    each(world).collect()
}

/// The keys to look at after a store was listed once more, in one namespace or in all: the keys of objects
/// that are or should be in the store. A copy that somebody deleted while the watch was interrupted may be
/// neither in the list nor known.
pub fn listed_anew(world: &World, store: Store, place: Option<&str>) -> BTreeSet<Key> {
    let is_there = |key: &Key| place.is_none() || key.namespace().is_none() || key.namespace() == place;
    each(world).filter(|key| key.is_of(store) && is_there(key)).collect()
}

/// Iterates over every key; a key can come twice.
fn each(world: &World) -> impl Iterator<Item = Key> {
    // Slots that another rule shares, or would take over, are among that rule's slots.
    let rules = world.rules().keys().flat_map(|rule| {
        let wanted = making(world, rule).map(|_| slots_of(world, rule)).unwrap_or_default();
        wanted.into_iter().map(Key::Slot).chain([Key::Rule(rule.clone())])
    });
    let templates = world
        .templates()
        .keys()
        .flat_map(|template| template_keys(world, template).into_iter().chain([Key::Rule(template.clone())]));
    let monitors = world.monitors().keys().flat_map(|monitor| {
        let workloads = workloads_of(world, monitor).into_iter().map(Key::Workload);
        workloads.chain([Key::Monitor(monitor.clone())])
    });
    let policies = world.policies().keys().cloned().map(Key::Policy);
    let copies = world.copies().cloned().map(Key::Slot);
    let workloads = world
        .workloads()
        .iter()
        .filter(|(_, facts)| facts.restarts.restart.is_some() || facts.restarts.applied.is_some())
        .map(|(key, _)| Key::Workload(key.clone()));
    let scan = (!world.policies().is_empty()).then_some(Key::Scan);
    let settings = world.settings();
    let has_index = settings.annotations || settings.stores.contains(&Store::CopyratorTemplates);
    let index = has_index.then_some(Key::SourceIndex);
    let once = [Key::Hooks, Key::DigestKey].into_iter().chain(scan).chain(index);
    rules.chain(templates).chain(monitors).chain(policies).chain(copies).chain(workloads).chain(once)
}

fn namespace(world: &World, name: &Arc<str>) -> BTreeSet<Key> {
    let mut keys = BTreeSet::new();
    for kind in world.settings().copied_kinds() {
        let marked = world.objects_in(kind, name).filter(|(_, facts)| facts.marks.is_some());
        keys.extend(marked.map(|(key, _)| Key::Slot(key.clone())));
    }
    if hangs_on_namespaces(world) {
        keys.insert(Key::Scan);
    }
    // The API server has not been asked yet about a namespace that is new, or new under its name.
    for (rule, facts) in world.rules() {
        let names_it = facts.compiled.as_ref().is_ok_and(|compiled| compiled.names_namespace(name));
        if names_it && world.rule_authority(rule).is_none() {
            keys.insert(Key::Rule(rule.clone()));
        }
    }
    for (template, facts) in world.templates() {
        let Ok(compiled) = &facts.compiled else { continue };
        let before = world.rendered_in(template, name).map(|(instance, _)| instance.clone());
        let mut before = before.peekable();
        let mut selected = instances_in(world, template, compiled, name).peekable();
        if selected.peek().is_some() || before.peek().is_some() {
            keys.insert(Key::RuleStatus(template.clone()));
            let demand = Demand::of(world, template);
            let touched = selected.filter(|instance| demand.has(world, template, instance)).chain(before);
            keys.extend(touched.map(|instance| Key::Rendering(template.clone(), instance)));
        }
        // The API server has not been asked yet about a new namespace.
        if compiled.names_namespace(name) && world.rule_authority(template).is_none() {
            keys.insert(Key::Rule(template.clone()));
        }
    }
    let Some(facts) = world.namespaces().get(name) else {
        keys.extend(sources_waiting_in(world, name).map(Key::Slot));
        return keys;
    };
    if !takes_copies(world, name, facts) {
        return keys;
    }
    for (rule, rule_facts) in world.rules() {
        let Ok(compiled) = &rule_facts.compiled else { continue };
        if is_named(compiled, name, facts) {
            if making(world, rule).is_some() {
                let sources = sources_of(world, rule, compiled);
                let slots = sources.flat_map(|(source, _)| slots_in(compiled, source, [name].into_iter()));
                keys.extend(slots.map(Key::Slot));
            }
            keys.insert(Key::RuleStatus(rule.clone()));
        }
    }
    keys
}

/// The slots of sources in a namespace that is unknown, or no longer known: the sources are copied once the
/// namespace is known.
fn sources_waiting_in<'w>(world: &'w World, name: &'w str) -> impl Iterator<Item = ObjectKey> {
    let rules =
        world.rules().iter().filter_map(|(rule, facts)| Some((rule, facts.compiled.as_deref().ok()?)));
    let here = rules.filter(|(rule, compiled)| is_source_namespace(rule, compiled, name));
    here.filter(|(rule, _)| making(world, rule).is_some()).flat_map(move |(rule, compiled)| {
        let inside = sources_of(world, rule, compiled).filter(|(source, _)| *source.namespace == *name);
        inside.flat_map(|(source, _)| slots_in(compiled, source, targets(world, compiled)))
    })
}

fn object(world: &World, key: &ObjectKey) -> BTreeSet<Key> {
    let mut keys: BTreeSet<Key> = world.copies_of_source(&key.named()).cloned().map(Key::Slot).collect();
    keys.extend(workloads_using(world, key).into_iter().map(Key::Workload));
    keys.extend(monitors_watching(world, key).into_iter().map(Key::Monitor));
    let own = Declarer::annotated(key.clone());
    if world.rules().contains_key(&own) {
        keys.extend(slots_to_check(world, &own));
        keys.insert(Key::Rule(own.clone()));
    }
    if world.rules().contains_key(&own) || world.monitors().contains_key(&own) {
        keys.insert(Key::SourceIndex);
    }
    if world.remark(key).is_some() {
        keys.insert(Key::Remark(key.clone()));
    }
    if is_source_index(world, key) {
        keys.insert(Key::SourceIndex);
    }
    if is_judged(world, key) {
        keys.insert(Key::Scan);
    }
    if key.kind == Kind::Secret && *key.namespace == *world.settings().own_namespace {
        match &*key.name {
            // The webhook issues its certificates from the CA in the Secret, and the hooks must trust that
            // CA.
            CA_SECRET => drop(keys.insert(Key::Hooks)),
            // The key of digests must stay the same: with a different key, no mark in the cluster could be
            // verified.
            KEY_SECRET => drop(keys.insert(Key::DigestKey)),
            _ => {}
        }
    }
    // Template expressions may read the object.
    let readers = world.rendered_at(key).filter(|(.., object)| object.is_read);
    keys.extend(readers.map(|(template, instance, ..)| Key::Rendering(template.clone(), instance.clone())));
    if world.unreadable_object(key).is_some() {
        keys.extend(statuses_naming(world, key));
    }
    let facts = world.object(key);
    if facts.is_none() {
        keys.extend(world.memory().due_beside(key).cloned().map(Key::Slot));
    }
    if facts.is_some_and(|facts| facts.marks.is_some()) || is_wanted(world, key) {
        keys.insert(Key::Slot(key.clone()));
    }
    // The status of a rule that no longer wants the object reports the finalizer that delays the object's
    // deletion.
    let deleted = facts.filter(|facts| facts.deletion.is_some()).and_then(|facts| facts.marks.as_deref());
    if let Some(marks) = deleted.filter(|marks| world.declaration(&marks.rule).is_some()) {
        keys.insert(Key::RuleStatus(marks.rule.clone()));
    }
    if let Some(facts) = facts {
        for (rule, compiled) in world.rules().copying_from(&key.name) {
            if is_source(world, rule, compiled, key, facts) {
                if making(world, rule).is_some() {
                    keys.extend(slots_in(compiled, key, targets(world, compiled)).map(Key::Slot));
                } else if is_waited_for(world, rule) {
                    keys.extend(shared_of(world, rule, compiled, key).into_iter().map(Key::Slot));
                }
                keys.insert(Key::RuleStatus(rule.clone()));
            }
        }
    }
    keys
}

/// The statuses of the rules that may copy this object; its labels cannot be read.
fn statuses_naming(world: &World, key: &ObjectKey) -> Vec<Key> {
    let naming = world.rules().copying_from(&key.name).filter(|(rule, compiled)| {
        compiled.kind == key.kind && is_source_namespace(rule, compiled, &key.namespace)
    });
    naming.map(|(rule, _)| Key::RuleStatus(rule.clone())).collect()
}

/// Whether the API server has not been asked yet if this rule may write: until the answer, other rules wait
/// for this rule's slots.
fn is_waited_for(world: &World, rule: &Declarer) -> bool {
    world.rules().get(rule).is_some_and(|facts| authority(world, rule, facts).is_none())
}

fn workload(world: &World, key: &WorkloadKey) -> BTreeSet<Key> {
    let monitors = monitors_reaching(world, key).into_iter().map(Key::MonitorStatus);
    // The workload may have freed a place for another restart.
    let next = next_in_line(world, None).into_iter().map(Key::Workload);
    monitors.chain([Key::Workload(key.clone())]).chain(next).collect()
}

/// The templates that are rendered for objects of a kind.
fn of_kind<'w>(
    world: &'w World,
    kind: &'w InstanceKind,
) -> impl Iterator<Item = (&'w Declarer, &'w CompiledTemplate)> {
    let compiled =
        world.templates().iter().filter_map(|(name, facts)| Some((name, facts.compiled.as_deref().ok()?)));
    compiled.filter(move |(_, compiled)| compiled.instance_kind() == Some(kind))
}

/// The keys to look at after a change of an instance (an object that templates are rendered for): the
/// instance's renderings, and the objects made for the instance.
fn instance(world: &World, kind: &InstanceKind, name: &NamespacedName) -> BTreeSet<Key> {
    let instance = InstanceName::of_object(name);
    let mut keys = BTreeSet::new();
    for (template, compiled) in of_kind(world, kind) {
        let was_rendered = world.rendered(template, &instance).is_some();
        let is_unread = world.unreadable_instance(kind, name).is_some();
        if was_rendered || is_unread || selects(world, template, compiled, &instance) {
            keys.insert(Key::RuleStatus(template.clone()));
            if was_rendered || Demand::of(world, template).has(world, template, &instance) {
                keys.insert(Key::Rendering(template.clone(), instance.clone()));
            }
        }
    }
    let made = world.copies_of_source(name).filter(|slot| slot.namespace == name.namespace);
    keys.extend(made.cloned().map(Key::Slot));
    keys
}

/// The keys to look at after a change of a template: every instance that the template is or was rendered for,
/// and each existing object of the template.
fn template_keys(world: &World, template: &Declarer) -> Vec<Key> {
    let compiled = world.templates().get(template).and_then(|facts| facts.compiled.as_deref().ok());
    let demand = Demand::of(world, template);
    let compiled = compiled.filter(|_| demand != Demand::Nothing);
    let selected = compiled.into_iter().flat_map(|compiled| instances(world, template, compiled));
    let selected = selected.filter(|instance| demand.has(world, template, instance));
    let before = world.rendered_of(template).map(|(instance, _)| instance.clone());
    let rendered = selected.chain(before).map(|instance| Key::Rendering(template.clone(), instance));
    let declared =
        world.rendered_of(template).flat_map(|(_, set)| set.objects.iter().map(|object| &object.slot));
    let slots = declared.chain(world.copies_of_rule(template)).cloned().map(Key::Slot);
    rendered.chain(slots).collect()
}
