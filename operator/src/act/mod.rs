//! Carries out plans. Only this folder writes to the API server, apart from the lease. [`as_caller`] has no
//! plan: it sends the requests of a person.

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
