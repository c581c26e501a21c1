//! Writes statuses of our own kinds.

use kube::{
    Api, Client, Resource,
    api::{ApiResource, DynamicObject, Patch, PatchParams},
};
use serde::Serialize;
use serde_json::{Value, json};

use super::{
    lead::{Lead, WRITE_TIMEOUT},
    outcome::Outcome,
};
use crate::{
    api::ConfigMonitor,
    marks::{PODS_MANAGER, STATUS_MANAGER},
    model::{MonitorFacts, NamespacedName},
};

/// The object whose status is written.
#[derive(Clone, Copy, Debug)]
pub struct StatusOf<'a> {
    /// Its namespace, if it has one.
    pub namespace: Option<&'a str>,
    /// Its name.
    pub name: &'a str,
    /// Its UID, so that a new object under the same name does not get an old one's status.
    pub uid: &'a str,
}

/// The version of a monitor that something was decided on.
#[derive(Clone, Debug)]
pub struct Version {
    uid: Box<str>,
    resource_version: Box<str>,
}

impl Version {
    /// This one.
    pub fn of(facts: &MonitorFacts) -> Self {
        Self { uid: facts.uid.clone(), resource_version: facts.resource_version.clone() }
    }
}

/// Writes one status by server-side apply to the status subresource.
pub async fn write_status<K>(
    client: &Client,
    lead: &Lead,
    of: StatusOf<'_>,
    status: &impl Serialize,
) -> Outcome
where
    K: Resource<DynamicType = ()>,
{
    let metadata = json!({"name": of.name, "uid": of.uid});
    let body = json!({"metadata": metadata, "status": status});
    apply::<K>(client, lead, of, STATUS_MANAGER, body).await
}

/// Records what the pods run with that a monitor finds itself: on the very version of the monitor that this was decided
/// on, since a decision on an older one would take a change of content for its first sight.
pub async fn record_pods(
    client: &Client,
    lead: &Lead,
    monitor: &NamespacedName,
    version: &Version,
    label: &str,
) -> Outcome {
    let of = StatusOf { namespace: Some(&monitor.namespace), name: &monitor.name, uid: &version.uid };
    let metadata = json!({"name": of.name, "uid": of.uid, "resourceVersion": version.resource_version});
    let body = json!({"metadata": metadata, "status": {"podsApplied": label}});
    apply::<ConfigMonitor>(client, lead, of, PODS_MANAGER, body).await
}

async fn apply<K>(client: &Client, lead: &Lead, of: StatusOf<'_>, manager: &str, mut body: Value) -> Outcome
where
    K: Resource<DynamicType = ()>,
{
    if !lead.leads() {
        return Outcome::NotLeading;
    }
    let resource = ApiResource::erase::<K>(&());
    let api: Api<DynamicObject> = match of.namespace {
        Some(namespace) => Api::namespaced_with(client.clone(), namespace, &resource),
        None => Api::all_with(client.clone(), &resource),
    };
    body["apiVersion"] = json!(resource.api_version);
    body["kind"] = json!(resource.kind);
    let params = PatchParams::apply(manager).force();
    let patch = Patch::Apply(body);
    match tokio::time::timeout(WRITE_TIMEOUT, api.patch_status(of.name, &params, &patch)).await {
        Ok(Ok(_)) => Outcome::Done,
        Ok(Err(error)) => error.into(),
        Err(_) => Outcome::Retry { after: None, message: format!("no answer in {WRITE_TIMEOUT:?}") },
    }
}
