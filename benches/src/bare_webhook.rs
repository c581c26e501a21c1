//! A webhook with the thinking removed: the same TLS, HTTP and routing libraries, versions and settings; a review is read into
//! the smallest type that can be answered, and allowed. A process of its own, so that what it uses can be told.

use std::io::{BufRead, BufReader, Lines};
use std::net::Ipv4Addr;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

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
                    "operations": ["CREATE", "UPDATE", "DELETE"],
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
    request: Request,
}

#[derive(Deserialize)]
struct Request {
    uid: String,
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
    let router = Router::new().route(PATH, post(allow));
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

async fn allow(body: Bytes) -> Result<([(&'static str, &'static str); 1], String), StatusCode> {
    let review: Review = serde_json::from_slice(&body).map_err(|_| StatusCode::BAD_REQUEST)?;
    let uid = review.request.uid;
    let answer = format!(
        r#"{{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","response":{{"uid":"{uid}","allowed":true}}}}"#
    );
    Ok(([("content-type", "application/json")], answer))
}
