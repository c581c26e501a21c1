//! What the machine must have to run containers, and what to do about each thing that is missing.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use nix::unistd::geteuid;

use crate::images;

/// Programs, and the Debian package that has each.
const PROGRAMS: [(&str, &str); 9] = [
    ("containerd", "containerd"),
    ("ctr", "containerd"),
    ("runc", "runc"),
    ("buildah", "buildah"),
    ("iptables", "iptables"),
    ("ip", "iproute2"),
    ("unshare", "util-linux"),
    ("mount", "mount"),
    ("git", "git"),
];

/// Where distributions keep the network's plugins.
const PLUGINS: [&str; 3] = ["/usr/lib/cni", "/opt/cni/bin", "/usr/libexec/cni"];

/// What a node of ours does with the kernel: namespaces, a bridge in them, and the rules of a Service.
const KERNEL: &str = "ip link set lo up && ip link add probe0 type bridge && ip link add probe1 type veth peer name probe2 \
    && iptables -t nat -A POSTROUTING -m comment --comment probe -m mark --mark 1/1 -j MASQUERADE \
    && mount -t tmpfs tmpfs /run";

/// Each thing that is missing, with the way to get it. Empty: the test can run.
pub(crate) fn missing() -> Vec<String> {
    if !geteuid().is_root() {
        return vec!["root, to make containers".to_owned()];
    }
    let mut packages: Vec<&str> =
        PROGRAMS.iter().filter(|(program, _)| find(program).is_none()).map(|(_, package)| *package).collect();
    if plugins().is_none() {
        packages.push("containernetworking-plugins");
    }
    packages.dedup();
    let mut missing = Vec::new();
    if !packages.is_empty() {
        missing.push(format!("{} (apt-get install {0})", packages.join(" ")));
    }
    if images::is_compiled() && !succeeds("cargo", &["auditable", "--version"]) {
        missing.push("cargo-auditable (cargo install --locked cargo-auditable)".to_owned());
    }
    if missing.is_empty()
        && !succeeds("unshare", &["--net", "--mount", "--pid", "--fork", "sh", "-c", KERNEL])
    {
        missing.push(
            "a kernel and rights to make network, mount and process namespaces with a bridge in them"
                .to_owned(),
        );
    }
    if missing.is_empty() && !cgroups_can_be_made() {
        missing.push("cgroups that can be written to, under /sys/fs/cgroup".to_owned());
    }
    missing
}

/// The folder of the network's plugins.
pub(crate) fn plugins() -> Option<&'static Path> {
    PLUGINS
        .iter()
        .map(Path::new)
        .find(|folder| folder.join("bridge").is_file() && folder.join("host-local").is_file())
}

/// The roots of the cgroup hierarchies that can be written to: one for each controller, or one for all.
pub(crate) fn cgroups() -> Vec<PathBuf> {
    let root = Path::new("/sys/fs/cgroup");
    if root.join("cgroup.controllers").is_file() {
        return vec![root.to_owned()];
    }
    let Ok(entries) = root.read_dir() else { return Vec::new() };
    let mut roots: Vec<PathBuf> = entries
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.join("cgroup.procs").is_file())
        .collect();
    roots.sort();
    roots
}

fn cgroups_can_be_made() -> bool {
    let roots = cgroups();
    let can_be_made = |root: &PathBuf| {
        let probe = root.join("copyrator-probe");
        fs::create_dir(&probe).and_then(|()| fs::remove_dir(&probe)).is_ok()
    };
    !roots.is_empty() && roots.iter().all(can_be_made)
}

/// Where a program is, in the folders that the environment names.
pub(crate) fn find(program: &str) -> Option<PathBuf> {
    let folders = std::env::var_os("PATH")?;
    std::env::split_paths(&folders).map(|folder| folder.join(program)).find(|path| path.is_file())
}

fn succeeds(program: &str, arguments: &[&str]) -> bool {
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}
