//! Translation of `exclude` of a Kyverno rule, which removes namespaces and objects from the rule's choice.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement};
use serde_json::Value;

use super::{
    blocks::{blocks, by_user, labelled, names_users, selector, texts},
    condition::{fields, holds},
    trigger::{Choice, Trigger},
};
use crate::{
    expressions::{NAME, all_of, one_of},
    finding::{Finding, differs, none},
    targets::{both, matches, requirements},
};

/// Kyverno's own namespace. Kyverno excludes its own namespace by default, besides the system namespaces,
/// which get no objects from Copyrator either.
const OWN: &str = "kyverno";
/// The label that the API server sets to each namespace's name.
const NAME_LABEL: &str = "kubernetes.io/metadata.name";

/// Removes the resources that `exclude` matches, and Kyverno's own namespace.
pub(super) fn excluded(exclude: &Value, trigger: &Trigger, choice: &mut Choice, lost: &mut Vec<Finding>) {
    let (is_all, blocks) = blocks(exclude);
    let meant: Vec<&Value> = blocks.iter().filter(|block| trigger.is_meant(block)).collect();
    match meant.as_slice() {
        // Blocks that never match together exclude no resource.
        several if is_all && several.len() < blocks.len() => {}
        several if is_all && several.len() > 1 => {
            let all: Option<Vec<String>> =
                several.iter().map(|block| holds("exclude", block, trigger, lost)).collect();
            choice.conditions.extend(all.and_then(|all| all_of(&all)).map(|all| format!("!({all})")));
        }
        several => several.iter().for_each(|block| without(block, trigger, choice, lost)),
    }
    if !choice.exclude.iter().any(|one| matches(one, OWN)) {
        choice.exclude.push(OWN.into());
    }
}

/// Expresses the excluded namespaces of a rule on objects as terms, or as a condition: a template for objects
/// has no list of excluded namespaces.
pub(super) fn left_out(trigger: &Trigger, choice: &mut Choice) {
    if *trigger == Trigger::Namespace {
        return;
    }
    let exclude = std::mem::take(&mut choice.exclude);
    let is_glob = |name: &String| name.contains(['*', '?']);
    let (globs, literals): (Vec<String>, Vec<String>) = exclude.into_iter().partition(is_glob);
    let is_out = |name: &String| literals.contains(name) || globs.iter().any(|glob| matches(glob, name));
    let mut is_wide = false;
    for mut term in std::mem::take(&mut choice.terms) {
        match &mut term.names {
            Some(names) if !names.iter().any(is_glob) => {
                names.retain(|name| !is_out(name));
                if !names.is_empty() {
                    choice.terms.push(term);
                }
            }
            names => {
                is_wide = true;
                let reaches = |name: &&String| {
                    names.as_ref().is_none_or(|all| all.iter().any(|one| matches(one, name)))
                };
                let values: Vec<String> = literals.iter().filter(reaches).cloned().collect();
                let other = LabelSelectorRequirement {
                    key: NAME_LABEL.into(),
                    operator: "NotIn".into(),
                    values: Some(values.clone()),
                };
                let others = (!values.is_empty()).then(|| vec![labelled(of(other))]);
                choice.terms.extend(both(Some(vec![term]), others, &mut Vec::new()));
            }
        }
    }
    if is_wide && !globs.is_empty() {
        choice.conditions.push(format!("!({})", one_of(NAME, &globs)));
    }
}

/// The end of a message about an exclusion that has no equivalent.
const NARROWED: &str =
    "so import skips this rule: without the exclusion, the rule would select more objects than today";

/// Excludes the resources that one block matches: by names and labels if possible, else by a condition.
fn without(block: &Value, trigger: &Trigger, choice: &mut Choice, lost: &mut Vec<Finding>) {
    let mut fields = fields(block);
    if let Some(operations) = fields.remove("operations") {
        let all: Vec<&str> = operations.as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        if !all.contains(&"CREATE") && !all.contains(&"UPDATE") {
            let told = format!("Copyrator ignores an exclusion by the operation {}", all.join(", "));
            return lost.push(differs("exclude.resources.operations", told));
        }
    }
    if names_users(block) {
        return lost.push(none("exclude", by_user(&trigger.several())));
    }
    let resources = &block["resources"];
    let is_of_namespaces = *trigger == Trigger::Namespace;
    let only: Vec<&str> = fields.keys().map(String::as_str).collect();
    match only.as_slice() {
        [] => lost.push(none(
            "exclude.resources",
            format!("excludes every {}, so import skips this rule", trigger.one()),
        )),
        [field @ ("names" | "namespaces")] if is_of_namespaces || *field == "namespaces" => {
            let names = texts(resources, field, lost);
            if names.is_empty() {
                let told = format!("is not a list of names, {NARROWED}");
                lost.push(none(&format!("exclude.resources.{field}"), told));
            }
            choice.exclude.extend(names);
        }
        ["name"] if is_of_namespaces && resources["name"].as_str().is_some_and(|name| !name.is_empty()) => {
            choice.exclude.extend(resources["name"].as_str().map(str::to_owned));
        }
        [field @ ("selector" | "namespaceSelector")] => {
            let about = format!("exclude.resources.{field}");
            let Some(selector) = selector(&resources[*field], &about, lost) else { return };
            match requirements(&selector).as_slice() {
                [one] => match negated(one) {
                    Some(other) if *field == "selector" && !is_of_namespaces => {
                        let objects = std::mem::take(&mut choice.objects);
                        let both = both(Some(vec![objects]), Some(vec![labelled(of(other))]), lost);
                        choice.objects = both.into_iter().next().unwrap_or_default();
                    }
                    Some(_) if *field == "namespaceSelector" && is_of_namespaces => {
                        lost.push(none(&about, format!("never matches a Namespace, {NARROWED}")));
                    }
                    Some(other) => {
                        let terms = std::mem::take(&mut choice.terms);
                        choice.terms = both(Some(terms), Some(vec![labelled(of(other))]), lost);
                    }
                    None => lost.push(none(&about, format!("has an unknown operator, {NARROWED}"))),
                },
                _ => choice
                    .conditions
                    .extend(holds("exclude", block, trigger, lost).map(|all| format!("!({all})"))),
            }
        }
        _ => choice.conditions.extend(holds("exclude", block, trigger, lost).map(|all| format!("!({all})"))),
    }
}

/// Returns the selector with one requirement.
fn of(one: LabelSelectorRequirement) -> LabelSelector {
    LabelSelector { match_expressions: Some(vec![one]), match_labels: None }
}

/// Returns the opposite of a requirement; `None` if the operator is not known.
fn negated(one: &LabelSelectorRequirement) -> Option<LabelSelectorRequirement> {
    let operator = match one.operator.as_str() {
        "In" => "NotIn",
        "NotIn" => "In",
        "Exists" => "DoesNotExist",
        "DoesNotExist" => "Exists",
        _ => return None,
    };
    Some(LabelSelectorRequirement { operator: operator.into(), ..one.clone() })
}
