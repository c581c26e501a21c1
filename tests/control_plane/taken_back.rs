//! The record on a workload says what we wrote, its pods are what runs: a restart that somebody took back half-way is told, is not
//! repeated by us, and is repeated on request.

use serde_json::{Value, json};

use crate::bed::objects::{config_map, deployment, gated};
use crate::bed::{Story, eventually, peaceful, same};
use crate::brake::restart_now;
use crate::other_writers::{change, until_half_way};

const NAMES: [&str; 3] = ["operated", "undone", "paused"];

/// Waits until the monitor's problems are these: each a workload and a reason.
fn until_told(story: &Story<'_>, wanted: &[(&str, &str)]) -> Vec<Value> {
    let mut wanted: Vec<(String, String)> =
        wanted.iter().map(|(name, reason)| ((*name).to_owned(), (*reason).to_owned())).collect();
    wanted.sort();
    eventually(&format!("the monitor says {wanted:?}"), || {
        let monitor = story.admin().get("ConfigMonitor", &story.home, "monitor").ok_or("it is gone")?;
        let problems = monitor["status"]["problems"].as_array().cloned().unwrap_or_default();
        let text = |problem: &Value, field: &str| problem[field].as_str().unwrap_or_default().to_owned();
        let mut seen: Vec<_> =
            problems.iter().map(|problem| (text(problem, "name"), text(problem, "reason"))).collect();
        seen.sort();
        same(seen, wanted.clone())?;
        Ok(problems)
    })
}

/// An operator that owns the workload, somebody who rolls back, and one who pauses, each when one of two pods is replaced.
#[test]
fn a_restart_that_is_taken_back_half_way_is_told_and_repeated_on_request() {
    let story = Story::new(peaceful(), "taken-back");
    let home = story.home.as_str();
    change(&story, "app", "1");
    for name in NAMES {
        let references = json!({ "envFrom": [{ "configMapRef": { "name": "app" } }] });
        story.admin().create(&gated(deployment(home, name, references))).ok();
        story.lift(name);
    }
    story.admin().create(&story.monitor(&["app"], json!(null))).ok();
    let before = NAMES.map(|name| {
        story.until_adopted(name);
        story.until_running(name)
    });
    story.until_counted([("upToDate", 3)]);
    story.until_older_than_now();
    change(&story, "app", "2");
    NAMES.iter().for_each(|name| until_half_way(&story, name));

    let own = json!({ "spec": { "template": { "metadata": { "annotations": {
        "copyrator.dev/restarted-for": null, "example.com/operator": "mine" } } } } });
    let path = format!("deployment/{}", NAMES[0]);
    let patch = own.to_string();
    let by = ["--field-manager", "operator", "--type", "merge", "--patch", &patch];
    story.bed.kubectl(&[&["patch", &path, "--namespace", home], &by[..]].concat(), &json!(null));
    story.bed.kubectl(&["rollout", "undo", "deployment/undone", "--namespace", home], &json!(null));
    story.bed.kubectl(&["rollout", "pause", "deployment/paused", "--namespace", home], &json!(null));
    // A template with the operator's own annotation has new pods, which are not let start: the old one stays.
    assert_eq!(story.until_running("undone"), before[1], "the pod that the user wanted to keep");

    let told = until_told(&story, &[("paused", "Paused"), ("undone", "TakenBack")]);
    let message =
        |name: &str| told.iter().find(|problem| problem["name"] == name).unwrap()["message"].clone();
    let undone = message("undone").as_str().unwrap_or_default().to_owned();
    for part in ["undid the last restart", "1 pod runs older content", "copyrator.dev/restart-now=1"] {
        assert!(undone.contains(part), "{part}: {undone}");
    }
    story.until_condition("ConfigMonitor", "monitor", "Degraded", "True", "Paused");
    eventually("an Event tells of it at the workload", || {
        let events = story.admin().list("Event", home, "");
        let is_it = |event: &&Value| {
            event["reason"] == "TakenBack"
                && event["regarding"]["kind"] == "Deployment"
                && event["regarding"]["name"] == "undone"
        };
        if events.iter().any(|event| is_it(&event)) {
            Ok(())
        } else {
            Err(format!("{} Events", events.len()))
        }
    });
    story.marker("told");
    assert_eq!(story.rollouts("undone"), 3, "we do not repeat it");

    restart_now(&story);
    until_half_way(&story, "undone");
    story.lift("undone");
    story.until_restarted("undone", &before[1]);
    story.bed.kubectl(&["rollout", "resume", "deployment/paused", "--namespace", home], &json!(null));
    for (name, before) in ["operated", "paused"].into_iter().zip([&before[0], &before[2]]) {
        story.lift(name);
        story.until_restarted(name, before);
    }
    story.until_counted([("upToDate", 3)]);
    until_told(&story, &[]);
}

/// The record of another workload, on one whose pods are older than the content.
#[test]
fn a_record_that_somebody_else_wrote_is_no_proof_of_what_runs() {
    let story = Story::new(peaceful(), "record-copied");
    let home = story.home.as_str();
    change(&story, "app", "1");
    story.deploy("web", &["app"]);
    story.deploy("twin", &["app"]);
    let before = story.until_running("twin");
    story.until_older_than_now();
    story.admin().apply(&config_map(home, "app", [("k", "2")])).ok();
    let mut monitor = story.monitor(&["app"], json!({ "names": [{ "kind": "Deployment", "name": "web" }] }));
    story.admin().create(&monitor).ok();
    let record = story.until_adopted("web");
    let copied = json!({ "metadata": { "labels": { "copyrator.dev/applied": record } } });
    story.admin().merge("Deployment", home, "twin", &copied).ok();
    monitor["spec"]["workloads"]["names"] = json!([{ "kind": "Deployment", "name": "twin" }]);
    story.admin().apply(&monitor).ok();
    let told = until_told(&story, &[("twin", "TakenBack")]);
    let message = told[0]["message"].as_str().unwrap_or_default();
    assert!(message.contains("changed the workload's label copyrator.dev/applied"), "{message}");
    assert_eq!(story.until_running("twin"), before);
    restart_now(&story);
    story.until_restarted("twin", &before);
    story.until_counted([("upToDate", 1)]);
}
