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
        findings.push(none("selector", "is not a map of labels: write spec.source.objectSelector by hand"));
    }
    if rule.sources.is_empty() {
        findings.push(none(
            "namespace",
            "names no namespace of the sources: write spec.source.namespaces by hand",
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
            "if two sources have the same name, Copyrator copies the first one and reports the other",
        ));
    }
    findings.extend([
        differs(
            "update",
            "Copyrator updates the copies when a source changes; the first Copyrator only created them. Copyrator reports outdated copies \
             as conflicts: set conflictPolicy: Overwrite for them",
        ),
        differs(
            "copy.labels",
            "Copyrator copies all labels as before, but not the tracking labels of other tools (Argo CD, Flux, Helm, …)",
        ),
        differs(
            "deletionPolicy",
            "Copyrator keeps the copies when their source is deleted, as before; set deletionPolicy: Delete to delete them",
        ),
        differs(
            "authority",
            "the user who applies the rule must be allowed to read the sources and to write in the target namespaces; the first Copyrator \
             did not check this",
        ),
    ]);
    Draft { origin, findings, rule: Some(made) }
}
