//! CEL expressions over an object.

mod call;
mod cost;
mod parse;
mod run;
mod standard;
mod terms;
mod typing;

use std::{
    fmt,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};

use kube_cel::{
    KubeCelExt as _,
    cel::{
        Context, ExecutionError, Value,
        common::ast::{CallExpr, Expr, IdedExpr, LiteralValue},
        to_value,
    },
};
use serde::Serialize;

use self::{
    run::{Evaluation, Fault},
    terms::Terms,
};
use super::{Candidate, Judgement, Violation, violation::Subject};
use crate::{
    api::{Problem, Validation},
    validate::invalid,
};

/// It takes this many nanoseconds to make values of a byte of an object.
const MAKING: u64 = 20;
const VARIABLES: [&str; 4] = ["object", "oldObject", "request", "text"];

/// What the variable `request` shows of a write.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RequestFacts {
    /// CREATE or UPDATE.
    pub operation: String,
    /// The kind of the object.
    pub kind: RequestKind,
    /// Its resource.
    pub resource: RequestResource,
    /// The same: a policy speaks of nothing that the API server converts before it asks.
    pub request_kind: RequestKind,
    /// The same.
    pub request_resource: RequestResource,
    /// Its name; empty where it will be generated.
    pub name: String,
    /// Its namespace.
    pub namespace: String,
    /// Whether nothing will be stored.
    pub dry_run: bool,
    /// Who writes.
    pub user_info: RequestUser,
}

/// A kind, as the variable `request` shows it.
#[derive(Clone, Debug, Serialize)]
pub struct RequestKind {
    /// Its API group; empty for the core.
    pub group: String,
    /// Its version.
    pub version: String,
    /// Its name.
    pub kind: String,
}

/// A resource, as the variable `request` shows it.
#[derive(Clone, Debug, Serialize)]
pub struct RequestResource {
    /// Its API group; empty for the core.
    pub group: String,
    /// Its version.
    pub version: String,
    /// Its plural.
    pub resource: String,
}

/// Who writes, as the variable `request.userInfo` shows it.
#[derive(Clone, Debug, Serialize)]
pub struct RequestUser {
    /// User name.
    pub username: String,
    /// Groups.
    pub groups: Vec<String>,
}

/// The expressions of a policy, understood.
pub(super) struct Expressions {
    expressions: Vec<Expression>,
    functions: Option<Arc<Context<'static>>>,
}

struct Expression {
    rule: String,
    /// As it was written.
    source: Arc<str>,
    program: IdedExpr,
    message: String,
    variables: Vec<&'static str>,
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
            return Self { expressions: Vec::new(), functions: None };
        }
        let functions = Context::default().with_all();
        let expressions = specs.iter().enumerate().filter_map(|(index, spec)| {
            let field = format!("spec.validations[{index}].expression");
            match compile(&field, index, spec, &functions) {
                Ok(expression) => Some(expression),
                Err(problem) => {
                    problems.push(problem);
                    None
                }
            }
        });
        let expressions = expressions.collect();
        Self { expressions, functions: Some(Arc::new(functions)) }
    }

    /// Whether there are any.
    pub(super) fn is_any(&self) -> bool {
        !self.expressions.is_empty()
    }

    /// Judges an object. Outside of a write (`request` is absent) expressions about the write are left out.
    pub(super) fn judge(
        &self,
        judgement: &mut Judgement<'_>,
        mut old: Option<&mut Judgement<'_>>,
        request: Option<&dyn Fn() -> RequestFacts>,
    ) -> Vec<Violation> {
        let Some(functions) = &self.functions else { return Vec::new() };
        let is_judged = |one: &&Expression| request.is_some() || one.subject != Subject::Change;
        let judged: Vec<_> = self.expressions.iter().filter(is_judged).collect();
        let object = judgement.object;
        let asked: Vec<_> =
            judged.iter().copied().filter(|one| !judgement.evaluated.contains_key(&one.source)).collect();
        if !asked.is_empty() && !Self::evaluate(functions, &asked, judgement, old.take(), request) {
            return Vec::new();
        }
        let outcome = |one: &Expression| one.violation(judgement.evaluated.get(&one.source)?, object);
        judged.into_iter().filter_map(outcome).collect()
    }

    /// Evaluates what nobody has asked of the object yet. Whether it could be paid for.
    fn evaluate(
        functions: &Context<'static>,
        asked: &[&Expression],
        judgement: &mut Judgement<'_>,
        mut old: Option<&mut Judgement<'_>>,
        request: Option<&dyn Fn() -> RequestFacts>,
    ) -> bool {
        // Making values of it is linear.
        let object = judgement.object;
        let bytes = object.raw.len() + old.as_ref().map_or(0, |old| old.object.raw.len());
        if judgement.budget.spend_if_brief(MAKING.saturating_mul(bytes as u64)).is_err() {
            return false;
        }
        let used = VARIABLES.into_iter().filter(|name| asked.iter().any(|one| one.variables.contains(name)));
        let variables = used.map(|name| {
            let value = match name {
                "object" => judgement.as_object(),
                "oldObject" => old.as_mut().map_or(Value::Null, |old| old.as_object()),
                "request" => request.and_then(|request| to_value(request()).ok()).unwrap_or(Value::Null),
                _ => judgement.as_text(),
            };
            (name, value)
        });
        let variables = variables.collect();
        let mut evaluation = Evaluation::new(functions, variables, &mut judgement.budget);
        for expression in asked {
            // The library panics on some values: they must not get past the policy by that.
            let result = catch_unwind(AssertUnwindSafe(|| evaluation.run(&expression.program)));
            let result = result.unwrap_or(Err(Fault::Failed(ExecutionError::NoSuchOverload)));
            judgement.evaluated.insert(expression.source.clone(), Outcome::from(result));
        }
        true
    }
}

/// What an expression came to: the same for all policies that ask it of one write.
pub(super) enum Outcome {
    Holds,
    Fails,
    NoBoolean,
    Unevaluated(String),
    TooCostly,
}

impl From<Result<Value, Fault>> for Outcome {
    fn from(result: Result<Value, Fault>) -> Self {
        match result {
            Ok(Value::Bool(true)) => Self::Holds,
            Ok(Value::Bool(false)) => Self::Fails,
            Ok(_) => Self::NoBoolean,
            Err(Fault::Failed(error)) => Self::Unevaluated(reason(&error)),
            Err(Fault::TooCostly) => Self::TooCostly,
        }
    }
}

impl Expression {
    fn violation(&self, outcome: &Outcome, object: &Candidate<'_>) -> Option<Violation> {
        let (what, fix) = match outcome {
            Outcome::Holds => return None,
            Outcome::Fails => (self.message.clone(), "change what it speaks of"),
            Outcome::NoBoolean => ("the expression gives no boolean".to_owned(), "correct the policy"),
            Outcome::Unevaluated(reason) => {
                let what = format!("the expression cannot be evaluated here ({reason})");
                (what, "supply what it reads, or guard it in the policy, as in 'key' in text && …")
            }
            Outcome::TooCostly => {
                let what = format!("the expression costs too much on {} bytes of data", object.size());
                (what, "shorten the values, or have the policy look at less of them")
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

fn compile(
    field: &str,
    index: usize,
    spec: &Validation,
    functions: &Context<'_>,
) -> Result<Expression, Problem> {
    let program = parse::parse(&spec.expression).map_err(|message| invalid(field, message))?;
    let terms = Terms::of(&program);
    if let Some(unknown) = terms.variables.iter().find(|name| !VARIABLES.contains(name)) {
        return Err(invalid(
            field,
            format!("{unknown:?} is none of the variables object, oldObject, request, text"),
        ));
    }
    if let Some(unknown) = terms
        .functions
        .iter()
        .find(|name| !standard::ADDED.contains(&name.as_str()) && !is_registered(name, functions))
    {
        return Err(invalid(
            field,
            format!("{unknown:?} is no function of CEL or of Kubernetes' CEL library"),
        ));
    }
    if terms.is_too_costly {
        return Err(invalid(field, "nests all, exists, map or filter more than 2 deep; flatten it"));
    }
    if let Some(fault) = typing::fault(&program) {
        return Err(invalid(field, fault));
    }
    let uses = |name| terms.variables.contains(name);
    let subject = match uses("oldObject") || uses("request") {
        true => Subject::Change,
        false => Subject::Parts(terms.parts.clone()),
    };
    let variables = VARIABLES.into_iter().filter(|name| terms.variables.contains(name)).collect();
    let default = || format!("must hold: {}", spec.expression.trim());
    Ok(Expression {
        rule: format!("validations[{index}]"),
        source: spec.expression.as_str().into(),
        message: spec.message.clone().filter(|message| !message.is_empty()).unwrap_or_else(default),
        variables,
        subject,
        program,
    })
}

/// Whether a function exists: called with nothing useful, only an unknown one says that it is unknown.
fn is_registered(name: &str, functions: &Context<'_>) -> bool {
    let nothing = || IdedExpr { id: 0, expr: Expr::Literal(LiteralValue::Null) };
    let target = (!name.contains('.')).then(|| Box::new(nothing()));
    let call = CallExpr { func_name: name.to_owned(), target, args: vec![nothing(), nothing()] };
    let result = Value::resolve(&IdedExpr { id: 0, expr: Expr::Call(call) }, functions);
    !matches!(result, Err(ExecutionError::UndeclaredReference(unknown)) if *unknown == name)
}

/// Why an evaluation failed, without anything of the object: the library's own text quotes values.
fn reason(error: &ExecutionError) -> String {
    match error {
        ExecutionError::NoSuchKey(_) => "no such key".into(),
        ExecutionError::NoSuchOverload
        | ExecutionError::UnexpectedType { .. }
        | ExecutionError::UnsupportedTargetType { .. }
        | ExecutionError::ValuesNotComparable(..)
        | ExecutionError::UnsupportedBinaryOperator(..)
        | ExecutionError::UnsupportedUnaryOperator(..)
        | ExecutionError::NotSupportedAsMethod { .. } => "a value is of another type than expected".into(),
        ExecutionError::IndexOutOfBounds(_) => "index out of bounds".into(),
        ExecutionError::DivisionByZero(_) | ExecutionError::RemainderByZero(_) => "division by zero".into(),
        ExecutionError::Overflow(..) => "a number is out of range".into(),
        ExecutionError::FunctionError { function, .. } => format!("{function} does not take this value"),
        _ => "an error while evaluating".into(),
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::{super::violation::Part, *};
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
        assert_eq!(judged("object.data.min").as_deref(), Some("the expression gives no boolean"));
        assert!(judged("text.other == '1'").unwrap().contains("no such key"));
        assert!(judged("int(text['a.yaml']) == 1").unwrap().ends_with("(int does not take this value)"));
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

    #[test]
    fn what_cannot_run_is_refused_when_written() {
        for (expression, says) in [
            ("text.a >", "is no CEL expression"),
            ("self.a == 1", "\"self\" is none of the variables"),
            ("frob(text.a)", "\"frob\" is no function"),
            ("math.frob(1)", "\"math.frob\" is no function"),
            ("text.all(a, text.all(b, text.all(c, a == b)))", "more than 2 deep"),
            ("1 + 1", "gives a sum, never true or false"),
            ("text.min", "gives a text, never true or false"),
        ] {
            assert!(compiled(expression).is_err_and(|message| message.contains(says)), "{expression}");
        }
        assert!(compiled("text.all(a, text.exists(b, a == b))").is_ok());
    }

    #[test]
    fn the_deepest_tree_taken_is_evaluated_on_an_ordinary_stack() {
        assert_eq!(judged(&format!("{}1 > 0", "1 + ".repeat(29))), None);
        assert!(
            compiled(&format!("{}1 > 0", "1 + ".repeat(40)))
                .is_err_and(|message| message.contains("too deep"))
        );
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
