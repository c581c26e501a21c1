//! Watches the objects of one kind that is known only at run time. The API server may not serve the kind, so
//! decisions about other kinds do not wait for it. While the objects are unknown, objects that templates have
//! made stay unchanged.

use std::{collections::BTreeSet, pin::pin, sync::PoisonError, time::Duration};

use futures::StreamExt;
use kube::{
    Client, Resource,
    runtime::{WatchStreamExt, watcher},
};
use tokio_util::sync::CancellationToken;

use super::{health::Health, observer::Observer, watch::is_undecodable};
use crate::{
    decoded::Decoded,
    model::{InstancesRead, ListName, UnreadObject, World},
    plan::Changed,
    read::{hindered::hindered, kept::Kept},
};

#[cfg(test)]
mod tests;

/// Delay before a new attempt: for a kind that is not served or cannot be listed, and after a watch of the
/// kind has failed.
const AGAIN: Duration = Duration::from_secs(5);
/// How long a watch runs on after the last template that needs it is gone. A template that is deleted and
/// created again finds the watch still running.
const LINGER: Duration = Duration::from_secs(10);

/// Watches the objects of a kind while they are needed, until `stop`. After each `relist`, everything is
/// listed again.
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

/// Waits until `is_so` is true of the world. Evaluates `is_so` again when a template changes.
async fn until(observer: &Observer, is_so: impl Fn(&World) -> bool) {
    loop {
        // Registers for notifications before reading the world, so that no change in between is lost.
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

/// Follows events until the state of the objects is no longer known, and only a new list can show the state.
/// A watch that resumes after a failure does not report that it works.
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
                // The first pages of a list do not prove that the list works: a later page may fail.
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
            // The watch resumes or lists again by itself, and so brings the missed changes. A quiet watch
            // does not prove that it works, so after failures for a minute a new list is needed.
            Some(410) | None if goes_on(&error) && intake.is_listed() && !is_lasting => continue,
            // The API server did not answer at all, so the failure is not specific to this kind.
            None if intake.is_known() && !is_undecodable(&error) => intake.doubt(),
            _ => intake.fail(error.to_string()),
        };
    }
}

/// The HTTP status code of the API server's answer; `None` without a valid answer.
fn code(error: &watcher::Error) -> Option<u16> {
    match error {
        watcher::Error::InitialListFailed(kube::Error::Api(status))
        | watcher::Error::WatchStartFailed(kube::Error::Api(status))
        | watcher::Error::WatchFailed(kube::Error::Api(status))
        | watcher::Error::WatchError(status) => Some(status.code).filter(|code| *code != 0),
        _ => None,
    }
}

/// Whether a running watch was interrupted, so that the next watch resumes at the last version, or begins
/// with a list.
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
                // Any unseen object may be the object without a name.
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

    /// Forgets the objects if nothing needs them. A template that needs the objects later is not rendered
    /// before the next list.
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

    /// Notes that known objects may have been deleted or changed: nothing is removed until a new list is
    /// complete. Queues no keys.
    fn doubt(&self) {
        let mut world = self.observer.world.write().unwrap_or_else(PoisonError::into_inner);
        self.kept.set_read(InstancesRead::Doubtful, &mut world);
    }

    /// Notes that the objects cannot be read. After the first failure, the known objects may be out of date;
    /// if the next list fails, too, the objects are treated as unknown.
    fn fail(&self, why: String) {
        match self.is_listed() {
            true => self.doubt(),
            false => self.set_read(InstancesRead::Failed(why)),
        }
    }

    /// Notes whether the objects are known. While the objects are unknown, objects that templates have made
    /// stay unchanged.
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
