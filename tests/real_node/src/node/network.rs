//! The node's network: a bridge for pods in this network namespace, on whose address the API server is as well.

use std::fs;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::json;

use crate::failure::Failure;

/// The bridge's address: what pods take for their way out, and the node's own.
pub(crate) const GATEWAY: Ipv4Addr = Ipv4Addr::new(10, 244, 0, 1);
/// Where pods get their addresses from.
pub(super) const PODS: &str = "10.244.0.0/24";
const SERVICES: &str = "10.96.0.0/16";
const BRIDGE: &str = "copyrator0";
/// Packets between two pods of a node pass the bridge alone, where a Service's address would not be put back.
const THROUGH_RULES: &str = "/proc/sys/net/bridge/bridge-nf-call-iptables";

/// Makes the bridge, with its address, before the first pod comes.
pub(super) fn prepare() -> Result<(), Failure> {
    ip(&["link", "set", "lo", "up"])?;
    ip(&["link", "add", BRIDGE, "type", "bridge"])?;
    ip(&["address", "add", &format!("{GATEWAY}/24"), "dev", BRIDGE])?;
    ip(&["link", "set", BRIDGE, "up"])?;
    // Addresses of Services are nobody's: without a way there, nothing would be sent for kube-proxy's rules to turn round.
    ip(&["route", "add", SERVICES, "dev", BRIDGE])?;
    if Path::new(THROUGH_RULES).exists() {
        fs::write(THROUGH_RULES, "1").map_err(Failure::at("write", THROUGH_RULES.as_ref()))?;
    }
    fs::write("/proc/sys/net/ipv4/ip_forward", "1").map_err(Failure::at("write", "ip_forward".as_ref()))
}

/// Writes how pods are connected, for containerd: the folder with it.
pub(super) fn plugins(folder: &Path) -> Result<PathBuf, Failure> {
    let place = folder.join("network");
    fs::create_dir_all(&place).map_err(Failure::at("create", &place))?;
    let list = json!({
        "cniVersion": "0.4.0",
        "name": "copyrator",
        "plugins": [{
            "type": "bridge",
            "bridge": BRIDGE,
            "isDefaultGateway": true,
            // A pod that asks a Service may be answered by itself.
            "hairpinMode": true,
            "ipam": {
                "type": "host-local",
                "dataDir": place.join("addresses"),
                "ranges": [[{ "subnet": PODS }]],
            },
        }],
    });
    let file = place.join("10-copyrator.conflist");
    fs::write(&file, list.to_string()).map_err(Failure::at("write", &file))?;
    Ok(place)
}

fn ip(arguments: &[&str]) -> Result<(), Failure> {
    let answer = Command::new("ip").args(arguments).output().map_err(Failure::at("run", "ip".as_ref()))?;
    match answer.status.success() {
        true => Ok(()),
        false => {
            let said = String::from_utf8_lossy(&answer.stderr).trim().to_owned();
            Err(Failure::new(format!("ip {} failed: {said}", arguments.join(" "))))
        }
    }
}
