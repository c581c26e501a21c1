//! Answers, from a fake cluster.

use serde_json::{Value, json};

use super::{answer::why, words::told};
use crate::{
    arguments::Named,
    tests::fake_cluster::{FakeCluster, config_map, deployment, namespace, ours, rule},
};

fn cluster(more: &[Value]) -> FakeCluster {
    let watch = json!({ "watch": [{ "kind": "ConfigMap", "names": ["app"] }] });
    let mut objects = vec![
        namespace("platform", json!({})),
        namespace("shop", json!({ "team": "blue" })),
        config_map("platform", "app"),
        rule("apps", "app", &json!({})),
        deployment("shop", "web", "app"),
        ours("ConfigMonitor", "shop", "all", watch),
    ];
    objects.extend_from_slice(more);
    FakeCluster::new(&objects)
}

fn asked(cluster: &FakeCluster, object: &str, namespace: &str) -> Option<String> {
    let named: Named = object.parse().unwrap();
    why(&cluster.seen_by(), &named, namespace).map(|answer| told(&answer, false))
}

#[track_caller]
fn assert_says(text: &str, parts: &[&str]) {
    // Columns are as wide as they must be.
    let squeezed = text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "));
    let squeezed = squeezed.collect::<Vec<_>>().join("\n");
    for part in parts {
        assert!(squeezed.contains(part), "{part:?} is missing in:\n{text}");
    }
}

#[test]
fn a_copy_says_whose_it_is_who_edits_it_and_what_restarts() {
    let cluster = cluster(&[]);
    let text = asked(&cluster, "cm/app", "shop").expect("an answer");
    assert!(text.starts_with("ConfigMap shop/app\n"), "{text}");
    assert_says(
        &text,
        &[
            "copy of ConfigMap platform/app, made by rule platform/apps",
            "rights the rule has the RBAC rights of user alice; alice wrote its spec",
            "state in order",
            "edit its source, ConfigMap platform/app",
            "restarts Deployment shop/web, asked by ConfigMonitor all",
        ],
    );
    let json = serde_json::to_value(why(&cluster.seen_by(), &"cm/app".parse().unwrap(), "shop")).unwrap();
    assert_eq!(json["madeBy"][0]["rule"], "platform/apps");
    assert!(json["madeBy"][0]["digest"].is_string(), "{json}");
}

#[test]
fn a_source_says_what_becomes_of_it_and_a_plain_object_that_it_is_one() {
    let cluster = cluster(&[]).with(config_map("shop", "plain"));
    let source = asked(&cluster, "cm/app", "platform").expect("an answer");
    assert_says(&source, &["copied by rule platform/apps: 1 of 1 copies in order", "it is not a copy"]);
    let plain = asked(&cluster, "cm/plain", "shop").expect("an answer");
    assert_says(&plain, &["it is not a copy", "no visible workload uses this object"]);
    assert_eq!(asked(&cluster, "cm/none", "shop"), None);
    assert_eq!(asked(&cluster, "deploy/none", "shop"), None);
}

#[test]
fn a_copy_is_edited_at_the_source_that_it_is_made_of_and_not_at_another_one_of_its_name() {
    let hashed = json!({ "source": { "names": ["app-?"] }, "copy": { "name": "made" } });
    let cluster = cluster(&[config_map("platform", "app-b"), rule("hashed", "app", &hashed)])
        .with(config_map("platform", "app-a"));
    let text = asked(&cluster, "cm/made", "shop").expect("an answer");
    assert_says(&text, &["edit its source, ConfigMap platform/app-b"]);
}

/// The admission policy for copies reads labels and marks, and no proof.
#[test]
fn what_is_guarded_as_a_copy_and_is_none_says_who_may_change_it() {
    let pasted = |object: Option<&str>| {
        let mut pasted = config_map("docs", "app");
        pasted["metadata"]["labels"] =
            json!({ "app.kubernetes.io/managed-by": "copyrator", "copyrator.dev/rule": "r" });
        pasted["metadata"]["annotations"] = json!({ "copyrator.dev/rule": "platform/apps", "copyrator.dev/source": "platform/app",
            "copyrator.dev/mark": "k.m" });
        if let Some(object) = object {
            pasted["metadata"]["annotations"]["copyrator.dev/object"] = json!(object);
        }
        asked(&cluster(&[namespace("docs", json!({}))]).with(pasted), "cm/app", "docs").expect("an answer")
    };
    for guarded in [None, Some("configmaps/docs/app")] {
        assert_says(&pasted(guarded), &["only users with the verb override on copies.copyrator.dev"]);
    }
    assert_says(
        &pasted(Some("configmaps/shop/app")),
        &["every user with RBAC rights on the object: it is not a copy"],
    );
}

#[test]
fn what_is_in_the_way_is_not_called_a_copy() {
    let cluster = cluster(&[namespace("docs", json!({ "team": "blue" })), config_map("docs", "app")]);
    let text = asked(&cluster, "cm/app", "docs").expect("an answer");
    assert_says(&text, &["wanted by", "refused, Conflict: ", "it is not a copy"]);
    assert!(!text.contains("digest"), "{text}");
}

#[test]
fn what_does_not_restart_says_why() {
    let mut exempt = config_map("shop", "calm");
    exempt["metadata"]["annotations"] = json!({ "copyrator.dev/restart": "false" });
    let watch = json!({ "watch": [{ "kind": "ConfigMap", "names": ["stopped"] }], "suspend": true });
    let mut refused = ours(
        "ConfigMonitor",
        "shop",
        "refused",
        json!({ "watch": [{ "kind": "ConfigMap", "names": ["forbidden"] }] }),
    );
    refused["metadata"]["labels"] = json!({ "may": "no" });
    let cluster = cluster(&[
        exempt,
        deployment("shop", "calm", "calm"),
        config_map("shop", "stopped"),
        deployment("shop", "stopped", "stopped"),
        ours("ConfigMonitor", "shop", "stopped", watch),
        config_map("shop", "forbidden"),
        deployment("shop", "forbidden", "forbidden"),
        refused,
    ]);
    for (name, expected) in [
        ("calm", "does not Deployment shop/calm: Exempt: "),
        ("stopped", "does not Deployment shop/stopped: Suspended: ConfigMonitor shop/stopped is suspended"),
        ("forbidden", "does not Deployment shop/forbidden: Unauthorized: ConfigMonitor shop/refused may not"),
    ] {
        let text = asked(&cluster, &format!("cm/{name}"), "shop").expect("an answer");
        assert_says(&text, &[expected]);
    }
}

#[test]
fn a_workload_says_what_it_uses_and_for_what_it_restarts() {
    let cluster = cluster(&[]).with(deployment("platform", "other", "app"));
    let text = asked(&cluster, "deploy/web", "shop").expect("an answer");
    assert_says(
        &text,
        &[
            "asked by ConfigMonitor all",
            "uses ConfigMap app, a copy of platform/app: a change restarts the workload",
        ],
    );
    let text = asked(&cluster, "deploy/other", "platform").expect("an answer");
    assert_says(
        &text,
        &[
            "state no monitor or annotation selects this workload",
            "uses ConfigMap app: a change does not restart",
        ],
    );
}
