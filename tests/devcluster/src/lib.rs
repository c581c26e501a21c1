//! A real Kubernetes control plane on loopback, for tests and the demo: etcd, kube-apiserver,
//! kube-controller-manager, kube-scheduler, and simulated nodes by kwok. No container engine is needed.
//!
//! ```no_run
//! # fn main() -> Result<(), devcluster::Error> {
//! use devcluster::{Component, DevCluster, Options};
//!
//! let cluster = DevCluster::start(Options::default().nodes(3).audit(true))?;
//! cluster.kubectl().args(["get", "nodes"]).status().ok();
//! cluster.component(Component::ApiServer).restart()?;
//! # Ok(())
//! # }
//! ```
//!
//! How it reads, in the order things happen:
//!
//! 1. `environment` reads the variables that matter, once; `options` is what the caller wants.
//! 2. `binaries` finds the programs, and `tools` builds with Go the ones that are missing.
//! 3. `folder` makes the cluster's folder together with the reaper that outlives this process by just as
//!    long as it takes to end the cluster.
//! 4. `launch` reserves `ports`, makes `certificates`, `identities` and `kubeconfig`s, starts the
//!    processes of `control`, and waits until they are `ready` and the nodes of `nodes` are there. What
//!    another cluster has `stored` can be there from the start.
//! 5. `cluster` is what callers hold; dropping it ends everything. `existing` makes one for a cluster
//!    that somebody else runs.

mod binaries;
mod certificates;
mod client;
mod cluster;
mod control;
mod environment;
mod error;
mod existing;
mod folder;
mod identities;
mod kubeconfig;
mod launch;
mod logs;
mod nodes;
mod options;
mod ports;
mod ready;
mod stored;
mod tools;

pub use binaries::{
    build_everything, build_for_demo, foreign_definitions, gitops_definitions, helm, helm4, kube_proxy,
    kubectl, kubelet, lua,
};
pub use cluster::DevCluster;
pub use control::{Component, ComponentHandle};
pub use error::Error;
pub use folder::stop;
pub use options::{Options, User};
