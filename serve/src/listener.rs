//! The accept loop, which owns every connection it accepted.

use std::io;
use std::net::IpAddr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use axum::Router;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinError, JoinSet};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tracing::{error, warn};

use super::connection::{Callers, Connections, Transport};
use super::drain::Drain;
use super::limits::Limits;
use super::metrics::ConnectionMetrics;
use super::permits::ConnectionPermits;

/// The pause after `accept` failed for a local reason (no file descriptor, no memory). An immediate retry
/// would fail again, and a busy loop would make the shortage worse.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// The result of closing a listener.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Drained {
    /// Connections that were still busy at the drain's limit. Zero means that no call was lost.
    pub cut_off: usize,
}

/// Serves a router over TLS and HTTP/1.1 until drained. All tasks of the listener end with this future, even
/// if the caller drops it. If `callers` need certificates, `tls` must [demand
/// certificates](super::ServingCert::server_config).
pub async fn serve_https(
    listener: TcpListener,
    tls: Arc<rustls::ServerConfig>,
    callers: Callers,
    router: Router,
    drain: Drain,
    limits: Limits,
    metrics: ConnectionMetrics,
) -> Drained {
    serve(listener, Transport::Tls(TlsAcceptor::from(tls)), callers, router, drain, limits, metrics).await
}

/// Serves a router over plain HTTP/1.1 until drained: for probes and metrics.
pub async fn serve_plain(
    listener: TcpListener,
    router: Router,
    drain: Drain,
    limits: Limits,
    metrics: ConnectionMetrics,
) -> Drained {
    serve(listener, Transport::Plain, Callers::default(), router, drain, limits, metrics).await
}

async fn serve(
    listener: TcpListener,
    transport: Transport,
    callers: Callers,
    router: Router,
    drain: Drain,
    limits: Limits,
    metrics: ConnectionMetrics,
) -> Drained {
    let finish = CancellationToken::new();
    let shared = Arc::new(Connections {
        transport,
        callers,
        router,
        drain: drain.clone(),
        limits,
        metrics,
        finish: finish.clone(),
        permits: Arc::new(ConnectionPermits::new(limits)),
        told: Mutex::default(),
    });
    let mut connections = JoinSet::new();
    let closing = drain.propagated();
    tokio::pin!(closing);
    loop {
        tokio::select! {
            () = &mut closing => break,
            Some(ended) = connections.join_next() => report(ended),
            accepted = listener.accept() => match accepted {
                Ok((socket, peer)) => admit(socket, peer.ip(), &shared, &mut connections),
                Err(failure) => pause_after(&failure, &shared.metrics).await,
            },
        }
    }
    drop(listener);
    finish.cancel();
    let all_ended = async {
        while let Some(ended) = connections.join_next().await {
            report(ended);
        }
    };
    // On a timeout, the set still holds the remaining connections: they are counted and aborted.
    let _ = tokio::time::timeout(drain.limit, all_ended).await;
    let cut_off = connections.len();
    connections.shutdown().await;
    Drained { cut_off }
}

fn admit(socket: TcpStream, peer: IpAddr, shared: &Arc<Connections>, connections: &mut JoinSet<()>) {
    let Some(permit) = shared.permits.take(peer) else {
        shared.metrics.refused.inc();
        return; // closing the socket is the fastest refusal there is
    };
    // A handshake costs more than a request, so the rate limit must count connections too: a client that
    // fails the handshake never sends a request.
    if shared.callers.rate.as_ref().is_some_and(|rate| !rate.admits(peer, Instant::now())) {
        shared.metrics.limited.inc();
        return;
    }
    let shared = shared.clone();
    let open = Open::count(&shared.metrics);
    connections.spawn(async move {
        shared.serve(socket, peer, &permit).await;
        drop((permit, open)); // release the permit before the connection stops counting as open
    });
}

/// Counts a connection as open while it lives, also if its task panics or is aborted.
struct Open(ConnectionMetrics);

impl Open {
    fn count(metrics: &ConnectionMetrics) -> Self {
        metrics.open.inc();
        Self(metrics.clone())
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.0.open.dec();
    }
}

async fn pause_after(failure: &io::Error, metrics: &ConnectionMetrics) {
    metrics.accepts_failed.inc();
    // The client gave up between its SYN and our accept, which is harmless.
    if matches!(failure.kind(), io::ErrorKind::ConnectionAborted | io::ErrorKind::ConnectionReset) {
        return;
    }
    warn!(error = %failure, "cannot accept connections");
    tokio::time::sleep(ACCEPT_PAUSE).await;
}

fn report(ended: Result<(), JoinError>) {
    // Handlers catch their own panics; a panic caught by this code comes from the listener, and ends only one
    // connection.
    if let Err(failure) = ended.as_ref()
        && failure.is_panic()
    {
        error!(error = %failure, "a connection panicked");
    }
}
