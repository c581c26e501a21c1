//! A compiled `ConfigPolicy`, and its judgement of an object.
//!
//! This module is pure. No message quotes a value: line and column suffice to find the fault.

mod budget;
mod candidate;
mod compile;
mod data;
mod expressions;
mod fault;
mod format;
mod group;
mod judgement;
mod labels;
mod pattern;
mod request;
mod schema;
mod scope;
mod violation;
mod write;

use budget::Budget;
pub use candidate::{Candidate, CandidateError};
pub use compile::CompiledPolicy;
pub use group::{in_namespaces, policy_group, requirements};
pub use judgement::Judgement;
pub use request::{RequestFacts, RequestKind, RequestResource, RequestUser};
pub use violation::{Position, Violation, printable};
pub use write::{Finding, Write};
