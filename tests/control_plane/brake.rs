//! The brake: whatever content does, workloads restart in measure, and the last content runs in the end.

use serde_json::{Value, json};
use testbed::Role;

use crate::bed::objects::{binding, condition, config_map, deployment, label};
use crate::bed::{Story, eventually, peaceful, rough};

/// Pods of a workload that wait for a node to open, which each story does for itself.
fn gated(story: &Story<'_>, namespace: &str, name: &str) -> Value {
    let references = json!({ "envFrom": [{ "configMapRef": { "name": "app" } }] });
    let mut workload = deployment(namespace, name, references);
    workload["spec"]["template"]["spec"]["nodeSelector"] = json!({ gate(story, name): "open" });
    workload
}

fn gate(story: &Story<'_>, name: &str) -> String {
    story.called(&format!("gate-{name}"))
}

fn open(story: &Story<'_>, name: &str, is_open: bool) {
    let value = if is_open { json!("open") } else { json!(null) };
    let labels = json!({ "metadata": { "labels": { gate(story, name): value } } });
    story.admin().merge("Node", "", "node-0", &labels).ok();
}

fn brake(story: &Story<'_>, name: &str) -> Option<String> {
    let deployment = story.admin().get("Deployment", &story.home, name)?;
    label(&deployment, "copyrator.dev/brake").map(str::to_owned)
}

#[test]
fn a_workload_that_does_not_become_ready_is_left_alone_until_it_is() {
    let story = Story::new(peaceful(), "circuit");
    let change = |value: &str| story.admin().apply(&config_map(&story.home, "app", [("k", value)])).ok();
    let monitor = || story.admin().get("ConfigMonitor", &story.home, "monitor").expect("it is there");
    change("0");
    open(&story, "web", true);
    let mut workload = gated(&story, &story.home, "web");
    workload["spec"]["progressDeadlineSeconds"] = 2.into();
    story.admin().create(&workload).ok();
    story.until_running("web");
    story.admin().create(&story.monitor(&["app"], json!(null))).ok();
    let first = story.until_adopted("web");
    story.until_older_than_now();
    open(&story, "web", false);
    for (turn, reason) in [(1, "RolloutStuck"), (2, "RolloutStuck"), (3, "CircuitOpen")] {
        change(&turn.to_string());
        eventually(&format!("restart {turn} is stuck"), || {
            let status = &monitor()["status"];
            let is_stuck = status["failed"] == 1 && status["problems"][0]["reason"] == reason;
            let brake = brake(&story, "web").unwrap_or_default();
            // The status may still be that of the turn before, and the ReplicaSet follow a moment later.
            let revisions = story.revisions("web");
            if is_stuck && brake == format!("1.{}", turn - 1) && revisions == turn + 1 {
                Ok(())
            } else {
                Err(format!("{brake} {revisions} {status}"))
            }
        });
    }
    story.until_condition("ConfigMonitor", "monitor", "Stalled", "True", "CircuitOpen");
    for (kind, name) in [("Deployment", "web"), ("ConfigMonitor", "monitor")] {
        eventually(&format!("an Event tells of it at {kind} {name}"), || {
            let events = story.admin().list("Event", &story.home, "");
            let about: Vec<_> = events.iter().filter(|event| event["reason"] == "CircuitOpen").collect();
            let is_it = |event: &&&Value| {
                let about = &event["regarding"];
                about["kind"] == kind && about["name"] == name && event["type"] == "Warning"
            };
            match about.iter().filter(is_it).count() {
                1 => Ok(()),
                _ => Err(format!("{about:?}")),
            }
        });
    }
    // The last content that it was ready with is the first.
    let deployment = story.admin().get("Deployment", &story.home, "web").expect("it is there");
    let good = label(&deployment, "copyrator.dev/last-good").expect("it was ready once");
    assert!(first.starts_with(good), "{good} of {first}");

    change("4");
    eventually("new content waits for the circuit", || {
        let status = &monitor()["status"];
        let is_waiting = status["waiting"] == 1 && status["problems"][0]["reason"] == "CircuitOpen";
        if is_waiting && status["nextRestartTime"].is_string() { Ok(()) } else { Err(status.to_string()) }
    });
    story.marker("then");
    assert_eq!((story.revisions("web"), brake(&story, "web").as_deref()), (4, Some("1.2")));

    // It becomes ready, by nobody's restart.
    open(&story, "web", true);
    eventually("the content that waited restarts it, and the failures are over", || {
        let (seen, revisions) = (brake(&story, "web"), story.revisions("web"));
        if seen.as_deref() == Some("1.0") && revisions == 5 {
            Ok(())
        } else {
            Err(format!("{seen:?} {revisions}"))
        }
    });
    story.until_running("web");
    eventually("nothing is stalled any more", || {
        let monitor = monitor();
        match (condition(&monitor, "Stalled"), &monitor["status"]["upToDate"]) {
            (None, up_to_date) if up_to_date == 1 => Ok(()),
            _ => Err(monitor["status"].to_string()),
        }
    });
}

/// Two field managers write the same labels: neither takes away what the other has written, and only a rollout moves the
/// time of the last restart.
#[test]
fn evictions_count_as_restarts_and_no_label_is_lost_between_managers() {
    let story = Story::new(peaceful(), "both-managers");
    let change = |value: &str| story.admin().apply(&config_map(&story.home, "app", [("k", value)])).ok();
    let labels = || -> Vec<Option<String>> {
        let deployment = story.admin().get("Deployment", &story.home, "web").expect("it is there");
        let value = |key: &str| label(&deployment, key).map(str::to_owned);
        ["copyrator.dev/applied", "copyrator.dev/brake", "copyrator.dev/last-good"].map(value).into()
    };
    change("0");
    story.deploy("web", &["app"]);
    let mut monitor = story.monitor(&["app"], json!(null));
    // A streak lasts for two of them, and no machine is busy for as long.
    monitor["spec"]["pace"]["minInterval"] = "20m".into();
    story.admin().apply(&monitor).ok();
    story.until_adopted("web");
    let first = story.until_running("web");
    story.until_older_than_now();
    change("1");
    let second = story.until_restarted("web", &first);
    assert_eq!(labels()[1].as_deref(), Some("1.0"));
    let (rolled_out, restarted) = (labels(), last_restart(&story, "web"));
    story.until_older_than_now();

    monitor["spec"]["strategy"] = json!({ "type": "Evict" });
    story.admin().apply(&monitor).ok();
    change("2");
    restart_now(&story);
    story.until_restarted("web", &second);
    let evicted = eventually("the content is recorded", || {
        let now = labels();
        // Of four parts while pods are still to be replaced.
        let is_through = now[0].as_ref().is_some_and(|label| label.matches('.').count() == 2);
        if now[0] != rolled_out[0] && is_through { Ok(now) } else { Err(format!("{now:?}")) }
    });
    assert_eq!((evicted[1].as_deref(), story.revisions("web")), (Some("2.0"), 2));
    assert!(evicted[2].is_some() && last_restart(&story, "web") == restarted, "{evicted:?}");

    // Something else counts: recorded, and nothing else.
    monitor["spec"]["watch"][0]["keys"] = json!(["k"]);
    monitor["spec"]["pace"]["minInterval"] = "0s".into();
    monitor["spec"]["strategy"] = json!({ "type": "Rollout" });
    story.admin().apply(&monitor).ok();
    eventually("what counts is recorded", || {
        let now = labels();
        let only_that = now[0] != evicted[0] && now[1..] == evicted[1..];
        if only_that { Ok(()) } else { Err(format!("{now:?} {evicted:?}")) }
    });
    story.until_older_than_now();
    change("3");
    eventually("it rolls out again, with all labels", || {
        let now = labels();
        let is_first = now[1].as_deref() == Some("1.0") && now[2].is_some();
        let later = last_restart(&story, "web") > restarted;
        let revisions = story.revisions("web");
        if is_first && later && revisions == 3 { Ok(()) } else { Err(format!("{now:?} {revisions}")) }
    });
}

#[test]
fn a_restart_of_ours_forgets_nothing_of_the_brake() {
    let (bed, _turn) = rough();
    let mut crew = bed.man();
    let story = Story::new(bed, "remembered-brake");
    let change = |value: &str| story.admin().apply(&config_map(&story.home, "app", [("k", value)])).ok();
    change("0");
    story.deploy("web", &["app"]);
    let mut monitor = story.monitor(&["app"], json!(null));
    monitor["spec"]["pace"]["minInterval"] = "20m".into();
    story.admin().create(&monitor).ok();
    story.until_adopted("web");
    let mut running = story.until_running("web");
    story.until_older_than_now();
    for (value, record) in [("1", "1.0"), ("2", "2.0")] {
        change(value);
        if value == "2" {
            restart_now(&story);
        }
        running = story.until_restarted("web", &running);
        assert_eq!(brake(&story, "web").as_deref(), Some(record));
        story.until_older_than_now();
    }
    crew.reconciler.kill();
    let last = last_restart(&story, "web");
    change("3");
    bed.release_lease();
    crew.reconciler = bed.reconciler(0);
    let twice = seconds(&last).map(|last| last + 2 * 20 * 60);
    eventually("it waits for twice the interval since the last restart", || {
        let monitor = story.admin().get("ConfigMonitor", &story.home, "monitor").ok_or("it is gone")?;
        let next = monitor["status"]["nextRestartTime"].as_str().unwrap_or_default().to_owned();
        if seconds(&next) == twice { Ok(()) } else { Err(format!("{next}, {last} {monitor}")) }
    });
    assert_eq!(last_restart(&story, "web"), last, "it has not waited");
    restart_now(&story);
    story.until_restarted("web", &running);
    assert_eq!((brake(&story, "web").as_deref(), story.revisions("web")), (Some("3.0"), 4));
    crew.reconciler.kill();
    crew.webhook.kill();
}

/// Has the monitor's workloads restart past the interval, once: later than a change by more than times are exact.
pub fn restart_now(story: &Story<'_>) {
    story.until_later(1);
    let said = json!({ "copyrator.dev/restart-now": jiff::Timestamp::now().to_string() });
    let patch = json!({ "metadata": { "annotations": said } });
    story.admin().merge("ConfigMonitor", &story.home, "monitor", &patch).ok();
}

/// When we last restarted it.
fn last_restart(story: &Story<'_>, name: &str) -> String {
    let object = story.admin().get("Deployment", &story.home, name).expect("it is there");
    let entries = object["metadata"]["managedFields"].as_array().cloned().unwrap_or_default();
    let ours = entries.iter().find(|entry| entry["manager"] == "copyrator-restart").expect("we restarted it");
    ours["time"].as_str().unwrap_or_default().to_owned()
}

fn seconds(time: &str) -> Option<i64> {
    time.parse::<jiff::Timestamp>().ok().map(jiff::Timestamp::as_second)
}

/// Bob may write every mark of our restarts: the label with the key that everybody can read, the stamp, and the name of our
/// field manager. And bob gives the Deployments a deadline of a day. They hold bob's half of the places; the other half is left.
#[test]
fn restarts_share_the_places_and_false_ones_hold_up_no_other_namespace() {
    const NAMES: [&str; 2] = ["first", "second"];
    let (bed, _turn) = rough();
    let webhook = bed.man().webhook;
    bed.release_lease();
    let options = ["--max-rollouts", "2"];
    let mut reconciler = bed.testbed.operator(Role::Reconciler, 0, &options).expect("the reconciler starts");
    reconciler.wait_ready().expect("it becomes ready");
    let story = Story::new(bed, "few-places");
    let bobs = story.bystander("bobs");
    story.admin().create(&binding(&bobs, "bob", "edit")).ok();
    story.admin().apply(&config_map(&story.home, "app", [("k", "1")])).ok();
    for name in NAMES {
        open(&story, name, true);
        story.admin().create(&gated(&story, &story.home, name)).ok();
    }
    story.admin().create(&story.monitor(&["app"], json!(null))).ok();
    let [applied, _] = NAMES.map(|name| story.until_adopted(name));
    let (key, _) = applied.split_once('.').expect("it names its key");
    let before = NAMES.map(|name| story.until_running(name));
    // The restart that begins does not end before its gate is open again.
    NAMES.iter().for_each(|name| open(&story, name, false));
    for (number, record) in [format!("{key}.b.c"), "a.b.c".to_owned()].iter().cycle().take(8).enumerate() {
        let mut hog = gated(&story, &bobs, &format!("hog-{number}"));
        hog["metadata"]["labels"] = json!({ "copyrator.dev/applied": record });
        hog["spec"]["progressDeadlineSeconds"] = 86_400.into();
        let stamp = record.strip_suffix(".c");
        hog["spec"]["template"]["metadata"]["annotations"] = json!({ "copyrator.dev/restarted-for": stamp });
        eventually("bob writes it", || match bed.bob.apply_as("copyrator-restart", &hog) {
            answer if answer.code < 300 => Ok(()),
            answer => Err(answer.refused()),
        });
    }
    let until_measured = |what: &str, lines: &[&str]| {
        eventually(what, || {
            let (_, metrics) = reconciler.ask("/metrics").map_err(|error| error.to_string())?;
            let are_there = lines.iter().all(|line| metrics.lines().any(|one| one == *line));
            if are_there { Ok(()) } else { Err(metrics) }
        });
    };
    let under_way = ["copyrator_rollouts_under_way 4"];
    until_measured("those that name our key count", &under_way);
    story.until_older_than_now();
    story.admin().apply(&config_map(&story.home, "app", [("k", "2")])).ok();
    let shared = ["copyrator_rollouts_under_way 5", r#"copyrator_restarts_waiting{reason="Budget"} 1"#];
    until_measured("one restarts, and the other waits for its place", &shared);
    story.marker("and-no-more");
    assert_eq!(NAMES.iter().filter(|name| story.stamp(name).is_some()).count(), 1, "more than its half");
    for name in NAMES {
        open(&story, name, true);
    }
    for (name, before) in NAMES.iter().zip(&before) {
        story.until_restarted(name, before);
        assert_eq!(story.revisions(name), 2, "{name}");
    }
    // Other stories here have few places, too.
    story.admin().delete_all("Deployment", &bobs).ok();
    reconciler.kill();
    webhook.kill();
}
