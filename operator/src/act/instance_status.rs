//! Writes the `writeStatus` of a template into the status of each object that the template is rendered for.
//! Each template has its own field manager, and never takes fields of other managers.

use kube::{
    Api,
    api::{DynamicObject, Patch, PatchParams},
};
use serde_json::{Value, json};

use super::{
    conflict::Conflict,
    writer::{WriteError, Writer},
};
use crate::{
    dry_run::outcome::Outcome,
    marks::status_manager,
    names::{Declarer, NamespacedName, StatusPlace, TemplateKind},
    read::instances::resource,
};

/// The result of a write.
#[derive(Debug)]
pub(crate) enum StatusWritten {
    /// The status that the object has now.
    Done(Value),
    /// A different manager owns a field.
    Owned {
        /// The API server's message, which names the manager.
        message: String,
        /// Whether the write of the other fields changed the object.
        changed: bool,
    },
    /// The API server does not serve this subresource, or the object is gone; the API server's answer is the
    /// same in both cases.
    Nowhere,
    /// The write failed for a different reason.
    Failed(Outcome),
}

/// The version of an object that the status was rendered for. The UID keeps an apply from creating a deleted
/// object again.
pub(crate) struct InstanceVersion<'v> {
    /// Namespace and name of the object.
    pub(crate) name: &'v NamespacedName,
    pub(crate) uid: &'v str,
    pub(crate) resource_version: &'v str,
}

/// Writes a status by server-side apply, to the subresource or to the object itself. Without a status,
/// removes what the template has written. If other managers own some fields, writes only the remaining
/// fields.
pub(crate) async fn write_instance_status(
    writer: &Writer,
    kind: &TemplateKind,
    place: StatusPlace,
    template: &Declarer,
    of: InstanceVersion<'_>,
    status: Option<&Value>,
) -> StatusWritten {
    let resource = &resource(kind);
    let mut body = json!({
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": {
            "namespace": &*of.name.namespace, "name": &*of.name.name, "uid": of.uid, "resourceVersion": of.resource_version,
        },
    });
    if let Some(status) = status {
        body["status"] = status.clone();
    }
    let params = &PatchParams::apply(&status_manager(template));
    let apply = |body: Value| {
        writer.send(move |client| {
            let api: Api<DynamicObject> = Api::namespaced_with(client, &of.name.namespace, resource);
            let (name, patch) = (&of.name.name, Patch::Apply(body));
            async move {
                match place {
                    StatusPlace::Subresource => api.patch_status(name, params, &patch).await,
                    StatusPlace::Object => api.patch(name, params, &patch).await,
                }
            }
        })
    };
    let (conflict, others) = match apply(body.clone()).await {
        Ok(object) => return StatusWritten::Done(object.data["status"].clone()),
        Err(WriteError::Api(error)) => match Conflict::of(&error) {
            Some(conflict) => {
                let others = conflict.others(&body);
                (conflict, others)
            }
            None if is_nowhere(&error, place) => return StatusWritten::Nowhere,
            None => return StatusWritten::Failed((*error).into()),
        },
        Err(error) => return StatusWritten::Failed(error.into()),
    };
    let written = match others.get("status") {
        Some(_) => apply(others).await,
        None => return StatusWritten::Owned { message: conflict.message, changed: false },
    };
    match written {
        Ok(object) => {
            let changed = object.metadata.resource_version.as_deref() != Some(of.resource_version);
            StatusWritten::Owned { message: conflict.message, changed }
        }
        // Another manager took ownership of a further field meanwhile; the reconciler tries again.
        Err(WriteError::Api(error)) if Conflict::of(&error).is_some() => {
            StatusWritten::Owned { message: conflict.message, changed: false }
        }
        Err(error) => StatusWritten::Failed(error.into()),
    }
}

/// Whether the API server has no such subresource, or no such object.
fn is_nowhere(error: &kube::Error, place: StatusPlace) -> bool {
    let kube::Error::Api(status) = error else { return false };
    let is_of_namespace = status.details.as_ref().is_some_and(|details| details.kind == "namespaces");
    place == StatusPlace::Subresource && status.code == 404 && !is_of_namespace
}
