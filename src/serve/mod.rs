//! Listeners: TLS for the webhook, plain HTTP for probes and metrics, and a graceful shutdown.

pub(crate) mod admin;
mod client_trust;
mod connection;
pub(crate) mod drain;
pub(crate) mod limits;
pub(crate) mod listener;
pub(crate) mod metrics;
mod peers;
mod permits;
pub(crate) mod readiness;
mod slow_peer;
pub(crate) mod tls;

pub(crate) use admin::{Admin, admin_router};
pub(crate) use client_trust::ClientTrust;
pub(crate) use connection::Callers;
pub use drain::Drain;
pub use limits::Limits;
pub(crate) use listener::serve_https;
pub use listener::{Drained, serve_plain};
pub use metrics::ConnectionMetrics;
pub(crate) use peers::PeerRate;
pub(crate) use readiness::{Condition, Readiness};
pub use tls::ServingCert;

#[cfg(test)]
mod tests;
