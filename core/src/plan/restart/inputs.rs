//! The inputs of a workload: the objects and keys that it restarts for, and the monitors and annotations that
//! declare the restarts.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;

use super::{
    brake::Pace,
    pods::Before,
    reach::{Reach, annotated, declared_reach, standing},
};
use crate::{
    digest::DigestKey,
    model::{Reference, WorkloadFacts, World},
    names::{Declarer, Kind, ObjectKey, WorkloadKey},
    plan::Need,
    validate::{CompiledMonitor, Globs},
};

/// The ConfigMap that Kubernetes itself publishes into every namespace and that we do not watch: no workload
/// restarts for this ConfigMap, which is never in the world.
const ROOT_CA: &str = "kube-root-ca.crt";

/// The content that a workload is to be restarted for.
#[derive(Debug, Default)]
pub struct Inputs<'w> {
    /// The existing objects that are inputs, and why each object is an input.
    pub objects: BTreeMap<ObjectKey, Vec<Use<'w>>>,
    /// Missing objects that pods cannot start without.
    pub missing: BTreeSet<ObjectKey>,
    /// Missing objects that pods start without: running pods do not see such an object when it is created.
    pub absent: BTreeSet<ObjectKey>,
    /// How to restart: the gentlest way that a monitor or annotation declares.
    pub pace: Option<Pace>,
    /// The monitors that reach the workload and may restart it.
    pub monitors: BTreeSet<Declarer>,
    /// The first monitor that reaches the workload and may not restart it.
    pub refused: Option<Declarer>,
    /// Whether the workload's own annotation declares restarts.
    pub by_annotation: bool,
    /// A monitor reaches the workload, and the API server has not been asked yet whether it may restart it.
    pub pending: bool,
}

/// Why an object is an input, and which of its keys are inputs.
#[derive(Clone, Copy, Debug)]
pub struct Use<'w> {
    /// The keys that a monitor watches; `None`: all.
    pub(super) watched: Option<&'w Globs>,
    /// The keys that the pod template names; `None`: all.
    pub(super) referenced: Option<&'w [String]>,
}

impl Use<'_> {
    /// Whether this key is an input.
    pub(super) fn admits(&self, key: &str) -> bool {
        self.watched.is_none_or(|globs| globs.matches(key))
            && self.referenced.is_none_or(|keys| keys.iter().any(|one| one == key))
    }

    /// Whether Events and statuses may name the keys. The role `view` reads Events and statuses but no
    /// Secret: a Secret's keys are named only if the pod template names them anyway.
    pub(super) fn may_be_named(&self, kind: Kind) -> bool {
        kind != Kind::Secret || self.referenced.is_some()
    }

    /// The filters of keys, as the monitor and the pod template declare them.
    fn filters(&self) -> [Option<BTreeSet<&str>>; 2] {
        let referenced = self.referenced.map(|keys| keys.iter().map(String::as_str).collect());
        [self.watched.map(|globs| globs.entries().collect()), referenced]
    }
}

/// The digest of the content of all inputs, once all content is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InputDigest {
    /// The keyed digest of all input content: `<key id>.<digest>`.
    pub digest: String,
    /// Short digest of the input objects and the filters, independent of the content.
    pub scope: String,
    /// An upper bound of the last change (1 s resolution) of an object with an input key; `None` without such
    /// an object.
    pub changed_at: Option<Timestamp>,
    /// An upper bound of the last change of any input object: the object's last input key may have been
    /// removed.
    pub touched_at: Option<Timestamp>,
}

impl InputDigest {
    /// The record of this content.
    pub fn label(&self) -> String {
        format!("{}.{}", self.digest, self.scope)
    }

    /// The record while pods that began before this time are still to be replaced.
    pub fn label_while(&self, pending: Option<Before>) -> String {
        pending.map_or_else(|| self.label(), |before| format!("{}.{before}", self.label()))
    }
}

impl<'w> Inputs<'w> {
    /// Collects the objects that this workload restarts for.
    pub fn of(world: &'w World, key: &'w WorkloadKey, facts: &'w WorkloadFacts) -> Self {
        let mut inputs = Self::default();
        for (name, monitor) in world.monitors_in(&key.namespace) {
            let Ok(compiled) = &monitor.compiled else { continue };
            let Some(reach) = declared_reach(compiled, key, facts).filter(|_| !compiled.suspend) else {
                continue;
            };
            match standing(world, name, monitor) {
                None => inputs.pending = true,
                Some(Err(_)) => {
                    inputs.refused.get_or_insert_with(|| name.clone());
                }
                Some(Ok(())) => {
                    inputs.watch(world, key, facts, compiled, reach);
                    inputs.monitors.insert(name.clone());
                    Pace::tighten(&mut inputs.pace, Pace::of(compiled));
                }
            }
        }
        inputs.by_annotation = inputs.annotation(world, key, facts);
        if inputs.by_annotation {
            Pace::tighten(&mut inputs.pace, Pace::default());
        }
        inputs
    }

    /// The inputs of pods without a workload: all objects that the monitor watches.
    pub fn of_monitor(world: &'w World, name: &'w Declarer, compiled: &'w CompiledMonitor) -> Self {
        let mut inputs = Self { pace: Some(Pace::of(compiled)), ..Self::default() };
        inputs.watch_existing(world, name.namespace(), compiled);
        inputs
    }

    /// Whether no existing or missing object is an input.
    pub fn is_empty(&self) -> bool {
        self.objects.is_empty() && self.missing.is_empty() && self.absent.is_empty()
    }

    /// The content that is not known yet.
    pub fn needs(&self, world: &World) -> Vec<Need> {
        let unknown = self.objects.keys().filter(|key| world.fingerprint(key).is_none());
        unknown.map(|key| Need::Fingerprint(key.clone())).collect()
    }

    /// The digest of the content; `None` while some content is not known.
    pub fn content(&self, world: &World, key: &DigestKey) -> Option<InputDigest> {
        let (mut changed_at, mut touched_at) = (None, None);
        let mut parts = Vec::with_capacity(self.objects.len());
        for (object, uses) in &self.objects {
            let print = world.fingerprint(object)?;
            let used = print.keys.iter().filter(|(key, _)| uses.iter().any(|one| one.admits(key)));
            let used: Vec<_> = used.map(|(key, print)| (key.as_str(), print.digest)).collect();
            let changed = world.object(object).map(|facts| facts.changed_at);
            touched_at = touched_at.max(changed);
            if !used.is_empty() {
                changed_at = changed_at.max(changed);
            }
            parts.push((object, used));
        }
        Some(InputDigest {
            digest: key.inputs(parts),
            scope: key.scope(&self.scope()),
            changed_at,
            touched_at,
        })
    }

    /// The scope as text: the existing objects, and the filters of their keys.
    fn scope(&self) -> Vec<String> {
        let mut words = Vec::new();
        for (object, uses) in &self.objects {
            let filters: BTreeSet<_> = uses.iter().map(Use::filters).collect();
            words.extend([object.kind.to_string(), object.name.to_string(), filters.len().to_string()]);
            for filter in filters.iter().flatten() {
                words.push(filter.as_ref().map_or("all".into(), |keys| keys.len().to_string()));
                words.extend(filter.iter().flatten().map(ToString::to_string));
            }
        }
        words
    }

    fn watch(
        &mut self,
        world: &'w World,
        key: &'w WorkloadKey,
        facts: &'w WorkloadFacts,
        compiled: &'w CompiledMonitor,
        reach: Reach,
    ) {
        match reach {
            // The author who names the workloads decides which objects are inputs: references do not narrow
            // this set.
            Reach::Declared => {
                self.watch_existing(world, &key.namespace, compiled);
                let watched =
                    |reference: &&Reference| compiled.watches(reference.kind, &reference.name).is_some();
                for reference in facts.references.iter().filter(watched) {
                    self.note_missing(world, key, reference);
                }
            }
            Reach::ByReference => {
                for reference in &facts.references {
                    for term in compiled.terms(reference.kind, &reference.name) {
                        self.refer(world, key, reference, term.keys.as_ref());
                    }
                }
            }
        }
    }

    fn watch_existing(&mut self, world: &'w World, namespace: &'w str, compiled: &'w CompiledMonitor) {
        for term in &compiled.watch {
            let objects =
                world.objects_in(term.kind, namespace).filter(|(key, _)| term.names.matches(&key.name));
            for (object, _) in objects.filter(|(object, _)| !is_exempt(world, object)) {
                let why = Use { watched: term.keys.as_ref(), referenced: None };
                self.objects.entry(object.clone()).or_default().push(why);
            }
        }
    }

    fn annotation(&mut self, world: &'w World, key: &WorkloadKey, facts: &'w WorkloadFacts) -> bool {
        let Some(wish) = annotated(world, facts) else { return false };
        for reference in
            facts.references.iter().filter(|reference| wish.names(reference.kind, &reference.name))
        {
            self.refer(world, key, reference, None);
        }
        for (kind, name) in wish.listed() {
            let object = ObjectKey::new(kind, key.namespace.clone(), name);
            let is_referenced = facts.references.iter().any(|one| one.kind == kind && &*one.name == name);
            if !is_referenced && world.object(&object).is_some() && !is_exempt(world, &object) {
                let why = Use { watched: None, referenced: None };
                self.objects.entry(object).or_default().push(why);
            }
        }
        true
    }

    fn refer(
        &mut self,
        world: &World,
        key: &WorkloadKey,
        reference: &'w Reference,
        watched: Option<&'w Globs>,
    ) {
        let object = ObjectKey::new(reference.kind, key.namespace.clone(), reference.name.clone());
        if world.object(&object).is_none() {
            self.note_missing(world, key, reference);
        } else if !is_exempt(world, &object) {
            self.objects
                .entry(object)
                .or_default()
                .push(Use { watched, referenced: reference.keys.as_deref() });
        }
    }

    fn note_missing(&mut self, world: &World, key: &WorkloadKey, reference: &Reference) {
        let object = ObjectKey::new(reference.kind, key.namespace.clone(), reference.name.clone());
        if &*reference.name != ROOT_CA && world.object(&object).is_none() {
            match reference.optional {
                true => self.absent.insert(object),
                false => self.missing.insert(object),
            };
        }
    }
}

/// Whether no workload restarts for an object, for example because the object's annotation excludes it.
fn is_exempt(world: &World, object: &ObjectKey) -> bool {
    let facts = world.object(object);
    let says_no = facts.is_some_and(|facts| facts.restart.as_deref() == Some("false"));
    // Watches leave out only types for which no workload restarts.
    let is_left_out = facts.is_some_and(|facts| facts.seen.is_only_asked());
    &*object.name == ROOT_CA || is_left_out || (world.settings().annotations && says_no)
}

/// Returns a sentence about the missing objects, with the fix.
pub fn missing(objects: &BTreeSet<ObjectKey>) -> String {
    match objects.first() {
        None => "a ConfigMap or Secret that does not exist: create it, or correct the name".into(),
        Some(ObjectKey { kind, name, .. }) if objects.len() == 1 => {
            format!("{kind} {name}, which does not exist: create it, or correct the name")
        }
        Some(ObjectKey { kind, name, .. }) => {
            let more = objects.len() - 1;
            format!("{kind} {name} and {more} more, which do not exist: create them, or correct the names")
        }
    }
}
