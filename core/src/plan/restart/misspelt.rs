//! Problems to report to a workload's author: an annotation has no effect, or the model keeps only a part of
//! the pod template.

use super::reach::restart_word;
use crate::{
    api::DataKind,
    marks::RESTART,
    model::{Labels, MOST_REFERENCES, Remark, WorkloadFacts},
    names::{Kind, NameKind},
    validate::can_match,
};

/// The problem to report to a workload's author. The annotation is checked only if annotations are enabled
/// (`annotations`).
pub fn remark(facts: &WorkloadFacts, annotations: bool) -> Option<Remark> {
    let malformed = malformed(facts).filter(|_| annotations);
    let malformed = malformed.map(|text| Remark { reason: Remark::MALFORMED_ANNOTATION, text });
    let mut said = Vec::new();
    if facts.template_labels.are_cut() {
        said.push(format!(
            "pod template: {}: no podSelector selects the workload, and restarts ignore its pods; remove some labels",
            Labels::TOO_MANY
        ));
    }
    if facts.references.len() >= MOST_REFERENCES {
        said.push(format!(
            "the pod template uses {MOST_REFERENCES} or more ConfigMaps and Secrets: the workload restarts only for changes of the first \
             {MOST_REFERENCES} (ConfigMaps first, in alphabetical order); use fewer objects"
        ));
    }
    let partly_read =
        (!said.is_empty()).then(|| Remark { reason: Remark::PARTLY_READ, text: said.join("; ") });
    malformed.or(partly_read)
}

/// The errors in a workload's Copyrator annotations, and how to correct them; `None` without an error.
fn malformed(facts: &WorkloadFacts) -> Option<String> {
    let said: Vec<String> = misspelt(facts).into_iter().chain(facts.restarts.unknown.clone()).collect();
    (!said.is_empty()).then(|| said.join("; "))
}

/// The error in a workload's `copyrator.dev/restart`, and how to correct it; `None` if every word is valid.
pub fn misspelt(facts: &WorkloadFacts) -> Option<String> {
    let text = facts.restarts.restart.as_deref()?.trim();
    if ["true", "false", ""].contains(&text) {
        return None;
    }
    let wrong: Vec<&str> =
        text.split(',').map(str::trim).filter(|word| restart_word(word).is_none()).collect();
    let first = *wrong.first()?;
    let more = match wrong.len() - 1 {
        0 => String::new(),
        more => format!(" (and {more} more)"),
    };
    Some(format!("annotation {RESTART}: {first:?}{more} is not a valid value; write {}", meant(first)))
}

/// The correction to suggest for a word.
fn meant(word: &str) -> String {
    let (kind, name) = word.split_once('/').unwrap_or(("", word));
    let kind = match kind.to_ascii_lowercase().as_str() {
        "configmap" | "configmaps" | "cm" => Some(DataKind::ConfigMap),
        "secret" | "secrets" => Some(DataKind::Secret),
        _ => None,
    };
    let is_name = |name: &str| NameKind::Object.is_name(name);
    let said = |kind: DataKind| Kind::from(kind).resource().singular();
    match (kind, name.split_once('/')) {
        (Some(kind), Some((namespace, name))) if is_name(namespace) && is_name(name) => format!(
            "\"{}/{name}\": a workload can use only objects in its own namespace (a CopyratorRule can copy them from {namespace})",
            said(kind)
        ),
        (Some(kind), None) if !is_name(name) && can_match(name, NameKind::Object) => format!(
            "each name, or select them with a ConfigMonitor: spec.watch: [{{kind: {}, names: [{name:?}]}}]",
            Kind::from(kind)
        ),
        (Some(kind), _) => format!("\"{}/{}\"", said(kind), if is_name(name) { name } else { "NAME" }),
        _ if ["yes", "on", "1", "True", "TRUE"].contains(&word) => "\"true\"".into(),
        _ if name.is_empty() || !is_name(name) => "\"true\", \"configmap/NAME\" or \"secret/NAME\"".into(),
        _ => format!("\"true\", \"configmap/{name}\" or \"secret/{name}\""),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_word_and_the_fix_are_named() {
        for (text, expected) in [
            ("true", None),
            ("false", None),
            ("configmap/a, Secret/b", None),
            ("configmaps/a", Some("\"configmaps/a\" is not a valid value; write \"configmap/a\"")),
            ("secret/b,cm/a,x", Some("\"cm/a\" (and 1 more) is not a valid value; write \"configmap/a\"")),
            (
                "secret/*",
                Some(
                    "\"secret/*\" is not a valid value; write each name, or select them with a ConfigMonitor: \
                     spec.watch: [{kind: Secret, names: [\"*\"]}]",
                ),
            ),
            (
                "cm/platform/ca",
                Some(
                    "\"cm/platform/ca\" is not a valid value; write \"configmap/ca\": a workload can use only objects in its own \
                     namespace (a CopyratorRule can copy them from platform)",
                ),
            ),
            ("Secret/DB", Some("\"Secret/DB\" is not a valid value; write \"secret/NAME\"")),
            (
                "networkpolicy/a",
                Some(
                    "\"networkpolicy/a\" is not a valid value; write \"true\", \"configmap/a\" or \"secret/a\"",
                ),
            ),
            ("secret/", Some("\"secret/\" is not a valid value; write \"secret/NAME\"")),
            ("yes", Some("\"yes\" is not a valid value; write \"true\"")),
            (
                "app",
                Some("\"app\" is not a valid value; write \"true\", \"configmap/app\" or \"secret/app\""),
            ),
        ] {
            let mut facts = WorkloadFacts::plain();
            facts.restarts.restart = Some(text.into());
            let expected = expected.map(|rest| format!("annotation copyrator.dev/restart: {rest}"));
            assert_eq!(misspelt(&facts), expected, "{text}");
        }
    }

    #[test]
    fn an_unknown_annotation_is_told_of_beside_a_misspelt_word_where_annotations_count() {
        let mut facts = WorkloadFacts::plain();
        facts.restarts.unknown = Some("unknown annotation a".into());
        assert_eq!(remark(&facts, false), None);
        let said = |facts: &WorkloadFacts| remark(facts, true).map(|remark| remark.text);
        assert_eq!(said(&facts).as_deref(), Some("unknown annotation a"));
        facts.restarts.restart = Some("yes".into());
        let both = said(&facts).unwrap();
        assert!(both.ends_with("write \"true\"; unknown annotation a"), "{both}");
    }
}
