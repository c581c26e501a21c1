//! Which namespaces a rule of Kyverno chooses: `match`, `exclude` and `preconditions` on Namespaces.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement};
use serde_json::{Map, Value};

use crate::{
    api::TargetTerm,
    import::{
        expressions::quoted,
        finding::{Finding, differs, none},
        jmespath::cel,
        targets::{both, matches, named, requirements},
        templates::lacks,
    },
};

/// What Kyverno leaves out by default beside Kubernetes' own namespaces, which nothing is made in here either.
const OWN: &str = "kyverno";

/// The namespaces that a rule chooses.
#[derive(Debug, Default)]
pub(super) struct Choice {
    /// One of these must match.
    pub(super) terms: Vec<TargetTerm>,
    /// Names and globs that are left out.
    pub(super) exclude: Vec<String>,
    /// What else must hold of the Namespace, in CEL.
    pub(super) conditions: Vec<String>,
}

/// What a rule chooses; `None` where that cannot be said, which a finding tells.
pub(super) fn choice(rule: &Value, findings: &mut Vec<Finding>) -> Option<Choice> {
    let mut choice = Choice::default();
    let mut lost = Vec::new();
    let (is_all, blocks) = blocks(&rule["match"]);
    let mut all: Option<Vec<TargetTerm>> = None;
    for block in &blocks {
        let one = matched(block, &mut choice.conditions, &mut lost);
        if is_all {
            all = Some(both(all, Some(one), &mut lost));
        } else {
            all.get_or_insert_default().extend(one);
        }
    }
    if blocks.len() > 1 && !is_all && !choice.conditions.is_empty() {
        lost.push(none(
            "match.any",
            "has annotations in one of several blocks, so nothing is made: make a rule of each",
        ));
    }
    choice.terms = all.unwrap_or_default();
    let (is_all, blocks) = self::blocks(&rule["exclude"]);
    if is_all && blocks.len() > 1 {
        lost.push(none(
            "exclude.all",
            "has several blocks, so nothing is made: without it, more namespaces would be chosen than today",
        ));
    }
    for block in &blocks {
        excluded(block, &mut choice, &mut lost);
    }
    if !choice.exclude.iter().any(|one| matches(one, OWN)) {
        choice.exclude.push(OWN.into());
    }
    preconditions(&rule["preconditions"], &mut choice.conditions, &mut lost);
    if !rule["celPreconditions"].is_null() {
        lost.push(none(
            "celPreconditions",
            "are not understood, so nothing is made: they may choose fewer namespaces",
        ));
    }
    let can_be_said = !lacks(&lost);
    findings.extend(lost);
    can_be_said.then_some(choice)
}

/// The blocks of `match` or `exclude`, and whether all of them must hold.
fn blocks(of: &Value) -> (bool, Vec<Value>) {
    let several = |field: &str| of[field].as_array().filter(|blocks| !blocks.is_empty());
    let is_block = |fields: &Map<String, Value>| fields.keys().any(|field| field != "any" && field != "all");
    match (several("any"), several("all")) {
        (Some(any), _) => (false, any.clone()),
        (None, Some(all)) => (true, all.clone()),
        (None, None) if of.as_object().is_some_and(is_block) => (false, vec![of.clone()]),
        (None, None) => (false, Vec::new()),
    }
}

/// Names and globs at a field; what else stands there is told.
fn texts(of: &Value, field: &str, lost: &mut Vec<Finding>) -> Vec<String> {
    let texts =
        of[field].as_array().into_iter().flatten().map(|one| one.as_str().unwrap_or_default().to_owned());
    let texts: Vec<String> = texts.collect();
    let is_name = |one: char| one.is_ascii_lowercase() || one.is_ascii_digit() || "-.*?".contains(one);
    if texts.iter().any(|text| text.is_empty() || !text.chars().all(is_name)) {
        lost.push(none(
            &format!("resources.{field}"),
            "has an entry that is neither a name nor a glob, so nothing is made",
        ));
    }
    texts
}

/// What one block of `match` chooses.
fn matched(block: &Value, conditions: &mut Vec<String>, lost: &mut Vec<Finding>) -> Vec<TargetTerm> {
    let resources = &block["resources"];
    if users(block) {
        lost.push(none("match", USERS));
    }
    let kinds = resources["kinds"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let others: Vec<&str> = kinds.clone().filter(|kind| !is_namespace(kind)).collect();
    if !others.is_empty() || kinds.count() == 0 {
        let told = format!(
            "is for {}, and only rules for Namespaces are imported: where an object is to be made for each object of a kind, write a \
             CopyratorTemplate with forEach.objects",
            if others.is_empty() { "every kind".into() } else { others.join(", ") }
        );
        lost.push(none("match.resources.kinds", told));
        return Vec::new();
    }
    let mut terms: Option<Vec<TargetTerm>> = None;
    for (field, value) in resources.as_object().into_iter().flatten() {
        let one = match field.as_str() {
            "kinds" => continue,
            "name" => value.as_str().and_then(|name| named(vec![name.to_owned()])).into_iter().collect(),
            "names" | "namespaces" => named(texts(resources, field, lost)).into_iter().collect(),
            "selector" => {
                selector(value, "match.resources.selector", lost).into_iter().map(labelled).collect()
            }
            "annotations" => {
                annotations(value, conditions, lost);
                continue;
            }
            "operations" => {
                operations(value, lost);
                continue;
            }
            "namespaceSelector" => {
                lost.push(none(
                    "match.resources.namespaceSelector",
                    "never matches a Namespace, in Kyverno neither: selector is meant",
                ));
                continue;
            }
            _ => {
                lost.push(none(&format!("match.resources.{field}"), "is not understood, so nothing is made"));
                continue;
            }
        };
        terms = Some(both(terms, Some(one), lost));
    }
    both(terms, None, lost)
}

const USERS: &str = "chooses by who makes the namespace (subjects, roles, clusterRoles), which is not seen here, so nothing is made: \
     have a label say it, and select that";

fn users(block: &Value) -> bool {
    ["subjects", "roles", "clusterRoles"]
        .iter()
        .any(|field| block[*field].as_array().is_some_and(|list| !list.is_empty()))
}

fn is_namespace(kind: &str) -> bool {
    ["Namespace", "v1/Namespace", "*/Namespace", "*/v1/Namespace", "/v1/Namespace"].contains(&kind)
}

fn labelled(selector: LabelSelector) -> TargetTerm {
    TargetTerm { namespace_selector: Some(selector), names: None }
}

/// A selector of labels. Kyverno takes wildcards in it, which have no equivalent.
fn selector(value: &Value, about: &str, lost: &mut Vec<Finding>) -> Option<LabelSelector> {
    let is_wild = is_wild(value);
    match serde_json::from_value(value.clone()) {
        Ok(selector) if !is_wild => Some(selector),
        _ => {
            lost.push(none(about, "is not a selector of Kubernetes (a wildcard, say), so nothing is made"));
            None
        }
    }
}

/// Whether a text in it has a wildcard or a variable.
fn is_wild(value: &Value) -> bool {
    let is_marked = |text: &str| text.contains(['*', '?', '{']);
    match value {
        Value::String(text) => is_marked(text),
        Value::Array(items) => items.iter().any(is_wild),
        Value::Object(fields) => fields.iter().any(|(key, value)| is_marked(key) || is_wild(value)),
        _ => false,
    }
}

fn annotations(value: &Value, conditions: &mut Vec<String>, lost: &mut Vec<Finding>) {
    for (key, value) in value.as_object().into_iter().flatten() {
        match value
            .as_str()
            .filter(|text| !is_wild(value) && !is_wild(&key.as_str().into()) && !text.is_empty())
        {
            Some(value) => conditions.push(format!(
                "{key} in {ANNOTATIONS} && {ANNOTATIONS}[{key}] == {}",
                quoted(value),
                key = quoted(key)
            )),
            None => lost.push(none("match.resources.annotations", "has a wildcard, so nothing is made")),
        }
    }
}

const ANNOTATIONS: &str = "namespaceObject.metadata.annotations";

const WHEN_CHANGED: &str =
    "means when a namespace is changed or deleted, and nothing is made here because of that";

/// When the rule acts. Here an object is wanted as long as its namespace is chosen.
fn operations(value: &Value, lost: &mut Vec<Finding>) {
    let all: Vec<&str> = value.as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    lost.push(match all.contains(&"CREATE") {
        true => differs(
            "operations",
            "the object is wanted as long as the namespace is chosen, not when something is done to it",
        ),
        false => none("match.resources.operations", format!("is {} {WHEN_CHANGED}", all.join(", "))),
    });
}

/// Leaves out what one block of `exclude` matches.
fn excluded(block: &Value, choice: &mut Choice, lost: &mut Vec<Finding>) {
    let resources = &block["resources"];
    let narrowed = "so nothing is made: without it, more namespaces would be chosen than today";
    if users(block) {
        return lost.push(none("exclude", USERS));
    }
    let may_be_namespaces = |kind: &Value| {
        kind.as_str()
            .is_none_or(|kind| kind.contains(['*', '?']) || kind.rsplit('/').next() == Some("Namespace"))
    };
    let kinds = resources["kinds"].as_array().filter(|kinds| !kinds.is_empty());
    if kinds.is_some_and(|kinds| !kinds.iter().any(may_be_namespaces)) {
        return;
    }
    let fields = resources.as_object().into_iter().flatten().filter(|(field, _)| *field != "kinds");
    let fields: Vec<(&str, &Value)> = fields.map(|(field, value)| (field.as_str(), value)).collect();
    match fields.as_slice() {
        [(field @ ("names" | "namespaces"), _)] => {
            let names = texts(resources, field, lost);
            if names.is_empty() {
                lost.push(none(
                    &format!("exclude.resources.{field}"),
                    format!("is not a list of names, {narrowed}"),
                ));
            }
            choice.exclude.extend(names);
        }
        [("name", Value::String(name))] if !name.is_empty() => choice.exclude.push(name.clone()),
        [("selector", value)] => {
            let Some(selector) = selector(value, "exclude.resources.selector", lost) else { return };
            match requirements(&selector).as_slice() {
                [one] => match negated(one) {
                    Some(other) => {
                        let other =
                            LabelSelector { match_expressions: Some(vec![other]), match_labels: None };
                        let terms = std::mem::take(&mut choice.terms);
                        choice.terms = both(Some(terms), Some(vec![labelled(other)]), lost);
                    }
                    None => lost.push(none(
                        "exclude.resources.selector",
                        format!("has an unknown operator, {narrowed}"),
                    )),
                },
                _ => lost
                    .push(none("exclude.resources.selector", format!("is not one requirement, {narrowed}"))),
            }
        }
        [] => lost.push(none("exclude.resources", "leaves out every Namespace, so nothing is made")),
        _ => {
            let names: Vec<&str> = fields.iter().map(|(field, _)| *field).collect();
            let told = format!("has {}, {narrowed}", names.join(" and "));
            lost.push(none("exclude.resources", told));
        }
    }
}

/// What holds where a requirement does not.
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

/// Preconditions that compare an expression with a text become conditions; those on the operation hold when a namespace is
/// made, or nothing is.
fn preconditions(of: &Value, conditions: &mut Vec<String>, lost: &mut Vec<Finding>) {
    let none_of = Vec::new();
    let any = of["any"].as_array().unwrap_or(&none_of);
    let all = of.as_array().or_else(|| of["all"].as_array()).unwrap_or(&none_of);
    if any.len() > 1 {
        lost.push(none(
            "preconditions.any",
            "has several conditions, so nothing is made: make a rule of each",
        ));
        return;
    }
    for one in all.iter().chain(any) {
        let (key, operator) =
            (one["key"].as_str().unwrap_or_default(), one["operator"].as_str().unwrap_or_default());
        let is_of_list = operator.ends_with("In");
        // In reads a text that begins otherwise as a list in JSON or a range; Equals is never true of a list.
        let is_one = |text: &str| !is_of_list || text.starts_with(|one: char| one.is_ascii_alphabetic());
        let values: Option<Vec<&str>> = match &one["value"] {
            Value::String(text) if is_one(text) => Some(vec![text]),
            Value::Array(all) if is_of_list => all.iter().map(Value::as_str).collect(),
            _ => None,
        };
        let values = values.filter(|_| !is_wild(&one["value"]));
        let wanted = match operator {
            "Equals" | "Equal" | "In" | "AnyIn" => Some(true),
            "NotEquals" | "NotEqual" | "NotIn" | "AnyNotIn" => Some(false),
            _ => None,
        };
        let inner =
            key.trim().strip_prefix("{{").and_then(|key| key.strip_suffix("}}")).unwrap_or_default().trim();
        match (wanted, values, cel(inner)) {
            (Some(wanted), Some(values), _) if inner.starts_with("request.operation") => {
                match values.contains(&"CREATE") == wanted {
                    true => operations(&["CREATE"].as_slice().into(), lost),
                    false => lost.push(none(
                        "preconditions",
                        format!("{key} {operator} {} {WHEN_CHANGED}", values.join(", ")),
                    )),
                }
            }
            (Some(wanted), Some(values), Some(said)) => {
                if !wanted && !is_of_list {
                    lost.push(differs(
                        "preconditions",
                        format!(
                            "{operator} compares texts here; Kyverno also compares quantities and durations, so that 1Gi equals 1024Mi"
                        ),
                    ));
                }
                let values = values.iter().map(|value| quoted(value)).collect::<Vec<_>>();
                conditions.push(match (wanted, values.as_slice()) {
                    (true, [one]) => format!("{said} == {one}"),
                    (false, [one]) => format!("{said} != {one}"),
                    (true, _) => format!("{said} in [{}]", values.join(", ")),
                    (false, _) => format!("!({said} in [{}])", values.join(", ")),
                });
            }
            _ => lost.push(none(
                "preconditions",
                format!(
                    "{key} {operator} has no equivalent that is certain, so nothing is made: write the template by hand, with \
                     includeWhen"
                ),
            )),
        }
    }
}
