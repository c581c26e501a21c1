//! A control plane and one real node: network, containerd, kubelet, kube-proxy.

mod containerd;
mod daemon;
mod kubelet;
mod network;
mod proxy;

use std::thread;
use std::time::{Duration, Instant};

use devcluster::{DevCluster, Options, User};

use crate::boundary::Inside;
use crate::failure::Failure;
use crate::images;
use crate::options::output;

use containerd::Containerd;
use daemon::Daemon;

/// The node's name.
const NAME: &str = "node";
/// Whom the API server takes kubelet and kube-proxy for, as in any cluster.
const KUBELET: &str = "system:node:node";
const PROXY: &str = "system:kube-proxy";
const PATIENCE: Duration = Duration::from_secs(120);

/// A running cluster with a node. Everything ends with the process that made it.
#[derive(Debug)]
pub(crate) struct Node {
    // Fields are dropped in this order.
    kubelet: Daemon,
    proxy: Daemon,
    containerd: Containerd,
    cluster: DevCluster,
}

impl Node {
    /// Starts it all and waits until the node takes pods.
    pub(crate) fn start(inside: &Inside) -> Result<Node, Failure> {
        network::prepare()?;
        let users = [User::new(KUBELET, &["system:nodes"]), User::new(PROXY, &[])];
        let cluster = DevCluster::start(Options::default().real_nodes(network::GATEWAY).users(users))?;
        let containerd = Containerd::start(&inside.folder)?;
        images::all().iter().try_for_each(|image| containerd.import(image))?;
        let kubelet = kubelet::start(inside, &containerd, &cluster.user(KUBELET)?)?;
        let proxy = proxy::start(inside, &cluster.user(PROXY)?)?;
        let node = Node { kubelet, proxy, containerd, cluster };
        node.wait_ready()?;
        Ok(node)
    }

    pub(crate) fn cluster(&self) -> &DevCluster {
        &self.cluster
    }

    /// An error if one of the node's programs has ended by itself.
    pub(crate) fn check(&mut self) -> Result<(), Failure> {
        self.cluster.check()?;
        self.kubelet.check()?;
        self.proxy.check()?;
        self.containerd.check()
    }

    fn wait_ready(&self) -> Result<(), Failure> {
        let deadline = Instant::now() + PATIENCE;
        let mut kubectl = self.cluster.kubectl();
        kubectl.args(["get", "node", NAME, "--output"]);
        kubectl.arg("jsonpath={.status.conditions[?(@.type==\"Ready\")].status} {.spec.taints}");
        loop {
            let answer = kubectl.output().map_err(Failure::at("run", "kubectl".as_ref()))?;
            let said = String::from_utf8_lossy(&[answer.stdout, answer.stderr].concat()).trim().to_owned();
            // The controllers take a new node's taint away.
            if said == "True" {
                return Ok(());
            }
            if Instant::now() > deadline {
                let seconds = PATIENCE.as_secs();
                let logs = output().join("logs");
                return Err(Failure::new(format!(
                    "waited {seconds} s for the node to be ready: {said}; the logs are in {}",
                    logs.display()
                )));
            }
            thread::sleep(Duration::from_millis(200));
        }
    }
}
