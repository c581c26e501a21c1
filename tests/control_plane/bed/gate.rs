//! A gate between a process of ours and the API server, that counts its writes of ConfigMaps and Secrets and says what
//! becomes of each: what no timing could bring about every time.

use std::convert::Infallible;
use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use http::header::{HOST, RETRY_AFTER};
use http::{Method, Request, Response, StatusCode};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use kube::{Client, client::Body};
use tokio::net::TcpListener;
use tokio::task::AbortHandle;

use super::Bed;
use super::person::{RUNTIME, anonymous};

/// What becomes of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It is done.
    Pass,
    /// It is not done, and nobody answers.
    Held,
    /// It is done, and the answer is lost.
    Unanswered,
    /// It is not done: the API server has a fault.
    Fault,
    /// It is not done: the API server has too much to do.
    Later,
}

/// By how many writes came before it.
type Fates = Box<dyn Fn(usize) -> Fate + Send + Sync>;

/// A gate that is open while this value lives.
pub struct Gate {
    /// What a process takes in place of its own kubeconfig.
    pub kubeconfig: PathBuf,
    keeper: Arc<Keeper>,
    listening: AbortHandle,
}

struct Keeper {
    client: Client,
    fates: Fates,
    writes: Mutex<Vec<String>>,
    held: AtomicUsize,
}

impl Gate {
    /// Opens a gate for the reconciler's account. `fates`: what becomes of a write, by how many came before it.
    pub fn open(bed: &Bed, fates: impl Fn(usize) -> Fate + Send + Sync + 'static) -> Gate {
        let cluster = bed.testbed.cluster();
        let own = bed.testbed.credentials("gated").expect("the reconciler's account has a token");
        let listener = RUNTIME.block_on(TcpListener::bind("127.0.0.1:0")).expect("a free port");
        let address = listener.local_addr().expect("a port of ours");
        let text = fs::read_to_string(&own).expect("the kubeconfig is readable");
        let text = text.replace(cluster.server_url(), &format!("http://{address}"));
        fs::write(&own, text).expect("the kubeconfig is writable");
        let (writes, held) = (Mutex::default(), AtomicUsize::new(0));
        let client = anonymous(cluster.admin_kubeconfig());
        let keeper = Arc::new(Keeper { client, fates: Box::new(fates), writes, held });
        let listening = RUNTIME.spawn(listen(listener, keeper.clone())).abort_handle();
        Gate { kubeconfig: own, keeper, listening }
    }

    /// The writes that have come.
    pub fn writes(&self) -> Vec<String> {
        self.keeper.writes.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// How many are held.
    pub fn held(&self) -> usize {
        self.keeper.held.load(Ordering::SeqCst)
    }
}

impl Drop for Gate {
    fn drop(&mut self) {
        self.listening.abort();
    }
}

async fn listen(listener: TcpListener, keeper: Arc<Keeper>) {
    while let Ok((socket, _)) = listener.accept().await {
        let keeper = keeper.clone();
        let answer = service_fn(move |request| {
            let keeper = keeper.clone();
            async move { Ok::<_, Infallible>(keeper.answer(request).await) }
        });
        // Whoever is killed ends his connections badly.
        RUNTIME.spawn(async move {
            drop(http1::Builder::new().serve_connection(TokioIo::new(socket), answer).await)
        });
    }
}

impl Keeper {
    async fn answer(&self, request: Request<Incoming>) -> Response<Body> {
        let fate = if is_write(&request) {
            let mut writes = self.writes.lock().unwrap_or_else(PoisonError::into_inner);
            writes.push(format!("{} {}", request.method(), request.uri()));
            (self.fates)(writes.len() - 1)
        } else {
            Fate::Pass
        };
        match fate {
            Fate::Pass => self.forward(request).await,
            Fate::Held => {
                self.held.fetch_add(1, Ordering::SeqCst);
                std::future::pending().await
            }
            Fate::Unanswered => {
                drop(self.forward(request).await);
                refusal(StatusCode::BAD_GATEWAY)
            }
            Fate::Fault => refusal(StatusCode::INTERNAL_SERVER_ERROR),
            Fate::Later => refusal(StatusCode::TOO_MANY_REQUESTS),
        }
    }

    async fn forward(&self, request: Request<Incoming>) -> Response<Body> {
        let (mut parts, body) = request.into_parts();
        parts.headers.remove(HOST);
        let Ok(body) = body.collect().await else { return refusal(StatusCode::BAD_REQUEST) };
        let request = Request::from_parts(parts, Body::from(body.to_bytes().to_vec()));
        self.client.send(request).await.unwrap_or_else(|_| refusal(StatusCode::BAD_GATEWAY))
    }
}

fn is_write<B>(request: &Request<B>) -> bool {
    let path = request.uri().path();
    let is_dry = request.uri().query().is_some_and(|query| query.contains("dryRun"));
    let of_users = !path.contains(&format!("/namespaces/{}/", testbed::NAMESPACE));
    request.method() != Method::GET
        && (path.contains("/configmaps") || path.contains("/secrets"))
        && of_users
        && !is_dry
}

fn refusal(code: StatusCode) -> Response<Body> {
    let mut response = Response::new(Body::from(Vec::new()));
    *response.status_mut() = code;
    if code == StatusCode::TOO_MANY_REQUESTS {
        response.headers_mut().insert(RETRY_AFTER, http::HeaderValue::from_static("1"));
    }
    response
}
