//! The kubelet: makes the pods that the API server wants on this node.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::json;

use super::containerd::Containerd;
use super::{Daemon, NAME, network};
use crate::boundary::Inside;
use crate::failure::Failure;
use crate::requirements;

/// Starts it.
pub(super) fn start(inside: &Inside, containerd: &Containerd, kubeconfig: &Path) -> Result<Daemon, Failure> {
    let home = inside.folder.join("kubelet");
    fs::create_dir_all(&home).map_err(Failure::at("create", &home))?;
    for root in requirements::cgroups() {
        // Of the two kinds of roots beside each other, one has controllers and the other none: both take a folder.
        let cgroup = root.join(inside.name());
        fs::create_dir_all(&cgroup).map_err(Failure::at("create", &cgroup))?;
    }
    let configuration = json!({
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "containerRuntimeEndpoint": containerd.endpoint(),
        // Nobody else is in this network.
        "authentication": { "anonymous": { "enabled": true }, "webhook": { "enabled": false } },
        "authorization": { "mode": "AlwaysAllow" },
        "serverTLSBootstrap": false,
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": format!("/{}", inside.name()),
        // The machine keeps its own order of cgroups.
        "cgroupsPerQOS": false,
        "enforceNodeAllocatable": [],
        "failCgroupV1": false,
        "failSwapOn": false,
        // How full the machine's disk is says nothing of this test.
        "evictionHard": { "nodefs.available": "0%", "imagefs.available": "0%", "nodefs.inodesFree": "0%", "imagefs.inodesFree": "0%", "memory.available": "0%" },
        "imageGCHighThresholdPercent": 100,
        "resolvConf": "",
        "volumePluginDir": home.join("plugins"),
    });
    let file = home.join("config.json");
    fs::write(&file, configuration.to_string()).map_err(Failure::at("write", &file))?;
    let mut command = Command::new(devcluster::kubelet()?);
    command.arg(format!("--config={}", file.display())).arg(format!("--kubeconfig={}", kubeconfig.display()));
    command
        .arg(format!("--root-dir={}", home.display()))
        .arg(format!("--cert-dir={}", home.join("certificates").display()));
    command.arg(format!("--hostname-override={NAME}")).arg(format!("--node-ip={}", network::GATEWAY));
    Daemon::start("kubelet", &mut command)
}
