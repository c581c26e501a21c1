//! Access checks: asks the API server whether an identity has the rights that it needs.
//! [`copyrator_core::authority`] decides which questions to ask, and words the refusals.

mod ask;
pub mod authority;
mod budget;
pub mod review;
pub mod right;
mod settle;

pub use ask::{AskError, Authorizer, CallerAuthorizer, LocalAuthorizer, ReviewAuthorizer};
pub use budget::{Budget, Rate};
pub(crate) use settle::MOST_QUESTIONS;
pub use settle::{Answers, ask, refused, settle};
