//! The life of the process: tasks, leader election, certificates, shutdown.

mod causes;
mod client_ca;
mod error;
mod leading;
mod leaf;
pub(crate) mod lease;
mod namespace_scope;
mod serve;
mod watches;

pub use error::OperatorError;
pub use serve::serve;
