//! The objects in a [`World`] that are copied or declared: metadata, fingerprints, and which object is a copy
//! of which source.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use jiff::{SignedDuration, Timestamp};

use super::{Drift, ObjectFacts, RenderedObject, RenderedSet, SeenBy, World};
use crate::{
    digest::Fingerprint,
    names::{Declarer, InstanceName, Kind, NamespacedName, ObjectKey},
};

impl World {
    /// The metadata of one object.
    pub fn object(&self, key: &ObjectKey) -> Option<&ObjectFacts> {
        self.cluster.objects.get(key).map(Box::as_ref)
    }

    /// Like [`Self::object`], with the stored key.
    pub fn object_at(&self, key: &ObjectKey) -> Option<(&ObjectKey, &ObjectFacts)> {
        self.cluster.objects.get_key_value(key).map(|(key, facts)| (&**key, &**facts))
    }

    /// Every object, in order.
    pub fn objects(&self) -> impl Iterator<Item = (&ObjectKey, &ObjectFacts)> {
        self.cluster.objects.iter().map(|(key, facts)| (&**key, &**facts))
    }

    /// The objects of a kind in one namespace.
    pub fn objects_in<'w>(
        &'w self,
        kind: Kind,
        namespace: &'w str,
    ) -> impl Iterator<Item = (&'w ObjectKey, &'w ObjectFacts)> {
        self.objects_beginning(kind, namespace, "")
    }

    /// The objects of one namespace whose names begin with `prefix`.
    pub fn objects_beginning<'w>(
        &'w self,
        kind: Kind,
        namespace: &'w str,
        prefix: &'w str,
    ) -> impl Iterator<Item = (&'w ObjectKey, &'w ObjectFacts)> {
        let from = ObjectKey::new(kind, namespace, prefix);
        self.cluster
            .objects
            .range(from..)
            .take_while(move |(key, _)| {
                key.kind == kind && &*key.namespace == namespace && key.name.starts_with(prefix)
            })
            .map(|(key, facts)| (&**key, &**facts))
    }

    /// All objects and workloads of a namespace share one allocation of its name.
    pub(super) fn share_namespace(&self, namespace: &mut Arc<str>) {
        if let Some((known, _)) = self.cluster.namespaces.get_key_value(namespace) {
            *namespace = known.clone();
        }
    }

    /// Stores one object, or forgets a deleted object.
    pub fn set_object(&mut self, mut key: ObjectKey, facts: Option<ObjectFacts>) {
        self.share_namespace(&mut key.namespace);
        let before = self.take_out(&key);
        self.memory.object_changed(&key);
        match facts {
            Some(mut facts) => {
                self.cluster.labels.share(&mut facts.labels);
                if let Some(ownership) = &mut facts.ownership {
                    self.cluster.ownership.share(ownership);
                }
                if let Some(marks) = &mut facts.marks {
                    self.cluster.marks.share(&mut marks.shared);
                    if key.name == marks.source.name {
                        key.name = marks.source.name.clone();
                    }
                }
                self.memory.slot_filled(&key);
                let key = Arc::new(key);
                if let Some(marks) = &facts.marks {
                    add_to(&mut self.cluster.copies_by_rule, &marks.rule, &key);
                    add_to(&mut self.cluster.copies_by_source, &marks.source, &key);
                }
                self.cluster.objects.insert(key, Box::new(facts));
            }
            None => {
                self.memory.object_gone(&key);
                if let Some(marks) = before.and_then(|facts| facts.marks) {
                    self.memory.freed(&key, &marks.rule);
                    if key.kind.data().is_some() {
                        self.memory.found_empty(&key);
                    }
                }
                self.cluster.fingerprints.remove(&key);
                self.cluster.changed_keys.remove(&key);
            }
        }
    }

    /// Notes that a watch also shows an object whose facts another watch has brought.
    pub(crate) fn note_seen(&mut self, key: &ObjectKey, watch: SeenBy) {
        if let Some(facts) = self.cluster.objects.get_mut(key) {
            facts.seen = facts.seen.and(watch);
        }
    }

    /// Notes that a watch no longer shows an object. Returns whether the world must forget the object, since
    /// no watch shows the object any more.
    pub(crate) fn is_unseen_without(&mut self, key: &ObjectKey, watch: SeenBy) -> bool {
        let Some(facts) = self.cluster.objects.get_mut(key) else { return true };
        let left = facts.seen.without(watch);
        facts.seen = left.unwrap_or(facts.seen);
        left.is_none()
    }

    /// Forgets an object that no watch shows.
    pub fn forget_asked(&mut self, key: &ObjectKey) {
        if self.object(key).is_some_and(|facts| facts.seen.is_only_asked()) {
            self.set_object(key.clone(), None);
        }
    }

    /// Forgets the questions about objects that watches show, or that are gone.
    /// Forgets objects that no watch shows, too, if this leader has not asked for them.
    pub fn forget_old_questions(&mut self) {
        let is_left = |(key, facts): &(&ObjectKey, &ObjectFacts)| {
            facts.seen.is_only_asked() && self.memory.due(key).is_none()
        };
        let left: Vec<ObjectKey> = self.objects().filter(is_left).map(|(key, _)| key.clone()).collect();
        left.into_iter().for_each(|key| self.set_object(key, None));
        let objects = &self.cluster.objects;
        let is_asked = |slot: &ObjectKey| objects.get(slot).is_some_and(|facts| facts.seen.is_only_asked());
        self.memory.retain_questions(is_asked);
    }

    /// The objects whose marks name this rule, whether or not the marks verify.
    pub fn copies_of_rule(&self, rule: &Declarer) -> impl Iterator<Item = &ObjectKey> {
        self.cluster.copies_by_rule.get(rule).into_iter().flatten().map(Arc::as_ref)
    }

    /// The objects whose marks name this source. Marks do not contain the source's kind.
    pub fn copies_of_source(&self, source: &NamespacedName) -> impl Iterator<Item = &ObjectKey> {
        self.cluster.copies_by_source.get(source).into_iter().flatten().map(Arc::as_ref)
    }

    /// The objects in one namespace whose marks name this source, without iterating over other namespaces.
    pub fn copies_of_source_in<'w>(
        &'w self,
        source: &NamespacedName,
        namespace: &'w Arc<str>,
    ) -> impl Iterator<Item = &'w ObjectKey> + use<'w> {
        let copies = self.cluster.copies_by_source.get(source);
        let kinds = self.settings().copied_kinds();
        let in_namespace = kinds.flat_map(move |kind| {
            let from = ObjectKey::new(kind, namespace.clone(), "");
            let copies =
                copies.into_iter().flat_map(move |copies| copies.range::<ObjectKey, _>(from.clone()..));
            copies.take_while(move |key| key.kind == kind && key.namespace == *namespace)
        });
        in_namespace.map(Arc::as_ref)
    }

    /// Every object with marks.
    pub fn copies(&self) -> impl Iterator<Item = &ObjectKey> {
        self.cluster.copies_by_rule.values().flatten().map(Arc::as_ref)
    }

    /// The set that a template declares for a namespace or object, as last rendered.
    pub fn rendered(&self, template: &Declarer, instance: &InstanceName) -> Option<&RenderedSet> {
        self.cluster.rendered.set(template, instance)
    }

    /// Everything that a template declares, as last rendered.
    pub fn rendered_of<'w>(
        &'w self,
        template: &Declarer,
    ) -> impl Iterator<Item = (&'w InstanceName, &'w RenderedSet)> + use<'w> {
        self.cluster.rendered.sets_of(template)
    }

    /// Everything that a template declares in one namespace, as last rendered.
    pub fn rendered_in<'w>(
        &'w self,
        template: &Declarer,
        namespace: &'w str,
    ) -> impl Iterator<Item = (&'w InstanceName, &'w RenderedSet)> + use<'w> {
        self.cluster.rendered.sets_in(template, namespace)
    }

    /// The objects that templates declare in this slot, as last rendered, in the order of the templates.
    pub fn rendered_at<'w>(
        &'w self,
        slot: &'w ObjectKey,
    ) -> impl Iterator<Item = (&'w Declarer, &'w InstanceName, &'w RenderedSet, &'w RenderedObject)> {
        self.cluster.rendered.at(slot)
    }

    /// The slot of every object that a template declares.
    pub fn rendered_slots(&self) -> impl Iterator<Item = &ObjectKey> {
        self.cluster.rendered.slots()
    }

    /// Bytes of each object that a template declares.
    pub fn rendered_sizes(&self) -> impl Iterator<Item = u64> {
        self.cluster.rendered.sizes()
    }

    /// The fingerprint of an object; `None` for a fingerprint of a version other than the one last seen.
    pub fn fingerprint(&self, key: &ObjectKey) -> Option<&Fingerprint> {
        let facts = self.cluster.objects.get(key)?;
        self.cluster
            .fingerprints
            .get(key)
            .filter(|print| print.uid == facts.uid && print.resource_version == facts.resource_version)
    }

    /// Sets the fingerprint of an object, as fetched, and notes which keys have changed.
    pub fn set_fingerprint(&mut self, key: &ObjectKey, print: Fingerprint) {
        let Some(facts) = self.cluster.objects.get(key) else { return };
        let before = self.cluster.fingerprints.get(key).filter(|before| before.uid == print.uid);
        if let Some(before) = before.filter(|before| before.keys != print.keys) {
            self.cluster.changed_keys.entry(key.clone()).or_default().note(before, &print, facts.changed_at);
        }
        self.cluster.fingerprints.insert(key.clone(), print);
    }

    /// Sets the fingerprint without noting which keys have changed.
    pub fn assume_fingerprint(&mut self, key: &ObjectKey, print: Fingerprint) {
        self.cluster.fingerprints.insert(key.clone(), print);
    }

    /// Notes whether a write would change an object, in the examined edition. If not, forgets a copy's
    /// fingerprint: the copy's content differs from the source's, and only the next sweep compares the
    /// contents again.
    pub fn note_drift(&mut self, key: &ObjectKey, edition: &str, differs: bool) {
        let known = self.cluster.objects.get_mut(key).filter(|facts| facts.edition() == edition);
        let Some(facts) = known.filter(|facts| facts.examined.is_some()) else { return };
        facts.set_drift(if differs { Drift::Certain } else { Drift::None });
        if !differs && !facts.is_declared() {
            self.cluster.fingerprints.remove(key);
        }
    }

    /// Marks every declared object as possibly changed, so that the reconciler examines the objects again;
    /// returns these objects.
    pub fn doubt_declared(&mut self) -> Vec<ObjectKey> {
        let objects = self.cluster.objects.iter_mut().filter(|(_, facts)| facts.is_declared());
        objects
            .map(|(key, facts)| {
                facts.set_drift(Drift::Possible);
                (**key).clone()
            })
            .collect()
    }

    /// Every fingerprint, including fingerprints of earlier versions.
    pub fn fingerprints(&self) -> impl Iterator<Item = (&ObjectKey, &Fingerprint)> {
        self.cluster.fingerprints.iter()
    }

    /// Drops a fingerprint that is no longer needed.
    pub fn forget_fingerprint(&mut self, key: &ObjectKey) {
        self.cluster.fingerprints.remove(key);
    }

    /// Drops the fingerprints of earlier versions, except of content that has changed within `newly`: once
    /// the new content is fetched, which may take a while, the earlier fingerprint shows which keys have
    /// changed.
    pub fn forget_old_fingerprints(&mut self, newly: SignedDuration, now: Timestamp) {
        let objects = &self.cluster.objects;
        self.cluster.fingerprints.retain(|key, print| {
            objects.get(key).is_some_and(|facts| {
                facts.resource_version == print.resource_version
                    || now.duration_since(facts.changed_at) < newly
            })
        });
    }

    /// Removes an object, also from all indexes.
    fn take_out(&mut self, key: &ObjectKey) -> Option<Box<ObjectFacts>> {
        let facts = self.cluster.objects.remove(key)?;
        self.cluster.labels.release(&facts.labels);
        if let Some(ownership) = &facts.ownership {
            self.cluster.ownership.release(ownership);
        }
        if let Some(marks) = &facts.marks {
            remove_from(&mut self.cluster.copies_by_rule, &marks.rule, key);
            remove_from(&mut self.cluster.copies_by_source, &marks.source, key);
            self.cluster.marks.release(&marks.shared);
        }
        Some(facts)
    }
}

type Copies<At> = BTreeMap<At, BTreeSet<Arc<ObjectKey>>>;

fn add_to<At: Ord + Clone>(index: &mut Copies<At>, at: &At, key: &Arc<ObjectKey>) {
    index.entry(at.clone()).or_default().insert(key.clone());
}

fn remove_from<At: Ord>(index: &mut Copies<At>, at: &At, key: &ObjectKey) {
    if let Some(set) = index.get_mut(at) {
        set.remove(key);
        if set.is_empty() {
            index.remove(at);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::digest::KeyPrint;

    fn facts(version: &str, changed_at: i64) -> ObjectFacts {
        ObjectFacts {
            uid: "u".into(),
            resource_version: version.into(),
            labels: Default::default(),
            deletion: None,
            created: jiff::Timestamp::UNIX_EPOCH,
            owners: 0,
            changed_at: at(changed_at),
            content_fields: 0,
            restart: None,
            marks: None,
            ownership: None,
            examined: None,
            trace: Default::default(),
            seen: Default::default(),
        }
    }

    fn print(version: &str) -> Fingerprint {
        let key = KeyPrint { digest: [version.as_bytes()[0]; 16], size: 1, binary: false };
        Fingerprint {
            uid: "u".into(),
            resource_version: version.into(),
            type_: None,
            immutable: false,
            keys: [("k".to_owned(), key)].into(),
            annotations: BTreeMap::new(),
            role: None,
            keeper: None,
        }
    }

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    /// Without the earlier fingerprint, the changed key would be unknown if fetching the content takes longer
    /// than the time to the next cleanup.
    #[test]
    fn a_fingerprint_stays_until_the_changed_content_is_fetched() {
        let key = ObjectKey::new(Kind::ConfigMap, "shop", "app");
        let newly = SignedDuration::from_secs(60);
        for (cleaned_at, named) in [(110, vec!["k"]), (160, vec![])] {
            let mut world = World::default();
            world.set_object(key.clone(), Some(facts("1", 10)));
            world.set_fingerprint(&key, print("1"));
            world.set_object(key.clone(), Some(facts("2", 100)));
            world.forget_old_fingerprints(newly, at(cleaned_at));
            assert!(world.fingerprint(&key).is_none(), "an earlier version says nothing of this one");
            world.set_fingerprint(&key, print("2"));
            let changed = world.changed_keys(&key).into_iter().flat_map(|keys| keys.since(at(0)));
            assert_eq!(changed.collect::<Vec<_>>(), named, "cleaned at {cleaned_at}");
        }
    }
}
