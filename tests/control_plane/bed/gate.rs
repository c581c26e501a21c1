//! A gate between a process of ours and the API server, that counts its writes (or other calls) and says what becomes of
//! each: what no timing could bring about every time.

use std::convert::Infallible;
use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use http::header::{HOST, RETRY_AFTER};
use http::{Request, Response, StatusCode};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use kube::{Client, client::Body};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::AbortHandle;

use super::Bed;
use super::person::{RUNTIME, anonymous};

/// What becomes of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It is done.
    Pass,
    /// It is not done, and nobody answers.
    Held,
    /// It is done once [`Gate::let_through`] says so.
    Waits,
    /// It is done, and the answer is lost.
    Unanswered,
    /// It is not done: the API server has a fault.
    Fault,
    /// It is not done: the API server has too much to do, for so many seconds.
    Later(u16),
    /// It is not done: the object is said to have changed.
    Conflict,
}

/// A call that came to the gate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// `GET`, `PATCH` and so on.
    pub method: String,
    /// What it is about.
    pub path: String,
    /// How.
    pub query: String,
    /// When it came.
    pub at: Instant,
    /// What became of it.
    pub fate: Fate,
    /// What the API server answered, once it has.
    pub answer: Option<StatusCode>,
}

/// By which calls came before it.
type Fates = Box<dyn Fn(&Call, &[Call]) -> Fate + Send + Sync>;
/// Which calls it is about.
type Which = Box<dyn Fn(&Call) -> bool + Send + Sync>;

/// A gate that is open while this value lives.
pub struct Gate {
    /// What a process takes in place of its own kubeconfig.
    pub kubeconfig: PathBuf,
    keeper: Arc<Keeper>,
    listening: AbortHandle,
}

struct Keeper {
    client: Client,
    which: Which,
    fates: Fates,
    calls: Mutex<Vec<Call>>,
    held: AtomicUsize,
    goes_on: watch::Sender<bool>,
    connections: Mutex<Vec<AbortHandle>>,
}

impl Gate {
    /// Opens a gate for the reconciler's account. `fates`: what becomes of a write of a user's ConfigMap or Secret, by how
    /// many came before it.
    pub fn open(bed: &Bed, fates: impl Fn(usize) -> Fate + Send + Sync + 'static) -> Gate {
        Gate::over(bed, Call::writes_content, move |_, before| fates(before.len()))
    }

    /// Opens one that counts `which` calls. `fates`: what becomes of one of them, by those that came before it.
    pub fn over(
        bed: &Bed,
        which: impl Fn(&Call) -> bool + Send + Sync + 'static,
        fates: impl Fn(&Call, &[Call]) -> Fate + Send + Sync + 'static,
    ) -> Gate {
        let cluster = bed.testbed.cluster();
        let own = bed.testbed.credentials("gated").expect("the reconciler's account has a token");
        let listener = RUNTIME.block_on(TcpListener::bind("127.0.0.1:0")).expect("a free port");
        let address = listener.local_addr().expect("a port of ours");
        let text = fs::read_to_string(&own).expect("the kubeconfig is readable");
        let text = text.replace(cluster.server_url(), &format!("http://{address}"));
        fs::write(&own, text).expect("the kubeconfig is writable");
        let keeper = Arc::new(Keeper {
            client: anonymous(cluster.admin_kubeconfig()),
            which: Box::new(which),
            fates: Box::new(fates),
            calls: Mutex::default(),
            held: AtomicUsize::new(0),
            goes_on: watch::Sender::new(false),
            connections: Mutex::default(),
        });
        let listening = RUNTIME.spawn(listen(listener, keeper.clone())).abort_handle();
        Gate { kubeconfig: own, keeper, listening }
    }

    /// The calls that have come, of those that it counts.
    pub fn calls(&self) -> Vec<Call> {
        self.keeper.calls.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Breaks every connection off, watches and all; the next ones are taken.
    pub fn cut(&self) {
        let mut connections = self.keeper.connections.lock().unwrap_or_else(PoisonError::into_inner);
        connections.drain(..).for_each(|connection| connection.abort());
    }

    /// Has all calls done that wait, and those that come.
    pub fn let_through(&self) {
        self.keeper.goes_on.send_replace(true);
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
        let asked = keeper.clone();
        let answer = service_fn(move |request| {
            let keeper = asked.clone();
            async move { Ok::<_, Infallible>(keeper.answer(request).await) }
        });
        // A process that is killed ends its connections badly.
        let serving = RUNTIME.spawn(async move {
            drop(http1::Builder::new().serve_connection(TokioIo::new(socket), answer).await)
        });
        keeper.connections.lock().unwrap_or_else(PoisonError::into_inner).push(serving.abort_handle());
    }
}

impl Keeper {
    async fn answer(&self, request: Request<Incoming>) -> Response<Body> {
        let (fate, number) = self.fate(Call::from(&request));
        match fate {
            Fate::Pass => {
                let response = self.forward(request).await;
                self.answered(number, response.status());
                response
            }
            Fate::Held => {
                self.held.fetch_add(1, Ordering::SeqCst);
                std::future::pending().await
            }
            Fate::Waits => {
                // The gate is there for as long as it is asked.
                let _ = self.goes_on.subscribe().wait_for(|goes_on| *goes_on).await;
                let response = self.forward(request).await;
                self.answered(number, response.status());
                response
            }
            Fate::Unanswered => {
                self.answered(number, self.forward(request).await.status());
                refusal(StatusCode::BAD_GATEWAY)
            }
            Fate::Fault => refusal(StatusCode::INTERNAL_SERVER_ERROR),
            Fate::Later(seconds) => {
                let mut response = refusal(StatusCode::TOO_MANY_REQUESTS);
                response.headers_mut().insert(RETRY_AFTER, seconds.into());
                response
            }
            Fate::Conflict => refusal(StatusCode::CONFLICT),
        }
    }

    /// What becomes of a call, and its number, if it counts.
    fn fate(&self, mut call: Call) -> (Fate, Option<usize>) {
        if !(self.which)(&call) {
            return (Fate::Pass, None);
        }
        let mut calls = self.calls.lock().unwrap_or_else(PoisonError::into_inner);
        let fate = (self.fates)(&call, &calls);
        call.fate = fate;
        calls.push(call);
        (fate, Some(calls.len() - 1))
    }

    fn answered(&self, number: Option<usize>, status: StatusCode) {
        let mut calls = self.calls.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(call) = number.and_then(|number| calls.get_mut(number)) {
            call.answer = Some(status);
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

impl Call {
    fn from<B>(request: &Request<B>) -> Call {
        Call {
            method: request.method().to_string(),
            path: request.uri().path().to_owned(),
            query: request.uri().query().unwrap_or_default().to_owned(),
            at: Instant::now(),
            fate: Fate::Pass,
            answer: None,
        }
    }

    /// Whether the API server did what it asks for.
    pub fn is_done(&self) -> bool {
        self.answer.is_some_and(|status| status.is_success())
    }

    /// Whether it may still be done: it was let through, and nobody has refused it.
    pub fn may_be_done(&self) -> bool {
        self.fate == Fate::Pass && self.answer.is_none_or(|status| status.is_success())
    }

    /// Whether it writes a ConfigMap or Secret of a user's.
    pub fn writes_content(&self) -> bool {
        let is_ours = self.path.contains(&format!("/namespaces/{}/", testbed::NAMESPACE));
        let is_content = self.path.contains("/configmaps") || self.path.contains("/secrets");
        self.method != "GET" && is_content && !is_ours && !self.query.contains("dryRun")
    }
}

fn refusal(code: StatusCode) -> Response<Body> {
    let status = serde_json::json!({
        "kind": "Status", "apiVersion": "v1", "status": "Failure", "message": "the gate says no", "code": code.as_u16(),
    });
    let mut response = Response::new(Body::from(status.to_string().into_bytes()));
    *response.status_mut() = code;
    response
}
