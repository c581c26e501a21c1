//! Runs one watch: events in, facts out, keys into the queue. It does no other I/O: the API server would cut
//! off a slow consumer (reflector#468).

use std::{
    collections::BTreeSet,
    marker::PhantomData,
    pin::pin,
    sync::{Arc, PoisonError, RwLock, RwLockWriteGuard},
    time::Duration,
};

use futures::StreamExt;
use jiff::Timestamp;
use kube::{
    Api,
    runtime::{WatchStreamExt, watcher},
};
use prometheus_client::metrics::counter::Counter;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::crds::{RULES, TEMPLATES, definition};
use crate::{
    intake::watched::Watched,
    model::{DataScope, DataWatch, Definition, NamespaceRead, Store, World},
    plan::{Changed, Key, affected, needed, needed_by},
};

#[cfg(test)]
mod anew;
#[cfg(test)]
mod lists;
#[cfg(test)]
mod silent;
#[cfg(test)]
mod widening;

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

/// How soon a refused watch is tried again.
const REFUSED_AGAIN: Duration = Duration::from_secs(10);
/// How soon a failed watch of one of our own kinds is started again. If its definition was deleted and
/// created again, rules are then known within seconds.
const FAILED_AGAIN: Duration = Duration::from_secs(2);
/// How soon to look again for the definition of templates, which an install of an earlier version lacks.
const ABSENT_AGAIN: Duration = Duration::from_secs(30);
/// How long reading a definition may take.
const TIMEOUT: Duration = Duration::from_secs(5);

/// What was found of a definition.
enum Found {
    There,
    Absent,
    /// It need not be read.
    Unread,
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

/// Watches one kind until told to stop. After `relist`, the watch is dropped and started again, to find what
/// it missed (a watch can stay silent after an etcd restore). Each kind does so at another time, since a list
/// takes memory. `place` is the namespace that `api` is limited to, where namespaces are watched one by one.
pub(crate) async fn watch<W: Watched>(
    api: Api<W>,
    config: watcher::Config,
    observer: Observer,
    place: Option<Arc<str>>,
    relist: Duration,
    stop: CancellationToken,
) {
    let relist = relist + relist / 100 * W::STORE as u32;
    let mut told = None;
    while !stop.is_cancelled() {
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(relist) => {}
            pause = begin(api.clone(), config.clone(), Intake::within(observer.clone(), place.clone()), &mut told) => {
                tokio::select! {
                    () = stop.cancelled() => return,
                    () = tokio::time::sleep(pause) => {}
                }
            }
        }
    }
}

/// Reads the definition of what is listed first, then follows the watch. Returns how long to pause.
async fn begin<W: Watched>(
    api: Api<W>,
    config: watcher::Config,
    mut intake: Intake<W>,
    told: &mut Option<String>,
) -> Duration {
    if let Some(name) = definition_name(W::STORE) {
        match intake.look_at_definition(api.clone().into_client(), name).await {
            Ok(Found::Absent) if W::STORE == Store::CopyratorTemplates => {
                intake.end_without_any();
                return ABSENT_AGAIN;
            }
            // Listed now, in the moment in which the definition comes back, it would be listed under none.
            Ok(Found::Absent) => {
                intake.fail(format!("CustomResourceDefinition {name} is gone"), told);
                return FAILED_AGAIN;
            }
            Ok(Found::There | Found::Unread) => {}
            Err(error) => {
                intake.fail(error, told);
                return FAILED_AGAIN;
            }
        }
    }
    follow(api, config, intake, told).await
}

/// The definition that the objects of a store go with, where copies outlive it.
fn definition_name(store: Store) -> Option<&'static str> {
    match store {
        Store::CopyratorRules => Some(RULES),
        Store::CopyratorTemplates => Some(TEMPLATES),
        _ => None,
    }
}

/// Follows events. Returns, with the time to pause, when only a new list can tell the state: after a refusal
/// in a single namespace, and after a failed watch of one of our own kinds, since the last thing it reported
/// may have been the deletion of its definition.
async fn follow<W: Watched>(
    api: Api<W>,
    config: watcher::Config,
    mut intake: Intake<W>,
    told: &mut Option<String>,
) -> Duration {
    let mut events = pin!(watcher::<W>(api, config).default_backoff());
    // An error is an item, not the end: the stream recovers by itself (kube#1615).
    while let Some(event) = events.next().await {
        intake.observer.events.inc();
        match event {
            Ok(event) => {
                let is_through = matches!(event, watcher::Event::InitDone);
                intake.take(event);
                if is_through {
                    *told = None;
                }
            }
            Err(error) => {
                let is_refused = intake.is_refused(&error);
                if !is_refused && W::STORE.is_ours() {
                    intake.fail(error.to_string(), told);
                    return if refusal(&error).is_some() { REFUSED_AGAIN } else { FAILED_AGAIN };
                }
                let place = intake.place.as_deref();
                tracing::warn!(store = ?W::STORE, place, %error, "watch failed; it is tried again");
                if is_refused {
                    return REFUSED_AGAIN;
                }
            }
        }
    }
    FAILED_AGAIN
}

/// The API server's message, if an error says that the client lacks a right.
fn refusal(error: &watcher::Error) -> Option<&str> {
    let (watcher::Error::InitialListFailed(error)
    | watcher::Error::WatchStartFailed(error)
    | watcher::Error::WatchFailed(error)) = error
    else {
        return None;
    };
    match error {
        kube::Error::Api(status) if status.code == 403 => Some(&status.message),
        _ => None,
    }
}

/// Takes in the events of one watch, one after the other, without waiting for anything.
pub struct Intake<W> {
    observer: Observer,
    /// The only namespace of this watch, where namespaces are watched one by one.
    place: Option<Arc<str>>,
    /// Objects that were known when a list began and have not appeared in it so far. At its end, those were
    /// deleted unnoticed.
    unseen: BTreeSet<Changed>,
    /// The definition under which rules are listed.
    definition: Option<Definition>,
    kind: PhantomData<fn(W)>,
}

impl<W: Watched> Intake<W> {
    /// For a watch that has not reported anything yet.
    pub fn new(observer: Observer) -> Self {
        Self::within(observer, None)
    }

    /// The same, for a watch of one namespace, if one is given.
    pub fn within(observer: Observer, place: Option<Arc<str>>) -> Self {
        Self { observer, place, unseen: BTreeSet::new(), definition: None, kind: PhantomData }
    }

    /// Notes that known objects may have been deleted: nothing is removed until the next list is complete.
    /// Logs an error once.
    fn fail(&self, error: String, told: &mut Option<String>) {
        let mut world = self.observer.world.write().unwrap_or_else(PoisonError::into_inner);
        world.begin_doubt(W::STORE, self.place.clone());
        drop(world);
        let place = self.place.as_deref();
        if told.as_ref() != Some(&error) {
            tracing::warn!(store = ?W::STORE, place, error, "watch failed; it is begun anew until it succeeds");
        }
        *told = Some(error);
    }

    /// Reads the definition of what will be listed, if this process manages copies and may read definitions. If it is still the
    /// same when something is removed, it was the same all the time.
    ///
    /// # Errors
    /// The API server did not say. An API server that has just started refuses what it allows a second later: to list without
    /// a definition after such a refusal would mean that nothing is removed before the next list, hours later.
    async fn look_at_definition(&mut self, client: kube::Client, name: &str) -> Result<Found, String> {
        let is_read = {
            let world = self.observer.world.read().unwrap_or_else(PoisonError::into_inner);
            world.settings().reads_definitions
        };
        if !is_read {
            return Ok(Found::Unread);
        }
        self.definition = match tokio::time::timeout(TIMEOUT, definition(&client, name)).await {
            Ok(Ok(Some(definition))) => Some(definition),
            Ok(Ok(None)) => return Ok(Found::Absent),
            Ok(Err(error)) => return Err(format!("CustomResourceDefinition {name} cannot be read: {error}")),
            Err(_) => return Err(format!("CustomResourceDefinition {name} cannot be read in {TIMEOUT:?}")),
        };
        Ok(Found::There)
    }

    /// The kind is not served: there is no object of it. Whether that means that objects were deleted is seen when something
    /// is to be removed.
    fn end_without_any(self) {
        let known = self.observer.known::<W>(None);
        let is_listed = {
            let mut world = self.observer.world.write().unwrap_or_else(PoisonError::into_inner);
            world.end_doubt(W::STORE, None);
            world.unlisted().all(|store| store != W::STORE)
        };
        // Completing it looks at everything.
        if !is_listed || !known.is_empty() {
            self.observer.complete::<W>(None, known, None);
        }
    }

    /// Whether the API server refuses this watch's namespace; notes it if so.
    fn is_refused(&self, error: &watcher::Error) -> bool {
        let place = self.place.as_ref().filter(|_| self.observer.looks_at_some());
        let (Some(place), Some(why)) = (place, refusal(error)) else { return false };
        let mut world = self.observer.world.write().unwrap_or_else(PoisonError::into_inner);
        // What cannot be read is left alone anyway.
        world.end_doubt(W::STORE, self.place.clone());
        drop(world);
        self.observer.look(place, NamespaceRead::Refused(W::STORE, why.to_owned()));
        true
    }

    /// Takes in one event.
    pub fn take(&mut self, event: watcher::Event<W>) {
        match event {
            watcher::Event::Init => self.unseen = self.observer.known::<W>(self.place.as_deref()),
            watcher::Event::InitApply(object) => {
                self.unseen.remove(&object.changed());
                self.observer.put(object);
            }
            watcher::Event::InitDone => {
                let unseen = std::mem::take(&mut self.unseen);
                self.observer.complete::<W>(self.place.as_ref(), unseen, self.definition.clone());
            }
            watcher::Event::Apply(object) => self.observer.put(object),
            watcher::Event::Delete(object) => self.observer.forget::<W>(&object.changed()),
        }
    }
}

impl Observer {
    /// Takes one object into the world.
    fn put<W: Watched>(&self, object: W) {
        let changed = object.changed();
        // Each list reports everything once more.
        if object.is_known(&self.world.read().unwrap_or_else(PoisonError::into_inner)) {
            return;
        }
        let put = object.prepare(Timestamp::now());
        self.change(&changed, put);
    }

    /// Removes a deleted object from the world.
    fn forget<W: Watched>(&self, changed: &Changed) {
        self.change(changed, |world| {
            W::forget(changed, world);
            true
        });
    }

    /// Every known object of the kind; in one namespace only, if given.
    fn known<W: Watched>(&self, place: Option<&str>) -> BTreeSet<Changed> {
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
    fn complete<W: Watched>(
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
    fn looks_at_some(&self) -> bool {
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
        let keys = world.has_begun().then(|| affected(&world, changed));
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
