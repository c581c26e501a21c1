//! Limits on the connections, time and memory that one client can use on a listener.

use std::time::Duration;

/// Limits of a listener. The listener's router limits bodies and requests in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Open connections. The listener closes any further connection right after accepting it. The API server
    /// opens about as many connections as it has calls in flight.
    pub max_connections: usize,
    /// Open connections of one address, so that an address that hoards connections leaves some for other
    /// addresses. Behind NAT, all API servers can be one address.
    pub max_connections_a_peer: usize,
    /// Whether a new connection at the limit replaces an old connection: the oldest idle connection or, if no
    /// connection is idle, the oldest connection whose request header is incomplete.
    pub makes_room: bool,
    /// Time from accepting to the end of the TLS handshake.
    pub handshake: Duration,
    /// Time from the first byte of a request to the end of its header.
    pub header: Duration,
    /// Time in which a client must read 64 KiB of a waiting answer, or the rest of the answer if the rest is
    /// shorter.
    pub stalled: Duration,
    /// Time between two requests on a kept connection. The idle time must be longer than the API server's own
    /// idle limit of about 90 s: the client must close first, or a call could be lost on its way.
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
