//! Graceful shutdown of a listener, which answers every call.
//!
//! Endpoint changes take seconds to reach every API server, and each API server keeps connections to us open.
//! After the signal, every response therefore has `Connection: close` (on which the API server drops the
//! connection from its pool: kubernetes/kubernetes issue 127335). The listener accepts new connections for
//! the propagation delay, and closes after the delay.

use std::time::Duration;

use http::{HeaderValue, Response, header};
use tokio_util::sync::CancellationToken;

/// When and how a listener closes.
#[derive(Clone, Debug)]
pub struct Drain {
    /// Cancelled once, at the start of the shutdown.
    pub signal: CancellationToken,
    /// How long the listener accepts connections after the signal.
    pub propagation_delay: Duration,
    /// How long requests in flight may take after the propagation delay before the listener cuts them off.
    pub limit: Duration,
}

impl Drain {
    /// Returns a drain with ten seconds of propagation, as Gatekeeper's `--shutdown-delay`, and ten for
    /// requests in flight. With these times a pod ends within the usual grace period of 30 s.
    pub fn on(signal: CancellationToken) -> Self {
        Self { signal, propagation_delay: Duration::from_secs(10), limit: Duration::from_secs(10) }
    }

    /// Marks responses after the signal, so that the client does not use the connection again.
    pub(super) fn mark<B>(&self, response: &mut Response<B>) {
        if self.signal.is_cancelled() {
            response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
        }
    }

    /// Waits for the signal and the propagation delay after it. The listener closes afterwards.
    pub(super) async fn propagated(&self) {
        self.signal.cancelled().await;
        tokio::time::sleep(self.propagation_delay).await;
    }
}
