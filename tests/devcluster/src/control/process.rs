//! One component's process, from start to end, again and again.

use std::fs::OpenOptions;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::Component;
use crate::error::Error;
use crate::folder::Folder;
use crate::logs;

/// How long an orderly end may take before it is cut short. etcd and the API server would wait far longer
/// for clients that watch to go away. What was written is in the kernel's hands and outlives the process.
const PATIENCE: Duration = Duration::from_secs(1);

/// A component's process, running or not.
#[derive(Debug)]
pub(crate) struct Process {
    pub(crate) component: Component,
    program: PathBuf,
    arguments: Vec<String>,
    log: PathBuf,
    child: Mutex<Option<Child>>,
}

impl Process {
    pub(crate) fn new(
        component: Component,
        (program, arguments): (PathBuf, Vec<String>),
        folder: &Folder,
    ) -> Process {
        let log = logs::path(folder.path(), component.name());
        Process { component, program, arguments, log, child: Mutex::new(None) }
    }

    /// Starts it, unless it runs. A component gets a process group of its own, so that Ctrl-C doesn't reach
    /// it before its owner, and an environment of its own: etcd, for one, obeys any `ETCD_…` variable.
    pub(crate) fn start(&self, folder: &Folder) -> Result<(), Error> {
        let mut child = self.child();
        if running(&mut child).is_some() {
            return Ok(());
        }
        let mut options = OpenOptions::new();
        let log =
            options.append(true).create(true).open(&self.log).map_err(Error::file("open", &self.log))?;
        let log_too = log.try_clone().map_err(Error::file("open", &self.log))?;
        let mut command = Command::new(&self.program);
        command.args(&self.arguments).env_clear().env("HOME", folder.path()).env("TMPDIR", folder.path());
        // All are Go programs. A fifth of the API server's time would go into collecting garbage: 100 MB more of memory save it.
        command.env("GOGC", "400");
        folder.tie(&mut command);
        command.stdin(Stdio::null()).stdout(log).stderr(log_too);
        command.current_dir(folder.path()).process_group(0);
        *child = Some(command.spawn().map_err(Error::run(&self.program))?);
        Ok(())
    }

    /// Ends it in order if `signal` is SIGTERM, at once if it is SIGKILL. Nothing happens if it has ended.
    pub(crate) fn stop(&self, signal: Signal) -> Result<(), Error> {
        let mut slot = self.child();
        if let Some(child) = running(&mut slot) {
            self.send(child, signal, "stop")?;
            // A paused process sees the signal once it goes on.
            self.send(child, Signal::SIGCONT, "stop")?;
        }
        let deadline = Instant::now() + PATIENCE;
        while running(&mut slot).is_some() && Instant::now() < deadline {
            thread::sleep(Duration::from_millis(10));
        }
        if let Some(mut child) = slot.take() {
            child.kill().and_then(|()| child.wait()).map_err(Error::run(&self.program))?;
        }
        Ok(())
    }

    /// Sends a signal to the running process.
    pub(crate) fn signal(&self, signal: Signal, action: &'static str) -> Result<(), Error> {
        match running(&mut self.child()) {
            Some(child) => self.send(child, signal, action),
            None => Err(Error::NotRunning { action, component: self.component }),
        }
    }

    /// The process id while it runs.
    pub(crate) fn pid(&self) -> Option<u32> {
        running(&mut self.child()).map(|child| child.id())
    }

    /// An error if it was started and has ended by itself.
    pub(crate) fn check(&self) -> Result<(), Error> {
        match self.child().as_mut().map(Child::try_wait) {
            Some(Ok(Some(status))) => Err(Error::ComponentEnded {
                component: self.component,
                status: status.to_string(),
                last_lines: logs::last_lines(&self.log),
            }),
            _ => Ok(()),
        }
    }

    /// Lets go of the process: it runs on when this value is dropped.
    pub(crate) fn release(&self) {
        *self.child() = None;
    }

    fn child(&self) -> MutexGuard<'_, Option<Child>> {
        // A panic elsewhere leaves a child as it was: there is nothing half done to guard against.
        self.child.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The child has not been waited for, so its id can't belong to anybody else.
    fn send(&self, child: &Child, signal: Signal, action: &'static str) -> Result<(), Error> {
        let pid = Pid::from_raw(child.id().cast_signed());
        kill(pid, signal).map_err(|source| Error::Signal { action, component: self.component, source })
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if let Some(mut child) = self.child().take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn running(slot: &mut Option<Child>) -> Option<&mut Child> {
    let child = slot.as_mut()?;
    matches!(child.try_wait(), Ok(None)).then_some(child)
}
