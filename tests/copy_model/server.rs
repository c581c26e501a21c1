//! A small pure model of the API server: objects as flat maps of fields, and who owns which (server-side apply,
//! create-only, preconditions, immutability), as kubernetes-facts.md §1 and “Writing without surprises” have it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use copyrator::{
    api::CopyratorRuleSpec,
    authority::{Subject, rule_questions},
    marks,
    model::WriteFault,
    names::{Declarer, Kind, ObjectKey},
    plan::{Changed, copy::Version},
    testing::Outcome,
};
use serde::Deserialize;
use serde_json::Value;

use super::stored::{Entry, Field, Fields, Stored};

#[derive(Clone)]
pub struct Rule {
    pub uid: u64,
    pub generation: i64,
    pub created: i64,
    pub spec: Value,
    pub status: Option<Value>,
}

/// A ConfigPolicy.
#[derive(Clone)]
pub struct Policy {
    pub uid: u64,
    pub spec: Value,
}

#[derive(Clone)]
pub struct Namespace {
    /// Made anew under its name it has another.
    pub uid: u64,
    pub labels: BTreeMap<String, String>,
    pub terminating: bool,
}

/// Whether a rule's identity may do what it declares.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Answer {
    Allowed,
    Refused,
    /// It has not been asked yet.
    Unasked,
}

/// What of an object a quota or another webhook refuses.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Refuses {
    /// Every write.
    Writes,
    /// A creation, though a dry run of it was accepted: the quota was used up in between.
    Creations,
}

/// What a write came to: the object's version, or why not.
pub type Written = Result<Version, Outcome>;

#[derive(Clone, Default)]
pub struct Server {
    pub namespaces: BTreeMap<String, Namespace>,
    pub objects: BTreeMap<ObjectKey, Stored>,
    pub rules: BTreeMap<Declarer, Rule>,
    pub policies: BTreeMap<String, Policy>,
    /// Rules that are not simply allowed.
    pub answers: BTreeMap<Declarer, Answer>,
    /// The only namespaces in which the identities of these rules may do anything.
    pub rights: BTreeMap<Declarer, BTreeSet<String>>,
    /// The only ClusterRoles that the identity of a rule may bind.
    pub binds: BTreeMap<Declarer, BTreeSet<String>>,
    /// The UID of the definition of rules, where it may be read.
    pub definition: Option<String>,
    /// What the clock says, in seconds.
    pub now: i64,
    /// What has changed, in order, as a watch would tell it.
    pub log: VecDeque<(Changed, Option<Value>)>,
    /// Objects that somebody has written so that they cannot be decoded.
    pub unreadable: BTreeSet<ObjectKey>,
    /// What a quota or another webhook refuses.
    pub refuses: BTreeMap<ObjectKey, Refuses>,
    /// What a mutating policy makes of a field that is there, by any writer of the object.
    pub rewrites: BTreeMap<(ObjectKey, Field), Vec<u8>>,
    /// Writes, and everything else that has been given a number.
    pub versions: u64,
}

impl Server {
    pub fn next(&mut self) -> u64 {
        self.versions += 1;
        self.versions
    }

    pub fn set_namespace(&mut self, name: &str, labels: BTreeMap<String, String>, terminating: bool) {
        let uid = self.next();
        let uid = self.namespaces.get(name).map_or(uid, |old| old.uid);
        self.namespaces.insert(name.into(), Namespace { uid, labels, terminating });
        self.tell(Changed::Namespace(name.into()));
    }

    /// The namespace goes, with all that is in it, and with the rights that somebody had there.
    pub fn remove_namespace(&mut self, name: &str) {
        let inside: Vec<_> = self.objects.keys().filter(|key| &*key.namespace == name).cloned().collect();
        for key in inside {
            self.hold(&key, false);
            drop(self.remove(&key, None));
        }
        let rules: Vec<_> = self.rules.keys().filter(|rule| **rule.namespace() == *name).cloned().collect();
        rules.iter().for_each(|rule| self.remove_rule(rule));
        for places in self.rights.values_mut() {
            places.remove(name);
        }
        self.namespaces.remove(name);
        self.tell(Changed::Namespace(name.into()));
    }

    pub fn set_rule(&mut self, name: &Declarer, spec: Value, created: i64) {
        let uid = self.next();
        let new = Rule { uid, generation: 1, created, spec: Value::Null, status: None };
        let old = self.rules.remove(name);
        let rule = old.map_or(new, |old| Rule { generation: old.generation + 1, ..old });
        self.rules.insert(name.clone(), Rule { spec, ..rule });
        self.tell(Changed::Rule(name.clone()));
    }

    pub fn remove_rule(&mut self, name: &Declarer) {
        if self.rules.remove(name).is_some() {
            self.tell(Changed::Rule(name.clone()));
        }
    }

    /// Somebody's patch, edit or replacement of an object, or its creation.
    pub fn update(
        &mut self,
        key: &ObjectKey,
        manager: &str,
        change: &BTreeMap<Field, Option<Vec<u8>>>,
    ) -> Written {
        let old = self.objects.get(key).cloned();
        let mut new = old.unwrap_or_default();
        for (field, value) in change {
            if new.values.get(field) == value.as_ref() {
                continue;
            }
            for entry in &mut new.entries {
                entry.fields.remove(field);
            }
            match value {
                Some(value) => {
                    new.values.insert(field.clone(), value.clone());
                    new.entry(manager, false).insert(field.clone());
                }
                None => drop(new.values.remove(field)),
            }
        }
        self.commit(key, None, new)
    }

    /// Forced server-side apply of the whole intent. `version`: what must be there; `None`: nothing may be.
    pub fn apply(
        &mut self,
        key: &ObjectKey,
        manager: &str,
        intent: &Fields,
        version: Option<&Version>,
    ) -> Written {
        let old = self.objects.get(key);
        if version.is_none() != old.is_none() {
            return Err(Outcome::Stale);
        }
        let mut new = old.cloned().unwrap_or_default();
        if new.entries.is_empty() && old.is_some() {
            *new.entry("before-first-apply", false) = new.values.keys().cloned().collect();
        }
        for (field, value) in intent {
            if new.values.get(field) != Some(value) {
                for entry in &mut new.entries {
                    entry.fields.remove(field);
                }
                new.values.insert(field.clone(), value.clone());
            }
        }
        let before = std::mem::replace(new.entry(manager, true), intent.keys().cloned().collect());
        for field in before.iter().filter(|field| !intent.contains_key(field)) {
            if !new.entries.iter().any(|entry| entry.fields.contains(field)) {
                new.values.remove(field);
            }
        }
        self.commit(key, version, new)
    }

    /// A dry run of the creation of an object, whether the name is free or not.
    pub fn try_creation(&self, key: &ObjectKey, intent: &Fields) -> Result<(), Outcome> {
        let mut tried = self.clone();
        tried.objects.remove(key);
        if tried.refuses.get(key) == Some(&Refuses::Creations) {
            tried.refuses.remove(key);
        }
        tried.apply(key, marks::COPY_MANAGER, intent, None).map(drop)
    }

    /// Server-side apply of a Secret with `stringData`: content changes, and our own entry keeps its fields.
    pub fn apply_string_data(
        &mut self,
        key: &ObjectKey,
        manager: &str,
        data: &BTreeMap<String, Vec<u8>>,
    ) -> Written {
        let mut new = self.objects[key].clone();
        for (name, value) in data {
            new.values.insert(Field::Data(name.clone()), value.clone());
            new.entry(manager, true).insert(Field::StringData(name.clone()));
        }
        self.commit(key, None, new)
    }

    /// JSON patch of managedFields.
    pub fn set_entries(
        &mut self,
        key: &ObjectKey,
        entries: Vec<Entry>,
        version: Option<&Version>,
    ) -> Written {
        let Some(old) = self.objects.get(key) else { return Err(Outcome::Done) };
        let new = Stored { entries, ..old.clone() };
        self.commit(key, version, new)
    }

    /// Merge patch of nulls and annotations, with uid and resourceVersion.
    pub fn patch(
        &mut self,
        key: &ObjectKey,
        manager: &str,
        change: &BTreeMap<Field, Option<Vec<u8>>>,
        version: &Version,
    ) -> Written {
        match self.objects.get(key) {
            None => Err(Outcome::Done),
            Some(old) if old.version() != *version => Err(Outcome::Stale),
            Some(_) => self.update(key, manager, change),
        }
    }

    /// Merge patch of the owners: somebody's is put on, or all are taken off.
    pub fn own(&mut self, key: &ObjectKey, owned: bool, version: Option<&Version>) -> Written {
        let Some(old) = self.objects.get(key) else { return Err(Outcome::Done) };
        let new = Stored { owned, ..old.clone() };
        self.commit(key, version, new)
    }

    /// Somebody's finalizer keeps the object until it is taken off.
    pub fn remove(&mut self, key: &ObjectKey, version: Option<&Version>) -> Result<(), Outcome> {
        let Some(old) = self.objects.get(key) else { return Ok(()) };
        if version.is_some_and(|version| old.version() != *version) {
            return Err(Outcome::Stale);
        }
        if old.held && old.deleting {
            return Ok(());
        }
        let mut new = Stored { deleting: true, ..old.clone() };
        new.resource_version = self.next();
        if new.held {
            self.objects.insert(key.clone(), new);
        } else {
            self.objects.remove(key);
        }
        self.tell(Changed::Object(key.clone()));
        Ok(())
    }

    /// Somebody's finalizer, put on or taken off.
    pub fn hold(&mut self, key: &ObjectKey, held: bool) {
        let Some(old) = self.objects.get(key).filter(|old| old.held != held) else { return };
        let mut new = Stored { held, ..old.clone() };
        new.resource_version = self.next();
        if new.deleting {
            self.objects.remove(key);
        } else {
            self.objects.insert(key.clone(), new);
        }
        self.tell(Changed::Object(key.clone()));
    }

    fn commit(&mut self, key: &ObjectKey, version: Option<&Version>, mut new: Stored) -> Written {
        let old = self.objects.get(key);
        if version.is_some_and(|version| old.is_none_or(|old| old.version() != *version)) {
            return Err(Outcome::Stale);
        }
        let namespace = self.namespaces.get(&*key.namespace);
        if namespace.is_none_or(|namespace| namespace.terminating && old.is_none()) {
            return Err(Outcome::NamespaceGone);
        }
        if key.kind == Kind::Secret {
            new.values.entry(Field::Type).or_insert_with(|| b"Opaque".to_vec());
        }
        for ((_, field), value) in self.rewrites.iter().filter(|((object, _), _)| object == key) {
            new.values.entry(field.clone()).and_modify(|there| there.clone_from(value));
        }
        new.entries.retain(|entry| !entry.fields.is_empty());
        new.entries.sort();
        if let Some(old) = old.filter(|old| **old == new) {
            return Ok(old.version());
        }
        if let Some(outcome) = old.and_then(|old| old.forbids(&new)).or_else(|| new.is_invalid()) {
            return Err(outcome);
        }
        let is_refused = match self.refuses.get(key) {
            None => false,
            Some(Refuses::Creations) => old.is_none(),
            Some(Refuses::Writes) => true,
        };
        if is_refused {
            return Err(Outcome::Refused { reason: WriteFault::Refused, message: "exceeded quota".into() });
        }
        if old.is_none() {
            new.uid = self.next();
        }
        new.resource_version = self.next();
        let version = new.version();
        self.objects.insert(key.clone(), new);
        self.tell(Changed::Object(key.clone()));
        Ok(version)
    }

    pub fn tell(&mut self, changed: Changed) {
        let state = self.state(&changed);
        self.log.push_back((changed, state));
    }

    /// Whether the identity of a rule may do something in a namespace; the empty name: in all of them.
    pub fn may(&self, rule: &Declarer, namespace: &str) -> bool {
        self.rights.get(rule).is_none_or(|places| places.contains(namespace))
    }

    /// Whether it may do what its rule declares.
    pub fn allows(&self, rule: &Declarer) -> bool {
        let spec = self.rules.get(rule).map(|rule| serde_json::from_value(rule.spec.clone()));
        let Some(Ok(spec)) = spec else { return true };
        let spec: CopyratorRuleSpec = spec;
        let Some(kind) = Kind::named(&spec.source.kind) else { return true };
        let questions = rule_questions(rule.namespace(), &spec, kind, &Subject::default());
        questions.iter().all(|question| self.may(rule, &question.namespace))
    }

    /// What a watch would show of it now.
    pub fn state(&self, changed: &Changed) -> Option<Value> {
        match changed {
            Changed::Namespace(name) => self.namespaces.get(&**name).map(|namespace| {
                let phase = if namespace.terminating { "Terminating" } else { "Active" };
                serde_json::json!({"apiVersion": "v1", "kind": "Namespace",
                    "metadata": {"name": &**name, "uid": namespace.uid.to_string(), "labels": namespace.labels},
                    "status": {"phase": phase}})
            }),
            Changed::Object(key) => self.objects.get(key).map(|object| {
                let mut state = object.metadata(key);
                if self.unreadable.contains(key) {
                    state["metadata"]["ownerReferences"] = 7.into();
                }
                state
            }),
            Changed::Rule(name) => self.rules.get(name).map(|rule| {
                let created = jiff::Timestamp::from_second(rule.created).unwrap().to_string();
                serde_json::json!({"apiVersion": "copyrator.dev/v1alpha1", "kind": "CopyratorRule", "spec": rule.spec,
                    "status": rule.status,
                    "metadata": {"name": &*name.named().name, "namespace": &**name.namespace(), "uid": rule.uid.to_string(),
                        "resourceVersion": rule.generation.to_string(), "generation": rule.generation,
                        "creationTimestamp": created,
                        "annotations": {marks::AUTHOR: "alice", marks::AUTHOR_GROUPS: "[]"}}})
            }),
            Changed::Policy(name) => self.policies.get(&**name).map(|policy| {
                serde_json::json!({"apiVersion": "copyrator.dev/v1alpha1", "kind": "ConfigPolicy", "spec": policy.spec,
                    "metadata": {"name": &**name, "uid": policy.uid.to_string(), "resourceVersion": "1", "generation": 1}})
            }),
            other => panic!("{other:?} is not modelled"),
        }
    }

    /// Everything there is.
    pub fn all(&self) -> Vec<Changed> {
        let namespaces = self.namespaces.keys().map(|name| Changed::Namespace(name.as_str().into()));
        let objects = self.objects.keys().cloned().map(Changed::Object);
        let rules = self.rules.keys().cloned().map(Changed::Rule);
        let policies = self.policies.keys().map(|name| Changed::Policy(name.as_str().into()));
        namespaces.chain(objects).chain(rules).chain(policies).collect()
    }
}

/// The removal mark as it is written.
pub fn removal_mark(after: Option<jiff::Timestamp>) -> BTreeMap<Field, Option<Vec<u8>>> {
    let value = after.map(|after| marks::write_time(after).into_bytes());
    BTreeMap::from([(Field::Annotation(marks::REMOVE_AFTER.into()), value)])
}
