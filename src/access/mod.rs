//! Asks the API server whether an identity's rights suffice. [`copyrator_core::authority`] says which
//! questions to ask, and words the refusals.

mod ask;
mod settle;

pub use ask::{AskError, Authorizer, CallerAuthorizer, LocalAuthorizer, ReviewAuthorizer};
pub(crate) use settle::ask;
pub use settle::{Answers, MOST_QUESTIONS, TOO_MANY, refused, settle};
