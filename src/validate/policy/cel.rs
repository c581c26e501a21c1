//! CEL expressions over an object.

use std::{collections::BTreeMap, fmt, sync::Arc};

use kube_cel::{
    KubeCelExt as _,
    cel::{
        Context, ExecutionError, Value,
        common::ast::{CallExpr, Expr, IdedExpr, LiteralValue},
        parser::Parser,
        to_value,
    },
};
use serde::Serialize;

use super::{Candidate, Violation, cel_terms::Terms, violation::Subject};
use crate::{
    api::{Problem, Validation},
    validate::invalid,
};

const VARIABLES: [&str; 4] = ["object", "oldObject", "request", "text"];

/// What the variable `request` shows of a write.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RequestFacts {
    /// CREATE or UPDATE.
    pub operation: String,
    /// The kind of the object.
    pub kind: String,
    /// Its name; empty where it will be generated.
    pub name: String,
    /// Its namespace.
    pub namespace: String,
    /// Whether nothing will be stored.
    pub dry_run: bool,
    /// Who writes.
    pub user_info: RequestUser,
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

    /// Judges an object. Outside of a write (`request` is absent) expressions about the write are left out.
    pub(super) fn judge(
        &self,
        object: &Candidate<'_>,
        old: Option<&Candidate<'_>>,
        request: Option<&RequestFacts>,
    ) -> Vec<Violation> {
        let Some(functions) = &self.functions else { return Vec::new() };
        let about_the_write = |expression: &Expression| expression.subject == Subject::Change;
        let judged = self.expressions.iter().filter(|one| request.is_some() || !about_the_write(one));
        judged
            .filter_map(|expression| {
                let mut context = functions.new_inner_scope();
                for name in &expression.variables {
                    let value = match *name {
                        "object" => object_value(Some(object)),
                        "oldObject" => object_value(old),
                        "request" => {
                            request.and_then(|request| to_value(request).ok()).unwrap_or(Value::Null)
                        }
                        _ => text_value(object),
                    };
                    context.add_variable_from_value(*name, value);
                }
                expression.violation(&Value::resolve(&expression.program, &context))
            })
            .collect()
    }
}

impl Expression {
    fn violation(&self, result: &Result<Value, ExecutionError>) -> Option<Violation> {
        let (what, fix) = match result {
            Ok(Value::Bool(true)) => return None,
            Ok(Value::Bool(false)) => (self.message.clone(), "change what it speaks of"),
            Ok(_) => ("the expression gives no boolean".to_owned(), "correct the policy"),
            Err(error) => {
                let what = format!("the expression cannot be evaluated here ({})", reason(error));
                (what, "supply what it reads, or guard it in the policy, as in 'key' in text && …")
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
    let program = Parser::new().enable_optional_syntax(true).parse(&spec.expression).map_err(|errors| {
        let first = errors.errors.first();
        let message = first.map_or_else(String::new, |error| {
            format!(" (line {} column {}: {})", error.pos.0, error.pos.1, error.msg)
        });
        invalid(field, format!("is no CEL expression{message}"))
    })?;
    let terms = Terms::of(&program);
    if let Some(unknown) = terms.variables.iter().find(|name| !VARIABLES.contains(name)) {
        return Err(invalid(
            field,
            format!("{unknown:?} is none of the variables object, oldObject, request, text"),
        ));
    }
    if let Some(unknown) = terms.functions.iter().find(|name| !is_registered(name, functions)) {
        return Err(invalid(
            field,
            format!("{unknown:?} is no function of CEL or of Kubernetes' CEL library"),
        ));
    }
    if terms.too_deep {
        return Err(invalid(field, "nests all, exists, map or filter more than 2 deep; flatten it"));
    }
    let uses = |name| terms.variables.contains(name);
    let subject = if uses("oldObject") || uses("request") {
        Subject::Change
    } else if uses("object") || terms.whole_text {
        Subject::Whole
    } else {
        Subject::Keys(terms.text_keys.iter().map(|key| (*key).to_owned()).collect())
    };
    let variables = VARIABLES.into_iter().filter(|name| terms.variables.contains(name)).collect();
    let default = || format!("must hold: {}", spec.expression.trim());
    Ok(Expression {
        rule: format!("validations[{index}]"),
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

fn object_value(object: Option<&Candidate<'_>>) -> Value {
    let json = object.and_then(|object| serde_json::from_str::<serde_json::Value>(object.raw).ok());
    json.and_then(|json| to_value(json).ok()).unwrap_or(Value::Null)
}

fn text_value(object: &Candidate<'_>) -> Value {
    let entries = object.data.iter().map(|(key, value)| {
        let value = match std::str::from_utf8(value) {
            Ok(text) => Value::from(text.to_owned()),
            Err(_) => Value::Bytes(Arc::new(value.to_vec())),
        };
        (key.clone().into_owned(), value)
    });
    entries.collect::<BTreeMap<_, _>>().into_iter().collect::<std::collections::HashMap<_, _>>().into()
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
