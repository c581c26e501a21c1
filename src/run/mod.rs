//! The life of the process: tasks, leader election, certificates, shutdown.

mod client_ca;
mod leading;
mod leaf;
pub(crate) mod lease;
mod logging;
mod namespace_scope;
mod serve;
pub(crate) mod tasks;
mod watches;

pub(crate) use logging::{LogFormat, start_logging};
pub(crate) use serve::{ServeError, serve};
