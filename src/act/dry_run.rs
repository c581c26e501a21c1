//! What a write would change, by a dry run of it. The API server decides: what it stores differs from what was written, by defaults,
//! normalized quantities and mutating webhooks.

use std::{
    future::Future,
    hash::{DefaultHasher, Hash as _, Hasher as _},
};

use kube::{
    Api, Client, Error,
    api::{DynamicObject, Patch, PatchParams},
};
use serde_json::{Value, json};

use super::manifest::{of_write, take_off};
use crate::{
    decoded::Decoded,
    intake::granted::Declared,
    marks::COPY_MANAGER,
    model::{Compared, ObjectFacts},
    names::ObjectKey,
    observe::content::{ContentError, Contents, FETCH_TIMEOUT},
    plan::copy::{CopyWrite, not_kept},
};

/// What an examination of an object found.
pub(crate) struct Examined {
    /// Whether a write would change it, and what was compared: `None` where the write would be refused, which counts as a change.
    pub(crate) differs: bool,
    pub(crate) compared: Option<Compared>,
    /// The paths of the fields that the API server does not keep of what is declared, in most cases none.
    pub(crate) not_kept: Vec<String>,
}

/// Whether a write would change the object in the edition that is known; `None` where it is of another one, or has changed in
/// between.
///
/// # Errors
/// The API server did not answer.
pub(crate) async fn examined(
    client: &Client,
    contents: &Contents,
    (slot, facts): (&ObjectKey, &ObjectFacts),
    write: &CopyWrite,
) -> Result<Option<Examined>, ContentError> {
    let objects: Api<Decoded<DynamicObject>> =
        Api::namespaced_with(client.clone(), &slot.namespace, &slot.kind.resource().into());
    let known = match in_time(slot, objects.get(&slot.name)).await? {
        Ok(known) => read(slot, known)?,
        Err(Error::Api(status)) if status.code == 404 => return Ok(None),
        Err(error) => return Err(failed(slot, error)),
    };
    // A status that changes all the time is another version, and no other edition.
    let live = Declared::new(slot.kind, &known.metadata);
    if live.is_none_or(|live| live.facts().edition() != facts.edition()) {
        return Ok(None);
    }
    let Some(content) = contents.of_write(slot, write).await? else { return Ok(None) };
    let declared = of_write(slot, write, &content);
    let mut body = declared.clone();
    body["metadata"]["uid"] = json!(known.metadata.uid);
    body["metadata"]["resourceVersion"] = json!(known.metadata.resource_version);
    // An apply alone takes nothing off that another manager has set.
    take_off(&mut body, &write.surplus);
    let (params, patch) = match write.surplus.is_empty() {
        true => (PatchParams::apply(COPY_MANAGER).force(), Patch::Apply(body)),
        false => (PatchParams::default(), Patch::Merge(body)),
    };
    let params = PatchParams { dry_run: true, field_manager: Some(COPY_MANAGER.into()), ..params };
    match in_time(slot, objects.patch(&slot.name, &params, &patch)).await? {
        Ok(applied) => {
            let applied = read(slot, applied)?;
            let not_kept = not_kept(&declared, &json!(known));
            let (known, applied) = (substance(&known), substance(&applied));
            let compared = Compared { object: hash(&known), applied: hash(&applied) };
            Ok(Some(Examined { differs: known != applied, compared: Some(compared), not_kept }))
        }
        Err(Error::Api(status)) if [404, 409].contains(&status.code) => Ok(None),
        // The write comes to the same, and its refusal is told.
        Err(Error::Api(status)) if status.code < 500 && status.code != 429 => {
            Ok(Some(Examined { differs: true, compared: None, not_kept: Vec::new() }))
        }
        Err(error) => Err(failed(slot, error)),
    }
}

fn read(slot: &ObjectKey, answer: Decoded<DynamicObject>) -> Result<DynamicObject, ContentError> {
    answer.read().map_err(|_| ContentError::Decode(slot.clone()))
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

/// A hash of all of an object but its status and what changes with every write.
pub(super) fn hash_of(object: &DynamicObject) -> u64 {
    hash(&substance(object))
}

fn hash(substance: &Value) -> u64 {
    let mut hasher = DefaultHasher::new();
    substance.to_string().hash(&mut hasher);
    hasher.finish()
}

/// The object without its status and what changes with every write.
fn substance(object: &DynamicObject) -> Value {
    let mut object = json!(object);
    if let Some(fields) = object.as_object_mut() {
        fields.remove("status");
    }
    if let Some(metadata) = object["metadata"].as_object_mut() {
        for field in ["managedFields", "resourceVersion", "generation"] {
            metadata.remove(field);
        }
    }
    object
}
