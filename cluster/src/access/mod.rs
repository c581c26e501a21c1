//! Access checks: asks the API server whether an identity has the rights that it needs.
//! [`copyrator_core::authority`] decides which questions to ask, and words the refusals.

mod ask;
pub mod authority;
mod budget;
pub mod review;
pub mod right;
mod settle;

pub use ask::{AskError, Authorizer};
pub use ask::{CallerAuthorizer, LocalAuthorizer, ReviewAuthorizer};
pub use budget::{Budget, Rate};
pub use settle::ask;
pub use settle::{Answers, MOST_QUESTIONS, refused, settle};
