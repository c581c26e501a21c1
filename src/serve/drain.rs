//! Shuts down without losing a call.
//!
//! Changed endpoints take seconds to reach every API server, and each keeps connections to us open. So after
//! the signal, every response says `Connection: close` (the API server then drops the connection from its
//! pool: kubernetes/kubernetes issue 127335), and new connections are still accepted for the propagation
//! delay. Only then does the listener close.

use std::time::Duration;

use http::{HeaderValue, Response, header};
use tokio_util::sync::CancellationToken;

/// When and how a listener closes.
#[derive(Clone, Debug)]
pub struct Drain {
    /// Cancelled once, at the start of the shutdown.
    pub signal: CancellationToken,
    /// How long connections are still accepted after the signal.
    pub propagation_delay: Duration,
    /// How long requests in flight may take after that before they are cut off.
    pub limit: Duration,
}

impl Drain {
    /// Ten seconds of propagation, as Gatekeeper's `--shutdown-delay`, and ten for requests in flight. A pod
    /// then ends within the usual grace period of 30 s.
    pub fn on(signal: CancellationToken) -> Self {
        Self { signal, propagation_delay: Duration::from_secs(10), limit: Duration::from_secs(10) }
    }

    /// Marks a response once draining, so that the client does not use its connection again.
    pub(super) fn mark<B>(&self, response: &mut Response<B>) {
        if self.signal.is_cancelled() {
            response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
        }
    }

    /// Returns when the listener should close: the propagation delay after the signal.
    pub(super) async fn propagated(&self) {
        self.signal.cancelled().await;
        tokio::time::sleep(self.propagation_delay).await;
    }
}
