//! It is fresh: what uses changed content restarts, once, and nothing else does.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::bed::objects::{annotation, config_map, deployment, label};
use crate::bed::{Story, eventually, peaceful};

/// ConfigMonitor's own story: a modified ConfigMap restarts exactly the pods of its selector.
#[test]
fn a_modified_config_map_restarts_exactly_the_pods_of_its_selector() {
    let story = Story::new(peaceful(), "selected");
    story.admin().apply(&config_map(&story.home, "web-config", [("colour", "blue")])).ok();
    story.deploy("web", &[]);
    story.deploy("other", &["web-config"]);
    let pods = json!({ "podSelector": { "matchLabels": { "app": "web" } } });
    story.admin().create(&story.monitor(&["web-config"], pods)).ok();
    story.until_adopted("web");
    let (first, bystander) = (story.until_running("web"), story.until_running("other"));
    assert_eq!(story.revisions("web"), 1, "adoption restarted");

    story.admin().apply(&config_map(&story.home, "web-config", [("colour", "red")])).ok();
    let second = story.until_restarted("web", &first);
    story.until_older_than_now();
    story.admin().apply(&config_map(&story.home, "web-config", [("colour", "green")])).ok();
    story.until_restarted("web", &second);
    assert_eq!(story.revisions("web"), 3, "one restart a change");
    assert_eq!(story.until_running("other"), bystander, "what the selector does not find restarted");
}

#[test]
fn without_workloads_a_monitor_restarts_what_references_the_object() {
    let story = Story::new(peaceful(), "referencing");
    story.admin().apply(&config_map(&story.home, "app", [("used", "1"), ("unused", "1")])).ok();
    story.admin().apply(&config_map(&story.home, "unrelated", [("k", "1")])).ok();
    story.deploy("from", &["app"]);
    story.deploy("elsewhere", &["unrelated"]);
    let key = json!({ "env": [{ "name": "X", "valueFrom": { "configMapKeyRef": { "name": "app", "key": "used" } } }] });
    story.admin().create(&deployment(&story.home, "by-key", key)).ok();
    story.admin().create(&story.monitor(&["app"], json!(null))).ok();
    for name in ["from", "by-key"] {
        story.until_adopted(name);
    }
    let before = ["from", "by-key", "elsewhere"].map(|name| story.until_running(name));
    story.until_older_than_now();

    // A key that a workload does not use is nothing to it.
    story.admin().apply(&config_map(&story.home, "app", [("used", "1"), ("unused", "2")])).ok();
    story.until_restarted("from", &before[0]);
    assert_eq!(story.until_running("by-key"), before[1], "restarted for a key it does not use");
    story.until_older_than_now();
    story.admin().apply(&config_map(&story.home, "app", [("used", "2"), ("unused", "2")])).ok();
    story.until_restarted("by-key", &before[1]);
    assert_eq!(story.until_running("elsewhere"), before[2], "restarted for nothing");
    assert_eq!(story.revisions("by-key"), 2);
}

/// A write that says nothing new is no reason to restart (config-syncer#474: Deployments flapped until out of memory).
#[test]
fn writes_that_leave_the_content_alone_restart_nobody() {
    let story = Story::new(peaceful(), "untouched");
    story.admin().apply(&config_map(&story.home, "app", [("k", "1")])).ok();
    story.deploy("web", &["app"]);
    story.admin().create(&story.monitor(&["app"], json!(null))).ok();
    let applied = story.until_adopted("web");
    let before = story.until_running("web");
    story.until_older_than_now();
    let note = |value: &str| json!({ "metadata": { "annotations": { "example.com/note": value } } });
    story.admin().merge("ConfigMap", &story.home, "app", &note("a")).ok();
    story.admin().merge("ConfigMap", &story.home, "app", &note("b")).ok();
    story.marker("then");
    assert_eq!(story.until_running("web"), before);
    assert_eq!((story.revisions("web"), story.until_adopted("web")), (1, applied));
    // It is not asleep: content does restart it.
    story.admin().apply(&config_map(&story.home, "app", [("k", "2")])).ok();
    story.until_restarted("web", &before);
}

/// An update that only takes keys away moves no managedFields time; a reconciler that knew the key has to see that it has gone.
#[test]
fn a_removed_key_restarts_what_used_it() {
    let story = Story::new(peaceful(), "removed-key");
    story.admin().apply(&config_map(&story.home, "app", [("kept", "1"), ("removed", "1")])).ok();
    story.deploy("web", &["app"]);
    story.admin().create(&story.monitor(&["app"], json!(null))).ok();
    story.until_adopted("web");
    // The pod is younger than the record, so that the record says nothing of it.
    let adopted = story.until_running("web");
    story.until_older_than_now();
    let pod = story.pods("web").remove(0)["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    story.admin().delete("Pod", &story.home, &pod).ok();
    let before = story.until_restarted("web", &adopted);
    story.until_older_than_now();
    let times = || -> Vec<Value> {
        let object = story.admin().get("ConfigMap", &story.home, "app").expect("it is there");
        let entries = object["metadata"]["managedFields"].as_array().expect("it has some").clone();
        entries.into_iter().map(|mut entry| entry["time"].take()).collect()
    };
    let written = times();
    let patch = json!({ "data": { "removed": null } });
    story.admin().merge("ConfigMap", &story.home, "app", &patch).ok();
    assert_eq!(times(), written, "a time tells of it after all");
    let after = story.until_restarted("web", &before);
    // A write that leaves the content alone must not make it forgotten, nor happen again.
    let note = json!({ "metadata": { "annotations": { "example.com/note": "x" } } });
    story.admin().merge("ConfigMap", &story.home, "app", &note).ok();
    story.marker("then");
    assert_eq!((story.until_running("web"), story.revisions("web")), (after, 2));
}

/// Who says that something else counts has changed no content.
#[test]
fn a_change_of_what_counts_restarts_nobody() {
    let story = Story::new(peaceful(), "what-counts");
    for name in ["app", "extra"] {
        story.admin().apply(&config_map(&story.home, name, [("k", "1")])).ok();
    }
    story.deploy("web", &["app", "extra"]);
    let before = story.until_running("web");
    story.until_older_than_now();
    // Younger than the pods, and then adopted.
    for name in ["app", "extra"] {
        story.admin().apply(&config_map(&story.home, name, [("k", "2")])).ok();
    }
    let mut monitor = story.monitor(&["app", "extra"], json!(null));
    story.admin().apply(&monitor).ok();
    let mut applied = story.until_adopted("web");
    let mut until_recorded = |what: &str| {
        let before = applied.clone();
        applied = eventually(what, || {
            let now = story.until_adopted("web");
            if now == before { Err(now) } else { Ok(now) }
        });
    };
    let exempt = |value: Value| json!({ "metadata": { "annotations": { "copyrator.dev/restart": value } } });
    story.admin().merge("ConfigMap", &story.home, "extra", &exempt("false".into())).ok();
    until_recorded("one of two objects restarts nobody any more");
    story.admin().merge("ConfigMap", &story.home, "extra", &exempt(Value::Null)).ok();
    until_recorded("it counts again");
    monitor["spec"]["watch"][0]["keys"] = json!(["k"]);
    story.admin().apply(&monitor).ok();
    until_recorded("only one key counts");
    monitor["spec"]["watch"][0]["names"] = json!(["app"]);
    story.admin().apply(&monitor).ok();
    until_recorded("only one object counts");
    story.marker("then");
    assert_eq!((story.until_running("web"), story.revisions("web")), (before.clone(), 1));
    // It is not asleep.
    story.admin().apply(&config_map(&story.home, "app", [("k", "3")])).ok();
    story.until_restarted("web", &before);
}

/// `numberAvailable` of a DaemonSet never reaches all nodes while one is down: that is no rollout.
#[test]
fn a_pod_that_is_not_ready_holds_up_no_restart() {
    let story = Story::new(peaceful(), "not-ready");
    story.admin().apply(&config_map(&story.home, "app", [("k", "1")])).ok();
    let references = json!({ "envFrom": [{ "configMapRef": { "name": "app" } }] });
    for (kind, name) in [("DaemonSet", "agent"), ("StatefulSet", "db")] {
        let mut workload = deployment(&story.home, name, references.clone());
        workload["kind"] = kind.into();
        match kind {
            "DaemonSet" => drop(workload["spec"].as_object_mut().expect("a spec").remove("replicas")),
            _ => workload["spec"]["podManagementPolicy"] = "Parallel".into(),
        }
        story.admin().create(&workload).ok();
    }
    story.admin().create(&story.monitor(&["app"], json!(null))).ok();
    for (kind, name) in [("DaemonSet", "agent"), ("StatefulSet", "db")] {
        eventually(&format!("{kind} {name} runs and is adopted"), || {
            let workload = story.admin().get(kind, &story.home, name).ok_or("it is gone")?;
            let (pods, status) = (story.pods(name), &workload["status"]);
            let wanted = status["desiredNumberScheduled"].as_u64().or(status["replicas"].as_u64());
            let available = status["numberAvailable"].as_u64().or(status["readyReplicas"].as_u64());
            let is_adopted = label(&workload, "copyrator.dev/applied").is_some();
            if is_adopted && !pods.is_empty() && available == wanted {
                Ok(())
            } else {
                Err(workload.to_string())
            }
        });
        let pod = story.pods(name).remove(0)["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        let unready = json!({ "status": { "conditions": [{ "type": "Ready", "status": "False" }] } });
        story.admin().merge("Pod", &story.home, &format!("{pod}/status"), &unready).ok();
        eventually(&format!("{kind} {name} misses a pod"), || {
            let status = story.admin().get(kind, &story.home, name).ok_or("it is gone")?["status"].take();
            let missing =
                status["numberUnavailable"] == 1 || status["readyReplicas"].as_u64().unwrap_or(0) == 0;
            if missing { Ok(()) } else { Err(status.to_string()) }
        });
    }
    story.until_older_than_now();
    story.admin().apply(&config_map(&story.home, "app", [("k", "2")])).ok();
    for (kind, name) in [("DaemonSet", "agent"), ("StatefulSet", "db")] {
        eventually(&format!("{kind} {name} restarts"), || {
            let workload = story.admin().get(kind, &story.home, name).ok_or("it is gone")?;
            let template = &workload["spec"]["template"];
            annotation(template, "copyrator.dev/restarted-for")
                .map(drop)
                .ok_or(workload["status"].to_string())
        });
    }
}

#[test]
fn a_workload_that_others_keep_writing_restarts_all_the_same() {
    let story = Story::new(peaceful(), "unsettled");
    story.admin().apply(&config_map(&story.home, "app", [("k", "1")])).ok();
    story.deploy("web", &["app"]);
    story.admin().create(&story.monitor(&["app"], json!(null))).ok();
    story.until_adopted("web");
    let before = story.until_running("web");
    story.until_older_than_now();
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for turn in 0.. {
                if is_over.load(Ordering::Relaxed) {
                    return;
                }
                let (label, begun) =
                    (json!({ "metadata": { "labels": { "turn": turn.to_string() } } }), Instant::now());
                let answer = story.admin().merge("Deployment", &story.home, "web", &label);
                // Others are in its way, too.
                assert!(answer.code < 300 || answer.code == 409, "{}", answer.body);
                // Often enough to be in the way, not so often that nobody else could ever write: on a busy machine a write
                // takes others as long as it took this one.
                std::thread::sleep((begun.elapsed() * 5).max(Duration::from_millis(50)));
            }
        });
        story.admin().apply(&config_map(&story.home, "app", [("k", "2")])).ok();
        let restarted = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            story.until_restarted("web", &before);
        }));
        is_over.store(true, Ordering::Relaxed);
        restarted.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    });
    assert_eq!(story.revisions("web"), 2);
}

#[test]
fn the_annotation_restarts_a_workload_without_any_monitor() {
    let story = Story::new(peaceful(), "annotated");
    for name in ["used", "listed"] {
        story.admin().apply(&config_map(&story.home, name, [("k", "1")])).ok();
    }
    let references = json!({ "envFrom": [{ "configMapRef": { "name": "used" } }] });
    for (name, value) in [("every", "true"), ("some", "configmap/listed")] {
        let mut workload = deployment(&story.home, name, references.clone());
        workload["metadata"]["annotations"] = json!({ "copyrator.dev/restart": value });
        story.admin().create(&workload).ok();
        story.until_adopted(name);
    }
    let (every, some) = (story.until_running("every"), story.until_running("some"));
    story.until_older_than_now();
    story.admin().apply(&config_map(&story.home, "used", [("k", "2")])).ok();
    let every = story.until_restarted("every", &every);
    assert_eq!(story.until_running("some"), some, "restarted for what it does not list");
    story.until_older_than_now();
    story.admin().apply(&config_map(&story.home, "listed", [("k", "2")])).ok();
    story.until_restarted("some", &some);
    assert_eq!(story.until_running("every"), every, "restarted for what it does not use");
}

/// A changed source reaches its copies, and they restart what uses them.
#[test]
fn a_changed_source_restarts_what_uses_its_copy() {
    let story = Story::new(peaceful(), "through");
    let mut rule = story.rule("ConfigMap", &["shared"]);
    let source = story.bystander("source");
    rule["metadata"]["namespace"] = json!(source);
    rule["spec"]["targets"] = json!([{ "names": [story.home] }]);
    story.admin().apply(&config_map(&source, "shared", [("k", "1")])).ok();
    story.admin().create(&rule).ok();
    story.until("ConfigMap", &story.home, "shared", [("k", "1")]);
    story.deploy("web", &["shared"]);
    story.admin().create(&story.monitor(&["shared"], json!(null))).ok();
    story.until_adopted("web");
    let before = story.until_running("web");
    story.until_older_than_now();
    story.admin().apply(&config_map(&source, "shared", [("k", "2")])).ok();
    story.until_restarted("web", &before);
    story.until("ConfigMap", &story.home, "shared", [("k", "2")]);
}

/// A Secret that flaps costs a rollout an interval, and the last content runs in the end (Reloader#1183: 80 000 ReplicaSets).
#[test]
fn the_least_interval_between_restarts_holds_and_the_last_content_arrives() {
    let story = Story::new(peaceful(), "flapping");
    story.admin().apply(&config_map(&story.home, "app", [("k", "0")])).ok();
    story.deploy("web", &["app"]);
    let mut monitor = story.monitor(&["app"], json!(null));
    monitor["spec"]["pace"] = json!({ "quietPeriod": "0s", "minInterval": "15s" });
    story.admin().create(&monitor).ok();
    let mut applied = story.until_adopted("web");
    let mut before = story.until_running("web");
    story.until_older_than_now();
    story.admin().apply(&config_map(&story.home, "app", [("k", "1")])).ok();
    before = story.until_restarted("web", &before);
    for value in ["2", "3", "4", "5"] {
        story.admin().apply(&config_map(&story.home, "app", [("k", value)])).ok();
        story.until_older_than_now();
        applied = story.until_adopted("web");
    }
    before = story.until_restarted("web", &before);
    story.marker("then");
    assert_eq!(story.until_running("web"), before, "restarted again for content it runs with");
    assert_ne!(story.until_adopted("web"), applied);
    assert_eq!(story.revisions("web"), 3, "five changes in one interval and before it are two restarts");
}

/// And not by pausing Deployments (Reloader#1016: paused for ever after a restart of the operator).
#[test]
fn a_suspended_monitor_restarts_nothing_until_it_is_resumed() {
    let story = Story::new(peaceful(), "paused-monitor");
    story.admin().apply(&config_map(&story.home, "app", [("k", "1")])).ok();
    story.deploy("web", &["app"]);
    let mut monitor = story.monitor(&["app"], json!(null));
    story.admin().apply(&monitor).ok();
    story.until_adopted("web");
    let before = story.until_running("web");
    story.until_older_than_now();
    monitor["spec"]["suspend"] = true.into();
    story.admin().apply(&monitor).ok();
    story.until_condition("ConfigMonitor", "monitor", "Ready", "True", "Suspended");
    story.admin().apply(&config_map(&story.home, "app", [("k", "2")])).ok();
    story.marker("then");
    assert_eq!(story.until_running("web"), before);
    monitor["spec"]["suspend"] = false.into();
    story.admin().apply(&monitor).ok();
    story.until_restarted("web", &before);
}
