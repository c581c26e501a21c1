//! Whose rights a rule or monitor acts with, and whether they suffice: nobody can do through us what they may
//! not do themselves.
//!
//! [`questions`](rule_questions), [`identity`](Identity) and grants (what a status proves) are pure;
//! [`Authorizer`] asks the API server.

mod ask;
mod grant;
mod identity;
mod lacking;
mod questions;
mod refusal;
mod settle;

pub use ask::{AskError, Authorizer, CallerAuthorizer, LocalAuthorizer, ReviewAuthorizer};
pub(crate) use grant::Bounds;
pub use identity::{Identity, IdentityRequired, Subject, TrustedWriters, author};
pub(crate) use questions::listing_namespaces;
pub use questions::{
    Question, deletion, impersonation, monitor_questions, rule_questions, rule_questions_within,
};
pub use refusal::{refusal, too_many};
pub(crate) use settle::NOT_ASKED;
pub use settle::{Answers, MOST_QUESTIONS, TOO_MANY, refused, settle};
