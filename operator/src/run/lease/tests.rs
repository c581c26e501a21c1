#![allow(clippy::unwrap_used, clippy::expect_used)] // tests, their set-up functions too
//! Candidates with a server that keeps one Lease, with versions and a watch, and can be made to fail.

use std::convert::Infallible;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use futures::stream;
use http::{Method, Request, Response, StatusCode};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::{Bytes, Frame};
use kube::client::Body;
use serde_json::json;
use tokio::sync::broadcast;
use tokio::task::JoinSet;

use super::leadership::NotLeader;
use super::*;

const DEADLINE: Duration = Duration::from_secs(20);

type Answer = Response<UnsyncBoxBody<Bytes, Infallible>>;

#[derive(Clone)]
struct Server {
    lease: Arc<Mutex<(Option<Lease>, u64)>>,
    events: broadcast::Sender<Bytes>,
    down: Arc<AtomicBool>,
    conflicts: Arc<AtomicUsize>,
}

impl Server {
    fn new() -> Self {
        Self {
            lease: Arc::default(),
            events: broadcast::channel(64).0,
            down: Arc::default(),
            conflicts: Arc::default(),
        }
    }

    fn client(&self) -> kube::Client {
        let server = self.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let server = server.clone();
            async move { Ok::<_, kube::Error>(server.answer(request).await) }
        });
        kube::Client::new(service, "default")
    }

    fn candidate(&self, host: &str, terms: LeaseTimings) -> (Elector, Leader) {
        Elector::new(&WriteClient::of(self.client()), "default", "copyrator", host, terms).unwrap()
    }

    fn holder(&self) -> Option<String> {
        self.lease.lock().unwrap().0.as_ref().and_then(holder).map(str::to_owned)
    }

    async fn answer(&self, request: Request<Body>) -> Answer {
        if self.down.load(Ordering::Relaxed) {
            std::future::pending::<()>().await;
        }
        let query = request.uri().query().unwrap_or_default().to_owned();
        let method = request.method().clone();
        let one = request.uri().path().ends_with("/copyrator");
        let body = request.into_body().collect().await.unwrap().to_bytes();
        match method {
            Method::GET if query.contains("watch=true") => self.watch(),
            Method::GET if one => match &self.lease.lock().unwrap().0 {
                Some(lease) => reply(StatusCode::OK, &json!(lease)),
                None => refusal(StatusCode::NOT_FOUND, "NotFound"),
            },
            Method::GET => {
                let (lease, version) = &*self.lease.lock().unwrap();
                let items: Vec<_> = lease.iter().collect();
                let list = json!({ "metadata": { "resourceVersion": version.to_string() }, "items": items });
                reply(StatusCode::OK, &list)
            }
            _ => self.write(&method, serde_json::from_slice(&body).unwrap()),
        }
    }

    fn write(&self, method: &Method, mut lease: Lease) -> Answer {
        let (current, version) = &mut *self.lease.lock().unwrap();
        let known = current.as_ref().and_then(|lease| lease.metadata.resource_version.clone());
        let creating = *method == Method::POST;
        assert!(creating != lease.metadata.resource_version.is_some(), "a replace has a version");
        if creating && known.is_some() {
            return refusal(StatusCode::CONFLICT, "AlreadyExists");
        }
        if lease.metadata.resource_version != known {
            self.conflicts.fetch_add(1, Ordering::Relaxed);
            return refusal(StatusCode::CONFLICT, "Conflict");
        }
        *version += 1;
        lease.metadata.resource_version = Some(version.to_string());
        *current = Some(lease.clone());
        let kind = if creating { "ADDED" } else { "MODIFIED" };
        let mut line = serde_json::to_vec(&json!({ "type": kind, "object": lease })).unwrap();
        line.push(b'\n');
        let _ = self.events.send(line.into()); // nobody watching is fine
        reply(StatusCode::OK, &json!(lease))
    }

    fn watch(&self) -> Answer {
        let lines = stream::unfold(self.events.subscribe(), async |mut events| {
            let line = events.recv().await.ok()?;
            Some((Ok(Frame::data(line)), events))
        });
        Response::new(StreamBody::new(lines).boxed_unsync())
    }
}

fn reply(status: StatusCode, body: &serde_json::Value) -> Answer {
    let body = Full::new(Bytes::from(body.to_string())).boxed_unsync();
    Response::builder().status(status).body(body).unwrap()
}

fn refusal(status: StatusCode, reason: &str) -> Answer {
    reply(
        status,
        &json!({ "kind": "Status", "status": "Failure", "reason": reason, "code": status.as_u16() }),
    )
}

/// Durations that a test can wait for.
fn short() -> LeaseTimings {
    let ms = Duration::from_millis;
    LeaseTimings { lease: ms(1500), renew: ms(200), give_up: ms(1000), call: ms(300), retry: ms(100) }
}

/// Durations that never pass within a test.
fn long() -> LeaseTimings {
    let hour = Duration::from_secs(3600);
    LeaseTimings { lease: hour, renew: hour / 4, give_up: hour / 2, ..LeaseTimings::default() }
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

#[tokio::test]
async fn of_many_starting_at_once_one_leads_at_a_time() {
    let server = Server::new();
    let mut running = JoinSet::new();
    let mut leaders = Vec::new();
    for number in 0..5 {
        let (elector, leader) = server.candidate(&format!("pod-{number}"), short());
        running.spawn(elector.run(CancellationToken::new()));
        leaders.push(leader);
    }
    // Long enough for the first one to have renewed several times, and for others to have tried.
    for _ in 0..300 {
        let leading = leaders.iter().filter(|leader| leader.check().is_ok()).count();
        assert!(leading <= 1, "{leading} leaders");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    soon(futures::future::select_all(leaders.iter().map(|leader| Box::pin(leader.acquired())))).await;
}

#[tokio::test]
async fn a_released_lease_is_taken_without_waiting_for_its_end() {
    let server = Server::new();
    let mut running = JoinSet::new();
    let (first, first_leads) = server.candidate("one", long());
    let release = CancellationToken::new();
    running.spawn(first.run(release.clone()));
    let term = soon(first_leads.acquired()).await;

    let (second, second_leads) = server.candidate("two", long());
    let name = second.identity.clone();
    running.spawn(second.run(CancellationToken::new()));
    until(|| server.events.receiver_count() == 2).await; // both watch: the release is news to the second
    release.cancel();
    soon(first_leads.lost(term)).await;
    soon(second_leads.acquired()).await;
    assert_eq!(server.holder(), Some(name));
    soon(running.join_next()).await.unwrap().unwrap();
}

#[tokio::test]
async fn a_dead_holder_is_followed() {
    let server = Server::new();
    let mut dying = JoinSet::new();
    let (first, first_leads) = server.candidate("one", short());
    dying.spawn(first.run(CancellationToken::new()));
    soon(first_leads.acquired()).await;
    dying.shutdown().await; // no release
    let (second, second_leads) = server.candidate("two", short());
    let mut running = JoinSet::new();
    running.spawn(second.run(CancellationToken::new()));
    soon(second_leads.acquired()).await;
    assert_eq!(first_leads.check(), Err(NotLeader));
}

#[tokio::test]
async fn without_a_server_leadership_ends_and_comes_back_with_it() {
    let server = Server::new();
    let (elector, leader) = server.candidate("one", short());
    let mut running = JoinSet::new();
    running.spawn(elector.run(CancellationToken::new()));
    let term = soon(leader.acquired()).await;
    server.down.store(true, Ordering::Relaxed);
    soon(leader.lost(term)).await;
    server.down.store(false, Ordering::Relaxed);
    let next = soon(leader.acquired()).await;
    assert_eq!(next.term, term.term + 1);
}

#[tokio::test]
async fn a_foreign_change_costs_a_conflict_but_not_the_leadership() {
    let server = Server::new();
    let (elector, leader) = server.candidate("one", short());
    let mut running = JoinSet::new();
    running.spawn(elector.run(CancellationToken::new()));
    soon(leader.acquired()).await;
    // Without an event, as if the watch were late.
    let transitions = {
        let (lease, version) = &mut *server.lease.lock().unwrap();
        let lease = lease.as_mut().unwrap();
        *version += 1;
        lease.metadata.resource_version = Some(version.to_string());
        lease.spec.as_ref().unwrap().lease_transitions
    };
    until(|| server.conflicts.load(Ordering::Relaxed) == 1).await;
    let token = leader.check().unwrap();
    until(|| leader.check().unwrap() != token).await;
    let now = server.lease.lock().unwrap().0.as_ref().unwrap().spec.as_ref().unwrap().lease_transitions;
    assert_eq!(now, transitions);
}
