//! From the API server into the [`World`](crate::model::World): watches, content reduced to digests, answers
//! about authority. Nothing here writes to the API server, and nothing here decides.

pub mod content;
pub mod crds;
mod fingerprint;
pub mod hooks;
mod kept;
pub mod listing;
pub mod mounted;
pub mod pages;
pub mod place;
pub mod pods;
pub mod served;
pub mod watch;
