//! The connection to the API server: cluster, identity, clients that read or write, and the limit of
//! concurrent requests.

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
pub(crate) use api_server::ApiServer;
pub(crate) use client::client;
pub use client::{WriteClient, clients};
pub(crate) use error::ClientError;
pub use protobuf::metadata_as_json;
pub use target::Target;
pub(crate) use target::{Identity, Impersonated, Trust};
pub(crate) use throttle::Throttle;
