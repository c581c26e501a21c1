//! Import from kubernetes-replicator: annotations of a source (`replicate-to`, `replicate-to-matching`) and
//! of a target (`replicate-from`, with the source's consent). According to replicator's v2 source code,
//! replicator adds `^` before and `$` after a pattern that lacks them, so `a|b` means `^a|b$`; an object with
//! `replicate-from` is never a source.

use super::{
    assemble::{Draft, DraftRule},
    finding::{Finding, Origin, Tool, differs, none},
    read::{AnnotatedObject, ImportInput},
    targets::{labelled, matches, named, patterns},
};
use crate::{
    api::{DeletionPolicy, MetaShape},
    names::{Kind, NamespacedName},
    validate::Anchoring,
};

const TO: &str = "replicator.v1.mittwald.de/replicate-to";
const TO_MATCHING: &str = "replicator.v1.mittwald.de/replicate-to-matching";
const FROM: &str = "replicator.v1.mittwald.de/replicate-from";
const ALLOWED: &str = "replicator.v1.mittwald.de/replication-allowed";
const ALLOWED_NAMES: &str = "replicator.v1.mittwald.de/replication-allowed-namespaces";
const STRIP_LABELS: &str = "replicator.v1.mittwald.de/strip-labels";
const KEEP_OWNERS: &str = "replicator.v1.mittwald.de/keep-owner-references";

/// Converts an object with annotations of replicator to a draft.
pub(super) fn draft(found: &ImportInput, object: &AnnotatedObject) -> Option<Draft> {
    let origin = Origin::object(Tool::Replicator, object.kind, &object.namespace, &object.name);
    if let Some(source) = object.annotation(FROM) {
        return Some(target(found, object, source, origin));
    }
    let (names, labels) = (object.annotation(TO), object.annotation(TO_MATCHING));
    if names.is_none() && labels.is_none() {
        let consent = object.annotation(ALLOWED)?;
        let told = format!(
            "{consent:?} only allows others to copy the object: with Copyrator, the user who applies a rule must be allowed to read it"
        );
        return Some(Draft { origin, findings: vec![differs(ALLOWED, told)], rule: None });
    }
    let mut findings = Vec::new();
    let list = strict(TO, names.unwrap_or_default(), &mut findings);
    let mut targets: Vec<_> = named(list).into_iter().collect();
    match labels.map(labelled) {
        Some(Ok(term)) => targets.push(term),
        Some(Err(wrong)) => findings.push(none(TO_MATCHING, wrong)),
        None => {}
    }
    let mut rule = DraftRule::of(object.kind, &object.namespace, &object.name, targets);
    match object.annotation(STRIP_LABELS) {
        None => {
            rule.shape().labels = Some(MetaShape { keep: vec!["*".into()], ..MetaShape::default() });
            findings.push(differs(
                "copy.labels",
                "like replicator, Copyrator copies all labels, but not the tracking labels of other tools (Argo CD, Flux, Helm, …)",
            ));
        }
        Some("true") => {}
        Some(text) => findings.push(differs(
            STRIP_LABELS,
            format!(
                "is {text:?}; replicator removes labels for any value of the annotation, and this rule does, too"
            ),
        )),
    }
    if object.annotation(KEEP_OWNERS) == Some("true") {
        findings.push(none(
            KEEP_OWNERS,
            "Copyrator never copies ownerReferences: an owner must be in the same namespace, and the garbage collector deletes an object \
             whose owner does not exist",
        ));
    }
    findings.push(differs(
        "deletionGrace",
        "Copyrator deletes an orphaned copy after 5 minutes instead of at once (deletionGrace: 0s)",
    ));
    findings.extend(behaviour(object.kind));
    Some(Draft { origin, findings, rule: Some(rule) })
}

/// Returns the names and globs of a comma-separated list.
fn strict(about: &str, list: &str, findings: &mut Vec<Finding>) -> Vec<String> {
    let wrapped = list.split(',').map(str::trim).filter(|one| !one.is_empty()).map(|one| {
        let front = if one.starts_with('^') { "" } else { "^" };
        let back = if one.ends_with('$') { "" } else { "$" };
        format!("{front}{one}{back}")
    });
    let wrapped: Vec<String> = wrapped.collect();
    patterns(about, wrapped.iter().map(String::as_str), Anchoring::Nowhere, findings)
}

/// Converts an object that a user created for replicator to fill.
fn target(found: &ImportInput, object: &AnnotatedObject, source: &str, origin: Origin) -> Draft {
    let without = |finding| Draft { origin: origin.clone(), findings: vec![finding], rule: None };
    let Some(from) = NamespacedName::parse(source) else {
        return without(none(FROM, format!("{source:?} is not a namespace/name")));
    };
    let known = found
        .objects
        .iter()
        .find(|one| one.kind == object.kind && *one.namespace == *from.namespace && *one.name == *from.name);
    let Some(known) = known else {
        let told = format!(
            "source {from} not found, so import cannot check whether the source allows this copy: pass its manifest too, or read the \
             source from the cluster"
        );
        return without(none(FROM, told));
    };
    let consents = known
        .annotation(ALLOWED)
        .is_some_and(|text| matches!(text, "1" | "t" | "T" | "true" | "TRUE" | "True"));
    let mut unclear = Vec::new();
    let allowed = strict(ALLOWED_NAMES, known.annotation(ALLOWED_NAMES).unwrap_or_default(), &mut unclear);
    if !consents || !allowed.iter().any(|glob| matches(glob, &object.namespace)) {
        let told = match unclear.pop().filter(|_| consents) {
            Some(why) => none(
                FROM,
                format!("import cannot check whether source {from} allows this copy: {}", why.message),
            ),
            None => differs(
                FROM,
                format!(
                    "source {from} does not allow this copy, so replicator copies it only with --allow-all"
                ),
            ),
        };
        return without(told);
    }
    let mut rule = DraftRule::of(
        object.kind,
        &from.namespace,
        &from.name,
        named(vec![object.namespace.clone()]).into_iter().collect(),
    );
    rule.copied_as(&object.name);
    rule.pull = true;
    rule.spec.deletion_policy = DeletionPolicy::Retain;
    let mut findings = vec![
        differs(
            FROM,
            "the target becomes a copy: first remove the object from whatever writes it today (a manifest in Git, a chart), or both will \
             overwrite each other",
        ),
        differs(
            "deletionPolicy",
            "when the source is deleted, the copy keeps its content; replicator would empty the copy",
        ),
    ];
    findings.extend(behaviour(object.kind));
    Draft { origin, findings, rule: Some(rule) }
}

/// Returns the differences that apply to every object.
fn behaviour(kind: Kind) -> Vec<Finding> {
    let mut all = vec![
        differs(
            "conflictPolicy",
            "replicator writes its keys into every object of the name; this rule takes over objects with the same content, and reports \
             the others as conflicts",
        ),
        differs(
            "data",
            "a copy has exactly its source's keys; replicator adds them to the keys of an existing object, which Copyrator reports as a \
             conflict",
        ),
        differs(
            "authority",
            "the user who applies the rule must be allowed to read the source and to write in the target namespaces; replicator does not \
             check this",
        ),
    ];
    if kind == Kind::Secret {
        all.push(differs(
            "type",
            "a copy has its source's type; replicator keeps the type of an existing object, which Copyrator reports as a conflict",
        ));
    }
    all
}
