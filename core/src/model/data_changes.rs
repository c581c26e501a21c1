//! The part of a [`World`] that tracks which ConfigMaps and Secrets are watched, if only the needed
//! namespaces are watched.

use std::collections::BTreeSet;

use super::{DATA_KINDS, DataNeed, DataScope, DataWatch, SeenBy, UnreadObject, World};
use crate::names::{Kind, ObjectKey};

impl World {
    /// The namespaces whose ConfigMaps and Secrets are watched, if only needed namespaces are watched; `None`
    /// otherwise.
    pub fn data_scope(&self) -> Option<&DataScope> {
        self.cluster.data_scope.as_ref()
    }

    /// Sets which ConfigMaps and Secrets are watched.
    pub fn set_data_scope(&mut self, scope: Option<DataScope>) {
        self.cluster.data_scope = scope;
    }

    /// Whether all objects of a kind in a namespace are known, so that an unknown object does not exist.
    pub fn knows(&self, kind: Kind, namespace: &str) -> bool {
        match (&self.cluster.data_scope, kind.data()) {
            (Some(scope), Some(kind)) => scope.knows(kind, namespace),
            _ => true,
        }
    }

    /// Whether plans read the objects of a kind in a namespace, and not all of these objects are listed yet:
    /// an object that seems to be missing may exist.
    pub fn is_listing(&self, kind: Kind, namespace: &str) -> bool {
        match (&self.cluster.data_scope, kind.data()) {
            (Some(scope), Some(kind)) => scope.is_listing(kind, namespace),
            _ => false,
        }
    }

    /// Whether the list of the ConfigMaps or of the Secrets in a namespace is not complete yet.
    pub fn is_listing_data(&self, namespace: &str) -> bool {
        DATA_KINDS.into_iter().any(|kind| self.is_listing(kind.into(), namespace))
    }

    /// Whether any namespace is listed at present.
    pub fn is_listing_any(&self) -> bool {
        !self.cluster.data_scope.as_ref().is_none_or(DataScope::is_listed)
    }

    /// Whether all annotated objects of a kind are known.
    pub fn has_listed_declaring(&self, kind: Kind) -> bool {
        match (&self.cluster.data_scope, kind.data()) {
            (Some(scope), Some(kind)) => scope.has_listed_declaring(kind),
            _ => true,
        }
    }

    /// Adds these objects to the watched objects; returns whether the watches must change.
    pub fn widen_data(&mut self, needed: &DataNeed) -> bool {
        self.cluster.data_scope.as_mut().is_some_and(|scope| scope.widen(needed))
    }

    /// Notes that these watches were stopped, since only `needed` is needed. Forgets objects that are no
    /// longer watched, although the objects may still exist.
    pub fn leave_data(&mut self, stopped: &BTreeSet<DataWatch>, needed: DataNeed) {
        let Some(scope) = &mut self.cluster.data_scope else { return };
        scope.leave(stopped, needed);
        let wanted = scope.wanted().clone();
        let is_watched =
            |key: &ObjectKey| key.kind.data().is_none_or(|kind| wanted.of(kind).contains(&key.namespace));
        let objects = self.objects().map(|(key, _)| key);
        let left: Vec<ObjectKey> = objects.filter(|key| !is_watched(key)).cloned().collect();
        self.forget_unreadable(|object| matches!(object, UnreadObject::Object(key) if !is_watched(key)));
        let ended: Vec<Kind> = DATA_KINDS
            .into_iter()
            .filter(|kind| stopped.contains(&DataWatch::All(*kind)))
            .map(Kind::from)
            .collect();
        if !ended.is_empty() {
            // The watches of single namespaces take over.
            let shown = self.objects().filter(|(key, facts)| {
                ended.contains(&key.kind) && is_watched(key) && facts.seen.is_by(SeenBy::Everywhere)
            });
            let shown: Vec<ObjectKey> = shown.map(|(key, _)| key.clone()).collect();
            for key in shown {
                self.note_seen(&key, SeenBy::Whole);
                self.is_unseen_without(&key, SeenBy::Everywhere);
            }
        }
        for key in left {
            // A watch by a label may still show the object.
            if self.is_unseen_without(&key, SeenBy::Everywhere) || self.is_unseen_without(&key, SeenBy::Whole)
            {
                self.set_remark(&key, None);
                self.set_object(key, None);
            }
        }
        self.note_listed_stores();
    }

    /// Notes that the list of a watch is complete; returns whether this process has a [`DataScope`].
    pub fn note_data_listed(&mut self, watch: &DataWatch) -> bool {
        let Some(scope) = &mut self.cluster.data_scope else { return false };
        scope.note_listed(watch);
        self.note_listed_stores();
        true
    }

    fn note_listed_stores(&mut self) {
        let listed = self.cluster.data_scope.as_ref().map(DataScope::listed_stores).unwrap_or_default();
        for store in listed {
            self.set_listed(store);
        }
    }
}
