//! Watches the objects of one kind that templates are rendered for. The kind is known at run time only, and may not be
//! served: nobody else waits for it.

use std::{collections::BTreeSet, pin::pin, sync::PoisonError, time::Duration};

use futures::StreamExt;
use kube::{
    Api, Client,
    api::ApiResource,
    core::DynamicObject,
    runtime::{WatchStreamExt, watcher},
};
use tokio_util::sync::CancellationToken;

use super::watch::Observer;
use crate::{
    intake::instance::Instance,
    model::InstancesRead,
    names::{InstanceKind, NamespacedName, TemplateKind},
    plan::Changed,
};

/// How soon to look again for a kind that is not served, or not to be listed.
const AGAIN: Duration = Duration::from_secs(5);

/// The names of a kind in the API.
pub(crate) fn resource(kind: &TemplateKind) -> ApiResource {
    ApiResource {
        group: kind.kind.group().to_owned(),
        version: kind.kind.version().to_owned(),
        api_version: kind.kind.api_version.to_string(),
        kind: kind.kind.kind.to_string(),
        plural: kind.plural.clone(),
    }
}

/// The objects of a kind.
pub(crate) fn api(client: &Client, kind: &TemplateKind) -> Api<DynamicObject> {
    Api::all_with(client.clone(), &resource(kind))
}

/// Watches the objects of a kind until told to stop. After `relist`, everything is listed anew.
pub(crate) async fn watch_instances(
    client: Client,
    kind: TemplateKind,
    config: watcher::Config,
    observer: Observer,
    relist: Duration,
    stop: CancellationToken,
) {
    while !stop.is_cancelled() {
        let intake = Intake { kind: kind.kind.clone(), observer: observer.clone(), unseen: BTreeSet::new() };
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(relist) => {}
            () = follow(api(&client, &kind), config.clone(), intake) => {
                tokio::select! {
                    () = stop.cancelled() => return,
                    () = tokio::time::sleep(AGAIN) => {}
                }
            }
        }
    }
}

/// Follows events, until it is not known any more what is there.
async fn follow(api: Api<DynamicObject>, config: watcher::Config, mut intake: Intake) {
    let mut events = pin!(watcher(api, config).default_backoff());
    while let Some(event) = events.next().await {
        intake.observer.events.inc();
        let error = match event {
            Ok(event) => {
                intake.take(event);
                continue;
            }
            Err(error) => error,
        };
        tracing::debug!(kind = %intake.kind, %error, "a watch of objects that templates are rendered for has failed");
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
struct Intake {
    kind: InstanceKind,
    observer: Observer,
    /// Objects that were known when a list began and have not appeared in it so far.
    unseen: BTreeSet<NamespacedName>,
}

impl Intake {
    fn take(&mut self, event: watcher::Event<DynamicObject>) {
        match event {
            watcher::Event::Init => {
                let world = self.observer.world.read().unwrap_or_else(PoisonError::into_inner);
                self.unseen = world.instances(&self.kind).map(|(name, _)| name.clone()).collect();
            }
            watcher::Event::InitApply(object) => {
                let object = Instance::new(&self.kind, object);
                self.unseen.remove(&object.name);
                self.put(object);
            }
            watcher::Event::InitDone => {
                for name in std::mem::take(&mut self.unseen) {
                    self.forget(&name);
                }
                self.set_read(InstancesRead::Listed);
            }
            watcher::Event::Apply(object) => self.put(Instance::new(&self.kind, object)),
            watcher::Event::Delete(object) => self.forget(&Instance::new(&self.kind, object).name),
        }
    }

    fn put(&self, object: Instance) {
        let is_known = {
            let world = self.observer.world.read().unwrap_or_else(PoisonError::into_inner);
            object.is_known(&self.kind, &world)
        };
        if !is_known {
            let changed = Changed::Instance(self.kind.clone(), object.name.clone());
            self.observer.change(&changed, |world| object.put(&self.kind, world));
        }
    }

    fn forget(&self, name: &NamespacedName) {
        let changed = Changed::Instance(self.kind.clone(), name.clone());
        self.observer.change(&changed, |world| {
            world.forget_instance(&self.kind, name);
            true
        });
    }

    fn is_listed(&self) -> bool {
        let world = self.observer.world.read().unwrap_or_else(PoisonError::into_inner);
        world.instances_read(&self.kind) == InstancesRead::Listed
    }

    /// Notes whether the objects are known. What templates have made stays as it is while they are not.
    fn set_read(&self, read: InstancesRead) {
        let was = {
            let world = self.observer.world.read().unwrap_or_else(PoisonError::into_inner);
            world.instances_read(&self.kind)
        };
        if was == read {
            return;
        }
        match &read {
            InstancesRead::NotServed => {
                tracing::info!(kind = %self.kind, "the API server does not serve this kind")
            }
            InstancesRead::Failed(why) => {
                tracing::warn!(kind = %self.kind, why, "objects that templates are rendered for cannot be listed");
            }
            InstancesRead::NotYet | InstancesRead::Listed => {}
        }
        let changed = Changed::Instances(self.kind.clone());
        self.observer.change(&changed, |world| world.set_instances_read(&self.kind, read));
    }
}
