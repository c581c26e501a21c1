//! What `act/copies.rs` does, on the model of the API server; and what watches and fetches then show of it.

use std::{
    collections::BTreeMap,
    hash::{DefaultHasher, Hash as _, Hasher as _},
    sync::Arc,
};

use copyrator::{
    api::{ConfigPolicy, CopyratorRule},
    decoded::Decoded,
    digest::DigestKey,
    intake::{
        AsWritten,
        object::{OfKind, Slim},
        selection::Asked,
        watched::{Watched, take_in},
    },
    marks,
    model::{
        Authority, Compared, Comparison, Definition, EVERYWHERE, ForeignField, Refusal, RefusalReason, Right,
        RightAnswer, SpecVersion, Store, World,
    },
    names::{Declarer, Kind, ObjectKey},
    paths::is_within,
    plan::{
        Changed, Need,
        copy::{CopyAction, CopyWrite, Made, Version, as_declared, settle_examined, settle_slot},
    },
    testing::Outcome,
};
use jiff::Timestamp;
use k8s_openapi::api::{
    core::v1::{ConfigMap, Namespace, Secret, ServiceAccount},
    networking::v1::NetworkPolicy,
    rbac::v1::RoleBinding,
};
use serde_json::Value;

use super::{
    server::{Answer, Server, Written, removal_mark},
    stored::{Entry, Field, Fields},
};

pub fn digest_key() -> DigestKey {
    DigestKey::new(&[7; DigestKey::LENGTH])
}

pub fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

/// A world that knows nothing but how we are configured.
pub fn new_world() -> World {
    let mut world = World::default();
    world.set_key(digest_key());
    world.settings_mut().stores =
        [Store::Namespaces, Store::ConfigMaps, Store::Secrets, Store::CopyratorRules].into();
    world.set_all_listed();
    world.settings_mut().system_namespaces =
        ["kube-system", "kube-public", "kube-node-lease"].map(Into::into).into();
    world.settings_mut().own_namespace = "copyrator".into();
    world.settings_mut().annotations = true;
    world.settings_mut().default_grace = std::time::Duration::from_secs(300);
    world
}

/// Carries out one action. `leads` is asked before each request, as the real writer asks; a crash is that it says
/// no.
pub fn act(
    server: &mut Server,
    slot: &ObjectKey,
    action: &CopyAction,
    leads: &mut dyn FnMut() -> bool,
) -> Outcome {
    Writer { server, slot, leads }.act(action).map_or_else(|outcome| outcome, |()| Outcome::Done)
}

struct Writer<'a> {
    server: &'a mut Server,
    slot: &'a ObjectKey,
    leads: &'a mut dyn FnMut() -> bool,
}

impl Writer<'_> {
    fn act(&mut self, action: &CopyAction) -> Result<(), Outcome> {
        match action {
            CopyAction::Write(write) => self.write(write),
            CopyAction::MarkRemoval(version, after) => {
                self.patch(marks::REMOVAL_MANAGER, &removal_mark(Some(*after)), version).map(drop)
            }
            CopyAction::MarkStaying(version, after) => {
                let mut change = removal_mark(Some(*after));
                let retain = marks::OnRemoval::Retain.written(true).into_bytes();
                change.insert(Field::Annotation(marks::ON_REMOVAL.into()), Some(retain));
                self.patch(marks::REMOVAL_MANAGER, &change, version).map(drop)
            }
            CopyAction::Unmark(version) => {
                self.patch(marks::REMOVAL_MANAGER, &removal_mark(None), version).map(drop)
            }
            CopyAction::Vouch(version, definition) => {
                let definition = Some(definition.as_bytes().to_vec());
                let change = BTreeMap::from([(Field::Annotation(marks::DEFINITION.into()), definition)]);
                self.patch(marks::REMOVAL_MANAGER, &change, version).map(drop)
            }
            CopyAction::Delete(version) => self.delete(version),
            CopyAction::Release(version) => {
                let labels = [marks::MANAGED_BY, marks::RULE_LABEL].map(|key| Field::Label(key.into()));
                let there = self.server.objects.get(self.slot).map(|object| object.annotations());
                let ours = there.unwrap_or_default().into_keys();
                let ours = ours.filter(|key| {
                    marks::is_mark(key) || [marks::REMOVE_AFTER, marks::DEFINITION].contains(&key.as_str())
                });
                let nulls = labels.into_iter().chain(ours.map(Field::Annotation)).map(|field| (field, None));
                self.patch(marks::REMOVAL_MANAGER, &nulls.collect(), version).map(drop)
            }
        }
    }

    fn write(&mut self, write: &CopyWrite) -> Result<(), Outcome> {
        let source = self.server.objects.get(&write.source);
        let source =
            source.filter(|source| source.version() == write.source_version).ok_or(Outcome::Stale)?;
        let intent = manifest(self.slot, write, &source.values);
        let mut existing = write.replaces.clone();
        if write.anew
            && let Some(version) = existing.take()
        {
            self.guard()?;
            self.server.try_creation(self.slot, &intent)?;
            self.delete(&version)?;
        }
        if let (Some(version), Some(fields)) = (&existing, &write.take_over) {
            let named = Field::Annotation(marks::OBJECT.into());
            let fields = fields.iter().filter_map(field).chain([named]).collect();
            let entry = Entry { manager: marks::COPY_MANAGER.into(), apply: true, fields };
            self.guard()?;
            existing = Some(self.server.set_entries(self.slot, vec![entry], Some(version))?);
        }
        if let (Some(version), true) = (&existing, write.disown) {
            self.guard()?;
            existing = Some(self.server.own(self.slot, false, Some(version))?);
        }
        if let (Some(version), false) = (&existing, write.surplus.is_empty()) {
            let there = self.server.objects.get(self.slot).map(|object| object.content()).unwrap_or_default();
            let nulls = write.surplus.iter().flat_map(|surplus| nulled(surplus, &there));
            let mut change: Edit = nulls.map(|field| (field, None)).collect();
            // Of a kind without data everything is set by the same patch.
            let set = intent.iter().filter(|(field, _)| matches!(field, Field::Path(_)));
            change.extend(set.map(|(field, leaf)| (field.clone(), Some(leaf.clone()))));
            existing = Some(self.patch(marks::COPY_MANAGER, &change, version)?);
        }
        self.guard()?;
        self.server.apply(self.slot, marks::COPY_MANAGER, &intent, existing.as_ref()).map(drop)
    }

    fn patch(&mut self, manager: &str, change: &Edit, version: &Version) -> Written {
        self.guard()?;
        self.server.patch(self.slot, manager, change, version)
    }

    fn delete(&mut self, version: &Version) -> Result<(), Outcome> {
        self.guard()?;
        self.server.remove(self.slot, Some(version))
    }

    fn guard(&mut self) -> Result<(), Outcome> {
        if (self.leads)() { Ok(()) } else { Err(Outcome::NotLeading) }
    }
}

fn field(field: &ForeignField) -> Option<Field> {
    match field {
        ForeignField::Data(key) => Some(Field::Data(key.clone())),
        ForeignField::BinaryData(key) => Some(Field::Binary(key.clone())),
        ForeignField::Path(path) => Some(Field::Path(path.clone())),
        _ => None,
    }
}

/// What a null at this field takes away: of a path, everything below it.
fn nulled(surplus: &ForeignField, there: &Fields) -> Vec<Field> {
    let ForeignField::Path(above) = surplus else { return field(surplus).into_iter().collect() };
    let below = |it: &&Field| matches!(it, Field::Path(path) if is_within(path, above));
    there.keys().filter(below).cloned().collect()
}

pub fn manifest(slot: &ObjectKey, write: &CopyWrite, source: &Fields) -> Fields {
    let intent = &write.intent;
    let mut fields = Fields::new();
    for (from, to) in &intent.keys {
        if let Some(leaf) = source.get(&Field::Path(from.clone())) {
            fields.insert(Field::Path(to.clone()), leaf.clone());
            continue;
        }
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
    let definition = write.definition.iter().map(|uid| uid.as_bytes().to_vec());
    fields.extend(definition.map(|uid| (Field::Annotation(marks::DEFINITION.into()), uid)));
    fields.extend(intent.type_.iter().map(|type_| (Field::Type, text(type_))));
    fields.extend(intent.immutable.then(|| (Field::Immutable, b"true".to_vec())));
    fields
}

/// How long the reconciler waits with what was refused.
pub const REFUSED_AGAIN: i64 = 300;

/// What is kept of an attempt, but for the count of repairs: fights over an object are tried where they are counted.
pub fn remember(
    (server, world): (&Server, &mut World),
    slot: &ObjectKey,
    action: &CopyAction,
    outcome: &Outcome,
    now: i64,
) {
    let made = match action {
        CopyAction::Write(write) if *outcome == Outcome::Done && slot.kind.data().is_none() => {
            let object = hash(&server.objects[slot].values);
            Some(Made { not_kept: lost(server, slot, write), object })
        }
        _ => None,
    };
    settle_slot(world, slot, action, outcome.of_slot(made), at(now));
    world.memory_mut().expire(at(now), |_| true, |_| false);
}

/// Takes in what a watch shows; whether that is news.
pub fn observe(world: &mut World, changed: &Changed, state: Option<&Value>) -> bool {
    fn take<W: Watched>(world: &mut World, changed: &Changed, state: Option<&Value>) -> bool {
        match state {
            Some(state) => {
                let object: Decoded<W> = serde_json::from_value(state.clone()).unwrap();
                take_in(object, world, Timestamp::UNIX_EPOCH)
            }
            None => {
                if let Some(object) = changed.unread_object() {
                    world.note_unreadable(object, None);
                }
                W::forget(changed, world);
                true
            }
        }
    }
    match changed {
        Changed::Namespace(_) => take::<Namespace>(world, changed, state),
        Changed::Rule(_) => take::<AsWritten<CopyratorRule>>(world, changed, state),
        Changed::Policy(_) => take::<AsWritten<ConfigPolicy>>(world, changed, state),
        Changed::Object(ObjectKey { kind: Kind::ConfigMap, .. }) => {
            take::<Slim<ConfigMap>>(world, changed, state)
        }
        Changed::Object(ObjectKey { kind: Kind::Secret, .. }) => take::<Slim<Secret>>(world, changed, state),
        Changed::Object(ObjectKey { kind: Kind::NetworkPolicy, .. }) => {
            take::<Slim<NetworkPolicy>>(world, changed, state)
        }
        Changed::Object(ObjectKey { kind: Kind::RoleBinding, .. }) => {
            take::<Slim<RoleBinding>>(world, changed, state)
        }
        Changed::Object(ObjectKey { kind: Kind::ServiceAccount, .. }) => {
            take::<Slim<ServiceAccount>>(world, changed, state)
        }
        other => panic!("{other:?} is not modelled"),
    }
}

/// Fetches what a plan lacks; whether the world has it now (the API server may be ahead of the watch).
pub fn fetch(server: &Server, world: &mut World, needs: &[Need]) -> bool {
    needs.iter().all(|need| {
        let key = match need {
            Need::Fingerprint(key) => {
                if !is_shown(world, key) {
                    ask(server, world, key);
                }
                key
            }
            Need::List(..) => return false,
            Need::Existing(slot) => {
                ask(server, world, slot);
                return true;
            }
            Need::Drift(slot) => {
                examine(server, world, slot);
                return true;
            }
            Need::Right(rule, right, namespace) => {
                ask_right(server, world, (rule, right, namespace));
                return true;
            }
            other => panic!("{other:?} is not modelled"),
        };
        let Some(object) = server.objects.get(key) else { return false };
        let print = object.fingerprint(key.kind, &digest_key());
        world.assume_fingerprint(key, print);
        world.fingerprint(key).is_some()
    })
}

/// Whether the world need not ask for the object: a watch shows it, or none is known.
fn is_shown(world: &World, key: &ObjectKey) -> bool {
    world.object(key).is_none_or(|facts| !facts.seen.is_only_asked())
}

/// As `Fetcher::existing` does: reads the metadata of an object that no watch shows.
pub fn ask(server: &Server, world: &mut World, slot: &ObjectKey) {
    fn answer<K: OfKind + Clone + std::fmt::Debug + 'static>(
        world: &mut World,
        slot: &ObjectKey,
        state: Option<Value>,
    ) {
        match state {
            Some(state) => {
                let object: Slim<K, Asked> = serde_json::from_value(state).unwrap();
                object.put(world, Timestamp::UNIX_EPOCH);
            }
            None => Slim::<K, Asked>::forget(&Changed::Object(slot.clone()), world),
        }
    }
    let state = server.state(&Changed::Object(slot.clone()));
    match slot.kind {
        Kind::ConfigMap => answer::<ConfigMap>(world, slot, state),
        Kind::Secret => answer::<Secret>(world, slot, state),
        _ => return,
    }
    let now = at(server.now);
    match world.object(slot).map(|facts| facts.seen.is_only_asked()) {
        Some(true) => world.memory_mut().in_the_way(slot, &slot.namespace, now),
        Some(false) => {}
        None => world.memory_mut().found_empty(slot),
    }
}

/// What a dry run of the write would come to.
fn examine(server: &Server, world: &mut World, slot: &ObjectKey) {
    let facts = world.object(slot).unwrap().clone();
    let write = as_declared(world, slot, at(server.now)).unwrap();
    let mut tried = server.clone();
    let outcome = act(&mut tried, slot, &CopyAction::Write(write.clone()), &mut || true);
    assert_eq!(outcome, Outcome::Done, "{slot}");
    let (there, applied) = (&server.objects[slot].values, &tried.objects[slot].values);
    let compared = Compared { object: hash(there), applied: hash(applied) };
    let comparison = Comparison { differs: there != applied, compared: Some(compared) };
    let lost = lost(server, slot, &write);
    let differs = settle_examined(world, slot, &write.intent.marks.digest, comparison, lost);
    world.note_drift(slot, facts.edition(), differs);
}

/// What is there otherwise than a write declares.
fn lost(server: &Server, slot: &ObjectKey, write: &CopyWrite) -> Vec<String> {
    let declared = manifest(slot, write, &server.objects[&write.source].values);
    let there = &server.objects[slot].values;
    let lost = declared.iter().filter(|(field, value)| there.get(*field) != Some(*value));
    let path = |field: &Field| match field {
        Field::Label(key) => format!("metadata.labels.{key}"),
        other => format!("{other:?}"),
    };
    lost.map(|(field, _)| path(field)).collect()
}

fn hash(fields: &Fields) -> u64 {
    let mut state = DefaultHasher::new();
    fields.hash(&mut state);
    state.finish()
}

fn ask_right(server: &Server, world: &mut World, (rule, right, namespace): (&Declarer, &Right, &Arc<str>)) {
    let Some(facts) = world.rules().get(rule) else { return };
    let (uid, generation) = (facts.uid.clone(), facts.generation);
    let binds = |role: &str| server.binds.get(rule).is_none_or(|roles| roles.contains(role));
    for place in [EVERYWHERE.into(), namespace.clone()] {
        let may = match right {
            Right::Delete(_) => server.may(rule, &place),
            Right::Bind(role) => server.may(rule, &place) && binds(role),
        };
        let answer = may.then_some(()).ok_or_else(|| "somebody may not".to_owned());
        let answer = RightAnswer { answer, asked: at(server.now) };
        let version = SpecVersion { uid: &uid, generation };
        world.note_right(rule, version, (right.clone(), place), answer, at(server.now));
    }
}

/// Brings the world up to the server's state, as a complete list does.
pub fn relist(server: &mut Server, world: &mut World) {
    server.log.clear();
    let definition = server.definition.as_deref();
    let definition = definition.map(|uid| Definition { uid: uid.into(), created: at(0) });
    world.set_definition(Store::CopyratorRules, definition);
    let there = server.all();
    let known = (world.namespaces().keys().cloned().map(Changed::Namespace))
        .chain(world.objects().map(|(key, _)| Changed::Object(key.clone())))
        .chain(<AsWritten<CopyratorRule> as Watched>::known(world))
        .chain(<AsWritten<ConfigPolicy> as Watched>::known(world));
    let gone: Vec<_> = known.filter(|changed| !there.contains(changed)).collect();
    for changed in there.iter().chain(&gone) {
        observe(world, changed, server.state(changed).as_ref());
    }
}

/// Takes in everything that the watches have to tell.
pub fn catch_up(server: &mut Server, world: &mut World) {
    for (changed, state) in std::mem::take(&mut server.log) {
        observe(world, &changed, state.as_ref());
    }
}

/// Asks whose rights suffice, as the reconciler does before it acts on a rule.
pub fn authorize(server: &Server, world: &mut World) {
    let rules: Vec<_> = world.rules().keys().cloned().collect();
    for rule in &rules {
        authorize_one(server, world, rule);
    }
}

/// The same for one rule; whether the answer is a new one.
pub fn authorize_one(server: &Server, world: &mut World, rule: &Declarer) -> bool {
    let before = world.rule_authority(rule).cloned();
    let Some(facts) = world.rules().get(rule) else { return before.is_some() };
    let answer = match server.answers.get(rule) {
        Some(Answer::Unasked) => {
            world.forget_rule_authority(rule, |_| true);
            return before.is_some();
        }
        Some(Answer::Allowed) | None if server.allows(rule) => Ok(()),
        Some(Answer::Refused | Answer::Allowed) | None => {
            Err(Refusal { reason: RefusalReason::Forbidden, message: "no".to_owned() })
        }
    };
    let (uid, generation) = (facts.uid.clone(), facts.generation);
    let authority = Authority {
        uid,
        generation,
        identity: "user alice".into(),
        answer,
        asked: at(0),
        questions: 0,
        refusals: 0,
    };
    let is_new = before.as_ref() != Some(&authority);
    world.set_rule_authority(rule, authority);
    is_new
}

/// Somebody's edit: values to be set, `None` to be removed.
pub type Edit = BTreeMap<Field, Option<Vec<u8>>>;
