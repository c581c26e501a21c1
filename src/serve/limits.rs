//! What one client may take from a listener.

use std::time::Duration;

/// Bounds of a listener. Bodies and requests in flight are bounded by its router.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Connections open at once; one more is closed as soon as it is accepted. The API server opens about
    /// as many as it has calls in flight.
    pub max_connections: usize,
    /// Of those, how many one address may have, so that an address that hoards them leaves room for others.
    /// Behind NAT all API servers can be one address.
    pub max_connections_a_peer: usize,
    /// From accepting to the end of the TLS handshake.
    pub handshake: Duration,
    /// From a request's first byte to the end of its header.
    pub header: Duration,
    /// From one request to the next on a kept connection. Must be longer than the API server's own idle limit
    /// of about 90 s: the side that closes first must be the client, else a call can be lost on the way.
    pub idle: Duration,
    /// Read buffer of a connection, and so the largest header, in bytes. hyper wants at least 8,192.
    pub buffer: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            max_connections: 1024,
            max_connections_a_peer: 512,
            handshake: Duration::from_secs(5),
            header: Duration::from_secs(10),
            idle: Duration::from_secs(120),
            // hyper's own default of 400 KiB times the connections would be a way to fill our memory.
            buffer: 64 * 1024,
        }
    }
}
