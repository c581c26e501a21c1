//! Whether an object of which only the named fields are kept still has them. The API server decides, by a dry run of the apply that
//! would be made: what it stores differs from what was written, by defaults, normalized quantities and mutating webhooks.

use std::{future::Future, sync::Arc};

use kube::{
    Api, Client, Error,
    api::{DynamicObject, Patch, PatchParams},
};
use serde_json::{Value, json};

use super::context::{Context, now};
use crate::{
    act::{copies::resource, manifest::of_write},
    marks::COPY_MANAGER,
    names::ObjectKey,
    observe::content::{ContentError, Contents, FETCH_TIMEOUT},
    plan::copy::{CopyWrite, as_declared},
};

/// Examines objects.
pub(super) struct Examiner {
    pub(super) context: Context,
    pub(super) client: Client,
    pub(super) contents: Arc<Contents>,
}

impl Examiner {
    /// Notes in the world whether the object differs from what its template names. Returns whether that is known of the version
    /// that the watch has told of.
    ///
    /// # Errors
    /// The API server did not answer.
    pub(super) async fn examine(&self, slot: &ObjectKey) -> Result<bool, ContentError> {
        let (version, write) = {
            let world = self.context.world();
            let Some(facts) = world.object(slot) else { return Ok(true) };
            (facts.resource_version.clone(), as_declared(&world, slot, now()))
        };
        let differs = match write {
            Some(write) => match self.differs(slot, &write, &version).await? {
                Some(differs) => differs,
                None => return Ok(false),
            },
            // Nothing would be written now; the planner says why.
            None => true,
        };
        self.context.world_mut().note_drift(slot, &version, differs);
        Ok(true)
    }

    /// `None` where the object is of another version, or has changed in between.
    async fn differs(
        &self,
        slot: &ObjectKey,
        write: &CopyWrite,
        version: &str,
    ) -> Result<Option<bool>, ContentError> {
        let objects: Api<DynamicObject> =
            Api::namespaced_with(self.client.clone(), &slot.namespace, &resource(slot.kind));
        let known = match in_time(slot, objects.get(&slot.name)).await? {
            Ok(known) => known,
            Err(Error::Api(status)) if status.code == 404 => return Ok(None),
            Err(error) => return Err(failed(slot, error)),
        };
        if known.metadata.resource_version.as_deref() != Some(version) {
            return Ok(None);
        }
        let Some(content) = self.contents.of_write(slot, write).await? else { return Ok(None) };
        let mut body = of_write(slot, write, &content);
        body["metadata"]["uid"] = json!(known.metadata.uid);
        body["metadata"]["resourceVersion"] = json!(version);
        let params = PatchParams { dry_run: true, ..PatchParams::apply(COPY_MANAGER).force() };
        let patch = Patch::Apply(body);
        match in_time(slot, objects.patch(&slot.name, &params, &patch)).await? {
            Ok(applied) => Ok(Some(substance(&known) != substance(&applied))),
            Err(Error::Api(status)) if [404, 409].contains(&status.code) => Ok(None),
            // The write comes to the same, and its refusal is told.
            Err(Error::Api(status)) if status.code < 500 && status.code != 429 => Ok(Some(true)),
            Err(error) => Err(failed(slot, error)),
        }
    }
}

async fn in_time<T>(
    slot: &ObjectKey,
    answer: impl Future<Output = kube::Result<T>>,
) -> Result<kube::Result<T>, ContentError> {
    let answer = tokio::time::timeout(FETCH_TIMEOUT, answer).await;
    answer.map_err(|_| ContentError::Timeout(slot.clone()))
}

fn failed(slot: &ObjectKey, error: Error) -> ContentError {
    ContentError::Fetch { object: slot.clone(), source: Box::new(error) }
}

/// The object without what changes with every write.
fn substance(object: &DynamicObject) -> Value {
    let mut object = json!(object);
    if let Some(metadata) = object["metadata"].as_object_mut() {
        for field in ["managedFields", "resourceVersion", "generation"] {
            metadata.remove(field);
        }
    }
    object
}
