//! More than we can take, and callers that take their time: somebody is told so at once, and nobody holds a place for
//! long.

use std::time::Duration;

use axum::body::{Body, Bytes};
use copyrator::testing::{ConnectionMetrics, Drain, Drained, Limits, serve_plain};
use futures::{StreamExt as _, stream};
use http::{Request, StatusCode};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    task::JoinSet,
};
use tokio_util::sync::CancellationToken;

use super::{
    harness::{App, Cluster, recorded},
    policies::guarded,
};

/// Far more than anything here takes.
const DEADLINE: Duration = Duration::from_secs(30);

/// A body that begins and never ends, said to be of this length.
fn stalled(path: &str, length: usize) -> Request<Body> {
    let begin = stream::iter([Ok::<_, std::io::Error>(Bytes::from_static(b"{"))]);
    Request::post(path)
        .header("content-type", "application/json")
        .header("content-length", length)
        .body(Body::from_stream(begin.chain(stream::pending())))
        .unwrap()
}

fn few(most: usize) -> App {
    let mut cluster = guarded();
    cluster.most = most;
    cluster.app()
}

/// A caller who trickles a body (slow POST) would hold a place until the deadline that this very caller names.
#[tokio::test(start_paused = true)]
async fn a_body_that_stalls_gives_its_place_back() {
    let app = few(1);
    for (query, status, seconds) in [
        ("?timeout=30s", StatusCode::REQUEST_TIMEOUT, 5.0..5.1),
        ("?timeout=1s", StatusCode::GATEWAY_TIMEOUT, 0.8..1.0),
    ] {
        let start = tokio::time::Instant::now();
        let slow = app.call(stalled(&format!("/validate/policies{query}"), 100));
        let shed = async {
            tokio::time::sleep(Duration::from_millis(1)).await;
            app.send("/validate/policies", "configmap-create").await.status
        };
        let (slow, shed) = tokio::join!(slow, shed);
        let took = start.elapsed().as_secs_f64();
        assert_eq!((slow.status, shed), (status, StatusCode::TOO_MANY_REQUESTS), "{query}");
        assert!(seconds.contains(&took), "{query}: {took} s of the test's clock");
        app.send("/validate/policies", "configmap-create").await.allowed();
    }
    assert_eq!(app.metrics.in_flight.get(), 0);
}

/// A large review.
fn large_review(namespace: &str) -> String {
    review(namespace, &"x".repeat(257 << 10))
}

/// A review of a ConfigMap with this value, in the order in which the API server writes its fields.
fn review(namespace: &str, value: &str) -> String {
    let object = format!(r#"{{"metadata":{{"name":"web"}},"data":{{"a":"{value}"}}}}"#);
    format!(
        r#"{{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":{{"uid":"1","kind":{{"group":"","version":"v1","kind":"ConfigMap"}},"name":"web","namespace":"{namespace}","operation":"CREATE","object":{object},"oldObject":null}}}}"#
    )
}

/// A large review that does not end, said to be of 16 MiB.
fn stalled_large(path: &str, namespace: &str) -> Request<Body> {
    let begin = stream::iter([Ok::<_, std::io::Error>(Bytes::from(large_review(namespace)))]);
    let body = Body::from_stream(begin.chain(stream::pending()));
    let request = Request::post(path).header("content-type", "application/json");
    request.header("content-length", 16 << 20).body(body).unwrap()
}

fn whole(path: &str, review: String) -> Request<Body> {
    let request = Request::post(path).header("content-type", "application/json");
    request.header("content-length", review.len()).body(Body::from(review)).unwrap()
}

/// Places alone would let 64 bodies of 16 MiB be in memory at once. Of a large review for which there is no room, the beginning
/// is read: `failurePolicy: Ignore` would let the write pass unjudged.
#[tokio::test(start_paused = true)]
async fn large_bodies_under_way_are_bounded_in_bytes_and_small_ones_pass_meanwhile() {
    let app = few(64);
    let path = "/validate/policies?timeout=2s";
    let large = ["team-b", "team-c"].map(|namespace| app.call(stalled_large(path, namespace)));
    let meanwhile = async {
        tokio::time::sleep(Duration::from_millis(1)).await;
        let soon = |path: &str| format!("{path}?timeout=1s");
        let shed = app.call(whole(&soon("/mutate/defaults"), large_review("shop")));
        let refused = app.call(whole(&soon("/validate/policies"), large_review("shop")));
        let small = app.call(whole(path, recorded("configmap-create").to_string()));
        let (shed, refused, small) = tokio::join!(shed, refused, small);
        assert_eq!(shed.status, StatusCode::TOO_MANY_REQUESTS);
        let message = refused.refused(429, "TooManyRequests");
        assert!(
            message.contains(
                "policy app cannot check ConfigMap shop/web: the webhook is processing too many large reviews"
            ),
            "{message}"
        );
        small.allowed();
    };
    let (large, ()) = tokio::join!(futures::future::join_all(large), meanwhile);
    assert!(large.iter().all(|answer| answer.status == StatusCode::GATEWAY_TIMEOUT));
    let message = app.call(whole(path, large_review("shop"))).await.refused(403, "Forbidden");
    assert!(message.contains("policy app, rule "), "there is room again: {message}");
}

/// A tenant who sends large writes one after the other, also as dry runs, had those of everybody else refused.
#[tokio::test(start_paused = true)]
async fn large_writes_of_one_namespace_keep_out_no_other() {
    let app = few(64);
    let path = "/validate/policies?timeout=4s";
    let flood = (0..20).map(|_| app.call(stalled_large(path, "team-b")));
    let other = async {
        tokio::time::sleep(Duration::from_millis(1)).await;
        let start = tokio::time::Instant::now();
        let judged = app.call(whole(path, large_review("shop"))).await.refused(403, "Forbidden");
        assert!(judged.contains("policy app, rule "), "{judged}");
        assert_eq!(start.elapsed(), Duration::ZERO, "without waiting");
        // Of the flood, one has room, and eight wait; the others have sent what they have, and hold their places.
        let small = || app.call(whole(path, recorded("configmap-create").to_string()));
        small().await.allowed();
    };
    tokio::join!(futures::future::join_all(flood), other);
    assert_eq!(app.metrics.in_flight.get(), 0);
}

/// A namespace that takes all of its turns has its further writes refused. With `failurePolicy: Ignore` they would pass unjudged otherwise,
/// and a user could have that by writing much at once.
#[tokio::test]
async fn writes_of_a_namespace_without_turns_are_refused_and_not_let_through() {
    let rule = serde_json::json!({"name": "d", "keys": ["a"], "format": "json", "schema": {}});
    let policy = serde_json::json!({"match": {"kinds": ["ConfigMap"]}, "data": [rule]});
    let mut cluster = Cluster::new().policy("unpacked", policy);
    cluster.most = 4;
    let app = cluster.app();
    let list = format!("[{}1]", "1,".repeat(20_000));
    let send = || app.call(whole("/validate/policies?timeout=20s", review("shop", &list)));
    let held = app.heavy.acquire_many(app.heavy.available_permits() as u32).await.unwrap();
    let first = send();
    let others = async {
        tokio::task::yield_now().await;
        let answers = futures::future::join_all([send(), send()]).await;
        drop(held);
        answers
    };
    let (first, others) = tokio::join!(first, others);
    first.allowed();
    for answer in others {
        let message = answer.refused(429, "TooManyRequests");
        let said = "policy unpacked cannot check ConfigMap shop/web: the webhook is processing too many writes to this namespace";
        assert!(message.contains(said), "{message}");
    }
}

/// Two namespaces can take all of the memory; each other then has its turn.
#[tokio::test(start_paused = true)]
async fn a_large_write_waits_for_its_turn_and_few_do() {
    let app = few(64);
    let held = ["team-b", "team-c"]
        .map(|namespace| app.call(stalled_large("/validate/policies?timeout=1s", namespace)));
    let path = "/validate/policies?timeout=10s";
    let waiting = async {
        tokio::time::sleep(Duration::from_millis(1)).await;
        let all = (0..9).map(|_| async {
            let start = tokio::time::Instant::now();
            let answer = app.call(whole(path, large_review("shop"))).await;
            (answer.response()["status"]["code"].as_u64(), start.elapsed() < Duration::from_millis(500))
        });
        futures::future::join_all(all).await
    };
    let (_, answers) = tokio::join!(futures::future::join_all(held), waiting);
    let (at_once, later): (Vec<_>, Vec<_>) = answers.into_iter().partition(|(_, is_at_once)| *is_at_once);
    assert_eq!(at_once, [(Some(429), true)], "one more than may wait");
    assert_eq!(later, [(Some(403), false); 8], "judged once there was room");
}

/// A write that was shed passes where a policy says `Ignore`. The reconciler hears of it by its canary, and judges what is there.
#[tokio::test(start_paused = true)]
async fn a_canary_tells_that_policies_gave_no_verdict() {
    let app = few(1);
    let told = async || app.send("/validate/own-kinds", "rule-canary").await.refused(418, "Canary");
    let slow = app.call(stalled("/validate/warnings?timeout=1s", 100));
    let (slow, shed) = tokio::join!(slow, async {
        tokio::time::sleep(Duration::from_millis(1)).await;
        app.send("/mutate/defaults", "configmap-create").await.status
    });
    assert_eq!((slow.status, shed), (StatusCode::GATEWAY_TIMEOUT, StatusCode::TOO_MANY_REQUESTS));
    assert_eq!(told().await, "copyrator canary t0k3n-42, unstamped", "no policy was asked");
    let slow = app.call(stalled("/validate/warnings?timeout=1s", 100));
    let (_, shed) = tokio::join!(slow, async {
        tokio::time::sleep(Duration::from_millis(1)).await;
        app.send("/validate/policies", "configmap-create").await.status
    });
    assert_eq!(shed, StatusCode::TOO_MANY_REQUESTS);
    let said = told().await;
    assert!(said.starts_with("copyrator canary t0k3n-42, unstamped, unjudged 1"), "{said}");
}

/// A recorded review on a connection of its own: the answer's status.
async fn ask(address: std::net::SocketAddr, path: &str, review: &str) -> u16 {
    let body = recorded(review).to_string();
    let head = format!(
        "POST {path} HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    let mut socket = TcpStream::connect(address).await.unwrap();
    socket.write_all((head + &body).as_bytes()).await.unwrap();
    let mut line = [0; 12];
    socket.read_exact(&mut line).await.unwrap();
    std::str::from_utf8(&line).unwrap().trim_start_matches("HTTP/1.1 ").parse().unwrap()
}

/// policy-server waits for a place without a deadline; a queue makes the API server's patience run out for all.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_times_too_much_is_answered_or_shed_and_nobody_waits() {
    const MOST: usize = 8;
    let mut cluster = guarded().fault("wait");
    cluster.most = MOST;
    let app = cluster.app();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let signal = CancellationToken::new();
    let drain = Drain { propagation_delay: Duration::ZERO, ..Drain::on(signal.clone()) };
    let mut server: JoinSet<Drained> = JoinSet::new();
    let counted = ConnectionMetrics::default();
    server.spawn(serve_plain(listener, app.router.clone(), drain, Limits::default(), counted.clone()));

    let quick = || ask(address, "/validate/policies", "configmap-create");
    // Until the authorizer answers, which is up to this test.
    let held = || ask(address, "/validate/own-kinds?timeout=30s", "rule-create");
    let (mut holding, mut more) = (JoinSet::new(), JoinSet::new());
    let full = async {
        // Few reviews of one namespace are judged at once, so they come one by one. A review is counted and given a place in one go, so
        // that a caller that connects from now on comes later.
        for number in 1..=MOST as i64 {
            holding.spawn(held());
            while app.metrics.in_flight.get() < number {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        }
    };
    tokio::time::timeout(DEADLINE, full).await.unwrap();
    (0..10 * MOST).for_each(|_| drop(more.spawn(quick())));
    let shed = tokio::time::timeout(DEADLINE, more.join_all()).await.expect("all are answered, none waits");
    assert!(shed.iter().all(|status| *status == 429), "every place was taken: {shed:?}");
    app.table.go_on.cancel();
    let held = tokio::time::timeout(DEADLINE, holding.join_all()).await.unwrap();
    assert_eq!(held, [200; MOST], "who had a place keeps it");

    let mut flood = JoinSet::new();
    (0..40 * MOST).for_each(|_| drop(flood.spawn(quick())));
    let statuses = tokio::time::timeout(DEADLINE, flood.join_all()).await.expect("none hangs");
    let answered = statuses.iter().filter(|status| **status == 200).count();
    let turned_away = statuses.iter().filter(|status| **status == 429).count();
    assert!(answered > 0 && answered + turned_away == statuses.len(), "{statuses:?}");
    assert_eq!(app.metrics.shed.get() as usize, turned_away + 10 * MOST);
    signal.cancel();
    assert_eq!(server.join_next().await.unwrap().unwrap(), Drained { cut_off: 0 });
    assert_eq!((app.metrics.in_flight.get(), counted.open.get()), (0, 0));
}
