//! The cluster with the chart in it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use devcluster::{Component, DevCluster, Options};

use crate::balancer::Balancer;
use crate::error::Error;
use crate::operator::{Operator, Role};
use crate::ports::Ports;

/// Where Copyrator is installed.
pub const NAMESPACE: &str = "copyrator-system";
/// How long a test waits for anything. The limit only ends hopeless waits. It is long because CI machines may get a fraction of their
/// processors for minutes, and because the product itself waits for minutes where it should.
pub const PATIENCE: Duration = Duration::from_secs(900);
/// This version's chart, beside this crate.
const CHART: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../charts/copyrator");
/// The Helm release, and the stem of its objects' names.
pub const RELEASE: &str = "copyrator";

/// A cluster with the chart installed, and what it takes to run the operator in it.
#[derive(Debug)]
pub struct Testbed {
    cluster: DevCluster,
    ports: Ports,
    copyrator: Mutex<PathBuf>,
    logs: PathBuf,
    /// Kubeconfigs of the chart's ServiceAccounts.
    webhook: PathBuf,
    reconciler: PathBuf,
    /// The only namespaces that the chart gives rights in; none: it gives rights over the cluster.
    namespaces: Vec<String>,
    /// What the API server gives each hook, in seconds; none: what the product says.
    hook_timeout: Option<u8>,
}

impl Testbed {
    /// Starts a cluster and installs the chart. `copyrator` is the operator's program, `logs` a folder for what
    /// it says. The operator doesn't run yet.
    pub fn start(options: Options, copyrator: &Path, logs: &Path) -> Result<Testbed, Error> {
        let cluster = DevCluster::start(options)?;
        Testbed::on(cluster, copyrator, logs)
    }

    /// The same on a cluster that begins with the objects of `prepared`: nothing is installed.
    pub fn begin_with(
        prepared: &Prepared,
        options: Options,
        copyrator: &Path,
        logs: &Path,
    ) -> Result<Testbed, Error> {
        let Some(stopped) = &prepared.0 else { return Testbed::start(options, copyrator, logs) };
        let cluster = DevCluster::start(options.objects_of(stopped))?;
        Testbed::of(cluster, copyrator, logs, &[])
    }

    /// The same with the chart's rights in these namespaces only, which are made first: there is no webhook then.
    pub fn start_in(
        options: Options,
        copyrator: &Path,
        logs: &Path,
        namespaces: &[&str],
    ) -> Result<Testbed, Error> {
        let cluster = DevCluster::start(options)?;
        for namespace in namespaces {
            run(cluster.kubectl().args(["create", "namespace", namespace]))?;
        }
        Testbed::with(cluster, CHART.as_ref(), copyrator, logs, namespaces)
    }

    /// As [`start`](Self::start), with another version's chart and program.
    pub fn of_version(
        options: Options,
        chart: &Path,
        copyrator: &Path,
        logs: &Path,
    ) -> Result<Testbed, Error> {
        let cluster = DevCluster::start(options)?;
        Testbed::with(cluster, chart, copyrator, logs, &[])
    }

    /// Installs the chart in a cluster that runs.
    pub fn on(cluster: DevCluster, copyrator: &Path, logs: &Path) -> Result<Testbed, Error> {
        Testbed::with(cluster, CHART.as_ref(), copyrator, logs, &[])
    }

    fn with(
        cluster: DevCluster,
        chart: &Path,
        copyrator: &Path,
        logs: &Path,
        namespaces: &[&str],
    ) -> Result<Testbed, Error> {
        let mut helm = install(&cluster, chart)?;
        if !namespaces.is_empty() {
            // Without any right over the cluster.
            helm.args(["--set", "rbac.definitions=false"]);
            helm.args(["--set", &format!("namespaces={{{}}}", namespaces.join(","))]);
        }
        run(&mut helm)?;
        Testbed::of(cluster, copyrator, logs, namespaces)
    }

    /// The cluster has the chart in it.
    fn of(cluster: DevCluster, copyrator: &Path, logs: &Path, namespaces: &[&str]) -> Result<Testbed, Error> {
        fs::create_dir_all(logs).map_err(|source| Error::Log { path: logs.to_owned(), source })?;
        let reconciler = credentials(&cluster, Role::Reconciler, "0")?;
        let webhook = match namespaces.is_empty() {
            true => credentials(&cluster, Role::Webhook, "0")?,
            // There is one account only.
            false => reconciler.clone(),
        };
        Ok(Testbed {
            ports: Ports::reserve()?,
            copyrator: Mutex::new(copyrator.to_owned()),
            logs: logs.to_owned(),
            webhook,
            reconciler,
            namespaces: namespaces.iter().map(|name| (*name).to_owned()).collect(),
            hook_timeout: None,
            cluster,
        })
    }

    /// Has the API server give each hook so many seconds, where a reconciler is not told otherwise (`--hook-timeout`).
    pub fn with_hook_timeout(self, seconds: u8) -> Testbed {
        Testbed { hook_timeout: Some(seconds), ..self }
    }

    /// The cluster.
    pub fn cluster(&self) -> &DevCluster {
        &self.cluster
    }

    /// Gives the cluster away; processes of the operator go on.
    pub fn into_cluster(self) -> DevCluster {
        self.cluster
    }

    /// The kubeconfig of a role's ServiceAccount, with exactly the chart's rights.
    pub fn account(&self, role: Role) -> &Path {
        match role {
            Role::Webhook => &self.webhook,
            Role::Reconciler | Role::Both => &self.reconciler,
        }
    }

    /// The folder of the operator's logs.
    pub fn logs(&self) -> &Path {
        &self.logs
    }

    /// Has every process from now on be of this program: another version's.
    pub fn change_to(&self, copyrator: &Path) {
        copyrator.clone_into(&mut self.copyrator.lock().unwrap_or_else(PoisonError::into_inner));
    }

    fn program(&self) -> Command {
        Command::new(&*self.copyrator.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// `copyrator` with `arguments`, as admin.
    pub fn copyrator(&self, arguments: &[&str]) -> Command {
        let mut command = self.program();
        self.cluster.tie(&mut command);
        command.args(arguments).env("KUBECONFIG", self.cluster.admin_kubeconfig());
        command
    }

    /// Waits until the webhook configurations are in force: all of them, not only the one that the reconciler tries
    /// its canary with.
    pub fn wait_hooked(&self) -> Result<(), Error> {
        let deadline = Instant::now() + PATIENCE;
        let mut kubectl = self.cluster.kubectl();
        kubectl.args(["get", "validatingwebhookconfiguration", RELEASE, "--ignore-not-found"]);
        kubectl.args(["--output", "jsonpath={.webhooks[0].failurePolicy}"]);
        while run(&mut kubectl)? != "Fail" {
            if Instant::now() > deadline {
                return Err(Error::NotHooked { seconds: PATIENCE.as_secs(), logs: self.logs.clone() });
            }
            // Each look is a process of kubectl.
            thread::sleep(Duration::from_millis(200));
        }
        Ok(())
    }

    /// Starts a process of the operator. A role's replicas, counted from 0 to 2, have ports and logs of their own;
    /// a webhook has one replica only.
    pub fn operator(&self, role: Role, replica: u16, more: &[&str]) -> Result<Operator, Error> {
        match (role, replica) {
            (Role::Webhook, _) => self.operator_as(role, replica, &self.webhook, more),
            (_, 0) => self.operator_as(role, replica, &self.reconciler, more),
            // As each pod has: the audit log tells them apart.
            _ => self.operator_as(role, replica, &self.credentials(&replica.to_string())?, more),
        }
    }

    /// Has the accounts be those that are there now, where they have been made anew.
    pub fn renew_accounts(&self) -> Result<(), Error> {
        for role in [Role::Webhook, Role::Reconciler] {
            credentials(&self.cluster, role, "0")?;
        }
        Ok(())
    }

    /// A kubeconfig of the reconciler's account with a token of its own, called so.
    pub fn credentials(&self, called: &str) -> Result<PathBuf, Error> {
        credentials(&self.cluster, Role::Reconciler, called)
    }

    /// As [`operator`](Self::operator), with a kubeconfig of one's own.
    pub fn operator_as(
        &self,
        role: Role,
        replica: u16,
        kubeconfig: &Path,
        more: &[&str],
    ) -> Result<Operator, Error> {
        let slot = match role {
            Role::Webhook => 0,
            Role::Reconciler | Role::Both => 1 + replica,
        };
        let webhook = self.ports.webhook();
        let ports = ProcessPorts { admin: self.ports.admin(slot), webhook, called: webhook };
        self.start_at(&ports, role, replica, kubeconfig, more)
    }

    /// As [`operator`](Self::operator), where the API server finds the webhook behind `balancer`: two replicas of it.
    pub fn balanced(
        &self,
        balancer: &Balancer,
        role: Role,
        replica: u16,
        more: &[&str],
    ) -> Result<Operator, Error> {
        let (webhook, admin) = match role {
            Role::Webhook | Role::Both => balancer.places(replica),
            Role::Reconciler => (self.ports.webhook(), self.ports.admin(1 + replica)),
        };
        let own = match role {
            Role::Webhook => self.webhook.clone(),
            _ => self.credentials(&replica.to_string())?,
        };
        self.start_at(&ProcessPorts { admin, webhook, called: balancer.port() }, role, replica, &own, more)
    }

    fn start_at(
        &self,
        ports: &ProcessPorts,
        role: Role,
        replica: u16,
        kubeconfig: &Path,
        more: &[&str],
    ) -> Result<Operator, Error> {
        let ProcessPorts { admin, webhook, called } = ports;
        let mut command = self.program();
        self.cluster.tie(&mut command);
        command.args(["serve", "--log", "text", "--namespace", NAMESPACE]);
        command.args(["--roles", role.roles()]).arg("--kubeconfig").arg(kubeconfig);
        command.args(["--admin-addr", &format!("127.0.0.1:{admin}")]);
        command.args(["--webhook-addr", &format!("127.0.0.1:{webhook}")]);
        command.args(["--webhook-url", &format!("https://127.0.0.1:{called}")]);
        if !self.namespaces.is_empty() {
            command.args(["--namespaces", &self.namespaces.join(",")]);
        }
        command.envs(self.hook_timeout.map(|seconds| ("COPYRATOR_HOOK_TIMEOUT", seconds.to_string())));
        command
            .args(more)
            // Nobody has to hear first that a process of ours goes, but where a test says so.
            .env("COPYRATOR_DRAIN_DELAY", "0s")
            .env("COPYRATOR_OWNER_CLUSTER_ROLE", RELEASE)
            // Tests change a source again and again, and wait for each change; those about the brake say so.
            .env("COPYRATOR_MIN_SPREAD_INTERVAL", "100ms")
            // As in the chart's pods.
            .env("MALLOC_ARENA_MAX", "1")
            .env("GLIBC_TUNABLES", "glibc.malloc.tcache_count=64")
            .env("POD_NAME", format!("{RELEASE}-{}-{replica}", role.name()));
        let log = self.logs.join(format!("{}-{replica}.log", role.name()));
        Operator::start(command, role, *admin, log)
    }
}

/// A cluster with the chart installed that has been stopped: others begin with its objects. None where the caller's own
/// cluster is used instead (`COPYRATOR_TEST_KUBECONFIG`), which tests never stop.
#[derive(Debug)]
pub struct Prepared(Option<DevCluster>);

impl Prepared {
    /// Starts a cluster, installs the chart, and stops what runs.
    pub fn make() -> Result<Prepared, Error> {
        let cluster = DevCluster::start(Options::default())?;
        if cluster.component(Component::Etcd).pid().is_none() {
            return Ok(Prepared(None));
        }
        run(&mut install(&cluster, CHART.as_ref())?)?;
        for component in [
            Component::Kwok,
            Component::Scheduler,
            Component::ControllerManager,
            Component::ApiServer,
            Component::Etcd,
        ] {
            cluster.component(component).stop()?;
        }
        Ok(Prepared(Some(cluster)))
    }
}

/// Ports of one process.
struct ProcessPorts {
    /// Where it answers probes.
    admin: u16,
    /// Where it answers reviews, if it does.
    webhook: u16,
    /// Where the API server is told to ask.
    called: u16,
}

/// The command that installs the chart.
fn install(cluster: &DevCluster, chart: &Path) -> Result<Command, Error> {
    let mut helm = cluster.helm()?;
    helm.args(["install", RELEASE]).arg(chart);
    helm.args(["--namespace", NAMESPACE, "--create-namespace"]);
    helm.args(["--set", "webhook.replicas=0", "--set", "reconciler.replicas=0"]);
    Ok(helm)
}

/// A kubeconfig of a role's ServiceAccount, as the kubelet would give it to a pod called so.
fn credentials(cluster: &DevCluster, role: Role, called: &str) -> Result<PathBuf, Error> {
    let name = format!("{RELEASE}-{}", role.name());
    let mut kubectl = cluster.kubectl();
    kubectl.args(["create", "token", &name, "--namespace", NAMESPACE, "--duration", "24h"]);
    Ok(cluster.kubeconfig_with_token(&format!("{name}-{called}"), run(&mut kubectl)?.trim())?)
}

/// Runs a command that must succeed: what it wrote.
pub(crate) fn run(command: &mut Command) -> Result<String, Error> {
    let program = PathBuf::from(command.get_program());
    let output = command.output().map_err(|source| Error::Run { program, source })?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let message = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    Err(Error::Failed { command: format!("{command:?}"), message })
}
