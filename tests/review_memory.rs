//! What one review costs in memory: a bounded multiple of its body, whatever the body is. And what it costs to read objects
//! that are only compared: a few megabytes, however many and however large they are.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on says so")]

use std::{
    alloc::{GlobalAlloc, Layout, System},
    sync::atomic::{AtomicUsize, Ordering::Relaxed},
};

use axum::body::{Body, Bytes};
use copyrator::{
    digest::DigestKey,
    names::{Kind, ObjectKey},
    testing::Contents,
};
use futures::{StreamExt, stream};
use http::Request;
use serde_json::{Value, json};

#[path = "reviews/harness.rs"]
#[allow(dead_code, reason = "the other tests use the rest")]
mod harness;

use harness::Cluster;

/// Counts what is allocated, and the most that was at once.
struct Counting;

/// The allocator counts all of the process: one test at a time.
static TURN: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());
static EVER: AtomicUsize = AtomicUsize::new(0);

static NOW: AtomicUsize = AtomicUsize::new(0);
static MOST: AtomicUsize = AtomicUsize::new(0);

fn grown(by: usize) {
    EVER.fetch_add(by, Relaxed);
    let now = NOW.fetch_add(by, Relaxed) + by;
    MOST.fetch_max(now, Relaxed);
}

#[allow(unsafe_code, reason = "an allocator is unsafe by its trait; this one counts and passes on")]
// SAFETY: every call goes to the system's allocator with the arguments it came with.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        grown(layout.size());
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        NOW.fetch_sub(layout.size(), Relaxed);
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // As if the old and the new were both there, which they can be.
        grown(size);
        NOW.fetch_sub(layout.size(), Relaxed);
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

/// An update whose two versions have so many bytes of JSON each.
fn update(kind: &str, value: &str, bytes: usize) -> Vec<u8> {
    let mut object = json!({"apiVersion": "v1", "kind": kind, "metadata": {"name": "web", "namespace": "shop",
        "uid": "u", "labels": {"owner": "x"}}, "data": {}});
    for number in 0.. {
        object["data"][format!("key-{number}")] = value.into();
        if (number + 1) * json!(value).to_string().len() >= bytes {
            break;
        }
    }
    let mut old = object.clone();
    old["metadata"]["labels"] = Value::Null;
    let review = json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {
        "uid": "1", "kind": {"group": "", "version": "v1", "kind": kind},
        "resource": {"group": "", "version": "v1", "resource": "x"}, "name": "web", "namespace": "shop",
        "operation": "UPDATE", "userInfo": {"username": "alice"}, "object": object, "oldObject": old}});
    review.to_string().into_bytes()
}

/// The most that was allocated at once while a body came, as the network brings it, and was answered.
async fn peak(kind: &str, value: &str) -> (usize, usize) {
    let spec = json!({"match": {"kinds": ["ConfigMap", "Secret"]}, "data": [{"name": "ca", "keys": ["ca.crt"],
        "format": "pem-certificate"}], "labels": {"required": ["owner"]}});
    let app = Cluster::new().policy("app", spec).app();
    // What the client holds is not ours to count.
    let body: &'static [u8] = Vec::leak(update(kind, value, 3 << 20));
    let small: &'static [u8] = Vec::leak(update(kind, "x234", 1));
    let request = |body: &'static [u8]| {
        // Each is made when it is asked for, and counts for as long as it is kept.
        let pieces =
            body.chunks(64 << 10).map(|piece| Ok::<_, std::io::Error>(Bytes::copy_from_slice(piece)));
        Request::post("/validate/policies")
            .header("content-type", "application/json")
            .header("content-length", body.len())
            .body(Body::from_stream(stream::iter(pieces)))
            .unwrap()
    };
    // What is made once is not the large one's.
    app.call(request(small)).await.allowed();
    let before = NOW.load(Relaxed);
    MOST.store(before, Relaxed);
    app.call(request(body)).await.allowed();
    let most = MOST.load(Relaxed) - before;
    let left = NOW.load(Relaxed).saturating_sub(before);
    assert!(left < 64 << 10, "{kind}: {left} bytes are left behind");
    (most, body.len())
}

/// policy-server and controller-runtime hold body, envelope and objects at the same time.
#[tokio::test]
async fn a_review_takes_a_bounded_multiple_of_its_body() {
    let _turn = TURN.lock().await;
    for (kind, value, most_percent) in [
        ("ConfigMap", "x".repeat(64 << 10), 110),
        // Half of each value has to be written anew: there it is escaped.
        ("ConfigMap", "line\n".repeat(12 << 10), 200),
        ("Secret", "QUJD".repeat(16 << 10), 190),
    ] {
        let (most, body) = peak(kind, &value).await;
        assert!(
            most <= body * most_percent / 100 + (64 << 10),
            "{kind}: {most} bytes for a body of {body}, more than {most_percent} %"
        );
    }
}

/// Everything that was allocated while a document was judged, by a format or by a schema of it.
async fn allocated(format: &str, schema: Option<&Value>, document: &str) -> usize {
    let mut rule = json!({"name": "d", "keys": ["d"], "format": format});
    if let Some(schema) = schema {
        rule["schema"] = schema.clone();
    }
    let app = Cluster::new().policy("app", json!({"match": {"kinds": ["ConfigMap"]}, "data": [rule]})).app();
    let object = json!({"metadata": {"name": "web", "namespace": "shop"}, "data": {"d": document}});
    let review = json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {
        "uid": "1", "kind": {"group": "", "version": "v1", "kind": "ConfigMap"},
        "resource": {"group": "", "version": "v1", "resource": "configmaps"}, "name": "web", "namespace": "shop",
        "operation": "CREATE", "userInfo": {"username": "alice"}, "object": object}});
    let body = review.to_string();
    // What is made once is not the document's.
    app.send_bytes("/validate/policies", body.clone()).await.allowed();
    let before = EVER.load(Relaxed);
    app.send_bytes("/validate/policies", body).await.allowed();
    EVER.load(Relaxed) - before
}

/// Time is not counted here: but code that reads a document again for each of its lines keeps something of it each time.
#[tokio::test]
async fn twice_the_document_takes_twice_the_memory_to_read() {
    let _turn = TURN.lock().await;
    let line = |format: &str, number: usize| match format {
        "json" => format!("\"k{number}\": [1, \"a b\"],\n"),
        "toml" => format!("k{number} = [1, \"a b\"]\n"),
        "properties" => format!("k{number}=a \\\n  b\n"),
        _ => format!("k{number}: [1, \"a b\", {{c: d}}]\n"),
    };
    let document = |format: &str, lines: usize| {
        let all: String = (0..lines).map(|number| line(format, number)).collect();
        if format == "json" { format!("{{{all}\"end\": []}}") } else { all }
    };
    let schema = json!({"additionalProperties": {"type": "array"}});
    for (format, schema) in [
        ("yaml", None),
        ("yaml", Some(&schema)),
        ("json", None),
        ("json", Some(&schema)),
        ("toml", None),
        ("toml", Some(&schema)),
        ("properties", None),
    ] {
        let once = allocated(format, schema, &document(format, 2_000)).await;
        let twice = allocated(format, schema, &document(format, 4_000)).await;
        assert!(twice < once * 22 / 10, "{format}: {once} bytes for 2000 lines, {twice} for 4000");
    }
}

/// Two hundred ConfigMaps of a megabyte, as many at a time as there are workers: a Deployment without replicas can name them.
#[tokio::test]
async fn objects_that_are_only_compared_are_not_kept() {
    const COUNT: usize = 200;
    const CHUNK: &[u8] = &[b'x'; 16 << 10];
    let _turn = TURN.lock().await;
    let service = tower::service_fn(|_: Request<kube::client::Body>| async {
        let head = r#"{"metadata":{"name":"a","uid":"u","resourceVersion":"1"},"data":{"v":""#;
        let chunks = std::iter::once(Bytes::from_static(head.as_bytes()))
            .chain(std::iter::repeat_n(Bytes::from_static(CHUNK), 62))
            .chain([Bytes::from_static(b"\"}}")]);
        let body = Body::from_stream(stream::iter(chunks.map(Ok::<_, std::io::Error>)));
        Ok::<_, std::convert::Infallible>(http::Response::new(body))
    });
    let contents = Contents::new(kube::Client::new(service, "shop"));
    let key = DigestKey::new(&[7; DigestKey::LENGTH]);
    let before = NOW.load(Relaxed);
    MOST.store(before, Relaxed);
    let all = stream::iter(0..COUNT).map(|number| {
        let (contents, key) = (&contents, &key);
        let object = ObjectKey::new(Kind::ConfigMap, "shop", format!("large-{number}"));
        async move { contents.print(&object, "1", key).await.unwrap().size() }
    });
    let sizes: Vec<u64> = all.buffer_unordered(24).collect().await;
    assert_eq!(sizes, vec![(62 * CHUNK.len() + 1) as u64; COUNT]);
    let (most, kept) = (MOST.load(Relaxed) - before, NOW.load(Relaxed).saturating_sub(before));
    assert!(most < 12 << 20, "{most} bytes at once");
    assert!(kept < 1 << 20, "{kept} bytes are kept");
}
