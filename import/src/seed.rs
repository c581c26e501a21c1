//! Import of the first Copyrator's `CopyratorRule`, which has `ruleType`, `selector` and `namespace` at the
//! top level.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

use super::{
    assemble::{Draft, DraftRule},
    finding::{Origin, Tool, differs, none},
    read::SeedRule,
    targets::everywhere,
};
use crate::{
    api::{DeletionPolicy, MetaShape},
    names::Kind,
};

/// Converts a rule of the first Copyrator to a draft.
pub(super) fn draft(rule: &SeedRule) -> Draft {
    let origin = Origin::new(Tool::Seed, "CopyratorRule", &rule.namespace, &rule.name);
    let kind = rule.rule_type.as_deref().and_then(Kind::named).filter(|kind| kind.data().is_some());
    let mut findings = Vec::new();
    if kind.is_none() {
        findings.push(none("ruleType", "is neither configmap nor secret: write spec.source.kind by hand"));
    }
    if rule.selector.is_none() {
        findings.push(none(
            "selector",
            "is not a map of labels, which the first Copyrator needs: write \
            spec.source.objectSelector by hand",
        ));
    }
    if rule.sources.is_empty() {
        findings.push(none(
            "namespace",
            "does not say where the sources are: write spec.source.namespaces by hand",
        ));
    }
    let (Some(kind), Some(selector), Some(first)) = (kind, &rule.selector, rule.sources.first()) else {
        return Draft { origin, findings, rule: None };
    };
    let home = if rule.namespace.is_empty() { first } else { &rule.namespace };
    let mut made = DraftRule::of(kind, home, "", vec![everywhere()]);
    made.name = Some(rule.name.clone());
    made.spec.source.names = None;
    let match_labels = (!selector.is_empty()).then(|| selector.clone());
    made.spec.source.object_selector = Some(LabelSelector { match_labels, match_expressions: None });
    if rule.sources.iter().any(|one| one != home) {
        made.spec.source.namespaces = rule.sources.clone();
    }
    made.spec.deletion_policy = DeletionPolicy::Retain;
    made.shape().labels = Some(MetaShape { keep: vec!["*".into()], ..MetaShape::default() });
    if rule.sources.len() > 1 {
        findings.push(differs(
            "namespace",
            "two sources of one name are not copied over each other: the one that is copied first counts, the other is \
            reported",
        ));
    }
    findings.extend([
        differs(
            "update",
            "a change of a source reaches its copies; the first Copyrator only ever created them, so that copies older than its last change are reported as conflicts: there conflictPolicy: Overwrite is right",
        ),
        differs(
            "copy.labels",
            "labels are carried over as before, but for the tracking marks of other tools (Argo CD, Flux, \
            Helm, …)",
        ),
        differs(
            "deletionPolicy",
            "copies are kept when their source goes, as before; say Delete to have them removed",
        ),
        differs(
            "authority",
            "the user who applies the rule must be allowed to read the sources and to write in the targets; the \
            first Copyrator asked nobody",
        ),
    ]);
    Draft { origin, findings, rule: Some(made) }
}
