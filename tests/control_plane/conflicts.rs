//! What is not ours is not touched, and who wanted it is told.

use serde_json::json;

use crate::bed::objects::{annotation, condition, config_map, secret, version};
use crate::bed::{Story, eventually, peaceful, same};

/// What is there already is not ours to write (replicator#56, #312).
#[test]
fn a_foreign_object_is_never_overwritten_and_the_rule_says_so() {
    let story = Story::new(peaceful(), "foreign");
    let (taken, free) = (story.target("taken"), story.target("free"));
    let foreign = story.admin().create(&config_map(&taken, "app", [("theirs", "yes")])).ok();
    story.admin().create(&config_map(&story.home, "app", [("k", "v")])).ok();
    story.admin().create(&story.rule("ConfigMap", &["app"])).ok();
    story.until("ConfigMap", &free, "app", [("k", "v")]);
    let rule = story.until_condition("CopyratorRule", "rule", "Degraded", "True", "Conflict");
    assert_eq!(rule["status"]["problems"][0]["namespace"], json!(taken), "{}", rule["status"]);
    eventually("one of two is in order", || {
        let rule = story.admin().get("CopyratorRule", &story.home, "rule").ok_or("it is gone")?;
        same((&rule["status"]["desired"], &rule["status"]["current"]), (&json!(2), &json!(1)))
    });
    let still = story.admin().get("ConfigMap", &taken, "app").expect("the foreign object stays");
    assert_eq!(version(&still), version(&foreign));

    // Once it is out of the way, the copy comes by itself.
    story.admin().delete("ConfigMap", &taken, "app").ok();
    story.until("ConfigMap", &taken, "app", [("k", "v")]);
    eventually("the rule is well again", || {
        let rule = story.admin().get("CopyratorRule", &story.home, "rule").ok_or("it is gone")?;
        if rule["status"]["problemCount"] == 0 { Ok(()) } else { Err(rule["status"].to_string()) }
    });
}

/// Helm's releases, tokens and the like are not watched: nobody tells of them but the refusal to create.
#[test]
fn an_object_that_is_not_watched_is_in_the_way_all_the_same() {
    let story = Story::new(peaceful(), "unwatched");
    let (taken, free) = (story.target("taken"), story.target("free"));
    let mut release = secret(&taken, "app", [("release", "theirs")]);
    release["type"] = "helm.sh/release.v1".into();
    let release = story.admin().create(&release).ok();
    story.admin().create(&secret(&story.home, "app", [("k", "v")])).ok();
    let mut rule = story.rule("Secret", &["app"]);
    rule["spec"]["conflictPolicy"] = "Overwrite".into();
    story.admin().create(&rule).ok();
    story.until("Secret", &free, "app", [("k", "v")]);
    let rule = story.until_condition("CopyratorRule", "rule", "Degraded", "True", "Conflict");
    let problem = &rule["status"]["problems"][0];
    assert_eq!(
        (&problem["namespace"], &problem["name"]),
        (&json!(taken), &json!("app")),
        "{}",
        rule["status"]
    );
    // Nothing is under way, once the other copy is told of.
    story.until_condition("CopyratorRule", "rule", "Ready", "True", "Incomplete");
    let still = story.admin().get("Secret", &taken, "app").expect("the release stays");
    assert_eq!(version(&still), version(&release));
}

#[test]
fn another_writer_of_a_copy_is_named_and_answered_less_and_less() {
    let story = Story::new(peaceful(), "fought-over");
    let target = story.target("a");
    story.admin().create(&config_map(&story.home, "app", [("k", "v")])).ok();
    story.admin().create(&story.rule("ConfigMap", &["app"])).ok();
    story.until("ConfigMap", &target, "app", [("k", "v")]);
    let theirs = json!({ "data": { "k": "theirs" } });
    let rule = eventually("the rule names who writes there, too", || {
        story.admin().merge("ConfigMap", &target, "app", &theirs).ok();
        let rule = story.admin().get("CopyratorRule", &story.home, "rule").ok_or("it is gone")?;
        let degraded = condition(&rule, "Degraded");
        if degraded == Some(("True".into(), "Contested".into())) {
            Ok(rule)
        } else {
            Err(rule["status"].to_string())
        }
    });
    let message = rule["status"]["problems"][0]["message"].to_string();
    assert!(message.contains("kubectl-edit"), "{message}");
    // Left alone, the copy is put right all the same.
    story.until("ConfigMap", &target, "app", [("k", "v")]);
    // New content is nobody's repair, and waits for nothing.
    story.admin().merge("ConfigMap", &story.home, "app", &json!({ "data": { "k": "new" } })).ok();
    story.until("ConfigMap", &target, "app", [("k", "new")]);
}

/// `helm upgrade` fails without its marks, and a controller makes its object anew.
#[test]
fn what_somebody_keeps_is_not_adopted_and_what_was_adopted_is_given_back() {
    let story = Story::new(peaceful(), "kept");
    let (helm, free) = (story.target("helm"), story.target("free"));
    let mut theirs = config_map(&helm, "app", [("k", "v")]);
    theirs["metadata"]["labels"] = json!({ "app.kubernetes.io/managed-by": "Helm" });
    theirs["metadata"]["annotations"] = json!({ "meta.helm.sh/release-name": "web" });
    let theirs = story.admin().create(&theirs).ok();
    let adopted = story.admin().create(&config_map(&free, "app", [("k", "v")])).ok();
    story.admin().create(&config_map(&story.home, "app", [("k", "v")])).ok();
    let mut rule = story.rule("ConfigMap", &["app"]);
    rule["spec"]["conflictPolicy"] = "Adopt".into();
    rule["spec"]["deletionGrace"] = "0s".into();
    story.admin().create(&rule).ok();
    until_managed(&story, &free);
    let degraded = story.until_condition("CopyratorRule", "rule", "Degraded", "True", "Conflict");
    assert!(degraded["status"].to_string().contains("Helm release web"), "{}", degraded["status"]);
    story.admin().merge("ConfigMap", &story.home, "app", &json!({ "data": { "k": "new" } })).ok();
    story.until("ConfigMap", &free, "app", [("k", "new")]);

    story.admin().delete("CopyratorRule", &story.home, "rule").ok();
    eventually("what was adopted is given back", || {
        let object = story.admin().get("ConfigMap", &free, "app").ok_or("it is gone")?;
        let is_free = annotation(&object, "copyrator.dev/mark").is_none()
            && object["metadata"]["labels"]["copyrator.dev/rule"].is_null();
        if is_free { Ok(()) } else { Err(object["metadata"].to_string()) }
    });
    let still = story.until("ConfigMap", &free, "app", [("k", "new")]);
    assert_eq!(still["metadata"]["uid"], adopted["metadata"]["uid"]);
    let still = story.admin().get("ConfigMap", &helm, "app").expect("the release's object is gone");
    assert_eq!(version(&still), version(&theirs));
}

#[test]
fn overwrite_takes_over_with_every_foreign_key() {
    let story = Story::new(peaceful(), "overwritten");
    let target = story.target("a");
    let mut theirs = config_map(&target, "app", [("k", "else"), ("theirs", "yes")]);
    // As a controller leaves it that has copied the annotations of something that a template declares.
    theirs["metadata"]["annotations"] = json!({ "copyrator.dev/object": "deployments.apps/elsewhere/app" });
    story.admin().apply(&theirs).ok();
    story.admin().create(&config_map(&story.home, "app", [("k", "v")])).ok();
    let mut rule = story.rule("ConfigMap", &["app"]);
    rule["spec"]["conflictPolicy"] = "Overwrite".into();
    story.admin().create(&rule).ok();
    until_managed(&story, &target);
    let copy = story.until("ConfigMap", &target, "app", [("k", "v")]);
    let itself = format!("configmaps/{target}/app");
    assert_eq!(
        annotation(&copy, "copyrator.dev/object"),
        Some(&*itself),
        "the copy says that it is another object"
    );
}

fn until_managed(story: &Story<'_>, target: &str) {
    eventually(&format!("the object in {target} is taken over"), || {
        let object = story.admin().get("ConfigMap", target, "app").ok_or("it is gone")?;
        let managed = object["metadata"]["labels"]["app.kubernetes.io/managed-by"] == "copyrator";
        if managed { Ok(()) } else { Err(object["metadata"].to_string()) }
    });
}
