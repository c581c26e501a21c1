//! What is left of the test, and its removal: processes, mounts, cgroups, the folder.

use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::mount::{MntFlags, umount2};
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, waitpid};
use nix::unistd::Pid;

use crate::failure::Failure;
use crate::requirements;

/// How long the kernel may take to be through with processes that were killed.
const PATIENCE: Duration = Duration::from_secs(10);
const PAUSE: Duration = Duration::from_millis(50);

/// Ends every other process of this process namespace, whose first process this is, and removes what they leave.
pub(crate) fn end_everything(folder: &Path) {
    let everybody = Pid::from_raw(-1);
    let deadline = Instant::now() + PATIENCE;
    while kill(everybody, Signal::SIGKILL).is_ok() && Instant::now() < deadline {
        while waitpid(everybody, Some(WaitPidFlag::WNOHANG)).is_ok_and(|status| status.pid().is_some()) {}
        thread::sleep(PAUSE);
    }
    for place in mounts_under(folder).iter().rev() {
        let _ = umount2(place, MntFlags::MNT_DETACH);
    }
    if let Err(failure) = remove(folder) {
        eprintln!("real_node: {failure}");
    }
}

/// Removes cgroups and folder, once nobody is in them. Fine if they are gone.
pub(crate) fn remove(folder: &Path) -> Result<(), Failure> {
    // Through a mount, the removal would reach what is not ours.
    if let Some(place) = mounts_under(folder).first() {
        return Err(Failure::new(format!("{} is still mounted: left as it is", place.display())));
    }
    let name = folder.file_name().unwrap_or_default();
    for root in requirements::cgroups() {
        remove_cgroup(&root.join(name))?;
    }
    match fs::remove_dir_all(folder) {
        Err(error) if folder.exists() => Err(Failure::at("remove", folder)(error)),
        _ => Ok(()),
    }
}

/// A cgroup's folder goes with those in it, and when no process is left in it.
fn remove_cgroup(cgroup: &Path) -> Result<(), Failure> {
    for entry in fs::read_dir(cgroup).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            remove_cgroup(&entry.path())?;
        }
    }
    let deadline = Instant::now() + PATIENCE;
    loop {
        match fs::remove_dir(cgroup) {
            Err(error) if error.raw_os_error() == Some(Errno::EBUSY as i32) && Instant::now() < deadline => {
                thread::sleep(PAUSE);
            }
            Err(error) if cgroup.exists() => return Err(Failure::at("remove", cgroup)(error)),
            _ => return Ok(()),
        }
    }
}

/// In the order in which they were mounted.
fn mounts_under(folder: &Path) -> Vec<PathBuf> {
    let table = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let places = table.lines().filter_map(|line| line.split(' ').nth(4)).map(PathBuf::from);
    places.filter(|place| place.starts_with(folder)).collect()
}
