//! The counters of a listener, which have no labels, so that the number of series is bounded.

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

/// The counters of one listener. Clones share the counters.
#[derive(Clone, Debug, Default)]
pub struct ConnectionMetrics {
    /// Open connections, including handshakes.
    pub open: Gauge,
    /// Connections that the listener closed at once because of the listener's limit, or the limit for one
    /// address.
    pub refused: Counter,
    /// Handshakes that failed or took too long.
    pub handshakes_failed: Counter,
    /// Failed handshakes that the caller ended, for example because the caller does not trust our
    /// certificate.
    pub certificates_refused: Counter,
    /// Requests and connections refused by the rate limit of their address.
    pub limited: Counter,
    /// Requests refused because the certificate of their connection is no longer accepted.
    pub untrusted: Counter,
    /// Errors of `accept` itself, such as no free file descriptor.
    pub accepts_failed: Counter,
}

impl ConnectionMetrics {
    /// Registers the counters. The registry's prefix must name the listener.
    pub fn register(&self, registry: &mut Registry) {
        registry.register("connections", "Connections open now", self.open.clone());
        registry.register(
            "connections_refused",
            "Connections closed at once because there were too many in all, or from one address",
            self.refused.clone(),
        );
        registry.register(
            "handshakes_failed",
            "TLS handshakes that failed or took too long",
            self.handshakes_failed.clone(),
        );
        registry.register(
            "certificates_refused",
            "TLS handshakes that the caller aborted, for example because it does not trust the serving certificate",
            self.certificates_refused.clone(),
        );
        registry.register(
            "requests_limited",
            "Requests and connections rejected because an address sends too many requests",
            self.limited.clone(),
        );
        registry.register(
            "requests_untrusted",
            "Requests rejected because the client certificate of their connection is no longer trusted",
            self.untrusted.clone(),
        );
        registry.register(
            "accepts_failed",
            "Errors while accepting connections, such as too many open files",
            self.accepts_failed.clone(),
        );
    }
}
