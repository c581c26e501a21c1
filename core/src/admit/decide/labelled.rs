//! Warnings about objects that appear and disappear when labels change: objects that rules and templates
//! declare for a namespace, and objects that templates declare for another object.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use serde::Deserialize;

use super::{
    DecideError, Verdict,
    difference::Amount,
    reach::{acting, acting_template, source_namespaces, sources},
};
use crate::{
    admit::decode::{Operation, Review},
    api::{DeletionPolicy, Span},
    marks::OnRemoval,
    model::{InstancesRead, NamespaceFacts, World},
    plan::copy::targets::{is_named, takes_copies},
    validate::{
        self, Candidate, CandidateError, CompiledObject, CompiledTemplate, LabelChange, own_deletion,
    },
};

/// The objects that a namespace or an instance gains and loses when its labels change.
#[derive(Debug, Default)]
pub(super) struct Relabelled {
    come: Share,
    gone: Share,
    /// The grace periods after which lost objects are deleted.
    graces: BTreeSet<Duration>,
}

/// A number of objects, and of the rules and templates that declare them.
#[derive(Debug, Default)]
struct Share {
    objects: usize,
    /// Whether more objects may exist than were counted.
    at_least: bool,
    /// Whether fewer objects may exist than were counted.
    up_to: bool,
    rules: usize,
    templates: usize,
}

/// The objects that a new namespace will get, or that an existing one gains and loses when its labels change.
pub(super) fn of_namespace(world: &World, old: Option<&Candidate<'_>>, new: &Candidate<'_>) -> Relabelled {
    let known = world.namespaces().get(&*new.name).cloned().unwrap_or_default();
    let facts = |object: &Candidate<'_>| {
        let labels = object.labels.clone().unwrap_or_default();
        let facts = NamespaceFacts { labels, ..known.clone() };
        let takes = takes_copies(world, &object.name, &facts);
        takes.then_some(facts)
    };
    let (before, after) = (old.and_then(facts), facts(new));
    let mut relabelled = Relabelled::default();
    let default = world.settings().default_grace;
    let mut change = match (&before, &after) {
        (Some(before), Some(after)) => LabelChange::of(&before.labels, &after.labels, || {
            [before, after].map(|it| it.as_object(&new.name))
        }),
        _ => LabelChange::default(),
    };
    for (name, rule) in world.rules() {
        let Some(compiled) = acting(world, name, rule) else { continue };
        let elsewhere = source_namespaces(name, compiled).any(|source| source != new.name);
        let is_meant = |facts: &Option<NamespaceFacts>| {
            elsewhere && facts.as_ref().is_some_and(|facts| is_named(compiled, &new.name, facts))
        };
        let number = sources(name, rule, compiled);
        let word = OnRemoval::new(compiled.deletion, compiled.grace.unwrap_or(default));
        match (is_meant(&before), is_meant(&after)) {
            _ if number == Some(0) => {}
            (false, true) => relabelled.come.add_rule(number),
            (true, false) if relabelled.goes(word) => relabelled.gone.add_rule(number),
            _ => {}
        }
    }
    for (name, facts) in world.templates() {
        let Some(compiled) = acting_template(world, name, facts) else { continue };
        let is_meant = |facts: &Option<NamespaceFacts>| {
            let into =
                |facts: &NamespaceFacts| compiled.goes_into(name.namespace(), &new.name, &facts.labels);
            facts.as_ref().is_some_and(into)
        };
        let instances = match compiled.instance_kind() {
            None => Some(1),
            // A new namespace contains no instances.
            Some(_) if old.is_none() => Some(0),
            Some(kind) if world.instances_read(kind) == InstancesRead::Listed => {
                let there = world.instances_in(kind, &new.name);
                let selected = |labels: Option<&_>, name: &str| compiled.selects_object(name, labels);
                Some(there.filter(|(name, known)| selected(known.labels.as_ref(), &name.name)).count())
            }
            Some(_) => None,
        };
        match (is_meant(&before), is_meant(&after)) {
            (false, true) => relabelled.come.add_template(instances, all(compiled)),
            (true, false) => relabelled.loses(compiled, instances, all(compiled), default),
            (true, true) => {
                let changed = compiled.relabelled(&mut change);
                let come = changed.iter().filter(|one| one.comes).map(Part::from);
                relabelled.come.add_template(instances, come);
                let gone = changed.iter().filter(|one| one.goes).map(Part::from);
                relabelled.loses(compiled, instances, gone, default);
            }
            (false, false) => {}
        }
    }
    for share in [&mut relabelled.come, &mut relabelled.gone] {
        share.at_least |= world.sources_omitted();
    }
    relabelled
}

impl Relabelled {
    /// Returns the warnings; `here` is the place of the objects, in words.
    pub(super) fn said(&self, here: &str) -> Vec<String> {
        let come = self
            .come
            .said()
            .map(|come| format!("copyrator: {come} will be created {here}{}", self.come.of()));
        let mut graces = self.graces.iter().map(|grace| Span::from(*grace).to_string());
        let after = match (graces.next(), graces.next()) {
            (Some(only), None) => format!("in {only}"),
            (first, _) => format!("from {} on", first.unwrap_or_default()),
        };
        let gone = self.gone.said().map(|gone| {
            let of = self.gone.of();
            format!("copyrator: {gone} {here} will be deleted {after}, unless you restore the label{of}")
        });
        [come, gone].into_iter().flatten().collect()
    }

    /// Whether lost objects are deleted; if so, records their grace period.
    fn goes(&mut self, word: OnRemoval) -> bool {
        match word {
            OnRemoval::Delete(grace) => {
                self.graces.insert(grace);
                true
            }
            OnRemoval::Retain | OnRemoval::Adopted => false,
        }
    }

    /// Counts the objects of a template that are deleted.
    fn loses<'t>(
        &mut self,
        template: &CompiledTemplate,
        instances: Option<usize>,
        objects: impl Iterator<Item = Part<'t>>,
        default: Duration,
    ) {
        let is_deleted = |part: &Part<'_>| {
            let own = own_deletion(&part.object.kind, part.object.deletion);
            own.unwrap_or(template.deletion) == DeletionPolicy::Delete
        };
        let mut deleted = objects.filter(is_deleted).peekable();
        if deleted.peek().is_some() && instances != Some(0) {
            self.goes(OnRemoval::new(DeletionPolicy::Delete, template.grace.unwrap_or(default)));
            self.gone.add_template(instances, deleted);
        }
    }
}

/// An object of a template that a change of labels affects.
struct Part<'t> {
    object: &'t CompiledObject,
    /// Whether the template declares it for certain.
    is_sure: bool,
}

impl<'t> From<&validate::Relabelled<'t>> for Part<'t> {
    fn from(relabelled: &validate::Relabelled<'t>) -> Self {
        Self { object: relabelled.object, is_sure: relabelled.is_sure }
    }
}

/// All objects of a template.
fn all(template: &CompiledTemplate) -> impl Iterator<Item = Part<'_>> {
    template.objects.iter().map(|object| Part { object, is_sure: object.condition().is_none() })
}

impl Share {
    fn add_rule(&mut self, number: Option<usize>) {
        self.rules += 1;
        self.objects += number.unwrap_or_default();
        self.at_least |= number.is_none();
    }

    fn add_template<'t>(&mut self, instances: Option<usize>, objects: impl Iterator<Item = Part<'t>>) {
        let (mut number, mut is_sure) = (0, true);
        for part in objects {
            (number, is_sure) = (number + 1, is_sure && part.is_sure);
        }
        if number == 0 || instances == Some(0) {
            return;
        }
        self.up_to |= !is_sure;
        self.templates += 1;
        self.objects += instances.unwrap_or_default() * number;
        self.at_least |= instances.is_none();
    }

    /// Returns the number in words; `None` if there are no objects.
    fn said(&self) -> Option<String> {
        let exactly = Amount { most: self.objects, is_exact: true };
        match (self.objects, self.at_least) {
            _ if self.rules + self.templates == 0 => None,
            (0, true) => Some("objects".to_owned()),
            (0, false) => None,
            (_, true) => Some(format!("at least {}", exactly.of("object", "objects"))),
            (_, false) => Some(Amount { is_exact: !self.up_to, ..exactly }.of("object", "objects")),
        }
    }

    /// Returns how many rules and templates declare the objects.
    fn of(&self) -> String {
        let some = |most: usize, one: &str, many: &str| {
            (most > 0).then(|| Amount { most, is_exact: true }.of(one, many))
        };
        let said = [some(self.rules, "rule", "rules"), some(self.templates, "template", "templates")];
        format!(" ({})", said.into_iter().flatten().collect::<Vec<_>>().join(", "))
    }
}

/// A write of an object of a kind that templates are rendered for.
pub struct InstanceCase<'a> {
    review: &'a Review<'a>,
    old: Instance,
    new: Instance,
}

/// The labels of an instance; other fields are not decoded.
#[derive(Default, Deserialize)]
struct Instance {
    #[serde(default)]
    metadata: Metadata,
}

#[derive(Default, Deserialize)]
struct Metadata {
    #[serde(default)]
    labels: Option<BTreeMap<String, String>>,
}

impl<'a> InstanceCase<'a> {
    /// Reads an update; `None` for other operations.
    pub(super) fn read(review: &'a Review<'a>) -> Result<Option<Self>, DecideError> {
        let (Operation::Update, Some(new), Some(old)) = (review.operation, review.object, review.old_object)
        else {
            return Ok(None);
        };
        let read = |what, raw: &serde_json::value::RawValue| {
            serde_json::from_str(raw.get()).map_err(|error: serde_json::Error| DecideError::Unreadable {
                what,
                source: CandidateError::Unreadable { line: error.line(), column: error.column() },
            })
        };
        Ok(Some(Self { review, old: read("oldObject", old)?, new: read("object", new)? }))
    }

    /// Allows the write, and warns about objects that appear and disappear with the new labels.
    pub fn look(&self, world: &World) -> Verdict {
        let mut verdict = Verdict::allow();
        let review = self.review;
        let namespace = world.namespaces().get(&*review.namespace);
        let Some(facts) = namespace.filter(|facts| takes_copies(world, &review.namespace, facts)) else {
            return verdict;
        };
        let none = BTreeMap::new();
        let [before, after] =
            [&self.old, &self.new].map(|object| object.metadata.labels.as_ref().unwrap_or(&none));
        let mut relabelled = Relabelled::default();
        for (name, template) in world.templates() {
            let Some(compiled) = acting_template(world, name, template) else { continue };
            let is_of = compiled
                .instance_kind()
                .is_some_and(|kind| kind.group() == review.kind.group && *kind.kind == *review.kind.kind);
            if !is_of || !compiled.goes_into(name.namespace(), &review.namespace, &facts.labels) {
                continue;
            }
            let selects = |labels| compiled.selects_object(&review.name, Some(labels));
            match (selects(before), selects(after)) {
                (false, true) => relabelled.come.add_template(Some(1), all(compiled)),
                (true, false) => {
                    relabelled.loses(compiled, Some(1), all(compiled), world.settings().default_grace);
                }
                _ => {}
            }
        }
        let here = format!("for this {}", review.kind.kind);
        relabelled.said(&here).into_iter().for_each(|said| verdict.warn(said));
        verdict
    }
}
