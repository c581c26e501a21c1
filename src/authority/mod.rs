//! Whose rights a rule or monitor acts with, and whether they suffice: nobody gets through us what he could
//! not do himself.
//!
//! [`questions`](rule_questions), [`identity`](Identity) and grants (what a status proves) are pure; [`Authorizer`] asks
//! the API server.

mod ask;
mod grant;
mod identity;
mod lacking;
mod questions;
mod refusal;
mod settle;

pub use ask::{AskError, Authorizer, CallerAuthorizer, LocalAuthorizer, ReviewAuthorizer};
pub use identity::{Identity, IdentityRequired, Subject, TrustedWriters, author};
pub use questions::{Question, impersonation, monitor_questions, rule_questions, rule_questions_within};
pub use refusal::refusal;
pub use settle::{refused, settle};
