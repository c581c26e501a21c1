//! One pod's container, as a process of this machine.

use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use devcluster::DevCluster;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};

use crate::error::Error;
use crate::ports::Ports;
use crate::probe;

/// Where every pod finds its account's token; a kubeconfig stands for it.
const TOKEN: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

/// A process that is what the pod's container would be. It ends when dropped.
#[derive(Debug)]
pub(crate) struct Container {
    name: String,
    namespace: String,
    labels: BTreeMap<String, String>,
    /// Ports of this machine by the names of the container's.
    listens: BTreeMap<String, u16>,
    words: Vec<String>,
    readiness: (u16, String),
    is_ready: bool,
    is_ending: bool,
    child: Child,
    _ports: Ports,
}

impl Container {
    /// Starts what the pod's only container says, but for what this machine has otherwise: `copyrator` in place of the
    /// image, addresses of its own, a kubeconfig in place of the mounted token.
    pub(crate) fn start(
        pod: &Value,
        cluster: &DevCluster,
        copyrator: &Path,
        kubeconfig: &Path,
        logs: &Path,
    ) -> Result<Container, Error> {
        let name = text(&pod["metadata"]["name"]);
        let spec = &pod["spec"]["containers"][0];
        let mounts = list(&spec["volumeMounts"]).iter().map(|mount| text(&mount["mountPath"]));
        if let Some(path) = mounts.into_iter().find(|path| path != TOKEN) {
            return Err(Error::Mount { pod: name, path });
        }
        let ports = Ports::reserve()?;
        let numbers = list(&spec["ports"]).iter().zip(0..).map(|(port, slot)| {
            (text(&port["name"]), (port["containerPort"].as_u64().unwrap_or(0), ports.admin(slot)))
        });
        let numbers: BTreeMap<String, (u64, u16)> = numbers.collect();
        let environment = environment(pod, spec);
        let words: Vec<String> = list(&spec["args"])
            .iter()
            .map(|word| here(&expanded(&text(word), &environment), numbers.values()))
            .collect();

        let probe = &spec["readinessProbe"]["httpGet"];
        let asked = numbers.get(&text(&probe["port"])).map_or(0, |(_, port)| *port);
        let path = logs.join(format!("{name}.log"));
        let failed = |source| Error::Log { path: path.clone(), source };
        let log = OpenOptions::new().append(true).create(true).open(&path).map_err(failed)?;
        let too = log.try_clone().map_err(failed)?;
        let mut command = Command::new(copyrator);
        command.env_clear().envs(environment).env("KUBECONFIG", kubeconfig).args(&words);
        cluster.tie(&mut command);
        command.stdin(Stdio::null()).stdout(log).stderr(too).process_group(0);
        let child = command.spawn().map_err(|source| Error::Run { program: copyrator.to_owned(), source })?;
        let labels = pod["metadata"]["labels"].as_object().into_iter().flatten();
        Ok(Container {
            namespace: text(&pod["metadata"]["namespace"]),
            labels: labels.map(|(key, value)| (key.clone(), text(value))).collect(),
            listens: numbers.into_iter().map(|(name, (_, port))| (name, port)).collect(),
            words,
            readiness: (asked, text(&probe["path"])),
            is_ready: false,
            is_ending: false,
            child,
            _ports: ports,
            name,
        })
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn namespace(&self) -> &str {
        &self.namespace
    }

    /// The arguments that the process has.
    pub(crate) fn words(&self) -> &[String] {
        &self.words
    }

    /// Where the process listens, if its pod is ready and a Service with this selector sends there.
    pub(crate) fn endpoint(&self, selector: &BTreeMap<String, String>, port: &str) -> Option<u16> {
        let selected = selector.iter().all(|(key, value)| self.labels.get(key) == Some(value));
        (self.is_ready && !self.is_ending && selected).then(|| self.listens.get(port).copied()).flatten()
    }

    /// Asks the process to end, once.
    pub(crate) fn end(&mut self) {
        if !self.is_ending {
            self.is_ending = true;
            // It may have ended by itself, which the next look sees.
            let _ = i32::try_from(self.child.id()).map(|id| kill(Pid::from_raw(id), Signal::SIGTERM));
        }
    }

    /// Looks at the process, by the pod's readiness probe for one.
    pub(crate) fn look(&mut self) -> Seen {
        if let Ok(Some(_)) = self.child.try_wait() {
            return if self.is_ending { Seen::Ended } else { Seen::Failed };
        }
        let (port, path) = &self.readiness;
        let is_ready = matches!(probe::get(*port, path), Ok((200, _)));
        if is_ready == self.is_ready {
            return Seen::AsBefore;
        }
        self.is_ready = is_ready;
        Seen::Ready(is_ready)
    }
}

impl Drop for Container {
    fn drop(&mut self) {
        // Either may find that it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What there is to tell of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Seen {
    /// Nothing new.
    AsBefore,
    /// Its readiness has changed.
    Ready(bool),
    /// It has ended as it was asked to.
    Ended,
    /// It has ended by itself.
    Failed,
}

/// The container's environment, and nothing of ours.
fn environment(pod: &Value, spec: &Value) -> BTreeMap<String, String> {
    let value = |entry: &Value| match entry["valueFrom"]["fieldRef"]["fieldPath"].as_str() {
        Some(path) => {
            text(&pod.pointer(&format!("/{}", path.replace('.', "/"))).cloned().unwrap_or(json!("")))
        }
        None => text(&entry["value"]),
    };
    list(&spec["env"]).iter().map(|entry| (text(&entry["name"]), value(entry))).collect()
}

/// `$(NAME)` as the kubelet expands it.
fn expanded(word: &str, environment: &BTreeMap<String, String>) -> String {
    let expand = |word: String, (name, value): (&String, &String)| word.replace(&format!("$({name})"), value);
    environment.iter().fold(word.to_owned(), expand)
}

/// An address that the container listens on becomes one of this machine's.
fn here<'a>(word: &str, mut numbers: impl Iterator<Item = &'a (u64, u16)>) -> String {
    let moved = word.split_once("-addr=").and_then(|(flag, address)| {
        let port = address.rsplit_once(':')?.1;
        let (_, here) = numbers.find(|(there, _)| there.to_string() == port)?;
        Some(format!("{flag}-addr=127.0.0.1:{here}"))
    });
    moved.unwrap_or_else(|| word.to_owned())
}

fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{environment, expanded, here};

    #[test]
    fn arguments_are_the_pods_own_but_for_addresses() {
        let pod = json!({"metadata": {"name": "web-1", "namespace": "ours"}});
        let field = json!({"fieldRef": {"fieldPath": "metadata.namespace"}});
        let spec = json!({"env": [{"name": "NS", "valueFrom": field}, {"name": "A", "value": "1"}]});
        let environment = environment(&pod, &spec);
        assert_eq!(expanded("--namespace=$(NS)", &environment), "--namespace=ours");
        assert_eq!(expanded("--x=$(OTHER)$(A)", &environment), "--x=$(OTHER)1");
        let numbers = [(8443, 30_001), (8080, 30_002)];
        assert_eq!(here("--admin-addr=0.0.0.0:8080", numbers.iter()), "--admin-addr=127.0.0.1:30002");
        assert_eq!(here("--webhook-addr=[::]:8443", numbers.iter()), "--webhook-addr=127.0.0.1:30001");
        for same in ["--webhook-service=copyrator-webhook:443", "--other-addr=0.0.0.0:1", "serve"] {
            assert_eq!(here(same, numbers.iter()), same);
        }
    }
}
