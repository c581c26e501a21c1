//! Objects that templates have made, whole, for expressions that read them; and the pods of workloads among them. Nothing of it
//! is kept.

use std::time::Duration;

use k8s_openapi::{api::core::v1::Pod, apimachinery::pkg::apis::meta::v1::LabelSelector};
use kube::{
    Api, Client,
    api::ListParams,
    core::{DynamicObject, Selector},
};
use serde_json::Value;

use crate::names::ObjectKey;

/// How long one request may take.
const TIMEOUT: Duration = Duration::from_secs(10);
/// How many pods of a workload expressions see at most.
const MOST_PODS: u32 = 500;

/// Why an object or its pods could not be read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ReadError {
    /// The API server refused, or could not be reached.
    #[error("cannot {0}")]
    Read(String, #[source] Box<kube::Error>),
    /// The API server did not answer in time.
    #[error("cannot {0}: no answer in {TIMEOUT:?}")]
    Timeout(String),
}

/// The object with this UID; `None` where there is none.
///
/// # Errors
/// The API server did not give it.
pub(crate) async fn object(client: &Client, key: &ObjectKey, uid: &str) -> Result<Option<Value>, ReadError> {
    let api =
        Api::<DynamicObject>::namespaced_with(client.clone(), &key.namespace, &key.kind.resource().into());
    let found = within(format!("get {key}"), api.get_opt(&key.name)).await?;
    let found = found.filter(|object| object.metadata.uid.as_deref() == Some(uid));
    Ok(found.and_then(|object| serde_json::to_value(object).ok()))
}

/// The pods that a workload's selector finds, but for those that are being deleted.
///
/// # Errors
/// The API server gave no list.
pub(crate) async fn pods(
    client: &Client,
    key: &ObjectKey,
    workload: &Value,
) -> Result<Vec<Value>, ReadError> {
    let selector = serde_json::from_value::<LabelSelector>(workload["spec"]["selector"].clone()).ok();
    let Some(selector) = selector.and_then(|selector| Selector::try_from(selector).ok()) else {
        return Ok(Vec::new());
    };
    if selector.selects_all() {
        return Ok(Vec::new());
    }
    let params = ListParams::default().labels_from(&selector).limit(MOST_PODS);
    let api = Api::<Pod>::namespaced(client.clone(), &key.namespace);
    let listed = within(format!("list the pods of {key}"), api.list(&params)).await?;
    let is_there = |pod: &Pod| pod.metadata.deletion_timestamp.is_none();
    let there = listed.items.into_iter().filter(is_there);
    Ok(there.filter_map(|pod| serde_json::to_value(pod).ok()).collect())
}

async fn within<T>(what: String, request: impl Future<Output = kube::Result<T>>) -> Result<T, ReadError> {
    match tokio::time::timeout(TIMEOUT, request).await {
        Ok(answer) => answer.map_err(|error| ReadError::Read(what, Box::new(error))),
        Err(_) => Err(ReadError::Timeout(what)),
    }
}
