//! What a caller can ask of a cluster.

use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};

use crate::cluster::DevCluster;

/// Somebody who can talk to the API server, with a token of its own. Tokens are read at the API server's
/// start only, so users are named before it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    /// The user's name as RBAC sees it.
    pub name: String,
    /// The user's groups as RBAC sees them (`system:authenticated` comes by itself).
    pub groups: Vec<String>,
}

impl User {
    /// A user by name and groups.
    pub fn new(name: impl Into<String>, groups: &[&str]) -> User {
        User { name: name.into(), groups: groups.iter().map(ToString::to_string).collect() }
    }
}

/// How a cluster is to be.
#[derive(Clone, Debug)]
pub struct Options {
    pub(crate) nodes: u32,
    pub(crate) audit: bool,
    pub(crate) users: Vec<User>,
    pub(crate) mutating_policies: bool,
    pub(crate) admission_configuration: Option<PathBuf>,
    pub(crate) owners_enforced: bool,
    pub(crate) pods_reach_it_at: Option<Ipv4Addr>,
    pub(crate) played_pods: Option<String>,
    pub(crate) services_played: bool,
    pub(crate) stored: Option<PathBuf>,
}

impl Default for Options {
    /// Two nodes, no audit log, and the users `alice` and `bob` without groups or rights.
    fn default() -> Options {
        let users = vec![User::new("alice", &[]), User::new("bob", &[])];
        Options {
            nodes: 2,
            audit: false,
            users,
            mutating_policies: true,
            admission_configuration: None,
            owners_enforced: false,
            pods_reach_it_at: None,
            played_pods: None,
            services_played: false,
            stored: None,
        }
    }
}

impl Options {
    /// How many simulated nodes there are: `node-0`, `node-1`, …
    pub fn nodes(mut self, nodes: u32) -> Options {
        self.nodes = nodes;
        self
    }

    /// Whether the API server writes an audit log (one JSON line per finished request, metadata only).
    pub fn audit(mut self, audit: bool) -> Options {
        self.audit = audit;
        self
    }

    /// Whether MutatingAdmissionPolicies are in force, as they are from Kubernetes 1.36 on. Without, they are stored and
    /// nobody acts on them.
    pub fn mutating_policies(mut self, in_force: bool) -> Options {
        self.mutating_policies = in_force;
        self
    }

    /// A file with an AdmissionConfiguration: with which certificate the API server calls webhooks, for one.
    pub fn admission_configuration(mut self, file: &Path) -> Options {
        self.admission_configuration = Some(file.to_owned());
        self
    }

    /// Whether the API server has the admission plugin OwnerReferencesPermissionEnforcement, as OpenShift has it: only who may
    /// update an owner's finalizers makes an object that blocks the owner's deletion.
    pub fn owners_enforced(mut self, enforced: bool) -> Options {
        self.owners_enforced = enforced;
        self
    }

    /// A control plane for real nodes, which the caller starts: none is simulated, and the API server is also at this
    /// address of this machine, where the endpoints of the Service `kubernetes` say that pods find it.
    pub fn real_nodes(mut self, address: Ipv4Addr) -> Options {
        self.nodes = 0;
        self.pods_reach_it_at = Some(address);
        self
    }

    /// Pods with these labels (`key=value`) are scheduled and then left to the caller, who plays their kubelet: the
    /// simulated nodes say nothing of them, neither that they run nor that they have ended.
    pub fn pods_played_by_the_caller(mut self, labels: &str) -> Options {
        self.played_pods = Some(labels.to_owned());
        self
    }

    /// The API server's calls to Services go, by HTTP's CONNECT, to the socket [`DevCluster::services`], where the caller
    /// plays the network that is not there.
    ///
    /// [`DevCluster::services`]: crate::DevCluster::services
    pub fn services_played_by_the_caller(mut self) -> Options {
        self.services_played = true;
        self
    }

    /// The cluster begins with all objects of this one, whose API server and etcd have been stopped: its nodes too,
    /// whatever [`nodes`](Self::nodes) says. Nothing else of it is taken over, neither users nor certificates.
    pub fn objects_of(mut self, stopped: &DevCluster) -> Options {
        self.stored = Some(stopped.stored());
        self
    }

    /// More users, beside `alice` and `bob`. A user named again gets the later groups.
    pub fn users(mut self, users: impl IntoIterator<Item = User>) -> Options {
        for user in users {
            self.users.retain(|known| known.name != user.name);
            self.users.push(user);
        }
        self
    }
}
