//! Access checks: asks the API server whether an identity has the rights that it needs.
//! [`copyrator_core::authority`] decides which questions to ask, and words the refusals.

mod ask;
mod budget;
mod settle;

pub use ask::{AskError, Authorizer};
pub(crate) use ask::{CallerAuthorizer, LocalAuthorizer, ReviewAuthorizer};
pub(crate) use budget::{Budget, Rate};
pub(crate) use settle::ask;
pub(crate) use settle::{Answers, MOST_QUESTIONS, refused, settle};
