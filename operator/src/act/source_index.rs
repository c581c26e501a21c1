//! Writes the index of annotated sources, which the webhook reads.

use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api,
    api::{Patch, PatchParams},
};
use serde_json::json;

use super::writer::Writer;
use crate::{dry_run::outcome::Outcome, marks::INDEX_MANAGER, names::ObjectKey, plan::copy::SourceIndex};

/// The version of the index that a change was planned for.
#[derive(Clone, Debug)]
pub(crate) struct Version {
    pub uid: Box<str>,
    pub resource_version: Box<str>,
}

/// Writes the index by server-side apply: over the version that the change was planned for, or as a new
/// object if none exists.
pub(crate) async fn write_source_index(
    writer: &Writer,
    at: &ObjectKey,
    version: Option<&Version>,
    index: &SourceIndex,
) -> Outcome {
    let data = match index.to_data() {
        Ok(data) => data,
        Err(error) => return Outcome::retry(error.to_string()),
    };
    let mut metadata = json!({"name": &*at.name, "labels": {"app.kubernetes.io/name": "copyrator"}});
    match version {
        Some(version) => {
            metadata["uid"] = json!(version.uid);
            metadata["resourceVersion"] = json!(version.resource_version);
        }
        // The API server accepts this version only if the object does not exist.
        None => metadata["resourceVersion"] = json!("1"),
    }
    let body = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data});
    let (params, patch) = (PatchParams::apply(INDEX_MANAGER).force(), Patch::Apply(body));
    let written = writer.send(|client| async {
        let api: Api<ConfigMap> = Api::namespaced(client, &at.namespace);
        api.patch_metadata(&at.name, &params, &patch).await
    });
    written.await.map_or_else(Outcome::from, |_| Outcome::Done)
}
