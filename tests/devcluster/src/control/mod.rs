//! The processes of a cluster: what each is started with, its life, and how a test steers it.

mod arguments;
mod handle;
mod process;

use std::fmt;

pub(crate) use arguments::{SERVICES, STORED, Setup, arguments};
pub use handle::ComponentHandle;
pub(crate) use process::Process;

/// A part of the cluster with a process of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Component {
    /// The store.
    Etcd,
    /// The API server.
    ApiServer,
    /// The controllers that make Pods of Deployments, tokens for ServiceAccounts, and namespaces vanish.
    ControllerManager,
    /// What gives Pods their node.
    Scheduler,
    /// The simulated nodes.
    Kwok,
}

impl Component {
    /// The program's name.
    pub fn name(self) -> &'static str {
        match self {
            Component::Etcd => "etcd",
            Component::ApiServer => "kube-apiserver",
            Component::ControllerManager => "kube-controller-manager",
            Component::Scheduler => "kube-scheduler",
            Component::Kwok => "kwok",
        }
    }
}

impl fmt::Display for Component {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
