//! The connection to the API server: which cluster, with which identity, by which client, and how many
//! requests at once.

mod answers;
mod client;
mod target;
mod throttle;

pub(crate) use answers::is_refusal;
pub use client::{ClientError, client};
pub use target::{Identity, Impersonated, Target, Trust};
pub use throttle::Throttle;
