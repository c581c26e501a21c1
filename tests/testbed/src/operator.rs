//! One process of the operator.

use std::fs::{self, OpenOptions};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::bed::{PATIENCE, RELEASE};
use crate::error::Error;
use crate::probe;

/// What a process does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Answers the API server's calls.
    Webhook,
    /// Copies, restarts, and keeps the hooks.
    Reconciler,
    /// All of it in one process, as the reconciler's account: the chart's `topology: combined`.
    Both,
}

impl Role {
    /// As the chart's ServiceAccounts name it.
    pub fn name(self) -> &'static str {
        match self {
            Role::Webhook => "webhook",
            Role::Reconciler | Role::Both => "reconciler",
        }
    }

    /// As `--roles` names it.
    pub(crate) fn roles(self) -> &'static str {
        match self {
            Role::Both => "webhook,reconciler",
            one => one.name(),
        }
    }
}

/// One process of the operator. It ends when dropped, and with its cluster.
#[derive(Debug)]
pub struct Operator {
    pub(crate) role: Role,
    pub(crate) admin_port: u16,
    pub(crate) log: PathBuf,
    pod: String,
    child: Child,
}

impl Operator {
    pub(crate) fn start(
        mut command: Command,
        role: Role,
        admin_port: u16,
        log: PathBuf,
    ) -> Result<Operator, Error> {
        let opened = OpenOptions::new().append(true).create(true).open(&log);
        let file = opened.map_err(|source| Error::Log { path: log.clone(), source })?;
        let too = file.try_clone().map_err(|source| Error::Log { path: log.clone(), source })?;
        // Ctrl-C is for who holds the cluster, whose end is ours too.
        command.stdin(Stdio::null()).stdout(file).stderr(too).process_group(0);
        let program = PathBuf::from(command.get_program());
        let child = command.spawn().map_err(|source| Error::Run { program, source })?;
        // The log is called after role and replica, as the pod is.
        let called = log.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
        Ok(Operator { role, admin_port, log, pod: format!("{RELEASE}-{called}"), child })
    }

    /// Waits until the process says that it is ready.
    pub fn wait_ready(&mut self) -> Result<(), Error> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let seen = match probe::get(self.admin_port, "/readyz") {
                Ok((200, _)) => return Ok(()),
                Ok((code, body)) => {
                    format!("is not ready after {} s: {code} {}", PATIENCE.as_secs(), body.trim())
                }
                Err(error) => format!("does not answer after {} s: {error}", PATIENCE.as_secs()),
            };
            if let Ok(Some(status)) = self.child.try_wait() {
                return Err(self.not_ready(format!("ended ({status})")));
            }
            if Instant::now() > deadline {
                return Err(self.not_ready(seen));
            }
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// The body of `GET path` on the plain port, whatever the status code.
    pub fn ask(&self, path: &str) -> std::io::Result<(u16, String)> {
        probe::get(self.admin_port, path)
    }

    /// Ends the process at once, as a crash would.
    pub fn kill(self) {
        drop(self);
    }

    /// Asks the process to end, as the kubelet would, and waits until it has.
    pub fn terminate(mut self) -> std::io::Result<ExitStatus> {
        self.end()
    }

    /// The same, where its place is kept for the next one.
    pub fn end(&mut self) -> std::io::Result<ExitStatus> {
        self.signal(Signal::SIGTERM)?;
        self.child.wait()
    }

    /// Stops the process in its tracks: its connections stay open, nothing answers.
    pub fn pause(&self) -> std::io::Result<()> {
        self.signal(Signal::SIGSTOP)
    }

    /// Has a paused process go on.
    pub fn resume(&self) -> std::io::Result<()> {
        self.signal(Signal::SIGCONT)
    }

    /// Whether the process runs.
    pub fn is_running(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// Lets the process run on, as long as its cluster does.
    pub fn keep(self) {
        std::mem::forget(self);
    }

    /// What the process does.
    pub fn role(&self) -> Role {
        self.role
    }

    /// The name of its pod.
    pub fn pod(&self) -> &str {
        &self.pod
    }

    /// The process's id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Everything the process has logged, also in earlier lives.
    pub fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }

    fn signal(&self, signal: Signal) -> std::io::Result<()> {
        let pid = i32::try_from(self.child.id()).map_err(std::io::Error::other)?;
        kill(Pid::from_raw(pid), signal).map_err(std::io::Error::from)
    }

    fn not_ready(&self, what: String) -> Error {
        let log = self.log();
        let lines: Vec<&str> = log.lines().collect();
        let log = lines[lines.len().saturating_sub(20)..].join("\n");
        Error::NotReady { role: self.role.name(), what, log }
    }
}

impl Drop for Operator {
    fn drop(&mut self) {
        // Either may find that it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
