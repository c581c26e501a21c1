//! The configuration of a serving process: resolved and checked once, then passed explicitly.

use std::{collections::BTreeSet, net::SocketAddr, path::PathBuf, time::Duration};

use copyrator_certs::Times;

use crate::{
    connect::Target,
    hooks::Endpoint,
    model::SpreadLimits,
    names::{Kind, OF_KUBERNETES, TemplateKind},
};

/// How long the leader's Lease lasts after its last renewal.
pub const LEASE_DURATION: Duration = Duration::from_secs(15);

/// The configuration of `copyrator serve`.
#[derive(Clone, Debug)]
pub struct Config {
    /// Which API server to connect to, with which identity.
    pub cluster: Target,
    /// Whether to answer admission reviews.
    pub webhook: bool,
    /// Whether to reconcile, once elected.
    pub reconciler: bool,
    /// The namespace of Copyrator's own objects.
    pub namespace: String,
    /// The only namespaces to serve, for an account without cluster-wide rights; empty: all.
    pub namespaces: BTreeSet<String>,
    /// The only rule to serve, in our own namespace; `None`: all rules.
    pub rule_name: Option<String>,
    /// The address that the webhook listens on.
    pub webhook_addr: SocketAddr,
    /// The address for probes and metrics.
    pub admin_addr: SocketAddr,
    /// The address at which the API server reaches the webhook.
    pub endpoint: Endpoint,
    /// Timeout of each hook in seconds; `None`: as in the files of `webhook-config/`.
    pub hook_timeout: Option<i32>,
    /// The directory with a mounted certificate for the webhook; `None`: Copyrator issues its own.
    pub tls_dir: Option<PathBuf>,
    /// Lifetimes of certificates, and how long a changed CA needs to reach all callers.
    pub certificate_times: Times,
    /// Age at which the webhook replaces its leaf; `None`: two thirds of the leaf's life.
    pub leaf_renewal: Option<Duration>,
    /// Maximum number of admission reviews in flight.
    pub max_in_flight: usize,
    /// A PEM bundle of CAs: the webhook demands a client certificate from one of them. The webhook reads a
    /// changed file again. `None`: the webhook demands no certificate.
    pub client_ca: Option<PathBuf>,
    /// Accepted names of client certificates, as common name or SAN; empty: any name.
    pub client_names: Vec<String>,
    /// Requests per second that the webhook answers for one address; 0: no limit.
    pub peer_rate: u32,
    /// Limits on how fast and how far the content of one source spreads.
    pub spread_limits: SpreadLimits,
    /// Maximum number of requests of the reconciler in flight; new namespaces have some more.
    pub max_writes_in_flight: usize,
    /// Maximum number of concurrent restarts in the cluster; 0: no limit.
    pub max_rollouts: usize,
    /// How often the process lists and compares everything anew (resync).
    pub sweep_interval: Duration,
    /// How long the reconciler keeps an orphaned copy if its rule has no `deletionGrace`.
    pub deletion_grace: Duration,
    /// Namespaces that rules never copy into, beside Kubernetes' own.
    pub system_namespaces: BTreeSet<String>,
    /// ServiceAccounts of other namespaces that may write rules and monitors with their own rights.
    pub trusted_writers: Vec<String>,
    /// The ServiceAccount, in our own namespace, that the reconciler writes with.
    pub reconciler_account: String,
    /// With `namespaces`: whether the process reads the CustomResourceDefinitions of our own kinds, which
    /// takes a ClusterRole.
    pub read_definitions: bool,
    /// Whether annotations can request copies and restarts.
    pub annotations: bool,
    /// The kinds that rules copy beside ConfigMaps and Secrets.
    pub copy_kinds: BTreeSet<Kind>,
    /// The kinds whose objects templates are rendered for.
    pub template_kinds: BTreeSet<TemplateKind>,
    /// The ClusterRole that owns the webhook configurations, for garbage collection.
    pub owner_cluster_role: Option<String>,
    /// How long the process accepts connections after SIGTERM.
    pub drain_delay: Duration,
    /// The name of this process in Leases and Events.
    pub host: String,
}

impl Config {
    /// Returns the namespaces that rules never copy into: Kubernetes' own, Copyrator's, and the configured
    /// ones.
    pub fn system_namespaces(&self) -> BTreeSet<String> {
        system_namespaces(&self.namespace, &self.system_namespaces)
    }
}

/// Returns the namespaces that are never targets: Kubernetes' own, ours, and the configured ones.
pub fn system_namespaces(ours: &str, configured: &BTreeSet<String>) -> BTreeSet<String> {
    let own = OF_KUBERNETES.into_iter().chain([ours]).map(str::to_owned);
    own.chain(configured.iter().cloned()).collect()
}
