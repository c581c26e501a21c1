//! The connection to the API server: which cluster, with which identity, by which client, and how many
//! requests at once.

mod answers;
mod client;
mod target;
mod throttle;

pub(crate) use answers::is_refusal;
pub(crate) use client::ClientError;
pub use client::client;
pub use target::Target;
pub(crate) use target::{Identity, Impersonated, Trust};
pub(crate) use throttle::Throttle;
