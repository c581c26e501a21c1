//! Decides writes of our own kinds: `validate` must accept the spec, and the author needs every right that
//! the spec uses.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::CustomResourceExt as _;
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::value::RawValue;

use super::{
    DecideError, Decision, Denial, Inquiry, Parties, Purpose, Verdict, canary_answer, fields,
    foresight::{Foresight, Written},
    never_targets,
};
use crate::{
    admit::decode::{Operation, Review},
    api::{
        ConfigMonitor, ConfigMonitorSpec, ConfigPolicy, ConfigPolicySpec, CopyratorRule, CopyratorRuleSpec,
        CopyratorTemplate, CopyratorTemplateSpec, Problem,
    },
    authority::{
        Identity, IdentityRequired, Question, Subject, impersonation, monitor_questions, rule_questions,
        template_questions,
    },
    names::{Declarer, Kind, NamespacedName},
    validate::{
        CompiledMonitor, CompiledPolicy, CompiledRule, CompiledTemplate, SpecFault, unknown_fields, unserved,
    },
};

#[derive(Deserialize)]
struct Object<'a> {
    #[serde(borrow, default)]
    spec: Option<&'a RawValue>,
}

pub(super) fn decide(
    review: &Review<'_>,
    purpose: &Purpose,
    parties: &Parties,
) -> Result<Decision, DecideError> {
    if let Some(answer) = canary_answer(review) {
        return Ok(Decision::Now(Verdict::refuse(Denial::Canary, &answer)));
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
        return Ok(invalid(review, &[SpecFault::Invalid.problem("spec: required field is missing".into())]));
    };
    if old.is_some_and(|old| same(spec, old)) {
        return Ok(Decision::Now(Verdict::allow()));
    }
    match &*review.kind.kind {
        "CopyratorRule" => {
            let read = read::<CopyratorRuleSpec, _>(spec, CopyratorRule::crd, |spec| {
                CompiledRule::compile(spec, &parties.template_kinds)
            });
            let (spec, compiled) = match read {
                Ok(read) => read,
                Err(problems) => return Ok(invalid(review, &problems)),
            };
            let kind = compiled.kind;
            let suspends = old
                .and_then(decoded::<CopyratorRuleSpec>)
                .is_some_and(|old| spec.suspend && spec == CopyratorRuleSpec { suspend: true, ..old });
            let questions = |subject: &Subject| rule_questions(&review.namespace, &spec, kind, subject);
            let account = spec.service_account_name.as_deref();
            let mut decision = authorized(review, parties, suspends, account, questions);
            let home = match compiled.source_namespaces.as_slice() {
                [] => Some(&*review.namespace),
                [one] => Some(one.as_str()),
                _ => None,
            };
            never_targets::warn(&mut decision, &compiled.targets, home, parties);
            let types = compiled.shape.keys.types_left();
            if let Decision::Ask(inquiry) = &mut decision
                && compiled.shape.kind == Kind::Secret
                && !types.is_empty()
            {
                inquiry.allow.warn(format!(
                    "copyrator: copies of a Secret of type {} will be Opaque, because spec.copy.keys omits a required key",
                    types.join(" or ")
                ));
            }
            if let Decision::Ask(inquiry) = &mut decision {
                let old = review.old_object.filter(|_| review.operation == Operation::Update);
                let compile = |spec: &_| CompiledRule::compile(spec, &parties.template_kinds).ok();
                inquiry.written = (!spec.suspend).then(|| {
                    Written::rule(Declarer::Rule(inquiry.of.clone()), &spec, compiled, old, compile)
                });
            }
            Ok(decision)
        }
        "ConfigMonitor" => {
            let (spec, ()) = match read::<ConfigMonitorSpec, _>(spec, ConfigMonitor::crd, |spec| {
                CompiledMonitor::compile(spec).map(|_| ())
            }) {
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
            let result = read::<ConfigPolicySpec, _>(spec, ConfigPolicy::crd, |spec| {
                CompiledPolicy::compile(spec).map(|_| ())
            });
            Ok(result.map_or_else(|problems| invalid(review, &problems), |_| Decision::Now(Verdict::allow())))
        }
        "CopyratorTemplate" => {
            let read =
                read::<CopyratorTemplateSpec, _>(spec, CopyratorTemplate::crd, CompiledTemplate::compile);
            let (spec, compiled) = match read {
                Ok(read) => read,
                Err(problems) => return Ok(invalid(review, &problems)),
            };
            let suspends = old
                .and_then(decoded::<CopyratorTemplateSpec>)
                .is_some_and(|old| spec.suspend && spec == CopyratorTemplateSpec { suspend: true, ..old });
            let unserved = unserved(&compiled);
            if !suspends && *purpose != Purpose::Files && !unserved.is_empty() {
                return Ok(invalid(review, &unserved));
            }
            let questions = |subject: &Subject| {
                template_questions(
                    &review.namespace,
                    &spec,
                    Some(&compiled),
                    subject,
                    &parties.template_kinds,
                )
            };
            let account = spec.service_account_name.as_deref();
            let mut decision = authorized(review, parties, suspends, account, questions);
            never_targets::warn(&mut decision, compiled.namespace_terms(), None, parties);
            if let Decision::Ask(inquiry) = &mut decision {
                let old = review.old_object.filter(|_| review.operation == Operation::Update);
                inquiry.written = (!spec.suspend)
                    .then(|| Written::template(Declarer::Template(inquiry.of.clone()), compiled, old));
            }
            Ok(decision)
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

/// Decodes a spec, refuses unknown fields, and validates it.
fn read<Spec: DeserializeOwned + serde::Serialize, Compiled>(
    raw: &RawValue,
    definition: fn() -> CustomResourceDefinition,
    compile: impl FnOnce(&Spec) -> Result<Compiled, Vec<Problem>>,
) -> Result<(Spec, Compiled), Vec<Problem>> {
    let spec: Spec = serde_json::from_str(raw.get()).map_err(|error| {
        let unknown = fields::unknown(raw.get(), &definition());
        unknown.into_iter().chain([fields::undecodable(raw.get(), &error)]).collect::<Vec<_>>()
    })?;
    // The CRD is large, so it is built only if decoding has lost a field, which is rare.
    let mut problems =
        if loses(raw.get(), &spec) { fields::unknown(raw.get(), &definition()) } else { Vec::new() };
    let compiled = compile(&spec).map_err(|more| problems.extend(more));
    match compiled {
        Ok(compiled) if problems.is_empty() => Ok((spec, compiled)),
        _ => Err(problems),
    }
}

/// Whether decoding has lost a given field.
fn loses(raw: &str, spec: &impl serde::Serialize) -> bool {
    let (Ok(given), Ok(known)) = (serde_json::from_str(raw), serde_json::to_value(spec)) else {
        return false;
    };
    !unknown_fields(&given, &known).is_empty()
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
    let allow = Verdict::allow();
    Decision::Ask(Box::new(Inquiry {
        of,
        author: writer,
        identity,
        required,
        expected,
        written: None,
        foresight: Foresight::default(),
        allow,
    }))
}

/// Accepts the write, with a warning that the object will have no effect. The reconciler explains the reason
/// in the object's status.
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
        Denial::Invalid,
        &format!("{} {name} is not valid: {all}", review.kind.kind),
    ))
}
