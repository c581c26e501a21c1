//! A policy's rules about keys and their values.

use std::{
    borrow::Cow,
    collections::BTreeSet,
    panic::{AssertUnwindSafe, catch_unwind},
};

use copyrator_cel::Pattern;
use jiff::{SignedDuration, Timestamp};

use super::{
    Budget, Candidate, Judgement, Violation,
    fault::Fault,
    format::{
        self,
        document::Document,
        pem::{self, Remaining},
    },
    pattern,
    schema::Schema,
    violation::Subject,
};
use crate::{
    api::{DataRule, Format, Problem, Span},
    names::NameKind,
    validate::{Globs, invalid},
};

/// The cost of matching a key with a rule's keys and judging an empty value, in nanoseconds.
const MATCHING: u64 = 50;
const LOOKING: u64 = 1_000;

/// A compiled rule about keys.
#[derive(Clone, Debug)]
pub(super) struct Data {
    name: String,
    keys: Globs,
    spelled: String,
    required: bool,
    format: Option<Format>,
    schema: Option<Schema>,
    min_remaining: Option<SignedDuration>,
    pattern: Option<Pattern>,
    immutable: bool,
}

impl Data {
    pub(super) fn compile(at: &str, spec: &DataRule, problems: &mut Vec<Problem>) -> Self {
        if spec.name.is_empty() {
            problems.push(invalid(
                &format!("{at}.name"),
                "must not be empty, because error messages quote the name of the rule",
            ));
        }
        let pair = spec.format == Some(Format::TlsPair);
        if spec.keys.as_ref().is_none_or(Vec::is_empty) && !pair {
            problems
                .push(invalid(&format!("{at}.keys"), "needs at least one entry, except for format tls-pair"));
        }
        if pair && spec.keys.is_some() {
            problems.push(invalid(
                &format!("{at}.keys"),
                "is not allowed with format tls-pair, which checks tls.crt and tls.key",
            ));
        }
        if pair && spec.pattern.is_some() {
            problems.push(invalid(
                &format!("{at}.pattern"),
                "is not allowed with format tls-pair; write a separate rule",
            ));
        }
        if !spec.required && spec.format.is_none() && spec.pattern.is_none() && !spec.immutable {
            problems.push(invalid(at, "has no requirement; set required, format, pattern or immutable"));
        }
        if spec.schema.is_some() && spec.format.and_then(Document::of).is_none() {
            problems.push(invalid(&format!("{at}.schema"), "is allowed only with format json, yaml or toml"));
        }
        let keys = match (&spec.keys, pair) {
            (_, true) => vec!["tls.crt".to_owned(), "tls.key".to_owned()],
            (Some(keys), _) => keys.clone(),
            (None, _) => Vec::new(),
        };
        Self {
            name: spec.name.clone(),
            spelled: keys.join(", "),
            keys: Globs::compile(&format!("{at}.keys"), &keys, NameKind::DataKey, problems),
            required: spec.required,
            format: spec.format,
            schema: spec
                .schema
                .as_ref()
                .and_then(|schema| Schema::compile(&format!("{at}.schema"), schema, problems)),
            min_remaining: min_remaining(at, spec, problems),
            pattern: spec
                .pattern
                .as_ref()
                .and_then(|text| pattern::whole(&format!("{at}.pattern"), text, problems)),
            immutable: spec.immutable,
        }
    }

    /// Whether the rule parses values as documents, which can be much larger in memory than their text.
    pub(super) fn unpacks(&self) -> bool {
        self.schema.is_some() || self.format.is_some_and(format::unpacks)
    }

    /// Returns all violations of the rule by the object's keys.
    pub(super) fn judge(&self, judgement: &mut Judgement<'_>) -> Vec<Violation> {
        if self.format == Some(Format::TlsPair) {
            return self.judge_pair(judgement).into_iter().collect();
        }
        let mut violations = Vec::new();
        let mut found = false;
        let budget = &mut judgement.budget;
        if budget.spend_if_brief(MATCHING.saturating_mul(judgement.object.data.len() as u64)).is_err() {
            return violations;
        }
        for (key, value) in judgement.object.data.iter().filter(|(key, _)| self.keys.matches(key)) {
            found = true;
            if judgement.budget.spend_if_brief(LOOKING).is_err() {
                break;
            }
            if let Err(fault) = contained(|| self.check(key, value, judgement), |fault| fault) {
                violations.push(self.violation(key, fault));
            }
            let mismatch =
                self.pattern.as_ref().and_then(|pattern| mismatch(pattern, value, &mut judgement.budget));
            violations.extend(mismatch.map(|(what, fix)| Violation::at_key(&self.name, key, what, fix)));
        }
        if self.required && !found {
            let mut missing = Violation::at_key(
                &self.name,
                &self.spelled,
                "is missing",
                if self.keys.literals().is_some_and(|names| names.len() == 1) {
                    "add the key"
                } else {
                    "add a key with one of these names"
                },
            );
            missing.subject = Subject::Parts(BTreeSet::new());
            violations.push(missing);
        }
        violations
    }

    fn check<'o>(&self, key: &'o str, value: &[u8], judgement: &mut Judgement<'o>) -> Result<(), Fault> {
        let Some(format) = self.format else { return Ok(()) };
        if let Some(schema) = &self.schema {
            return schema.check(format, value, &mut judgement.budget);
        }
        judgement.is_of(format, key, value)?;
        self.check_remaining(value, judgement.now)
    }

    fn check_remaining(&self, value: &[u8], now: Timestamp) -> Result<(), Fault> {
        self.min_remaining.map_or(Ok(()), |least| pem::remaining(value, Remaining { least, now }))
    }

    fn judge_pair(&self, judgement: &mut Judgement<'_>) -> Option<Violation> {
        let (object, now) = (judgement.object, judgement.now);
        let value = |key: &str| object.data.get(key).filter(|value| !value.is_empty());
        let found = match (value("tls.crt"), value("tls.key")) {
            (Some(certificate), Some(key)) => {
                let reading = |value: &[u8]| format::reading(Format::TlsPair, value);
                judgement.budget.spend_if_brief(reading(certificate) + reading(key)).ok()?;
                let remaining = || self.check_remaining(certificate, now).map_err(|fault| ("tls.crt", fault));
                contained(
                    || pem::pair(certificate, key).and_then(|()| remaining()),
                    |fault| ("tls.crt", fault),
                )
            }
            (Some(_), None) => Err(("tls.key", missing())),
            (None, _) => Err(("tls.crt", missing())),
        };
        let (key, fault) = found.err()?;
        let mut violation = self.violation(key, fault);
        violation.subject = Subject::keys(["tls.crt", "tls.key"]);
        Some(violation)
    }

    /// Returns a violation for each key of an immutable rule that the write changes or removes.
    pub(super) fn judge_change(&self, new: &Candidate<'_>, old: &Candidate<'_>) -> Vec<Violation> {
        if !self.immutable {
            return Vec::new();
        }
        let set_before = old.data.iter().filter(|(key, _)| self.keys.matches(key));
        let changed = set_before.filter_map(|(key, before)| {
            let what = match new.data.get(key) {
                Some(now) if now == before => return None,
                Some(_) => "is immutable and would change",
                None => "is immutable and would be removed",
            };
            let mut violation = Violation::at_key(
                &self.name,
                key,
                what,
                "keep the value, or create a new object under another name",
            );
            violation.subject = Subject::Change;
            Some(violation)
        });
        changed.collect()
    }

    fn violation(&self, key: &str, fault: Fault) -> Violation {
        Violation { place: fault.place, ..Violation::at_key(&self.name, key, fault.what, fault.fix) }
    }
}

/// Runs a check: a parser that panics must not let a value pass the policy.
fn contained<E>(check: impl FnOnce() -> Result<(), E>, fault: impl FnOnce(Fault) -> E) -> Result<(), E> {
    let unread = |_| Err(fault(Fault::new("cannot be checked, because parsing fails", "simplify it")));
    catch_unwind(AssertUnwindSafe(check)).unwrap_or_else(unread)
}

fn missing() -> Fault {
    Fault::new("is missing or empty", "write both tls.crt and tls.key")
}

fn min_remaining(at: &str, spec: &DataRule, problems: &mut Vec<Problem>) -> Option<SignedDuration> {
    let field = format!("{at}.minRemaining");
    let written: &Span = spec.min_remaining.as_ref()?;
    if !matches!(spec.format, Some(Format::PemCertificate | Format::TlsPair)) {
        problems.push(invalid(&field, "is allowed only with format pem-certificate or tls-pair"));
    }
    let span = written.get().map_err(|error| problems.push(invalid(&field, error))).ok()?;
    let span = SignedDuration::try_from(span);
    span.map_err(|_| problems.push(invalid(&field, "is too long a duration; use fewer hours"))).ok()
}

/// Returns the fault, with the fix, of a value that does not match the pattern.
fn mismatch(pattern: &Pattern, value: &[u8], budget: &mut Budget) -> Option<(Cow<'static, str>, String)> {
    let matched = match std::str::from_utf8(value) {
        Ok(text) if pattern.is_searched(text) && budget.search(pattern, text).is_err() => {
            return Some((
                "cannot be matched: the checks of this write exceeded their time budget".into(),
                "shorten the values, write fewer keys at once, or simplify the policy's pattern".into(),
            ));
        }
        Ok(text) => pattern.matches(text),
        Err(_) => Some(false),
    };
    match matched {
        Some(true) => None,
        Some(false) => Some((
            "has a value that is not allowed".into(),
            format!("the whole value must match {}", pattern.written()),
        )),
        None => Some((
            format!("is too long ({} bytes) for a pattern of this size", value.len()).into(),
            "shorten the value, or simplify the policy's pattern".into(),
        )),
    }
}
