//! Carries out plans. Only this folder and the code of the Lease write for the operator.

mod ca_secret;
pub(crate) mod certificates;
mod conflict;
pub(crate) mod copies;
mod dedup;
pub(crate) mod hooks;
pub(crate) mod instance_status;
pub(crate) mod keys;
pub(crate) mod leader;
pub(crate) mod report;
pub(crate) mod restart;
pub(crate) mod restart_report;
mod restarts_reported;
pub(crate) mod source_index;
pub(crate) mod stamp_guard;
pub(crate) mod status;
mod successor;
pub(crate) mod writer;
