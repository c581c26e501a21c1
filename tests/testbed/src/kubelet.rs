//! Plays the kubelet for the chart's pods: starts and ends their processes, and says how they are.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use devcluster::DevCluster;
use serde_json::{Value, json};

use crate::bed::run;
use crate::container::{Container, Seen};
use crate::error::Error;
use crate::playground::PODS;

/// How often each process is looked at.
const LOOK: Duration = Duration::from_millis(100);

/// The pods that run here, by their UIDs.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pods(Arc<Mutex<BTreeMap<String, Container>>>);

impl Pods {
    pub(crate) fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Container>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The kubelet, while this value lives; its pods' processes end with it.
#[derive(Debug)]
pub(crate) struct Kubelet {
    pods: Pods,
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Kubelet {
    pub(crate) fn start(cluster: Arc<DevCluster>, copyrator: &Path, logs: &Path) -> Kubelet {
        let (pods, is_over) = (Pods::default(), Arc::new(AtomicBool::new(false)));
        let work = Work {
            pods: pods.clone(),
            is_over: is_over.clone(),
            cluster,
            copyrator: copyrator.to_owned(),
            logs: logs.to_owned(),
        };
        Kubelet { pods, is_over, thread: Some(thread::spawn(move || work.go_on())) }
    }

    pub(crate) fn pods(&self) -> Pods {
        self.pods.clone()
    }
}

impl Drop for Kubelet {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // A panic there has been printed.
            drop(thread.join());
        }
        self.pods.lock().clear();
    }
}

/// What the thread works with.
struct Work {
    pods: Pods,
    is_over: Arc<AtomicBool>,
    cluster: Arc<DevCluster>,
    copyrator: PathBuf,
    logs: PathBuf,
}

impl Work {
    fn go_on(&self) {
        while !self.is_over.load(Ordering::Relaxed) {
            match Watch::open(&self.cluster) {
                Ok(watch) => self.follow(&watch),
                // No API server: it may come.
                Err(_) => thread::sleep(LOOK),
            }
        }
    }

    /// Until the watch ends, as the API server's do now and then.
    fn follow(&self, watch: &Watch) {
        while !self.is_over.load(Ordering::Relaxed) {
            match watch.events.recv_timeout(LOOK) {
                Ok(event) => self.saw(&event),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
            self.look();
        }
    }

    fn saw(&self, event: &Value) {
        let pod = &event["object"];
        let uid = pod["metadata"]["uid"].as_str().unwrap_or_default();
        let is_known = self.pods.lock().contains_key(uid);
        let is_scheduled = pod["spec"]["nodeName"].is_string();
        let is_over = matches!(pod["status"]["phase"].as_str(), Some("Failed" | "Succeeded"));
        let is_leaving = !pod["metadata"]["deletionTimestamp"].is_null();
        match event["type"].as_str() {
            Some("DELETED") => drop(self.pods.lock().remove(uid)),
            Some("ADDED" | "MODIFIED") if is_leaving => match self.pods.lock().get_mut(uid) {
                Some(container) => container.end(),
                None if is_scheduled => self.remove(pod),
                None => {}
            },
            Some("ADDED" | "MODIFIED") if is_scheduled && !is_known && !is_over => self.start(pod, uid),
            _ => {}
        }
    }

    fn start(&self, pod: &Value, uid: &str) {
        let kubeconfig = self.token(pod, uid);
        let started = kubeconfig.and_then(|kubeconfig| {
            Container::start(pod, &self.cluster, &self.copyrator, &kubeconfig, &self.logs)
        });
        match started {
            Ok(container) => {
                self.pods.lock().insert(uid.to_owned(), container);
                self.tell(pod, status("Running", false, ""));
            }
            Err(error) => self.tell(pod, status("Failed", false, &error.to_string())),
        }
    }

    /// A kubeconfig with a token of the pod's account that ends with the pod, as its volume would have.
    fn token(&self, pod: &Value, uid: &str) -> Result<PathBuf, Error> {
        let metadata = |field: &str| pod["metadata"][field].as_str().unwrap_or_default();
        let account = pod["spec"]["serviceAccountName"].as_str().unwrap_or("default");
        let mut kubectl = self.cluster.kubectl();
        kubectl.args(["create", "token", account, "--namespace", metadata("namespace"), "--duration=24h"]);
        kubectl.args(["--bound-object-kind=Pod", "--bound-object-name", metadata("name")]);
        kubectl.args(["--bound-object-uid", uid]);
        Ok(self.cluster.kubeconfig_with_token(metadata("name"), run(&mut kubectl)?.trim())?)
    }

    fn look(&self) {
        let mut news = Vec::new();
        self.pods.lock().retain(|_, container| {
            let seen = container.look();
            let pod = json!({"metadata": {"name": container.name(), "namespace": container.namespace()}});
            news.push((pod, seen));
            !matches!(seen, Seen::Ended | Seen::Failed)
        });
        for (pod, seen) in news {
            match seen {
                Seen::AsBefore => {}
                Seen::Ready(is_ready) => self.tell(&pod, status("Running", is_ready, "")),
                Seen::Ended => self.remove(&pod),
                Seen::Failed => self.tell(&pod, status("Failed", false, "the process has ended by itself")),
            }
        }
    }

    /// Writes a pod's status. A pod that is gone has none, and an API server that is gone is asked no more.
    fn tell(&self, pod: &Value, status: Value) {
        let patch = json!({ "status": status }).to_string();
        self.kubectl(pod, &["patch", "--subresource=status", "--type=strategic", "--patch", &patch]);
    }

    /// Takes a pod away whose process has ended.
    fn remove(&self, pod: &Value) {
        self.kubectl(pod, &["delete", "--grace-period=0", "--force", "--wait=false", "--ignore-not-found"]);
    }

    fn kubectl(&self, pod: &Value, arguments: &[&str]) {
        let metadata = |field: &str| pod["metadata"][field].as_str().unwrap_or_default();
        let mut kubectl = self.cluster.kubectl();
        let (verb, more) = arguments.split_at(1);
        kubectl.args(verb).args(["pod", metadata("name"), "--namespace", metadata("namespace")]).args(more);
        drop(run(&mut kubectl));
    }
}

/// A pod's status, as far as Deployments, Services and people ask for it.
fn status(phase: &str, is_ready: bool, message: &str) -> Value {
    let condition =
        |kind: &str, holds: bool| json!({"type": kind, "status": if holds { "True" } else { "False" }});
    json!({
        "phase": phase,
        "message": message,
        // `kubectl get pods` counts these.
        "containerStatuses": [{
            "name": "copyrator",
            "image": "",
            "imageID": "",
            "ready": is_ready,
            "started": true,
            "restartCount": 0,
            "state": if phase == "Running" { json!({"running": {}}) } else { json!({"terminated": {"exitCode": 1}}) },
        }],
        "conditions": [
            condition("Initialized", true),
            condition("ContainersReady", is_ready),
            condition("Ready", is_ready),
        ],
    })
}

/// An open watch on the chart's pods.
struct Watch {
    kubectl: Child,
    events: Receiver<Value>,
}

impl Watch {
    fn open(cluster: &DevCluster) -> Result<Watch, Error> {
        let path =
            format!("/api/v1/pods?watch=true&labelSelector={}", PODS.replace('/', "%2F").replace('=', "%3D"));
        let mut command = cluster.kubectl();
        command.args(["get", "--raw", &path]).stdout(Stdio::piped()).stderr(Stdio::null());
        let program = PathBuf::from(command.get_program());
        let mut kubectl = command.spawn().map_err(|source| Error::Run { program, source })?;
        let (send, events) = mpsc::sync_channel(64);
        if let Some(output) = kubectl.stdout.take() {
            // Ends with kubectl.
            thread::spawn(move || {
                for line in BufReader::new(output).lines().map_while(Result::ok) {
                    if send.send(serde_json::from_str(&line).unwrap_or_default()).is_err() {
                        return;
                    }
                }
            });
        }
        Ok(Watch { kubectl, events })
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.kubectl.kill();
        let _ = self.kubectl.wait();
    }
}
