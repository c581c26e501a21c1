//! The life of the process: tasks, leader election, certificates, shutdown.

pub(crate) mod administer;
mod client_ca;
mod error;
mod leading;
mod leaf;
pub(crate) mod lease;
mod logging;
pub(crate) mod mounted_pair;
mod namespace_scope;
mod serve;
pub(crate) mod tasks;
mod watches;

pub(crate) use error::ServeError;
pub(crate) use logging::{LogFormat, start_logging};
pub(crate) use serve::serve;
