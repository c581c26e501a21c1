//! The control plane fails, and comes back.

use std::{thread, time::Duration};

use devcluster::Component;
use serde_json::{Value, json};

use crate::bed::objects::{annotation, config_map, data, uid};
use crate::bed::{Bed, Crowd, Person, Story, eventually, shaky};

const REMOVE_AFTER: &str = "copyrator.dev/remove-after";
/// Longer than the lease lasts, so that the leader must have given up.
const TOO_LONG: Duration = Duration::from_secs(20);

/// Watches that are cut, that end, and that say nothing: none of them stalls while we look alive (reflector#696, #467,
/// #77).
#[test]
fn after_each_fault_of_the_control_plane_every_change_is_made_up_for() {
    let (bed, _turn) = shaky();
    let mut crew = bed.man();
    let story = Story::new(bed, "faulty");
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
    refuses_nonsense(bed, &story);
}

#[test]
fn an_api_server_that_dies_in_a_fan_out_costs_no_copy() {
    const TARGETS: usize = 40;
    let (bed, _turn) = shaky();
    let mut crew = bed.man();
    let crowd = Crowd::new(bed, "outage", TARGETS);
    let story = &crowd.story;
    let api_server = bed.testbed.cluster().component(Component::ApiServer);
    bed.admin.apply(&config_map(&story.home, "app", [("round", "0")])).ok();
    bed.admin.create(&story.rule("ConfigMap", &["app"])).ok();
    crowd.until_all_hold(&data([("round", "0")]));
    let uids = || crowd.copies().values().map(uid).collect::<Vec<_>>();
    let first = uids();
    for (round, orderly) in [("1", false), ("2", true)] {
        bed.admin.apply(&config_map(&story.home, "app", [("round", round)])).ok();
        let wanted = data([("round", round)]);
        crowd.until_some_hold(&wanted, 1);
        if orderly { api_server.stop() } else { api_server.kill() }.expect("the API server ends");
        api_server.start().expect("the API server is back");
        crowd.until_all_hold(&wanted);
        // A list of a server that has just begun is no reason to think that anything has gone.
        let marked = crowd.copies().into_values().find(|copy| annotation(copy, REMOVE_AFTER).is_some());
        assert_eq!((uids(), marked), (first.clone(), None), "a copy was made anew, or marked to go");
    }
    story.until_condition("CopyratorRule", "rule", "Ready", "True", "AllCopied");
    assert!(crew.webhook.is_running() && crew.reconciler.is_running(), "a process of ours ended");
}

/// A watch that comes back too late gets 410 Gone instead of what it missed, deletions above all.
#[test]
fn what_an_expired_watch_missed_is_found_by_a_list() {
    let (bed, _turn) = shaky();
    let crew = bed.man();
    let story = Story::new(bed, "expired");
    let (edited, emptied, left) = (story.target("edited"), story.target("emptied"), story.target("left"));
    bed.admin.apply(&config_map(&story.home, "app", [("k", "1")])).ok();
    bed.admin.create(&story.rule("ConfigMap", &["app"])).ok();
    for target in [&edited, &emptied, &left] {
        story.until("ConfigMap", target, "app", [("k", "1")]);
    }
    let expired = |log: &str| {
        log.lines().filter(|line| line.contains("watch failed") && line.contains("too old")).count()
    };
    let before = expired(&crew.reconciler.log());
    crew.reconciler.pause().expect("it can be paused");
    bed.admin.merge("ConfigMap", &edited, "app", &json!({ "data": { "k": "edited" } })).ok();
    bed.admin.delete("ConfigMap", &emptied, "app").ok();
    bed.admin.merge("Namespace", "", &left, &json!({ "metadata": { "labels": { "story": null } } })).ok();
    // Its watch cache begins with what is there when it starts: of what came before it can tell nobody.
    let api_server = bed.testbed.cluster().component(Component::ApiServer);
    api_server.kill().expect("the API server dies");
    api_server.start().expect("the API server is back");
    until_stored(&bed.admin, &config_map(&story.home, "app", [("k", "2")]));
    crew.reconciler.resume().expect("it goes on");

    for target in [&edited, &emptied] {
        story.until("ConfigMap", target, "app", [("k", "2")]);
    }
    story.until_gone("ConfigMap", &left, "app");
    eventually("a watch was told that it is too late", || {
        let log = crew.reconciler.log();
        if expired(&log) > before {
            Ok(())
        } else {
            Err(log.lines().rev().take(9).collect::<Vec<_>>().join("\n"))
        }
    });
}

/// Source, hand edit and deletion: each by its own watch.
fn all_changes_arrive(story: &Story<'_>, targets: &[&String; 2], value: &str) {
    let admin = story.admin();
    until_stored(admin, &config_map(&story.home, "app", [("k", value)]));
    for target in targets {
        story.until("ConfigMap", target, "app", [("k", value)]);
    }
    admin.merge("ConfigMap", targets[0], "app", &json!({ "data": { "k": "edited" } })).ok();
    admin.delete("ConfigMap", targets[1], "app").ok();
    for target in targets {
        story.until("ConfigMap", target, "app", [("k", value)]);
    }
}

/// Applies an object, once the API server stores it. One that has lost etcd says that it is ready by what it knew two seconds ago,
/// and fails writes with 500 until its client has come through again, as people see it, too: they try again.
fn until_stored(admin: &Person, object: &Value) {
    eventually("the API server stores the change", || {
        let answer = admin.apply(object);
        if answer.code < 300 { Ok(()) } else { Err(format!("{} {}", answer.code, answer.body)) }
    });
}

fn refuses_nonsense(bed: &Bed, story: &Story<'_>) {
    let mut rule = story.rule("ConfigMap", &["app"]);
    rule["metadata"]["name"] = "senseless".into();
    rule["spec"]["targets"][0]["namespaceSelector"]["matchLabels"]["no label"] = "x".into();
    bed.admin.create(&rule).refused();
}
