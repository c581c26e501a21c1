//! Annotations that ask for copies of their object, or for restarts when it changes: understood by the one validator, and
//! written by somebody who may do all that the object asks for, since all of it is done with his rights from now on. Of
//! the object nothing but its metadata is read.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::{DecideError, Decision, Parties, Verdict, own_kinds};
use crate::{
    admit::decode::{Operation, Review},
    authority::{Subject, monitor_questions, rule_questions},
    marks::ASKING,
    model::Kind,
    validate::{CandidateError, annotated_monitor, annotated_rule},
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
type Asked = [Option<String>; ASKING.len()];

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
    let annotation = |key: &str| {
        let at = ASKING.iter().position(|asking| *asking == key)?;
        asked.get(at)?.as_deref()
    };
    // A generated name is not known yet. Nobody can hold a right to it by name, but to all of them.
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
        let copies = rule.iter().flat_map(|(spec, _)| rule_questions(&review.namespace, spec, subject));
        let restarts =
            monitor.iter().flat_map(|(spec, _)| monitor_questions(&review.namespace, spec, subject));
        copies.chain(restarts).collect()
    };
    Ok(own_kinds::authorized(review, parties, false, None, questions))
}

fn asked(raw: Option<&RawValue>, what: &'static str) -> Result<Asked, DecideError> {
    let raw = raw.ok_or(DecideError::Missing(what))?;
    let object: Object = serde_json::from_str(raw.get()).map_err(|error| DecideError::Unreadable {
        what,
        source: CandidateError::Unreadable { line: error.line(), column: error.column() },
    })?;
    let mut annotations = object.metadata.annotations.unwrap_or_default();
    Ok(ASKING.map(|key| annotations.remove(key).flatten()))
}
