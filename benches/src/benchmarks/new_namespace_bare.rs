//! The same copies into new namespaces, by a client that has nothing to think about: what it writes into each was made
//! beforehand, and goes out as soon as its watch tells of the namespace.

use std::collections::BTreeMap;

use http_body_util::BodyExt;
use kube::Client;
use kube::client::Body;
use serde::Deserialize;
use tokio::task::JoinSet;

use super::bare::{Expected, Template};
use crate::Outcome;
use crate::arena::IN_FLIGHT;
use crate::writes::{Prepared, send_all};

/// An event of the watch, as far as the bare client reads it.
#[derive(Deserialize)]
struct Event {
    #[serde(rename = "type")]
    kind: String,
    object: Object,
}

#[derive(Deserialize)]
struct Object {
    metadata: Metadata,
}

#[derive(Deserialize)]
struct Metadata {
    name: String,
}

/// What goes into each of these namespaces: copies of these names, all like the template.
pub(super) fn prepare(
    template: &Template,
    names: &[String],
    namespaces: &[String],
) -> Outcome<BTreeMap<String, Vec<Prepared>>> {
    let mut prepared: BTreeMap<String, Vec<Prepared>> = BTreeMap::new();
    for name in names {
        let writes = template.writes(name, namespaces, name, &Expected::Nothing)?;
        for (namespace, write) in namespaces.iter().zip(writes) {
            prepared.entry(namespace.clone()).or_default().push(write);
        }
    }
    Ok(prepared)
}

/// Watches namespaces, and writes into each what was prepared for it, until all of it is written.
pub(super) async fn fill(client: Client, mut prepared: BTreeMap<String, Vec<Prepared>>) -> Outcome<()> {
    let request = http::Request::get("/api/v1/namespaces?watch=true")
        .header("accept", "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1");
    let mut events = client.send(request.body(Body::empty())?).await?.into_body();
    let (mut text, mut writing) = (Vec::new(), JoinSet::new());
    while !prepared.is_empty() {
        let frame = events.frame().await.ok_or("the watch of namespaces has ended")??;
        text.extend_from_slice(&frame.into_data().unwrap_or_default());
        while let Some(end) = text.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = text.drain(..=end).collect();
            let event: Event = serde_json::from_slice(&line)?;
            let writes = prepared.remove(&event.object.metadata.name).filter(|_| event.kind == "ADDED");
            if let Some(writes) = writes {
                let client = client.clone();
                writing.spawn(async move { send_all(&client, writes, IN_FLIGHT).await });
            }
        }
    }
    while let Some(written) = writing.join_next().await {
        written??;
    }
    Ok(())
}

/// Writes copies of this name into all of these namespaces, again and again, until it is stopped.
pub(super) async fn fan_out(
    client: Client,
    template: Template,
    name: &'static str,
    namespaces: Vec<String>,
) -> Outcome<()> {
    for version in 1.. {
        let writes = template.writes(name, &namespaces, &version.to_string(), &Expected::Anything)?;
        send_all(&client, writes, IN_FLIGHT).await?;
    }
    Ok(())
}
