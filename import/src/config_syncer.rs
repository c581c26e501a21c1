//! Import from config-syncer, formerly kubed: the annotation `kubed.appscode.com/sync` is empty or `true` for
//! every namespace, or selects namespaces by labels; `sync-contexts` names other clusters.

use super::{
    assemble::{Draft, DraftRule},
    finding::{Origin, Tool, differs, none},
    read::AnnotatedObject,
    targets::labelled,
};
use crate::api::MetaShape;

const SYNC: &str = "kubed.appscode.com/sync";
const CONTEXTS: &str = "kubed.appscode.com/sync-contexts";
const ORIGIN: &str = "kubed.appscode.com/origin";

/// Converts an object with config-syncer's annotations to a draft; `None` for other objects and for copies.
pub(super) fn draft(object: &AnnotatedObject) -> Option<Draft> {
    let (sync, contexts) = (object.annotation(SYNC), object.annotation(CONTEXTS));
    // A copy that config-syncer made names its origin.
    if object.annotation(ORIGIN).is_some() || (sync.is_none() && contexts.is_none()) {
        return None;
    }
    let origin = Origin::object(Tool::ConfigSyncer, object.kind, &object.namespace, &object.name);
    let mut findings = Vec::new();
    if let Some(contexts) = contexts {
        findings.push(none(
            CONTEXTS,
            format!(
                "Copyrator does not copy into other clusters ({contexts:?}): deploy the object to each of those clusters, and install \
                 Copyrator there"
            ),
        ));
    }
    let Some(sync) = sync else { return Some(Draft { origin, findings, rule: None }) };
    let term = match sync {
        "true" => labelled(""),
        other => labelled(other),
    };
    let targets = match term {
        Ok(term) => vec![term],
        Err(wrong) => {
            findings.push(none(SYNC, wrong));
            Vec::new()
        }
    };
    let mut rule = DraftRule::of(object.kind, &object.namespace, &object.name, targets);
    rule.shape().labels = Some(MetaShape { keep: vec!["*".into()], ..MetaShape::default() });
    findings.extend([
        differs(
            "copy.labels",
            "like config-syncer, Copyrator copies all labels, but not the tracking labels of other tools (Argo CD, Flux, Helm, …); \
             config-syncer's origin labels stay on copies that Copyrator takes over",
        ),
        differs(
            "copy.annotations",
            "Copyrator copies no annotations; config-syncer copies all, even those of kubectl and Argo CD. List those that you need in \
             copy.annotations.keep",
        ),
        differs(
            "conflictPolicy",
            "config-syncer overwrites every object of the name; this rule takes over objects with the same content, and reports the \
             others as conflicts",
        ),
        differs(
            "deletionGrace",
            "Copyrator deletes an orphaned copy after 5 minutes instead of at once (deletionGrace: 0s), also when a namespace has lost \
             its label; config-syncer keeps that copy",
        ),
        differs(
            "authority",
            "the user who applies the rule must be allowed to read the source and to write in the target namespaces; config-syncer does \
             not check this. Import does not see its --config-source-namespace, with which it copies from one namespace only",
        ),
    ]);
    Some(Draft { origin, findings, rule: Some(rule) })
}
