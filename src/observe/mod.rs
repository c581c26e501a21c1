//! Reads the API server into the [`World`](crate::model::World): watches, and content reduced to digests.
//! Nothing here writes to the API server, and nothing here decides.

pub mod content;
mod content_cache;
pub mod crds;
mod fingerprint;
pub mod hooks;
pub mod listing;
pub mod mounted;
pub mod namespace;
pub mod pages;
pub mod pods;
pub mod served;
pub mod watch;
