//! The cluster as its user holds it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::client::Client;
use crate::control::{Component, ComponentHandle, Process, SERVICES, STORED};
use crate::environment::{self, Environment};
use crate::error::Error;
use crate::folder::Folder;
use crate::options::Options;
use crate::ports::Ports;
use crate::{binaries, existing, kubeconfig, launch};

/// A running cluster. Dropping it ends its processes and removes its folder, and so does the end of this
/// process, however it comes about.
#[derive(Debug)]
pub struct DevCluster {
    // Fields are dropped in this order: processes end before the folder goes.
    pub(crate) processes: Vec<Process>,
    pub(crate) folder: Folder,
    pub(crate) ports: Option<Ports>,
    pub(crate) kubectl: Client,
    pub(crate) server_url: String,
    pub(crate) ca_pem: String,
    /// The `cluster` part of kubeconfigs.
    pub(crate) endpoint: Value,
    pub(crate) admin: PathBuf,
    /// Kubeconfigs by user.
    pub(crate) users: BTreeMap<String, PathBuf>,
    pub(crate) audit_log: Option<PathBuf>,
}

impl DevCluster {
    /// Starts a cluster and waits until Deployments can roll out on it. Programs that are missing are built
    /// first, which takes minutes, once.
    ///
    /// If the environment variable `COPYRATOR_TEST_KUBECONFIG` names a kubeconfig, its cluster is used
    /// instead. It must be one whose current user may impersonate, and its components can't be stopped.
    pub fn start(options: Options) -> Result<DevCluster, Error> {
        let environment = Environment::read();
        match &environment.existing {
            Some(kubeconfig) => existing::attach(kubeconfig, &options),
            None => launch::launch(&environment, &options),
        }
    }

    /// The kubeconfig of a user above all rights (group `system:masters`): for set-up, not for what is to
    /// be tested.
    pub fn admin_kubeconfig(&self) -> &Path {
        &self.admin
    }

    /// The kubeconfig of a user named in [`Options::users`], `alice` or `bob`.
    pub fn user(&self, name: &str) -> Result<PathBuf, Error> {
        self.users.get(name).cloned().ok_or_else(|| Error::UnknownUser { name: name.to_owned() })
    }

    /// Writes a kubeconfig `name` for a token, for example one that `kubectl create token` made for a
    /// ServiceAccount.
    pub fn kubeconfig_with_token(&self, name: &str, token: &str) -> Result<PathBuf, Error> {
        let folder = self.folder.subfolder("tokens")?;
        kubeconfig::write(&folder, name, &self.endpoint, &kubeconfig::token_user(token))
    }

    /// Where the API server is, `https://127.0.0.1:…`.
    pub fn server_url(&self) -> &str {
        &self.server_url
    }

    /// The certificate authority that vouches for the API server; empty if an existing cluster has a
    /// publicly known one.
    pub fn ca_pem(&self) -> &str {
        &self.ca_pem
    }

    /// kubectl as admin. It ends with the cluster.
    pub fn kubectl(&self) -> Command {
        self.kubectl_as(&self.admin)
    }

    /// kubectl as the user of a kubeconfig. It ends with the cluster.
    pub fn kubectl_as(&self, kubeconfig: &Path) -> Command {
        self.kubectl.command(&self.folder, kubeconfig)
    }

    /// helm as admin, built first if need be. Its settings and caches are the cluster's, not the user's.
    pub fn helm(&self) -> Result<Command, Error> {
        self.helm_at(binaries::helm()?)
    }

    /// The same of the next major version.
    pub fn helm4(&self) -> Result<Command, Error> {
        self.helm_at(binaries::helm4()?)
    }

    fn helm_at(&self, program: PathBuf) -> Result<Command, Error> {
        let mut command = Client { program }.command(&self.folder, &self.admin);
        environment::variables("HELM_").for_each(|name| {
            command.env_remove(name);
        });
        let home = self.folder.subfolder("helm")?;
        for (variable, part) in
            [("HELM_CACHE_HOME", "cache"), ("HELM_CONFIG_HOME", "config"), ("HELM_DATA_HOME", "data")]
        {
            command.env(variable, home.join(part));
        }
        Ok(command)
    }

    /// Has the process of `command` end with the cluster, whatever happens to this process: for an operator
    /// under test, say.
    pub fn tie(&self, command: &mut Command) {
        self.folder.tie(command);
    }

    /// The cluster's folder: logs are in `logs/`, kubeconfigs in `users/` and `tokens/`. It goes with the
    /// cluster.
    pub fn dir(&self) -> &Path {
        self.folder.path()
    }

    /// Where etcd keeps the objects.
    pub(crate) fn stored(&self) -> PathBuf {
        self.folder.path().join(STORED)
    }

    /// The socket on which the API server looks for Services, with [`Options::services_played_by_the_caller`]. The
    /// caller makes it.
    pub fn services(&self) -> PathBuf {
        self.folder.path().join(SERVICES)
    }

    /// The audit log, if [`Options::audit`] asked for one: a JSON object per line. A line may
    /// come a moment after the answer that it is about.
    pub fn audit_log(&self) -> Option<&Path> {
        self.audit_log.as_deref()
    }

    /// One component, to stop, start, pause and resume.
    pub fn component(&self, component: Component) -> ComponentHandle<'_> {
        ComponentHandle { cluster: self, component }
    }

    /// An error if a component that should run has ended by itself.
    pub fn check(&self) -> Result<(), Error> {
        self.processes.iter().try_for_each(Process::check)
    }

    /// Lets the cluster run on, past the end of this process, until [`stop`](crate::stop) is called with
    /// the folder that this returns (`devcluster stop DIR`).
    pub fn keep(mut self) -> PathBuf {
        self.processes.iter().for_each(Process::release);
        self.folder.keep();
        self.folder.path().to_owned()
    }

    /// Runs kubectl as admin to its end: what it wrote.
    pub(crate) fn ask(&self, arguments: &[&str]) -> Result<String, Error> {
        self.kubectl.run(&self.folder, &self.admin, arguments)
    }
}
