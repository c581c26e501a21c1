//! Watches the objects of one kind that is known at run time only, and that the API server may not serve: nobody else waits for
//! it, and what templates have made stays as it is while its objects are not known.

use std::{collections::BTreeSet, pin::pin, sync::PoisonError, time::Duration};

use futures::{Stream, StreamExt};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::{
    Client, Resource,
    api::ApiResource,
    runtime::{WatchStreamExt, watcher},
};
use tokio_util::sync::CancellationToken;

use super::{health::Health, hindered::hindered, observer::Observer, watch::is_undecodable};
use crate::{
    decoded::Decoded,
    model::{InstancesRead, ListName, UnreadObject, World},
    names::InstanceKind,
    plan::Changed,
};

#[cfg(test)]
mod tests;

/// How soon to look again for a kind that is not served, or not to be listed, and to list it anew after its watch has failed.
const AGAIN: Duration = Duration::from_secs(5);
/// How long a watch goes on that no template needs any more: a template that is deleted and created again finds it.
const LINGER: Duration = Duration::from_secs(10);

/// What is kept of the objects of such a kind.
pub(crate) trait Kept: Clone + Send + Sync + 'static {
    /// An object as the API server sends it.
    type Sent: Resource + Send;
    /// What is kept of it.
    type Object: Send;

    /// The kind, for people.
    fn kind(&self) -> InstanceKind;
    /// Its names in the API.
    fn resource(&self) -> ApiResource;
    /// Whether anything needs the objects. Until it does they are not watched, and nothing is kept of them afterwards.
    fn is_needed(&self, world: &World) -> bool;
    /// Lists the objects of the kind and watches them, without end.
    fn events(
        &self,
        client: &Client,
        config: watcher::Config,
    ) -> impl Stream<Item = watcher::Result<watcher::Event<Decoded<Self::Sent>>>> + Send;
    /// The name of the object that has this metadata, as a change of it is told.
    fn named(&self, meta: &ObjectMeta) -> Changed;
    /// Reduces an object; `None` where it is none.
    fn reduced(&self, sent: Self::Sent) -> Option<Self::Object>;
    /// The same of an object.
    fn changed(&self, object: &Self::Object) -> Changed;
    /// Whether the world has this very version of it.
    fn is_known(&self, object: &Self::Object, world: &World) -> bool;
    /// Takes it into the world; returns whether that is news.
    fn put(&self, object: Self::Object, world: &mut World) -> bool;
    /// Every object that the world has.
    fn known(&self, world: &World) -> BTreeSet<Changed>;
    /// Removes an object that is gone from the world.
    fn forget(&self, changed: &Changed, world: &mut World);
    /// Whether the objects are known.
    fn read(&self, world: &World) -> InstancesRead;
    /// Notes whether they are; returns whether that is news.
    fn set_read(&self, read: InstancesRead, world: &mut World) -> bool;
    /// That whether they are known has changed.
    fn read_changed(&self) -> Changed;
}

/// Watches the objects of a kind while they are needed, until told to stop. After `relist`, everything is listed anew.
pub(crate) async fn watch_kind<K: Kept>(
    client: Client,
    kept: K,
    config: watcher::Config,
    observer: Observer,
    relist: Duration,
    stop: CancellationToken,
) {
    let mut health = Health::new(observer.clone(), ListName::of_kind(kept.kind()));
    while !stop.is_cancelled() {
        let intake = Intake {
            kept: kept.clone(),
            observer: observer.clone(),
            unseen: BTreeSet::new(),
            has_nameless: false,
        };
        intake.let_go();
        tokio::select! {
            () = stop.cancelled() => return,
            () = until(&observer, |world| kept.is_needed(world)) => {}
        }
        tokio::select! {
            () = stop.cancelled() => return,
            () = unneeded(&observer, &kept) => {}
            () = tokio::time::sleep(relist) => {}
            () = follow(&client, config.clone(), intake, &mut health) => {
                tokio::select! {
                    () = stop.cancelled() => return,
                    () = tokio::time::sleep(AGAIN) => {}
                }
            }
        }
    }
}

/// Waits until the templates of the world are such.
async fn until(observer: &Observer, is_so: impl Fn(&World) -> bool) {
    loop {
        // What is told from here on ends the wait.
        let told = observer.templates.notified();
        if is_so(&observer.world.read().unwrap_or_else(PoisonError::into_inner)) {
            return;
        }
        told.await;
    }
}

/// Waits until nothing has needed the objects for a while.
async fn unneeded<K: Kept>(observer: &Observer, kept: &K) {
    loop {
        until(observer, |world| !kept.is_needed(world)).await;
        tokio::time::sleep(LINGER).await;
        if !kept.is_needed(&observer.world.read().unwrap_or_else(PoisonError::into_inner)) {
            return;
        }
    }
}

/// Follows events, until it is not known any more what is there. Returns also when only a new list can tell that: nothing else says
/// that a watch which has failed goes on.
async fn follow<K: Kept>(
    client: &Client,
    config: watcher::Config,
    mut intake: Intake<K>,
    health: &mut Health,
) {
    let kept = intake.kept.clone();
    match hindered(client, &kept.resource()).await {
        Some(InstancesRead::Failed(why)) => {
            health.fails(&why);
            return intake.fail(why);
        }
        Some(read) => {
            health.works();
            return intake.set_read(read);
        }
        None => {}
    }
    let mut events = pin!(kept.events(client, config).default_backoff());
    while let Some(event) = events.next().await {
        intake.observer.events.inc();
        let error = match event {
            Ok(event) => {
                // A list of which a later page fails begins with a page that does not.
                if !matches!(event, watcher::Event::Init | watcher::Event::InitApply(_)) {
                    health.works();
                }
                intake.take(event);
                continue;
            }
            Err(error) => error,
        };
        tracing::debug!(kind = %kept.kind(), %error, "a watch of objects for templates has failed");
        let code = code(&error);
        let is_lasting = code != Some(404) && health.fails(&error.to_string());
        return match code {
            Some(404) => {
                health.works();
                intake.set_read(InstancesRead::NotServed)
            }
            Some(403) => intake.set_read(InstancesRead::Failed(error.to_string())),
            // The watch that follows by itself, or its list, tells what has happened meanwhile. A quiet watch does not say that it
            // works, so after failures for a minute a new list has to.
            Some(410) | None if goes_on(&error) && intake.is_listed() && !is_lasting => continue,
            // The API server has not answered: it is not the objects of this kind that it fails at.
            None if intake.is_known() && !is_undecodable(&error) => intake.doubt(),
            _ => intake.fail(error.to_string()),
        };
    }
}

/// What the API server has answered.
fn code(error: &watcher::Error) -> Option<u16> {
    match error {
        watcher::Error::InitialListFailed(kube::Error::Api(status))
        | watcher::Error::WatchStartFailed(kube::Error::Api(status))
        | watcher::Error::WatchFailed(kube::Error::Api(status))
        | watcher::Error::WatchError(status) => Some(status.code).filter(|code| *code != 0),
        _ => None,
    }
}

/// Whether the watch has ended on its way, so that another one begins where it was, or with a list.
fn goes_on(error: &watcher::Error) -> bool {
    matches!(error, watcher::Error::WatchFailed(_) | watcher::Error::WatchError(_)) && !is_undecodable(error)
}

/// Takes in the events of one watch.
struct Intake<K> {
    kept: K,
    observer: Observer,
    /// Objects that were known when a list began and have not appeared in it so far.
    unseen: BTreeSet<Changed>,
    /// Whether the list brought an object that does not even have a name.
    has_nameless: bool,
}

impl<K: Kept> Intake<K> {
    fn take(&mut self, event: watcher::Event<Decoded<K::Sent>>) {
        match event {
            watcher::Event::Init => {
                self.has_nameless = false;
                self.unseen =
                    self.kept.known(&self.observer.world.read().unwrap_or_else(PoisonError::into_inner));
            }
            watcher::Event::InitApply(sent) => {
                self.has_nameless |= sent.meta().name.is_none();
                self.unseen.remove(&self.kept.named(sent.meta()));
                self.receive(sent);
            }
            watcher::Event::InitDone => {
                let unseen = std::mem::take(&mut self.unseen);
                // Any of them may be the one without a name.
                if !self.has_nameless {
                    unseen.iter().for_each(|changed| self.forget(changed));
                }
                self.set_read(InstancesRead::Listed);
            }
            watcher::Event::Apply(sent) => self.receive(sent),
            watcher::Event::Delete(sent) => self.forget(&self.kept.named(sent.meta())),
        }
    }

    /// Takes in an object, or notes that it cannot be read.
    fn receive(&self, sent: Decoded<K::Sent>) {
        match sent.read() {
            Ok(sent) => {
                if let Some(object) = self.kept.reduced(sent) {
                    self.observer.take_back(&self.kept.changed(&object));
                    self.put(object);
                }
            }
            Err(left) => self.observer.leave_out(&self.kept.named(&left.metadata), &left),
        }
    }

    fn put(&self, object: K::Object) {
        let is_known = {
            let world = self.observer.world.read().unwrap_or_else(PoisonError::into_inner);
            self.kept.is_known(&object, &world)
        };
        if !is_known {
            self.observer.change(&self.kept.changed(&object), |world| self.kept.put(object, world));
        }
    }

    fn forget(&self, changed: &Changed) {
        self.observer.take_back(changed);
        self.observer.change(changed, |world| {
            self.kept.forget(changed, world);
            true
        });
    }

    fn is_listed(&self) -> bool {
        self.read() == InstancesRead::Listed
    }

    fn is_known(&self) -> bool {
        self.read().is_known()
    }

    fn read(&self) -> InstancesRead {
        self.kept.read(&self.observer.world.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Forgets the objects if nothing needs them: a template that does is not rendered before they are listed.
    fn let_go(&self) {
        let mut world = self.observer.world.write().unwrap_or_else(PoisonError::into_inner);
        if !self.kept.is_needed(&world) {
            let known = self.kept.known(&world);
            known.iter().for_each(|changed| self.kept.forget(changed, &mut world));
            let known: BTreeSet<UnreadObject> = known.iter().filter_map(Changed::unread_object).collect();
            world.forget_unreadable(|object| known.contains(object));
            self.kept.set_read(InstancesRead::NotYet, &mut world);
        }
    }

    /// Notes that known objects may have been deleted, or changed: nothing is removed until they are listed anew. That asks for
    /// nothing to be looked at.
    fn doubt(&self) {
        let mut world = self.observer.world.write().unwrap_or_else(PoisonError::into_inner);
        self.kept.set_read(InstancesRead::Doubtful, &mut world);
    }

    /// Notes that the objects cannot be read: at the first failure, that they may be others by now; when listing them anew fails,
    /// too, that they are not known.
    fn fail(&self, why: String) {
        match self.is_listed() {
            true => self.doubt(),
            false => self.set_read(InstancesRead::Failed(why)),
        }
    }

    /// Notes whether the objects are known. What templates have made stays as it is while they are not.
    fn set_read(&self, read: InstancesRead) {
        if self.read() == read {
            return;
        }
        match &read {
            InstancesRead::NotServed => {
                tracing::info!(kind = %self.kept.kind(), "the API server does not serve this kind");
            }
            InstancesRead::Failed(why) => {
                tracing::warn!(kind = %self.kept.kind(), why, "objects of a kind for templates cannot be listed");
            }
            InstancesRead::NotYet | InstancesRead::Listed | InstancesRead::Doubtful => {}
        }
        self.observer.change(&self.kept.read_changed(), |world| self.kept.set_read(read, world));
    }
}
