//! Which kinds are watched, and how little of each is asked for.

use std::time::Duration;

use k8s_openapi::api::{
    apps::v1::{DaemonSet, Deployment, StatefulSet},
    core::v1::{ConfigMap, Namespace, Secret},
};
use kube::{Api, Client, runtime::watcher};
use tokio_util::sync::CancellationToken;

use super::tasks::Tasks;
use crate::{
    api::{ConfigMonitor, ConfigPolicy, CopyratorRule},
    config::Config,
    marks::SOURCE_INDEX,
    model::Store,
    observe::{
        AsWritten,
        object::{CONFIG_MAPS, SECRETS, Slim},
        watch::{Observer, watch},
        watched::Watched,
        workload::Workload,
    },
};

/// Objects a page of a first list: memory at start grows with it.
const PAGE: u32 = 100;
/// The stores that a process with these roles keeps.
pub(super) fn stores(config: &Config) -> Vec<Store> {
    let mut stores = vec![
        Store::Namespaces,
        Store::Deployments,
        Store::StatefulSets,
        Store::DaemonSets,
        Store::CopyratorRules,
        Store::ConfigMonitors,
        Store::ConfigPolicies,
    ];
    if config.reconciler {
        stores.extend([Store::ConfigMaps, Store::Secrets, Store::DigestKey]);
    }
    stores
}

/// Starts a watch for each store.
pub(super) fn start(tasks: &mut Tasks, client: &Client, config: &Config, observer: &Observer) {
    let mut watches = Watches { tasks, observer, client, relist: config.sweep_interval };
    watches.start::<Namespace>("watch namespaces", None);
    watches.start::<Workload<Deployment>>("watch deployments", None);
    watches.start::<Workload<StatefulSet>>("watch statefulsets", None);
    watches.start::<Workload<DaemonSet>>("watch daemonsets", None);
    watches.start::<AsWritten<ConfigMonitor>>("watch configmonitors", None);
    watches.start::<AsWritten<ConfigPolicy>>("watch configpolicies", None);
    match &config.rule_name {
        None => watches.start::<AsWritten<CopyratorRule>>("watch copyratorrules", None),
        Some(name) => {
            let api = Api::<AsWritten<CopyratorRule>>::namespaced(client.clone(), &config.namespace);
            watches.run("watch copyratorrules", api, Some(&format!("metadata.name={name}")));
        }
    }
    if !config.reconciler && config.annotations {
        let api = Api::<ConfigMap>::namespaced(client.clone(), &config.namespace);
        watches.run("watch annotated sources", api, Some(&format!("metadata.name={SOURCE_INDEX}")));
    }
    if config.reconciler {
        watches.start::<Slim<ConfigMap>>("watch configmaps", Some(CONFIG_MAPS));
        watches.start::<Slim<Secret>>("watch secrets", Some(SECRETS));
    }
}

struct Watches<'a> {
    tasks: &'a mut Tasks,
    observer: &'a Observer,
    client: &'a Client,
    relist: Duration,
}

impl Watches<'_> {
    fn start<W: Watched>(&mut self, name: &'static str, fields: Option<&str>) {
        self.run(name, Api::<W>::all(self.client.clone()), fields);
    }

    fn run<W: Watched>(&mut self, name: &'static str, api: Api<W>, fields: Option<&str>) {
        let config = watcher::Config::default().page_size(PAGE);
        let config = fields.map_or(config.clone(), |fields| config.fields(fields));
        let (observer, relist) = (self.observer.clone(), self.relist);
        let stop: CancellationToken = self.tasks.shutdown();
        self.tasks.spawn(name, async move {
            watch(api, config, observer, relist, stop).await;
            Ok::<(), std::convert::Infallible>(())
        });
    }
}
