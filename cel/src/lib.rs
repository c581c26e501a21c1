#![doc = include_str!("../README.md")]
#![warn(unreachable_pub)]

mod budget;
mod call;
mod cost;
mod environment;
mod error;
mod json;
mod parse;
mod pattern;
mod re2;
mod run;
mod standard;
mod terms;
mod typing;

pub use budget::{Budget, Exhausted};
pub use environment::{Environment, Expression};
pub use error::{CompileError, EvaluationError};
pub use json::to_value;
pub use kube_cel::cel::{
    Value,
    objects::{Key, Map},
};
pub use pattern::{Pattern, PatternError};
pub use run::{Evaluation, held};
pub use terms::{Path, RESERVED};
pub use typing::Type;
