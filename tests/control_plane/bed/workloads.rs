//! Workloads and what runs of them.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::objects::{self, label, uid};
use super::{Story, eventually, same};

/// Label of a workload: the content it runs with.
const APPLIED: &str = "copyrator.dev/applied";

impl Story<'_> {
    /// Makes a Deployment at home with one pod labelled `app: <name>` that takes its environment from these
    /// ConfigMaps, and waits until it runs.
    #[track_caller]
    pub fn deploy(&self, name: &str, config_maps: &[&str]) {
        let sources: Vec<Value> =
            config_maps.iter().map(|name| json!({ "configMapRef": { "name": name } })).collect();
        self.admin().create(&objects::deployment(&self.home, name, json!({ "envFrom": sources }))).ok();
        self.until_running(name);
    }

    /// A monitor of ConfigMaps at home, without pauses.
    pub fn monitor(&self, watched: &[&str], workloads: Value) -> Value {
        let mut spec = json!({
            "watch": [{ "kind": "ConfigMap", "names": watched }],
            "pace": { "quietPeriod": "0s", "minInterval": "0s" },
        });
        if !workloads.is_null() {
            spec["workloads"] = workloads;
        }
        objects::ours("ConfigMonitor", &self.home, "monitor", spec)
    }

    /// Waits until the monitor counts so many workloads in each of these states (`waiting`, `upToDate`), and no others.
    #[track_caller]
    pub fn until_counted<const N: usize>(&self, wanted: [(&str, u64); N]) {
        eventually(&format!("the monitor in {} counts {wanted:?}", self.home), || {
            let monitor =
                self.admin().get("ConfigMonitor", &self.home, "monitor").ok_or("it does not exist")?;
            let status = &monitor["status"];
            let is_current = status["observedGeneration"] == monitor["metadata"]["generation"];
            let all: u64 = wanted.iter().map(|(_, count)| count).sum();
            let is_it =
                status["workloads"] == all && wanted.iter().all(|(state, count)| status[*state] == *count);
            if is_current && is_it { Ok(()) } else { Err(status.to_string()) }
        });
    }

    /// Ends the monitor's quiet period, which a story begins with an hour of: no machine is too busy for what is to happen in it.
    pub fn end_quiet_period(&self) {
        let over = json!({ "spec": { "pace": { "quietPeriod": "0s" } } });
        self.admin().merge("ConfigMonitor", &self.home, "monitor", &over).ok();
    }

    /// The pods labelled `app: <name>` that are to stay.
    pub fn pods(&self, name: &str) -> Vec<Value> {
        let mut pods = self.admin().list("Pod", &self.home, &format!("app={name}"));
        pods.retain(|pod| pod["metadata"]["deletionTimestamp"].is_null());
        pods
    }

    /// Waits until a Deployment has rolled out: the one pod that runs.
    #[track_caller]
    pub fn until_running(&self, name: &str) -> String {
        eventually(&format!("Deployment {}/{name} runs", self.home), || {
            let deployment = self.admin().get("Deployment", &self.home, name).ok_or("it does not exist")?;
            let status = &deployment["status"];
            let pods = self.pods(name);
            let settled = status["observedGeneration"] == deployment["metadata"]["generation"]
                && (&status["updatedReplicas"], &status["readyReplicas"], &status["replicas"])
                    == (&json!(1), &json!(1), &json!(1));
            match &pods[..] {
                [pod] if settled => Ok(uid(pod)),
                _ => Err(format!("{} pods, {status}", pods.len())),
            }
        })
    }

    /// Waits until the operator has noted what a Deployment runs with.
    #[track_caller]
    pub fn until_adopted(&self, name: &str) -> String {
        eventually(&format!("Deployment {}/{name} is marked with its content", self.home), || {
            let deployment = self.admin().get("Deployment", &self.home, name).ok_or("it does not exist")?;
            label(&deployment, APPLIED).map(str::to_owned).ok_or_else(|| "no label".to_owned())
        })
    }

    /// Waits until a Deployment runs another pod than `before`, and no other.
    #[track_caller]
    pub fn until_restarted(&self, name: &str, before: &str) -> String {
        eventually(&format!("Deployment {}/{name} restarts", self.home), || {
            let pods: Vec<String> = self.pods(name).iter().map(uid).collect();
            if pods.len() == 1 && pods[0] != before {
                Ok(())
            } else {
                Err(format!("{pods:?}, {before} before"))
            }
        });
        self.until_running(name)
    }

    /// How many times a Deployment has rolled out.
    pub fn revisions(&self, name: &str) -> usize {
        self.admin().list("ReplicaSet", &self.home, &format!("app={name}")).len()
    }

    /// How many times a Deployment has rolled out, also back to a ReplicaSet that it had before.
    pub fn rollouts(&self, name: &str) -> usize {
        let deployment = self.admin().get("Deployment", &self.home, name).expect("it is there");
        let revision = objects::annotation(&deployment, "deployment.kubernetes.io/revision");
        revision.and_then(|number| number.parse().ok()).unwrap_or(0)
    }

    /// The annotation of ours on a Deployment's pod template.
    pub fn stamp(&self, name: &str) -> Option<String> {
        let deployment = self.admin().get("Deployment", &self.home, name).expect("it is there");
        let stamp = objects::annotation(&deployment["spec"]["template"], "copyrator.dev/restarted-for");
        stamp.map(str::to_owned)
    }

    /// Lets the pods labelled `app: <name>` start that [`objects::gated`] holds.
    pub fn lift(&self, name: &str) {
        eventually(&format!("every pod of {name} may start"), || {
            let pods = self.pods(name);
            for pod in pods.iter().filter(|pod| pod["spec"]["schedulingGates"].is_array()) {
                let open = json!({ "spec": { "schedulingGates": null } });
                let name = pod["metadata"]["name"].as_str().unwrap_or_default();
                self.admin().merge("Pod", &self.home, name, &open);
            }
            let is_held = pods.is_empty() || pods.iter().any(|pod| pod["spec"]["schedulingGates"].is_array());
            if is_held { Err(format!("{} pods", pods.len())) } else { Ok(()) }
        });
    }

    /// Waits until the API server's clock shows so much more than now.
    pub fn until_later(&self, seconds: u64) {
        let clock = || -> jiff::Timestamp {
            let probe = objects::config_map("default", "clock", []);
            let made = self.admin().try_create(&probe).ok();
            let time = made["metadata"]["creationTimestamp"].as_str().map(str::to_owned);
            time.and_then(|time| time.parse().ok()).expect("a time")
        };
        // The first of them may be almost over.
        let end = clock() + std::time::Duration::from_secs(seconds + 1);
        eventually("time passes", || {
            let now = clock();
            if now >= end { Ok(()) } else { Err(now.to_string()) }
        });
    }

    /// Waits until the pods labelled `app: <name>` are these.
    #[track_caller]
    pub fn until_pods(&self, name: &str, wanted: &[&str]) {
        let wanted: BTreeSet<String> = wanted.iter().map(ToString::to_string).collect();
        eventually(&format!("the pods of {name} are {wanted:?}"), || {
            let seen = self
                .pods(name)
                .iter()
                .filter_map(|pod| pod["metadata"]["name"].as_str().map(str::to_owned))
                .collect();
            same(seen, wanted.clone())
        });
    }

    /// Waits until all pods at home are old enough that a change from now on is surely younger: times have seconds.
    pub fn until_older_than_now(&self) {
        let pods = self.admin().list("Pod", &self.home, "");
        let times = pods.iter().filter_map(|pod| pod["metadata"]["creationTimestamp"].as_str());
        let youngest = times.max().map(str::to_owned);
        let youngest = youngest.expect("there are pods");
        eventually("the clock shows a later second than the youngest pod's", || {
            let probe = objects::config_map("default", "clock", []);
            let now = self.admin().try_create(&probe).ok()["metadata"]["creationTimestamp"]
                .as_str()
                .map(str::to_owned);
            let now = now.unwrap_or_default();
            if now > youngest { Ok(()) } else { Err(now) }
        });
    }
}
