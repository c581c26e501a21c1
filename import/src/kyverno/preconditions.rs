//! Translation of a Kyverno rule's `preconditions` to CEL conditions.

use serde_json::Value;

use super::{
    blocks::{is_wild, operations, when_changed},
    trigger::Trigger,
};
use crate::{
    expressions::{any_of, quoted},
    finding::{Finding, differs, none},
};

/// The translation of one precondition.
enum Precondition {
    /// The precondition allows CREATE, and so is true for every existing object.
    Holds,
    /// The precondition is true if this CEL expression is true.
    Cel(String),
}

/// Translates preconditions that compare an expression with texts to conditions. Preconditions on the
/// operation must allow CREATE; otherwise the import makes no object.
pub(super) fn preconditions(
    of: &Value,
    trigger: &Trigger,
    conditions: &mut Vec<String>,
    lost: &mut Vec<Finding>,
) {
    let none_of = Vec::new();
    let any = of["any"].as_array().unwrap_or(&none_of);
    let all = of.as_array().or_else(|| of["all"].as_array()).unwrap_or(&none_of);
    for one in all {
        if let Some(Precondition::Cel(said)) = said(one, trigger, lost) {
            conditions.push(said);
        }
    }
    let mut alternatives = Vec::new();
    for one in any {
        match said(one, trigger, lost) {
            Some(Precondition::Cel(said)) => alternatives.push(said),
            Some(Precondition::Holds) => return,
            None => {}
        }
    }
    conditions.extend(any_of(&alternatives));
}

/// Translates one precondition; `None`, with a finding, if the precondition has no equivalent.
fn said(one: &Value, trigger: &Trigger, lost: &mut Vec<Finding>) -> Option<Precondition> {
    let (key, operator) =
        (one["key"].as_str().unwrap_or_default(), one["operator"].as_str().unwrap_or_default());
    let inner =
        key.trim().strip_prefix("{{").and_then(|key| key.strip_suffix("}}")).unwrap_or_default().trim();
    let is_of_list = operator.ends_with("In");
    let wanted = match operator {
        "Equals" | "Equal" | "In" | "AnyIn" => Some(true),
        "NotEquals" | "NotEqual" | "NotIn" | "AnyNotIn" => Some(false),
        _ => None,
    };
    let values = values(&one["value"], is_of_list);
    if inner.starts_with("request.operation") {
        let texts = values.iter().flatten().filter_map(Value::as_str).collect::<Vec<_>>();
        if let (Some(wanted), false) = (wanted, texts.is_empty()) {
            if texts.contains(&"CREATE") == wanted {
                operations(&["CREATE"].as_slice().into(), trigger.one(), lost);
                return Some(Precondition::Holds);
            }
            let told = format!("{key} {operator} {}, {}", texts.join(", "), when_changed(trigger.one()));
            lost.push(none("preconditions", told));
            return None;
        }
    }
    let said = (trigger.cel())(inner);
    let is_text = is_text(inner);
    let is_certain = |value: &Value| match value {
        Value::Bool(_) => !is_text,
        Value::String(text) => is_text || is_word(text),
        _ => false,
    };
    // A field may contain a wildcard, by which Kyverno's list operators match.
    let is_said = |values: &Vec<Value>| {
        values.iter().all(is_certain) && (is_text || wanted != Some(false) || !is_of_list)
    };
    let values = values.filter(is_said).and_then(|values| with_default(inner, wanted == Some(true), values));
    match (wanted, values, said) {
        (Some(wanted), Some(values), Some(said)) => {
            if !wanted && !is_of_list && values.iter().any(Value::is_string) {
                let told = format!(
                    "{operator} compares strings in Copyrator; Kyverno also compares quantities and durations, so that 1Gi equals 1024Mi"
                );
                lost.push(differs("preconditions", told));
            }
            let values: Vec<String> =
                values.iter().map(|value| value.as_str().map_or_else(|| value.to_string(), quoted)).collect();
            Some(Precondition::Cel(match (wanted, values.as_slice()) {
                (true, [one]) => format!("{said} == {one}"),
                (false, [one]) => format!("{said} != {one}"),
                (true, _) => format!("{said} in [{}]", values.join(", ")),
                (false, _) => format!("!({said} in [{}])", values.join(", ")),
            }))
        }
        _ => {
            let told = format!(
                "import cannot translate {key} {operator} with certainty, so it skips this rule: write the template by hand, with \
                 includeWhen"
            );
            lost.push(none("preconditions", told));
            None
        }
    }
}

/// Returns the values of a comparison; `None` if the meaning of the values is not certain. The operator `In`
/// reads a text that does not begin with a letter as a JSON list or a range; `Equals` is never true for a
/// list.
fn values(value: &Value, is_of_list: bool) -> Option<Vec<Value>> {
    let is_one = |text: &str| !is_of_list || text.starts_with(|one: char| one.is_ascii_alphabetic());
    let values = match value {
        Value::String(text) if is_one(text) => vec![value.clone()],
        Value::Bool(_) if !is_of_list => vec![value.clone()],
        Value::Array(all) if is_of_list && all.iter().all(Value::is_string) => all.clone(),
        _ => return None,
    };
    (!is_wild(value)).then_some(values)
}

/// Whether an expression always gives a text, as metadata and text defaults do. Other fields may have values
/// of any type, and Kyverno compares a text like 3 as a number.
fn is_text(expression: &str) -> bool {
    expression.split("||").map(str::trim).all(|one| {
        ["request.object.metadata.", "'", "`\""].iter().any(|start| one.starts_with(start))
            || ["request.name", "request.namespace"].contains(&one)
    })
}

/// Adjusts the values for an expression with a default. Kyverno also uses the default for an empty text, and
/// CEL does not. Therefore an empty text must not be selected; `None` if the values select the empty text.
fn with_default(expression: &str, is_wanted: bool, mut values: Vec<Value>) -> Option<Vec<Value>> {
    let empty = Value::from("");
    let default = expression.split_once("||").map(|(_, default)| default.trim());
    if default.is_none_or(|default| ["''", "`\"\"`", "`false`"].contains(&default)) {
        return Some(values);
    }
    match (is_wanted, values.contains(&empty)) {
        (true, true) => return None,
        (false, false) => values.push(empty),
        _ => {}
    }
    Some(values)
}

/// Whether a text can only equal another text, not a number or a boolean.
fn is_word(text: &str) -> bool {
    text.is_empty()
        || text.starts_with(|one: char| one.is_ascii_alphabetic()) && !["true", "false"].contains(&text)
}
