//! Strategies Evict and Delete, for pods that no pod template reaches.

use serde_json::{Value, json};

use crate::bed::objects::{config_map, data, pod};
use crate::bed::{Story, eventually, peaceful};

#[test]
fn delete_removes_exactly_the_pods_of_the_selector_once() {
    let story = Story::new(peaceful(), "bare-pods");
    story.admin().apply(&config_map(&story.home, "app", [("k", "1")])).ok();
    for (name, app) in [("web-0", "web"), ("web-1", "web"), ("db-0", "db")] {
        story.admin().create(&pod(&story.home, name, &data([("app", app)]))).ok();
    }
    story.until_pods("web", &["web-0", "web-1"]);
    story.until_older_than_now();
    watch(&story, "Delete");
    story.until_pods("web", &["web-0", "web-1"]);
    story.admin().apply(&config_map(&story.home, "app", [("k", "2")])).ok();
    story.until_pods("web", &[]);
    // A user who makes them again makes younger ones, which stay.
    story.admin().create(&pod(&story.home, "web-2", &data([("app", "web")]))).ok();
    story.marker("then");
    story.until_pods("web", &["web-2"]);
    story.until_pods("db", &["db-0"]);
    until_last_restart(&story);
}

/// No managedFields time moves, and the record is in the monitor's status.
#[test]
fn a_removed_key_removes_the_pods_that_used_it() {
    let story = Story::new(peaceful(), "bare-removed-key");
    story.admin().apply(&config_map(&story.home, "app", [("kept", "1"), ("removed", "1")])).ok();
    // The pod begins in a later second than the content.
    story.admin().create(&pod(&story.home, "db-0", &data([("app", "db")]))).ok();
    story.until_older_than_now();
    story.admin().create(&pod(&story.home, "web-0", &data([("app", "web")]))).ok();
    story.until_older_than_now();
    watch(&story, "Delete");
    // What the pods run with outlives every other news of the status.
    story.until_condition("ConfigMonitor", "monitor", "Ready", "True", "Watching");
    let recorded = || -> Value {
        let monitor = story.admin().get("ConfigMonitor", &story.home, "monitor").expect("it is there");
        monitor["status"]["podsApplied"].clone()
    };
    let before = recorded();
    let patch = json!({ "data": { "removed": null } });
    story.admin().merge("ConfigMap", &story.home, "app", &patch).ok();
    story.until_pods("web", &[]);
    eventually("the new content is recorded", || {
        let now = recorded();
        if now.is_string() && now != before { Ok(()) } else { Err(now.to_string()) }
    });
}

#[test]
fn evict_restarts_pods_through_the_eviction_api() {
    let story = Story::new(peaceful(), "evicted");
    story.admin().apply(&config_map(&story.home, "app", [("k", "1")])).ok();
    story.deploy("web", &[]);
    let before = story.until_running("web");
    story.until_older_than_now();
    watch(&story, "Evict");
    story.admin().apply(&config_map(&story.home, "app", [("k", "2")])).ok();
    story.until_restarted("web", &before);
    assert_eq!(story.revisions("web"), 1, "an eviction is no rollout");
    until_last_restart(&story);
    eventually("the audit log shows an eviction and no deletion", || {
        let writes = story.bed.our_writes();
        let pods: Vec<_> =
            writes.iter().filter(|it| it.namespace == story.home && it.resource == "pods").collect();
        if pods.iter().any(|it| it.verb == "create") && !pods.iter().any(|it| it.verb == "delete") {
            return Ok(());
        }
        Err(format!("{pods:?}"))
    });
}

#[test]
fn evict_honours_a_disruption_budget_until_it_allows() {
    let story = Story::new(peaceful(), "budgeted");
    story.admin().apply(&config_map(&story.home, "app", [("k", "1")])).ok();
    story.deploy("web", &[]);
    let before = story.until_running("web");
    let mut budget = json!({
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
        "metadata": { "namespace": story.home, "name": "web" },
        "spec": { "minAvailable": 1, "selector": { "matchLabels": { "app": "web" } } },
    });
    story.admin().apply(&budget).ok();
    story.until_older_than_now();
    watch(&story, "Evict");
    story.admin().apply(&config_map(&story.home, "app", [("k", "2")])).ok();
    eventually("an eviction is refused", || {
        let tried = story
            .bed
            .our_writes()
            .iter()
            .filter(|it| it.namespace == story.home && it.resource == "pods")
            .count();
        if tried > 0 { Ok(()) } else { Err("none was tried".into()) }
    });
    assert_eq!(story.until_running("web"), before, "the budget was not honoured");
    budget["spec"]["minAvailable"] = 0.into();
    story.admin().apply(&budget).ok();
    story.until_restarted("web", &before);
}

/// No managedFields entry tells of a removed pod: the status has to remember.
fn until_last_restart(story: &Story<'_>) {
    eventually("the monitor says when it last restarted anything", || {
        let monitor = story.admin().get("ConfigMonitor", &story.home, "monitor").ok_or("it is gone")?;
        if monitor["status"]["lastRestartTime"].is_string() {
            Ok(())
        } else {
            Err(monitor["status"].to_string())
        }
    });
}

/// A monitor of the pods labelled `app: web`, in force: it knows what they run with.
fn watch(story: &Story<'_>, strategy: &str) {
    let mut monitor = story.monitor(&["app"], json!({ "podSelector": { "matchLabels": { "app": "web" } } }));
    monitor["spec"]["strategy"] = json!({ "type": strategy });
    story.admin().create(&monitor).ok();
    eventually("the monitor knows what the pods run with", || {
        let monitor = story.admin().get("ConfigMonitor", &story.home, "monitor").ok_or("it is gone")?;
        let workload = story.admin().list("Deployment", &story.home, "copyrator.dev/applied");
        let known = monitor["status"]["podsApplied"].is_string() || !workload.is_empty();
        if known { Ok(()) } else { Err(monitor["status"].to_string()) }
    });
}
