//! Reasons, from a fake cluster.

use serde_json::{Value, json};

use super::*;
use crate::tests::fake_cluster::{FakeCluster, config_map, namespace, rule};

/// What a rule with `change` copies into `shop` with these labels.
fn reason(labels: Value, change: &Value, more: &[Value]) -> (String, String) {
    let mut objects = vec![
        namespace("platform", json!({ "team": "blue" })),
        namespace("kube-system", json!({ "team": "blue" })),
        namespace("copyrator-system", json!({ "team": "blue" })),
        namespace("shop", labels),
        config_map("platform", "app"),
        rule("apps", "app", change),
    ];
    objects.extend_from_slice(more);
    let cluster = FakeCluster::new(&objects);
    brought(&cluster, "shop")
}

fn brought(cluster: &FakeCluster, namespace: &str) -> (String, String) {
    let rule = Declarer::rule("platform", "apps");
    match brings(&cluster.world, &cluster.outlooks, &rule, namespace) {
        Brings::Copies(count) => (format!("{count} copies"), String::new()),
        Brings::Lacks { reason, message } => (reason.as_str().to_owned(), message),
    }
}

#[test]
fn the_first_reason_is_told_and_what_to_do_about_it() {
    let blue = || json!({ "team": "blue" });
    let none = json!({});
    let in_the_way = [config_map("shop", "app")];
    for (labels, change, more, expected, part) in [
        (blue(), &none, &[][..], "1 copies", ""),
        (
            json!({ "team": "red" }),
            &none,
            &[],
            "NotATarget",
            "targets[0] requires the label team=blue, but the namespace has \"red\"",
        ),
        (json!({}), &none, &[], "NotATarget", "but the namespace does not have the label"),
        (
            json!({}),
            &json!({ "targets": [{ "names": ["web-*"] }] }),
            &[],
            "NotATarget",
            "targets[0] names web-*",
        ),
        (blue(), &json!({ "excludeTargets": ["sh*"] }), &[], "Excluded", "excludeTargets names it"),
        (
            json!({ "team": "blue", "copyrator.dev/copies": "refuse" }),
            &none,
            &[],
            "Refuses",
            "copyrator.dev/copies: refuse",
        ),
        (blue(), &json!({ "source": { "names": ["other"] } }), &[], "NoSource", "no existing ConfigMap"),
        (blue(), &json!({ "targets": [] }), &[], "Invalid", "spec.targets"),
        (blue(), &json!({ "suspend": true }), &[], "Suspended", "spec.suspend is true"),
        (blue(), &none, &in_the_way, "Conflict", "ConfigMap shop/app: an object that Copyrator did not make"),
        // Of several reasons, the namespace's own comes first.
        (json!({ "copyrator.dev/copies": "refuse" }), &json!({ "suspend": true }), &[], "Refuses", ""),
    ] {
        let (reason, message) = reason(labels, change, more);
        assert!(reason == expected && message.contains(part), "{expected}: {reason}: {message}");
    }
}

#[test]
fn some_namespaces_take_nothing_whatever_rules_say() {
    let objects = [
        namespace("platform", json!({ "team": "blue" })),
        namespace("kube-system", json!({ "team": "blue" })),
        namespace("copyrator-system", json!({ "team": "blue" })),
        config_map("platform", "app"),
        rule("apps", "app", &json!({})),
    ];
    let cluster = FakeCluster::new(&objects);
    for (namespace, expected) in [
        ("kube-system", "SystemNamespace"),
        ("copyrator-system", "OwnNamespace"),
        ("platform", "SourceNamespace"),
        ("nowhere", "NotFound"),
    ] {
        assert_eq!(brought(&cluster, namespace).0, expected, "{namespace}");
    }
}

/// A copy that is due and never made is not counted as in order.
#[test]
fn a_copy_that_is_not_there_yet_is_missing() {
    let objects =
        [namespace("platform", json!({})), config_map("platform", "app"), rule("apps", "app", &json!({}))];
    let cluster = FakeCluster::new(&objects).with(namespace("shop", json!({ "team": "blue" })));
    let (reason, message) = brought(&cluster, "shop");
    assert!(reason == "Missing" && message.contains("copyrator doctor"), "{reason}: {message}");
}

#[test]
fn the_table_is_about_what_is_missing() {
    let rule = |name: &str| Declarer::rule("platform", name);
    let lacks =
        Brings::Lacks { reason: crate::plan::Reason::Excluded, message: "excludeTargets names it".into() };
    let items = vec![row(&rule("registry"), lacks), row(&rule("secret:tls"), Brings::Copies(2))];
    let answer = Answer { namespace: "shop".into(), items, unseen: None };
    let expected =
        "RULE                REASON     MESSAGE\nplatform/registry   Excluded   excludeTargets names it\n";
    assert_eq!(table(&answer, false), expected);
    assert!(
        table(&answer, true)
            .ends_with("platform/secret:tls   -          2 of its copies are there, in order\n")
    );
    assert_eq!(names(&answer.items), "copyratorrule.copyrator.dev/registry\n");
    let items = vec![row(&rule("registry"), Brings::Copies(1))];
    let fine = Answer { namespace: "shop".into(), items, unseen: None };
    assert!(answer.is_lacking() && !fine.is_lacking());
    assert_eq!(table(&fine, false), "Nothing is missing in shop: 1 rules bring their copies.\n");
}

/// Without a readable rule, the answer still says that nothing is known of the namespace.
#[test]
fn of_an_unseen_namespace_it_is_not_said_that_nothing_is_missing() {
    let why = "namespace shop is not served";
    let answer = Answer { namespace: "shop".into(), items: Vec::new(), unseen: Some(why.into()) };
    assert!(answer.is_lacking());
    assert_eq!(table(&answer, false), format!("{why}\n"));
}
