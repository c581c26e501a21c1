//! Evaluates a policy's CEL expressions over an object.

use std::{fmt, sync::Arc};

use copyrator_cel::{Environment, Evaluation, Path, Type, Value, to_value};

use super::{
    Candidate, Judgement, RequestFacts, Violation,
    judgement::Outcome,
    violation::{Part, Subject},
};
use crate::{
    api::{Problem, Validation},
    validate::invalid,
};

/// The cost of converting a byte of an object to CEL values, in nanoseconds.
const MAKING: u64 = 20;
/// The variables that expressions can read.
const VARIABLES: [(&str, Type); 4] =
    [("object", Type::Any), ("oldObject", Type::Any), ("request", Type::Map), ("text", Type::TextMap)];

/// The compiled expressions of a policy.
pub(super) struct Expressions {
    expressions: Vec<Expression>,
    environment: Option<Environment>,
}

struct Expression {
    rule: String,
    /// The expression as the user wrote it.
    source: Arc<str>,
    program: copyrator_cel::Expression,
    message: String,
    subject: Subject,
}

impl fmt::Debug for Expressions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.expressions.iter().map(|expression| &expression.message)).finish()
    }
}

impl Expressions {
    pub(super) fn compile(specs: &[Validation], problems: &mut Vec<Problem>) -> Self {
        if specs.is_empty() {
            return Self { expressions: Vec::new(), environment: None };
        }
        let environment = Environment::new(VARIABLES);
        let expressions = specs.iter().enumerate().filter_map(|(index, spec)| {
            compile(index, spec, &environment).map_err(|problem| problems.push(problem)).ok()
        });
        Self { expressions: expressions.collect(), environment: Some(environment) }
    }

    /// Whether the policy has any expression.
    pub(super) fn is_any(&self) -> bool {
        !self.expressions.is_empty()
    }

    /// Judges an object. Outside of a write (`request` is absent), expressions about the write are skipped.
    pub(super) fn judge(
        &self,
        judgement: &mut Judgement<'_>,
        mut old: Option<&mut Judgement<'_>>,
        request: Option<&dyn Fn() -> RequestFacts>,
    ) -> Vec<Violation> {
        let Some(environment) = &self.environment else { return Vec::new() };
        let is_judged = |one: &&Expression| request.is_some() || one.subject != Subject::Change;
        let judged: Vec<_> = self.expressions.iter().filter(is_judged).collect();
        let object = judgement.object;
        let asked: Vec<_> =
            judged.iter().copied().filter(|one| !judgement.evaluated.contains_key(&one.source)).collect();
        if !asked.is_empty() && !Self::evaluate(environment, &asked, judgement, old.take(), request) {
            return Vec::new();
        }
        let outcome = |one: &Expression| one.violation(judgement.evaluated.get(&one.source)?, object);
        judged.into_iter().filter_map(outcome).collect()
    }

    /// Evaluates the expressions that no other policy has evaluated for this object. Returns whether the
    /// budget sufficed.
    fn evaluate(
        environment: &Environment,
        asked: &[&Expression],
        judgement: &mut Judgement<'_>,
        mut old: Option<&mut Judgement<'_>>,
        request: Option<&dyn Fn() -> RequestFacts>,
    ) -> bool {
        // The cost of converting grows linearly with the object.
        let object = judgement.object;
        let bytes = object.raw.len() + old.as_ref().map_or(0, |old| old.object.raw.len());
        if judgement.budget.spend_if_brief(MAKING.saturating_mul(bytes as u64)).is_err() {
            return false;
        }
        let used = VARIABLES.into_iter().filter(|(name, _)| asked.iter().any(|one| one.program.reads(name)));
        let variables = used.map(|(name, _)| {
            let value = match name {
                "object" => judgement.as_object()?,
                "oldObject" => match old.as_mut() {
                    Some(old) => old.as_object()?,
                    None => Value::Null,
                },
                "request" => request.and_then(|request| to_value(request()).ok()).unwrap_or(Value::Null),
                _ => judgement.as_text(keys_read(asked)),
            };
            Some((name, value))
        });
        let Some(variables) = variables.collect() else {
            let unread = || Outcome::Unevaluated("the object is nested more than 128 levels deep".to_owned());
            judgement.evaluated.extend(asked.iter().map(|one| (one.source.clone(), unread())));
            return true;
        };
        let mut evaluation = Evaluation::new(environment, variables, &mut judgement.budget);
        for expression in asked {
            let outcome = Outcome::from(evaluation.run(&expression.program));
            judgement.evaluated.insert(expression.source.clone(), outcome);
        }
        true
    }
}

impl Expression {
    fn violation(&self, outcome: &Outcome, object: &Candidate<'_>) -> Option<Violation> {
        let (what, fix) = match outcome {
            Outcome::Holds => return None,
            Outcome::Fails => (self.message.clone(), "change the fields that the expression checks"),
            Outcome::NoBoolean => {
                ("the expression does not return true or false".to_owned(), "correct the policy")
            }
            Outcome::Unevaluated(reason) => {
                let what = format!("the expression cannot be evaluated here ({reason})");
                (
                    what,
                    "add the keys that the expression reads, or check for them in the policy, as in 'key' in text && …",
                )
            }
            Outcome::TooCostly => {
                let what = format!("the expression costs too much on {} bytes of data", object.size());
                (what, "shorten the values, or simplify the policy's expression")
            }
        };
        Some(Violation {
            rule: self.rule.clone(),
            key: None,
            place: None,
            what: what.into(),
            fix: fix.into(),
            subject: self.subject.clone(),
        })
    }
}

fn compile(index: usize, spec: &Validation, environment: &Environment) -> Result<Expression, Problem> {
    let program = environment
        .compile(&spec.expression)
        .map_err(|error| invalid(&format!("spec.validations[{index}].expression"), error.to_string()))?;
    let subject = match program.reads("oldObject") || program.reads("request") {
        true => Subject::Change,
        false => Subject::Parts(program.paths().iter().filter_map(part).collect()),
    };
    let default = || format!("must hold: {}", spec.expression.trim());
    Ok(Expression {
        rule: format!("validations[{index}]"),
        source: spec.expression.as_str().into(),
        message: spec.message.clone().filter(|message| !message.is_empty()).unwrap_or_else(default),
        subject,
        program,
    })
}

/// The keys of `text` that expressions read; `None` if an expression reads the whole map.
fn keys_read<'e>(asked: &[&'e Expression]) -> Option<Vec<&'e str>> {
    let paths = asked.iter().flat_map(|one| one.program.paths());
    let of_text = paths.filter(|path| path.variable == "text");
    of_text.map(|path| path.steps.first().map(String::as_str)).collect()
}

/// The part of the object at a path; `None` for a part that never changes.
fn part(path: &Path) -> Option<Part> {
    let steps: Vec<&str> = path.steps.iter().map(String::as_str).collect();
    match (path.variable.as_str(), steps.as_slice()) {
        ("text", []) => Some(Part::Data),
        ("text", [key, ..]) => Some(Part::Key((*key).to_owned())),
        ("object", ["apiVersion" | "kind", ..]) => None,
        ("object", ["metadata", "name" | "generateName" | "namespace" | "uid", ..]) => None,
        ("object", ["data" | "binaryData" | "stringData"]) => Some(Part::Data),
        ("object", ["data" | "binaryData" | "stringData", key, ..]) => Some(Part::Key((*key).to_owned())),
        ("object", ["metadata", "labels"]) => Some(Part::Labels),
        ("object", ["metadata", "labels", label, ..]) => Some(Part::Label((*label).to_owned())),
        ("object", ["metadata", "annotations", ..]) => Some(Part::Annotations),
        ("object", ["type", ..]) => Some(Part::Type),
        ("object", ["immutable", ..]) => Some(Part::Immutable),
        ("object", _) => Some(Part::Everything),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;
    use crate::api::PolicyKind;

    fn compiled(expression: &str) -> Result<Expressions, String> {
        let mut problems = Vec::new();
        let spec = Validation { expression: expression.into(), message: Some("no".into()) };
        let expressions = Expressions::compile(&[spec], &mut problems);
        problems.pop().map_or(Ok(expressions), |problem| Err(problem.message))
    }

    fn judged(expression: &str) -> Option<String> {
        let raw = r#"{"metadata":{"name":"a","labels":{"app":"web"}},"data":{"min":"1","max":"5","a.yaml":"x: 1"}}"#;
        let object = Candidate::decode(PolicyKind::ConfigMap, raw).unwrap();
        let violations = compiled(expression).unwrap().judge(
            &mut Judgement::new(&object, Timestamp::UNIX_EPOCH),
            None,
            None,
        );
        violations.into_iter().next().map(|violation| violation.what.into_owned())
    }

    #[test]
    fn expressions_see_the_object_and_its_text() {
        for expression in [
            "int(text.min) <= int(text.max)",
            "'min' in text && !('other' in text) && text['a.yaml'].startsWith('x')",
            "text[?'other'].orValue('0') == '0' && text.?min.orValue('') == '1'",
            "has(text.min) && !has(text.other)",
            "object.metadata.labels.app == 'web' && object.data.min == '1'",
            "object.metadata.?annotations.orValue({}).size() == 0 && !object.?spec.hasValue()",
            "object.metadata.?labels.?b.orValue('x') == 'x' && object.?spec.?a.orValue(0) == 0",
            "['b'].all(key, object.metadata.?annotations[?key].orValue('x') == 'x')",
            "text.all(key, key.size() < 9) && text.exists(key, text[key] == '5')",
            "['1', '2'].exists(one, one == text.min)",
            "math.greatest(int(text.min), 3) == 3 && sets.contains(['1', '2'], [text.min])",
            "isURL('https://a.b') && quantity('1Gi').isGreaterThan(quantity('1Mi'))",
            "text.min.matches('^[0-9]+$') && 'a,b'.split(',').size() == 2",
            "'größe'.size() == 5 && 'ab'.split('') == ['a', 'b'] && bool('True') && dyn(1) == 1.0",
            "[0, 1].exists(one, 1 / one == 1) && ![0, 2].all(one, 1 / one == 1)",
            "timestamp('2024-02-29T23:00:00Z').getDate('Europe/Berlin') == 1 && string(duration('90s')) == '90s'",
        ] {
            assert_eq!(judged(expression), None, "{expression}");
        }
        for expression in ["[0, 1].all(one, 1 / one == 1)", "[0].exists(one, 1 / one == 1)"] {
            assert!(judged(expression).is_some_and(|what| what.contains("division by zero")), "{expression}");
        }
        assert_eq!(judged("text.min == '2'").as_deref(), Some("no"));
        assert_eq!(
            judged("object.data.min").as_deref(),
            Some("the expression does not return true or false")
        );
        assert!(judged("text.other == '1'").unwrap().contains("no such key"));
        assert!(judged("int(text['a.yaml']) == 1").unwrap().ends_with("(int does not accept this value)"));
        assert_eq!(
            judged("oldObject == null"),
            None,
            "expressions about a write are left out where there is none"
        );
    }

    #[test]
    fn what_several_policies_ask_is_evaluated_once_and_told_in_the_words_of_each() {
        let asking = |expression: &str, message: &str| {
            let mut problems = Vec::new();
            let spec = Validation { expression: expression.into(), message: Some(message.into()) };
            Expressions::compile(&[spec], &mut problems)
        };
        let object = Candidate::decode(PolicyKind::ConfigMap, r#"{"data":{"a":"1"}}"#).unwrap();
        let mut judgement = Judgement::new(&object, Timestamp::UNIX_EPOCH);
        let mut judged = |expressions: Expressions| {
            let before = judgement.budget.time();
            let violations = expressions.judge(&mut judgement, None, None);
            (violations.first().map(|it| it.what.to_string()), before - judgement.budget.time())
        };
        let (first, cost) = judged(asking("text.a == '2'", "one"));
        assert!(first.as_deref() == Some("one") && cost > 0, "{first:?} {cost}");
        assert_eq!(judged(asking("text.a == '2'", "another")), (Some("another".to_owned()), 0));
        let (other, cost) = judged(asking("text.a == '1'", "one"));
        assert!(other.is_none() && cost > 0, "{other:?} {cost}");
    }

    #[test]
    fn what_could_not_be_judged_is_not_let_through() {
        let object = Candidate::decode(PolicyKind::ConfigMap, r#"{"data":{"a":"1"}}"#).unwrap();
        let mut judgement = Judgement::new(&object, Timestamp::UNIX_EPOCH);
        assert!(judgement.budget.spend(u64::MAX).is_err());
        let violations = compiled("text.a == '1'").unwrap().judge(&mut judgement, None, None);
        let what: Vec<_> = violations.iter().map(|violation| &*violation.what).collect();
        assert_eq!(what, ["the expression costs too much on 2 bytes of data"]);
    }

    /// An unreadable object must not look like an object without fields, which passes an expression that
    /// forbids a field. Anybody may write managedFields.
    #[test]
    fn an_object_nested_too_deep_goes_around_no_expression() {
        let deep = |value: &str| {
            let fields = "{\"f:a\":".repeat(200) + "{}" + &"}".repeat(200);
            let managed = format!(r#"[{{"manager":"a","fieldsV1":{fields}}}]"#);
            format!(r#"{{"metadata":{{"name":"a","managedFields":{managed}}},"data":{{"mode":"{value}"}}}}"#)
        };
        let (before, after) = (deep("a"), deep("b"));
        let decode = |raw| Candidate::decode(PolicyKind::ConfigMap, raw).unwrap();
        let (before, after) = (decode(&before), decode(&after));
        let judged = |expression: &str| {
            let mut old = Judgement::new(&before, Timestamp::UNIX_EPOCH);
            let mut new = Judgement::new(&after, Timestamp::UNIX_EPOCH);
            let request = || unreachable!("none of them reads it");
            let violations = compiled(expression).unwrap().judge(&mut new, Some(&mut old), Some(&request));
            violations.first().map(|it| it.what.to_string())
        };
        for expression in [
            "!has(object.data) || object.data.mode == 'a'",
            "object.?data.?mode.orValue('a') == 'a'",
            "oldObject == null || object.data.mode == oldObject.data.mode",
        ] {
            assert_eq!(judged(expression).as_deref(), Some("no"), "{expression}");
        }
    }

    #[test]
    fn what_cannot_run_is_refused_when_written() {
        for (expression, says) in [
            ("text.a >", "is not a valid CEL expression (line 1"),
            (
                "self.a == 1",
                "\"self\" is not a variable here; the variables are object, oldObject, request, text",
            ),
            ("request", "returns a map, not true or false"),
            ("text.min", "returns a text, not true or false"),
        ] {
            assert!(compiled(expression).is_err_and(|message| message.contains(says)), "{expression}");
        }
    }

    #[test]
    fn an_expression_sees_every_key_that_it_reads_whatever_others_read() {
        let raw = r#"{"metadata": {"name": "a"}, "data": {"a": "1", "b": "2"}}"#;
        let object = Candidate::decode(PolicyKind::ConfigMap, raw).unwrap();
        let mut judgement = Judgement::new(&object, Timestamp::UNIX_EPOCH);
        for expression in [
            "text.a == '1' && !('c' in text)",
            "text['b'] == '2'",
            "text.?b.orValue('') == '2' && text.?c.orValue('3') == '3'",
            "text.size() == 2",
            "text.all(key, text[key] in ['1', '2'])",
            "'b' in text && text.a == '1'",
        ] {
            assert_eq!(compiled(expression).unwrap().judge(&mut judgement, None, None), [], "{expression}");
        }
    }

    #[test]
    fn what_an_expression_speaks_of_is_known() {
        let subject = |expression: &str| compiled(expression).unwrap().expressions.remove(0).subject;
        let parts = |parts: &[Part]| Subject::Parts(parts.iter().cloned().collect());
        let key = |key: &str| Part::Key(key.to_owned());
        let label = |label: &str| Part::Label(label.to_owned());
        for (expression, expected) in [
            ("int(text.min) < int(text['max']) && !('x' in text)", vec![key("min"), key("max"), key("x")]),
            ("text.all(key, key != 'a')", vec![Part::Data]),
            ("object.data.all(key, text[key] != object.data['a'])", vec![Part::Data, key("a")]),
            ("object.metadata.name != 'a'", vec![]),
            ("'a' in object.metadata.labels && has(object.metadata.labels.b)", vec![label("a"), label("b")]),
            ("object.metadata.?labels.?a.orValue('') == text.?b.orValue('')", vec![label("a"), key("b")]),
            ("object.metadata.labels.size() < 9 && object.type == 'Opaque'", vec![Part::Labels, Part::Type]),
            ("object.metadata.all(field, field != 'a')", vec![Part::Everything]),
        ] {
            assert_eq!(subject(expression), parts(&expected), "{expression}");
        }
        assert_eq!(subject("oldObject == null || text.a == '1'"), Subject::Change);
    }
}
