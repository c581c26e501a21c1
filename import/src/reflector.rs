//! Import from kubernetes-reflector: annotations of a source (`reflection-…`) and of a mirror (`reflects`).
//! According to reflector's v10 source code, a list of patterns is split at commas, and the first match of
//! each pattern must be the whole name; names and labels are OR-ed; an absent list means every namespace;
//! copies need both the permission and `auto`.

use super::{
    assemble::{Draft, DraftRule},
    finding::{Finding, Origin, Tool, differs, none},
    read::{AnnotatedObject, ImportInput},
    targets::{both, labelled, matches, named, patterns},
};
use crate::{
    api::{DeletionPolicy, TargetTerm},
    names::NamespacedName,
    validate::{Anchoring, Selector},
};

const ALLOWED: &str = "reflector.v1.k8s.emberstack.com/reflection-allowed";
const ALLOWED_NAMES: &str = "reflector.v1.k8s.emberstack.com/reflection-allowed-namespaces";
const ALLOWED_LABELS: &str = "reflector.v1.k8s.emberstack.com/reflection-allowed-namespaces-selector";
const AUTO: &str = "reflector.v1.k8s.emberstack.com/reflection-auto-enabled";
const AUTO_NAMES: &str = "reflector.v1.k8s.emberstack.com/reflection-auto-namespaces";
const AUTO_LABELS: &str = "reflector.v1.k8s.emberstack.com/reflection-auto-namespaces-selector";
const REFLECTS: &str = "reflector.v1.k8s.emberstack.com/reflects";
const IS_AUTO: &str = "reflector.v1.k8s.emberstack.com/auto-reflects";

/// Converts an object that reflector uses as source or mirror to a draft.
pub(super) fn draft(found: &ImportInput, object: &AnnotatedObject) -> Option<Draft> {
    let says = |key| object.annotation(key).is_some_and(|text| text.trim().eq_ignore_ascii_case("true"));
    let origin = Origin::object(Tool::Reflector, object.kind, &object.namespace, &object.name);
    if let Some(source) = object.annotation(REFLECTS) {
        // A copy that reflector made; its source has the annotations to convert.
        return (!says(IS_AUTO)).then(|| mirror(found, object, source, origin));
    }
    let asks = [ALLOWED, AUTO].iter().any(|key| object.annotation(key).is_some());
    if !asks {
        return None;
    }
    let mut findings = Vec::new();
    if !says(ALLOWED) || !says(AUTO) {
        let told = match says(ALLOWED) {
            true => differs(
                ALLOWED,
                "allows mirrors but makes none; import makes a rule for each mirror that it finds. With Copyrator, the user who applies \
                 the rule must be allowed to read the source",
            ),
            false => {
                differs(ALLOWED, "is not \"true\", so reflector copies nothing and import makes no rule")
            }
        };
        return Some(Draft { origin, findings: vec![told], rule: None });
    }
    let allowed = chosen(object, ALLOWED_NAMES, ALLOWED_LABELS, &mut findings);
    let auto = chosen(object, AUTO_NAMES, AUTO_LABELS, &mut findings);
    let targets = both(allowed, auto, &mut findings);
    findings.extend(behaviour());
    findings.push(differs(
        "deletionGrace",
        "Copyrator deletes an orphaned copy after 5 minutes instead of at once (deletionGrace: 0s)",
    ));
    let rule = DraftRule::of(object.kind, &object.namespace, &object.name, targets);
    Some(Draft { origin, findings, rule: Some(rule) })
}

/// Returns the namespaces that a pair of annotations selects; `None`: all.
fn chosen(
    object: &AnnotatedObject,
    names: &str,
    labels: &str,
    findings: &mut Vec<Finding>,
) -> Option<Vec<TargetTerm>> {
    let said = |key| object.annotation(key).filter(|text| !text.is_empty());
    let (list, selector) = (said(names), said(labels));
    if list.is_none() && selector.is_none() {
        return None;
    }
    let list = list.unwrap_or_default().split(',').map(str::trim).filter(|one| !one.is_empty());
    let list = patterns(names, list, Anchoring::FirstMatchIsAll, findings);
    let mut terms: Vec<_> = named(list).into_iter().collect();
    match selector.map(term) {
        Some(Ok(term)) => terms.push(term),
        Some(Err(wrong)) => findings.push(none(labels, wrong)),
        None => {}
    }
    Some(terms)
}

/// Parses a selector. Refuses empty values in parentheses, which reflector, unlike Kubernetes, ignores.
fn term(text: &str) -> Result<TargetTerm, String> {
    let term = labelled(text)?;
    let selector =
        term.namespace_selector.iter().flat_map(|selector| selector.match_expressions.iter().flatten());
    let mut values = selector.flat_map(|one| one.values.iter().flatten());
    if text.contains('(') && values.any(String::is_empty) {
        return Err(format!(
            "{text:?} has an empty value in parentheses, which reflector ignores: remove the empty value"
        ));
    }
    Ok(term)
}

/// Converts an object that a user created for reflector to fill.
fn mirror(found: &ImportInput, object: &AnnotatedObject, source: &str, origin: Origin) -> Draft {
    let without = |finding| Draft { origin: origin.clone(), findings: vec![finding], rule: None };
    let Some(from) = NamespacedName::parse(source) else {
        return without(none(REFLECTS, format!("{source:?} is not a namespace/name")));
    };
    let known = found
        .objects
        .iter()
        .find(|one| one.kind == object.kind && *one.namespace == *from.namespace && *one.name == *from.name);
    let Some(known) = known else {
        return without(none(
            REFLECTS,
            format!(
                "source {from} not found, so import cannot check whether the source allows this copy: pass its manifest too, or read the \
                 source from the cluster"
            ),
        ));
    };
    let says = |key| known.annotation(key).is_some_and(|text| text.trim().eq_ignore_ascii_case("true"));
    if !says(ALLOWED) {
        return without(differs(
            REFLECTS,
            format!("source {from} does not allow this copy, so it is not copied today"),
        ));
    }
    let mut unclear = Vec::new();
    let allowed = chosen(known, ALLOWED_NAMES, ALLOWED_LABELS, &mut unclear);
    let labels = found.namespaces.get(&object.namespace);
    let mut admits = allowed.is_none();
    for term in allowed.iter().flatten() {
        match (&term.names, &term.namespace_selector, labels) {
            (Some(names), ..) => admits |= names.iter().any(|name| matches(name, &object.namespace)),
            (None, Some(selector), Some(labels)) => {
                let compiled = Selector::compile(ALLOWED_LABELS, selector, &mut Vec::new());
                admits |= compiled.matches(|key| labels.get(key).map(String::as_str));
            }
            (None, Some(selector), None) if selector.match_expressions.is_none() => admits = true,
            _ => unclear.push(none(ALLOWED_LABELS, "import does not know the namespace's labels")),
        }
    }
    if !admits {
        return without(match unclear.pop() {
            Some(why) => none(
                REFLECTS,
                format!("import cannot check whether source {from} allows this namespace: {}", why.message),
            ),
            None => differs(
                REFLECTS,
                format!("source {from} does not allow this namespace, so it is not copied today"),
            ),
        });
    }
    let target = named(vec![object.namespace.clone()]).into_iter().collect();
    let mut rule = DraftRule::of(object.kind, &from.namespace, &from.name, target);
    rule.copied_as(&object.name);
    rule.pull = true;
    rule.spec.deletion_policy = DeletionPolicy::Retain;
    let mut findings: Vec<_> = behaviour().into();
    findings.push(differs(
        REFLECTS,
        "the mirror becomes a copy: first remove the object from whatever writes it today (a manifest in Git, a chart), or both will \
         overwrite each other",
    ));
    Draft { origin, findings, rule: Some(rule) }
}

/// Returns the differences that apply to every object.
fn behaviour() -> [Finding; 3] {
    [
        differs(
            "conflictPolicy",
            "reflector may overwrite an object that it did not make; this rule takes over objects with the same content, and reports the \
             others as conflicts",
        ),
        differs(
            "repair",
            "Copyrator restores an edited or deleted copy at once; reflector waits for a change of the source, or for its hourly round",
        ),
        differs(
            "authority",
            "the user who applies the rule must be allowed to read the source and to write in the target namespaces; reflector does not \
             check this",
        ),
    ]
}
