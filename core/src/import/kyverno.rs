//! Kyverno's generate rules on Namespaces: `data` is what a template declares, `clone` and `cloneList` what a rule copies.

mod choice;
mod read;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use serde_json::{Value, json};

use self::choice::{Choice, choice};
pub use self::read::{GenerateRule, PolicyException};
use super::{
    assemble::{Draft, DraftRule},
    expressions::Expressions,
    finding::{Finding, Origin, Tool, differs, none},
    jmespath::cel,
    namespace_config::SECRET,
    options::Options,
    templates::{DraftObject, DraftTemplate, TemplateDraft, lacks},
};
use crate::{
    api::{DeletionPolicy, MetaShape},
    names::Kind,
};

/// The fields of `generate` that are understood.
const KNOWN: [&str; 11] = [
    "apiVersion",
    "kind",
    "name",
    "namespace",
    "synchronize",
    "orphanDownstreamOnPolicyDelete",
    "generateExisting",
    "data",
    "clone",
    "cloneList",
    "uid",
];
/// What Kyverno would read in a text beside `{{…}}`: a reference, and an expression that is none.
const OTHERS: [&str; 2] = ["$(", "\\{{"];

/// What a rule asks for.
pub(super) fn draft(
    rule: &GenerateRule,
    exceptions: &[PolicyException],
    options: &Options,
    drafts: &mut Vec<Draft>,
    templates: &mut Vec<TemplateDraft>,
) {
    let generate = &rule.body["generate"];
    let mut origin = Origin::new(Tool::Kyverno, "ClusterPolicy", "", &rule.policy);
    origin.rule = Some(rule.name.clone());
    let mut findings = rule.lost.clone();
    findings.extend(exceptions.iter().filter_map(|exception| exception.lost(rule)));
    for field in generate.as_object().into_iter().flat_map(|fields| fields.keys()) {
        if !KNOWN.contains(&field.as_str()) {
            findings.push(none(&format!("generate.{field}"), "is not understood, so nothing is made"));
        }
    }
    let choice = choice(&rule.body, &mut findings);
    into_matched(generate, &mut findings);
    let is_clone = generate["clone"].is_object() || generate["cloneList"].is_object();
    let choice = choice.filter(|_| !lacks(&findings));
    if is_clone {
        let cloned = choice.map(|choice| cloned(rule, &choice, &mut findings)).unwrap_or_default();
        if !lacks(&findings) {
            findings.extend(behaviour(rule, true));
        }
        if cloned.is_empty() || lacks(&findings) {
            return drafts.push(Draft { origin, findings, rule: None });
        }
        let copies = cloned.into_iter();
        return drafts.extend(copies.map(|copy| Draft {
            origin: origin.clone(),
            findings: findings.clone(),
            rule: Some(copy),
        }));
    }
    let template = choice.and_then(|choice| declared(rule, choice, options, &mut findings));
    if template.is_some() {
        findings.extend(behaviour(rule, false));
    }
    templates.push(TemplateDraft { origin, findings, template });
}

/// Checks that the object goes into the Namespace that the rule matched.
fn into_matched(generate: &Value, findings: &mut Vec<Finding>) {
    let inner = |text: &str| Some(text.trim().strip_prefix("{{")?.strip_suffix("}}")?.trim().to_owned());
    let is_matched =
        |of: &str| ["request.object.metadata.name", "request.namespace", "request.name"].contains(&of);
    match generate["namespace"].as_str() {
        Some(text) if inner(text).is_some_and(|of| is_matched(&of)) => {}
        Some(text) => findings.push(none(
            "generate.namespace",
            format!("{text:?} is not the namespace that the rule matches, and an object is made or copied there and nowhere else"),
        )),
        None => findings.push(none("generate.namespace", "is not said, as for objects that are in no namespace: these are not made")),
    }
}

/// The template of a rule with `data`.
fn declared(
    rule: &GenerateRule,
    choice: Choice,
    options: &Options,
    findings: &mut Vec<Finding>,
) -> Option<DraftTemplate> {
    let generate = &rule.body["generate"];
    let text = |field: &str| generate[field].as_str().or_else(|| generate["data"][field].as_str());
    let kind = text("kind").unwrap_or_default();
    if kind == "Secret" {
        findings.push(none("generate.data", SECRET));
        return None;
    }
    if !generate["data"].is_object() {
        findings.push(none("generate", "has neither data nor clone nor cloneList, so nothing is made"));
        return None;
    }
    let known = || Kind::named(kind).map(|known| known.resource().api_version);
    let Some(api_version) = text("apiVersion").or_else(known) else {
        let told = format!("is not said, and that of {kind:?} is not known here: write it, and import again");
        findings.push(none("generate.apiVersion", told));
        return None;
    };
    let mut expressions = Expressions::new(cel, &OTHERS);
    let mut body = expressions.value(&generate["data"]);
    let name = expressions.value(&generate["name"]);
    if !expressions.lost.is_empty() {
        let lost = expressions.lost.join(", ");
        let told = format!(
            "nothing is made, since these have no equivalent that is certain: {lost}. Expressions see the Namespace's name, labels and \
             annotations; write the template by hand, with CEL in ${{…}}"
        );
        findings.push(none("generate", told));
        return None;
    }
    body["apiVersion"] = json!(api_version);
    body["kind"] = json!(kind);
    let mut draft = DraftTemplate::of(stem(rule), options);
    let Choice { terms, exclude, conditions } = choice;
    (draft.terms, draft.exclude, draft.conditions) = (terms, exclude, conditions);
    draft.objects = vec![DraftObject::of("generate.data", &body, name)];
    draft.deletion = kept(generate);
    Some(draft)
}

/// What a policy and its rule are called in the name of what they become.
fn stem(rule: &GenerateRule) -> String {
    let letter = |one: char| if one.is_ascii_alphanumeric() { one.to_ascii_lowercase() } else { '-' };
    let name = rule.name.chars().map(letter).collect::<String>();
    format!("{}-{}", rule.policy, name).trim_matches('-').to_owned()
}

/// The rules that copy what is cloned: one for each kind of a list.
fn cloned(rule: &GenerateRule, choice: &Choice, findings: &mut Vec<Finding>) -> Vec<DraftRule> {
    if !choice.conditions.is_empty() {
        let told = "a rule that copies chooses namespaces by name and label: give the namespaces a label, and select that";
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
            "is not one namespace by name, and a rule that copies lives in that of its source",
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
                "{written} is not copied: declare it by a CopyratorTemplate, or keep this rule with Kyverno"
            );
            findings.push(none("generate.kind", told));
            continue;
        };
        let mut copy = DraftRule::of(kind, &home, "", choice.terms.clone());
        copy.name = Some(format!("kyverno-{}", stem(rule)));
        if list.is_object() {
            copy.name = copy.name.map(|name| format!("{name}-{}", word.to_ascii_lowercase()));
            copy.spec.source.names = None;
            copy.spec.source.object_selector = match serde_json::from_value(list["selector"].clone()) {
                Ok(selector) => Some(selector),
                Err(_) if list["selector"].is_null() => Some(LabelSelector::default()),
                Err(_) => {
                    findings
                        .push(none("generate.cloneList.selector", "is not a selector, so no rule is made"));
                    return Vec::new();
                }
            };
        } else {
            let (source, name) = (literal(clone["name"].as_str()), literal(generate["name"].as_str()));
            let (Some(source), Some(name)) = (source, name) else {
                findings.push(none(
                    "generate.clone.name",
                    "is not one object by name, or its clone's name is an expression",
                ));
                return Vec::new();
            };
            copy.spec.source.names = Some(vec![source]);
            copy.copied_as(&name);
        }
        copy.spec.exclude_targets = choice.exclude.clone();
        copy.spec.deletion_policy = kept(generate);
        copy.shape().labels = Some(MetaShape { keep: vec!["*".into()], ..MetaShape::default() });
        rules.push(copy);
    }
    rules
}

/// What happens to an object that is no longer wanted.
fn kept(generate: &Value) -> DeletionPolicy {
    match generate["synchronize"] == true && generate["orphanDownstreamOnPolicyDelete"] != true {
        true => DeletionPolicy::Delete,
        false => DeletionPolicy::Retain,
    }
}

/// The differences of a rule that something is made of.
fn behaviour(rule: &GenerateRule, is_clone: bool) -> Vec<Finding> {
    let generate = &rule.body["generate"];
    let mut findings = vec![
        differs(
            "resourceFilters",
            "the namespace kyverno is left out, as by Kyverno's default; what else the resourceFilters and webhooks of Kyverno's ConfigMap \
             leave out is not read: exclude it here, too",
        ),
        differs(
            "PolicyException",
            "an exception that was not read with the policy does not count here: exclude what it means",
        ),
    ];
    if !rule.existing {
        findings.push(differs(
            "generateExisting",
            "namespaces that are there get it, too; Kyverno makes it where a namespace is created or changed after the policy. Look at \
             copyrator plan before you unsuspend: a default-deny NetworkPolicy, say, closes each of them",
        ));
    }
    let synchronized = generate["synchronize"] == true;
    findings.push(match (synchronized, is_clone) {
        (false, _) => differs(
            "synchronize",
            "Kyverno makes it once, and people own it afterwards; here it is kept: what is edited or deleted comes back, and a change of \
             the source or text arrives. What people have changed by now is reported, not written over. It stays when the namespace is no \
             longer chosen, as there (deletionPolicy: Retain)",
        ),
        (true, _) if generate["orphanDownstreamOnPolicyDelete"] == true => differs(
            "orphanDownstreamOnPolicyDelete",
            "deletionPolicy: Retain keeps it when the template goes, as there, and also when the namespace is no longer chosen, where \
             Kyverno deletes it",
        ),
        (true, false) => differs(
            "deletionGrace",
            "what a namespace is to have no longer, or no template declares, goes after 5 minutes, not at once (deletionGrace: 0s)",
        ),
        (true, true) => differs(
            "deletionPolicy",
            "a copy goes 5 minutes after its source, its namespace's label or the rule; Kyverno deletes it at once with the first two, and \
             keeps it when the policy goes (deletionPolicy: Retain keeps it always)",
        ),
    });
    if is_clone {
        findings.extend([
            differs("copy.labels", "labels are carried over, but for the tracking marks of other tools (Argo CD, Flux, Helm, …)"),
            differs("copy.annotations", "annotations are not carried over: name those that are needed in copy.annotations.keep"),
            differs(
                "conflictPolicy",
                "what has the same content is taken over, the rest is reported and stays; Kyverno writes over it",
            ),
            differs(
                "authority",
                "the user who applies the rule must be allowed to read the source and to write in the targets; Kyverno uses the rights of its \
                 own account",
            ),
        ]);
    }
    findings.push(differs(
        "uninstall",
        "set synchronize: false before the rule is taken out of its policy, so that Kyverno leaves what it has made; its labels stay and do \
         nothing. What goes with a policy differs between Kyverno's versions: try it on one namespace",
    ));
    findings
}
