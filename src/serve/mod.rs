//! Listeners: TLS for the webhook, plain HTTP for probes and metrics, and a shutdown that loses no call.

pub mod admin;
mod client_trust;
mod connection;
pub mod drain;
pub mod limits;
pub mod listener;
pub mod metrics;
mod peers;
pub mod readiness;
mod slow_header;
pub mod tls;

pub use admin::{Admin, admin_router};
pub use client_trust::{ClientTrust, TrustError};
pub use connection::Callers;
pub use drain::Drain;
pub use limits::Limits;
pub use listener::{Drained, serve_https, serve_plain};
pub use metrics::ConnectionMetrics;
pub use peers::PeerRate;
pub use readiness::{Condition, Readiness};
pub use tls::{InstallError, ServingCert};

#[cfg(test)]
mod tests;
