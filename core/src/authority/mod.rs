//! The identity that a rule, monitor or template acts with, and whether its rights suffice. Users gain no
//! rights through Copyrator.
//!
//! This module has the questions about rights, the identities, and the refusals; the module `access` sends
//! the questions to the API server.

mod grant;
mod identity;
mod lacking;
mod questions;
mod refusal;
mod template_questions;

pub use grant::{BoundSpec, Bounds};
pub use identity::{Identity, IdentityRequired, Subject, TrustedWriters, author};
pub use questions::listing_namespaces;
pub use questions::{
    Question, impersonation, monitor_questions, right_question, rule_questions, rule_questions_within,
};
pub use refusal::{NOT_ASKED, refusal, too_many};
pub use template_questions::template_questions;
