//! The parts of a serving process: listeners, supervised tasks, probes, metrics, mounted certificates, and a
//! graceful shutdown. This crate knows no Kubernetes.

#![warn(unreachable_pub)]

mod admin;
pub mod administer;
mod client_trust;
mod connection;
mod drain;
mod error;
mod limits;
mod listener;
mod metrics;
pub mod mounted;
pub mod mounted_pair;
mod peers;
mod permits;
mod readiness;
mod slow_peer;
pub mod tasks;
mod tls;

pub(crate) use admin::{Admin, admin_router};
pub use client_trust::ClientTrust;
pub use connection::Callers;
pub use drain::Drain;
pub use error::ServeError;
pub use limits::Limits;
pub use listener::{Drained, serve_https, serve_plain};
pub use metrics::ConnectionMetrics;
pub use peers::PeerRate;
pub use readiness::{Condition, Readiness};
pub use tls::ServingCert;

#[cfg(test)]
mod tests;
