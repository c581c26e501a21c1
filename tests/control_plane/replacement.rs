//! What the API server does not let anybody change is deleted and made again.

use crate::bed::objects::{config_map, secret, uid};
use crate::bed::{Story, eventually, peaceful};

/// An immutable copy does not keep its old content for ever (ClusterSecret#12).
#[test]
fn an_immutable_source_that_was_recreated_with_other_content_replaces_its_copies() {
    let story = Story::new(peaceful(), "immutable");
    let target = story.target("a");
    let mut source = config_map(&story.home, "frozen", [("k", "1")]);
    source["immutable"] = true.into();
    story.admin().create(&source).ok();
    let mut rule = story.rule("ConfigMap", &["frozen"]);
    rule["spec"]["deletionGrace"] = "1h".into();
    story.admin().create(&rule).ok();
    let before = story.until("ConfigMap", &target, "frozen", [("k", "1")]);
    assert_eq!(before["immutable"], true);

    story.admin().delete("ConfigMap", &story.home, "frozen").ok();
    source["data"]["k"] = "2".into();
    story.admin().create(&source).ok();
    let after = story.until("ConfigMap", &target, "frozen", [("k", "2")]);
    assert_ne!(uid(&before), uid(&after));
    eventually("an Event says so", || {
        let events = story.admin().list("Event", "", "");
        let about = |event: &serde_json::Value| {
            event["metadata"]["namespace"] == *story.home || event["metadata"]["namespace"] == *target
        };
        let seen: Vec<_> = events.iter().filter(|event| about(event)).map(|event| &event["reason"]).collect();
        if seen.is_empty() { Err("no Event".into()) } else { Ok(()) }
    });
}

#[test]
fn a_source_made_immutable_makes_its_copies_immutable() {
    let story = Story::new(peaceful(), "freezing");
    let target = story.target("a");
    let mut source = config_map(&story.home, "app", [("k", "1")]);
    story.admin().apply(&source).ok();
    story.admin().create(&story.rule("ConfigMap", &["app"])).ok();
    story.until("ConfigMap", &target, "app", [("k", "1")]);
    source["immutable"] = true.into();
    story.admin().apply(&source).ok();
    eventually("the copy is immutable too", || {
        let copy = story.admin().get("ConfigMap", &target, "app").ok_or("it is gone")?;
        if copy["immutable"] == true { Ok(()) } else { Err(copy.to_string()) }
    });
}

#[test]
fn a_secret_whose_type_changed_is_made_anew() {
    let story = Story::new(peaceful(), "retyped");
    let target = story.target("a");
    let mut source = secret(&story.home, "login", [("username", "u"), ("password", "p")]);
    story.admin().create(&source).ok();
    let mut rule = story.rule("Secret", &["login"]);
    rule["spec"]["deletionGrace"] = "1h".into();
    story.admin().create(&rule).ok();
    story.until("Secret", &target, "login", [("username", "u"), ("password", "p")]);
    story.admin().delete("Secret", &story.home, "login").ok();
    source["type"] = "kubernetes.io/basic-auth".into();
    story.admin().create(&source).ok();
    eventually("the copy has the new type", || {
        let copy = story.admin().get("Secret", &target, "login").ok_or("it is gone for now")?;
        if copy["type"] == "kubernetes.io/basic-auth" { Ok(()) } else { Err(copy["type"].to_string()) }
    });
    story.until("Secret", &target, "login", [("username", "u"), ("password", "p")]);
}
