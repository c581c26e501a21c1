//! Import of Kyverno's generate rules. `data` becomes a template for each Namespace, or for each object of a
//! kind; `clone` and `cloneList` become rules that copy.

mod behaviour;
mod blocks;
mod choice;
mod cloned;
mod condition;
mod exclude;
mod preconditions;
mod read;
mod trigger;

use serde_json::{Value, json};

pub use self::read::{GenerateRule, PolicyException};
use self::{
    behaviour::behaviour,
    choice::choice,
    cloned::cloned,
    trigger::{Choice, Owner, Trigger, triggers},
};
use super::{
    assemble::Draft,
    expressions::Expressions,
    finding::{Finding, Origin, Tool, differs, none},
    kinds::known,
    namespace_config::SECRET,
    options::Options,
    templates::{DraftObject, DraftTemplate, TemplateDraft, lacks},
};
use crate::{
    api::{DeletionPolicy, InstanceSpec, TargetTerm},
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
/// Other syntax that Kyverno interprets in a text, besides `{{…}}`: a reference, and an escaped expression.
const OTHERS: [&str; 2] = ["$(", "\\{{"];

/// Converts a rule to drafts, for each kind that triggers it.
pub(super) fn draft(
    rule: &GenerateRule,
    exceptions: &[PolicyException],
    options: &Options,
    drafts: &mut Vec<Draft>,
    templates: &mut Vec<TemplateDraft>,
) {
    let generate = &rule.body["generate"];
    let mut origin = Origin::new(Tool::Kyverno, rule.policy_kind(), rule.home(), &rule.policy);
    origin.rule = Some(rule.name.clone());
    let mut of_rule = rule.lost.clone();
    of_rule.extend(exceptions.iter().filter_map(|exception| exception.lost(rule)));
    for field in generate.as_object().into_iter().flat_map(|fields| fields.keys()) {
        if field == "foreach" {
            let told = "makes an object for each entry of a list, but a template has a fixed number of objects, so import skips this \
             rule: write one object for each entry by hand, with includeWhen";
            of_rule.push(none("generate.foreach", told));
        } else if !KNOWN.contains(&field.as_str()) {
            of_rule.push(none(
                &format!("generate.{field}"),
                "is a field that import does not know, so import skips this rule",
            ));
        }
    }
    let owner = Owner::of(&generate["data"]["metadata"]);
    let (all, unsaid) = triggers(&rule.body["match"], owner.as_ref());
    if !unsaid.is_empty() {
        let findings = of_rule.iter().filter(|_| all.is_empty()).cloned().chain(unsaid).collect();
        templates.push(TemplateDraft { origin: origin.clone(), findings, template: None });
    }
    let is_clone = generate["clone"].is_object() || generate["cloneList"].is_object();
    for trigger in &all {
        let mut findings = of_rule.clone();
        let choice = choice(&rule.body, trigger, rule.namespace.as_deref(), &mut findings);
        into_matched(rule, trigger, choice.as_ref(), &mut findings);
        let choice = choice.filter(|_| !lacks(&findings));
        if is_clone {
            let copies =
                choice.map(|choice| cloned(rule, trigger, &choice, &mut findings)).unwrap_or_default();
            if !lacks(&findings) {
                findings.extend(behaviour(rule, trigger, true, false));
            }
            if copies.is_empty() || lacks(&findings) {
                drafts.push(Draft { origin: origin.clone(), findings, rule: None });
                continue;
            }
            drafts.extend(copies.into_iter().map(|copy| Draft {
                origin: origin.clone(),
                findings: findings.clone(),
                rule: Some(copy),
            }));
            continue;
        }
        let owner = owner.as_ref().filter(|owner| owner.is_of(trigger));
        let declared = choice.and_then(|choice| declared(rule, trigger, choice, owner, &mut findings));
        let template = declared.map(|mut template| {
            template.deletion = rule.kept(owner.is_some());
            template.home = rule.namespace.clone().or(options.home.clone());
            if all.len() > 1 {
                template.stem = format!("{}-{}", template.stem, trigger.kind().to_ascii_lowercase());
            }
            findings.extend(behaviour(rule, trigger, false, owner.is_some()));
            template
        });
        templates.push(TemplateDraft { origin: origin.clone(), findings, template });
    }
}

/// Checks that the generated object is in the matched Namespace, or in the namespace of the matched object.
fn into_matched(
    rule: &GenerateRule,
    trigger: &Trigger,
    choice: Option<&Choice>,
    findings: &mut Vec<Finding>,
) {
    if rule.body["generate"].get("foreach").is_some()
        || rule.namespace.is_some() && *trigger == Trigger::Namespace
    {
        // Another finding already reports that the rule makes no object.
        return;
    }
    let about = "generate.namespace";
    let Some(text) = rule.body["generate"]["namespace"].as_str() else {
        return findings.push(none(
            about,
            "is missing, so the rule makes cluster-scoped objects; Copyrator makes only namespaced objects",
        ));
    };
    let inner = text.trim().strip_prefix("{{").and_then(|text| text.strip_suffix("}}")).map(str::trim);
    let is_only = |choice: &Choice| {
        let names = |term: &TargetTerm| {
            term.names.as_ref().is_some_and(|names| names.iter().all(|name| name == text))
        };
        !choice.terms.is_empty() && choice.terms.iter().all(names)
    };
    let (of_matched, told): (&[&str], String) = match trigger {
        Trigger::Namespace => (
            &["request.object.metadata.name", "request.namespace", "request.name"],
            "the namespace that the rule matches; Copyrator makes objects only in that namespace".into(),
        ),
        Trigger::Objects(kind) => (
            &["request.object.metadata.namespace", "request.namespace"],
            format!(
                "the namespace of the {} that the rule matches; a template with forEach.objects makes objects only in that namespace: \
                 keep this rule with Kyverno, or write a CopyratorRule or a CopyratorTemplate with forEach.namespaces for the other \
                 namespace",
                kind.kind
            ),
        ),
    };
    let is_literal = *trigger != Trigger::Namespace
        && (rule.namespace.as_deref() == Some(text) || choice.is_some_and(is_only));
    if !is_literal && !inner.is_some_and(|inner| of_matched.contains(&inner)) {
        findings.push(none(about, format!("{text:?} is not {told}")));
    }
}

/// Returns the template of a rule with `data`.
fn declared(
    rule: &GenerateRule,
    trigger: &Trigger,
    choice: Choice,
    owner: Option<&Owner>,
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
        findings.push(none("generate", "has no data, clone or cloneList, so import skips this rule"));
        return None;
    }
    let of_kubernetes = || {
        let named = Kind::named(kind).map(|known| known.resource().api_version);
        named.or(known(kind).map(|known| known.api_version))
    };
    let Some(api_version) = text("apiVersion").or_else(of_kubernetes) else {
        let told = format!(
            "is missing, and import does not know the apiVersion of {kind:?}: add the apiVersion, and import again"
        );
        findings.push(none("generate.apiVersion", told));
        return None;
    };
    let mut data = generate["data"].clone();
    if let (Some(_), Some(metadata)) = (owner, data["metadata"].as_object_mut()) {
        metadata.remove("ownerReferences");
        let told = match rule.kept(true) {
            DeletionPolicy::Delete => "Copyrator itself sets the trigger as owner (deletionPolicy: Delete)",
            DeletionPolicy::Retain => "with deletionPolicy: Retain, Copyrator sets no owner",
        };
        findings.push(differs(
            "generate.data.metadata.ownerReferences",
            format!("import leaves out the {} as owner: {told}", trigger.one()),
        ));
    }
    let mut expressions = Expressions::new(trigger.cel(), &OTHERS);
    let mut body = expressions.value(&data);
    let name = expressions.value(&generate["name"]);
    if !expressions.lost.is_empty() {
        let lost = expressions.lost.join(", ");
        let seen = match trigger {
            Trigger::Namespace => "the Namespace's name, labels and annotations".into(),
            Trigger::Objects(kind) => format!(
                "the fields of the {0}; of its metadata only name, namespace, uid, labels and annotations",
                kind.kind
            ),
        };
        let told = format!(
            "import skips this rule, because it cannot translate these expressions with certainty: {lost}. Expressions of a template can \
             read {seen}: write the template by hand, with CEL in ${{…}}"
        );
        findings.push(none("generate", told));
        return None;
    }
    body["apiVersion"] = json!(api_version);
    body["kind"] = json!(kind);
    let mut draft = DraftTemplate::of(rule.stem());
    if let Trigger::Objects(kind) = trigger {
        draft.instances = Some(InstanceSpec {
            api_version: kind.api_version.to_string(),
            kind: kind.kind.to_string(),
            namespaces: Vec::new(),
            names: choice.objects.names.clone(),
            object_selector: choice.objects.namespace_selector.clone(),
        });
        draft.conditions = whole_maps(&body, findings);
        let named = name.as_str().unwrap_or_default();
        if !["name", "uid"].iter().any(|field| named.contains(&format!("object.metadata.{field}"))) {
            let told = format!(
                "several {} in one namespace may produce the same name: Copyrator makes the object for the first one and reports \
                 DuplicateName for the others; Kyverno writes the object for each",
                trigger.several()
            );
            findings.push(differs("generate.name", told));
        }
    }
    (draft.terms, draft.exclude) = (choice.terms, choice.exclude);
    draft.conditions.extend(choice.conditions);
    draft.objects = vec![DraftObject::of("generate.data", &body, name)];
    Some(draft)
}

/// Returns conditions for labels and annotations that expressions read as a whole. For an object without
/// labels or annotations, Kyverno's rule fails; Copyrator's expression would give an empty map, and an empty
/// selector selects everything.
fn whole_maps(body: &Value, findings: &mut Vec<Finding>) -> Vec<String> {
    let text = body.to_string();
    let read: Vec<&str> = ["labels", "annotations"]
        .into_iter()
        .filter(|map| text.contains(&format!("{{object.metadata.{map}}}")))
        .collect();
    if !read.is_empty() {
        let told = format!(
            "the template makes nothing for an object without {}, and Copyrator deletes what the template made for that object before; \
             Kyverno's rule fails and keeps its objects",
            read.join(" or ")
        );
        findings.push(differs("includeWhen", told));
    }
    read.into_iter().map(|map| format!("size(object.metadata.{map}) > 0")).collect()
}
