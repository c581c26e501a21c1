//! What a serving process needs to know, resolved and checked once, passed explicitly.

use std::{collections::BTreeSet, net::SocketAddr, path::PathBuf, time::Duration};

use copyrator_certs::Times;

use crate::{cluster::Target, hooks::Endpoint, model::SpreadLimits};

/// Configuration of `copyrator serve`.
#[derive(Clone, Debug)]
pub struct Config {
    /// Which cluster, as whom.
    pub cluster: Target,
    /// Answer admission reviews.
    pub webhook: bool,
    /// Reconcile.
    pub reconciler: bool,
    /// Where our own objects live.
    pub namespace: String,
    /// The only namespaces that are looked at, by an account without rights over the cluster; none: all.
    pub namespaces: BTreeSet<String>,
    /// Serve only this rule, of our own namespace.
    pub rule_name: Option<String>,
    /// Where the webhook listens.
    pub webhook_addr: SocketAddr,
    /// Where probes and metrics listen.
    pub admin_addr: SocketAddr,
    /// How the API server reaches the webhook.
    pub endpoint: Endpoint,
    /// How many seconds the API server waits for each hook; none: as the files of `webhook-config/` say.
    pub hook_timeout: Option<i32>,
    /// Where others mount the webhook's certificates; else we make our own.
    pub tls_dir: Option<PathBuf>,
    /// How long certificates last, and how long a changed CA is given to arrive.
    pub certificate_times: Times,
    /// Bound of admission reviews in flight.
    pub max_in_flight: usize,
    /// Whose client certificates the webhook demands: a PEM bundle, read again when it changes. `None`: of no
    /// caller.
    pub client_ca: Option<PathBuf>,
    /// Common names or SANs, of which such a certificate must have one; none: any will do.
    pub client_names: Vec<String>,
    /// Requests a second and address that the webhook answers; 0: no limit.
    pub peer_rate: u32,
    /// How fast and how far one source may spread.
    pub spread_limits: SpreadLimits,
    /// Bound of the reconciler's requests in flight, new namespaces aside.
    pub max_writes_in_flight: usize,
    /// Bound of restarts under way in the cluster; 0: none.
    pub max_rollouts: usize,
    /// How often everything is listed and compared anew.
    pub sweep_interval: Duration,
    /// Grace of rules that name none.
    pub deletion_grace: Duration,
    /// Never targets, beside Kubernetes' own.
    pub system_namespaces: BTreeSet<String>,
    /// Writers that count although they are ServiceAccounts of other namespaces.
    pub trusted_writers: Vec<String>,
    /// The ServiceAccount, of our own namespace, that the reconciler writes with.
    pub reconciler_account: String,
    /// Whether annotations of ours on other people's objects count.
    pub annotations: bool,
    /// The ClusterRole that owns the hooks.
    pub owner_cluster_role: Option<String>,
    /// How long connections are accepted after SIGTERM.
    pub drain_delay: Duration,
    /// Names this process in leases and Events.
    pub host: String,
}

impl Config {
    /// Namespaces that are never targets: Kubernetes' own and those configured. Ours is one too.
    pub fn system_namespaces(&self) -> BTreeSet<String> {
        system_namespaces(&self.namespace, &self.system_namespaces)
    }
}

/// Namespaces that are never targets: Kubernetes' own, ours, and those configured.
pub fn system_namespaces(ours: &str, configured: &BTreeSet<String>) -> BTreeSet<String> {
    let own = ["kube-system", "kube-public", "kube-node-lease", ours].map(str::to_owned);
    own.into_iter().chain(configured.iter().cloned()).collect()
}
