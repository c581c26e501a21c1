//! What `act/copies.rs` does, on the model of the API server; and what watches and fetches then show of it.

use std::collections::BTreeMap;

use copyrator::{
    act::outcome::Outcome,
    api::CopyratorRule,
    digest::DigestKey,
    marks,
    model::{Attempt, ForeignField, Kind, ObjectKey, World},
    observe::{object::Slim, watched::Watched},
    plan::{Changed, CopyAction, CopyWrite, Need},
};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Secret};
use kube::core::DeserializeGuard;
use serde_json::Value;

use crate::{
    server::{Server, Written, removal_mark},
    stored::{Entry, Field, Fields},
};

pub fn digest_key() -> DigestKey {
    DigestKey::new(&[7; DigestKey::LENGTH])
}

/// Each step is one request: the caller may stop between two of them, as a crash would.
pub fn act(
    server: &mut Server,
    slot: &ObjectKey,
    action: &CopyAction,
    alive: &mut dyn FnMut() -> bool,
) -> Outcome {
    let patched = |written: Written| written.map_or_else(|outcome| outcome, |_| Outcome::Done);
    match action {
        CopyAction::Write(write) => write_copy(server, slot, write, alive),
        CopyAction::MarkRemoval(version, after) => {
            patched(server.patch(slot, marks::REMOVAL_MANAGER, &removal_mark(Some(*after)), version))
        }
        CopyAction::Unmark(version) => {
            patched(server.patch(slot, marks::REMOVAL_MANAGER, &removal_mark(None), version))
        }
        CopyAction::Delete(version) => {
            server.remove(slot, Some(version)).map_or_else(|outcome| outcome, |()| Outcome::Done)
        }
        CopyAction::Release(version) => {
            let labels = [marks::MANAGED_BY, marks::RULE_LABEL].map(|key| Field::Label(key.into()));
            let ours = server.objects.get(slot).map(|object| object.annotations()).unwrap_or_default();
            let ours = ours.into_keys().filter(|key| marks::is_mark(key) || key == marks::REMOVE_AFTER);
            let nulls = labels.into_iter().chain(ours.map(Field::Annotation)).map(|field| (field, None));
            patched(server.patch(slot, marks::REMOVAL_MANAGER, &nulls.collect(), version))
        }
    }
}

fn write_copy(
    server: &mut Server,
    slot: &ObjectKey,
    write: &CopyWrite,
    alive: &mut dyn FnMut() -> bool,
) -> Outcome {
    let source = server.objects.get(&write.source).filter(|source| source.version() == write.source_version);
    let Some(intent) = source.map(|source| manifest(slot, write, &source.values)) else {
        return Outcome::Stale;
    };
    let mut steps = || -> Result<(), Outcome> {
        let mut existing = write.replaces.clone();
        if write.anew
            && let Some(version) = existing.take()
        {
            server.remove(slot, Some(&version))?;
            stop(alive)?;
        }
        if let (Some(version), Some(fields)) = (&existing, &write.take_over) {
            let fields = fields.iter().filter_map(field).collect();
            let entry = Entry { manager: marks::COPY_MANAGER.into(), apply: true, fields };
            existing = Some(server.set_entries(slot, vec![entry], Some(version))?);
            stop(alive)?;
        }
        if let (Some(version), false) = (&existing, write.surplus.is_empty()) {
            let nulls = write.surplus.iter().filter_map(field).map(|field| (field, None)).collect();
            existing = Some(server.patch(slot, marks::COPY_MANAGER, &nulls, version)?);
            stop(alive)?;
        }
        server.apply(slot, marks::COPY_MANAGER, &intent, existing.as_ref()).map(drop)
    };
    steps().map_or_else(|outcome| outcome, |()| Outcome::Done)
}

fn stop(alive: &mut dyn FnMut() -> bool) -> Result<(), Outcome> {
    if alive() { Ok(()) } else { Err(Outcome::NotLeading) }
}

fn field(field: &ForeignField) -> Option<Field> {
    match field {
        ForeignField::Data(key) => Some(Field::Data(key.clone())),
        ForeignField::BinaryData(key) => Some(Field::Binary(key.clone())),
        _ => None,
    }
}

fn manifest(slot: &ObjectKey, write: &CopyWrite, source: &Fields) -> Fields {
    let intent = &write.intent;
    let mut fields = Fields::new();
    for (from, to) in &intent.keys {
        let text = source.get(&Field::Data(from.clone()));
        let binary = source.get(&Field::Binary(from.clone()));
        let is_binary = binary.is_some() || text.is_some_and(|value| std::str::from_utf8(value).is_err());
        let Some(value) = binary.or(text) else { continue };
        let to = to.clone();
        let to = if slot.kind == Kind::ConfigMap && is_binary { Field::Binary(to) } else { Field::Data(to) };
        fields.insert(to, value.clone());
    }
    let text = |value: &String| value.clone().into_bytes();
    fields.extend(intent.labels.iter().map(|(key, value)| (Field::Label(key.clone()), text(value))));
    fields
        .extend(intent.annotations.iter().map(|(key, value)| (Field::Annotation(key.clone()), text(value))));
    fields.extend(intent.type_.iter().map(|type_| (Field::Type, text(type_))));
    fields.extend(intent.immutable.then(|| (Field::Immutable, b"true".to_vec())));
    fields
}

/// What `reconcile/slot.rs` keeps of an attempt.
pub fn remember(world: &mut World, slot: &ObjectKey, action: &CopyAction, outcome: &Outcome) {
    let (replace, reason, message) = match outcome {
        Outcome::NeedsReplacing(message) => (true, "Refused", message),
        Outcome::Refused { reason, message } => (false, *reason, message),
        _ => return drop(world.attempts.remove(slot)),
    };
    let CopyAction::Write(write) = action else { return };
    let attempt = Attempt {
        resource_version: write.replaces.as_ref().map(|version| version.resource_version.clone()),
        digest: write.intent.marks.digest.clone(),
        replace,
        reason,
        message: message.clone(),
        at: jiff::Timestamp::UNIX_EPOCH,
    };
    world.attempts.insert(slot.clone(), attempt);
}

/// Takes in what a watch shows; whether that is news.
pub fn observe(world: &mut World, changed: &Changed, state: Option<&Value>) -> bool {
    fn take<W: Watched>(world: &mut World, changed: &Changed, state: Option<&Value>) -> bool {
        match state {
            Some(state) => serde_json::from_value::<W>(state.clone()).unwrap().put(world),
            None => {
                W::forget(changed, world);
                true
            }
        }
    }
    match changed {
        Changed::Namespace(_) => take::<Namespace>(world, changed, state),
        Changed::Rule(_) => take::<DeserializeGuard<CopyratorRule>>(world, changed, state),
        Changed::Object(ObjectKey { kind: Kind::ConfigMap, .. }) => {
            take::<Slim<ConfigMap>>(world, changed, state)
        }
        Changed::Object(_) => take::<Slim<Secret>>(world, changed, state),
        other => panic!("{other:?} is not modelled"),
    }
}

/// Fetches what a plan lacks; whether the world has it now (the API server may be ahead of the watch).
pub fn fetch(server: &Server, world: &mut World, needs: &[Need]) -> bool {
    needs.iter().all(|need| {
        let Need::Fingerprint(key) = need else { panic!("{need:?} is not modelled") };
        let Some(object) = server.objects.get(key) else { return false };
        let print = object.fingerprint(key.kind, &digest_key());
        world.fingerprints.insert(key.clone(), print);
        world.fingerprint(key).is_some()
    })
}

/// Brings the world up to the server's state, as a complete list does.
pub fn relist(server: &Server, world: &mut World) {
    let there = server.all();
    let known = (world.namespaces.keys().cloned().map(Changed::Namespace))
        .chain(world.objects().map(|(key, _)| Changed::Object(key.clone())))
        .chain(world.rules.keys().cloned().map(Changed::Rule));
    let gone: Vec<_> = known.filter(|changed| !there.contains(changed)).collect();
    for changed in there.iter().chain(&gone) {
        observe(world, changed, server.state(changed).as_ref());
    }
}

/// Somebody's edit: values to be set, `None` to be removed.
pub type Edit = BTreeMap<Field, Option<Vec<u8>>>;
