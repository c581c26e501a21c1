//! Turns the objects that watches and lists bring into facts of the [`World`](crate::model::World).

mod after;
mod annotated;
mod declared;
pub mod granted;
pub mod instance;
pub mod managed_fields;
pub mod object;
mod references;
mod rollout;
pub mod selection;
mod source_index;
pub mod watched;
pub mod workload;
mod written;

pub use written::AsWritten;
