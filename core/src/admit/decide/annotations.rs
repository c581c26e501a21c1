//! Decides writes of annotations that declare copies of their object, or restarts when the object changes.
//! `validate` reads the annotations. The annotations' author needs every right that the annotations use,
//! since Copyrator will act with the author's rights. Only the object's metadata is decoded.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::{DecideError, Decision, Parties, Verdict, foresight::Written, never_targets, own_kinds};
use crate::{
    admit::decode::{Operation, Review},
    api::DataKind,
    authority::{Subject, monitor_questions, rule_questions},
    marks::{ASKING, DECLARES, DECLARES_VALUE, declares},
    names::{Declarer, ObjectKey},
    validate::{CandidateError, annotated_monitor, annotated_rule, misspelt_annotations},
};

#[derive(Deserialize)]
struct Object {
    #[serde(default)]
    metadata: Metadata,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Metadata {
    annotations: Option<BTreeMap<String, Option<String>>>,
    labels: Option<BTreeMap<String, Option<String>>>,
}

/// The annotations of [`ASKING`] on one version of an object, and whether the object's label enables them.
#[derive(Default, PartialEq)]
struct Declarations {
    declared: bool,
    values: [Option<String>; ASKING.len()],
}

/// Returns the verdict, with a warning for each misspelt annotation of ours: without the warning, the
/// annotation would be ignored silently.
pub(super) fn decide(review: &Review<'_>, parties: &Parties) -> Result<Decision, DecideError> {
    let mut decision = judge(review, parties)?;
    let verdict = match &mut decision {
        Decision::Now(verdict) => verdict,
        Decision::Ask(inquiry) => &mut inquiry.allow,
    };
    if let Some(object) = review.object.filter(|_| verdict.is_allowed()) {
        let annotations = metadata(object, "object")?.annotations.unwrap_or_default();
        let written = annotations.iter().filter_map(|(key, value)| Some((key.as_str(), value.as_deref()?)));
        misspelt_annotations(written)
            .into_iter()
            .for_each(|wrong| verdict.warn(format!("copyrator: {wrong}")));
    }
    Ok(decision)
}

fn judge(review: &Review<'_>, parties: &Parties) -> Result<Decision, DecideError> {
    let kind = match (&*review.kind.group, &*review.kind.kind) {
        ("", "ConfigMap") => DataKind::ConfigMap,
        ("", "Secret") => DataKind::Secret,
        _ => return Ok(Decision::Now(Verdict::allow())),
    };
    let before = match review.operation {
        Operation::Create => Declarations::default(),
        Operation::Update => asked(review.old_object, "oldObject")?,
        _ => return Ok(Decision::Now(Verdict::allow())),
    };
    let asked = asked(review.object, "object")?;
    if asked == before || asked.values.iter().all(Option::is_none) {
        return Ok(Decision::Now(Verdict::allow()));
    }
    if !asked.declared {
        let mut verdict = Verdict::allow();
        verdict.warn(format!(
            "copyrator: the annotations have no effect without the label {DECLARES}={DECLARES_VALUE}"
        ));
        return Ok(Decision::Now(verdict));
    }
    let annotation = |key: &str| asked.value(key);
    // The API server has not generated the name yet. An author cannot hold a right to an unknown name, only a
    // right to all names.
    let name = if review.name.is_empty() { "*" } else { &review.name };
    let rule = annotated_rule(kind, name, annotation).transpose();
    let monitor = annotated_monitor(kind, name, annotation).transpose();
    let (rule, monitor) = match (rule, monitor) {
        (Ok(None), Ok(None)) => return Ok(Decision::Now(Verdict::allow())),
        (Ok(rule), Ok(monitor)) => (rule, monitor),
        (rule, monitor) => {
            let problems = [rule.err(), monitor.err()].into_iter().flatten().flatten().collect::<Vec<_>>();
            return Ok(own_kinds::invalid(review, &problems));
        }
    };
    let questions = |subject: &Subject| {
        let copies = rule
            .iter()
            .flat_map(|(spec, compiled)| rule_questions(&review.namespace, spec, compiled.kind, subject));
        let restarts =
            monitor.iter().flat_map(|(spec, _)| monitor_questions(&review.namespace, spec, subject));
        copies.chain(restarts).collect()
    };
    let mut decision = own_kinds::authorized(review, parties, false, None, questions);
    if let Some((_, compiled)) = &rule {
        never_targets::warn(&mut decision, &compiled.targets, Some(&review.namespace), parties);
    }
    if let (Decision::Ask(inquiry), Some((_, new))) = (&mut decision, rule) {
        let annotation = |key: &str| before.value(key);
        let old = before.declared.then(|| annotated_rule(kind, name, annotation)).flatten();
        let old = old.and_then(Result::ok).map(|(_, compiled)| Box::new(compiled));
        let source = ObjectKey::new(kind.into(), &*review.namespace, name);
        inquiry.written =
            Some(Written::Annotations { name: Declarer::annotated(source), new: Box::new(new), old });
    }
    Ok(decision)
}

impl Declarations {
    fn value(&self, key: &str) -> Option<&str> {
        let at = ASKING.iter().position(|asking| *asking == key)?;
        self.values.get(at)?.as_deref()
    }
}

fn asked(raw: Option<&RawValue>, what: &'static str) -> Result<Declarations, DecideError> {
    let Metadata { annotations, labels } = metadata(raw.ok_or(DecideError::Missing(what))?, what)?;
    let (mut annotations, labels) = (annotations.unwrap_or_default(), labels.unwrap_or_default());
    let declared = declares(|key| labels.get(key)?.as_deref());
    Ok(Declarations { declared, values: ASKING.map(|key| annotations.remove(key).flatten()) })
}

fn metadata(raw: &RawValue, what: &'static str) -> Result<Metadata, DecideError> {
    let object: Object = serde_json::from_str(raw.get()).map_err(|error| DecideError::Unreadable {
        what,
        source: CandidateError::Unreadable { line: error.line(), column: error.column() },
    })?;
    Ok(object.metadata)
}
