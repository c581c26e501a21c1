//! Writes statuses of our own kinds.

use kube::{
    Api, Client, Resource,
    api::{ApiResource, DynamicObject, Patch, PatchParams},
};
use serde::Serialize;
use serde_json::json;

use super::{
    lead::{Lead, WRITE_TIMEOUT},
    outcome::Outcome,
};
use crate::marks::STATUS_MANAGER;

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
    if !lead.leads() {
        return Outcome::NotLeading;
    }
    let resource = ApiResource::erase::<K>(&());
    let api: Api<DynamicObject> = match of.namespace {
        Some(namespace) => Api::namespaced_with(client.clone(), namespace, &resource),
        None => Api::all_with(client.clone(), &resource),
    };
    let body = json!({
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": {"name": of.name, "uid": of.uid},
        "status": status,
    });
    let params = PatchParams::apply(STATUS_MANAGER).force();
    let patch = Patch::Apply(body);
    match tokio::time::timeout(WRITE_TIMEOUT, api.patch_status(of.name, &params, &patch)).await {
        Ok(Ok(_)) => Outcome::Done,
        Ok(Err(error)) => error.into(),
        Err(_) => Outcome::Retry { after: None, message: format!("no answer in {WRITE_TIMEOUT:?}") },
    }
}
