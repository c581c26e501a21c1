//! What a test does to one component.

use nix::sys::signal::Signal;

use super::{Component, Process};
use crate::cluster::DevCluster;
use crate::error::Error;
use crate::{nodes, ready};

/// One component of a running cluster. In a cluster that somebody else runs, everything here is refused.
#[derive(Clone, Copy, Debug)]
pub struct ComponentHandle<'a> {
    pub(crate) cluster: &'a DevCluster,
    pub(crate) component: Component,
}

impl ComponentHandle<'_> {
    /// Starts the component, unless it runs, on the ports it had, and waits until etcd or the API server
    /// answers. The others have no such sign, and those that were connected take some seconds to find an API
    /// server again: wait for what you expect of them.
    pub fn start(&self) -> Result<(), Error> {
        let process = self.process("start")?;
        if self.component == Component::Kwok && process.pid().is_none() {
            nodes::give_up_leases(self.cluster);
        }
        process.start(&self.cluster.folder)?;
        ready::component(self.cluster, self.component)
    }

    /// Asks the component to end, and ends it for good after a second. Fine if it has ended.
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

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::path::PathBuf;

    use super::{Component, DevCluster, Error};
    use crate::client::Client;
    use crate::folder::Folder;

    #[test]
    fn components_of_a_cluster_that_is_not_ours_are_left_alone() {
        let cluster = DevCluster {
            processes: Vec::new(),
            folder: Folder::create().unwrap(),
            ports: None,
            kubectl: Client { program: PathBuf::from("kubectl") },
            server_url: String::new(),
            ca_pem: String::new(),
            endpoint: serde_json::Value::Null,
            admin: PathBuf::new(),
            users: BTreeMap::new(),
            audit_log: None,
        };
        let api_server = cluster.component(Component::ApiServer);
        assert_eq!(api_server.pid(), None);
        for refused in [api_server.start(), api_server.stop(), api_server.pause(), api_server.resume()] {
            assert!(matches!(refused, Err(Error::NotOurs { .. })), "{refused:?}");
        }
    }
}
