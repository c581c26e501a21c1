//! A cluster into which the chart is installed as people do, and in which its pods run.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use devcluster::{Component, DevCluster, Options};

use crate::error::Error;
use crate::kubelet::Kubelet;
use crate::network::Network;

/// What the chart's pods have in common, by which they are known.
pub(crate) const PODS: &str = "app.kubernetes.io/part-of=copyrator";

/// A cluster without Copyrator. A user who installs the chart there finds its pods running: each container is a process of
/// this machine, started with the pod's own arguments, environment and account, and ready when the process says so.
#[derive(Debug)]
pub struct Playground {
    // Fields are dropped in this order: the pods' processes end before the cluster.
    kubelet: Kubelet,
    _network: Network,
    logs: PathBuf,
    cluster: Arc<DevCluster>,
}

impl Playground {
    /// Starts a cluster. `copyrator` is the program that all images are taken to hold; `logs` is a folder for what the
    /// pods say, by default the cluster's own. Somebody else's cluster (`COPYRATOR_TEST_KUBECONFIG`) is refused: it plays its
    /// pods itself.
    pub fn start(options: Options, copyrator: &Path, logs: Option<&Path>) -> Result<Playground, Error> {
        let options = options.pods_played_by_the_caller(PODS).services_played_by_the_caller();
        let cluster = Arc::new(DevCluster::start(options)?);
        if cluster.component(Component::Kwok).pid().is_none() {
            return Err(Error::NotOurs);
        }
        let logs = logs.map_or_else(|| cluster.dir().join("logs"), Path::to_owned);
        fs::create_dir_all(&logs).map_err(|source| Error::Log { path: logs.clone(), source })?;
        let kubelet = Kubelet::start(cluster.clone(), copyrator, &logs);
        let network = Network::open(cluster.clone(), kubelet.pods())?;
        Ok(Playground { kubelet, _network: network, logs, cluster })
    }

    /// The cluster.
    pub fn cluster(&self) -> &DevCluster {
        &self.cluster
    }

    /// The folder of what the pods say, a file for each.
    pub fn logs(&self) -> &Path {
        &self.logs
    }

    /// The command lines of the pods that run now, by the pods' names.
    pub fn commands(&self) -> Vec<(String, Vec<String>)> {
        let pods = self.kubelet.pods();
        let pods = pods.lock();
        let mut commands: Vec<_> =
            pods.values().map(|one| (one.name().to_owned(), one.words().to_vec())).collect();
        commands.sort();
        commands
    }
}
