//! The life of the process: tasks, lease, certificate, client, drain.

mod client_ca;
mod leading;
mod leaf;
pub mod lease;
mod logging;
mod serve;
mod sight;
pub mod tasks;
mod watches;

pub use logging::{LogFormat, start_logging};
pub use serve::{ServeError, serve};
