//! Many requests that are made beforehand, sent as fast as they go: the bare client, and what sets up a world.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use http::{Method, Request, StatusCode};
use http_body_util::BodyExt;
use kube::Client;
use kube::client::Body;
use serde_json::Value;
use tokio::{task::JoinSet, time::sleep};

use crate::Outcome;

/// How often a busy server is asked again, and after which pause.
const TRIES: usize = 300;
const AGAIN: Duration = Duration::from_millis(200);

/// A request with all of its bytes.
pub(crate) type Prepared = Request<Vec<u8>>;

/// The request that creates an object in a collection (`/api/v1/namespaces`).
pub(crate) fn create(collection: &str, object: &Value) -> Outcome<Prepared> {
    request(Method::POST, collection, "application/json", object)
}

/// The request that replaces an object.
pub(crate) fn replace(path: &str, object: &Value) -> Outcome<Prepared> {
    request(Method::PUT, path, "application/json", object)
}

/// The request by which Copyrator writes a copy, down to the answer that it wants: metadata only.
pub(crate) fn apply(path: &str, manager: &str, object: &Value) -> Outcome<Prepared> {
    let uri = format!("{path}?&force=true&fieldManager={manager}");
    request(Method::PATCH, &uri, "application/apply-patch+yaml", object)
}

/// The request that changes part of an object.
pub(crate) fn merge(path: &str, patch: &Value) -> Outcome<Prepared> {
    request(Method::PATCH, path, "application/merge-patch+json", patch)
}

/// The request that deletes an object.
pub(crate) fn remove(path: &str) -> Outcome<Prepared> {
    Ok(Request::builder().method(Method::DELETE).uri(path).body(Vec::new())?)
}

fn request(method: Method, uri: &str, content: &str, object: &Value) -> Outcome<Prepared> {
    let accept = match method {
        Method::PATCH => "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1",
        _ => "application/json",
    };
    let builder = Request::builder().method(method).uri(uri);
    let builder = builder.header("content-type", content).header("accept", accept);
    Ok(builder.body(serde_json::to_vec(object)?)?)
}

/// Sends all of them, `in_flight` at a time. Answers are drained, not parsed. The first that is no success ends it: a
/// measurement with failed writes is none.
pub(crate) async fn send_all(client: &Client, requests: Vec<Prepared>, in_flight: usize) -> Outcome<()> {
    all(client, requests, in_flight, 0).await
}

/// The same for what sets up a world: where somebody answers "too many requests", the request is sent again.
pub(crate) async fn set_up(client: &Client, requests: Vec<Prepared>, in_flight: usize) -> Outcome<()> {
    all(client, requests, in_flight, TRIES).await
}

async fn all(client: &Client, requests: Vec<Prepared>, in_flight: usize, tries: usize) -> Outcome<()> {
    let requests = Arc::new(Mutex::new(requests.into_iter()));
    let mut workers: JoinSet<Outcome<()>> = JoinSet::new();
    for _ in 0..in_flight {
        let (client, requests) = (client.clone(), requests.clone());
        workers.spawn(async move {
            let next = || requests.lock().unwrap_or_else(PoisonError::into_inner).next();
            'next: while let Some(request) = next() {
                for _ in 0..tries {
                    match sent(&client, request.clone()).await? {
                        None => continue 'next,
                        Some((StatusCode::TOO_MANY_REQUESTS, _)) => sleep(AGAIN).await,
                        Some((_, refusal)) => return Err(refusal.into()),
                    }
                }
                send(&client, request).await?;
            }
            Ok(())
        });
    }
    while let Some(ended) = workers.join_next().await {
        ended??;
    }
    Ok(())
}

/// Sends one request, and drops what it answers.
pub(crate) async fn send(client: &Client, request: Prepared) -> Outcome<()> {
    match sent(client, request).await? {
        Some((_, refusal)) => Err(refusal.into()),
        None => Ok(()),
    }
}

/// Sends one; returns status and text of an answer that is no success.
async fn sent(client: &Client, request: Prepared) -> Outcome<Option<(StatusCode, String)>> {
    let what = format!("{} {}", request.method(), request.uri());
    let mut answer = client.send(request.map(Body::from)).await?;
    let status = answer.status();
    if !status.is_success() {
        let body = answer.into_body().collect().await?.to_bytes();
        return Ok(Some((status, format!("{what}: {}", String::from_utf8_lossy(&body)))));
    }
    while let Some(frame) = answer.body_mut().frame().await {
        frame?;
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use kube::api::{Patch, PatchParams};
    use kube::core::Request as KubeRequest;
    use serde_json::json;

    use super::*;

    #[test]
    fn the_bare_client_sends_what_kubes_apply_sends() {
        let object = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a"}});
        let path = "/api/v1/namespaces/b/secrets";
        let params = PatchParams::apply("copyrator-copy").force();
        let kubes = KubeRequest::new(path).patch_metadata("a", &params, &Patch::Apply(&object)).unwrap();
        let ours = apply(&format!("{path}/a"), "copyrator-copy", &object).unwrap();
        assert_eq!((kubes.method(), kubes.uri()), (ours.method(), ours.uri()));
        for header in ["content-type", "accept"] {
            let of = |request: &Prepared| request.headers().get(header).cloned();
            assert_eq!(of(&kubes), of(&ours), "{header}");
        }
        assert_eq!(kubes.body(), ours.body());
    }
}
