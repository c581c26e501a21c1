//! Rules that copy the sources of a Kyverno rule's `clone` and `cloneList`.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use serde_json::Value;

use super::{
    read::GenerateRule,
    trigger::{Choice, Trigger},
};
use crate::{
    api::MetaShape,
    assemble::DraftRule,
    finding::{Finding, none},
    names::Kind,
};

/// Returns the rules that copy the cloned objects: one for each kind of a list.
pub(super) fn cloned(
    rule: &GenerateRule,
    trigger: &Trigger,
    choice: &Choice,
    findings: &mut Vec<Finding>,
) -> Vec<DraftRule> {
    if rule.namespace.is_some() {
        let told = "clones within the Policy's own namespace, and a copy is never made in the namespace of its source: keep this rule with \
            Kyverno";
        findings.push(none("generate.clone", told));
        return Vec::new();
    }
    if let Trigger::Objects(kind) = trigger {
        let told = format!(
            "clones an object for {}, but a CopyratorRule selects target namespaces only by name and label, so import skips this rule: \
             label the namespaces with objects of kind {}, and write a CopyratorRule with a namespaceSelector in the source's namespace",
            trigger.several(),
            kind.kind
        );
        findings.push(none("generate.clone", told));
        return Vec::new();
    }
    if !choice.conditions.is_empty() {
        let told = "a CopyratorRule selects namespaces only by name and label: label the namespaces, and select them by the label";
        findings.push(none("match", told));
        return Vec::new();
    }
    let generate = &rule.body["generate"];
    let (clone, list) = (&generate["clone"], &generate["cloneList"]);
    let from = if list.is_object() { list } else { clone };
    let literal =
        |text: Option<&str>| text.filter(|text| !text.contains("{{") && !text.is_empty()).map(str::to_owned);
    let Some(home) = literal(from["namespace"].as_str()) else {
        findings.push(none(
            "generate.clone.namespace",
            "is not the name of one namespace; a CopyratorRule must be in the namespace of its source",
        ));
        return Vec::new();
    };
    let kinds: Vec<&str> = match list["kinds"].as_array() {
        Some(kinds) => kinds.iter().filter_map(Value::as_str).collect(),
        None => generate["kind"].as_str().into_iter().collect(),
    };
    let mut rules = Vec::new();
    for written in kinds {
        let word = written.rsplit('/').next().unwrap_or_default();
        let Some(kind) = Kind::named(word).filter(|kind| kind.is_copied()) else {
            let told = format!(
                "a CopyratorRule does not copy {written}: declare the object in a CopyratorTemplate, or keep this rule with Kyverno"
            );
            findings.push(none("generate.kind", told));
            continue;
        };
        let mut copy = DraftRule::of(kind, &home, "", choice.terms.clone());
        copy.name = Some(format!("kyverno-{}", rule.stem()));
        if list.is_object() {
            copy.name = copy.name.map(|name| format!("{name}-{}", word.to_ascii_lowercase()));
            copy.spec.source.names = None;
            copy.spec.source.object_selector = match serde_json::from_value(list["selector"].clone()) {
                Ok(selector) => Some(selector),
                Err(_) if list["selector"].is_null() => Some(LabelSelector::default()),
                Err(_) => {
                    findings.push(none(
                        "generate.cloneList.selector",
                        "is not a label selector, so import makes no rule",
                    ));
                    return Vec::new();
                }
            };
        } else {
            let (source, name) = (literal(clone["name"].as_str()), literal(generate["name"].as_str()));
            let (Some(source), Some(name)) = (source, name) else {
                findings.push(none(
                    "generate.clone.name",
                    "must name one source object; clone.name and generate.name must not contain expressions",
                ));
                return Vec::new();
            };
            copy.spec.source.names = Some(vec![source]);
            copy.copied_as(&name);
        }
        copy.spec.exclude_targets = choice.exclude.clone();
        copy.spec.deletion_policy = rule.kept(false);
        copy.shape().labels = Some(MetaShape { keep: vec!["*".into()], ..MetaShape::default() });
        rules.push(copy);
    }
    rules
}
