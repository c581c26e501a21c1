//! Runs one watch: events in, facts out, keys into the queue. A watch does no other I/O: the API server would
//! cut off a slow consumer (reflector#468).

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
    health::Health,
    observer::{Observer, definition_name},
};
use crate::{
    decoded::Decoded,
    intake::watched::Watched,
    model::{Definition, ListName, NamespaceRead, Store},
    plan::Changed,
    read::crds::definition,
};

/// How soon a refused watch is started again.
const REFUSED_AGAIN: Duration = Duration::from_secs(10);
/// How soon a failed watch of one of our own kinds is started again. After a deletion and re-creation of the
/// definition, rules are known within seconds.
const FAILED_AGAIN: Duration = Duration::from_secs(2);
/// Longest pause before a list that could not be decoded is started again.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// How soon to look again for the definition of templates, which an install of an earlier version lacks.
const ABSENT_AGAIN: Duration = Duration::from_secs(30);
/// How long reading a definition may take.
const TIMEOUT: Duration = Duration::from_secs(5);

/// The state of a CustomResourceDefinition.
enum Found {
    There,
    Absent,
    /// This process need not read the definition.
    Unread,
}

/// Watches one kind until `stop`. After `relist`, the watch is dropped and started again, to find the changes
/// that the watch missed (a watch can stay silent after an etcd restore). Each kind is listed at a different
/// time, since a list needs memory. `place` is the namespace that `api` is limited to, if namespaces are
/// watched one by one.
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

/// State that outlives a single list and watch of the kind.
struct Course {
    /// The last error that was logged.
    told: Option<String>,
    health: Health,
    /// The pauses before a list that could not be decoded is started again.
    backoff: watcher::DefaultBackoff,
}

/// Reads the kind's definition, then follows the watch. Returns the pause before the next attempt.
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
            // Do not list before the definition exists: a list that begins while the definition is created
            // would belong to no definition.
            Ok(Found::Absent) => {
                intake.fail(format!("CustomResourceDefinition {name} not found"), course);
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

/// Follows events until only a new list can show the state. Returns the pause before the new list. The
/// reasons are: a refusal in a single namespace; an event that cannot be decoded at all, which the watch
/// would meet again; failures for a minute; a failed watch of one of our own kinds, since its last event may
/// have come from the deletion of the kind's definition.
async fn follow<W: Watched>(
    api: Api<Decoded<W>>,
    config: watcher::Config,
    mut intake: Intake<W>,
    course: &mut Course,
) -> Duration {
    let mut events = pin!(watcher::<Decoded<W>>(api, config).default_backoff());
    // An error does not end the stream: the stream recovers by itself (kube#1615).
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
                // The first pages of a list do not prove that the list works: a later page may fail.
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
                tracing::warn!(store = ?W::STORE, place, %error, "a watch failed; Copyrator tries again");
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

/// Whether the answer to a list or watch is not what an API server writes. A single object cannot be the
/// cause: items of lists and objects of events are decoded one by one.
pub(super) fn is_undecodable(error: &watcher::Error) -> bool {
    match error {
        watcher::Error::InitialListFailed(error)
        | watcher::Error::WatchStartFailed(error)
        | watcher::Error::WatchFailed(error) => {
            match error {
                kube::Error::SerdeError(_) | kube::Error::LinesCodecMaxLineLengthExceeded => true,
                // kube decodes any JSON object that is no event as a status, in this case with code 0.
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

/// Processes the events of one watch, one after the other, without waiting for anything.
pub struct Intake<W> {
    observer: Observer,
    /// The only namespace of this watch, if namespaces are watched one by one.
    place: Option<Arc<str>>,
    /// Objects that were known when a list began and have not appeared in it so far. Objects that are still
    /// unseen at the end of the list were deleted unnoticed.
    unseen: BTreeSet<Changed>,
    /// Whether the list brought an object that does not even have a name.
    has_nameless: bool,
    /// The definition of the kind at the beginning of the list.
    definition: Option<Definition>,
    kind: PhantomData<fn(W)>,
}

impl<W: Watched> Intake<W> {
    /// Creates the intake of a watch that has reported no event yet.
    pub fn new(observer: Observer) -> Self {
        Self::within(observer, None)
    }

    /// Creates the intake of a watch of one namespace, if one is given.
    pub fn within(observer: Observer, place: Option<Arc<str>>) -> Self {
        let unseen = BTreeSet::new();
        Self { observer, place, unseen, has_nameless: false, definition: None, kind: PhantomData }
    }

    /// Notes that known objects may have been deleted: nothing is removed until the next list is complete.
    /// Logs an error only when it changes.
    fn fail(&self, error: String, course: &mut Course) {
        let mut world = self.observer.world.write().unwrap_or_else(PoisonError::into_inner);
        world.begin_doubt(W::STORE, self.place.clone());
        drop(world);
        let place = self.place.as_deref();
        course.health.fails(&error);
        if course.told.as_ref() != Some(&error) {
            tracing::warn!(store = ?W::STORE, place, error, "a watch failed; Copyrator restarts it until it succeeds");
        }
        course.told = Some(error);
    }

    /// Reads the definition of the kind before the kind is listed, if this process manages copies and may
    /// read definitions. If a removal finds the definition unchanged, the definition was not replaced since
    /// the list began.
    ///
    /// # Errors
    /// The API server refused or did not answer. An API server that has just started refuses requests that it
    /// allows a second later. A list without a definition would block all removals until the next list, hours
    /// later.
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
            Ok(Err(error)) => return Err(format!("cannot read CustomResourceDefinition {name}: {error}")),
            Err(_) => {
                return Err(format!("cannot read CustomResourceDefinition {name}: no answer in {TIMEOUT:?}"));
            }
        };
        Ok(Found::There)
    }

    /// Completes the empty list of a kind that is not served. Before a removal, a check shows whether the
    /// kind's objects were really deleted.
    fn end_without_any(self) {
        let known = self.observer.known::<W>(None);
        let is_listed = {
            let mut world = self.observer.world.write().unwrap_or_else(PoisonError::into_inner);
            world.end_doubt(W::STORE, None);
            world.unlisted().all(|store| store != W::STORE)
        };
        // Completing a list makes the planner plan everything again.
        if !is_listed || !known.is_empty() {
            self.observer.complete::<W>(None, known, None);
        }
    }

    /// Whether the API server refuses to list or watch this watch's namespace; if so, notes the refusal.
    fn is_refused(&self, error: &watcher::Error) -> bool {
        let place = self.place.as_ref().filter(|_| self.observer.looks_at_some());
        let (Some(place), Some(why)) = (place, refusal(error)) else { return false };
        let mut world = self.observer.world.write().unwrap_or_else(PoisonError::into_inner);
        // Objects of an unreadable namespace stay unchanged anyway.
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
                // Any unseen object may be the object without a name.
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
