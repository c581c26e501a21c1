//! What a test does to one component.

use nix::sys::signal::Signal;

use super::{Component, Process};
use crate::cluster::DevCluster;
use crate::error::Error;
use crate::ready;

/// One component of a running cluster. In a cluster that somebody else runs, everything here is refused.
#[derive(Clone, Copy, Debug)]
pub struct ComponentHandle<'a> {
    pub(crate) cluster: &'a DevCluster,
    pub(crate) component: Component,
}

impl ComponentHandle<'_> {
    /// Starts the component, unless it runs, on the ports it had, and waits until etcd or the API server
    /// answers; the others have no such sign.
    pub fn start(&self) -> Result<(), Error> {
        self.process("start")?.start(&self.cluster.folder)?;
        ready::component(self.cluster, self.component)
    }

    /// Asks the component to end, and ends it for good after a few seconds. Fine if it has ended.
    pub fn stop(&self) -> Result<(), Error> {
        self.process("stop")?.stop(Signal::SIGTERM)
    }

    /// Ends the component at once, as a crash would. Fine if it has ended.
    pub fn kill(&self) -> Result<(), Error> {
        self.process("kill")?.stop(Signal::SIGKILL)
    }

    /// [`stop`](Self::stop) and [`start`](Self::start).
    pub fn restart(&self) -> Result<(), Error> {
        self.stop()?;
        self.start()
    }

    /// Stops the component in its tracks: connections stay open, nothing answers.
    pub fn pause(&self) -> Result<(), Error> {
        self.process("pause")?.signal(Signal::SIGSTOP, "pause")
    }

    /// Has a paused component go on.
    pub fn resume(&self) -> Result<(), Error> {
        self.process("resume")?.signal(Signal::SIGCONT, "resume")
    }

    /// The component's process id while it runs.
    pub fn pid(&self) -> Option<u32> {
        self.process("find").ok()?.pid()
    }

    fn process(&self, action: &'static str) -> Result<&Process, Error> {
        let component = self.component;
        let process = self.cluster.processes.iter().find(|process| process.component == component);
        process.ok_or(Error::NotOurs { action, component })
    }
}
