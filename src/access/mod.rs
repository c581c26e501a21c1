//! Asks the API server whether an identity's rights suffice. Which questions, and what a refusal says, is
//! [`copyrator_core::authority`].

mod ask;
mod settle;

pub use ask::{AskError, Authorizer, CallerAuthorizer, LocalAuthorizer, ReviewAuthorizer};
pub(crate) use settle::ask;
pub use settle::{Answers, MOST_QUESTIONS, TOO_MANY, refused, settle};
