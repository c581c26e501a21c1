//! Our own kinds: understood by the one validator, and written by somebody who may do what they declare.

use serde::{Deserialize, de::DeserializeOwned};
use serde_json::value::RawValue;

use super::{DecideError, Decision, Inquiry, Parties, Verdict, canary_answer, fields};
use crate::{
    admit::decode::{Operation, Review},
    api::{ConfigMonitorSpec, ConfigPolicySpec, CopyratorRuleSpec, Problem},
    authority::{
        Identity, IdentityRequired, Question, Subject, impersonation, monitor_questions, rule_questions,
    },
    model::NamespacedName,
    validate::{CompiledMonitor, CompiledPolicy, CompiledRule},
};

#[derive(Deserialize)]
struct Object<'a> {
    #[serde(borrow, default)]
    spec: Option<&'a RawValue>,
}

pub(super) fn decide(review: &Review<'_>, parties: &Parties) -> Result<Decision, DecideError> {
    if let Some(answer) = canary_answer(review) {
        return Ok(Decision::Now(Verdict::refuse(418, "Canary", &answer)));
    }
    if !matches!(review.operation, Operation::Create | Operation::Update) {
        return Ok(Decision::Now(Verdict::allow()));
    }
    let spec = spec_of(review.object, "object")?;
    let old = match review.operation {
        Operation::Update => spec_of(review.old_object, "oldObject")?,
        _ => None,
    };
    let Some(spec) = spec else {
        return Ok(invalid(review, &[problem("spec", "is missing; say what is wanted")]));
    };
    if old.is_some_and(|old| same(spec, old)) {
        return Ok(Decision::Now(Verdict::allow()));
    }
    match &*review.kind.kind {
        "CopyratorRule" => {
            let (spec, ()) =
                match read::<CopyratorRuleSpec, _>(spec, |spec| CompiledRule::compile(spec).map(|_| ())) {
                    Ok(read) => read,
                    Err(problems) => return Ok(invalid(review, &problems)),
                };
            let suspends = old
                .and_then(decoded::<CopyratorRuleSpec>)
                .is_some_and(|old| spec.suspend && spec == CopyratorRuleSpec { suspend: true, ..old });
            let questions = |subject: &Subject| rule_questions(&review.namespace, &spec, subject);
            Ok(authorized(review, parties, suspends, spec.service_account_name.as_deref(), questions))
        }
        "ConfigMonitor" => {
            let (spec, ()) =
                match read::<ConfigMonitorSpec, _>(spec, |spec| CompiledMonitor::compile(spec).map(|_| ())) {
                    Ok(read) => read,
                    Err(problems) => return Ok(invalid(review, &problems)),
                };
            let suspends = old
                .and_then(decoded::<ConfigMonitorSpec>)
                .is_some_and(|old| spec.suspend && spec == ConfigMonitorSpec { suspend: true, ..old });
            let questions = |subject: &Subject| monitor_questions(&review.namespace, &spec, subject);
            Ok(authorized(review, parties, suspends, spec.service_account_name.as_deref(), questions))
        }
        "ConfigPolicy" => {
            let result = read::<ConfigPolicySpec, _>(spec, |spec| CompiledPolicy::compile(spec).map(|_| ()));
            Ok(result.map_or_else(|problems| invalid(review, &problems), |_| Decision::Now(Verdict::allow())))
        }
        _ => Ok(Decision::Now(Verdict::allow())),
    }
}

fn spec_of<'a>(raw: Option<&'a RawValue>, what: &'static str) -> Result<Option<&'a RawValue>, DecideError> {
    let raw = raw.ok_or(DecideError::Missing(what))?;
    let object: Object<'_> = serde_json::from_str(raw.get()).map_err(|error| DecideError::Unreadable {
        what,
        source: crate::validate::CandidateError::Unreadable { line: error.line(), column: error.column() },
    })?;
    Ok(object.spec)
}

fn same(new: &RawValue, old: &RawValue) -> bool {
    new.get() == old.get() || value(new).is_some_and(|new| Some(new) == value(old))
}

fn value(raw: &RawValue) -> Option<serde_json::Value> {
    serde_json::from_str(raw.get()).ok()
}

fn decoded<Spec: DeserializeOwned>(raw: &RawValue) -> Option<Spec> {
    serde_json::from_str(raw.get()).ok()
}

/// Decodes a spec, refuses fields that nobody knows, and understands it.
fn read<Spec: DeserializeOwned + serde::Serialize, Compiled>(
    raw: &RawValue,
    compile: impl FnOnce(&Spec) -> Result<Compiled, Vec<Problem>>,
) -> Result<(Spec, Compiled), Vec<Problem>> {
    let spec: Spec =
        serde_json::from_str(raw.get()).map_err(|error| vec![fields::undecodable(raw.get(), &error)])?;
    let mut problems = fields::unknown(raw.get(), &spec);
    let compiled = compile(&spec).map_err(|more| problems.extend(more));
    match compiled {
        Ok(compiled) if problems.is_empty() => Ok((spec, compiled)),
        _ => Err(problems),
    }
}

pub(super) fn authorized(
    review: &Review<'_>,
    parties: &Parties,
    suspends: bool,
    account: Option<&str>,
    questions: impl Fn(&Subject) -> Vec<Question>,
) -> Decision {
    if suspends {
        return Decision::Now(Verdict::allow());
    }
    let writer = Subject::from(&review.user_info);
    let identity = match Identity::of_writer(&review.namespace, account, &writer, &parties.trusted) {
        Ok(identity) => identity,
        Err(required) => return Decision::Now(inert(&required)),
    };
    let subject = identity.subject();
    let (required, expected) = match account {
        Some(account) => (vec![impersonation(&review.namespace, account, &writer)], questions(&subject)),
        None => (questions(&subject), Vec::new()),
    };
    let of = NamespacedName::new(&*review.namespace, &*review.name);
    Decision::Ask(Box::new(Inquiry { of, identity, required, expected, allow: Verdict::allow() }))
}

/// Accepted, but it will do nothing: the reconciler says so in the object's status at length.
fn inert(required: &IdentityRequired) -> Verdict {
    let mut verdict = Verdict::allow();
    verdict.warn(format!("copyrator: {}", required.in_short()));
    verdict
}

pub(super) fn invalid(review: &Review<'_>, problems: &[Problem]) -> Decision {
    let name = match &*review.name {
        "" => "(unnamed)",
        name => name,
    };
    let all = problems.iter().map(|problem| problem.message.as_str()).collect::<Vec<_>>().join("; ");
    Decision::Now(Verdict::refuse(
        422,
        "Invalid",
        &format!("{} {name} is not valid: {all}", review.kind.kind),
    ))
}

fn problem(field: &str, message: &str) -> Problem {
    Problem { reason: "Invalid".into(), message: format!("{field}: {message}"), ..Problem::default() }
}
