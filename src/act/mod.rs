//! From a plan to the API server: the only folder that writes to it (the lease aside).

mod ca_secret;
mod canary;
pub mod certificates;
pub mod copies;
pub mod hooks;
pub mod keys;
pub mod lead;
pub mod outcome;
pub mod report;
pub mod restart;
pub mod restart_report;
pub mod stamp_guard;
pub mod status;
