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

/// `names`, all with the content of one ConfigMap, and adopted.
fn deployed(story: &Story<'_>, names: &[&str], pace: Value) -> Vec<String> {
    story.admin().apply(&config_map(&story.home, "app", [("k", "1")])).ok();
    for name in names {
        story.deploy(name, &["app"]);
    }
    let mut monitor = story.monitor(&["app"], json!(null));
    for (key, value) in pace.as_object().expect("a pace") {
        monitor["spec"]["pace"][key] = value.clone();
    }
    story.admin().create(&monitor).ok();
    names.iter().for_each(|name| drop(story.until_adopted(name)));
    let before = names.iter().map(|name| story.until_running(name)).collect();
    story.until_older_than_now();
    before
}

/// Changes the soak, which a story begins with an hour of: no machine is too busy for what is to happen in it.
fn soak_for(story: &Story<'_>, soak: &str) {
    let shorter = json!({ "spec": { "pace": { "soak": soak } } });
    story.admin().merge("ConfigMonitor", &story.home, "monitor", &shorter).ok();
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

/// The canary comes last by name, so that only the order can have put it first (Reloader#1109, #579, #507).
#[test]
fn the_canary_restarts_first_and_then_one_at_a_time() {
    let story = Story::new(peaceful(), "in-stages");
    let order = json!([{ "matchLabels": { "app": "the-canary" } }]);
    let names = ["the-canary", "a", "b", "c"];
    let before = deployed(&story, &names, json!({ "maxConcurrent": 1, "soak": "2s", "order": order }));
    story.admin().apply(&config_map(&story.home, "app", [("k", "2")])).ok();
    until_all_restarted(&story, &names, &before);
    in_turn(&story, &names, 2);
    eventually("the monitor counts them as up to date", || {
        let monitor = story.admin().get("ConfigMonitor", &story.home, "monitor").ok_or("it is gone")?;
        if monitor["status"]["upToDate"] == 4 { Ok(()) } else { Err(monitor["status"].to_string()) }
    });
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
fn a_closed_window_holds_and_restart_now_goes_past_it_once() {
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
    let until_waiting = || {
        eventually("the monitor says when the window opens", || {
            let monitor = story.admin().get("ConfigMonitor", &story.home, "monitor").ok_or("it is gone")?;
            let next = monitor["status"]["nextRestartTime"].as_str().unwrap_or_default();
            if next.contains("-02-29T02:30:00") { Ok(()) } else { Err(monitor["status"].to_string()) }
        });
    };
    story.admin().apply(&config_map(&story.home, "app", [("k", "2")])).ok();
    until_waiting();
    story.marker("held");
    assert_eq!((story.until_running("web"), story.revisions("web")), (web.clone(), 1));

    let kubectl = |value: &str| {
        let mut kubectl = story.bed.testbed.cluster().kubectl();
        kubectl.args(["annotate", "cfgmon", "monitor", "--overwrite", "--namespace", &story.home]);
        let output =
            kubectl.arg(format!("copyrator.dev/restart-now={value}")).output().expect("kubectl runs");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    };
    kubectl("1");
    let second = story.until_restarted("web", &web);
    assert_eq!(story.until_running("bystander"), bystander, "restarted, and nothing was due");

    // What changes later waits for the window again, until somebody says it again.
    story.until_older_than_now();
    story.admin().apply(&config_map(&story.home, "app", [("k", "3")])).ok();
    until_waiting();
    story.marker("again");
    assert_eq!((story.until_running("web"), story.revisions("web")), (second.clone(), 2));
    kubectl("2");
    story.until_restarted("web", &second);
    assert_eq!(story.revisions("web"), 3);
}

/// Once before the soak and once during it: pods that find no node have a restart under way, and a soak lasts, for as long as
/// the story likes.
#[test]
fn a_stage_goes_on_where_it_was_when_we_are_killed_and_started_again() {
    let (bed, _turn) = rough();
    let mut crew = bed.man();
    let story = Story::new(bed, "interrupted-stage");
    let order = json!([{ "matchLabels": { "app": "the-canary" } }]);
    story.admin().apply(&config_map(&story.home, "app", [("k", "1")])).ok();
    story.admin().create(&pinned(&story, "the-canary")).ok();
    let canary = story.until_running("the-canary");
    let names = ["a", "b"];
    let before = deployed(&story, &names, json!({ "maxConcurrent": 1, "soak": "1h", "order": order }));
    story.until_adopted("the-canary");
    takes_pods(&story, false);
    story.admin().apply(&config_map(&story.home, "app", [("k", "2")])).ok();
    eventually("the canary is being restarted", || {
        restarted_at(&story, "the-canary").map(drop).ok_or_else(|| "not yet".to_owned())
    });
    for part in ["rolling", "soaking"] {
        crew.reconciler.kill();
        bed.release_lease();
        crew.reconciler = bed.reconciler(0);
        story.marker(part);
        assert_eq!(names.map(|name| story.revisions(name)), [1, 1], "{part}: they follow too soon");
        takes_pods(&story, true);
        story.until_restarted("the-canary", &canary);
    }
    soak_for(&story, "2s");
    until_all_restarted(&story, &names, &before);
    assert_eq!(story.revisions("the-canary"), 2, "it restarted more than once");
    in_turn(&story, &["the-canary", "a", "b"], 2);
    takes_pods(&story, false);
    crew.reconciler.kill();
    crew.webhook.kill();
}

/// No deadline is in sight: the pods themselves say what is wrong.
#[test]
fn a_canary_that_is_unready_again_during_its_soak_stops_the_others_until_it_is_ready() {
    let story = Story::new(peaceful(), "relapsing-canary");
    let names = ["a-canary", "b"];
    let before = deployed(&story, &names, json!({ "maxConcurrent": 1, "soak": "1h" }));
    let content = [("k", "2")];
    story.admin().apply(&config_map(&story.home, "app", content)).ok();
    let canary = story.until_restarted("a-canary", &before[0]);
    let say = |ready: &str| {
        let pod =
            story.pods("a-canary").remove(0)["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        let now = Timestamp::now().round(jiff::Unit::Second).expect("a time of today").to_string();
        let condition = json!([{ "type": "Ready", "status": ready, "lastTransitionTime": now }]);
        let status = json!({ "status": { "conditions": condition } });
        story.admin().merge("Pod", &story.home, &format!("{pod}/status"), &status).ok();
    };
    say("False");
    let monitor = story.until_condition("ConfigMonitor", "monitor", "Degraded", "True", "StageFailed");
    let problems = monitor["status"]["problems"].to_string();
    assert!(problems.contains("was ready and is now not ready"), "{problems}");
    story.marker("then");
    assert_eq!(
        (story.until_running("b"), story.revisions("b")),
        (before[1].clone(), 1),
        "followed a failure"
    );
    say("True");
    // It counts from now, not from when the canary was ready for the first time.
    soak_for(&story, "10s");
    story.until_restarted("b", &before[1]);
    assert_eq!((story.until_running("a-canary"), story.revisions("a-canary")), (canary, 2));
    in_turn(&story, &names, 10);
}

#[test]
fn a_canary_that_crashes_stops_the_others_before_any_deadline() {
    let story = Story::new(peaceful(), "crashing-canary");
    story.admin().apply(&config_map(&story.home, "app", [("k", "1")])).ok();
    story.admin().create(&pinned(&story, "a-canary")).ok();
    let before = deployed(&story, &["b"], json!({ "order": [{ "matchLabels": { "app": "a-canary" } }] }));
    story.until_adopted("a-canary");
    story.until_running("a-canary");
    story.until_older_than_now();
    takes_pods(&story, false);
    story.admin().apply(&config_map(&story.home, "app", [("k", "2")])).ok();
    // Nobody plays a kubelet to a pod without a node: what is said of it stays.
    let pending = eventually("the canary has a new pod", || {
        let pods = story.pods("a-canary");
        let new = pods.iter().find(|pod| pod["spec"]["nodeName"].is_null());
        let name = new.and_then(|pod| pod["metadata"]["name"].as_str()).map(str::to_owned);
        name.ok_or_else(|| format!("{} pods, none is pending", pods.len()))
    });
    let state = json!({ "waiting": { "reason": "CrashLoopBackOff" } });
    let container = json!({ "name": "main", "ready": false, "restartCount": 1, "image": "example.com/app", "imageID": "", "state": state });
    let status = json!({ "status": { "containerStatuses": [container] } });
    story.admin().merge("Pod", &story.home, &format!("{pending}/status"), &status).ok();
    let monitor = story.until_condition("ConfigMonitor", "monitor", "Degraded", "True", "StageFailed");
    let problems = monitor["status"]["problems"].to_string();
    assert!(problems.contains("crashes repeatedly"), "{problems}");
    story.marker("then");
    assert_eq!(
        (story.until_running("b"), story.revisions("b")),
        (before[0].clone(), 1),
        "followed a failure"
    );

    // What mends it need not wait for the deadline of ten minutes.
    story.admin().apply(&config_map(&story.home, "app", [("k", "3")])).ok();
    eventually("the canary is restarted for corrected content", || {
        let revisions = story.revisions("a-canary");
        if revisions == 3 { Ok(()) } else { Err(revisions.to_string()) }
    });
    takes_pods(&story, true);
    story.until_restarted("b", &before[0]);
    assert_eq!(story.revisions("b"), 2);
    takes_pods(&story, false);
}
