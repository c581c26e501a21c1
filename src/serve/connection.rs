//! One connection, from its first byte to its last.

use std::convert::Infallible;
use std::sync::Arc;

use axum::Router;
use http::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tower::Service as _;
use tracing::debug;

use super::drain::Drain;
use super::limits::Limits;
use super::metrics::ConnectionMetrics;
use super::slow_header::{Phase, SlowHeader};

/// How bytes become HTTP.
pub(super) enum Transport {
    Plain,
    Tls(TlsAcceptor),
}

/// What every connection of a listener shares.
pub(super) struct Connections {
    pub(super) transport: Transport,
    pub(super) router: Router,
    pub(super) drain: Drain,
    pub(super) limits: Limits,
    pub(super) metrics: ConnectionMetrics,
    /// Cancelled when the listener has closed: finish the request under way, then end.
    pub(super) finish: CancellationToken,
}

impl Connections {
    /// Serves one client until it or we have had enough. Failures are its own affair: counted, not returned.
    pub(super) async fn serve(self: Arc<Self>, socket: TcpStream) {
        // A response is one small write; waiting to fill a packet only delays it.
        if let Err(error) = socket.set_nodelay(true) {
            debug!(%error, "cannot set TCP_NODELAY");
        }
        let Transport::Tls(acceptor) = &self.transport else { return self.speak(socket).await };
        match tokio::time::timeout(self.limits.handshake, acceptor.accept(socket)).await {
            Ok(Ok(stream)) => self.speak(stream).await,
            Ok(Err(error)) => self.handshake_failed(&error.to_string()),
            Err(_) => self.handshake_failed("took too long"),
        }
    }

    fn handshake_failed(&self, reason: &str) {
        self.metrics.handshakes_failed.inc();
        debug!(reason, "TLS handshake failed");
    }

    async fn speak(&self, stream: impl AsyncRead + AsyncWrite + Unpin) {
        let phase = Phase::default();
        let stream = SlowHeader::new(stream, phase.clone(), self.limits.header);
        let service = service_fn(|request| self.answer(request, &phase));
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(self.limits.idle)
            .max_buf_size(self.limits.buffer)
            .serve_connection(TokioIo::new(stream), service);
        tokio::pin!(connection);
        let ended = tokio::select! {
            ended = &mut connection => ended,
            () = self.finish.cancelled() => {
                connection.as_mut().graceful_shutdown();
                connection.await
            }
        };
        if let Err(error) = ended {
            debug!(%error, "connection ended early");
        }
    }

    async fn answer(
        &self,
        request: Request<Incoming>,
        phase: &Phase,
    ) -> Result<axum::response::Response, Infallible> {
        phase.serving();
        // A router is always ready and cheap to clone; what sheds load is a layer inside it.
        let mut response = self.router.clone().call(request).await?;
        self.drain.mark(&mut response);
        phase.idle();
        Ok(response)
    }
}
