//! What is wrong with an expression, and why one has no value.

use kube_cel::cel::ExecutionError;
use thiserror::Error;

use crate::terms;

/// What is wrong with an expression as it is written. The message continues "the expression …".
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum CompileError {
    /// It is too long to be read.
    #[error("is longer than {} bytes; split it", terms::LONGEST)]
    TooLong,
    /// The parser panics on it, or there is no thread to read it on.
    #[error("cannot be read; simplify it")]
    Unreadable,
    /// The parser refuses it: where, and why.
    #[error("is no CEL expression ({0})")]
    Syntax(String),
    /// Its syntax tree is too deep to be evaluated on an ordinary stack.
    #[error("nests too deep; flatten it, or split it into several")]
    TooDeep,
    /// It reads a variable that the environment does not declare.
    #[error("{name:?} is none of the variables {}", known.join(", "))]
    UnknownVariable {
        /// Its name, as the expression writes it.
        name: String,
        /// Those that there are.
        known: Vec<String>,
    },
    /// It calls a function that does not exist.
    #[error("{0:?} is no function of CEL or of Kubernetes' CEL library")]
    UnknownFunction(String),
    /// Its loops nest too deep: each level multiplies the work.
    #[error("nests all, exists, map or filter more than {} deep; flatten it", terms::DEEPEST_LOOP)]
    LoopsTooDeep,
    /// It can never be true or false, or a part of it cannot that must: what it is instead.
    #[error("{0}")]
    NoCondition(String),
}

/// Why an expression has no value. It quotes nothing of the values that it was evaluated on.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum EvaluationError {
    /// It cannot be evaluated on these values.
    #[error("{0}")]
    Failed(String),
    /// It costs more than the budget has.
    #[error("costs too much")]
    TooCostly,
}

/// Why an evaluation failed, without anything of the values: the library's own text quotes them.
pub(crate) fn reason(error: &ExecutionError) -> String {
    match error {
        ExecutionError::NoSuchKey(_) => {
            "no such key: read what may be absent with .? and a default, as in a.?b.?c.orValue(1)".into()
        }
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
