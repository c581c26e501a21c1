//! Takes in what watches show: objects as the API server sends them become facts of the
//! [`World`](crate::model::World).

mod annotated;
mod declared;
pub mod object;
mod references;
mod rollout;
mod source_index;
pub mod watched;
pub mod workload;
mod written;

pub use written::AsWritten;
