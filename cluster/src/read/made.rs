//! Reads whole objects that templates have made, and the pods of workloads among them, for expressions. No
//! object stays in memory for longer than one rendering.

use std::time::Duration;

use k8s_openapi::{api::core::v1::Pod, apimachinery::pkg::apis::meta::v1::LabelSelector};
use kube::{
    Api, Client,
    api::ListParams,
    core::{DynamicObject, Selector},
};
use serde_json::Value;

use crate::{decoded::Decoded, names::ObjectKey};

/// How long one request may take.
const TIMEOUT: Duration = Duration::from_secs(10);
/// The most pods of a workload that expressions see.
const MOST_PODS: usize = 500;
/// Maximum size of these pods together, in bytes of JSON. Anybody who may create pods in the namespace can
/// create pods that the selector matches, as large as the API server accepts.
const MOST_BYTES: usize = 4 << 20;
/// The most pods on a page.
const PAGE: u32 = 100;

/// Why an object or its pods could not be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The API server refused, or could not be reached.
    #[error("cannot {0}")]
    Read(String, #[source] Box<kube::Error>),
    /// The API server did not answer in time.
    #[error("cannot {0}: no answer in {TIMEOUT:?}")]
    Timeout(String),
    /// Pods are larger than expressions can read.
    #[error(
        "the pods that match the selector of {0} have more than 4 MiB together, so Copyrator does not read them: make the pods smaller, \
         or narrow the selector"
    )]
    TooLarge(ObjectKey),
}

/// Returns the object with this UID; `None` if no such object exists.
///
/// # Errors
/// The API server did not return the object.
pub(crate) async fn object(client: &Client, key: &ObjectKey, uid: &str) -> Result<Option<Value>, ReadError> {
    let resource = key.kind.resource().into();
    let api = Api::<Decoded<DynamicObject>>::namespaced_with(client.clone(), &key.namespace, &resource);
    let found = within(format!("get {key}"), api.get_opt(&key.name)).await?;
    let found = found.and_then(|object| object.read().ok());
    let found = found.filter(|object| object.metadata.uid.as_deref() == Some(uid));
    Ok(found.and_then(|object| serde_json::to_value(object).ok()))
}

/// Returns the first 500 pods that a workload's selector matches, without pods that are being deleted, and
/// without managedFields, which expressions do not see.
///
/// # Errors
/// The API server did not return the list, or the pods are too large.
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
    let api = Api::<Decoded<Pod>>::namespaced(client.clone(), &key.namespace);
    let mut params = ListParams::default().labels_from(&selector).limit(PAGE);
    let (mut pods, mut room) = (Vec::new(), MOST_BYTES);
    loop {
        let page = within(format!("list the pods of {key}"), api.list(&params)).await?;
        // A pod that cannot be decoded is left out.
        let read = page.items.into_iter().filter_map(|pod| pod.read().ok());
        for mut pod in read.filter(|pod| pod.metadata.deletion_timestamp.is_none()) {
            pod.metadata.managed_fields = None;
            let Ok(pod) = serde_json::to_value(pod) else { continue };
            let left = room.checked_sub(pod.to_string().len());
            room = left.ok_or_else(|| ReadError::TooLarge(key.clone()))?;
            pods.push(pod);
            if pods.len() == MOST_PODS {
                return Ok(pods);
            }
        }
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => params = params.continue_token(&token),
            None => return Ok(pods),
        }
    }
}

async fn within<T>(what: String, request: impl Future<Output = kube::Result<T>>) -> Result<T, ReadError> {
    match tokio::time::timeout(TIMEOUT, request).await {
        Ok(answer) => answer.map_err(|error| ReadError::Read(what, Box::new(error))),
        Err(_) => Err(ReadError::Timeout(what)),
    }
}

#[cfg(test)]
mod tests {
    use http::{Request, Response};
    use kube::client::Body;
    use serde_json::json;

    use super::*;
    use crate::names::Kind;

    /// A client of an API server that has so many pods, each with an annotation of this length and managedFields.
    fn client(number: usize, length: usize) -> Client {
        let service = tower::service_fn(move |request: Request<Body>| {
            let value = |name: &str| {
                let mut parts = request.uri().query().unwrap().split('&');
                parts.find_map(|part| part.strip_prefix(name)?.parse::<usize>().ok())
            };
            let (from, limit) = (value("continue=").unwrap_or(0), value("limit=").unwrap());
            let to = number.min(from + limit);
            let pod = |at| {
                let deleted = (at == 1).then_some("2026-01-01T00:00:00Z");
                json!({"metadata": {"name": format!("p{at}"), "annotations": {"a": "x".repeat(length)},
                    "deletionTimestamp": deleted, "managedFields": [{"manager": "m".repeat(length)}]}})
            };
            let next = if to < number { to.to_string() } else { String::new() };
            let page =
                json!({"metadata": {"continue": next}, "items": (from..to).map(pod).collect::<Vec<_>>()});
            let answer = Response::new(Body::from(page.to_string().into_bytes()));
            async move { Ok::<_, std::convert::Infallible>(answer) }
        });
        Client::new(service, "default")
    }

    async fn read(number: usize, length: usize) -> Result<Vec<Value>, ReadError> {
        let workload = json!({"spec": {"selector": {"matchLabels": {"app": "web"}}}});
        pods(&client(number, length), &ObjectKey::new(Kind::Deployment, "shop", "web"), &workload).await
    }

    /// Otherwise a tenant ends the reconciler by large pods that a selector finds, at each start anew.
    #[tokio::test]
    async fn pods_are_read_page_by_page_within_a_number_and_a_size() {
        let pods = read(250, 10).await.unwrap();
        assert_eq!((pods.len(), &pods[248]["metadata"]["name"]), (249, &json!("p249")));
        assert_eq!(pods[0]["metadata"].get("managedFields"), None);
        assert_eq!(read(2000, 10).await.unwrap().len(), MOST_PODS);
        assert!(read(30, 100_000).await.is_ok());
        let refused = read(60, 100_000).await.unwrap_err();
        assert!(refused.to_string().contains("Deployment shop/web have more than 4 MiB"), "{refused}");
    }
}
