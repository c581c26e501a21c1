#![allow(clippy::unwrap_used, clippy::expect_used)] // tests, their set-up functions too
//! Listeners with clients that behave well, behave badly, or are connected while we shut down.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

use axum::Router;
use axum::routing::get;
use copyrator_certs::Authority;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_util::sync::CancellationToken;

use super::{Callers, ConnectionMetrics, Drain, Drained, Limits, ServingCert, serve_https};

mod callers;

/// Far longer than anything here takes: reaching it means that the condition never comes.
const DEADLINE: Duration = Duration::from_secs(20);
const HOUR: Duration = Duration::from_secs(3600);

struct Server {
    address: std::net::SocketAddr,
    authority: Authority,
    certificate: ServingCert,
    metrics: ConnectionMetrics,
    drain: CancellationToken,
    tasks: JoinSet<Drained>,
}

type Client = BufReader<TlsStream<TcpStream>>;

fn router() -> Router {
    let large = get(|| async { vec![0; 32 << 20] });
    Router::new().route("/", get(|| async { "hello" })).route("/large", large).route(
        "/slow",
        get(|| async {
            tokio::time::sleep(Duration::from_millis(20)).await;
            "slow"
        }),
    )
}

impl Server {
    async fn start(limits: Limits, propagation_delay: Duration) -> Self {
        Self::with(Callers::default(), limits, propagation_delay).await
    }

    async fn with(callers: Callers, limits: Limits, propagation_delay: Duration) -> Self {
        let authority = Authority::issue("ca", SystemTime::now(), HOUR).unwrap();
        let certificate = ServingCert::new();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let drain = CancellationToken::new();
        let mut server = Self {
            address: listener.local_addr().unwrap(),
            authority,
            certificate,
            metrics: ConnectionMetrics::default(),
            drain: drain.clone(),
            tasks: JoinSet::new(),
        };
        server.install("hook.test");
        let tls = server.certificate.server_config(callers.trust.as_ref()).unwrap();
        let drain = Drain { signal: drain, propagation_delay, limit: DEADLINE };
        let metrics = server.metrics.clone();
        server.tasks.spawn(serve_https(listener, tls, callers, router(), drain, limits, metrics));
        server
    }

    fn install(&self, name: &str) {
        let leaf = self.authority.issue_leaf(&[name.to_owned()], &[], SystemTime::now(), HOUR).unwrap();
        self.certificate.install(&leaf.chain_pem, &leaf.key_pem).unwrap();
    }

    fn connector(&self, alpn: &[&[u8]]) -> TlsConnector {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(self.authority.cert_pem().as_bytes()).unwrap()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        let mut config = config.unwrap().with_root_certificates(roots).with_no_client_auth();
        config.alpn_protocols = alpn.iter().map(|name| name.to_vec()).collect();
        TlsConnector::from(Arc::new(config))
    }

    async fn connect(&self) -> std::io::Result<Client> {
        connect(&self.connector(&[]), self.address).await
    }

    async fn drained(mut self) -> Drained {
        self.drain.cancel();
        soon(self.tasks.join_next()).await.unwrap().unwrap()
    }
}

async fn soon<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(DEADLINE, future).await.expect("the condition never came")
}

async fn until(condition: impl Fn() -> bool) {
    let poll = async {
        while !condition() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    soon(poll).await;
}

async fn connect(connector: &TlsConnector, address: std::net::SocketAddr) -> std::io::Result<Client> {
    let socket = TcpStream::connect(address).await?;
    Ok(BufReader::new(connector.connect(ServerName::try_from("hook.test").unwrap(), socket).await?))
}

/// Sends one request. Returns the body of the answer, and whether the connection may be used again.
async fn ask(client: &mut Client, path: &str) -> std::io::Result<(String, bool)> {
    client.write_all(format!("GET {path} HTTP/1.1\r\nHost: hook.test\r\n\r\n").as_bytes()).await?;
    let (mut line, mut length, mut keep) = (String::new(), 0, true);
    loop {
        line.clear();
        if client.read_line(&mut line).await? == 0 {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
        match line.trim_end().to_ascii_lowercase().split_once(": ") {
            Some(("content-length", value)) => length = value.parse().unwrap(),
            Some(("connection", "close")) => keep = false,
            None if line.trim_end().is_empty() => break,
            _ => {}
        }
    }
    let mut body = vec![0; length];
    client.read_exact(&mut body).await?;
    Ok((String::from_utf8(body).unwrap(), keep))
}

#[tokio::test]
async fn a_stalled_handshake_holds_nobody_up_and_ends() {
    let limits = Limits { handshake: Duration::from_secs(1), ..Limits::default() };
    let server = Server::start(limits, Duration::ZERO).await;
    let mut stalled = Vec::new();
    for _ in 0..20 {
        stalled.push(TcpStream::connect(server.address).await.unwrap());
    }
    let mut client = soon(server.connect()).await.unwrap();
    assert_eq!(soon(ask(&mut client, "/")).await.unwrap(), ("hello".to_owned(), true));
    until(|| server.metrics.handshakes_failed.get() == 20).await;
    for mut socket in stalled {
        assert_eq!(soon(socket.read(&mut [0; 16])).await.unwrap_or(0), 0);
    }
    drop(client);
    assert_eq!(server.drained().await, Drained { cut_off: 0 });
}

#[tokio::test]
async fn a_trickled_header_is_cut_off_and_an_idle_connection_is_not() {
    let limits = Limits { header: Duration::from_millis(100), ..Limits::default() };
    let server = Server::start(limits, Duration::ZERO).await;
    let mut idle = soon(server.connect()).await.unwrap();
    soon(ask(&mut idle, "/")).await.unwrap();

    let mut slow = soon(server.connect()).await.unwrap();
    slow.write_all(b"GET / HTTP/1.1\r\nHost:").await.unwrap();
    // hyper may answer 408 first; then the connection is over, whatever more we would send.
    soon(slow.read_to_end(&mut Vec::new())).await.ok();
    until(|| server.metrics.open.get() == 1).await;

    assert_eq!(soon(ask(&mut idle, "/")).await.unwrap(), ("hello".to_owned(), true));
    drop(idle);
    server.drained().await;
}

/// hyper alone would keep the answer in memory for as long as the client likes.
#[tokio::test]
async fn an_answer_that_nobody_takes_is_given_up_and_one_that_is_taken_slowly_is_not() {
    let limits = Limits { stalled: Duration::from_millis(400), ..Limits::default() };
    let server = Server::start(limits, Duration::ZERO).await;
    let [mut slow, mut stalled] =
        [soon(server.connect()).await.unwrap(), soon(server.connect()).await.unwrap()];
    for client in [&mut slow, &mut stalled] {
        client.write_all(b"GET /large HTTP/1.1\r\nHost: hook.test\r\n\r\n").await.unwrap();
    }
    let (mut read, mut part) = (0, vec![0; 8 << 20]);
    for _ in 0..4 {
        tokio::time::sleep(Duration::from_millis(150)).await;
        read += soon(slow.read_exact(&mut part)).await.unwrap();
    }
    assert_eq!(read, 32 << 20);
    until(|| server.metrics.open.get() == 1).await;
    assert!(soon(stalled.read_to_end(&mut Vec::new())).await.is_err(), "it broke off");
    drop(slow);
    server.drained().await;
}

/// hyper alone would accept 400 KiB on each connection.
#[tokio::test]
async fn a_header_beyond_64_kib_is_refused_and_a_shorter_one_is_not() {
    let server = Server::start(Limits::default(), Duration::ZERO).await;
    let header = |bytes: usize| format!("GET / HTTP/1.1\r\nHost: a\r\nX: {}\r\n\r\n", "x".repeat(bytes));
    let mut long = soon(server.connect()).await.unwrap();
    long.write_all(header(60 << 10).as_bytes()).await.unwrap();
    let mut line = String::new();
    soon(long.read_line(&mut line)).await.unwrap();
    assert_eq!(line, "HTTP/1.1 200 OK\r\n");

    let mut longer = soon(server.connect()).await.unwrap();
    // The server may close before it has everything, and then its answer can be lost.
    soon(longer.write_all(header(200 << 10).as_bytes())).await.ok();
    let mut answer = String::new();
    soon(longer.read_line(&mut answer)).await.ok();
    assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 431 "), "{answer}");
    until(|| server.metrics.open.get() == 1).await;
}

#[tokio::test]
async fn one_connection_too_many_is_refused_at_once() {
    let limits = Limits { max_connections: 2, ..Limits::default() };
    let server = Server::start(limits, Duration::ZERO).await;
    let mut first = soon(server.connect()).await.unwrap();
    let second = soon(server.connect()).await.unwrap();
    soon(server.connect()).await.unwrap_err();
    assert_eq!(server.metrics.refused.get(), 1);
    soon(ask(&mut first, "/")).await.unwrap();
    drop(second);
    until(|| server.metrics.open.get() == 1).await;
    soon(server.connect()).await.unwrap();
    drop(first);
    server.drained().await;
}

/// A pod that opens connections and keeps them would otherwise shut out the API server.
#[tokio::test]
async fn one_address_cannot_have_all_connections() {
    let limits = Limits { max_connections: 10, max_connections_a_peer: 2, ..Limits::default() };
    let server = Server::start(limits, Duration::ZERO).await;
    let hoarded = (TcpStream::connect(server.address).await.unwrap(), soon(server.connect()).await.unwrap());
    soon(server.connect()).await.unwrap_err();
    assert_eq!(server.metrics.refused.get(), 1);
    let other = tokio::net::TcpSocket::new_v4().unwrap();
    other.bind(([127, 0, 0, 2], 0).into()).unwrap();
    let other = soon(other.connect(server.address)).await.unwrap();
    let name = ServerName::try_from("hook.test").unwrap();
    let mut other = BufReader::new(soon(server.connector(&[]).connect(name, other)).await.unwrap());
    assert_eq!(soon(ask(&mut other, "/")).await.unwrap(), ("hello".to_owned(), true));
    drop(hoarded);
    until(|| server.metrics.open.get() == 1).await;
    soon(server.connect()).await.unwrap();
}

/// One byte, again and again, would hold a place as well as a request does.
#[tokio::test]
async fn where_room_is_made_who_does_not_end_its_request_keeps_nobody_out() {
    let limits =
        Limits { max_connections: 3, max_connections_a_peer: 3, makes_room: true, ..Limits::default() };
    let server = Server::start(limits, Duration::ZERO).await;
    let mut strangers = Vec::new();
    for _ in 0..3 {
        let mut one = soon(server.connect()).await.unwrap();
        one.write_all(b"G").await.unwrap();
        strangers.push(one);
    }
    let mut one = soon(server.connect()).await.unwrap();
    soon(ask(&mut one, "/")).await.unwrap();
    assert_eq!(server.metrics.refused.get(), 0);
    until(|| server.metrics.open.get() == 3).await;
}

/// One more takes the place of one that asks nothing; those who ask, or are being answered, keep theirs.
#[tokio::test]
async fn where_room_is_made_the_oldest_idle_connection_ends_and_no_other() {
    let limits =
        Limits { max_connections: 3, max_connections_a_peer: 3, makes_room: true, ..Limits::default() };
    let server = Server::start(limits, Duration::ZERO).await;
    let mut asking = soon(server.connect()).await.unwrap();
    asking.write_all(b"GET / HTTP/1.1\r\n").await.unwrap();
    let mut idle = [soon(server.connect()).await.unwrap(), soon(server.connect()).await.unwrap()];
    for one in &mut idle {
        soon(ask(one, "/")).await.unwrap();
    }
    let mut more = Vec::new();
    for _ in 0..10 {
        let mut one = soon(server.connect()).await.unwrap();
        soon(ask(&mut one, "/")).await.unwrap();
        more.push(one);
    }
    for one in &mut idle {
        soon(ask(one, "/")).await.unwrap_err();
    }
    asking.write_all(b"host: hook.test\r\n\r\n").await.unwrap();
    let mut line = String::new();
    soon(asking.read_line(&mut line)).await.unwrap();
    assert!(line.starts_with("HTTP/1.1 200"), "{line}");
    assert_eq!(server.metrics.refused.get(), 0);
    until(|| server.metrics.open.get() == 3).await;
}

#[tokio::test]
async fn http2_is_not_offered() {
    let server = Server::start(Limits::default(), Duration::ZERO).await;
    let both = soon(connect(&server.connector(&[b"h2", b"http/1.1"]), server.address)).await.unwrap();
    assert_eq!(both.get_ref().get_ref().1.alpn_protocol(), Some(&b"http/1.1"[..]));
    soon(connect(&server.connector(&[b"h2"]), server.address)).await.unwrap_err();
}

#[tokio::test]
async fn another_certificate_is_served_without_a_restart() {
    let server = Server::start(Limits::default(), Duration::ZERO).await;
    let mut before = soon(server.connect()).await.unwrap();
    server.install("other.test");
    soon(server.connect()).await.unwrap_err(); // the client asks for hook.test
    soon(ask(&mut before, "/")).await.unwrap();
    server.install("hook.test");
    soon(server.connect()).await.unwrap();
}

#[tokio::test]
async fn an_idle_connection_does_not_hold_up_the_end() {
    let server = Server::start(Limits::default(), Duration::ZERO).await;
    let mut idle = soon(server.connect()).await.unwrap();
    soon(ask(&mut idle, "/")).await.unwrap();
    assert_eq!(server.drained().await, Drained { cut_off: 0 });
    assert_eq!(soon(idle.read(&mut [0; 16])).await.unwrap_or(0), 0);
}

#[tokio::test]
async fn a_request_beyond_the_limit_is_cut_off_and_told() {
    let entered = Arc::new(AtomicBool::new(false));
    let told = entered.clone();
    let stuck = move || {
        told.store(true, Ordering::Relaxed);
        std::future::pending::<()>()
    };
    let stuck = Router::new().route("/", get(stuck));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut socket = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    let signal = CancellationToken::new();
    let drain =
        Drain { signal: signal.clone(), propagation_delay: Duration::ZERO, limit: Duration::from_millis(50) };
    let metrics = ConnectionMetrics::default();
    let mut tasks = JoinSet::new();
    tasks.spawn(super::serve_plain(listener, stuck, drain, Limits::default(), metrics.clone()));
    socket.write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").await.unwrap();
    until(|| entered.load(Ordering::Relaxed)).await;
    signal.cancel();
    assert_eq!(soon(tasks.join_next()).await.unwrap().unwrap(), Drained { cut_off: 1 });
    assert_eq!(metrics.open.get(), 0);
}

/// Clients that keep connections as the API server does, and stop connecting once their endpoints have
/// changed: after they have seen the drain, and before the propagation delay is over. Each connects once more
/// after it has seen the drain; the delay is long, for busy machines.
#[tokio::test]
async fn a_drain_under_load_fails_no_request() {
    let server = Server::start(Limits::default(), Duration::from_secs(5)).await;
    let (connector, address) = (server.connector(&[]), server.address);
    let mut clients = JoinSet::new();
    for number in 0..16 {
        let (connector, path) = (connector.clone(), if number % 2 == 0 { "/" } else { "/slow" });
        clients.spawn(async move {
            let (mut kept, mut answered, mut closed) = (None, 0, 0);
            while closed < 2 {
                let mut client = match kept.take() {
                    Some(client) => client,
                    None => connect(&connector, address).await.unwrap(),
                };
                let (_, keep) = ask(&mut client, path).await.unwrap();
                answered += 1;
                if keep { kept = Some(client) } else { closed += 1 }
            }
            answered
        });
    }
    until(|| server.metrics.open.get() == 16).await;
    tokio::time::sleep(Duration::from_millis(100)).await; // some requests before the drain, too
    let drained = server.drained();
    let (drained, answered) = tokio::join!(drained, soon(clients.join_all()));
    assert_eq!(drained, Drained { cut_off: 0 });
    assert!(answered.iter().all(|count| *count >= 2), "{answered:?}");
    TcpStream::connect(address).await.unwrap_err();
}
