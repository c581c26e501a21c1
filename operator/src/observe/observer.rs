//! The target of all watches: the world, and the queue of keys to handle again.

use std::{
    collections::BTreeSet,
    sync::{Arc, PoisonError, RwLock, RwLockWriteGuard},
};

use jiff::Timestamp;
use prometheus_client::metrics::counter::Counter;
use tokio::sync::Notify;

use crate::{
    decoded::{Decoded, Unreadable},
    intake::watched::Watched,
    model::{DataScope, DataWatch, Definition, NamespaceRead, Store, UnreadObject, World},
    plan::{Changed, Key, affected, needed, needed_by},
    read::crds::{RULES, TEMPLATES},
};

/// The target of all watches: the world, and the queue of keys to handle again.
#[derive(Clone)]
pub struct Observer {
    /// The world that watches write.
    pub world: Arc<RwLock<World>>,
    /// The queue of keys to handle.
    pub requests: Arc<dyn Requests>,
    /// Counts events, including errors.
    pub events: Counter,
    /// Notified when a template is created, changed or deleted: some watches run only while templates need
    /// them.
    pub templates: Arc<Notify>,
}

/// A new list that is complete: all objects of a store, in one namespace or in all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// The store.
    pub store: Store,
    /// The only namespace of the list; `None`: all namespaces.
    pub place: Option<Arc<str>>,
}

/// Accepts keys to be handled.
pub trait Requests: Send + Sync {
    /// Queues these keys because of this change.
    fn request(&self, changed: &Changed, keys: BTreeSet<Key>);
    /// Reports that every store is complete, and which store was just listed. The receiver then examines
    /// everything that the list has or should have, to find objects that appeared or disappeared unnoticed.
    /// `None`: the receiver examines everything.
    fn complete(&self, listed: Option<Listed>);
    /// Reports that ConfigMaps or Secrets must be watched in other namespaces than before.
    fn widened(&self) {}
}

/// Returns the CustomResourceDefinition of a store whose objects have copies: its deletion must not delete
/// the copies.
pub(super) fn definition_name(store: Store) -> Option<&'static str> {
    match store {
        Store::CopyratorRules => Some(RULES),
        Store::CopyratorTemplates => Some(TEMPLATES),
        _ => None,
    }
}

impl Observer {
    /// Takes one object into the world, or notes that it cannot be read.
    pub(super) fn put<W: Watched>(&self, object: Decoded<W>) {
        let object = match object.read() {
            Ok(object) => object,
            Err(left) => match W::undecodable(&left) {
                Some(object) => object,
                None => return self.leave_out(&W::named(&left.metadata), &left),
            },
        };
        let changed = object.changed();
        self.take_back(&changed);
        // Each list brings every object again.
        if object.is_known(&self.world.read().unwrap_or_else(PoisonError::into_inner)) {
            return;
        }
        let put = object.prepare(Timestamp::now());
        self.change(&changed, put);
    }

    /// Notes that an object cannot be read. The facts of the object's last readable version stay.
    pub(super) fn leave_out(&self, changed: &Changed, left: &Unreadable) {
        let Some(object) = changed.unread_object().filter(|_| left.metadata.name.is_some()) else {
            return tracing::error!(?changed, why = left.why, "cannot read an object without a valid name");
        };
        let named = object.to_string();
        let mut is_news = false;
        self.change(changed, |world| {
            is_news = world.note_unreadable(object, Some(&left.why));
            is_news
        });
        if is_news {
            tracing::error!(
                object = named,
                why = left.why,
                "cannot read an object: Copyrator changes neither the object nor its copies"
            );
        }
    }

    /// Clears the note that an object cannot be read: the object was read again, or is gone.
    pub(super) fn take_back(&self, changed: &Changed) {
        let is_none = |world: &World| world.unreadable().next().is_none();
        if is_none(&self.world.read().unwrap_or_else(PoisonError::into_inner)) {
            return;
        }
        if let Some(object) = changed.unread_object() {
            self.change(changed, |world| world.note_unreadable(object, None));
        }
    }

    /// Removes a deleted object from the world.
    pub(super) fn forget<W: Watched>(&self, changed: &Changed) {
        let clears = |object: UnreadObject| {
            W::clears_unreadable(&object, &self.world.read().unwrap_or_else(PoisonError::into_inner))
        };
        if changed.unread_object().is_none_or(clears) {
            self.take_back(changed);
        }
        self.change(changed, |world| {
            W::forget(changed, world);
            true
        });
    }

    /// Every known object of the kind, and every object that cannot be read; in `place` only, if given.
    pub(super) fn known<W: Watched>(&self, place: Option<&str>) -> BTreeSet<Changed> {
        let known = W::known(&self.world.read().unwrap_or_else(PoisonError::into_inner));
        let is_here = |changed: &Changed| place.is_none() || changed.namespace() == place;
        known.into_iter().filter(is_here).collect()
    }

    /// Notes the result of reading one kind in one namespace, or the namespace itself.
    pub(super) fn look(&self, place: &Arc<str>, look: NamespaceRead) {
        let is_list = matches!(look, NamespaceRead::Listed(_));
        let was_complete = self.world.read().unwrap_or_else(PoisonError::into_inner).is_complete();
        let mut moved = false;
        self.change(&Changed::Namespace(place.clone()), |world| {
            let before = world.namespaces().get(place).cloned();
            moved = world.note_read(place, look);
            world.namespaces().get(place) != before.as_ref()
        });
        let world = self.world.read().unwrap_or_else(PoisonError::into_inner);
        if moved {
            match world.unseen(place) {
                Some((_, why)) => {
                    tracing::warn!(namespace = %place, why, "Copyrator can no longer read a namespace")
                }
                None => tracing::info!(namespace = %place, "Copyrator can read a namespace now"),
            }
        }
        let complete = world.is_complete();
        drop(world);
        // The keys of the namespace do not include copies that rules of other namespaces want in the
        // namespace.
        if complete && (moved || is_list || !was_complete) {
            self.requests.complete(None);
        }
    }

    /// Completes a list. Objects that the list lacks were deleted unnoticed (kubert's index loses such
    /// deletions when a list is interrupted; in this index only a complete list removes objects).
    ///
    /// Objects were stored as they arrived. Keeping the whole list until its end cost 20 MB for 28,000
    /// objects (measured), most of which the heap never gave back.
    pub(super) fn complete<W: Watched>(
        &self,
        place: Option<&Arc<str>>,
        unseen: BTreeSet<Changed>,
        definition: Option<Definition>,
    ) {
        for changed in &unseen {
            self.forget::<W>(changed);
        }
        let was_certain = {
            let mut world = self.world.write().unwrap_or_else(PoisonError::into_inner);
            let was_complete = world.is_complete();
            let was_certain = was_complete && !world.is_in_doubt();
            let is_other = definition_name(W::STORE).is_some() && world.set_definition(W::STORE, definition);
            world.end_doubt(W::STORE, place.cloned());
            was_certain && !is_other
        };
        if let Some(place) = place.filter(|_| self.looks_at_some()) {
            self.look(place, NamespaceRead::Listed(W::STORE));
            return;
        }
        let watch = W::data_watch(place);
        let (is_first, others_run, complete) = {
            let mut world = self.world.write().unwrap_or_else(PoisonError::into_inner);
            let scope = world.data_scope().zip(watch.as_ref());
            let is_first = scope.is_some_and(|(scope, watch)| !scope.has_listed(watch));
            if !watch.as_ref().is_some_and(|watch| world.note_data_listed(watch)) {
                world.set_listed(W::STORE);
            }
            // A copy whose source is not in the list needs the namespace of its source.
            let others_run = matches!(watch, Some(DataWatch::Labelled(..))) && {
                let needed = needed(&world);
                world.widen_data(&needed)
            };
            (is_first, others_run, world.is_complete())
        };
        if others_run {
            self.requests.widened();
        }
        // A copy that somebody deleted while the watch was interrupted is neither in the list nor known.
        if complete {
            let listed = Listed { store: W::STORE, place: place.cloned() };
            // Plans of any namespace may have waited for the first list of this namespace.
            self.requests.complete((was_certain && !is_first).then_some(listed));
        }
    }

    /// Notes that these watches have ended, since nothing needs them. Everything is planned again: a plan may have
    /// waited for their lists, or may rely on an object that no watch shows now.
    pub fn leave(&self, ended: &BTreeSet<DataWatch>) {
        let completes = {
            let mut world = self.world.write().unwrap_or_else(PoisonError::into_inner);
            // By now, an object may need one of the watches that were to end.
            let needed = needed(&world);
            world.leave_data(ended, needed);
            world.is_complete()
        };
        if completes {
            self.requests.complete(None);
        }
    }

    /// Whether namespaces are watched one by one because this process may not read all namespaces.
    pub(super) fn looks_at_some(&self) -> bool {
        self.world.read().unwrap_or_else(PoisonError::into_inner).namespace_scope().is_some()
    }

    /// Makes one change, and queues the keys that it affects, both before and after the change. Objects that
    /// the change needs and that no watch covers are treated as unknown from this moment on, not as missing.
    pub(super) fn change(&self, changed: &Changed, make: impl FnOnce(&mut World) -> bool) {
        self.make(changed, make);
        if matches!(changed, Changed::Template(_)) {
            self.templates.notify_waiters();
        }
    }

    fn make(&self, changed: &Changed, make: impl FnOnce(&mut World) -> bool) {
        let mut world = self.world.write().unwrap_or_else(PoisonError::into_inner);
        // A failing list is reported even before every store is listed.
        let is_looked_at = world.is_complete() || matches!(changed, Changed::Lists);
        let keys = is_looked_at.then(|| affected(&world, changed));
        let is_news = make(&mut world);
        let is_wider = world.data_scope().is_some_and(DataScope::can_widen) && {
            let needed = needed_by(&world, changed);
            world.widen_data(&needed)
        };
        // After the downgrade, other tasks may read the world.
        let world = RwLockWriteGuard::downgrade(world);
        if is_wider {
            self.requests.widened();
        }
        if let Some(mut keys) = keys.filter(|_| is_news) {
            keys.extend(affected(&world, changed));
            drop(world);
            self.requests.request(changed, keys);
        }
    }
}
