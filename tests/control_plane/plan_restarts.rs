//! A plan says which workloads a change restarts, and then those restart, and no others.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use crate::bed::objects::{config_map, data, deployment, ours, pod, secret};
use crate::bed::{Story, eventually, peaceful, rough};
use crate::plan::{Said, account, run};

impl Said {
    /// Of every workload, what becomes of it and why: `action reason`.
    fn restarts(&self) -> BTreeMap<String, String> {
        let plan = self.json();
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let rows = plan["restarts"].as_array().into_iter().flatten();
        rows.map(|row| (text(&row["name"]), format!("{} {}", text(&row["action"]), text(&row["reason"]))))
            .collect()
    }
}

fn told<const N: usize>(rows: [(&str, &str); N]) -> BTreeMap<String, String> {
    rows.into_iter().map(|(name, what)| (name.to_owned(), what.to_owned())).collect()
}

/// The documents of one file.
fn stream(documents: &[&Value]) -> String {
    documents.iter().map(|document| format!("---\n{document}\n")).collect()
}

/// Makes the workloads of the story: each uses what the change changes in another way.
fn workloads(story: &Story<'_>, source: &str) {
    let home = &story.home;
    for (name, pairs) in [("app", [("used", "1"), ("other", "1")]), ("quiet", [("k", "1"), ("l", "1")])] {
        story.admin().apply(&config_map(home, name, pairs)).ok();
    }
    let exempt = json!({ "metadata": { "annotations": { "copyrator.dev/restart": "false" } } });
    story.admin().merge("ConfigMap", home, "quiet", &exempt).ok();
    story.admin().apply(&config_map(source, "shared", [("k", "1")])).ok();
    let spec =
        json!({ "source": { "kind": "ConfigMap", "names": ["shared"] }, "targets": [{ "names": [home] }] });
    story.admin().create(&ours("CopyratorRule", source, "shared", spec)).ok();
    story.until("ConfigMap", home, "shared", [("k", "1")]);
    story.deploy("whole", &["app", "quiet"]);
    story.deploy("of-copy", &["shared"]);
    let key = json!({ "env": [{ "name": "X", "valueFrom": { "configMapKeyRef": { "name": "app", "key": "other" } } }] });
    story.admin().create(&deployment(home, "by-key", key)).ok();
    story.until_running("by-key");
    story.deploy("exempt", &["quiet"]);
    story.deploy("paused", &["app"]);
    story.admin().apply(&config_map(home, "unwatched", [("k", "1")])).ok();
    story.deploy("not-asked", &["unwatched"]);
    let mut monitor = story.monitor(&["app", "quiet", "shared"], json!(null));
    monitor["spec"]["pace"]["quietPeriod"] = "1s".into();
    story.admin().create(&monitor).ok();
    for name in ["whole", "of-copy", "by-key", "paused"] {
        story.until_adopted(name);
    }
    story.admin().merge("Deployment", home, "paused", &json!({ "spec": { "paused": true } })).ok();
}

/// From a source by its copy to a workload, too.
#[test]
fn what_a_change_is_planned_to_restart_restarts_once_it_is_applied_and_nothing_else() {
    let story = Story::new(peaceful(), "chain-foreseen");
    let source = story.bystander("source");
    workloads(&story, &source);
    let home = story.home.clone();
    let planned = |input: &str| run(&story, None, &["plan", "-n", &home, "-o", "json", "-f", "-"], input);
    let calm = run(&story, None, &["plan", "-n", &home], "");
    assert_eq!(calm.code, Some(0), "{}{}", calm.text, calm.notes);
    assert!(calm.text.ends_with("No restarts: 4 workloads run the current content.\n"), "{}", calm.text);

    let changed = [
        config_map(&home, "app", [("used", "hunter2"), ("other", "1")]),
        config_map(&home, "quiet", [("k", "2"), ("l", "1")]),
        config_map(&home, "unwatched", [("k", "2")]),
        config_map(&source, "shared", [("k", "2")]),
    ];
    let file = stream(&changed.iter().collect::<Vec<_>>());
    let plan = planned(&file);
    assert_eq!(plan.code, Some(1), "{}", plan.notes);
    let expected = told([
        ("whole", "restart QuietPeriod"),
        ("of-copy", "restart QuietPeriod"),
        ("by-key", "unaffected KeyNotUsed"),
        ("exempt", "unaffected Exempt"),
        ("paused", "hold Paused"),
        ("not-asked", "unaffected NotAsked"),
    ]);
    assert_eq!(plan.restarts(), expected, "{}", plan.text);
    let people = run(&story, None, &["plan", "-n", &home, "-f", "-"], &file);
    let line = format!("ConfigMap shared has changed; ConfigMap shared is a copy of {source}/shared");
    for part in [
        "  * Deployment chain-foreseen-home/whole ",
        " by Rollout (QuietPeriod); ",
        &line,
        "keys: ~used; from -:",
    ] {
        assert!(people.text.contains(part), "{part:?} is missing in:\n{}", people.text);
    }
    assert!(!plan.text.contains("hunter2") && !people.text.contains("hunter2"), "a value");

    let names = ["whole", "of-copy", "by-key", "exempt", "paused", "not-asked"];
    let before: BTreeMap<&str, String> =
        names.into_iter().map(|name| (name, story.until_running(name))).collect();
    story.until_older_than_now();
    for object in &changed {
        story.admin().apply(object).ok();
    }
    for name in ["whole", "of-copy"] {
        story.until_restarted(name, &before[name]);
    }
    story.marker("then");
    let restarted: BTreeSet<&str> = names.into_iter().filter(|name| story.revisions(name) > 1).collect();
    assert_eq!(restarted, BTreeSet::from(["whole", "of-copy"]), "others than planned");
    // The same file again is no change; who is paused is due.
    let again = planned(&file);
    assert_eq!(again.restarts(), told([("paused", "hold Paused")]), "{}", again.text);
    assert_eq!(again.code, Some(0), "{}", again.text);
}

/// What is planned with a new monitor: whom it reaches, and that it is taken as it is.
#[test]
fn a_monitor_of_a_file_is_planned_with_what_it_would_reach() {
    let story = Story::new(peaceful(), "monitor-foreseen");
    let home = story.home.clone();
    story.admin().apply(&config_map(&home, "app", [("k", "1")])).ok();
    story.deploy("web", &["app"]);
    story.deploy("other", &[]);
    let monitor = story.monitor(&["app"], json!(null));
    let arguments = ["plan", "-n", &home, "-o", "json", "-f", "-"];
    let said = run(&story, None, &arguments, &monitor.to_string());
    assert_eq!(said.restarts(), told([("web", "record New")]), "{}{}", said.text, said.notes);
    assert_eq!(said.json()["monitors"][0]["authority"], "allowed", "{}", said.text);
    assert!(story.admin().get("ConfigMonitor", &home, "monitor").is_none(), "a plan has written");
    let nobody = story.monitor(&["elsewhere"], json!(null));
    let said = run(&story, None, &arguments, &nobody.to_string());
    assert_eq!(said.json()["monitors"][0]["reason"], "NoObject", "{}", said.text);
    let mut invalid = monitor.clone();
    invalid["spec"]["pace"]["quietPeriod"] = "soon".into();
    let said = run(&story, None, &arguments, &invalid.to_string());
    assert_eq!(
        (said.code, &said.json()["monitors"][0]["action"]),
        (Some(1), &json!("refuse")),
        "{}",
        said.text
    );

    story.admin().create(&monitor).ok();
    story.until_adopted("web");
    assert_eq!(story.revisions("web"), 1, "adoption restarted");
    story
        .admin()
        .merge(
            "ConfigMonitor",
            &home,
            "monitor",
            &json!({ "spec": { "watch": [{ "kind": "ConfigMap", "names": ["x"] }] } }),
        )
        .ok();
    story.until_condition("ConfigMonitor", "monitor", "Ready", "True", "NoObject");
}

/// There is no workload to speak of them: the monitor's name stands for its pods.
#[test]
fn pods_without_a_workload_are_planned_and_told_of_too() {
    let story = Story::new(peaceful(), "bare-foreseen");
    let home = story.home.clone();
    story.admin().apply(&config_map(&home, "app", [("k", "1")])).ok();
    story.admin().create(&pod(&home, "web-0", &data([("app", "web")]))).ok();
    story.until_pods("web", &["web-0"]);
    story.until_older_than_now();
    let mut monitor = story.monitor(&["app"], json!({ "podSelector": { "matchLabels": { "app": "web" } } }));
    monitor["spec"]["strategy"] = json!({ "type": "Delete" });
    story.admin().create(&monitor).ok();
    story.until_condition("ConfigMonitor", "monitor", "Ready", "True", "Watching");
    eventually("the monitor knows what the pods run with", || {
        let said = run(&story, None, &["status", "-n", &home, "-o", "wide"], "");
        if said.text.contains("\nCurrent   Pods of ConfigMonitor bare-foreseen-home/monitor ") {
            Ok(())
        } else {
            Err(said.text)
        }
    });
    let changed = config_map(&home, "app", [("k", "2")]);
    let said = run(&story, None, &["plan", "-n", &home, "-o", "json", "-f", "-"], &changed.to_string());
    // Pods that begin in the second of the change could not be told from older ones.
    assert_eq!(said.restarts(), told([("monitor", "restart QuietPeriod")]), "{}{}", said.text, said.notes);
    assert_eq!(said.json()["restarts"][0]["strategy"], "Delete", "{}", said.text);
    story.until_pods("web", &["web-0"]);
    story.admin().apply(&changed).ok();
    story.until_pods("web", &[]);
    eventually("the object says whom it restarted", || {
        let events = Value::from(story.admin().list("Event", &home, "")).to_string();
        let note = "pods of ConfigMonitor bare-foreseen-home/monitor restart for this change";
        if events.contains(note) { Ok(()) } else { Err(events) }
    });
}

/// Status shows what is due, with digests that differ, while nobody does anything about it.
#[test]
fn while_nobody_reconciles_status_says_which_workloads_are_due() {
    let (bed, _turn) = rough();
    let crew = bed.man();
    let story = Story::new(bed, "due-unattended");
    let home = story.home.clone();
    story.admin().apply(&secret(&home, "app", [("password", "hunter2")])).ok();
    let container = json!({ "envFrom": [{ "secretRef": { "name": "app" } }] });
    let mut web = deployment(&home, "web", container);
    web["metadata"]["annotations"] = json!({ "copyrator.dev/restart": "true" });
    story.admin().create(&web).ok();
    let before = story.until_running("web");
    story.until_adopted("web");
    let calm = run(&story, None, &["status", "-n", &home, "-o", "wide"], "");
    assert_eq!(calm.code, Some(0), "{}{}", calm.text, calm.notes);
    assert!(calm.text.contains(&format!("Current   Deployment {home}/web   annotation ")), "{}", calm.text);
    crew.reconciler.kill();
    story.until_older_than_now();
    story.admin().merge("Secret", &home, "app", &json!({ "stringData": { "password": "swordfish" } })).ok();
    let said = eventually("the quiet period passes", || {
        let said = run(&story, None, &["status", "-n", &home], "");
        if said.text.contains("\nDue ") { Ok(said) } else { Err(said.text + &said.notes) }
    });
    assert_eq!(said.code, Some(1), "{}", said.text);
    assert!(said.text.contains("Secret app has changed"), "{}", said.text);
    let json = run(&story, None, &["status", "-n", &home, "-o", "json"], "").json();
    let row = json["items"].as_array().into_iter().flatten().find(|row| row["name"] == "web").expect("a row");
    let row = &row["workloads"][0];
    assert!(
        row["running"].is_string() && row["wanted"].is_string() && row["running"] != row["wanted"],
        "{row}"
    );
    for text in [&said.text, &json.to_string()] {
        assert!(!text.contains("hunter2") && !text.contains("swordfish"), "{text}");
    }
    let reconciler = bed.reconciler(0);
    story.until_restarted("web", &before);
    reconciler.kill();
    crew.webhook.kill();
}

/// The key of digests is for few: what can be told without is told, and the rest is not guessed.
#[test]
fn a_user_without_the_key_is_told_what_can_be_known_of_restarts() {
    let story = Story::new(peaceful(), "unkeyed");
    let home = story.home.clone();
    let list = |group: &str, resources: &[&str]| json!({ "apiGroups": [group], "resources": resources, "verbs": ["list"] });
    let rights = json!([
        { "apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list"] },
        list("", &["namespaces", "pods"]),
        list("apps", &["deployments", "statefulsets", "daemonsets"]),
        list("copyrator.dev", &["copyratorrules", "configmonitors"]),
    ]);
    let reader = account(&story, "reader", rights);
    story.admin().apply(&config_map(&home, "app", [("k", "1")])).ok();
    story.deploy("web", &["app"]);
    let mut monitor = story.monitor(&["app"], json!(null));
    monitor["spec"]["pace"]["quietPeriod"] = "1h".into();
    story.until_older_than_now();
    story.admin().create(&monitor).ok();
    let applied = story.until_adopted("web");
    story.until_condition("ConfigMonitor", "monitor", "Ready", "True", "Watching");
    let said = eventually("the account may what its role says", || {
        let said = run(&story, Some(&reader), &["status", "-n", &home, "-o", "wide"], "");
        if said.text.contains("\nCurrent ") { Ok(said) } else { Err(said.text + &said.notes) }
    });
    let running = &applied.split('.').nth(1).unwrap_or_default()[..8];
    assert!(said.text.contains(&format!("   {running}   -   ")), "{}", said.text);
    assert!(said.notes.contains("the records of workloads use that key, too"), "{}", said.notes);
    let changed = config_map(&home, "app", [("k", "2")]);
    let arguments = ["plan", "-n", &home, "-o", "json", "-f", "-"];
    let said = run(&story, Some(&reader), &arguments, &changed.to_string());
    assert_eq!(said.restarts(), told([("web", "restart QuietPeriod")]), "{}{}", said.text, said.notes);
    assert_eq!(said.json()["verified"], false);

    // Written after the record: whether it is other content takes the key.
    story.admin().apply(&changed).ok();
    let plan = |who| run(&story, who, &["plan", "-n", &home, "-o", "json"], "");
    let said = plan(Some(&*reader));
    assert_eq!(said.restarts(), told([("web", "unknown Unverified")]), "{}{}", said.text, said.notes);
    assert_eq!(plan(None).restarts(), told([("web", "restart QuietPeriod")]));
}
