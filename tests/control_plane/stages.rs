//! In order: who restarts after whom, nobody after a failure, and only while a window is open.

use jiff::{Span, Timestamp};
use serde_json::{Value, json};

use crate::bed::objects::{condition, config_map, deployment};
use crate::bed::{Story, eventually, peaceful, rough};

/// When we last restarted a Deployment, as its managedFields say.
fn restarted_at(story: &Story<'_>, name: &str) -> Option<Timestamp> {
    let deployment = story.admin().get("Deployment", &story.home, name)?;
    let entries = deployment["metadata"]["managedFields"].as_array()?;
    let ours = entries.iter().find(|entry| entry["manager"] == "copyrator-restart")?;
    ours["time"].as_str()?.parse().ok()
}

/// Since when the one pod of a Deployment is ready.
fn ready_at(story: &Story<'_>, name: &str) -> Timestamp {
    let pods = story.pods(name);
    let [pod] = &pods[..] else { panic!("{} pods of {name}", pods.len()) };
    let conditions = pod["status"]["conditions"].as_array().expect("it has conditions");
    let ready = conditions.iter().find(|one| one["type"] == "Ready").expect("one of them is Ready");
    ready["lastTransitionTime"].as_str().and_then(|time| time.parse().ok()).expect("it has a time")
}

/// Nobody began before the one before it had been ready for so long. A busy machine only makes it longer.
#[track_caller]
fn in_turn(story: &Story<'_>, names: &[&str], soak: i64) {
    for pair in names.windows(2) {
        let (ready, next) = (ready_at(story, pair[0]), restarted_at(story, pair[1]).expect("it restarted"));
        assert!(next >= ready + Span::new().seconds(soak), "{pair:?}: ready at {ready}, the next at {next}");
    }
}

fn until_all_restarted(story: &Story<'_>, names: &[&str], before: &[String]) {
    for (name, before) in names.iter().zip(before) {
        story.until_restarted(name, before);
        assert_eq!(story.revisions(name), 2, "{name} restarted more than once");
    }
}

/// A Deployment whose pods find a node only while one is labelled for this story; one is, now.
fn pinned(story: &Story<'_>, name: &str) -> Value {
    takes_pods(story, true);
    let uses = json!({ "envFrom": [{ "configMapRef": { "name": "app" } }] });
    let mut deployment = deployment(&story.home, name, uses);
    deployment["spec"]["template"]["spec"]["nodeSelector"] = json!({ story.home.clone(): "here" });
    deployment
}

/// Whether a node takes the pods of [`pinned`]; those that run stay.
fn takes_pods(story: &Story<'_>, takes: bool) {
    let node = story.admin().list("Node", "", "").remove(0);
    let name = node["metadata"]["name"].as_str().unwrap_or_default();
    let value = if takes { json!("here") } else { Value::Null };
    let labels = json!({ "metadata": { "labels": { story.home.clone(): value } } });
    story.admin().merge("Node", "", name, &labels).ok();
}

/// Reloader#1109: one object restarts everything at once, and so would bad content.
#[test]
fn a_canary_that_fails_stops_the_others_until_its_content_is_corrected() {
    let story = Story::new(peaceful(), "stopped-stage");
    let admin = story.admin();
    admin.apply(&config_map(&story.home, "app", [("k", "1")])).ok();
    let mut canary = pinned(&story, "canary");
    // What a busy machine exceeds before a restart of ours, or before the mended one is through, holds up nothing.
    canary["spec"]["progressDeadlineSeconds"] = 3.into();
    admin.create(&canary).ok();
    for name in ["a", "b"] {
        story.deploy(name, &["app"]);
    }
    let mut monitor = story.monitor(&["app"], json!(null));
    monitor["spec"]["pace"]["order"] = json!([{ "matchLabels": { "app": "canary" } }]);
    admin.create(&monitor).ok();
    let before = ["canary", "a", "b"].map(|name| {
        story.until_adopted(name);
        story.until_running(name)
    });
    story.until_older_than_now();
    let label = story.until_adopted("canary");
    let (worked, _) = label.rsplit_once('.').expect("a digest, and what counted");
    takes_pods(&story, false);
    admin.apply(&config_map(&story.home, "app", [("k", "broken")])).ok();

    let monitor = story.until_condition("ConfigMonitor", "monitor", "Degraded", "True", "StageFailed");
    let problems = monitor["status"]["problems"].to_string();
    assert!(problems.contains("Deployment canary: the workload failed with changed content"), "{problems}");
    assert!(problems.contains(&format!("the last content that worked is {worked}.")), "{worked}: {problems}");
    eventually("the status counts", || {
        let status = admin.get("ConfigMonitor", &story.home, "monitor").ok_or("it is gone")?["status"].take();
        let stopped = status["problems"]
            .to_string()
            .contains("2 workloads with changed content wait, because Deployment canary");
        if status["failed"] == 1 && status["waiting"] == 2 && stopped {
            Ok(())
        } else {
            Err(status.to_string())
        }
    });
    for about in ["ConfigMonitor", "Deployment"] {
        eventually(&format!("one Event on the {about} says so"), || {
            let events = admin.list("Event", &story.home, "");
            let of = |event: &&Value| event["reason"] == "StageFailed" && event["regarding"]["kind"] == about;
            let found: Vec<&Value> = events.iter().filter(of).collect();
            match &found[..] {
                [event] if event["type"] == "Warning" => Ok(()),
                _ => Err(format!("{found:?}")),
            }
        });
    }
    story.marker("then");
    for (name, before) in ["a", "b"].iter().zip(&before[1..]) {
        assert_eq!(
            (&story.until_running(name), story.revisions(name)),
            (before, 1),
            "{name} followed a failure"
        );
    }

    // Corrected, the canary goes again, and the others have never had the broken content.
    admin.apply(&config_map(&story.home, "app", [("k", "mended")])).ok();
    eventually("the canary is restarted for corrected content", || {
        let revisions = story.revisions("canary");
        if revisions == 3 { Ok(()) } else { Err(revisions.to_string()) }
    });
    takes_pods(&story, true);
    story.until_restarted("canary", &before[0]);
    until_all_restarted(&story, &["a", "b"], &before[1..]);
    let settled = eventually("nothing is wrong any more", || {
        let monitor = admin.get("ConfigMonitor", &story.home, "monitor").ok_or("it is gone")?;
        let is_well = condition(&monitor, "Degraded").is_none_or(|(status, _)| status == "False");
        if is_well && monitor["status"]["upToDate"] == 3 {
            Ok(monitor)
        } else {
            Err(monitor["status"].to_string())
        }
    });
    assert_eq!(settled["status"]["failed"], 0);
    takes_pods(&story, false);
}

/// A schedule that is years away, so that no run of this test comes at its time (Reloader#488, #755).
#[test]
fn a_closed_window_holds_and_restart_now_goes_past_it() {
    let story = Story::new(peaceful(), "windowed");
    for name in ["app", "other"] {
        story.admin().apply(&config_map(&story.home, name, [("k", "1")])).ok();
    }
    story.deploy("web", &["app"]);
    story.deploy("bystander", &["other"]);
    let mut monitor = story.monitor(&["app", "other"], json!(null));
    monitor["spec"]["window"] =
        json!({ "schedule": "30 3 29 2 *", "timeZone": "Europe/Berlin", "duration": "1m" });
    story.admin().create(&monitor).ok();
    let [web, bystander] = ["web", "bystander"].map(|name| {
        story.until_adopted(name);
        story.until_running(name)
    });
    story.until_older_than_now();
    story.admin().apply(&config_map(&story.home, "app", [("k", "2")])).ok();
    eventually("the monitor says when the window opens", || {
        let monitor = story.admin().get("ConfigMonitor", &story.home, "monitor").ok_or("it is gone")?;
        let next = monitor["status"]["nextRestartTime"].as_str().unwrap_or_default();
        if next.contains("-02-29T02:30:00") { Ok(()) } else { Err(monitor["status"].to_string()) }
    });
    story.marker("held");
    assert_eq!((story.until_running("web"), story.revisions("web")), (web.clone(), 1));

    story.bed.kubectl(
        &["annotate", "cfgmon", "monitor", "copyrator.dev/restart-now=1", "--namespace", &story.home],
        &Value::Null,
    );
    story.until_restarted("web", &web);
    assert_eq!(story.revisions("web"), 2);
    assert_eq!(story.until_running("bystander"), bystander, "restarted, and nothing was due");
}

/// Once before the soak and once during it: pods that find no node have a restart under way, and a soak lasts, for as long as
/// the story likes.
#[test]
fn a_stage_goes_on_where_it_was_when_we_are_killed_and_started_again() {
    /// The canary comes last by name, so that only the order can put it first.
    const NAMES: [&str; 3] = ["the-canary", "a", "b"];
    let (bed, _turn) = rough();
    let mut crew = bed.man();
    let story = Story::new(bed, "interrupted-stage");
    story.admin().apply(&config_map(&story.home, "app", [("k", "1")])).ok();
    story.admin().create(&pinned(&story, NAMES[0])).ok();
    NAMES[1..].iter().for_each(|name| story.deploy(name, &["app"]));
    let mut monitor = story.monitor(&["app"], json!(null));
    let order = json!([{ "matchLabels": { "app": NAMES[0] } }]);
    // No machine is too busy for what is to happen in an hour.
    monitor["spec"]["pace"] =
        json!({ "quietPeriod": "0s", "minInterval": "0s", "maxConcurrent": 1, "soak": "1h", "order": order });
    story.admin().create(&monitor).ok();
    let before = NAMES.map(|name| {
        story.until_adopted(name);
        story.until_running(name)
    });
    story.until_older_than_now();
    takes_pods(&story, false);
    story.admin().apply(&config_map(&story.home, "app", [("k", "2")])).ok();
    eventually("the canary is being restarted", || {
        restarted_at(&story, NAMES[0]).map(drop).ok_or_else(|| "not yet".to_owned())
    });
    for part in ["rolling", "soaking"] {
        crew.reconciler.kill();
        bed.release_lease();
        crew.reconciler = bed.reconciler(0);
        story.marker(part);
        assert_eq!(["a", "b"].map(|name| story.revisions(name)), [1, 1], "{part}: they follow too soon");
        takes_pods(&story, true);
        story.until_restarted(NAMES[0], &before[0]);
    }
    let shorter = json!({ "spec": { "pace": { "soak": "2s" } } });
    story.admin().merge("ConfigMonitor", &story.home, "monitor", &shorter).ok();
    until_all_restarted(&story, &NAMES, &before);
    in_turn(&story, &NAMES, 2);
    takes_pods(&story, false);
    crew.reconciler.kill();
    crew.webhook.kill();
}
