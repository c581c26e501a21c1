//! The way to the API server: which cluster, as whom, over which client, and how much it can bear at once.

mod answers;
mod client;
mod target;
mod throttle;

pub(crate) use answers::is_refusal;
pub use client::{ClientError, client};
pub use target::{Identity, Impersonated, Target, Trust};
pub use throttle::Throttle;
