//! Writes the index of annotated sources, which the webhook reads.

use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api, Client,
    api::{Patch, PatchParams},
};
use serde_json::json;

use super::{
    lead::{Lead, WRITE_TIMEOUT},
    outcome::Outcome,
};
use crate::{marks::INDEX_MANAGER, model::ObjectKey, plan::SourceIndex};

/// The version of the index that a change was decided on.
#[derive(Clone, Debug)]
pub struct Version {
    /// Its UID.
    pub uid: Box<str>,
    /// Its resource version.
    pub resource_version: Box<str>,
}

/// Writes the index by server-side apply: on the version it was decided on, or where there is none yet.
pub async fn write_source_index(
    client: &Client,
    lead: &Lead,
    at: &ObjectKey,
    version: Option<&Version>,
    index: &SourceIndex,
) -> Outcome {
    if !lead.leads() {
        return Outcome::NotLeading;
    }
    let data = match index.to_data() {
        Ok(data) => data,
        Err(error) => return Outcome::Retry { after: None, message: error.to_string() },
    };
    let mut metadata = json!({"name": &*at.name, "labels": {"app.kubernetes.io/name": "copyrator"}});
    match version {
        Some(version) => {
            metadata["uid"] = json!(version.uid);
            metadata["resourceVersion"] = json!(version.resource_version);
        }
        // Taken only where nothing is there.
        None => metadata["resourceVersion"] = json!("1"),
    }
    let body = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data});
    let api: Api<ConfigMap> = Api::namespaced(client.clone(), &at.namespace);
    let params = PatchParams::apply(INDEX_MANAGER).force();
    let patch = Patch::Apply(body);
    match tokio::time::timeout(WRITE_TIMEOUT, api.patch_metadata(&at.name, &params, &patch)).await {
        Ok(Ok(_)) => Outcome::Done,
        Ok(Err(error)) => error.into(),
        Err(_) => Outcome::Retry { after: None, message: format!("no answer in {WRITE_TIMEOUT:?}") },
    }
}
