//! Translation of a block of `match` or `exclude` to one CEL condition.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelectorRequirement;
use serde_json::{Map, Value};

use super::{
    blocks::{by_user, is_wild, names_users, selector, texts},
    trigger::Trigger,
};
use crate::{
    expressions::{NAME, NAMESPACE, all_of, one_of, required},
    finding::{Finding, none},
    targets::requirements,
};

/// Returns the fields of a block except its kinds.
pub(super) fn fields(block: &Value) -> Map<String, Value> {
    let mut fields = block["resources"].as_object().cloned().unwrap_or_default();
    fields.remove("kinds");
    fields
}

/// Returns the CEL condition that is true if a block of `of` matches; `None`, with a finding, if the block
/// has no equivalent.
pub(super) fn holds(of: &str, block: &Value, trigger: &Trigger, lost: &mut Vec<Finding>) -> Option<String> {
    if names_users(block) {
        lost.push(none(of, by_user(&trigger.several())));
        return None;
    }
    let resources = &block["resources"];
    let variable = trigger.variable();
    let name = format!("{variable}.metadata.name");
    let is_of_namespaces = *trigger == Trigger::Namespace;
    let mut all = Vec::new();
    for (field, value) in fields(block) {
        let about = format!("{of}.resources.{field}");
        let of_labels = |of: &str, lost: &mut Vec<Finding>| -> Vec<String> {
            let selector = selector(&value, &about, lost);
            selector.iter().flat_map(requirements).map(|one| required(of, "labels", &one)).collect()
        };
        match field.as_str() {
            // `choice::matched` reports `operations`.
            "operations" if of == "match" => {}
            "name" | "names" | "namespaces" => {
                let names = texts(resources, &field, lost);
                let is_of_trigger = field != "namespaces" || is_of_namespaces;
                all.push(one_of(if is_of_trigger { &name } else { NAME }, &names));
            }
            "selector" => all.extend(of_labels(variable, lost)),
            "namespaceSelector" if !is_of_namespaces => all.extend(of_labels(NAMESPACE, lost)),
            "annotations" if !is_wild(&value) => {
                for (key, value) in value.as_object().into_iter().flatten() {
                    let one = LabelSelectorRequirement {
                        key: key.clone(),
                        operator: "In".into(),
                        values: Some(vec![value.as_str().unwrap_or_default().to_owned()]),
                    };
                    all.push(required(variable, "annotations", &one));
                }
            }
            _ => lost.push(none(
                &about,
                "selects by something other than names, labels and annotations, so import skips this rule",
            )),
        }
    }
    if all.is_empty() || all.iter().any(String::is_empty) {
        lost.push(none(
            &format!("{of}.resources"),
            "has an empty list, or only kinds, so import skips this rule",
        ));
        return None;
    }
    all_of(&all)
}
