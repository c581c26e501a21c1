//! From the API server into the [`World`](crate::model::World): watches, content reduced to digests, answers
//! about authority. Nothing here writes to the API server, and nothing here decides.

mod annotated;
pub mod content;
pub mod crds;
mod declared;
mod fingerprint;
pub mod hooks;
mod kept;
pub mod listing;
pub mod mounted;
pub mod object;
pub mod pages;
pub mod place;
pub mod pods;
mod references;
mod rollout;
pub mod served;
mod source_index;
pub mod watch;
pub mod watched;
pub mod workload;
mod written;

pub use written::AsWritten;
