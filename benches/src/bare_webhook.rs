//! A webhook with the thinking removed: the same TLS, HTTP and routing libraries, versions and settings; a review is read into
//! the smallest type that can be answered, and allowed. A process of its own, so that what it uses can be told. It tells how long its
//! answers took in the buckets and words of the product's own histogram.

use std::io::{BufRead, BufReader, Lines};
use std::net::Ipv4Addr;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime};

use axum::extract::{FromRequest, Request, State};
use axum::{Router, body::Bytes, http::StatusCode, routing::post};
use copyrator_certs::Authority;
use hyper::server::conn::http1;
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    service::TowerToHyperService,
};
use k8s_openapi::ByteString;
use rustls::ServerConfig;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

use crate::Outcome;
use crate::wire::Endpoint;

/// What this program is called with to be one.
pub(crate) const WORD: &str = "bare-webhook";
/// As the operator's webhook has it.
const PATH: &str = "/validate/policies";
/// Where it tells its times; asked by POST, since nothing else is asked here.
const METRICS: &str = "/metrics";
/// The bounds of the product's histogram, in seconds, as far as an answer of this one can take.
const BOUNDS: [f64; 12] = [
    0.000_005, 0.000_01, 0.000_025, 0.000_05, 0.000_1, 0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025,
];
const BUFFER: usize = 64 << 10;
const IDLE: Duration = Duration::from_secs(120);
const DAY: Duration = Duration::from_secs(86_400);

/// A running one; ends when dropped.
pub(crate) struct BareWebhook {
    child: Child,
    /// Kept open: the process ends when it cannot write to its output.
    _told: Lines<BufReader<ChildStdout>>,
    pub(crate) endpoint: Endpoint,
    address: String,
    bundle: String,
}

impl BareWebhook {
    /// Starts one and waits until it listens.
    pub(crate) fn start() -> Outcome<BareWebhook> {
        let mut child = Command::new(std::env::current_exe()?).arg(WORD).stdout(Stdio::piped()).spawn()?;
        let mut told = BufReader::new(child.stdout.take().ok_or("the bare webhook has no output")?).lines();
        let mut line = || told.next().ok_or("the bare webhook ended").map_err(Into::into);
        let url = |line: Outcome<std::io::Result<String>>| Outcome::Ok(line??);
        let address = url(line())?;
        let mut bundle = String::new();
        while !bundle.contains("-----END") {
            bundle += &url(line())?;
            bundle.push('\n');
        }
        let endpoint = Endpoint::of(&address, bundle.as_bytes())?;
        Ok(BareWebhook { child, _told: told, endpoint, address, bundle })
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// How long its answers took so far, as the product tells it.
    pub(crate) fn metrics(&self) -> Outcome<String> {
        Ok(self.endpoint.connect()?.text(&self.endpoint.post(METRICS, b""))?)
    }

    /// A hook that has the API server ask it about every write of a Secret.
    pub(crate) fn hook(&self, name: &str) -> Value {
        json!({
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
            "metadata": {"name": name},
            "webhooks": [{
                "name": format!("{name}.copyrator.dev"), "failurePolicy": "Fail", "sideEffects": "None",
                "admissionReviewVersions": ["v1"],
                "clientConfig": {
                    "url": format!("{}{PATH}", self.address),
                    "caBundle": ByteString(self.bundle.clone().into_bytes()),
                },
                "rules": [{
                    "apiGroups": [""], "apiVersions": ["v1"], "resources": ["secrets"],
                    "operations": ["CREATE", "UPDATE"],
                }],
            }],
        })
    }
}

impl Drop for BareWebhook {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[derive(Deserialize)]
struct Review {
    request: Asked,
}

#[derive(Deserialize)]
struct Asked {
    uid: String,
}

/// How often answers took at most so long, and how many there were.
#[derive(Default)]
struct Times {
    within: [AtomicU64; BOUNDS.len()],
    all: AtomicU64,
}

impl Times {
    fn observe(&self, took: Duration) {
        self.all.fetch_add(1, Ordering::Relaxed);
        let within = self.within.iter().zip(BOUNDS).filter(|(_, bound)| took.as_secs_f64() <= *bound);
        for (count, _) in within {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn text(&self) -> String {
        let bounds = BOUNDS.map(|bound| bound.to_string());
        let bounds = bounds.iter().map(String::as_str).zip(&self.within).chain([("+Inf", &self.all)]);
        let line = |(bound, count): (&str, &AtomicU64)| {
            let count = count.load(Ordering::Relaxed);
            format!("copyrator_admission_duration_seconds_bucket{{le=\"{bound}\",path=\"{PATH}\"}} {count}\n")
        };
        bounds.map(line).collect()
    }
}

/// Serves until it is killed.
pub(crate) async fn serve() -> Outcome<()> {
    let now = SystemTime::now();
    let authority = Authority::issue("bare webhook", now, DAY)?;
    let leaf = authority.issue_leaf(&[], &[Ipv4Addr::LOCALHOST.into()], now, DAY)?;
    let chain = CertificateDer::pem_slice_iter(leaf.chain_pem.as_bytes()).collect::<Result<_, _>>()?;
    let key = PrivateKeyDer::from_pem_slice(leaf.key_pem.expose().as_bytes())?;
    let mut config = ServerConfig::builder().with_no_client_auth().with_single_cert(chain, key)?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    println!("https://{}", listener.local_addr()?);
    println!("{}", authority.cert_pem());
    let router = Router::new()
        .route(PATH, post(answer))
        .route(METRICS, post(|State(times): State<Arc<Times>>| async move { times.text() }))
        .with_state(Arc::<Times>::default());
    let mut connections = JoinSet::new();
    loop {
        let (socket, _) = listener.accept().await?;
        socket.set_nodelay(true)?;
        let (acceptor, router) = (acceptor.clone(), router.clone());
        connections.spawn(async move {
            let stream = acceptor.accept(socket).await.ok()?;
            let service = TowerToHyperService::new(router);
            http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(IDLE)
                .max_buf_size(BUFFER)
                .serve_connection(TokioIo::new(stream), service)
                .await
                .ok()
        });
    }
}

type Allowed = Result<([(&'static str, &'static str); 1], String), StatusCode>;

async fn answer(State(times): State<Arc<Times>>, request: Request) -> Allowed {
    let begun = Instant::now();
    let body = Bytes::from_request(request, &()).await.map_err(|_| StatusCode::BAD_REQUEST)?;
    let allowed = allow(&body);
    times.observe(begun.elapsed());
    allowed
}

fn allow(body: &[u8]) -> Allowed {
    let review: Review = serde_json::from_slice(body).map_err(|_| StatusCode::BAD_REQUEST)?;
    let uid = review.request.uid;
    let answer = format!(
        r#"{{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","response":{{"uid":"{uid}","allowed":true}}}}"#
    );
    Ok(([("content-type", "application/json")], answer))
}
