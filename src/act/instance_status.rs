//! Writes into the status of an object that a template is rendered for: what its `writeStatus` says, by a manager of its own for
//! each template, and never over what somebody else owns.

use kube::{
    Api,
    api::{DynamicObject, Patch, PatchParams},
};
use serde_json::{Value, json};

use super::{
    outcome::Outcome,
    writer::{WriteError, Writer},
};
use crate::{
    marks::status_manager,
    names::{NamespacedName, StatusPlace, TemplateKind},
    observe::instances::resource,
};

/// What became of a write.
#[derive(Debug)]
pub(crate) enum StatusWritten {
    Done,
    /// Somebody else owns a field; the API server's message names whom.
    Owned(String),
    /// It was not written for another reason.
    Failed(Outcome),
}

/// The object, in the version for which the status was rendered: an apply without UID would make one that is gone.
pub(crate) struct InstanceVersion<'v> {
    /// Its namespace and name.
    pub(crate) name: &'v NamespacedName,
    pub(crate) uid: &'v str,
    pub(crate) resource_version: &'v str,
}

/// Writes a status by server-side apply, to the subresource or to the object itself; without one, what the template has written is
/// taken back.
pub(crate) async fn write_instance_status(
    writer: &Writer,
    (kind, place): (&TemplateKind, StatusPlace),
    template: &NamespacedName,
    of: InstanceVersion<'_>,
    status: Option<&Value>,
) -> StatusWritten {
    let resource = resource(kind);
    let (namespace, name) = (&*of.name.namespace, &*of.name.name);
    let mut body = json!({
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": {"namespace": namespace, "name": name, "uid": of.uid, "resourceVersion": of.resource_version},
    });
    if let Some(status) = status {
        body["status"] = status.clone();
    }
    let params = PatchParams::apply(&status_manager(template));
    let (patch, resource) = (Patch::Apply(&body), &resource);
    let written = writer.send(|client| {
        let api: Api<DynamicObject> = Api::namespaced_with(client, namespace, resource);
        let (params, patch) = (&params, &patch);
        async move {
            match place {
                StatusPlace::Subresource => api.patch_status(name, params, patch).await,
                StatusPlace::Object => api.patch(name, params, patch).await,
            }
        }
    });
    match written.await {
        Ok(_) => StatusWritten::Done,
        Err(WriteError::Api(error)) => match owned(&error) {
            Some(message) => StatusWritten::Owned(message),
            None => StatusWritten::Failed((*error).into()),
        },
        Err(error) => StatusWritten::Failed(error.into()),
    }
}

/// The API server's message, if a field is somebody else's.
fn owned(error: &kube::Error) -> Option<String> {
    let kube::Error::Api(status) = error else { return None };
    let mut causes = status.details.iter().flat_map(|details| &details.causes);
    let is_owned = status.code == 409 && causes.any(|cause| cause.reason == "FieldManagerConflict");
    is_owned.then(|| status.message.chars().take(512).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_of_somebody_else_is_told_from_an_old_version() {
        let error = |json: Value| {
            kube::Error::Api(serde_json::from_value::<kube::core::Status>(json).unwrap().boxed())
        };
        assert_eq!(owned(&error(json!({"code": 409, "reason": "Conflict", "message": "modified"}))), None);
        let conflict = json!({"code": 409, "reason": "Conflict", "message": "conflict with \"kubectl\" using a/v1: .status.nodes",
            "details": {"causes": [{"reason": "FieldManagerConflict", "field": ".status.nodes"}]}});
        assert!(owned(&error(conflict)).unwrap().contains("kubectl"));
    }
}
