//! The control plane fails, and comes back.

use std::{thread, time::Duration};

use devcluster::Component;
use serde_json::json;

use crate::bed::objects::config_map;
use crate::bed::{Bed, Story, private};

/// Longer than the lease lasts, so that the leader must have given up.
const TOO_LONG: Duration = Duration::from_secs(20);

#[test]
fn after_each_fault_of_the_control_plane_every_change_is_made_up_for() {
    let bed = private("faults");
    let mut crew = bed.man();
    let story = Story::new(&bed, "faulty");
    let (kept, left) = (story.target("kept"), story.target("left"));
    bed.admin.apply(&config_map(&story.home, "app", [("k", "0")])).ok();
    bed.admin.create(&story.rule("ConfigMap", &["app"])).ok();
    for target in [&kept, &left] {
        story.until("ConfigMap", target, "app", [("k", "0")]);
    }
    let api_server = bed.testbed.cluster().component(Component::ApiServer);
    let etcd = bed.testbed.cluster().component(Component::Etcd);

    // Crashed and restarted: every watch is cut, and the watch cache begins anew (410 Gone for who asks for more).
    api_server.kill().expect("the API server dies");
    api_server.start().expect("the API server is back");
    all_changes_arrive(&story, &[&kept, &left], "after a crash of the API server");

    etcd.kill().expect("etcd dies");
    etcd.start().expect("etcd is back");
    all_changes_arrive(&story, &[&kept, &left], "after a crash of etcd");

    // Hung: connections stay open and nothing answers.
    api_server.pause().expect("the API server hangs");
    thread::sleep(TOO_LONG);
    api_server.resume().expect("the API server goes on");
    all_changes_arrive(&story, &[&kept, &left], "after the API server hung");

    assert!(crew.webhook.is_running() && crew.reconciler.is_running(), "a process of ours ended");
    // Removal works as well as before, and hits nothing else.
    bed.admin.merge("Namespace", "", &left, &json!({ "metadata": { "labels": { "story": null } } })).ok();
    story.until_gone("ConfigMap", &left, "app");
    let copy = bed.admin.get("ConfigMap", &kept, "app");
    assert!(copy.is_some(), "a wanted copy was removed");
    refuses_nonsense(&bed, &story);
}

/// Source, hand edit and deletion: each by its own watch.
fn all_changes_arrive(story: &Story<'_>, targets: &[&String; 2], value: &str) {
    let admin = story.admin();
    admin.apply(&config_map(&story.home, "app", [("k", value)])).ok();
    for target in targets {
        story.until("ConfigMap", target, "app", [("k", value)]);
    }
    admin.merge("ConfigMap", targets[0], "app", &json!({ "data": { "k": "edited" } })).ok();
    admin.delete("ConfigMap", targets[1], "app").ok();
    for target in targets {
        story.until("ConfigMap", target, "app", [("k", value)]);
    }
}

fn refuses_nonsense(bed: &Bed, story: &Story<'_>) {
    let mut rule = story.rule("ConfigMap", &["app"]);
    rule["metadata"]["name"] = "senseless".into();
    rule["spec"]["targets"][0]["namespaceSelector"]["matchLabels"]["no label"] = "x".into();
    bed.admin.create(&rule).refused();
}
