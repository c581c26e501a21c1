//! Errors of compiling and of evaluating an expression.

use kube_cel::cel::ExecutionError;
use thiserror::Error;

use crate::terms;

/// An error in the text of an expression. The message continues "the expression …".
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum CompileError {
    /// The expression is too long.
    #[error("is longer than {} bytes; split the expression", terms::LONGEST)]
    TooLong,
    /// The parser panics on the expression, or the parser's thread cannot start.
    #[error("cannot be parsed; simplify the expression")]
    Unreadable,
    /// The parser refuses the expression: the position, and the reason.
    #[error("is not a valid CEL expression ({0})")]
    Syntax(String),
    /// The syntax tree is too deep to be evaluated on an ordinary stack.
    #[error("nests too deep; flatten the expression, or split it")]
    TooDeep,
    /// The expression reads a variable that the environment does not declare.
    #[error("{name:?} is not a variable here; the variables are {}", known.join(", "))]
    UnknownVariable {
        /// The variable's name, as the expression writes it.
        name: String,
        /// The declared variables.
        known: Vec<String>,
    },
    /// The expression calls a function that does not exist.
    #[error("{0:?} is not a function of CEL or of Kubernetes' CEL library")]
    UnknownFunction(String),
    /// Loops nest too deep: each level multiplies the work.
    #[error(
        "nests all, exists, map or filter more than {} deep; flatten the expression",
        terms::DEEPEST_LOOP
    )]
    LoopsTooDeep,
    /// The expression, or an operand of a logical operator in it, can never be true or false: the reason.
    #[error("{0}")]
    NoCondition(String),
}

/// Why an expression has no value. The message never quotes the values of variables.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum EvaluationError {
    /// The expression cannot be evaluated on these values.
    #[error("{0}")]
    Failed(String),
    /// The evaluation costs more than the budget has.
    #[error("costs too much")]
    TooCostly,
}

/// Returns why an evaluation failed. The library's own message is not used, because it quotes values.
pub(crate) fn reason(error: &ExecutionError) -> String {
    match error {
        ExecutionError::NoSuchKey(_) => {
            "no such key: read a key that may be missing with .? and a default, as in a.?b.?c.orValue(1)"
                .into()
        }
        ExecutionError::NoSuchOverload
        | ExecutionError::UnexpectedType { .. }
        | ExecutionError::UnsupportedTargetType { .. }
        | ExecutionError::ValuesNotComparable(..)
        | ExecutionError::UnsupportedBinaryOperator(..)
        | ExecutionError::UnsupportedUnaryOperator(..)
        | ExecutionError::NotSupportedAsMethod { .. } => "a value has an unexpected type".into(),
        ExecutionError::IndexOutOfBounds(_) => "index out of bounds".into(),
        ExecutionError::DivisionByZero(_) | ExecutionError::RemainderByZero(_) => "division by zero".into(),
        ExecutionError::Overflow(..) => "a number is out of range".into(),
        ExecutionError::FunctionError { function, .. } => format!("{function} does not accept this value"),
        _ => "an error while evaluating".into(),
    }
}
