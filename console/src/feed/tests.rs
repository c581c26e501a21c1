//! Streams over an API server that answers what a test says.

use http::StatusCode;
use http_body_util::BodyExt as _;
use serde_json::{Value, json};

use crate::{seat::STREAMS, tests::Run};

fn list(version: &str) -> (u16, Value) {
    (200, json!({ "metadata": { "resourceVersion": version }, "items": [] }))
}

fn refusal(code: u16, message: &str) -> Value {
    json!({ "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": message, "code": code })
}

fn event(version: &str, reason: &str) -> Value {
    json!({ "type": "ADDED", "object": { "apiVersion": "v1", "kind": "Event", "type": "Warning", "reason": reason,
        "metadata": { "namespace": "shop", "name": reason, "uid": reason, "resourceVersion": version },
        "involvedObject": { "kind": "Secret", "namespace": "shop", "name": "registry" },
        "related": { "kind": "Node", "name": "a" },
        "message": "an object is in the way", "eventTime": "2026-01-01T00:00:00.000000Z",
        "series": { "count": 3, "lastObservedTime": "2026-01-01T00:01:00.000000Z" } } })
}

/// The blocks of a stream that has ended.
async fn blocks(run: &Run, path: &str, headers: &[(&str, &str)]) -> Vec<String> {
    let response = run.open(path, headers).await;
    assert_eq!(response.status(), StatusCode::OK);
    assert_eq!(response.headers()["content-type"], "text/event-stream");
    assert_eq!(response.headers()["cache-control"], "no-store");
    let bytes = response.into_body().collect().await.unwrap().to_bytes();
    String::from_utf8(bytes.to_vec()).unwrap().split_terminator("\n\n").map(str::to_owned).collect()
}

fn id(block: &str) -> &str {
    block.lines().find_map(|line| line.strip_prefix("id: ")).unwrap()
}

#[tokio::test]
async fn what_happens_is_told_and_the_last_id_goes_on_after_it() {
    let run = Run::over(|method, path| match (method, path) {
        ("GET", "/api/v1/events") => list("7"),
        ("WATCH", "/api/v1/events") => (200, json!([event("8", "CopyRefused")])),
        other => panic!("{other:?}"),
    });
    let told = blocks(&run, "/api/v1/events", &[]).await;
    let [begin, happening] = &told[..] else { panic!("{told:#?}") };
    assert!(begin.starts_with("retry: 2000") && !begin.contains("data"), "{begin}");
    let data = happening.lines().find_map(|line| line.strip_prefix("data: ")).unwrap();
    let expected = json!({ "id": "CopyRefused", "at": "2026-01-01T00:01:00Z", "warning": true, "reason": "CopyRefused",
        "message": "an object is in the way", "count": 3,
        "about": { "kind": "Secret", "namespace": "shop", "name": "registry", "page": "/object/secret/shop/registry" },
        "related": { "kind": "Node", "name": "a" } });
    assert_eq!(serde_json::from_str::<Value>(data).unwrap(), expected);
    assert_ne!(id(begin), id(happening));
    // Nothing is listed then, and the header counts more than the address.
    let again = format!("/api/v1/events?after={}", id(begin));
    let told = blocks(&run, &again, &[("last-event-id", id(happening))]).await;
    assert_eq!(id(&told[0]), id(happening), "{told:#?}");
    assert_eq!(id(&blocks(&run, &again, &[]).await[0]), id(begin));
    let nonsense = blocks(&run, "/api/v1/events?after=nonsense", &[]).await;
    assert_eq!(nonsense, ["event: reset\nid: \ndata: {}"]);
}

#[tokio::test]
async fn what_is_too_old_is_begun_anew() {
    let gone = || refusal(410, "too old resource version: 7 (9)");
    for answer in [(410, gone()), (200, json!([{ "type": "ERROR", "object": gone() }]))] {
        let run = Run::over(move |method, _| if method == "WATCH" { answer.clone() } else { list("7") });
        let told = blocks(&run, "/api/v1/events", &[]).await;
        assert_eq!(told.last().unwrap(), "event: reset\nid: \ndata: {}");
    }
    let broken = Run::over(|method, _| match method {
        "WATCH" => {
            (200, json!([{ "type": "ERROR", "object": refusal(500, "etcd is away") }, event("8", "Late")]))
        }
        _ => list("7"),
    });
    let told = blocks(&broken, "/api/v1/events", &[]).await;
    assert!(told[1].contains("event: problem") && told[1].contains("etcd is away"), "{told:#?}");
    assert_eq!(told.len(), 2, "it ends there: {told:#?}");
}

#[tokio::test]
async fn a_caller_sees_the_namespaces_that_they_may() {
    let run = Run::over(|method, path| match (method, path) {
        ("GET", "/api/v1/events") => (403, refusal(403, "events is forbidden")),
        ("GET" | "WATCH", "/api/v1/namespaces/web/events") => {
            (403, refusal(403, "events is forbidden in web"))
        }
        ("GET", "/api/v1/namespaces/shop/events") => list("7"),
        ("WATCH", "/api/v1/namespaces/shop/events") => (200, json!([event("8", "Here")])),
        other => panic!("{other:?}"),
    });
    let told = blocks(&run, "/api/v1/events", &[]).await;
    assert!(told[1].contains("event: problem") && told[2].contains("\"Here\""), "{told:#?}");
    let told = blocks(&run, "/api/v1/events?namespaces=shop,web", &[]).await;
    assert!(told[1].contains("forbidden in web") && told[2].contains("\"Here\""), "{told:#?}");
    let resumed =
        blocks(&run, &format!("/api/v1/events?namespaces=shop,web&after={}", id(&told[2])), &[]).await;
    assert_eq!(resumed.len(), 2, "{resumed:#?}");
    let refused = run.open("/api/v1/events?namespaces=web", &[]).await;
    assert_eq!(refused.status(), StatusCode::FORBIDDEN);
}

/// A watch that brings nothing ends with the console, and there is a bound to their number.
#[tokio::test(start_paused = true)]
async fn streams_are_few_and_end_with_the_console_or_after_five_minutes() {
    let run = Run::over(|method, _| if method == "WATCH" { (200, Value::Null) } else { list("7") });
    let mut open = Vec::new();
    for _ in 0..STREAMS {
        open.push(run.open("/api/v1/events", &[]).await);
    }
    let refused = run.open("/api/v1/events", &[]).await;
    assert_eq!(refused.status(), StatusCode::TOO_MANY_REQUESTS);
    let begun = tokio::time::Instant::now();
    let told = open.pop().unwrap().into_body().collect().await.unwrap().to_bytes();
    assert_eq!(begun.elapsed().as_secs(), 300);
    assert!(String::from_utf8_lossy(&told).contains("\n:"), "signs of life: {told:?}");
    open.push(run.open("/api/v1/events", &[]).await);
    let ends = tokio::time::Instant::now();
    run.end();
    for response in open {
        response.into_body().collect().await.unwrap();
    }
    assert_eq!(ends.elapsed().as_secs(), 0);
}
