//! The configuration of a serving process: resolved and checked once, then passed explicitly.

use std::{collections::BTreeSet, net::SocketAddr, path::PathBuf, time::Duration};

use copyrator_certs::Times;

use crate::{
    cluster::Target,
    hooks::Endpoint,
    model::SpreadLimits,
    names::{Kind, OF_KUBERNETES, TemplateKind},
};

/// The configuration of `copyrator serve`.
#[derive(Clone, Debug)]
pub(crate) struct Config {
    /// Which API server to connect to, with which identity.
    pub cluster: Target,
    /// Whether to answer admission reviews.
    pub webhook: bool,
    /// Whether to reconcile, once elected.
    pub reconciler: bool,
    /// The namespace of Copyrator's own objects.
    pub namespace: String,
    /// The only namespaces to look at, for an account without rights over the cluster; empty: all.
    pub namespaces: BTreeSet<String>,
    /// Serve only this rule, in our own namespace.
    pub rule_name: Option<String>,
    /// The address that the webhook listens on.
    pub webhook_addr: SocketAddr,
    /// The address for probes and metrics.
    pub admin_addr: SocketAddr,
    /// The address at which the API server reaches the webhook.
    pub endpoint: Endpoint,
    /// How many seconds the API server waits for each hook; none: as the files of `webhook-config/` say.
    pub hook_timeout: Option<i32>,
    /// The directory with a mounted certificate for the webhook; `None`: Copyrator makes its own.
    pub tls_dir: Option<PathBuf>,
    /// Lifetimes of certificates, and how long a changed CA needs to reach all callers.
    pub certificate_times: Times,
    /// After how long a leaf is replaced; `None`: after two thirds of its life.
    pub leaf_renewal: Option<Duration>,
    /// The most admission reviews in flight.
    pub max_in_flight: usize,
    /// A PEM bundle of the CAs whose client certificates the webhook demands; it is read again when it
    /// changes. `None`: no certificate is demanded.
    pub client_ca: Option<PathBuf>,
    /// Names of which a client certificate must have one, as common name or SAN; empty: any name.
    pub client_names: Vec<String>,
    /// Requests per second that the webhook answers for one address; 0: no limit.
    pub peer_rate: u32,
    /// Limits on how fast and how far the content of one source spreads.
    pub spread_limits: SpreadLimits,
    /// The most requests of the reconciler in flight; new namespaces have some more.
    pub max_writes_in_flight: usize,
    /// The most restarts under way in the cluster; 0: no limit.
    pub max_rollouts: usize,
    /// How often everything is listed and compared anew (resync).
    pub sweep_interval: Duration,
    /// How long an orphaned copy is kept for a rule without `deletionGrace`.
    pub deletion_grace: Duration,
    /// Namespaces that rules never copy into, beside Kubernetes' own.
    pub system_namespaces: BTreeSet<String>,
    /// ServiceAccounts of other namespaces that count as authors of rules and monitors.
    pub trusted_writers: Vec<String>,
    /// The ServiceAccount, in our own namespace, that the reconciler writes with.
    pub reconciler_account: String,
    /// Whether the definitions of our own kinds are read where only some namespaces are looked at, too.
    pub read_definitions: bool,
    /// Whether annotations that ask for copies or restarts count.
    pub annotations: bool,
    /// The kinds that are copied beside ConfigMaps and Secrets.
    pub copy_kinds: BTreeSet<Kind>,
    /// The kinds whose objects templates are rendered for.
    pub template_kinds: BTreeSet<TemplateKind>,
    /// The ClusterRole that owns the webhook configurations, for garbage collection.
    pub owner_cluster_role: Option<String>,
    /// How long connections are still accepted after SIGTERM.
    pub drain_delay: Duration,
    /// The name of this process in Leases and Events.
    pub host: String,
}

impl Config {
    /// The namespaces that rules never copy into: Kubernetes' own, Copyrator's, and the configured ones.
    pub(crate) fn system_namespaces(&self) -> BTreeSet<String> {
        system_namespaces(&self.namespace, &self.system_namespaces)
    }
}

/// Namespaces that are never targets: Kubernetes' own, ours, and those configured.
pub(crate) fn system_namespaces(ours: &str, configured: &BTreeSet<String>) -> BTreeSet<String> {
    let own = OF_KUBERNETES.into_iter().chain([ours]).map(str::to_owned);
    own.chain(configured.iter().cloned()).collect()
}
