//! What one client may take from a listener.

use std::time::Duration;

/// Limits of a listener. Its router limits bodies and requests in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Open connections; one more is closed as soon as it is accepted. The API server opens about as many as
    /// it has calls in flight.
    pub max_connections: usize,
    /// How many of them one address may have, so that an address that hoards connections leaves some for
    /// others. Behind NAT, all API servers can be one address.
    pub max_connections_a_peer: usize,
    /// Whether a connection on which nothing is asked, the oldest first, ends when one more comes and there is no place; where there is
    /// none, one whose request is not complete.
    pub makes_room: bool,
    /// Time from accepting to the end of the TLS handshake.
    pub handshake: Duration,
    /// Time from the first byte of a request to the end of its header.
    pub header: Duration,
    /// Time in which a client must take 64 KiB of an answer that waits for it, or what is left.
    pub stalled: Duration,
    /// Time between two requests on a kept connection. It must be longer than the API server's own idle limit
    /// of about 90 s: the client must close first, or a call could be lost on its way.
    pub idle: Duration,
    /// The read buffer of a connection in bytes, and so the largest header. hyper needs at least 8,192.
    pub buffer: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            max_connections: 1024,
            max_connections_a_peer: 512,
            makes_room: false,
            handshake: Duration::from_secs(5),
            header: Duration::from_secs(10),
            stalled: Duration::from_secs(30),
            idle: Duration::from_secs(120),
            // hyper's default of 400 KiB for each connection would let callers fill our memory.
            buffer: 64 * 1024,
        }
    }
}
