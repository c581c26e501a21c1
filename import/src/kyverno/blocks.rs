//! The blocks of `match` and `exclude` in a Kyverno rule, and their fields.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use serde_json::{Map, Value};

use crate::{
    api::TargetTerm,
    finding::{Finding, differs, none},
};

/// Returns the blocks of `match` or `exclude`, and whether all of them must hold.
pub(super) fn blocks(of: &Value) -> (bool, Vec<Value>) {
    let several = |field: &str| of[field].as_array().filter(|blocks| !blocks.is_empty());
    let is_block = |fields: &Map<String, Value>| fields.keys().any(|field| field != "any" && field != "all");
    match (several("any"), several("all")) {
        (Some(any), _) => (false, any.clone()),
        (None, Some(all)) => (true, all.clone()),
        (None, None) if of.as_object().is_some_and(is_block) => (false, vec![of.clone()]),
        (None, None) => (false, Vec::new()),
    }
}

/// Returns the names and globs of a field, which may be one text. Any other value becomes a finding.
pub(super) fn texts(of: &Value, field: &str, lost: &mut Vec<Finding>) -> Vec<String> {
    let all = match &of[field] {
        Value::Array(all) => all.as_slice(),
        one => std::slice::from_ref(one),
    };
    let texts: Vec<String> = all.iter().map(|one| one.as_str().unwrap_or_default().to_owned()).collect();
    let is_name = |one: char| one.is_ascii_lowercase() || one.is_ascii_digit() || "-.*?".contains(one);
    if texts.iter().any(|text| text.is_empty() || !text.chars().all(is_name)) {
        lost.push(none(
            &format!("resources.{field}"),
            "has an entry that is not a name or glob, so import skips this rule",
        ));
    }
    texts
}

/// Whether a block chooses by the user of the request.
pub(super) fn names_users(block: &Value) -> bool {
    ["subjects", "roles", "clusterRoles"]
        .iter()
        .any(|field| block[*field].as_array().is_some_and(|list| !list.is_empty()))
}

/// Returns the message about a block that chooses among `several` by the user of the request.
pub(super) fn by_user(several: &str) -> String {
    format!(
        "selects {several} by the user who creates them (subjects, roles, clusterRoles), which Copyrator does not know, so import skips \
         this rule: label these {several}, and select them by the label"
    )
}

/// Returns the term for namespaces, or for objects, with these labels.
pub(super) fn labelled(selector: LabelSelector) -> TargetTerm {
    TargetTerm { namespace_selector: Some(selector), names: None }
}

/// Returns a label selector. Kyverno accepts wildcards in it, which have no equivalent.
pub(super) fn selector(value: &Value, about: &str, lost: &mut Vec<Finding>) -> Option<LabelSelector> {
    let is_wild = is_wild(value);
    match serde_json::from_value(value.clone()) {
        Ok(selector) if !is_wild => Some(selector),
        _ => {
            lost.push(none(
                about,
                "is not a Kubernetes label selector (it may contain a wildcard), so import skips this rule",
            ));
            None
        }
    }
}

/// Whether a text in the value has a wildcard or a variable.
pub(super) fn is_wild(value: &Value) -> bool {
    let is_marked = |text: &str| text.contains(['*', '?', '{']);
    match value {
        Value::String(text) => is_marked(text),
        Value::Array(items) => items.iter().any(is_wild),
        Value::Object(fields) => fields.iter().any(|(key, value)| is_marked(key) || is_wild(value)),
        _ => false,
    }
}

/// Reports the operations on `one` that trigger the rule. A Copyrator template ignores operations: a rendered
/// object stays as long as its trigger is selected.
pub(super) fn operations(value: &Value, one: &str, lost: &mut Vec<Finding>) {
    let all: Vec<&str> = value.as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    lost.push(match all.contains(&"CREATE") {
        true => differs(
            "operations",
            format!("Copyrator keeps the object as long as the template selects the {one}; operations on the {one} do not matter"),
        ),
        false => none("match.resources.operations", format!("is {}, {}", all.join(", "), when_changed(one))),
    });
}

/// Returns the message about a rule that does not act on CREATE.
pub(super) fn when_changed(one: &str) -> String {
    format!(
        "so the rule reacts to updates or deletion of the {one}; a Copyrator template does not react to operations"
    )
}
