//! Writes of users' ConfigMaps, Secrets and other copies; only this file writes them. Each action applies to
//! the version that it was planned for.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use json_patch::{PatchOperation, ReplaceOperation, TestOperation, jsonptr::PointerBuf};
use k8s_openapi::{api::core::v1::ResourceQuota, apimachinery::pkg::apis::meta::v1::ObjectMeta};
use kube::{
    Api, Client, Resource,
    api::{DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams, Preconditions},
    core::PartialObjectMeta as Metadata,
};
use serde_json::{Map, Value, json};

use super::{
    successor::{Verdict, leave_out_held, verdict, without_room},
    writer::{WriteError, Writer},
};
use crate::{
    decoded::Decoded,
    dry_run::{
        copies::hash_of,
        manifest::{of_write, take_off},
        outcome::Outcome,
    },
    marks::{
        AUTHORIZED, COPY_MANAGER, DEFINITION, GRANT_MANAGER, MANAGED_BY, MARK, OBJECT, ON_REMOVAL, OnRemoval,
        PODS_APPLIED, PODS_MANAGER, REMOVAL_MANAGER, REMOVE_AFTER, RULE_LABEL, write_time,
    },
    model::{ForeignField, WriteFault},
    names::{Kind, ObjectKey},
    paths::{managed, place},
    plan::copy::{CopyAction, CopyWrite, Made, Version, not_kept},
    read::content::Contents,
};

/// Maximum number of a namespace's quotas that the writer reads; with more quotas, the old object stays.
const MOST_QUOTAS: u32 = 100;
/// Longest time that a watch needs to report an object.
const WATCH_TELLS: SignedDuration = SignedDuration::from_secs(5);

/// The result of an action on a slot.
pub(crate) struct CopyOutcome {
    pub(crate) outcome: Outcome,
    /// The object as the API server stored it, if the answer was read.
    pub(crate) made: Option<Made>,
    /// Whether the action deleted the object in the slot, to create it again.
    pub(crate) deleted: bool,
}

impl From<Outcome> for CopyOutcome {
    fn from(outcome: Outcome) -> Self {
        Self { outcome, made: None, deleted: false }
    }
}

/// Writes copies. Clones share the client.
#[derive(Clone)]
pub(crate) struct CopyWriter {
    writer: Writer,
    contents: Arc<Contents>,
}

impl CopyWriter {
    /// Creates a writer of copies, which reads content from `contents` and sends writes through `writer`.
    pub(crate) fn new(writer: Writer, contents: Arc<Contents>) -> Self {
        Self { writer, contents }
    }

    /// Carries out one action on one slot, in one or a few requests.
    pub(crate) async fn act(&self, slot: &ObjectKey, action: &CopyAction) -> CopyOutcome {
        let outcome = match action {
            CopyAction::Write(write) => return self.write(slot, write).await,
            CopyAction::MarkRemoval(version, after) => {
                let marks = json!({REMOVE_AFTER: write_time(*after)});
                self.annotate(slot, version, REMOVAL_MANAGER, marks).await
            }
            CopyAction::MarkStaying(version, after) => {
                let marks =
                    json!({REMOVE_AFTER: write_time(*after), ON_REMOVAL: OnRemoval::Retain.written(true)});
                self.annotate(slot, version, REMOVAL_MANAGER, marks).await
            }
            CopyAction::Unmark(version) => {
                self.annotate(slot, version, REMOVAL_MANAGER, json!({REMOVE_AFTER: null})).await
            }
            CopyAction::Vouch(version, definition) => {
                self.annotate(slot, version, REMOVAL_MANAGER, json!({DEFINITION: definition})).await
            }
            CopyAction::Delete(version) => self.delete(slot, version).await,
            CopyAction::Release(version) => self.release(slot, version).await,
        };
        outcome.into()
    }

    async fn write(&self, slot: &ObjectKey, write: &CopyWrite) -> CopyOutcome {
        let content = match self.contents.of_write(slot, write).await {
            Ok(Some(content)) => content,
            Ok(None) => return Outcome::Stale.into(),
            Err(error) => return Outcome::retry(error.to_string()).into(),
        };
        let body = of_write(slot, write, &content);
        let Some(existing) = &write.replaces else {
            return self.create_in_place_of(slot, write.predecessor.as_ref(), body).await;
        };
        if write.anew {
            return self.replace(slot, existing, body).await;
        }
        let mut existing = existing.clone();
        if let Some(fields) = &write.take_over {
            match self.take_over(slot, &existing, fields).await {
                Ok(version) => existing = version,
                Err(outcome) => return outcome.into(),
            }
        }
        if write.disown {
            match self.disown(slot, &existing).await {
                Ok(version) => existing = version,
                Err(outcome) => return outcome.into(),
            }
        }
        if !write.surplus.is_empty() {
            match self.null(slot, &existing, &write.surplus, &body).await {
                Ok(version) => existing = version,
                Err(outcome) => return outcome.into(),
            }
        }
        self.update(slot, body, &existing).await
    }

    /// Creates an object by apply. The API server accepts resourceVersion "1" only if the object does not
    /// exist, and otherwise answers 409 (undocumented, tried on 1.36.3; the control-plane tests check this).
    async fn create(&self, slot: &ObjectKey, mut body: Value) -> CopyOutcome {
        body["metadata"]["resourceVersion"] = json!("1");
        match self.apply(slot, &body).await {
            // Reads the object that is in the way, to decide about the conflict.
            CopyOutcome { outcome: Outcome::Stale, .. } if slot.kind.data().is_none() => {
                self.in_the_way(slot).await.into()
            }
            acted => acted,
        }
    }

    /// Creates an object. If a quota has no room for the object, checks whether deleting the predecessor
    /// would make enough room: the reconciler deletes the predecessor only if so.
    async fn create_in_place_of(
        &self,
        slot: &ObjectKey,
        predecessor: Option<&ObjectKey>,
        body: Value,
    ) -> CopyOutcome {
        let created = self.create(slot, body.clone()).await;
        let (Some(predecessor), Outcome::Refused { reason: WriteFault::NoRoom, message }) =
            (predecessor, &created.outcome)
        else {
            return created;
        };
        match self.try_creation(slot, predecessor, body).await {
            Ok(()) => Outcome::Refused { reason: WriteFault::RoomHeld, message: message.clone() }.into(),
            Err(outcome) => outcome.into(),
        }
    }

    /// Deletes the object and creates its successor, after the API server has accepted the successor in a dry
    /// run.
    async fn replace(&self, slot: &ObjectKey, old: &Version, body: Value) -> CopyOutcome {
        if let Err(outcome) = self.try_creation(slot, slot, body.clone()).await {
            return not_replaced(outcome).into();
        }
        match self.delete(slot, old).await {
            Outcome::Done => CopyOutcome { deleted: true, ..self.create(slot, body).await },
            other => other.into(),
        }
    }

    /// Asks the API server, by a dry run of the creation, whether it would accept the object in the place of
    /// the existing object `held`.
    async fn try_creation(&self, slot: &ObjectKey, held: &ObjectKey, mut body: Value) -> Result<(), Outcome> {
        let resource = slot.kind.resource().into();
        let (whole, mut old) = (body.clone(), Value::Null);
        if slot.kind == Kind::Service {
            let read = self.writer.send(|client| {
                let services: Api<Decoded<DynamicObject>> =
                    Api::namespaced_with(client, &slot.namespace, &resource);
                async move { services.get_opt(&held.name).await }
            });
            let service = read.await.map_err(Outcome::from)?.and_then(|service| service.read().ok());
            old = service.map_or(Value::Null, |service| service.data);
            leave_out_held(&mut body, &old);
        }
        let object: DynamicObject =
            serde_json::from_value(body.clone()).map_err(|error| Outcome::retry(error.to_string()))?;
        let params = &PostParams { dry_run: true, field_manager: Some(COPY_MANAGER.into()) };
        let tried = self.writer.send(|client| {
            let objects: Api<DynamicObject> = Api::namespaced_with(client, &slot.namespace, &resource);
            async move { objects.create(params, &object).await }
        });
        match tried.await {
            Ok(_) => Ok(()),
            Err(WriteError::Api(answer)) => match verdict(&answer) {
                Verdict::Accepted => Ok(()),
                Verdict::QuotaExceeded => self.check_quotas(slot, &old, &whole).await,
                Verdict::Refused => Err((*answer).into()),
            },
            Err(error) => Err(error.into()),
        }
    }

    /// Asks each quota of the slot's namespace whether it has room for the successor in the place of the old
    /// object. The API server's refusal names only one of the exceeded quotas, and the named quota may have
    /// room.
    async fn check_quotas(&self, slot: &ObjectKey, old: &Value, successor: &Value) -> Result<(), Outcome> {
        let most = ListParams::default().limit(MOST_QUOTAS);
        let listed = self.writer.send(|client| {
            let quotas: Api<Decoded<ResourceQuota>> = Api::namespaced(client, &slot.namespace);
            async move { quotas.list(&most).await }
        });
        let listed = listed.await.map_err(Outcome::from)?;
        let is_whole = listed.metadata.continue_.as_deref().unwrap_or_default().is_empty();
        let quotas: Result<Vec<_>, _> = listed.items.into_iter().map(Decoded::read).collect();
        let refused = |message| Err(Outcome::Refused { reason: WriteFault::NoRoom, message });
        let Some(quotas) = quotas.ok().filter(|_| is_whole) else {
            return refused(format!(
                "exceeded quota in namespace {}, and Copyrator could not read all ResourceQuotas there",
                slot.namespace
            ));
        };
        match without_room(&quotas, slot.kind, old, successor) {
            None => Ok(()),
            Some((quota, resource)) => refused(format!(
                "exceeded quota: ResourceQuota {quota} has no room for the new object ({resource}), even after deletion of the old object"
            )),
        }
    }

    /// Returns the outcome of a creation that met an object unknown to the plan. Usually our watch soon
    /// reports that object.
    async fn in_the_way(&self, slot: &ObjectKey) -> Outcome {
        let found = self.send(slot, |api| async move { api.get_opt(&slot.name).await }).await;
        found.map_or_else(
            |outcome| outcome,
            |found| occupied_by(slot, found.as_ref().map(Resource::meta), Timestamp::now()),
        )
    }

    async fn update(&self, slot: &ObjectKey, mut body: Value, version: &Version) -> CopyOutcome {
        body["metadata"]["uid"] = json!(version.uid);
        body["metadata"]["resourceVersion"] = json!(version.resource_version);
        self.apply(slot, &body).await
    }

    /// Applies an object, and reads from the answer how the API server stored it. The answer for a ConfigMap
    /// or Secret has only metadata, so that it contains no content.
    async fn apply(&self, slot: &ObjectKey, body: &Value) -> CopyOutcome {
        if slot.kind.data().is_some() {
            let applied = self.patch(slot, COPY_MANAGER, &Patch::Apply(body)).await;
            return applied.map_or_else(|outcome| outcome, |_| Outcome::Done).into();
        }
        let params = PatchParams::apply(COPY_MANAGER).force();
        let applied = self.writer.send(|client| async move {
            let objects: Api<Decoded<DynamicObject>> =
                Api::namespaced_with(client, &slot.namespace, &slot.kind.resource().into());
            objects.patch(&slot.name, &params, &Patch::Apply(body)).await
        });
        match applied.await {
            Ok(stored) => {
                let made =
                    |stored| Made { not_kept: not_kept(body, &json!(stored)), object: hash_of(&stored) };
                CopyOutcome { outcome: Outcome::Done, made: stored.read().ok().map(made), deleted: false }
            }
            Err(error) => Outcome::from(error).into(),
        }
    }

    /// Nulls keys that the copy must not have. For ConfigMaps and Secrets the patch only removes keys: a
    /// merge patch that also set values would create an `Update` entry of ours, and our apply could not
    /// delete those keys afterwards. For other kinds the patch also sets all `wanted` fields: an empty
    /// selector would select everything until the next write. Keys of other kinds are compared by content
    /// before each write.
    async fn null(
        &self,
        slot: &ObjectKey,
        version: &Version,
        fields: &[ForeignField],
        wanted: &Value,
    ) -> Result<Version, Outcome> {
        let mut body = if slot.kind.data().is_some() { json!({}) } else { wanted.clone() };
        body["metadata"] = json!({"uid": version.uid, "resourceVersion": version.resource_version});
        take_off(&mut body, fields);
        self.patch(slot, COPY_MANAGER, &Patch::Merge(body)).await
    }

    /// Removes all owner references. Our apply sets no owner references, and so would keep the owner
    /// references that other writers set.
    async fn disown(&self, slot: &ObjectKey, version: &Version) -> Result<Version, Outcome> {
        let body = json!({"metadata": {
            "uid": version.uid, "resourceVersion": version.resource_version, "ownerReferences": null,
        }});
        self.patch(slot, COPY_MANAGER, &Patch::Merge(body)).await
    }

    /// Takes ownership of a foreign object's content, so that the next apply decides about all content. Also
    /// takes ownership of the mark, which may name a different object. Emptying managedFields does not work:
    /// the apply would give all fields to a manager "before-first-apply".
    async fn take_over(
        &self,
        slot: &ObjectKey,
        version: &Version,
        fields: &[ForeignField],
    ) -> Result<Version, Outcome> {
        let mut owned = json!({"f:metadata": {"f:annotations": {(format!("f:{OBJECT}")): {}}}});
        for field in fields {
            match field {
                ForeignField::Data(key) => owned["f:data"][format!("f:{key}")] = json!({}),
                ForeignField::BinaryData(key) => owned["f:binaryData"][format!("f:{key}")] = json!({}),
                ForeignField::Path(path) => place(&mut owned, &managed(path), json!({})),
                ForeignField::Immutable | ForeignField::Type | ForeignField::Mark(_) => {}
            }
        }
        let entry = json!({
            "manager": COPY_MANAGER, "operation": "Apply", "apiVersion": slot.kind.resource().api_version,
            "fieldsType": "FieldsV1", "fieldsV1": owned,
        });
        let path = |field| PointerBuf::from_tokens(["metadata", field]);
        let test = |field, value| PatchOperation::Test(TestOperation { path: path(field), value });
        let patch = json_patch::Patch(vec![
            test("uid", json!(version.uid)),
            test("resourceVersion", json!(version.resource_version)),
            PatchOperation::Replace(ReplaceOperation { path: path("managedFields"), value: json!([entry]) }),
        ]);
        self.patch(slot, COPY_MANAGER, &Patch::<()>::Json(patch)).await
    }

    /// Writes to an object the proof that its annotations were granted, so that Copyrator need not ask the
    /// API server again after a restart. Only this function and [`Self::record_pods`] annotate objects that
    /// are not ours.
    pub(crate) async fn grant(&self, source: &ObjectKey, version: &Version, proof: &str) -> Outcome {
        self.annotate(source, version, GRANT_MANAGER, json!({AUTHORIZED: proof})).await
    }

    /// Records on an object which content the pods of its annotation run with. The write applies only to the
    /// version that it was planned for.
    pub(crate) async fn record_pods(&self, object: &ObjectKey, version: &Version, label: &str) -> Outcome {
        self.annotate(object, version, PODS_MANAGER, json!({PODS_APPLIED: label})).await
    }

    async fn annotate(
        &self,
        object: &ObjectKey,
        version: &Version,
        manager: &str,
        annotations: Value,
    ) -> Outcome {
        let body = json!({"metadata": {
            "uid": version.uid,
            "resourceVersion": version.resource_version,
            "annotations": annotations,
        }});
        self.patch(object, manager, &Patch::Merge(body))
            .await
            .map_or_else(|outcome| outcome, |_| Outcome::Done)
    }

    /// Removes our marks and the owner reference, and keeps the object: with the owner reference, garbage
    /// collection would delete it. An apply without fields does not work: it would delete the data, too.
    async fn release(&self, slot: &ObjectKey, version: &Version) -> Outcome {
        use crate::marks::{DIGEST, RULE, SOURCE, SOURCE_UID};
        let nulls = |keys: &[&str]| -> Map<String, Value> {
            keys.iter().map(|key| ((*key).to_owned(), Value::Null)).collect()
        };
        let body = json!({"metadata": {
            "uid": version.uid,
            "resourceVersion": version.resource_version,
            "ownerReferences": null,
            "labels": nulls(&[MANAGED_BY, RULE_LABEL]),
            "annotations": nulls(&[RULE, SOURCE, SOURCE_UID, DIGEST, ON_REMOVAL, MARK, OBJECT, REMOVE_AFTER, DEFINITION]),
        }});
        self.patch(slot, REMOVAL_MANAGER, &Patch::Merge(body))
            .await
            .map_or_else(|outcome| outcome, |_| Outcome::Done)
    }

    async fn delete(&self, slot: &ObjectKey, version: &Version) -> Outcome {
        let params = &DeleteParams {
            preconditions: Some(Preconditions {
                uid: Some(version.uid.to_string()),
                resource_version: Some(version.resource_version.to_string()),
            }),
            ..DeleteParams::background()
        };
        let deleted = self.send(slot, |api| async move { api.delete(&slot.name, params).await }).await;
        deleted.map_or_else(|outcome| outcome, |_| Outcome::Done)
    }

    async fn patch<P: serde::Serialize + std::fmt::Debug>(
        &self,
        slot: &ObjectKey,
        manager: &str,
        patch: &Patch<P>,
    ) -> Result<Version, Outcome> {
        let params = &match patch {
            Patch::Apply(_) => PatchParams::apply(manager).force(),
            _ => PatchParams { field_manager: Some(manager.into()), ..PatchParams::default() },
        };
        let patched =
            self.send(slot, |api| async move { api.patch(&slot.name, params, patch).await }).await?;
        let text = |text: &Option<String>| text.as_deref().unwrap_or_default().into();
        Ok(Version {
            uid: text(&patched.meta().uid),
            resource_version: text(&patched.meta().resource_version),
        })
    }

    /// Sends one request for the slot's kind. The answer has only metadata, so no content comes back. An
    /// answer that cannot be decoded is no failure: otherwise a tenant could stop the second of two writes by
    /// odd entries in managedFields.
    async fn send<T, F>(
        &self,
        slot: &ObjectKey,
        request: impl FnOnce(Api<Decoded<Metadata<DynamicObject>>>) -> F,
    ) -> Result<T, Outcome>
    where
        F: Future<Output = kube::Result<T>>,
    {
        let of = |client: Client| Api::namespaced_with(client, &slot.namespace, &slot.kind.resource().into());
        self.writer.send(|client| request(of(client))).await.map_err(Outcome::from)
    }
}

/// Returns the outcome of a replacement that ended before the deletion.
fn not_replaced(outcome: Outcome) -> Outcome {
    let said = |why: String| format!("not replaced, so the object keeps its old content: {why}");
    match outcome {
        Outcome::Refused { reason, message } => Outcome::Refused { reason, message: said(message) },
        // A creation does not fail because a field is immutable, so the refusal has a different reason.
        Outcome::NeedsReplacing(message) => {
            Outcome::Refused { reason: WriteFault::Refused, message: said(message) }
        }
        Outcome::Retry { after, reason, message } => Outcome::Retry { after, reason, message: said(message) },
        other => other,
    }
}

/// Returns the outcome of a creation that met an object which no watch has reported. Either no watch reports
/// the object (the ServiceAccount `default`, a Deployment without our labels); or the object is very new or
/// nearly deleted, and a watch soon reports the object. ConfigMaps and Secrets have their own way: the handler
/// asks for the object (`SlotHandler::look_again`).
fn occupied_by(slot: &ObjectKey, found: Option<&ObjectMeta>, now: Timestamp) -> Outcome {
    let Some(meta) = found else { return Outcome::Stale };
    // For kinds that rules do not copy, the watch reports only objects with our labels.
    let has_label = |key: &str| meta.labels.as_ref().is_some_and(|all| all.contains_key(key));
    let is_watched = slot.kind.is_copied() || (has_label(RULE_LABEL) && has_label(MANAGED_BY));
    let is_ours = is_watched && meta.annotations.as_ref().is_some_and(|all| all.contains_key(MARK));
    let created = meta.creation_timestamp.as_ref().map_or(Timestamp::UNIX_EPOCH, |time| time.0);
    if is_ours || meta.deletion_timestamp.is_some() || now.duration_since(created) < WATCH_TELLS {
        return Outcome::Stale;
    }
    if !slot.kind.is_copied() {
        let message = format!(
            "{slot} already exists, and Copyrator did not make it: remove or rename the object, exclude the namespace, or change the name \
             in the template"
        );
        return Outcome::Refused { reason: WriteFault::Conflict, message };
    }
    let message = format!(
        "{slot} already exists, and Copyrator never overwrites such an object: exclude the namespace, or set copy.name"
    );
    Outcome::Refused { reason: WriteFault::Conflict, message }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

    use super::*;

    #[test]
    fn what_no_watch_will_tell_of_is_a_conflict() {
        let at = |second| Timestamp::from_second(second).unwrap();
        let slot = ObjectKey::new(Kind::ServiceAccount, "shop", "default");
        let made =
            |second| ObjectMeta { creation_timestamp: Some(Time(at(second))), ..ObjectMeta::default() };
        let meant = |meta: &ObjectMeta| occupied_by(&slot, Some(meta), at(100));
        assert_eq!(occupied_by(&slot, None, at(100)), Outcome::Stale, "it has gone again");
        assert_eq!(meant(&made(98)), Outcome::Stale, "a watch is about to tell");
        let leaving = ObjectMeta { deletion_timestamp: Some(Time(at(99))), ..made(10) };
        assert_eq!(meant(&leaving), Outcome::Stale, "it is about to go");
        let ours = ObjectMeta { annotations: Some([(MARK.into(), "x".into())].into()), ..made(10) };
        assert_eq!(meant(&ours), Outcome::Stale, "we have just made it ourselves");
        let (service, conflict) = (ObjectKey::new(Kind::Service, "shop", "app"), WriteFault::Conflict);
        let found = occupied_by(&service, Some(&ours), at(100));
        let is_told = matches!(&found, Outcome::Refused { reason, .. } if *reason == conflict);
        assert!(is_told, "a mark without labels is somebody's own: {found:?}");
        let Outcome::Refused { reason: WriteFault::Conflict, message } = meant(&made(10)) else { panic!() };
        assert!(message.starts_with("ServiceAccount shop/default already exists"), "{message}");
    }
}
