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
                "copies into other clusters ({contexts:?}) are not made: have what deploys to \
            those clusters write the object, and install Copyrator in each"
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
            "labels are carried over, as config-syncer does, but for the tracking marks of other tools \
            (Argo CD, Flux, Helm, …); its own origin labels stay on copies that are taken over",
        ),
        differs(
            "copy.annotations",
            "annotations are not carried over; config-syncer copies all of them, also kubectl's and \
            Argo CD's. Name those that are needed in copy.annotations.keep",
        ),
        differs(
            "conflictPolicy",
            "config-syncer writes over whatever has the name; this takes over what has the same \
            content, and reports the rest",
        ),
        differs(
            "deletionGrace",
            "an orphaned copy is deleted after 5 minutes instead of at once \
            (deletionGrace: 0s), also where a namespace has lost its label, which config-syncer passes over",
        ),
        differs(
            "authority",
            "the user who applies the rule must be allowed to read the source and to write in the targets; \
            config-syncer asks nobody. Its --config-source-namespace is not seen here: it may copy less",
        ),
    ]);
    Some(Draft { origin, findings, rule: Some(rule) })
}
