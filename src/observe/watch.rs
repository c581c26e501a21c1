//! Runs one watch: events in, facts out, keys into the queue. It does no other I/O: the API server would cut
//! off a slow consumer (reflector#468).

use std::{
    collections::BTreeSet,
    marker::PhantomData,
    pin::pin,
    sync::{Arc, PoisonError},
    time::Duration,
};

use futures::StreamExt;
use kube::{
    Api, Resource,
    runtime::{WatchStreamExt, watcher},
};
use tokio_util::sync::CancellationToken;

use super::{
    crds::definition,
    health::Health,
    observer::{Observer, definition_name},
};
use crate::{
    decoded::Decoded,
    intake::watched::Watched,
    model::{Definition, ListName, NamespaceRead, Store},
    plan::Changed,
};

/// How soon a refused watch is tried again.
const REFUSED_AGAIN: Duration = Duration::from_secs(10);
/// How soon a failed watch of one of our own kinds is started again. If its definition was deleted and
/// created again, rules are then known within seconds.
const FAILED_AGAIN: Duration = Duration::from_secs(2);
/// The longest pause before a list is begun anew that could not be decoded.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
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

/// Watches one kind until told to stop. After `relist`, the watch is dropped and started again, to find what
/// it missed (a watch can stay silent after an etcd restore). Each kind does so at another time, since a list
/// takes memory. `place` is the namespace that `api` is limited to, where namespaces are watched one by one.
pub(crate) async fn watch<W: Watched>(
    api: Api<Decoded<W>>,
    config: watcher::Config,
    observer: Observer,
    place: Option<Arc<str>>,
    relist: Duration,
    stop: CancellationToken,
) {
    let relist = relist + relist / 100 * W::STORE as u32;
    let mut course = Course {
        told: None,
        health: Health::new(observer.clone(), ListName::of(W::STORE, place.clone())),
        backoff: watcher::DefaultBackoff::default(),
    };
    while !stop.is_cancelled() {
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(relist) => {}
            pause = begin(api.clone(), config.clone(), Intake::within(observer.clone(), place.clone()), &mut course) => {
                tokio::select! {
                    () = stop.cancelled() => return,
                    () = tokio::time::sleep(pause) => {}
                }
            }
        }
    }
}

/// What one list and watch after the other came to.
struct Course {
    /// The last error that was logged.
    told: Option<String>,
    health: Health,
    /// How long to pause before what could not be decoded is listed anew.
    backoff: watcher::DefaultBackoff,
}

/// Reads the definition of what is listed first, then follows the watch. Returns how long to pause.
async fn begin<W: Watched>(
    api: Api<Decoded<W>>,
    config: watcher::Config,
    mut intake: Intake<W>,
    course: &mut Course,
) -> Duration {
    if let Some(name) = definition_name(W::STORE) {
        match intake.look_at_definition(api.clone().into_client(), name).await {
            Ok(Found::Absent) if W::STORE == Store::CopyratorTemplates => {
                intake.end_without_any();
                return ABSENT_AGAIN;
            }
            // Listed now, in the moment in which the definition comes back, it would be listed under none.
            Ok(Found::Absent) => {
                intake.fail(format!("CustomResourceDefinition {name} is gone"), course);
                return FAILED_AGAIN;
            }
            Ok(Found::There | Found::Unread) => {}
            Err(error) => {
                intake.fail(error, course);
                return FAILED_AGAIN;
            }
        }
    }
    follow(api, config, intake, course).await
}

/// Follows events. Returns, with the time to pause, when only a new list can tell the state: after a refusal
/// in a single namespace, after an event that cannot be decoded at all, which the watch would meet again, after failures for a minute,
/// and after a failed watch of one of our own kinds, since the last thing it reported may have been the deletion of its definition.
async fn follow<W: Watched>(
    api: Api<Decoded<W>>,
    config: watcher::Config,
    mut intake: Intake<W>,
    course: &mut Course,
) -> Duration {
    let mut events = pin!(watcher::<Decoded<W>>(api, config).default_backoff());
    // An error is an item, not the end: the stream recovers by itself (kube#1615).
    while let Some(event) = events.next().await {
        intake.observer.events.inc();
        match event {
            Ok(event) => {
                let is_through = matches!(event, watcher::Event::InitDone);
                let is_listing = matches!(event, watcher::Event::Init | watcher::Event::InitApply(_));
                intake.take(event);
                if is_through {
                    course.told = None;
                }
                // A list of which a later page fails begins with a page that does not.
                if !is_listing {
                    course.health.works();
                }
            }
            Err(error) => {
                let is_refused = intake.is_refused(&error);
                if !is_refused && W::STORE.is_ours() {
                    intake.fail(error.to_string(), course);
                    return if refusal(&error).is_some() { REFUSED_AGAIN } else { FAILED_AGAIN };
                }
                let place = intake.place.as_deref();
                tracing::warn!(store = ?W::STORE, place, %error, "watch failed; it is tried again");
                if is_refused {
                    return REFUSED_AGAIN;
                }
                let is_lasting = course.health.fails(&error.to_string());
                if is_lasting || is_undecodable(&error) {
                    return course.backoff.next().unwrap_or(LONGEST_PAUSE);
                }
            }
        }
    }
    FAILED_AGAIN
}

/// Whether what came of a list or watch was not as an API server writes it. The items of lists and the objects of events are decoded one
/// by one, so that none of them is the cause.
pub(super) fn is_undecodable(error: &watcher::Error) -> bool {
    match error {
        watcher::Error::InitialListFailed(error)
        | watcher::Error::WatchStartFailed(error)
        | watcher::Error::WatchFailed(error) => {
            match error {
                kube::Error::SerdeError(_) | kube::Error::LinesCodecMaxLineLengthExceeded => true,
                // kube takes any JSON object that is no event for a status: one that says nothing.
                kube::Error::Api(status) => status.code == 0,
                _ => false,
            }
        }
        watcher::Error::NoResourceVersion => true,
        watcher::Error::WatchError(_) => false,
    }
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
    /// Whether the list brought an object that does not even have a name.
    has_nameless: bool,
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
        let unseen = BTreeSet::new();
        Self { observer, place, unseen, has_nameless: false, definition: None, kind: PhantomData }
    }

    /// Notes that known objects may have been deleted: nothing is removed until the next list is complete.
    /// Logs an error once.
    fn fail(&self, error: String, course: &mut Course) {
        let mut world = self.observer.world.write().unwrap_or_else(PoisonError::into_inner);
        world.begin_doubt(W::STORE, self.place.clone());
        drop(world);
        let place = self.place.as_deref();
        course.health.fails(&error);
        if course.told.as_ref() != Some(&error) {
            tracing::warn!(store = ?W::STORE, place, error, "watch failed; it is begun anew until it succeeds");
        }
        course.told = Some(error);
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
    pub fn take(&mut self, event: watcher::Event<Decoded<W>>) {
        match event {
            watcher::Event::Init => {
                self.unseen = self.observer.known::<W>(self.place.as_deref());
                self.has_nameless = false;
            }
            watcher::Event::InitApply(object) => {
                self.has_nameless |= object.meta().name.is_none();
                self.unseen.remove(&W::named(object.meta()));
                self.observer.put(object);
            }
            watcher::Event::InitDone => {
                let unseen = std::mem::take(&mut self.unseen);
                // Any of them may be the one without a name.
                let unseen = if self.has_nameless { BTreeSet::new() } else { unseen };
                self.observer.complete::<W>(self.place.as_ref(), unseen, self.definition.clone());
            }
            watcher::Event::Apply(object) => self.observer.put(object),
            watcher::Event::Delete(object) => self.observer.forget::<W>(&W::named(object.meta())),
        }
    }
}

#[cfg(test)]
mod tests;
