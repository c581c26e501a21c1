//! Carries out plans: the only folder that writes to the API server, apart from the lease.

mod ca_secret;
pub(crate) mod canary;
pub mod certificates;
pub mod copies;
mod dedup;
pub mod hooks;
pub mod keys;
pub mod leader;
pub(crate) mod manifest;
pub mod outcome;
pub mod report;
pub mod restart;
pub mod restart_report;
pub mod source_index;
pub mod stamp_guard;
pub mod status;
pub mod writer;
