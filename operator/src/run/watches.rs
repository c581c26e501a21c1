//! The watches of the process: their kinds, and field selectors.

use std::{sync::Arc, time::Duration};

use k8s_openapi::api::{
    apps::v1::{DaemonSet, Deployment, StatefulSet},
    core::v1::{ConfigMap, LimitRange, Namespace, ResourceQuota, Secret, Service, ServiceAccount},
    networking::v1::NetworkPolicy,
    policy::v1::PodDisruptionBudget,
    rbac::v1::RoleBinding,
};
use kube::{Api, Client, Resource, core::NamespaceResourceScope, runtime::watcher};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::{
    api::{ConfigMonitor, ConfigPolicy, CopyratorRule, CopyratorTemplate},
    config::Config,
    decoded::Decoded,
    intake::{AsWritten, object::Slim, selection::OfCopies, watched::Watched, workload::Workload},
    marks::SOURCE_INDEX,
    model::{CONFIG_MAPS, DataNeed, DataScope, NamespaceScope, SECRETS, SERVICE_ACCOUNTS, Store},
    names::Kind,
    observe::{
        data_watches::watch_data, dynamic::watch_kind, namespace::poll, observer::Observer, watch::watch,
    },
    read::{granted::DeclaredOf, instances::InstancesOf, kept::Kept},
    serve::tasks::Tasks,
};

/// Objects per page of a first list. The memory at the start grows with the size of a page.
const PAGE: u32 = 100;

/// Returns the namespaces of `--namespaces`; `None` for the whole cluster.
pub(super) fn namespace_scope(config: &Config) -> Option<NamespaceScope> {
    (!config.namespaces.is_empty()).then(|| {
        NamespaceScope::new(config.namespaces.iter().map(String::as_str))
            .with_kinds(config.copy_kinds.iter().copied())
    })
}

/// Returns the ConfigMaps and Secrets to watch at first; `None` if the watches do not follow the needs of
/// rules.
pub(super) fn data_scope(config: &Config) -> Option<DataScope> {
    let follows = config.reconciler && config.namespaces.is_empty();
    follows.then(|| DataScope::new(DataNeed::in_namespace(&config.namespace)))
}

/// Returns the stores that a process with these roles keeps.
pub(super) fn stores(config: &Config) -> Vec<Store> {
    if !config.namespaces.is_empty() {
        // Other stores are per namespace.
        return vec![Store::DigestKey];
    }
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
        // A process that serves one rule serves no templates.
        stores.extend(config.rule_name.is_none().then_some(Store::CopyratorTemplates));
        stores.extend([Store::ConfigMaps, Store::Secrets, Store::DigestKey]);
        stores.extend(Store::needed(&config.copy_kinds));
    }
    stores
}

/// Starts a watch for each store. `widened` signals that more ConfigMaps or Secrets are needed.
pub(super) fn start(
    tasks: &mut Tasks,
    client: &Client,
    config: &Config,
    observer: &Observer,
    widened: Arc<Notify>,
) {
    let mut watches = Watches { tasks, observer, client, relist: config.sweep_interval };
    if !config.namespaces.is_empty() {
        for name in &config.namespaces {
            let place = Arc::from(name.as_str());
            watches.start_in(&place);
            config.copy_kinds.iter().for_each(|kind| watches.start_kind(*kind, Some(&place)));
        }
        return;
    }
    watches.start::<Namespace>("watch namespaces", None);
    watches.start::<Workload<Deployment>>("watch deployments", None);
    watches.start::<Workload<StatefulSet>>("watch statefulsets", None);
    watches.start::<Workload<DaemonSet>>("watch daemonsets", None);
    watches.start::<AsWritten<ConfigMonitor>>("watch configmonitors", None);
    watches.start::<AsWritten<ConfigPolicy>>("watch configpolicies", None);
    match &config.rule_name {
        None => {
            watches.start::<AsWritten<CopyratorRule>>("watch copyratorrules", None);
            if config.reconciler {
                watches.start::<AsWritten<CopyratorTemplate>>("watch copyratortemplates", None);
            }
        }
        Some(name) => {
            let api = Api::<Decoded<AsWritten<CopyratorRule>>>::namespaced(client.clone(), &config.namespace);
            watches.run("watch copyratorrules", api, None, Some(&format!("metadata.name={name}")));
        }
    }
    if !config.reconciler {
        let api = Api::<Decoded<ConfigMap>>::namespaced(client.clone(), &config.namespace);
        watches.run(
            "watch annotated sources and templates",
            api,
            None,
            Some(&format!("metadata.name={SOURCE_INDEX}")),
        );
    }
    if config.reconciler {
        watches.start_data(widened);
        config.copy_kinds.iter().for_each(|kind| watches.start_kind(*kind, None));
        if config.rule_name.is_none() {
            let read = config.template_kinds.iter().filter(|kind| kind.for_each);
            read.for_each(|kind| watches.start_dynamic("watch instances", InstancesOf(kind.clone())));
        }
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
        self.run(name, Api::<Decoded<W>>::all(self.client.clone()), None, fields);
    }

    /// Starts and ends watches of ConfigMaps and Secrets as the needs of plans change.
    fn start_data(&mut self, widened: Arc<Notify>) {
        let config = watcher::Config::default().page_size(PAGE);
        let (client, observer) = (self.client.clone(), self.observer.clone());
        let (relist, stop) = (self.relist, self.tasks.shutdown());
        let watching = watch_data(client, config, observer, widened, relist, stop);
        self.tasks.spawn("watch configmaps and secrets", watching);
    }

    /// Watches the kinds of one namespace, with rights in this namespace alone.
    fn start_in(&mut self, place: &Arc<str>) {
        let (client, name, observer) = (self.client.clone(), place.clone(), self.observer.clone());
        let stop: CancellationToken = self.tasks.shutdown();
        self.tasks.spawn("watch a namespace", async move {
            poll(client, name, observer, stop).await;
            Ok::<(), std::convert::Infallible>(())
        });
        self.start_one::<Workload<Deployment>>("watch deployments", place, None);
        self.start_one::<Workload<StatefulSet>>("watch statefulsets", place, None);
        self.start_one::<Workload<DaemonSet>>("watch daemonsets", place, None);
        self.start_one::<AsWritten<ConfigMonitor>>("watch configmonitors", place, None);
        self.start_one::<AsWritten<CopyratorRule>>("watch copyratorrules", place, None);
        self.start_one::<Slim<ConfigMap>>("watch configmaps", place, Some(CONFIG_MAPS));
        self.start_one::<Slim<Secret>>("watch secrets", place, Some(SECRETS));
    }

    /// Watches the objects of a kind that we write beside ConfigMaps and Secrets, in one namespace or in all.
    fn start_kind(&mut self, kind: Kind, place: Option<&Arc<str>>) {
        match kind {
            // ConfigMaps and Secrets are watched in any case.
            Kind::ConfigMap | Kind::Secret => {}
            Kind::NetworkPolicy => self.start_at::<Slim<NetworkPolicy>>("watch networkpolicies", place, None),
            Kind::ResourceQuota => self.start_at::<Slim<ResourceQuota>>("watch resourcequotas", place, None),
            Kind::LimitRange => self.start_at::<Slim<LimitRange>>("watch limitranges", place, None),
            Kind::PodDisruptionBudget => {
                self.start_at::<Slim<PodDisruptionBudget>>("watch poddisruptionbudgets", place, None);
            }
            Kind::ServiceAccount => {
                self.start_at::<Slim<ServiceAccount>>("watch serviceaccounts", place, Some(SERVICE_ACCOUNTS))
            }
            Kind::Deployment => {
                self.start_at::<Slim<Deployment, OfCopies>>("watch rendered deployments", place, None)
            }
            Kind::Service => self.start_at::<Slim<Service, OfCopies>>("watch rendered services", place, None),
            Kind::RoleBinding => {
                self.start_at::<Slim<RoleBinding>>("watch rendered rolebindings", place, None)
            }
            Kind::Granted(_) => self.start_dynamic("watch rendered objects", DeclaredOf(kind)),
        }
    }

    /// Watches the objects of a kind that is only known at run time.
    fn start_dynamic<K: Kept>(&mut self, name: &'static str, kept: K) {
        let config = watcher::Config::default().page_size(PAGE);
        let (client, observer) = (self.client.clone(), self.observer.clone());
        let (relist, stop) = (self.relist, self.tasks.shutdown());
        self.tasks.spawn(name, async move {
            watch_kind(client, kept, config, observer, relist, stop).await;
            Ok::<(), std::convert::Infallible>(())
        });
    }

    fn start_at<W: Watched + Resource<Scope = NamespaceResourceScope>>(
        &mut self,
        name: &'static str,
        place: Option<&Arc<str>>,
        fields: Option<&str>,
    ) {
        match place {
            Some(place) => self.start_one::<W>(name, place, fields),
            None => self.start::<W>(name, fields),
        }
    }

    fn start_one<W: Watched + Resource<Scope = NamespaceResourceScope>>(
        &mut self,
        name: &'static str,
        place: &Arc<str>,
        fields: Option<&str>,
    ) {
        let api = Api::<Decoded<W>>::namespaced(self.client.clone(), place);
        self.run(name, api, Some(place.clone()), fields);
    }

    fn run<W: Watched>(
        &mut self,
        name: &'static str,
        api: Api<Decoded<W>>,
        place: Option<Arc<str>>,
        fields: Option<&str>,
    ) {
        let config = watcher::Config::default().page_size(PAGE);
        let config = fields.map_or(config.clone(), |fields| config.fields(fields));
        let config = W::LABELS.map_or(config.clone(), |labels| config.labels(labels));
        let (observer, relist) = (self.observer.clone(), self.relist);
        let stop: CancellationToken = self.tasks.shutdown();
        self.tasks.spawn(name, async move {
            watch(api, config, observer, place, relist, stop).await;
            Ok::<(), std::convert::Infallible>(())
        });
    }
}
