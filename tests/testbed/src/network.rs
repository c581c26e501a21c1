//! Plays the network between the API server and the chart's pods: calls to a Service end at a process of a ready pod.

use std::collections::BTreeMap;
use std::io::{self, BufRead, BufReader, Write};
use std::net::{Ipv4Addr, Shutdown, TcpStream};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};

use devcluster::DevCluster;
use serde_json::Value;

use crate::bed::run;
use crate::error::Error;
use crate::kubelet::Pods;

/// The network, while this value lives.
#[derive(Debug)]
pub(crate) struct Network {
    socket: PathBuf,
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Network {
    /// Takes calls from now on.
    pub(crate) fn open(cluster: Arc<DevCluster>, pods: Pods) -> Result<Network, Error> {
        let socket = cluster.services();
        let failed = |source| Error::Socket { path: socket.clone(), source };
        let listener = UnixListener::bind(&socket).map_err(failed)?;
        let is_over = Arc::new(AtomicBool::new(false));
        let routes = Arc::new(Routes { cluster, pods, known: Mutex::default(), turn: AtomicUsize::new(0) });
        let over = is_over.clone();
        let thread = thread::spawn(move || {
            for caller in listener.incoming() {
                if over.load(Ordering::Relaxed) {
                    return;
                }
                let (Ok(caller), routes) = (caller, routes.clone()) else { continue };
                // The peer at its other end hears of a broken connection.
                thread::spawn(move || drop(routes.connect(caller)));
            }
        });
        Ok(Network { socket, is_over, thread: Some(thread) })
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        // Wakes who waits for a connection.
        drop(UnixStream::connect(&self.socket));
        if let Some(thread) = self.thread.take() {
            drop(thread.join());
        }
    }
}

/// Where a Service's connections go.
type Route = (BTreeMap<String, String>, String);

struct Routes {
    cluster: Arc<DevCluster>,
    pods: Pods,
    /// Services that were asked for before, by `ADDRESS:PORT`.
    known: Mutex<BTreeMap<String, Route>>,
    turn: AtomicUsize,
}

impl Routes {
    /// Answers `CONNECT ADDRESS:PORT`, and passes on what follows.
    fn connect(&self, mut caller: UnixStream) -> io::Result<()> {
        let mut lines = BufReader::new(caller.try_clone()?).lines();
        let first = lines.next().transpose()?.unwrap_or_default();
        // Up to the empty line; what comes after it comes only once we have answered.
        while lines.next().transpose()?.is_some_and(|line| !line.is_empty()) {}
        let wanted = first.strip_prefix("CONNECT ").and_then(|rest| rest.split(' ').next());
        let port = wanted.and_then(|wanted| self.endpoint(wanted));
        let pod = port.and_then(|port| TcpStream::connect((Ipv4Addr::LOCALHOST, port)).ok());
        match pod {
            Some(pod) => {
                caller.write_all(b"HTTP/1.1 200 Connection established\r\n\r\n")?;
                pass_on(caller, pod)
            }
            None => caller.write_all(b"HTTP/1.1 503 No pod of that Service is ready\r\n\r\n"),
        }
    }

    /// The port of a ready pod, in turns.
    fn endpoint(&self, wanted: &str) -> Option<u16> {
        let (selector, port) = self.route(wanted)?;
        let pods = self.pods.lock();
        let ready: Vec<u16> = pods.values().filter_map(|pod| pod.endpoint(&selector, &port)).collect();
        let turn = self.turn.fetch_add(1, Ordering::Relaxed);
        ready.get(turn.checked_rem(ready.len())?).copied()
    }

    fn route(&self, wanted: &str) -> Option<Route> {
        let known = || self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(route) = known().get(wanted).cloned() {
            return Some(route);
        }
        let mut kubectl = self.cluster.kubectl();
        let services = run(kubectl.args(["get", "services", "--all-namespaces", "--output=json"])).ok()?;
        let services: Value = serde_json::from_str(&services).ok()?;
        let route = services["items"].as_array()?.iter().find_map(|service| route(service, wanted))?;
        known().insert(wanted.to_owned(), route.clone());
        Some(route)
    }
}

/// Passes on what each says, until both have said all.
fn pass_on(caller: UnixStream, pod: TcpStream) -> io::Result<()> {
    pod.set_nodelay(true)?;
    let (mut from_caller, mut to_caller) = (caller.try_clone()?, caller);
    let (mut from_pod, mut to_pod) = (pod.try_clone()?, pod);
    let asking = thread::spawn(move || {
        // Whichever way it ends, the other side hears that nothing more comes.
        drop(io::copy(&mut from_caller, &mut to_pod));
        drop(to_pod.shutdown(Shutdown::Write));
    });
    drop(io::copy(&mut from_pod, &mut to_caller));
    drop(to_caller.shutdown(Shutdown::Write));
    drop(asking.join());
    Ok(())
}

/// Whom a Service selects and which of their ports it means, if it is the one at this address.
fn route(service: &Value, wanted: &str) -> Option<Route> {
    let (address, number) = wanted.rsplit_once(':')?;
    if service["spec"]["clusterIP"] != address {
        return None;
    }
    let ports = service["spec"]["ports"].as_array()?;
    let port = ports.iter().find(|port| port["port"].as_u64() == number.parse().ok())?;
    let selector = service["spec"]["selector"].as_object()?.iter();
    let selector = selector.filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned())));
    Some((selector.collect(), port["targetPort"].as_str()?.to_owned()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::route;

    #[test]
    fn a_service_is_found_by_address_and_port() {
        let port = json!({"port": 443, "targetPort": "webhook"});
        let service = json!({"spec": {"clusterIP": "10.96.0.7", "ports": [port], "selector": {"app": "x"}}});
        let (selector, port) = route(&service, "10.96.0.7:443").expect("it is that one");
        assert_eq!((selector["app"].as_str(), port.as_str()), ("x", "webhook"));
        assert!(route(&service, "10.96.0.7:80").is_none() && route(&service, "10.96.0.8:443").is_none());
    }
}
