//! Which rule claims which slot. A *slot* is the place of one possible copy: kind, namespace and name.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use jiff::Timestamp;

use super::{
    inert::{Inert, authority, inert, inert_template, source_namespaces},
    preferred::preferred,
    targets::{is_named, takes_copies, targets},
    templates::{is_of, is_rendered, owner, selects},
};
use crate::{
    api::{ConflictPolicy, Prefer},
    digest::Fingerprint,
    marks::{CA_SECRET, KEY_SECRET, OnRemoval, Proof},
    model::{
        Authority, NamespaceFacts, ObjectFacts, Owner, RenderedObject, RuleFacts, Store, TemplateFacts, World,
    },
    names::{Declarer, Kind, ObjectKey},
    validate::{CompiledRule, CompiledTemplate, Gives, Globs, own_deletion},
};

/// At most this many further sources of one slot are reported.
const MOST_DUPLICATES: usize = 20;

/// One rule's or template's claim on one slot.
#[derive(Clone, Debug)]
pub struct Claim<'w> {
    /// Name of the claiming rule or template.
    pub rule: &'w Declarer,
    /// What the claim is for.
    pub wants: Wants<'w>,
    /// The object that the rule wants to copy to the slot; for a template, the source that marks name
    /// ([`InstanceName::source`](crate::names::InstanceName::source)).
    pub source: ObjectKey,
    /// Further objects that the rule would copy to the same slot, up to a limit; empty if the rule declares
    /// which source it prefers.
    pub duplicates: Vec<ObjectKey>,
}

/// The object that a claim wants in a slot.
#[derive(Clone, Debug)]
pub enum Wants<'w> {
    /// A copy of the claim's source.
    Copy {
        /// The facts of the rule.
        facts: &'w RuleFacts,
        /// The compiled spec of the rule.
        compiled: &'w CompiledRule,
    },
    /// An object as a template declares it.
    Object {
        /// The facts of the template.
        facts: &'w TemplateFacts,
        /// The compiled spec of the template.
        compiled: &'w CompiledTemplate,
        /// The object that was rendered for the claimed slot.
        object: &'w RenderedObject,
        /// The owner that the object is to have.
        owner: Option<Arc<Owner>>,
    },
}

/// The removal policy of an object.
#[derive(Clone, Copy, Debug)]
pub(super) struct RemovalPolicy {
    pub(super) on_removal: OnRemoval,
    /// Whether the policy is for this one object alone.
    pub(super) is_own: bool,
}

impl Claim<'_> {
    /// Why the rule or template may not write at present; `None` for a rule or template that may write.
    pub fn inert(&self, world: &World) -> Option<Inert> {
        match &self.wants {
            Wants::Copy { facts, .. } => inert(world, self.rule, facts),
            Wants::Object { facts, .. } => inert_template(world, self.rule, facts),
        }
    }

    /// The API server's answer about this generation of the rule or template.
    pub(super) fn authority<'w>(&self, world: &'w World) -> Option<&'w Authority> {
        match &self.wants {
            Wants::Copy { facts, .. } => authority(world, self.rule, facts),
            Wants::Object { facts, .. } => authority(world, self.rule, facts),
        }
    }

    /// When the rule or template was created: the older one wins a free slot.
    pub(super) fn created(&self) -> Timestamp {
        match &self.wants {
            Wants::Copy { facts, .. } => facts.created,
            Wants::Object { facts, .. } => facts.created,
        }
    }

    /// What to do about an object that is not ours.
    pub(super) fn conflict(&self) -> ConflictPolicy {
        match &self.wants {
            Wants::Copy { compiled, .. } => compiled.conflict,
            Wants::Object { compiled, .. } => compiled.conflict,
        }
    }

    /// The removal policy of the object.
    pub(super) fn removal(&self, default_grace: Duration) -> RemovalPolicy {
        let (deletion, own, grace) = match &self.wants {
            Wants::Copy { compiled, .. } => (compiled.deletion, None, compiled.grace),
            Wants::Object { compiled, object, .. } => {
                let own = own_deletion(object.slot.kind.resource().kind, object.deletion);
                (compiled.deletion, own, compiled.grace)
            }
        };
        let on_removal = OnRemoval::new(own.unwrap_or(deletion), grace.unwrap_or(default_grace));
        RemovalPolicy { on_removal, is_own: own.is_some() }
    }

    /// The owner that the object is to have.
    pub(super) fn owner(&self) -> Option<&Owner> {
        match &self.wants {
            Wants::Copy { .. } => None,
            Wants::Object { owner, .. } => owner.as_deref(),
        }
    }

    /// The fingerprint of the object's source; `None` if the content has to be fetched.
    pub(super) fn print<'w>(&'w self, world: &'w World) -> Option<&'w Fingerprint> {
        match &self.wants {
            Wants::Copy { .. } => world.fingerprint(&self.source),
            Wants::Object { object, .. } => Some(&object.print),
        }
    }
}

/// Whether this process leaves a rule or template alone: it serves only one other rule, cannot read the
/// namespace, does not read templates, or ignores annotations. Annotations are switched off without their
/// authors' decision, so the copies of annotated sources stay.
pub(crate) fn is_anothers(world: &World, rule: &Declarer) -> bool {
    world.settings().only_rule.as_ref().is_some_and(|only| only != rule)
        || !world.sees(rule.namespace())
        || (!world.settings().annotations && rule.as_annotated().is_some())
        || (rule.as_template().is_some() && !world.settings().stores.contains(&Store::CopyratorTemplates))
}

/// The claims of all rules and templates on one slot.
pub fn claims_on<'w>(world: &'w World, slot: &'w ObjectKey) -> Vec<Claim<'w>> {
    each_claim(world, slot).collect()
}

/// Whether a rule or template that may write claims a slot.
pub fn is_wanted(world: &World, slot: &ObjectKey) -> bool {
    each_claim(world, slot).any(|claim| claim.inert(world).is_none())
}

fn each_claim<'w>(world: &'w World, slot: &'w ObjectKey) -> impl Iterator<Item = Claim<'w>> {
    of_rules(world, slot).chain(of_templates(world, slot))
}

/// A template claims each slot of its current rendering once: for the instance that the existing object was
/// made for, else for the first instance that wants the slot.
fn of_templates<'w>(world: &'w World, slot: &'w ObjectKey) -> impl Iterator<Item = Claim<'w>> {
    let marks = world.object(slot).and_then(|object| object.marks.as_deref());
    let mut claims: Vec<Claim<'w>> = Vec::new();
    for (template, instance, set, object) in world.rendered_at(slot) {
        let Some(facts) = world.templates().get(template).filter(|facts| is_of(world, set, facts, instance))
        else {
            continue;
        };
        let Some(compiled) =
            facts.compiled.as_deref().ok().filter(|compiled| selects(world, template, compiled, instance))
        else {
            continue;
        };
        let source = instance.source(template);
        let is_held = marks.is_some_and(|marks| marks.rule == *template && marks.source == source);
        let source = ObjectKey { kind: slot.kind, namespace: source.namespace, name: source.name };
        let owner = owner(compiled, instance, set, object.deletion);
        let wants = Wants::Object { facts, compiled, object, owner: owner.map(Arc::new) };
        let claim = Claim { rule: template, wants, source, duplicates: Vec::new() };
        match claims.last_mut().filter(|last| last.rule == template) {
            Some(last) => {
                let further = if is_held { std::mem::replace(last, claim) } else { claim };
                last.duplicates.extend(further.duplicates);
                if last.duplicates.len() < MOST_DUPLICATES {
                    last.duplicates.push(further.source);
                }
            }
            None => claims.push(claim),
        }
    }
    // The slot stays with its current instance until it is known whether that instance still wants the slot.
    claims.retain(|claim| {
        let is_anothers =
            marks.is_some_and(|marks| marks.rule == *claim.rule && marks.source != claim.source.named());
        let facts = world.templates().get(claim.rule);
        !is_anothers || facts.is_none_or(|facts| is_rendered(world, claim.rule, facts, slot))
    });
    claims.into_iter()
}

fn of_rules<'w>(world: &'w World, slot: &'w ObjectKey) -> impl Iterator<Item = Claim<'w>> {
    let takes = |facts: &&NamespaceFacts| takes_copies(world, &slot.namespace, facts);
    let namespace = world.namespaces().get(&slot.namespace).filter(takes);
    let rules = namespace.map(|_| world.rules().copying_to(&slot.name)).into_iter().flatten();
    let marks = world.object(slot).and_then(|object| object.marks.as_deref());
    rules.filter_map(move |(rule, compiled)| {
        // Cheap and selective conditions come first: this code runs for each slot of each rule.
        let gives = |other| names_given(compiled, other, &slot.name).is_some();
        if compiled.shape.kind != slot.kind
            || !source_namespaces(rule, compiled).any(gives)
            || !is_named(compiled, &slot.namespace, namespace?)
        {
            return None;
        }
        let facts = world.rules().get(rule)?;
        let is_holder = marks.is_some_and(|marks| marks.rule == *rule);
        let is_allowed = authority(world, rule, facts).is_some_and(|known| known.answer.is_ok());
        // Rules that may not write cost next to nothing, however many sources they name.
        let most = if is_holder || is_allowed { usize::MAX } else { 1 };
        let elsewhere = source_namespaces(rule, compiled).filter(|other| **other != *slot.namespace);
        let sources: Vec<_> = elsewhere
            .flat_map(|namespace| sources_giving(world, rule, compiled, namespace, &slot.name))
            .take(most)
            .collect();
        let source = preferred(world, rule, compiled, slot, &sources)?;
        let others = sources.iter().map(|(other, _)| *other).filter(|other| *other != source);
        let duplicates = match compiled.prefer {
            None => others.take(MOST_DUPLICATES).cloned().collect(),
            Some(Prefer::Newest) => Vec::new(),
        };
        Some(Claim { rule, wants: Wants::Copy { facts, compiled }, source: source.clone(), duplicates })
    })
}

/// The slots that a rule claims, whether or not it may write.
pub fn slots_of(world: &World, rule: &Declarer) -> BTreeSet<ObjectKey> {
    let Some(compiled) = world.rules().get(rule).and_then(|facts| facts.compiled.as_deref().ok()) else {
        return BTreeSet::new();
    };
    let targets: Vec<&Arc<str>> = targets(world, compiled).collect();
    let sources = sources_of(world, rule, compiled);
    sources.flat_map(|(source, _)| slots_in(compiled, source, targets.iter().copied())).collect()
}

/// The slots of one source in these namespaces; they share one name.
pub(crate) fn slots_in<'t>(
    compiled: &CompiledRule,
    source: &ObjectKey,
    targets: impl Iterator<Item = &'t Arc<str>>,
) -> impl Iterator<Item = ObjectKey> {
    let (kind, home) = (compiled.shape.kind, source.namespace.clone());
    let name: Arc<str> = compiled.shape.copy_name(source).into();
    targets
        .filter(move |target| **target != home)
        .map(move |target| ObjectKey::new(kind, target.clone(), name.clone()))
}

/// The objects that a rule copies, by namespace and name.
pub fn sources_of<'w>(
    world: &'w World,
    rule: &'w Declarer,
    compiled: &'w CompiledRule,
) -> impl Iterator<Item = (&'w ObjectKey, &'w ObjectFacts)> {
    source_namespaces(rule, compiled).flat_map(move |namespace| sources_in(world, rule, compiled, namespace))
}

/// The sources of the rule in one namespace. If the rule names its sources, only the named objects are looked
/// up.
fn sources_in<'w>(
    world: &'w World,
    rule: &'w Declarer,
    compiled: &'w CompiledRule,
    namespace: &'w str,
) -> impl Iterator<Item = (&'w ObjectKey, &'w ObjectFacts)> {
    let literals = compiled.names.as_ref().and_then(Globs::literals);
    let named: BTreeSet<&str> = literals.into_iter().flatten().map(String::as_str).collect();
    let named = named
        .into_iter()
        .filter_map(move |name| world.object_at(&ObjectKey::new(compiled.kind, namespace, name)));
    let any = literals.is_none().then(|| objects_meant(world, compiled, namespace)).into_iter().flatten();
    named.chain(any).filter(move |(key, facts)| is_shown_source(world, rule, compiled, key, facts))
}

/// The objects of one namespace whose names begin with a prefix of the rule's source names.
pub(super) fn objects_meant<'w>(
    world: &'w World,
    compiled: &'w CompiledRule,
    namespace: &'w str,
) -> impl Iterator<Item = (&'w ObjectKey, &'w ObjectFacts)> {
    let prefix = compiled.names.as_ref().map_or("", Globs::prefix);
    world.objects_beginning(compiled.kind, namespace, prefix)
}

/// The names in one namespace whose copies this rule would give this name; `None` if no name can match.
fn names_given<'n>(compiled: &CompiledRule, namespace: &str, copy: &'n str) -> Option<Gives<'n>> {
    let is_meant = |gives: &Gives<'_>| match gives {
        Gives::One(name) => compiled.names.as_ref().is_none_or(|names| names.matches(name)),
        Gives::Any => true,
    };
    compiled.shape.name.gives(namespace, copy).filter(is_meant)
}

/// The objects of one namespace whose copies this rule would give this name.
pub(super) fn sources_giving<'w>(
    world: &'w World,
    rule: &'w Declarer,
    compiled: &'w CompiledRule,
    namespace: &'w str,
    copy: &str,
) -> impl Iterator<Item = (&'w ObjectKey, &'w ObjectFacts)> {
    let gives = names_given(compiled, namespace, copy);
    let one = match gives {
        Some(Gives::One(name)) => Some(name),
        Some(Gives::Any) | None => None,
    };
    let one = one
        .and_then(|name| world.object_at(&ObjectKey::new(compiled.kind, namespace, name)))
        .filter(|(key, facts)| is_shown_source(world, rule, compiled, key, facts));
    let any = (gives == Some(Gives::Any)).then(|| sources_in(world, rule, compiled, namespace));
    one.into_iter().chain(any.into_iter().flatten())
}

/// Whether a rule copies this object.
pub fn is_source(
    world: &World,
    rule: &Declarer,
    compiled: &CompiledRule,
    key: &ObjectKey,
    facts: &ObjectFacts,
) -> bool {
    key.kind == compiled.kind
        && is_source_namespace(rule, compiled, &key.namespace)
        && compiled.names.as_ref().is_none_or(|names| names.matches(&key.name))
        && compiled.object_selector.as_ref().is_none_or(|selector| facts.labels.are_selected_by(selector))
        && !is_copy(world, key, facts)
        && !is_secret_of_ours(world, key)
}

/// Whether a rule copies this object, and a watch shows the object. Watches show all objects in the
/// namespaces of sources, except types that are never copied.
fn is_shown_source(
    world: &World,
    rule: &Declarer,
    compiled: &CompiledRule,
    key: &ObjectKey,
    facts: &ObjectFacts,
) -> bool {
    !facts.seen.is_only_asked() && is_source(world, rule, compiled, key, facts)
}

/// Whether a rule that may write copies this object.
pub fn is_copied(world: &World, key: &ObjectKey, facts: &ObjectFacts) -> bool {
    let mut rules = world.rules().copying_from(&key.name);
    rules.any(|(rule, compiled)| {
        is_source(world, rule, compiled, key, facts)
            && world.rules().get(rule).is_some_and(|facts| inert(world, rule, facts).is_none())
    })
}

/// The Secrets of our keys and certificates are never copied, no matter who may read them: with such a copy,
/// marks and grants could be forged. (Our namespace is never a target anyway.)
fn is_secret_of_ours(world: &World, key: &ObjectKey) -> bool {
    key.kind == Kind::Secret
        && *key.namespace == *world.settings().own_namespace
        && [KEY_SECRET, CA_SECRET].contains(&&*key.name)
}

/// Where the sources of an invalid rule may be; for a rule that cannot be decoded, its own namespace.
pub(crate) fn namespaces_meant<'w>(rule: &'w Declarer, facts: &'w RuleFacts) -> BTreeSet<&'w str> {
    match facts.spec.source.namespaces.as_slice() {
        [] => BTreeSet::from([&**rule.namespace()]),
        named => named.iter().map(String::as_str).collect(),
    }
}

/// Whether an object is a copy of ours, and therefore not a source: copies are not copied (replicator#407,
/// config-syncer#474).
pub fn is_copy(world: &World, key: &ObjectKey, facts: &ObjectFacts) -> bool {
    match world.key() {
        Some(_) => proof(world, key, facts).is_some_and(|proof| proof != Proof::Forged),
        None => facts.marks.is_some(),
    }
}

/// What an object's marks prove; `None` for an object without marks, or while the key is not known. If the
/// marks name a different key, only the labels can be believed: the admission policy for copies guards the
/// labels, while everybody can write annotations on their own objects.
pub(super) fn proof(world: &World, key: &ObjectKey, facts: &ObjectFacts) -> Option<Proof> {
    let (marks, digest_key) = (facts.marks.as_deref()?, world.key()?);
    let label = |name: &str| facts.labels.get(name).map(str::to_owned);
    Some(match marks.proof(key, digest_key) {
        Proof::UnknownKey if !marks.is_labelled(label) => Proof::Forged,
        proof => proof,
    })
}

/// Whether a rule looks for sources in this namespace.
pub(crate) fn is_source_namespace(rule: &Declarer, compiled: &CompiledRule, namespace: &str) -> bool {
    match compiled.source_namespaces.as_slice() {
        [] => **rule.namespace() == *namespace,
        namespaces => namespaces.iter().any(|one| one == namespace),
    }
}
