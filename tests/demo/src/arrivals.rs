//! When objects show up, seen on watches that are open before anything happens.

use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::{Duration, Instant};

use devcluster::DevCluster;
use serde_json::Value;

use crate::stage::Failure;

/// How long to wait for what should take milliseconds.
const PATIENCE: Duration = Duration::from_secs(30);

/// An open watch on one kind of object.
pub(crate) struct Arrivals {
    kubectl: Child,
    events: Receiver<(Instant, Value)>,
}

impl Arrivals {
    /// Opens a watch on a collection and waits until it has shown what there was.
    pub(crate) fn watch(cluster: &DevCluster, collection: &str, labels: &str) -> Result<Arrivals, Failure> {
        let path = format!(
            "{collection}?watch=true&labelSelector={labels}&allowWatchBookmarks=true\
             &sendInitialEvents=true&resourceVersionMatch=NotOlderThan"
        );
        let mut command = cluster.kubectl();
        command.args(["get", "--raw", &path]).stdout(Stdio::piped());
        let mut kubectl = command.spawn()?;
        let (send, events) = mpsc::sync_channel(1024);
        if let Some(output) = kubectl.stdout.take() {
            thread::spawn(move || {
                for line in BufReader::new(output).lines().map_while(Result::ok) {
                    let seen = Instant::now();
                    let event = serde_json::from_str(&line).unwrap_or_default();
                    if send.send((seen, event)).is_err() {
                        return;
                    }
                }
            });
        }
        let arrivals = Arrivals { kubectl, events };
        arrivals.next(|event| event["type"] == "BOOKMARK")?;
        Ok(arrivals)
    }

    /// When an object of this namespace and name was added; for a namespace, give its own name only.
    pub(crate) fn of(&self, namespace: &str, name: &str) -> Result<Instant, Failure> {
        let is_it = |event: &Value| {
            let meta = &event["object"]["metadata"];
            event["type"] == "ADDED"
                && meta["name"] == name
                && meta["namespace"].as_str().unwrap_or_default() == namespace
        };
        self.next(is_it)
    }

    fn next(&self, wanted: impl Fn(&Value) -> bool) -> Result<Instant, Failure> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            match self.events.recv_timeout(left) {
                Ok((seen, event)) if wanted(&event) => return Ok(seen),
                Ok(_) => {}
                Err(error) => return Err(Failure::new(format!("nothing came on a watch: {error}"))),
            }
        }
    }
}

impl Drop for Arrivals {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.kubectl.kill();
        let _ = self.kubectl.wait();
    }
}
