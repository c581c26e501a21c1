//! Writes statuses of our own kinds.

use kube::{
    Api, Resource,
    api::{ApiResource, DynamicObject, Patch, PatchParams},
};
use serde::Serialize;
use serde_json::{Value, json};

use super::writer::{WriteError, Writer};
use crate::{
    api::ConfigMonitor,
    dry_run::outcome::Outcome,
    marks::{PODS_MANAGER, STATUS_MANAGER},
    model::MonitorFacts,
    names::{Declarer, NamespacedName},
};

/// The object that gets the status.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StatusOf<'a> {
    /// The object's namespace; `None` for a policy.
    pub namespace: Option<&'a str>,
    pub name: &'a str,
    /// The object's UID, so that a new object of the same name does not get the old object's status.
    pub uid: &'a str,
}

/// The version of a monitor that a record was planned for.
#[derive(Clone, Debug)]
pub(crate) struct Version {
    uid: Box<str>,
    resource_version: Box<str>,
}

impl Version {
    /// Returns the version of the facts.
    pub(crate) fn of(facts: &MonitorFacts) -> Self {
        Self { uid: facts.uid.clone(), resource_version: facts.resource_version.clone() }
    }
}

/// Writes one status by server-side apply to the status subresource.
pub(crate) async fn write_status<K>(writer: &Writer, of: StatusOf<'_>, status: &impl Serialize) -> Outcome
where
    K: Resource<DynamicType = ()>,
{
    let metadata = json!({"name": of.name, "uid": of.uid});
    let body = json!({"metadata": metadata, "status": status});
    apply::<K>(writer, of, STATUS_MANAGER, body).await
}

/// Records the content that the selected pods run with, on the version of the monitor that the record was
/// planned for. On an older version, a change of content would look like the first content that we see.
pub(crate) async fn record_pods(
    writer: &Writer,
    monitor: &Declarer,
    version: &Version,
    label: &str,
) -> Outcome {
    let NamespacedName { namespace, name } = &monitor.named();
    let of = StatusOf { namespace: Some(namespace), name, uid: &version.uid };
    let metadata = json!({"name": of.name, "uid": of.uid, "resourceVersion": version.resource_version});
    let body = json!({"metadata": metadata, "status": {"podsApplied": label}});
    apply::<ConfigMonitor>(writer, of, PODS_MANAGER, body).await
}

async fn apply<K>(writer: &Writer, of: StatusOf<'_>, manager: &str, mut body: Value) -> Outcome
where
    K: Resource<DynamicType = ()>,
{
    let resource = ApiResource::erase::<K>(&());
    body["apiVersion"] = json!(resource.api_version);
    body["kind"] = json!(resource.kind);
    let params = PatchParams::apply(manager).force();
    loop {
        let patch = Patch::Apply(&body);
        let written = writer.send(|client| async {
            let api: Api<DynamicObject> = match of.namespace {
                Some(namespace) => Api::namespaced_with(client, namespace, &resource),
                None => Api::all_with(client, &resource),
            };
            api.patch_status(of.name, &params, &patch).await
        });
        return match written.await {
            Ok(_) => Outcome::Done,
            Err(WriteError::Api(error)) if leave_out(&mut body["status"], &error) => continue,
            Err(error) => error.into(),
        };
    }
}

/// Removes the status fields that the cluster's definition, of an earlier version, lacks: other writes drop
/// unknown fields silently, but the API server refuses the whole apply. Returns whether some fields were
/// removed and some are left.
fn leave_out(status: &mut Value, error: &kube::Error) -> bool {
    let (kube::Error::Api(said), Some(fields)) = (error, status.as_object_mut()) else { return false };
    if !said.message.contains("field not declared in schema") {
        return false;
    }
    let before = fields.len();
    for path in said.message.split(".status.").skip(1) {
        let name = path.split(|c: char| !c.is_ascii_alphanumeric()).next().unwrap_or_default();
        fields.remove(name);
    }
    fields.len() < before && !fields.is_empty()
}

#[cfg(test)]
mod tests {
    use kube::core::Status;

    use super::*;

    fn refused(message: &str) -> kube::Error {
        kube::Error::Api(Status { message: message.to_owned(), ..Status::default() }.boxed())
    }

    #[test]
    fn what_an_earlier_definition_lacks_is_left_out_and_the_rest_is_written() {
        let error = "failed to create typed patch object (/a; copyrator.dev/v1alpha1, Kind=ConfigPolicy): ";
        let lacks = |field: &str| refused(&format!("{error}.status.{field}: field not declared in schema"));
        let mut status = json!({"violationCount": 1, "violations": [{"kind": "Secret"}], "problems": []});
        assert!(leave_out(&mut status, &lacks("violationCount")));
        assert!(leave_out(&mut status, &lacks("violations[0].kind")));
        assert_eq!(status, json!({"problems": []}));
        assert!(!leave_out(&mut status, &lacks("violations")), "it is out already: trying again is no use");
        assert!(!leave_out(&mut status, &refused(".status.problems: Invalid value")));
        assert!(!leave_out(&mut status, &lacks("problems")), "nothing is left to write");
    }
}
