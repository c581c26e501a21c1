//! A cluster's folder, and the reaper that ends the cluster and removes the folder when this process drops
//! it or is gone.
//!
//! The reaper is a shell that reads a pipe whose other end only this process holds, so it notices every way
//! for this process to end. (Linux's `PR_SET_PDEATHSIG` would not do: it fires when the *thread* ends that
//! started the child, and tests start clusters from short-lived threads.) It is in a process group of its
//! own, out of reach of Ctrl-C.

use std::fs::{self, DirBuilder};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use crate::error::Error;
use crate::identities;

/// The variable by which the reaper finds the cluster's processes.
const TIE: &str = "COPYRATOR_DEVCLUSTER_DIR";
/// The file that says a folder is a cluster's.
const MARKER: &str = "devcluster";

/// A cluster's folder with its reaper.
#[derive(Debug)]
pub(crate) struct Folder {
    path: PathBuf,
    reaper: Child,
}

impl Folder {
    /// Makes the folder. The reaper comes first, so at no moment would a killed process leave it behind.
    pub(crate) fn create() -> Result<Folder, Error> {
        let parent = std::env::temp_dir();
        let parent = parent.canonicalize().map_err(Error::file("find", &parent))?;
        let name = format!("devcluster-{}", &identities::random_hex("the cluster's folder")?[..12]);
        let path = parent.join(name);
        let reaper = reaper(&path, Stdio::piped())?;
        let mut folder = Folder { path, reaper };
        if let Err(source) = DirBuilder::new().mode(0o700).create(&folder.path) {
            let path = folder.path.clone();
            if source.kind() == ErrorKind::AlreadyExists {
                folder.keep();
            }
            return Err(Error::file("create", &path)(source));
        }
        let marker = folder.path.join(MARKER);
        fs::write(&marker, "A cluster made by devcluster.\n").map_err(Error::file("write", &marker))?;
        Ok(folder)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// A folder within.
    pub(crate) fn subfolder(&self, name: &str) -> Result<PathBuf, Error> {
        let path = self.path.join(name);
        fs::create_dir_all(&path).map_err(Error::file("create", &path))?;
        Ok(path)
    }

    /// Has `command`'s process end with the cluster.
    pub(crate) fn tie(&self, command: &mut Command) {
        command.env(TIE, &self.path);
    }

    /// Sends the reaper away: folder and processes stay until [`stop`].
    pub(crate) fn keep(&mut self) {
        if let Some(mut pipe) = self.reaper.stdin.take() {
            // Cannot fail: the reaper ends only after it read this or after we closed the pipe.
            let _ = pipe.write_all(b"keep\n");
        }
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // Closes the pipe (unless keep did), which is the reaper's sign, and waits until it is through.
        drop(self.reaper.stdin.take());
        let _ = self.reaper.wait();
    }
}

/// Ends a cluster that was kept running, by its folder, and removes the folder.
pub fn stop(dir: &Path) -> Result<(), Error> {
    let dir = dir.canonicalize().map_err(Error::file("find", dir))?;
    if !dir.join(MARKER).is_file() {
        return Err(Error::NotACluster { dir });
    }
    // With nobody at the other end from the start, the reaper gets to work at once.
    let mut reaper = reaper(&dir, Stdio::null())?;
    reaper.wait().map_err(Error::run("sh"))?;
    Ok(())
}

fn reaper(dir: &Path, stdin: Stdio) -> Result<Child, Error> {
    let mut command = Command::new("/bin/sh");
    command.arg("-c").arg(include_str!("reaper.sh")).arg("devcluster-reaper").arg(dir);
    command.stdin(stdin).stdout(Stdio::null()).stderr(Stdio::null());
    // A process that is itself part of a cluster may start another: its reaper must not die with the first.
    command.env_remove(TIE).current_dir("/").process_group(0);
    command.spawn().map_err(Error::run("/bin/sh"))
}
