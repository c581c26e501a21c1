//! The life of the process: tasks, leader election, certificates, shutdown.

mod client_ca;
mod leading;
mod leaf;
pub mod lease;
mod logging;
mod namespace_scope;
mod serve;
pub mod tasks;
mod watches;

pub use logging::{LogFormat, start_logging};
pub use serve::{ServeError, serve};
