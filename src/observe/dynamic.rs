//! Watches the objects of one kind that is known at run time only, and that the API server may not serve: nobody else waits for
//! it, and what templates have made stays as it is while its objects are not known.

use std::{collections::BTreeSet, pin::pin, sync::PoisonError, time::Duration};

use futures::{Stream, StreamExt};
use kube::{
    Client,
    runtime::{WatchStreamExt, watcher},
};
use tokio_util::sync::CancellationToken;

use super::watch::Observer;
use crate::{
    model::{InstancesRead, World},
    names::InstanceKind,
    plan::Changed,
};

/// How soon to look again for a kind that is not served, or not to be listed.
const AGAIN: Duration = Duration::from_secs(5);

/// What is kept of the objects of such a kind.
pub(crate) trait Kept: Clone + Send + Sync + 'static {
    /// An object as the API server sends it.
    type Sent: Send;
    /// What is kept of it.
    type Object: Send;

    /// The kind, for people.
    fn kind(&self) -> InstanceKind;
    /// Why its objects cannot be watched, if that is known before.
    fn hindered(&self, client: &Client) -> impl Future<Output = Option<InstancesRead>> + Send;
    /// Lists the objects of the kind and watches them, without end.
    fn events(
        &self,
        client: &Client,
        config: watcher::Config,
    ) -> impl Stream<Item = watcher::Result<watcher::Event<Self::Sent>>> + Send;
    /// Reduces an object; `None` where it is none.
    fn reduced(&self, sent: Self::Sent) -> Option<Self::Object>;
    /// The name of the object, as a change of it is told.
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

/// Watches the objects of a kind until told to stop. After `relist`, everything is listed anew.
pub(crate) async fn watch_kind<K: Kept>(
    client: Client,
    kept: K,
    config: watcher::Config,
    observer: Observer,
    relist: Duration,
    stop: CancellationToken,
) {
    while !stop.is_cancelled() {
        let intake = Intake { kept: kept.clone(), observer: observer.clone(), unseen: BTreeSet::new() };
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(relist) => {}
            () = follow(&client, config.clone(), intake) => {
                tokio::select! {
                    () = stop.cancelled() => return,
                    () = tokio::time::sleep(AGAIN) => {}
                }
            }
        }
    }
}

/// Follows events, until it is not known any more what is there.
async fn follow<K: Kept>(client: &Client, config: watcher::Config, mut intake: Intake<K>) {
    let kept = intake.kept.clone();
    if let Some(read) = kept.hindered(client).await {
        return intake.set_read(read);
    }
    let mut events = pin!(kept.events(client, config).default_backoff());
    while let Some(event) = events.next().await {
        intake.observer.events.inc();
        let error = match event {
            Ok(event) => {
                intake.take(event);
                continue;
            }
            Err(error) => error,
        };
        tracing::debug!(kind = %kept.kind(), %error, "a watch of objects for templates has failed");
        let read = match code(&error) {
            Some(404) => InstancesRead::NotServed,
            Some(403) => InstancesRead::Failed(error.to_string()),
            _ if intake.is_listed() => continue,
            _ => InstancesRead::Failed(error.to_string()),
        };
        return intake.set_read(read);
    }
}

fn code(error: &watcher::Error) -> Option<u16> {
    match error {
        watcher::Error::InitialListFailed(kube::Error::Api(status))
        | watcher::Error::WatchStartFailed(kube::Error::Api(status))
        | watcher::Error::WatchFailed(kube::Error::Api(status)) => Some(status.code),
        _ => None,
    }
}

/// Takes in the events of one watch.
struct Intake<K> {
    kept: K,
    observer: Observer,
    /// Objects that were known when a list began and have not appeared in it so far.
    unseen: BTreeSet<Changed>,
}

impl<K: Kept> Intake<K> {
    fn take(&mut self, event: watcher::Event<K::Sent>) {
        match event {
            watcher::Event::Init => {
                self.unseen =
                    self.kept.known(&self.observer.world.read().unwrap_or_else(PoisonError::into_inner));
            }
            watcher::Event::InitApply(sent) => {
                if let Some(object) = self.kept.reduced(sent) {
                    self.unseen.remove(&self.kept.changed(&object));
                    self.put(object);
                }
            }
            watcher::Event::InitDone => {
                self.forget_unseen();
                self.set_read(InstancesRead::Listed);
            }
            watcher::Event::Apply(sent) => {
                if let Some(object) = self.kept.reduced(sent) {
                    self.put(object);
                }
            }
            watcher::Event::Delete(sent) => {
                if let Some(object) = self.kept.reduced(sent) {
                    self.forget(&self.kept.changed(&object));
                }
            }
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
        self.observer.change(changed, |world| {
            self.kept.forget(changed, world);
            true
        });
    }

    fn forget_unseen(&mut self) {
        for changed in std::mem::take(&mut self.unseen) {
            self.forget(&changed);
        }
    }

    fn is_listed(&self) -> bool {
        let world = self.observer.world.read().unwrap_or_else(PoisonError::into_inner);
        self.kept.read(&world) == InstancesRead::Listed
    }

    /// Notes whether the objects are known. What templates have made stays as it is while they are not.
    fn set_read(&self, read: InstancesRead) {
        let was = self.kept.read(&self.observer.world.read().unwrap_or_else(PoisonError::into_inner));
        if was == read {
            return;
        }
        match &read {
            InstancesRead::NotServed => {
                tracing::info!(kind = %self.kept.kind(), "the API server does not serve this kind");
            }
            InstancesRead::Failed(why) => {
                tracing::warn!(kind = %self.kept.kind(), why, "objects of a kind for templates cannot be listed");
            }
            InstancesRead::NotYet | InstancesRead::Listed => {}
        }
        self.observer.change(&self.kept.read_changed(), |world| self.kept.set_read(read, world));
    }
}
