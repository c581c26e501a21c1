//! Configuration and workload are written together, by hand, by Helm or by GitOps: that is one rollout, not two.

use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use crate::bed::objects::{config_map, deployment, gated, secret};
use crate::bed::{Story, peaceful};

/// A manifest of a Deployment that restarts for everything it uses, at the usual pace.
fn manifest(story: &Story<'_>, name: &str, uses: &Value) -> Value {
    let mut workload = deployment(&story.home, name, uses.clone());
    workload["metadata"]["annotations"] = json!({ "copyrator.dev/restart": "true" });
    workload
}

/// Waits until whatever waits for a quiet period has had it.
fn until_silent(story: &Story<'_>, part: &str) {
    story.until_later(4);
    story.marker(part);
}

/// In every order, with a second or so between any two of them (wave#111: short-lived pods at every creation; Reloader#279:
/// applications restart twice at an installation). A busy machine may take longer: no pod begins before all are there.
#[test]
fn a_workload_created_together_with_its_configuration_rolls_once() {
    const ORDERS: [&str; 6] = ["cws", "csw", "wcs", "wsc", "scw", "swc"];
    let story = Story::new(peaceful(), "created-together");
    let things = |name: &str, what| match what {
        'c' => config_map(&story.home, name, [("k", "1")]),
        's' => secret(&story.home, name, [("k", "1")]),
        _ => {
            let from = json!([{ "configMapRef": { "name": name } }, { "secretRef": { "name": name } }]);
            gated(manifest(&story, name, &json!({ "envFrom": from })))
        }
    };
    for step in 0..3 {
        for order in ORDERS {
            let what = order.chars().nth(step).expect("three steps");
            story.admin().create(&things(order, what)).ok();
        }
        thread::sleep(Duration::from_millis(700));
    }
    for order in ORDERS {
        story.lift(order);
        story.until_running(order);
        story.until_adopted(order);
    }
    until_silent(&story, "then");
    for order in ORDERS {
        let workload = story.admin().get("Deployment", &story.home, order).expect("it is there");
        let generation = workload["metadata"]["generation"].as_u64();
        assert_eq!((story.rollouts(order), generation), (1, Some(1)), "{order}");
    }
}

/// Helm and `kubectl apply` of a folder write configuration first (Reloader#110, #837, #992: two or three rollouts).
#[test]
fn configuration_and_workload_that_change_together_roll_once() {
    let story = Story::new(peaceful(), "changed-together");
    let names = ["at-once", "config-before", "config-after", "config-only"];
    let with_version = |name: &str, version: &str| {
        let mut workload =
            manifest(&story, name, &json!({ "envFrom": [{ "configMapRef": { "name": name } }] }));
        workload["spec"]["template"]["metadata"]["annotations"] = json!({ "version": version });
        workload
    };
    let config = |name: &str, value: &str| {
        story.admin().apply(&config_map(&story.home, name, [("k", value)])).ok();
    };
    let workload = |name: &str, version: &str| {
        story.admin().apply(&with_version(name, version)).ok();
    };
    // Not over before the workloads are applied, however busy the machine is.
    let mut patient = story.monitor(&["at-once", "config-before"], json!(null));
    patient["spec"]["pace"] = json!({ "quietPeriod": "1h", "minInterval": "0s" });
    story.admin().create(&patient).ok();
    for name in names {
        config(name, "1");
        workload(name, "1");
    }
    let before = names.map(|name| {
        story.until_adopted(name);
        story.until_running(name)
    });
    // A change within a second of a record of ours is taken for one that came after its pods.
    story.until_later(2);

    config("config-only", "2");
    config("at-once", "2");
    workload("at-once", "2");
    config("config-before", "2");
    // Pods that begin a few seconds later have certainly seen it: times have a resolution of a second.
    story.until_later(5);
    workload("config-before", "2");
    workload("config-after", "2");
    let rolled = story.until_restarted("config-after", &before[2]);
    story.until_older_than_now();
    config("config-after", "2");

    story.until_restarted("at-once", &before[0]);
    story.until_restarted("config-before", &before[1]);
    story.until_restarted("config-only", &before[3]);
    // Its pods began before their content: that they roll once more is right.
    story.until_restarted("config-after", &rolled);
    // The quiet period is over, and nothing comes of it.
    story.end_quiet_period();
    story.until_counted([("upToDate", 2)]);
    until_silent(&story, "then");
    assert_eq!(names.map(|name| story.rollouts(name)), [2, 2, 3, 2]);
}
