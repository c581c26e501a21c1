//! kube-proxy: has what is sent to a Service's address reach its pods.

use std::path::Path;
use std::process::Command;

use super::{Daemon, NAME, network};
use crate::boundary::Inside;
use crate::failure::Failure;

/// Starts it.
pub(super) fn start(inside: &Inside, kubeconfig: &Path) -> Result<Daemon, Failure> {
    let mut command = Command::new(devcluster::kube_proxy()?);
    command.arg(format!("--kubeconfig={}", kubeconfig.display())).arg(format!("--hostname-override={NAME}"));
    command.args(["--proxy-mode=iptables", "--iptables-localhost-nodeports=false"]);
    command.arg(format!("--cluster-cidr={}", network::PODS));
    // Limits of the machine, not of this network: as they are.
    command.args(["--conntrack-max-per-core=0", "--conntrack-tcp-timeout-established=0s"]);
    command.args(["--conntrack-tcp-timeout-close-wait=0s"]);
    command.current_dir(&inside.folder);
    Daemon::start("kube-proxy", &mut command)
}
