//! Why a serving process cannot start, or ends with a failure.

use crate::tasks::TasksError;

/// Why a serving process cannot start, or ends with a failure.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The process cannot listen on an address.
    #[error("cannot listen on {address} for {purpose}")]
    Listen {
        /// The address to listen on.
        address: std::net::SocketAddr,
        /// The listener's purpose, such as `webhook`.
        purpose: &'static str,
        /// The operating system's error.
        #[source]
        source: std::io::Error,
    },
    /// Handlers for signals cannot be installed.
    #[error("cannot catch signals")]
    Signals(#[source] std::io::Error),
    /// TLS cannot be configured.
    #[error("cannot set up TLS")]
    Tls(#[source] rustls::Error),
    /// A task failed, or ended too early.
    #[error(transparent)]
    Tasks(#[from] TasksError),
}
