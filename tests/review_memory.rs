//! What one review costs in memory: a bounded multiple of its body, whatever the body is.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on says so")]

use std::{
    alloc::{GlobalAlloc, Layout, System},
    sync::atomic::{AtomicUsize, Ordering::Relaxed},
};

use axum::body::{Body, Bytes};
use futures::stream;
use http::Request;
use serde_json::{Value, json};

#[path = "reviews/harness.rs"]
#[allow(dead_code, reason = "the other tests use the rest")]
mod harness;

use harness::Cluster;

/// Counts what is allocated, and the most that was at once.
struct Counting;

static NOW: AtomicUsize = AtomicUsize::new(0);
static MOST: AtomicUsize = AtomicUsize::new(0);

fn grown(by: usize) {
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
    // One after the other: the allocator counts all of the process.
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
