//! Trees, from a fake cluster.

use serde_json::{Value, json};

use super::{
    draw::draw,
    grow::{grow, of_object, of_rule},
};
use crate::{
    names::{Declarer, Kind, ObjectKey},
    tests::fake_cluster::{FakeCluster, config_map, deployment, namespace, ours, rule},
};

fn objects() -> Vec<Value> {
    let team = json!({ "team": "blue" });
    let watch = json!({ "watch": [{ "kind": "ConfigMap", "names": ["app"] }] });
    vec![
        namespace("platform", json!({})),
        namespace("docs", team.clone()),
        namespace("shop", team),
        config_map("platform", "app"),
        rule("apps", "app", &json!({})),
        deployment("shop", "web", "app"),
        deployment("docs", "site", "app"),
        ours("ConfigMonitor", "shop", "all", watch),
    ]
}

fn key(namespace: &str, name: &str) -> ObjectKey {
    ObjectKey::new(Kind::ConfigMap, namespace, name)
}

#[test]
fn a_tree_is_sources_copies_and_workloads_with_notes_by_number() {
    let cluster = FakeCluster::new(&objects());
    let text = draw(&grow(&cluster.seen_by()), false, false);
    let expected = "\
ConfigMap platform/app
├── ConfigMap docs/app, by platform/apps
│   └── Deployment docs/site (1)
└── ConfigMap shop/app, by platform/apps
    └── Deployment shop/web (2)

1) NotAsked: no monitor selects this workload, and it has no annotation copyrator.dev/restart
";
    assert!(text.starts_with(expected), "{text}");
    let wide = draw(&grow(&cluster.seen_by()), true, false);
    assert!(wide.contains("ConfigMap docs/app, by platform/apps, current\n"), "{wide}");
    let coloured = draw(&grow(&cluster.seen_by()), false, true);
    assert!(coloured.contains("└── \u{1b}[33mDeployment docs/site (1)\u{1b}[0m\n"), "{coloured}");
}

#[test]
fn what_is_in_the_way_is_noted_and_its_users_are_not_shown() {
    let mut objects = objects();
    objects.push(config_map("docs", "app"));
    let cluster = FakeCluster::new(&objects);
    let text = draw(&grow(&cluster.seen_by()), false, false);
    assert!(text.contains("├── ConfigMap docs/app, by platform/apps (1)\n└── "), "{text}");
    assert!(text.contains("\n1) Conflict: an object that Copyrator did not make is in the way"), "{text}");
    assert!(!text.contains("docs/site"), "{text}");
}

#[test]
fn one_object_has_its_own_branch() {
    let cluster = FakeCluster::new(&objects()).with(config_map("shop", "alone"));
    let seen = cluster.seen_by();
    let drawn = |object: &ObjectKey| of_object(&seen, object).map(|forest| draw(&forest, false, false));
    let of_copy = drawn(&key("docs", "app")).expect("a tree");
    assert!(of_copy.starts_with("ConfigMap platform/app\n└── ConfigMap docs/app"), "{of_copy}");
    let of_source = drawn(&key("platform", "app")).expect("a tree");
    assert!(of_source.contains("docs/app") && of_source.contains("shop/app"), "{of_source}");
    assert_eq!(drawn(&key("shop", "alone")).as_deref(), Some("ConfigMap shop/alone\n"));
    assert_eq!(drawn(&key("shop", "nothing")), None);
}

#[test]
fn a_rule_without_copies_says_why() {
    let mut objects = objects();
    objects.push(rule("idle", "nothing", &json!({})));
    let cluster = FakeCluster::new(&objects);
    let seen = cluster.seen_by();
    let drawn = |name| of_rule(&seen, &Declarer::rule("platform", name)).map(|it| draw(&it, false, false));
    let idle = drawn("idle").expect("a tree");
    assert!(idle.starts_with("CopyratorRule platform/idle (1)\n\n1) NoSource: "), "{idle}");
    assert!(drawn("apps").expect("a tree").starts_with("ConfigMap platform/app\n"));
    assert_eq!(drawn("gone"), None);
}
