//! From a plan to the API server: the only folder that writes to it (the lease aside).

mod ca_secret;
pub(crate) mod canary;
pub mod certificates;
pub mod copies;
pub mod hooks;
pub mod keys;
pub mod lead;
pub(crate) mod manifest;
pub mod outcome;
pub mod report;
pub mod restart;
pub mod restart_report;
mod said;
pub mod source_index;
pub mod stamp_guard;
pub mod status;
pub mod writer;
