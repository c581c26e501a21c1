//! Waits until a cluster, or one component of it, can be used.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::cluster::DevCluster;
use crate::control::Component;
use crate::error::Error;

/// Generous: on a loaded two-core machine several clusters may start at once.
const DEADLINE: Duration = Duration::from_secs(300);
/// Most looks are a process of kubectl, which takes a tenth of a second of a core.
const PAUSE: Duration = Duration::from_millis(250);

/// Waits until a component answers, for those that can be asked.
pub(crate) fn component(cluster: &DevCluster, component: Component) -> Result<(), Error> {
    match component {
        Component::Etcd => {
            etcd(cluster)?;
            // The API server takes a moment to find etcd again, unless it is stopped as well.
            if cluster.component(Component::ApiServer).pid().is_some() { api_server(cluster) } else { Ok(()) }
        }
        Component::ApiServer => api_server(cluster),
        Component::ControllerManager | Component::Scheduler | Component::Kwok => Ok(()),
    }
}

/// Waits until the API server finds itself ready, which includes the first roles and namespaces.
pub(crate) fn api_server(cluster: &DevCluster) -> Result<(), Error> {
    wait(cluster, "the API server to be ready", || {
        // Asking kubectl costs a process, so only once somebody listens.
        let address = cluster.server_url().trim_start_matches("https://");
        TcpStream::connect(address).map_err(|error| format!("{address}: {error}"))?;
        cluster.ask(&["get", "--raw", "/readyz"]).map_err(|error| error.to_string()).map(drop)
    })
}

/// Waits until the controllers and the nodes are up: Pods can be created and are given nodes.
pub(crate) fn workloads(cluster: &DevCluster, nodes: usize) -> Result<(), Error> {
    wait(cluster, "ServiceAccount default and ConfigMap kube-root-ca.crt in namespace default", || {
        let both = ["get", "--namespace=default", "--output=name", "serviceaccount/default"];
        let both = [&both[..], &["configmap/kube-root-ca.crt"]].concat();
        cluster.ask(&both).map_err(|error| error.to_string()).map(drop)
    })?;
    wait(cluster, &format!("{nodes} nodes to be ready"), || {
        let list = cluster.ask(&["get", "--raw", "/api/v1/nodes"]).map_err(|error| error.to_string())?;
        let list: Value = serde_json::from_str(&list).map_err(|error| error.to_string())?;
        let ready = list["items"].as_array().into_iter().flatten().filter(|node| takes_pods(node)).count();
        if ready >= nodes { Ok(()) } else { Err(format!("{ready} are")) }
    })
}

fn etcd(cluster: &DevCluster) -> Result<(), Error> {
    let Some(port) = cluster.ports.as_ref().map(|ports| ports.etcd) else { return Ok(()) };
    wait(cluster, "etcd to be healthy", || {
        let ask = || {
            let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
            stream.set_read_timeout(Some(Duration::from_secs(5)))?;
            stream.write_all(b"GET /health HTTP/1.0\r\n\r\n")?;
            let mut answer = String::new();
            stream.read_to_string(&mut answer)?;
            Ok::<_, std::io::Error>(answer)
        };
        match ask() {
            Ok(answer) if answer.contains("\"health\":\"true\"") => Ok(()),
            Ok(answer) => Err(answer),
            Err(error) => Err(error.to_string()),
        }
    })
}

/// Whether a node is ready and the controllers have noticed: they take away a new node's taint.
fn takes_pods(node: &Value) -> bool {
    let conditions = node["status"]["conditions"].as_array();
    let ready = |condition: &Value| condition["type"] == "Ready" && condition["status"] == "True";
    conditions.is_some_and(|all| all.iter().any(ready)) && node["spec"]["taints"].is_null()
}

/// Waits until `condition` no longer says what is amiss. A component that ends meanwhile ends the wait too.
fn wait(cluster: &DevCluster, what: &str, condition: impl Fn() -> Result<(), String>) -> Result<(), Error> {
    let start = Instant::now();
    loop {
        let seen = match condition() {
            Ok(()) => return Ok(()),
            Err(seen) => seen,
        };
        cluster.processes.iter().try_for_each(|process| process.check())?;
        if start.elapsed() > DEADLINE {
            return Err(Error::NotReady { what: what.to_owned(), seconds: DEADLINE.as_secs(), seen });
        }
        thread::sleep(PAUSE);
    }
}
