//! The connection to the API server: cluster, identity, clients that read or write, and the limit of
//! concurrent requests.

use std::time::Duration;

mod answers;
mod api_server;
mod client;
mod error;
mod protobuf;
mod read_only;
mod small_pages;
mod target;
mod throttle;

pub(crate) use answers::is_refusal;
pub use api_server::ApiServer;
pub use client::{WriteClient, client, clients};
pub use error::ClientError;
pub use protobuf::metadata_as_json;
pub use target::{Identity, Impersonated, Target, Trust};
pub use throttle::Throttle;

/// Timeout of one write: less than the time between giving up leadership and the end of the Lease.
pub const WRITE_TIMEOUT: Duration = Duration::from_secs(4);
