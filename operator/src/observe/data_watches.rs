//! Starts and ends watches of ConfigMaps and Secrets: of copies and annotated sources in all namespaces, and
//! of all objects in namespaces where plans read them.
//!
//! The set of watched namespaces grows at once, with the change that needs more (`observer.rs`). The set
//! shrinks only in this file, after each `relist`: somebody who creates and deletes the same rule over and
//! over cannot cause more lists.

use std::{
    collections::BTreeMap,
    sync::{Arc, PoisonError},
    time::Duration,
};

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::{Api, Client, Resource, core::NamespaceResourceScope, runtime::watcher};
use tokio::{
    sync::Notify,
    task::{AbortHandle, Id, JoinError, JoinSet},
    time::Instant,
};
use tokio_util::sync::CancellationToken;

use super::{observer::Observer, watch::watch};
use crate::{
    api::DataKind,
    decoded::Decoded,
    intake::{
        object::{OfKind, Slim},
        selection::{Everywhere, OfCopies, OfDeclaring},
        watched::Watched,
    },
    model::{CONFIG_MAPS, DataWatch, OurLabel, SECRETS, Store},
    plan::needed,
};

/// Error: a watch has ended although nothing stopped it.
#[derive(Debug, thiserror::Error)]
#[error("a watch of ConfigMaps or Secrets ended unexpectedly")]
pub(crate) struct Ended(#[source] Option<JoinError>);

/// Keeps the running watches in line with the needed watches, until `stop`. `widened` signals that more
/// watches are needed. After each `relist`, watches that are no longer needed are ended.
///
/// # Errors
/// A watch has ended by itself.
pub(crate) async fn watch_data(
    client: Client,
    config: watcher::Config,
    observer: Observer,
    widened: Arc<Notify>,
    relist: Duration,
    stop: CancellationToken,
) -> Result<(), Ended> {
    let mut running = Running {
        client,
        config,
        observer,
        relist,
        stop: stop.clone(),
        set: JoinSet::new(),
        tasks: BTreeMap::new(),
    };
    let mut look_at = Instant::now() + relist;
    loop {
        running.follow().await?;
        tokio::select! {
            () = stop.cancelled() => return Ok(()),
            () = widened.notified() => {}
            Some(ended) = running.set.join_next_with_id() => running.note_ended(ended)?,
            () = tokio::time::sleep_until(look_at) => {
                running.leave().await?;
                look_at = Instant::now() + relist;
            }
        }
    }
}

/// The running watches. Dropping this value aborts them.
struct Running {
    client: Client,
    config: watcher::Config,
    observer: Observer,
    relist: Duration,
    stop: CancellationToken,
    set: JoinSet<()>,
    tasks: BTreeMap<DataWatch, AbortHandle>,
}

impl Running {
    /// Stops unwanted watches first, and starts wanted watches afterwards.
    async fn follow(&mut self) -> Result<(), Ended> {
        let wanted = {
            let world = self.observer.world.read().unwrap_or_else(PoisonError::into_inner);
            world.data_scope().map(|scope| scope.watches().clone()).unwrap_or_default()
        };
        let unwanted: Vec<DataWatch> =
            self.tasks.keys().filter(|watch| !wanted.contains(watch)).cloned().collect();
        for watch in unwanted {
            self.end(&watch).await?;
        }
        for watch in wanted {
            if !self.tasks.contains_key(&watch) {
                self.begin(watch);
            }
        }
        Ok(())
    }

    /// Stops the watches that are no longer needed, and forgets their objects.
    async fn leave(&mut self) -> Result<(), Ended> {
        self.follow().await?;
        let superfluous = {
            let world = self.observer.world.read().unwrap_or_else(PoisonError::into_inner);
            let needed = needed(&world);
            world.data_scope().map(|scope| scope.superfluous(&needed)).unwrap_or_default()
        };
        if superfluous.is_empty() {
            return Ok(());
        }
        for watch in &superfluous {
            self.end(watch).await?;
        }
        self.observer.leave(&superfluous);
        tracing::info!(
            watches = superfluous.len(),
            "stopped watches of ConfigMaps and Secrets that no declaration needs"
        );
        Ok(())
    }

    fn begin(&mut self, watch: DataWatch) {
        tracing::debug!(?watch, "a watch of ConfigMaps or Secrets begins");
        let (kind, place) = match &watch {
            DataWatch::All(kind) | DataWatch::Labelled(kind, _) => (*kind, None),
            DataWatch::Namespace(kind, name) => (*kind, Some(name.clone())),
        };
        let task = match kind {
            DataKind::ConfigMap => self.run_kind::<ConfigMap>(&watch, place),
            DataKind::Secret => self.run_kind::<Secret>(&watch, place),
        };
        self.tasks.insert(watch, task);
    }

    fn run_kind<K>(&mut self, watch: &DataWatch, place: Option<Arc<str>>) -> AbortHandle
    where
        K: OfKind + Resource<Scope = NamespaceResourceScope> + Clone + std::fmt::Debug + 'static,
    {
        match watch {
            DataWatch::All(_) => self.run::<Slim<K, Everywhere>>(place),
            DataWatch::Namespace(..) => self.run::<Slim<K>>(place),
            DataWatch::Labelled(_, OurLabel::Copy) => self.run::<Slim<K, OfCopies>>(place),
            DataWatch::Labelled(_, OurLabel::Declares) => self.run::<Slim<K, OfDeclaring>>(place),
        }
    }

    fn run<W>(&mut self, place: Option<Arc<str>>) -> AbortHandle
    where
        W: Watched + Resource<Scope = NamespaceResourceScope>,
    {
        let client = self.client.clone();
        let api: Api<Decoded<W>> = match &place {
            Some(name) => Api::namespaced(client, name),
            None => Api::all(client),
        };
        let fields = match W::STORE {
            Store::Secrets => SECRETS,
            _ => CONFIG_MAPS,
        };
        let config = self.config.clone().fields(fields);
        let config = W::LABELS.map_or(config.clone(), |labels| config.labels(labels));
        self.set.spawn(watch(api, config, self.observer.clone(), place, self.relist, self.stop.clone()))
    }

    /// Stops a watch. A watch processes each event without waiting, so the abort leaves no event half
    /// processed.
    async fn end(&mut self, watch: &DataWatch) -> Result<(), Ended> {
        let Some(task) = self.tasks.remove(watch) else { return Ok(()) };
        tracing::debug!(?watch, "a watch of ConfigMaps or Secrets ends");
        task.abort();
        while !task.is_finished() {
            let Some(ended) = self.set.join_next_with_id().await else { return Ok(()) };
            self.note_ended(ended)?;
        }
        Ok(())
    }

    /// Returns an error if the task that has ended should still run.
    fn note_ended(&self, ended: Result<(Id, ()), JoinError>) -> Result<(), Ended> {
        let id = ended.as_ref().map_or_else(JoinError::id, |(id, ())| *id);
        let was_to_run = self.tasks.values().any(|task| task.id() == id) && !self.stop.is_cancelled();
        if was_to_run { Err(Ended(ended.err())) } else { Ok(()) }
    }
}
