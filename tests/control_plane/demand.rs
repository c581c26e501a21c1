//! What a rule asks for that may do nothing, or that comes to more copies than one rule may: neither is in anybody's way.

use serde_json::{Value, json};

use crate::bed::objects::{binding, config_map};
use crate::bed::{Story, eventually, rough, same};

/// Of each name one ConfigMap.
const SOURCES: usize = 20;

/// A rule that copies everything in its namespace, under names of its own.
fn greedy(story: &Story<'_>) -> Value {
    let mut rule = story.rule("ConfigMap", &["s-*"]);
    rule["metadata"]["name"] = "greedy".into();
    rule["spec"]["copy"] = json!({ "name": "{namespace}-{name}" });
    rule
}

fn populate(story: &Story<'_>) {
    for number in 0..SOURCES {
        story.admin().create(&config_map(&story.home, &format!("s-{number:02}"), [("k", "1")])).ok();
    }
}

/// How many copies of the greedy rule there are in a namespace.
fn copies(story: &Story<'_>, target: &str) -> usize {
    let prefix = format!("{}-s-", story.home);
    let all = story.admin().list("ConfigMap", target, "app.kubernetes.io/managed-by=copyrator");
    all.iter()
        .filter(|it| it["metadata"]["name"].as_str().is_some_and(|name| name.starts_with(&prefix)))
        .count()
}

/// The account may nothing, and its rule is stored all the same: it is asked about, and that is all. Granted, it copies, and not more
/// than a rule may.
#[test]
fn a_rule_that_may_do_nothing_is_in_nobodys_way_until_it_may() {
    let (bed, _turn) = rough();
    let crew = bed.man_with(&["--max-copies-per-rule", "40"]);
    let story = Story::new(bed, "greedy");
    let targets = ["a", "b"].map(|part| story.target(part));
    story.admin().create(&binding(&story.home, "bob", "edit")).ok();
    populate(&story);
    let mut rule = greedy(&story);
    rule["spec"]["serviceAccountName"] = "default".into();
    eventually("bob may write a rule for an account of the rule's namespace", || {
        let answer = bed.bob.create(&rule);
        if answer.code < 300 { Ok(()) } else { Err(answer.refused()) }
    });
    let seen = story.until_condition("CopyratorRule", "greedy", "Authorized", "False", "Forbidden");
    assert_eq!(seen["status"]["desired"], 0, "nothing of what it asks for is looked at");

    // What others may goes on beside it, into places that it asks for too.
    story.admin().create(&config_map(&story.home, "app", [("k", "1")])).ok();
    story.admin().create(&story.rule("ConfigMap", &["app"])).ok();
    for target in &targets {
        story.until("ConfigMap", target, "app", [("k", "1")]);
        assert_eq!(copies(&story, target), 0);
    }

    let grant = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": { "name": "greedy" },
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "edit" },
        "subjects": [{ "kind": "ServiceAccount", "namespace": story.home, "name": "default" }],
    });
    story.admin().create(&grant).ok();
    for target in &targets {
        eventually("it may, and copies", || same(copies(&story, target), SOURCES));
    }
    story.until_condition("CopyratorRule", "greedy", "Ready", "True", "AllCopied");

    let third = story.target("c");
    let rule = story.until_condition("CopyratorRule", "greedy", "Degraded", "True", "TooMany");
    let said = rule["status"]["problems"].to_string();
    for part in ["would make 60 copies", "--max-copies-per-rule (40)"] {
        assert!(said.contains(part), "{part} is not named: {said}");
    }
    story.until("ConfigMap", &third, "app", [("k", "1")]);
    assert_eq!((copies(&story, &third), copies(&story, &targets[0])), (0, SOURCES));
    crew.reconciler.kill();
    crew.webhook.kill();
}
