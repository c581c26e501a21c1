//! The namespaces or objects that a Kyverno rule chooses: `match` selects them, `exclude` and `preconditions`
//! exclude some.

use serde_json::Value;

use super::{
    blocks::{blocks, by_user, is_wild, labelled, names_users, operations, selector, texts},
    condition::holds,
    exclude::{excluded, left_out},
    preconditions::preconditions,
    trigger::{Choice, Trigger},
};
use crate::{
    api::TargetTerm,
    expressions::{any_of, quoted},
    finding::{Finding, none},
    targets::{both, everywhere, named},
    templates::lacks,
};

/// The choice of one or more blocks of `match`.
#[derive(Clone, Debug, PartialEq)]
struct Matched {
    /// Names and labels of the trigger.
    chosen: Vec<TargetTerm>,
    /// Names and labels of the objects' namespaces.
    within: Vec<TargetTerm>,
    conditions: Vec<String>,
}

/// Returns the resources that a rule's `match`, `exclude` and preconditions select; `None`, with a finding,
/// if the selection has no equivalent. `home` is the namespace of a Policy, which applies only to objects of
/// its own namespace.
pub(super) fn choice(
    rule: &Value,
    trigger: &Trigger,
    home: Option<&str>,
    findings: &mut Vec<Finding>,
) -> Option<Choice> {
    let mut lost = Vec::new();
    let (is_all, blocks) = blocks(&rule["match"]);
    let meant: Vec<&Value> = blocks.iter().filter(|block| trigger.is_meant(block)).collect();
    let mut all: Vec<Matched> = meant.iter().map(|block| matched(block, trigger, &mut lost)).collect();
    all.dedup();
    let Matched { chosen, within, conditions } = match is_all {
        true => all.into_iter().reduce(|one, other| one.and(other, &mut lost))?,
        false => either(&all, trigger).unwrap_or_else(|| {
            let holds: Option<Vec<String>> =
                meant.iter().map(|block| holds("match", block, trigger, &mut lost)).collect();
            let within = all.into_iter().flat_map(|one| one.within).fold(Vec::new(), with);
            let conditions = holds.and_then(|holds| any_of(&holds)).into_iter().collect();
            Matched { chosen: vec![everywhere()], within, conditions }
        }),
    };
    let mut choice = Choice { conditions, ..Choice::default() };
    match trigger {
        Trigger::Namespace if home.is_some() => lost.push(none(
            "match.resources.kinds",
            "is Namespace, but a Policy is namespaced and never matches a Namespace: write a ClusterPolicy instead",
        )),
        Trigger::Namespace => choice.terms = chosen,
        Trigger::Objects(_) => {
            choice.terms = match home.and_then(|home| named(vec![home.to_owned()])) {
                Some(home) => both(Some(within).filter(|within| *within != [everywhere()]), Some(vec![home]), &mut lost),
                None => within,
            };
            choice.objects = one_term(&chosen).unwrap_or_default();
        }
    }
    excluded(&rule["exclude"], trigger, &mut choice, &mut lost);
    left_out(trigger, &mut choice);
    preconditions(&rule["preconditions"], trigger, &mut choice.conditions, &mut lost);
    if !rule["celPreconditions"].is_null() {
        lost.push(none(
            "celPreconditions",
            format!("are not supported by import, so import skips this rule: without them, the rule could select more \
             {}", trigger.several()),
        ));
    }
    let can_be_said = !lacks(&lost);
    findings.extend(lost);
    can_be_said.then_some(choice)
}

/// Merges the terms into one, if possible: a template has one list of names, and one selector, for objects.
fn one_term(terms: &[TargetTerm]) -> Option<TargetTerm> {
    if terms.contains(&everywhere()) {
        return Some(TargetTerm::default());
    }
    if let [one] = terms {
        return Some(one.clone());
    }
    let names: Option<Vec<&Vec<String>>> =
        terms.iter().map(|term| term.names.as_ref().filter(|_| term.namespace_selector.is_none())).collect();
    let names = names?.into_iter().flatten().cloned().fold(Vec::new(), with);
    Some(TargetTerm { names: Some(names), namespace_selector: None })
}

/// Appends an entry to a list, unless the list already has the entry.
fn with<T: PartialEq>(mut list: Vec<T>, one: T) -> Vec<T> {
    if !list.contains(&one) {
        list.push(one);
    }
    list
}

/// Merges blocks of which any must match, by names and labels; `None` if names and labels cannot express the
/// result.
fn either(all: &[Matched], trigger: &Trigger) -> Option<Matched> {
    let first = all.first()?;
    if all.len() == 1 {
        return Some(first.clone());
    }
    if all.iter().any(|one| !one.conditions.is_empty()) {
        return None;
    }
    let chosen = all.iter().flat_map(|one| one.chosen.iter().cloned()).fold(Vec::new(), with);
    let within = all.iter().flat_map(|one| one.within.iter().cloned()).fold(Vec::new(), with);
    let is_of_one =
        all.iter().all(|one| one.within == first.within) || all.iter().all(|one| one.chosen == first.chosen);
    let is_said = *trigger == Trigger::Namespace || one_term(&chosen).is_some();
    (is_of_one && is_said).then_some(Matched { chosen, within, conditions: Vec::new() })
}

impl Matched {
    /// Merges two choices that must both match.
    fn and(self, other: Self, lost: &mut Vec<Finding>) -> Self {
        Self {
            chosen: both(Some(self.chosen), Some(other.chosen), lost),
            within: both(Some(self.within), Some(other.within), lost),
            conditions: self.conditions.into_iter().chain(other.conditions).collect(),
        }
    }
}

/// Returns the choice of one block of `match`.
fn matched(block: &Value, trigger: &Trigger, lost: &mut Vec<Finding>) -> Matched {
    let resources = &block["resources"];
    if names_users(block) {
        lost.push(none("match", by_user(&trigger.several())));
    }
    let is_of_namespaces = *trigger == Trigger::Namespace;
    let (mut chosen, mut within, mut conditions) = (None, None, Vec::new());
    for (field, value) in resources.as_object().into_iter().flatten() {
        let mut is_of_trigger = true;
        let one: Vec<TargetTerm> = match field.as_str() {
            "kinds" => continue,
            "name" => value.as_str().and_then(|name| named(vec![name.to_owned()])).into_iter().collect(),
            "names" => named(texts(resources, field, lost)).into_iter().collect(),
            "namespaces" => {
                is_of_trigger = is_of_namespaces;
                named(texts(resources, field, lost)).into_iter().collect()
            }
            "selector" => {
                selector(value, "match.resources.selector", lost).into_iter().map(labelled).collect()
            }
            "namespaceSelector" if is_of_namespaces => {
                lost.push(none(
                    "match.resources.namespaceSelector",
                    "never matches a Namespace in Kyverno: write selector instead",
                ));
                continue;
            }
            "namespaceSelector" => {
                is_of_trigger = false;
                selector(value, "match.resources.namespaceSelector", lost).into_iter().map(labelled).collect()
            }
            "annotations" => {
                annotations(value, trigger, &mut conditions, lost);
                continue;
            }
            "operations" => {
                operations(value, trigger.one(), lost);
                continue;
            }
            _ => {
                lost.push(none(
                    &format!("match.resources.{field}"),
                    "is a field that import does not know, so import skips this rule",
                ));
                continue;
            }
        };
        let terms = if is_of_trigger { &mut chosen } else { &mut within };
        *terms = Some(both(terms.take(), Some(one), lost));
    }
    Matched { chosen: both(chosen, None, lost), within: both(within, None, lost), conditions }
}

fn annotations(value: &Value, trigger: &Trigger, conditions: &mut Vec<String>, lost: &mut Vec<Finding>) {
    let all = format!("{}.metadata.annotations", trigger.variable());
    for (key, value) in value.as_object().into_iter().flatten() {
        match value
            .as_str()
            .filter(|text| !is_wild(value) && !is_wild(&key.as_str().into()) && !text.is_empty())
        {
            Some(value) => {
                let key = quoted(key);
                conditions.push(format!("{key} in {all} && {all}[{key}] == {}", quoted(value)));
            }
            None => {
                lost.push(none("match.resources.annotations", "has a wildcard, so import skips this rule"))
            }
        }
    }
}
