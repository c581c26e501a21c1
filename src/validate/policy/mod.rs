//! A `ConfigPolicy`, understood, and what it says of an object.
//!
//! Everything here is pure. No message quotes a value: a place (line and column) is enough to find it.

mod candidate;
mod cel;
mod cel_call;
mod cel_cost;
mod cel_parse;
mod cel_run;
mod cel_standard;
mod cel_terms;
mod cel_type;
mod compile;
mod data;
mod docker;
mod document;
mod fault;
mod format;
mod labels;
mod pattern;
mod pem;
mod properties;
mod re2;
mod schema;
mod schema_cost;
mod schema_shape;
mod scope;
mod toml_text;
mod tree;
mod violation;
mod walk;
mod write;

pub use candidate::{Candidate, CandidateError};
pub use cel::{RequestFacts, RequestKind, RequestResource, RequestUser};
pub use cel_cost::Budget;
pub use compile::CompiledPolicy;
pub use violation::{Place, Violation, printable};
pub use write::{Finding, Write};
