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
            "{consent:?} only says whether others may copy it: the user who applies a rule must be allowed to \
            read it instead"
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
                "labels are carried over, as replicator does, but for the tracking marks \
                of other tools (Argo CD, Flux, Helm, …), of which Copyrator carries none",
            ));
        }
        Some("true") => {}
        Some(text) => findings.push(differs(
            STRIP_LABELS,
            format!(
                "is {text:?}, and replicator strips labels \
            whatever it says: so does this"
            ),
        )),
    }
    if object.annotation(KEEP_OWNERS) == Some("true") {
        findings.push(none(
            KEEP_OWNERS,
            "owner references are never carried over: they do not reach into another namespace, \
            and the garbage collector removes what has one that dangles",
        ));
    }
    findings.push(differs(
        "deletionGrace",
        "an orphaned copy is deleted after 5 minutes instead of at once \
        (deletionGrace: 0s)",
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
            "the source {from} was not found, so whether it allows this cannot be told: pass its manifest \
            too, or read it from the cluster"
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
            Some(why) => {
                none(FROM, format!("whether the source {from} allows it cannot be told: {}", why.message))
            }
            None => differs(
                FROM,
                format!(
                    "the source {from} does not allow it: nothing is copied today, unless replicator \
                runs with --allow-all"
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
            "the target becomes a copy: whatever writes it today (a manifest in Git, a chart) must let go of it \
            first, or the two write against each other",
        ),
        differs("deletionPolicy", "when the source goes, the copy stays as it is; replicator would empty it"),
    ];
    findings.extend(behaviour(object.kind));
    Draft { origin, findings, rule: Some(rule) }
}

/// Returns the differences that apply to every object.
fn behaviour(kind: Kind) -> Vec<Finding> {
    let mut all = vec![
        differs(
            "conflictPolicy",
            "replicator writes its keys into whatever has the name; this takes over what has the same \
            content, and reports the rest",
        ),
        differs(
            "data",
            "a copy has exactly its source's keys; replicator merges them with those that are there, and such \
            an object is reported as a conflict, not taken over",
        ),
        differs(
            "authority",
            "the user who applies the rule must be allowed to read the source and to write in the targets; \
            replicator asks nobody whether they may push",
        ),
    ];
    if kind == Kind::Secret {
        all.push(differs(
            "type",
            "a copy has its source's type; replicator keeps the type that is there, and such an object \
            is reported as a conflict, not taken over",
        ));
    }
    all
}
