//! Annotations that ask for copies of their object: understood by the one validator, and written by somebody who may
//! do what they declare. Of the object nothing but its metadata is read.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::{DecideError, Decision, Parties, Verdict, own_kinds};
use crate::{
    admit::decode::{Operation, Review},
    authority::{Subject, rule_questions},
    marks::{COPY_TO, COPY_TO_SELECTOR},
    model::Kind,
    validate::{CandidateError, annotated_rule},
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
}

/// The values of the annotations that count here.
type Asked = [Option<String>; 2];

pub(super) fn decide(review: &Review<'_>, parties: &Parties) -> Result<Decision, DecideError> {
    let kind = match (&*review.kind.group, &*review.kind.kind) {
        ("", "ConfigMap") => Kind::ConfigMap,
        ("", "Secret") => Kind::Secret,
        _ => return Ok(Decision::Now(Verdict::allow())),
    };
    let before = match review.operation {
        Operation::Create => Asked::default(),
        Operation::Update => asked(review.old_object, "oldObject")?,
        _ => return Ok(Decision::Now(Verdict::allow())),
    };
    let asked = asked(review.object, "object")?;
    if asked == before {
        return Ok(Decision::Now(Verdict::allow()));
    }
    let [names, selector] = &asked;
    let annotation = |key: &str| match key {
        COPY_TO => names.as_deref(),
        COPY_TO_SELECTOR => selector.as_deref(),
        _ => None,
    };
    // A generated name is not known yet. Nobody can hold a right to it by name, but to all of them.
    let name = if review.name.is_empty() { "*" } else { &review.name };
    match annotated_rule(kind, name, annotation) {
        None => Ok(Decision::Now(Verdict::allow())),
        Some(Err(problems)) => Ok(own_kinds::invalid(review, &problems)),
        Some(Ok((spec, _))) => {
            let questions = |subject: &Subject| rule_questions(&review.namespace, &spec, subject);
            Ok(own_kinds::authorized(review, parties, false, None, questions))
        }
    }
}

fn asked(raw: Option<&RawValue>, what: &'static str) -> Result<Asked, DecideError> {
    let raw = raw.ok_or(DecideError::Missing(what))?;
    let object: Object = serde_json::from_str(raw.get()).map_err(|error| DecideError::Unreadable {
        what,
        source: CandidateError::Unreadable { line: error.line(), column: error.column() },
    })?;
    let mut annotations = object.metadata.annotations.unwrap_or_default();
    Ok([COPY_TO, COPY_TO_SELECTOR].map(|key| annotations.remove(key).flatten()))
}
