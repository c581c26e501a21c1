//! Where watches write: the world, and the queue of keys to look at again.

use std::{
    collections::BTreeSet,
    sync::{Arc, PoisonError, RwLock, RwLockWriteGuard},
};

use jiff::Timestamp;
use prometheus_client::metrics::counter::Counter;
use tokio::sync::Notify;

use super::crds::{RULES, TEMPLATES};
use crate::{
    decoded::{Decoded, Unreadable},
    intake::watched::Watched,
    model::{DataScope, DataWatch, Definition, NamespaceRead, Store, World},
    plan::{Changed, Key, affected, needed, needed_by},
};

/// Where watches write: the world, and the queue of keys to look at again.
#[derive(Clone)]
pub struct Observer {
    /// The world that watches write.
    pub world: Arc<RwLock<World>>,
    /// The queue of keys to look at.
    pub requests: Arc<dyn Requests>,
    /// Counts events, including errors.
    pub events: Counter,
    /// Told when a template comes, changes or goes: what is watched for templates alone depends on that.
    pub templates: Arc<Notify>,
}

/// What was listed anew: the objects of a store, in one namespace or in all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// The store.
    pub store: Store,
    /// The only namespace that the list was of.
    pub place: Option<Arc<str>>,
}

/// Accepts keys to be looked at.
pub trait Requests: Send + Sync {
    /// Asks to look at these keys soon, because of this change.
    fn request(&self, changed: &Changed, keys: BTreeSet<Key>);
    /// Says that every store is complete and one of them was just listed. Objects that appeared or
    /// disappeared unnoticed before are only found by looking at what is in it or should be; `None` stands for everything.
    fn complete(&self, listed: Option<Listed>);
    /// Says that ConfigMaps or Secrets of further namespaces are to be watched.
    fn widened(&self) {}
}

/// The definition that the objects of a store go with, where copies outlive it.
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
        // Each list reports everything once more.
        if object.is_known(&self.world.read().unwrap_or_else(PoisonError::into_inner)) {
            return;
        }
        let put = object.prepare(Timestamp::now());
        self.change(&changed, put);
    }

    /// Notes that an object cannot be read. What is known of it stays.
    pub(super) fn leave_out(&self, changed: &Changed, left: &Unreadable) {
        let Some(object) = changed.unread_object().filter(|_| left.metadata.name.is_some()) else {
            return tracing::error!(
                ?changed,
                why = left.why,
                "an object that cannot be named cannot be read"
            );
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
                "an object cannot be read: it is left as it is, and so is what is made of it"
            );
        }
    }

    /// Notes that an object is read again, or is gone.
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
        self.take_back(changed);
        self.change(changed, |world| {
            W::forget(changed, world);
            true
        });
    }

    /// Every known object of the kind, and every one that cannot be read; in one namespace only, if given.
    pub(super) fn known<W: Watched>(&self, place: Option<&str>) -> BTreeSet<Changed> {
        let known = W::known(&self.world.read().unwrap_or_else(PoisonError::into_inner));
        let is_here = |changed: &Changed| place.is_none() || changed.namespace() == place;
        known.into_iter().filter(is_here).collect()
    }

    /// Notes the result of reading one kind in one namespace.
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
                    tracing::warn!(namespace = %place, why, "a namespace has gone out of sight")
                }
                None => tracing::info!(namespace = %place, "a namespace has come into sight"),
            }
        }
        let complete = world.is_complete();
        drop(world);
        // The keys of the namespace do not include copies that rules of other namespaces want there.
        if complete && (moved || is_list || !was_complete) {
            self.requests.complete(None);
        }
    }

    /// Completes a list. Objects that were not in it were deleted unnoticed (kubert's index loses such
    /// deletions when a list is interrupted; here only a complete list says that something is gone).
    ///
    /// Objects were taken in as they came. Keeping the whole list until here cost 20 MB for 28,000 objects
    /// (measured), most of which the heap never gave back.
    pub(super) fn complete<W: Watched>(
        &self,
        place: Option<&Arc<str>>,
        unseen: BTreeSet<Changed>,
        definition: Option<Definition>,
    ) {
        for changed in &unseen {
            self.forget::<W>(changed);
        }
        let (was_complete, was_certain) = {
            let mut world = self.world.write().unwrap_or_else(PoisonError::into_inner);
            let was_complete = world.is_complete();
            let was_certain = was_complete && !world.is_in_doubt();
            let is_other = definition_name(W::STORE).is_some() && world.set_definition(W::STORE, definition);
            world.end_doubt(W::STORE, place.cloned());
            (was_complete, was_certain && !is_other)
        };
        if let Some(place) = place.filter(|_| self.looks_at_some()) {
            self.look(place, NamespaceRead::Listed(W::STORE));
            return;
        }
        let watch = W::data_watch(place);
        let complete = {
            let mut world = self.world.write().unwrap_or_else(PoisonError::into_inner);
            if !watch.as_ref().is_some_and(|watch| world.note_data_listed(watch)) {
                world.set_listed(W::STORE);
            }
            world.is_complete()
        };
        // Such a list brings names, and no object.
        let brings_nothing = was_complete && matches!(watch, Some(DataWatch::Labelled(..)));
        // A copy that somebody deleted while the watch was interrupted is neither in the list nor known.
        if complete && !brings_nothing {
            let listed = Listed { store: W::STORE, place: place.cloned() };
            self.requests.complete(was_certain.then_some(listed));
        }
    }

    /// Notes that these watches have ended, since nothing needs them. Where nothing else was to be listed, everything is looked at.
    pub fn leave(&self, ended: &BTreeSet<DataWatch>) {
        let completes = {
            let mut world = self.world.write().unwrap_or_else(PoisonError::into_inner);
            let was_complete = world.is_complete();
            // Something may have come to need one of them meanwhile.
            let needed = needed(&world);
            world.leave_data(ended, needed);
            world.is_complete() && !was_complete
        };
        if completes {
            self.requests.complete(None);
        }
    }

    /// Whether namespaces are watched one by one because this process may look at no others.
    pub(super) fn looks_at_some(&self) -> bool {
        self.world.read().unwrap_or_else(PoisonError::into_inner).namespace_scope().is_some()
    }

    /// Makes one change, and asks before and after it which keys must be looked at again. What it needs besides is unknown from this
    /// moment on, and not missing.
    pub(super) fn change(&self, changed: &Changed, make: impl FnOnce(&mut World) -> bool) {
        self.make(changed, make);
        if matches!(changed, Changed::Template(_)) {
            self.templates.notify_waiters();
        }
    }

    fn make(&self, changed: &Changed, make: impl FnOnce(&mut World) -> bool) {
        let mut world = self.world.write().unwrap_or_else(PoisonError::into_inner);
        // What says that it has not begun is looked at all the same.
        let is_looked_at = world.has_begun() || matches!(changed, Changed::Lists);
        let keys = is_looked_at.then(|| affected(&world, changed));
        let is_news = make(&mut world);
        let is_wider = world.data_scope().is_some_and(DataScope::can_widen) && {
            let needed = needed_by(&world, changed);
            world.widen_data(&needed)
        };
        // Others may read the world from here on.
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
