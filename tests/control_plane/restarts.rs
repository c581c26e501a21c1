//! It is fresh: what uses changed content restarts, once, and nothing else does.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::bed::objects::config_map;
use crate::bed::{Story, peaceful};

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

/// A write that says nothing new is no reason to restart (config-syncer#474: Deployments flapped until out of memory). A key that is
/// removed is one, though an update that only takes keys away moves no managedFields time.
#[test]
fn writes_that_leave_the_content_alone_restart_nobody_and_a_removed_key_restarts_its_user_once() {
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
    let applied = story.until_adopted("web");
    let note = |value: &str| {
        let note = json!({ "metadata": { "annotations": { "example.com/note": value } } });
        story.admin().merge("ConfigMap", &story.home, "app", &note).ok();
    };
    ["a", "b"].into_iter().for_each(note);
    story.marker("untouched");
    assert_eq!(story.until_running("web"), before);
    assert_eq!((story.revisions("web"), story.until_adopted("web")), (1, applied));

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
    note("c");
    story.marker("then");
    assert_eq!((story.until_running("web"), story.revisions("web")), (after, 2));
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
