//! What runs containers: containerd with runc, in folders and on a socket of its own.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use super::{Daemon, network};
use crate::failure::Failure;
use crate::images::{self, Image};
use crate::requirements;

const PATIENCE: Duration = Duration::from_secs(30);

/// A running containerd.
#[derive(Debug)]
pub(super) struct Containerd {
    daemon: Daemon,
    socket: PathBuf,
}

impl Containerd {
    /// Starts it and waits until it answers.
    pub(super) fn start(folder: &Path) -> Result<Containerd, Failure> {
        let home = folder.join("containerd");
        fs::create_dir_all(&home).map_err(Failure::at("create", &home))?;
        let file = home.join("config.toml");
        let configuration = configuration(&home, &network::plugins(folder)?)?;
        fs::write(&file, configuration).map_err(Failure::at("write", &file))?;
        let mut command = Command::new("containerd");
        let daemon = Daemon::start("containerd", command.arg("--config").arg(&file))?;
        let mut containerd = Containerd { daemon, socket: socket(&home) };
        let deadline = Instant::now() + PATIENCE;
        while let Err(failure) = containerd.ctr(&["version"]) {
            containerd.check()?;
            if Instant::now() > deadline {
                return Err(failure);
            }
            thread::sleep(Duration::from_millis(100));
        }
        Ok(containerd)
    }

    /// Takes an image in, under the name that pods ask for.
    pub(super) fn import(&self, image: &Image) -> Result<(), Failure> {
        let repository =
            image.name.rsplit_once(':').map_or(image.name.as_str(), |(repository, _)| repository);
        let archive = image.archive.display().to_string();
        self.ctr(&["images", "import", "--snapshotter=native", "--base-name", repository, &archive])?;
        let listed = self.ctr(&["images", "list", "--quiet"])?;
        match listed.lines().any(|name| name == image.name) {
            true => Ok(()),
            false => {
                Err(Failure::new(format!("{archive} was imported, but not as {}: {listed}", image.name)))
            }
        }
    }

    /// Where kubelet finds it.
    pub(super) fn endpoint(&self) -> String {
        format!("unix://{}", self.socket.display())
    }

    pub(super) fn check(&mut self) -> Result<(), Failure> {
        self.daemon.check()
    }

    fn ctr(&self, arguments: &[&str]) -> Result<String, Failure> {
        let mut command = Command::new("ctr");
        command.arg("--address").arg(&self.socket).args(["--namespace", "k8s.io"]).args(arguments);
        let answer = command.output().map_err(Failure::at("run", "ctr".as_ref()))?;
        match answer.status.success() {
            true => Ok(String::from_utf8_lossy(&answer.stdout).into_owned()),
            false => {
                let said = String::from_utf8_lossy(&answer.stderr).trim().to_owned();
                Err(Failure::new(format!("ctr {} failed: {said}", arguments.join(" "))))
            }
        }
    }
}

fn socket(home: &Path) -> PathBuf {
    home.join("socket")
}

/// Copies of files instead of overlays, which not every machine has; a container's out-of-memory score no lower than ours,
/// which not every root may set.
fn configuration(home: &Path, network: &Path) -> Result<String, Failure> {
    let runc = requirements::find("runc").ok_or_else(|| Failure::new("runc is gone"))?;
    let plugins = requirements::plugins().ok_or_else(|| Failure::new("the network's plugins are gone"))?;
    Ok(format!(
        r#"version = 2
root = "{home}/root"
state = "{home}/state"
disabled_plugins = [
  "io.containerd.snapshotter.v1.aufs", "io.containerd.snapshotter.v1.btrfs",
  "io.containerd.snapshotter.v1.devmapper", "io.containerd.snapshotter.v1.zfs",
]
[grpc]
  address = "{socket}"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{pause}"
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "native"
    default_runtime_name = "runc"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
      [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
        BinaryName = "{runc}"
        SystemdCgroup = false
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "{plugins}"
    conf_dir = "{network}"
"#,
        home = home.display(),
        socket = socket(home).display(),
        pause = images::PAUSE,
        runc = runc.display(),
        plugins = plugins.display(),
        network = network.display(),
    ))
}
