//! Whose rights a rule or monitor acts with, and whether they suffice: nobody can do through us what they may
//! not do themselves.
//!
//! Here stand the questions, the identities they are about, and the refusals. The operator asks the API server.

mod grant;
mod identity;
mod lacking;
mod questions;
mod refusal;

pub use grant::Bounds;
pub use identity::{Identity, IdentityRequired, Subject, TrustedWriters, author};
pub use questions::listing_namespaces;
pub use questions::{
    Question, deletion, impersonation, monitor_questions, rule_questions, rule_questions_within,
};
pub use refusal::{NOT_ASKED, refusal, too_many};
