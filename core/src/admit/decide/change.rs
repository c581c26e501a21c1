//! Messages about the objects that a new spec of a rule or template deletes and creates. The webhook watches
//! no ConfigMaps, no Secrets and no objects that templates are rendered for. If the webhook cannot count
//! objects, it uses the numbers in the status of the rule or template, or gives an upper bound.

use std::{collections::BTreeSet, sync::Arc};

use super::difference::{Amount, Declared, Things};
use crate::{
    api::{CopyratorRuleStatus, DeletionPolicy, Span},
    marks::OnRemoval,
    model::{InstancesRead, World},
    names::{Declarer, InstanceName, ObjectKey},
    plan::copy::{
        absent::sees_sources,
        claims::sources_of,
        inert::source_namespaces,
        targets::{can_grow, targets},
        templates::instances,
    },
    validate::{CompiledObject, CompiledRule, CompiledTemplate, Globs, Instances, own_deletion},
};

/// The numbers in the status of the stored object, if the status belongs to the stored spec.
#[derive(Clone, Copy, Debug)]
pub(super) struct Counted {
    sources: usize,
    desired: usize,
    current: usize,
}

/// Messages for the author of a spec.
#[derive(Debug, Default)]
pub(super) struct Told {
    /// For every author: these messages derive from the specs and from the stored status.
    pub(super) always: Vec<String>,
    /// For an author who may list namespaces: these messages count existing namespaces.
    pub(super) of_namespaces: Vec<String>,
    /// For an author who may list namespaces: the objects that will appear.
    pub(super) created: Option<String>,
    /// For other authors, instead of `of_namespaces`.
    pub(super) instead: Vec<String>,
}

/// The objects that a new spec deletes, leaves behind and creates.
#[derive(Debug, Default)]
struct Change {
    deleted: Amount,
    left: Amount,
    /// The number of objects, and the number of their namespaces or instances; `None` if unknown.
    created: Option<(Amount, usize)>,
    /// How the objects are removed.
    word: Option<OnRemoval>,
}

/// The nouns of a message.
struct Nouns {
    one: &'static str,
    many: &'static str,
    whose: &'static str,
    /// How to keep objects that would be deleted.
    keep: &'static str,
}

const OF_RULE: Nouns =
    Nouns { one: "copy", many: "copies", whose: "rule", keep: "deletionPolicy: Retain keeps them" };
const OF_TEMPLATE: Nouns = Nouns { one: "object", many: "objects", whose: "template", ..OF_RULE };

impl From<&CopyratorRuleStatus> for Counted {
    fn from(status: &CopyratorRuleStatus) -> Self {
        let number = |number| usize::try_from(number).unwrap_or_default();
        let CopyratorRuleStatus { sources, desired, current, .. } = status;
        Self { sources: number(*sources), desired: number(*desired), current: number(*current) }
    }
}

impl Counted {
    /// Limits a number to the number of objects that can exist: the number that the old spec declared
    /// (`desired`).
    fn bound(counted: Option<Self>, most: usize, all: usize, is_sure: bool) -> Amount {
        let Some(Self { desired, current, .. }) = counted else { return Amount { most, is_exact: false } };
        Amount { most: most.min(desired), is_exact: is_sure && current == desired && desired == all }
    }
}

/// Returns the messages about copies that the new spec of a rule deletes and creates.
pub(super) fn of_rule(
    world: &World,
    name: &Declarer,
    new: &CompiledRule,
    old: Option<(&CompiledRule, Option<Counted>)>,
) -> Told {
    let places = |rule: &CompiledRule| -> BTreeSet<InstanceName> {
        targets(world, rule).map(InstanceName::from).collect()
    };
    let (old, counted) = old.map_or((None, None), |(rule, counted)| (Some(rule), counted));
    let counted_things = || {
        let (rule, counted) = (old?, counted?);
        is_same_source(rule, new).then(|| anonymous(name, new, counted.sources))
    };
    let known = things_of_rule(world, name, new);
    let before = old.map(|rule| things_of_rule(world, name, rule));
    let (is_seen, things, things_before) = match (known, before) {
        (Some((things, is_seen)), None) => (is_seen, things, None),
        (Some((things, is_seen)), Some(Some((before, _)))) => (is_seen, things, Some(before)),
        _ => match counted_things() {
            Some(things) => (true, things.clone(), Some(things)),
            None => return of_unknown_sources(world, name, new, old, counted),
        },
    };
    let after = Declared { places: places(new), things };
    let before = old.map(|rule| Declared { places: places(rule), things: things_before.unwrap_or_default() });
    let before = before.unwrap_or_default();
    let (gone, come) = (before.beyond(&after), after.beyond(&before));
    let all = before.beyond(&Declared::default()).objects;
    let deleted = Counted::bound(counted, gone.objects, all, true);
    let created = Amount { most: come.objects, is_exact: is_seen };
    let change = Change {
        deleted,
        created: Some((created, come.places)),
        word: Some(word(world, new, old)),
        ..Change::default()
    };
    let instead = Change {
        deleted: Amount { most: counted.map_or(all, |counted| counted.desired), is_exact: false },
        created: None,
        ..change
    };
    let instead = if deleted.most > 0 { instead.lost(&OF_RULE) } else { Vec::new() };
    let created = change.created(&OF_RULE, "namespace");
    Told { always: Vec::new(), of_namespaces: change.lost(&OF_RULE), created, instead }
}

/// Returns the messages for a rule whose sources are unknown and may differ from the sources of the old spec.
/// The number of copies in the status is the upper bound of deletions.
fn of_unknown_sources(
    world: &World,
    name: &Declarer,
    new: &CompiledRule,
    old: Option<&CompiledRule>,
    counted: Option<Counted>,
) -> Told {
    let most = counted.map_or(0, |counted| counted.desired);
    let places = |rule: &CompiledRule| -> BTreeSet<Arc<str>> { targets(world, rule).cloned().collect() };
    let (before, after) = (old.map(places).unwrap_or_default(), places(new));
    let is_narrower = |old: &CompiledRule| !has_wider_sources(name, old, new) || !before.is_subset(&after);
    let is_wider = |old: &CompiledRule| !has_wider_sources(name, new, old) || !after.is_subset(&before);
    let deleted = Amount { most: if old.is_some_and(is_narrower) { most } else { 0 }, is_exact: false };
    let change = Change { deleted, word: Some(word(world, new, old)), ..Change::default() };
    let many = if after.len() == 1 { "namespace" } else { "namespaces" };
    let created = format!("copyrator: this rule will copy each source to up to {} {many}", after.len());
    let created = (!after.is_empty() && old.is_none_or(is_wider)).then_some(created);
    Told { always: change.lost(&OF_RULE), created, ..Told::default() }
}

/// Returns the message about copies that new annotations of a source delete. `new` is `None` if the
/// annotations no longer declare copies.
pub(super) fn lost_by_source(
    world: &World,
    name: &Declarer,
    old: &CompiledRule,
    new: Option<&CompiledRule>,
) -> Option<String> {
    let after = new.map(|new| of_source(world, name, new)).unwrap_or_default();
    let gone = of_source(world, name, old).beyond(&after).objects;
    let change = Change {
        deleted: Amount { most: gone, is_exact: false },
        word: Some(OnRemoval::new(old.deletion, old.grace.unwrap_or(world.settings().default_grace))),
        ..Change::default()
    };
    let nouns = Nouns { whose: "source", keep: "restore the annotation to keep them", ..OF_RULE };
    change.lost(&nouns).pop()
}

/// Returns the message about copies that new annotations of a source create.
pub(super) fn created_by_source(
    world: &World,
    name: &Declarer,
    new: &CompiledRule,
    old: Option<&CompiledRule>,
) -> Option<String> {
    let before = old.map(|old| of_source(world, name, old)).unwrap_or_default();
    let come = of_source(world, name, new).beyond(&before);
    let created = Some((Amount { most: come.objects, is_exact: true }, come.places));
    let nouns = Nouns { whose: "source", ..OF_RULE };
    Change { created, ..Change::default() }.created(&nouns, "namespace")
}

/// The copies that a source requests by its own annotations.
fn of_source(world: &World, name: &Declarer, rule: &CompiledRule) -> Declared {
    Declared {
        places: targets(world, rule).map(InstanceName::from).collect(),
        things: anonymous(name, rule, 1),
    }
}

/// Returns the messages about objects that the new spec of a template deletes and creates.
pub(super) fn of_template(
    world: &World,
    name: &Declarer,
    new: &CompiledTemplate,
    old: Option<(&CompiledTemplate, Option<Counted>)>,
) -> Told {
    let (old, counted) = old.map_or((None, None), |(template, counted)| (Some(template), counted));
    let same_or_new = |object: &CompiledObject, other: Option<&CompiledTemplate>| {
        let others = other.into_iter().flat_map(|template| &template.objects);
        let mut same = others.filter(|one| one.written_key() == object.written_key());
        // An object whose `includeWhen` has changed may be excluded.
        object.condition().is_none() || same.any(|one| one.condition() == object.condition())
    };
    let things = |template: Option<&CompiledTemplate>, keep: &dyn Fn(&CompiledObject) -> bool| -> Things {
        let objects = template.into_iter().flat_map(|template| &template.objects);
        objects.filter(|object| keep(object)).map(|object| (object.written_key(), BTreeSet::new())).collect()
    };
    let stays = |object: &CompiledObject| {
        own_deletion(&object.kind, object.deletion).unwrap_or(new.deletion) == DeletionPolicy::Retain
    };
    let places = Places::of(world, name, new, old, counted);
    let after = things(Some(new), &|object| same_or_new(object, old));
    let count = |keep: &dyn Fn(&CompiledObject) -> bool| places.gone(things(old, keep), &after);
    let all = places.gone(things(old, &|_| true), &Things::new());
    let of_both = [old, Some(new)].into_iter().flatten();
    let is_unconditional = of_both.flat_map(|it| &it.objects).all(|one| one.condition().is_none());
    let is_sure = is_unconditional && !matches!(places, Places::Unknown(_));
    let deleted = Counted::bound(counted, count(&|object| !stays(object)), all, is_sure);
    let left = Counted::bound(counted, count(&stays), all, is_sure);
    let before = things(old, &|object| same_or_new(object, Some(new)));
    let created = places.come(&before, things(Some(new), &|_| true));
    let created = created.map(|(most, places)| (Amount { most, is_exact: is_sure }, places));
    let grace = new.grace.unwrap_or(world.settings().default_grace);
    let word = Some(OnRemoval::new(DeletionPolicy::Delete, grace));
    let change = Change { deleted, left, created, word };
    let noun = if new.instance_kind().is_some() { "instance" } else { "namespace" };
    let (lost, created) = (change.lost(&OF_TEMPLATE), change.created(&OF_TEMPLATE, noun));
    if !matches!(places, Places::Known { .. }) {
        let for_each = new.instance_kind().filter(|_| old.is_none());
        let foretold = for_each.map(|kind| {
            let objects = Amount { most: new.objects.len(), is_exact: is_unconditional };
            format!(
                "copyrator: this template will create {} for each {} that it selects",
                objects.of("object", "objects"),
                kind.kind
            )
        });
        let always = lost.into_iter().chain(created).chain(foretold).collect();
        return Told { always, ..Told::default() };
    }
    let most = |amount: Amount| Amount {
        most: if amount.most > 0 { counted.map_or(all, |counted| counted.desired) } else { 0 },
        is_exact: false,
    };
    let instead = Change { deleted: most(deleted), left: most(left), created: None, ..change };
    Told { always: Vec::new(), of_namespaces: lost, created, instead: instead.lost(&OF_TEMPLATE) }
}

/// The namespaces or objects that a template is rendered for, before and after.
enum Places {
    Known {
        before: BTreeSet<InstanceName>,
        after: BTreeSet<InstanceName>,
    },
    /// The number of instances before the write; all of them stay instances after the write.
    Alike(usize),
    /// The number of instances before the write.
    Unknown(usize),
}

impl Places {
    fn of(
        world: &World,
        name: &Declarer,
        new: &CompiledTemplate,
        old: Option<&CompiledTemplate>,
        counted: Option<Counted>,
    ) -> Self {
        let known = |template: &CompiledTemplate| -> Option<BTreeSet<InstanceName>> {
            let is_known = template
                .instance_kind()
                .is_none_or(|kind| world.instances_read(kind) == InstancesRead::Listed);
            is_known.then(|| instances(world, name, template).collect())
        };
        let instances = counted.map_or(0, |counted| counted.sources);
        match (old.map(known), known(new)) {
            (None, Some(after)) => Self::Known { before: BTreeSet::new(), after },
            (Some(Some(before)), Some(after)) => Self::Known { before, after },
            (Some(_), _) if old.is_some_and(|old| is_wider(world, name, old, new)) => Self::Alike(instances),
            _ => Self::Unknown(instances),
        }
    }

    fn gone(&self, things: Things, after: &Things) -> usize {
        let lost = || things.keys().filter(|thing| !after.contains_key(*thing)).count();
        match self {
            Self::Known { before, after: places } => {
                let after = Declared { places: places.clone(), things: after.clone() };
                Declared { places: before.clone(), things }.beyond(&after).objects
            }
            Self::Alike(instances) => instances * lost(),
            Self::Unknown(instances) => instances * things.len(),
        }
    }

    /// Returns the number of new objects, and the number of places in which they appear.
    fn come(&self, before: &Things, things: Things) -> Option<(usize, usize)> {
        match self {
            Self::Known { before: places, after } => {
                let before = Declared { places: places.clone(), things: before.clone() };
                let come = Declared { places: after.clone(), things }.beyond(&before);
                Some((come.objects, come.places))
            }
            Self::Alike(instances) => {
                let come = things.keys().filter(|thing| !before.contains_key(*thing)).count();
                Some((instances * come, *instances))
            }
            Self::Unknown(_) => None,
        }
    }
}

/// Whether the new template is rendered for every possible object that the old template was rendered for, no
/// matter which objects exist.
fn is_wider(world: &World, name: &Declarer, old: &CompiledTemplate, new: &CompiledTemplate) -> bool {
    let (
        Instances::Objects { kind: was, names: old_names, selector: old_selector, .. },
        Instances::Objects { kind: is, names, selector, .. },
    ) = (&old.instances, &new.instances)
    else {
        return false;
    };
    let home = name.namespace();
    let goes = |template: &CompiledTemplate| {
        let into = world.namespaces().iter();
        into.filter(|(name, facts)| template.goes_into(home, name, &facts.labels))
            .map(|(name, _)| name.clone())
            .collect()
    };
    let (before, after): (BTreeSet<Arc<str>>, BTreeSet<Arc<str>>) = (goes(old), goes(new));
    was.group() == is.group()
        && was.kind == is.kind
        && has_all(old_names.as_ref(), names.as_ref())
        && selector.as_ref().is_none_or(|selector| old_selector.as_ref() == Some(selector))
        && before.is_subset(&after)
}

/// Whether `new` contains every entry of `old`, compared as text. `None` matches every name.
fn has_all(old: Option<&Globs>, new: Option<&Globs>) -> bool {
    let Some(new) = new else { return true };
    let entries: BTreeSet<&str> = new.entries().collect();
    old.is_some_and(|old| old.entries().all(|entry| entries.contains(entry)))
}

/// Returns the copies that a rule declares, and whether the copies are certain. If this process sees the
/// sources, the copies are certain; otherwise sources that the spec names may be missing. `None` if the spec
/// names no sources.
fn things_of_rule(world: &World, name: &Declarer, rule: &CompiledRule) -> Option<(Things, bool)> {
    let mut things = Things::new();
    let mut add = |source: &ObjectKey| {
        let copy = format!("{} {}", rule.shape.kind, rule.shape.copy_name(source));
        things.entry(copy).or_default().insert(source.namespace.clone());
    };
    if sees_sources(world, name, rule) {
        sources_of(world, name, rule).for_each(|(source, _)| add(source));
        return Some((things, true));
    }
    let names = rule.names.as_ref().filter(|_| rule.object_selector.is_none())?.literals()?;
    for namespace in source_namespaces(name, rule) {
        names.iter().for_each(|name| add(&ObjectKey::new(rule.kind, namespace, name.as_str())));
    }
    Some((things, false))
}

/// Placeholders for sources of unknown names.
fn anonymous(name: &Declarer, rule: &CompiledRule, sources: usize) -> Things {
    let homes: BTreeSet<Arc<str>> = source_namespaces(name, rule).map(Arc::from).collect();
    (0..sources).map(|source| (source.to_string(), homes.clone())).collect()
}

fn is_same_source(old: &CompiledRule, new: &CompiledRule) -> bool {
    let entries = |rule: &CompiledRule| {
        rule.names.as_ref().map(|names| names.entries().map(str::to_owned).collect::<BTreeSet<_>>())
    };
    entries(old) == entries(new)
        && old.object_selector == new.object_selector
        && has_same_shape(old, new)
        && old.source_namespaces == new.source_namespaces
}

fn has_wider_sources(name: &Declarer, old: &CompiledRule, new: &CompiledRule) -> bool {
    let namespaces: BTreeSet<&str> = source_namespaces(name, new).collect();
    has_all(old.names.as_ref(), new.names.as_ref())
        && new.object_selector.as_ref().is_none_or(|selector| old.object_selector.as_ref() == Some(selector))
        && has_same_shape(old, new)
        && source_namespaces(name, old).all(|namespace| namespaces.contains(namespace))
}

/// Whether copies of both rules have the same kind and names.
fn has_same_shape(old: &CompiledRule, new: &CompiledRule) -> bool {
    old.kind == new.kind && old.shape.kind == new.shape.kind && old.shape.name == new.shape.name
}

/// Returns what happens to copies that a rule no longer wants. If all targets are literal, Copyrator does not
/// check the identity's right to delete them, so the gentler of the two specs applies.
fn word(world: &World, new: &CompiledRule, old: Option<&CompiledRule>) -> OnRemoval {
    let default = world.settings().default_grace;
    let of = |rule: &CompiledRule| OnRemoval::new(rule.deletion, rule.grace.unwrap_or(default));
    match old.filter(|_| !can_grow(new)) {
        Some(old) => of(new).or_gentler(of(old)),
        None => of(new),
    }
}

impl Change {
    /// Returns the messages about objects that are deleted, and about objects that stay although no spec
    /// declares them.
    fn lost(&self, nouns: &Nouns) -> Vec<String> {
        let deleted = self.word.filter(|_| self.deleted.most > 0).map(|word| match word {
            OnRemoval::Delete(grace) => format!(
                "copyrator: {} will be deleted in {}; {}",
                nouns.of(self.deleted),
                Span::from(grace),
                nouns.keep
            ),
            OnRemoval::Retain | OnRemoval::Adopted => {
                format!(
                    "copyrator: {} {} (deletionPolicy: Retain)",
                    nouns.of(self.deleted),
                    self.deleted.stay()
                )
            }
        });
        let left = (self.left.most > 0).then(|| {
            let (left, stay) = (nouns.of(self.left), self.left.stay());
            format!("copyrator: {left} {stay} (with data, or with deletionPolicy: Retain)")
        });
        deleted.into_iter().chain(left).collect()
    }

    /// Returns the message about objects that appear. `place` is the noun for the place of an object:
    /// namespace or instance.
    fn created(&self, nouns: &Nouns, place: &str) -> Option<String> {
        let (amount, places) = self.created.filter(|(amount, _)| amount.most > 0)?;
        let plural = if places == 1 { "" } else { "s" };
        Some(format!("copyrator: {} will be created, for {places} {place}{plural}", nouns.of(amount)))
    }
}

impl Nouns {
    fn of(&self, amount: Amount) -> String {
        format!("{} of this {}", amount.of(self.one, self.many), self.whose)
    }
}
