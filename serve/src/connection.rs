//! One connection, from its first byte to its last.

use std::convert::Infallible;
use std::io;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::Body;
use axum::response::Response;
use http::{HeaderValue, Request, StatusCode, header};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tower::Service as _;
use tracing::{debug, warn};

use super::client_trust::{Caller, ClientTrust};
use super::drain::Drain;
use super::limits::Limits;
use super::metrics::ConnectionMetrics;
use super::peers::PeerRate;
use super::permits::{ConnectionPermit, ConnectionPermits};
use super::slow_peer::{Phase, SlowPeer};

/// Shortest time between two log messages about refused client certificates.
const TELL_EVERY: Duration = Duration::from_secs(60);

/// Which callers are accepted, and how fast they may send requests. By default, a listener accepts any caller
/// at any rate.
#[derive(Clone, Debug, Default)]
pub struct Callers {
    /// The client certificates that callers need; `None`: callers need no certificate.
    pub trust: Option<ClientTrust>,
    /// The rate limit for each address; `None`: no limit.
    pub rate: Option<PeerRate>,
}

/// How bytes become HTTP: TLS or plain.
pub(super) enum Transport {
    Plain,
    Tls(TlsAcceptor),
}

/// The state that all connections of a listener share.
pub(super) struct Connections {
    pub(super) transport: Transport,
    pub(super) router: Router,
    pub(super) drain: Drain,
    pub(super) callers: Callers,
    pub(super) limits: Limits,
    pub(super) metrics: ConnectionMetrics,
    /// Cancelled when the listener has closed: connections finish the current request and end.
    pub(super) finish: CancellationToken,
    pub(super) permits: Arc<ConnectionPermits>,
    /// When the log last reported a refused certificate.
    pub(super) told: Mutex<Option<Instant>>,
}

/// One connection: its phase, the signal to give up its permit, and its caller.
struct Client {
    phase: Phase,
    leave: CancellationToken,
    peer: IpAddr,
    caller: Option<Caller>,
}

impl Connections {
    /// Serves one connection until either side ends it. Counts failures and does not return them.
    pub(crate) async fn serve(self: Arc<Self>, socket: TcpStream, peer: IpAddr, permit: &ConnectionPermit) {
        // A response is one small write; waiting to fill a packet would only delay it.
        if let Err(error) = socket.set_nodelay(true) {
            debug!(%error, "cannot set TCP_NODELAY");
        }
        let (phase, leave) = (permit.phase.clone(), permit.leave.clone());
        let client = |caller| Client { phase, leave, peer, caller };
        let Transport::Tls(acceptor) = &self.transport else { return self.speak(socket, client(None)).await };
        // The caller is created before the handshake: if a new bundle is installed during the handshake, the
        // next request checks the certificate again.
        let caller = self.callers.trust.as_ref().map(ClientTrust::caller);
        let accepted = tokio::select! {
            accepted = tokio::time::timeout(self.limits.handshake, acceptor.accept(socket)) => accepted,
            () = permit.leave.cancelled() => return,
        };
        match accepted {
            Ok(Ok(stream)) => {
                let caller = caller.map(|caller| caller.presented(stream.get_ref().1.peer_certificates()));
                self.speak(stream, client(caller)).await
            }
            Ok(Err(error)) => self.handshake_failed(&error),
            Err(_) => self.handshake_failed(&io::Error::from(io::ErrorKind::TimedOut)),
        }
    }

    fn handshake_failed(&self, error: &io::Error) {
        self.metrics.handshakes_failed.inc();
        debug!(%error, "TLS handshake failed");
        let cause = error.get_ref().and_then(|cause| cause.downcast_ref::<rustls::Error>());
        if let Some(rustls::Error::AlertReceived(_)) = cause {
            self.metrics.certificates_refused.inc();
        }
        if let Some(cause @ (rustls::Error::NoCertificatesPresented | rustls::Error::InvalidCertificate(_))) =
            cause
            && self.may_tell()
        {
            warn!(%cause, "refused a caller without a client certificate that --client-ca accepts");
        }
    }

    /// Whether to log a refused certificate. Any client that can connect can fail a handshake, and must not
    /// fill the log.
    fn may_tell(&self) -> bool {
        let (mut told, now) = (self.told.lock().unwrap_or_else(PoisonError::into_inner), Instant::now());
        let may = told.is_none_or(|told| now.duration_since(told) >= TELL_EVERY);
        if may {
            *told = Some(now);
        }
        may
    }

    async fn speak(&self, stream: impl AsyncRead + AsyncWrite + Unpin, client: Client) {
        let stream = SlowPeer::new(stream, client.phase.clone(), self.limits);
        let service = service_fn(|request| self.answer(request, &client));
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
            // An idle connection ends at once. A request that has just begun still gets its answer.
            () = client.leave.cancelled() => {
                connection.as_mut().graceful_shutdown();
                let ended = tokio::time::timeout(self.limits.stalled, connection).await;
                ended.unwrap_or(Ok(()))
            }
        };
        if let Err(error) = ended {
            debug!(%error, "connection ended early");
        }
    }

    async fn answer(&self, request: Request<Incoming>, client: &Client) -> Result<Response, Infallible> {
        client.phase.serving();
        let mut response = match self.turned_away(client) {
            Some(response) => response,
            // A router is always ready and cheap to clone; a layer inside it sheds load.
            None => self.router.clone().call(request).await?,
        };
        self.drain.mark(&mut response);
        if self.limits.makes_room {
            // A stream of events keeps its connection busy for minutes after the handler has returned.
            let answering = Answering(client.phase.clone());
            return Ok(response.map(|body| {
                Body::new(body.map_frame(move |frame| {
                    let _answering = &answering;
                    frame
                }))
            }));
        }
        client.phase.idle();
        Ok(response)
    }

    /// Returns the answer to a caller that is no longer trusted, or exceeds the rate limit.
    fn turned_away(&self, client: &Client) -> Option<Response> {
        if client.caller.as_ref().is_some_and(|caller| !caller.is_trusted()) {
            self.metrics.untrusted.inc();
            let message = "copyrator: the client certificate of this connection is not trusted any more\n";
            let mut response = refusal(StatusCode::FORBIDDEN, message);
            response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
            return Some(response);
        }
        if self.callers.rate.as_ref().is_some_and(|rate| !rate.admits(client.peer, Instant::now())) {
            self.metrics.limited.inc();
            let message = "copyrator: too many requests from this address (--peer-rate)\n";
            let mut response = refusal(StatusCode::TOO_MANY_REQUESTS, message);
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
            return Some(response);
        }
        None
    }
}

/// An answer that hyper is sending. The answer's body owns this value; when the body is dropped, the
/// connection is idle.
struct Answering(Phase);

impl Drop for Answering {
    fn drop(&mut self) {
        self.0.idle();
    }
}

fn refusal(status: StatusCode, message: &'static str) -> Response {
    let mut response = Response::new(Body::from(message));
    *response.status_mut() = status;
    let text = HeaderValue::from_static("text/plain; charset=utf-8");
    response.headers_mut().insert(header::CONTENT_TYPE, text);
    response
}
