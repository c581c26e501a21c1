//! The changes that a write would make, determined by a dry run. The API server decides: it stores an object
//! with defaults, normalized quantities and the changes of mutating webhooks.

use std::{
    future::Future,
    hash::{DefaultHasher, Hash as _, Hasher as _},
};

use kube::{
    Api, Client, Error,
    api::{DynamicObject, Patch, PatchParams, ValidationDirective},
};
use serde_json::{Value, json};

use super::{
    manifest::{of_write, take_off},
    outcome::{Outcome, brief},
};
use crate::{
    decoded::Decoded,
    intake::granted::Declared,
    marks::COPY_MANAGER,
    model::{Compared, ObjectFacts},
    names::ObjectKey,
    plan::copy::{CopyWrite, not_kept},
    read::content::{ContentError, Contents, FETCH_TIMEOUT},
};

/// The result of examining an object.
pub struct Examined {
    /// Whether a write would change the object, and the compared hashes: `None` if the API server would
    /// refuse the write, which is treated as a change.
    pub differs: bool,
    /// The comparison that the world keeps; `None` if nothing was compared.
    pub compared: Option<Compared>,
    /// The paths of the declared fields that the API server does not keep, in most cases none.
    pub not_kept: Vec<String>,
}

/// Examines whether a write would change the object; `None` if the object is not in the known edition, or has
/// changed meanwhile.
///
/// # Errors
/// Returns an error if the API server does not answer.
pub async fn examined(
    client: &Client,
    contents: &Contents,
    slot: &ObjectKey,
    facts: &ObjectFacts,
    write: &CopyWrite,
) -> Result<Option<Examined>, ContentError> {
    let objects: Api<Decoded<DynamicObject>> =
        Api::namespaced_with(client.clone(), &slot.namespace, &slot.kind.resource().into());
    let known = match in_time(slot, objects.get(&slot.name)).await? {
        Ok(known) => read(slot, known)?,
        Err(Error::Api(status)) if status.code == 404 => return Ok(None),
        Err(error) => return Err(failed(slot, error)),
    };
    // A change of the status changes the resource version, but not the edition.
    let live = Declared::new(slot.kind, &known.metadata);
    if live.is_none_or(|live| live.facts().edition() != facts.edition()) {
        return Ok(None);
    }
    let Some(content) = contents.of_write(slot, write).await? else { return Ok(None) };
    let declared = of_write(slot, write, &content);
    let (params, patch) = dry_run(declared.clone(), write, &known);
    match in_time(slot, objects.patch(&slot.name, &params, &patch)).await? {
        Ok(applied) => {
            let applied = read(slot, applied)?;
            let not_kept = not_kept(&declared, &json!(known));
            let (known, applied) = (substance(&known), substance(&applied));
            let compared = Compared { object: hash(&known), applied: hash(&applied) };
            Ok(Some(Examined { differs: known != applied, compared: Some(compared), not_kept }))
        }
        Err(Error::Api(status)) if [404, 409].contains(&status.code) => Ok(None),
        // The API server would refuse the write itself, too, and the write reports the refusal.
        Err(Error::Api(status)) if status.code < 500 && status.code != 429 => {
            Ok(Some(Examined { differs: true, compared: None, not_kept: Vec::new() }))
        }
        Err(error) => Err(failed(slot, error)),
    }
}

/// Returns the dry run of a write that changes the `known` object.
fn dry_run(mut body: Value, write: &CopyWrite, known: &DynamicObject) -> (PatchParams, Patch<Value>) {
    body["metadata"]["uid"] = json!(known.metadata.uid);
    body["metadata"]["resourceVersion"] = json!(known.metadata.resource_version);
    // An apply alone would not remove fields of other managers.
    let of_others: Vec<_> = write.surplus.iter().chain(write.take_over.iter().flatten()).cloned().collect();
    let (params, patch) = match of_others.is_empty() {
        true => (PatchParams::apply(COPY_MANAGER).force(), Patch::Apply(body)),
        false => {
            take_off(&mut body, &of_others);
            (PatchParams::default(), Patch::Merge(body))
        }
    };
    (PatchParams { dry_run: true, field_manager: Some(COPY_MANAGER.into()), ..params }, patch)
}

/// An object before a write, and its state after the write according to the API server.
pub struct Foreseen {
    /// The object before the write.
    pub before: Value,
    /// The object after the write.
    pub after: Value,
}

/// Asks the API server, by a dry run, what a write would change about an existing object.
///
/// # Errors
/// Why the API server did not answer, or refuses the write, in words without values.
pub async fn foreseen(
    client: &Client,
    contents: &Contents,
    slot: &ObjectKey,
    write: &CopyWrite,
) -> Result<Foreseen, String> {
    let objects: Api<DynamicObject> =
        Api::namespaced_with(client.clone(), &slot.namespace, &slot.kind.resource().into());
    let late = |error: ContentError| error.to_string();
    let known = in_time(slot, objects.get(&slot.name)).await.map_err(late)?.map_err(|error| brief(&error))?;
    let content = contents.of_write(slot, write).await.map_err(|error| error.to_string())?;
    let content = content.ok_or("its source has just changed")?;
    let (params, patch) = dry_run(of_write(slot, write, &content), write, &known);
    let after = in_time(slot, objects.patch(&slot.name, &params, &patch)).await.map_err(late)?;
    let after = after.map_err(|error| brief(&error))?;
    Ok(Foreseen { before: json!(known), after: json!(after) })
}

/// Asks the API server, by a strict dry run, whether it accepts what a write declares.
pub async fn tried(client: &Client, contents: &Contents, slot: &ObjectKey, write: &CopyWrite) -> Outcome {
    let content = match contents.of_write(slot, write).await {
        Ok(Some(content)) => content,
        Ok(None) => return Outcome::Stale,
        Err(error) => return Outcome::retry(error.to_string()),
    };
    let objects: Api<DynamicObject> =
        Api::namespaced_with(client.clone(), &slot.namespace, &slot.kind.resource().into());
    let params = PatchParams {
        dry_run: true,
        field_validation: Some(ValidationDirective::Strict),
        ..PatchParams::apply(COPY_MANAGER).force()
    };
    let patch = Patch::Apply(of_write(slot, write, &content));
    match in_time(slot, objects.patch_metadata(&slot.name, &params, &patch)).await {
        Ok(Ok(_)) => Outcome::Done,
        Ok(Err(error)) => error.into(),
        Err(error) => Outcome::retry(error.to_string()),
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

/// Returns a hash of an object without its status and the fields that change with every write.
pub fn hash_of(object: &DynamicObject) -> u64 {
    hash(&substance(object))
}

fn hash(substance: &Value) -> u64 {
    let mut hasher = DefaultHasher::new();
    substance.to_string().hash(&mut hasher);
    hasher.finish()
}

/// Returns the object without its status and the fields that change with every write.
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
