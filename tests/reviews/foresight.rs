//! What the author of a rule is told that it will not do as things stand.

use copyrator::{
    intake::object::Slim,
    model::{NamespaceScope, ObjectFacts, Store},
    names::{Kind, ObjectKey},
};
use k8s_openapi::api::core::v1::Secret;
use serde_json::{Value, json};

use super::harness::{Cluster, recorded};

/// A rule of `platform` that copies the Secret `registry` to these targets.
fn to(targets: Value) -> Value {
    let mut review = recorded("rule-create");
    review["request"]["object"]["spec"]["targets"] = targets;
    review
}

async fn warned(cluster: Cluster, review: &Value) -> (Vec<String>, usize) {
    let app = cluster.app();
    let warnings = app.send_value("/validate/own-kinds", review).await.warnings();
    let asked = app.table.asked.lock().unwrap();
    (warnings, asked.iter().filter(|asked| asked.contains("list namespaces")).count())
}

#[tokio::test]
async fn a_user_who_may_list_namespaces_is_told_which_do_not_exist() {
    const NOWHERE: &str =
        "copyrator: spec.targets matches no namespace now: copies appear in those that it matches later";
    for (targets, expected) in [
        (json!([{"names": ["shop"]}]), &[][..]),
        (
            json!([{"names": ["shop", "team-*"]}, {"namespaceSelector": {"matchLabels": {"team": "red"}}}]),
            &[],
        ),
        (
            json!([{"names": ["shpo"]}]),
            &["copyrator: namespace shpo does not exist: copies appear there when it is made"],
        ),
        (
            json!([{"names": ["shop", "web", "app"]}]),
            &["copyrator: namespaces web, app do not exist: copies appear there when they are made"],
        ),
        (json!([{"names": ["red-*"]}]), &[NOWHERE]),
        (json!([{"namespaceSelector": {"matchLabels": {"team": "red"}}}]), &[NOWHERE]),
        // Where the source is nothing is copied to.
        (json!([{"names": ["platform"]}]), &[NOWHERE]),
    ] {
        let review = to(targets.clone());
        let (warnings, asked) = warned(Cluster::new(), &review).await;
        assert_eq!((warnings, asked), (strings(expected), usize::from(!expected.is_empty())), "{targets}");
        // A user who may not list namespaces is told nothing of which there are.
        let told = warned(Cluster::new().refuse("list namespaces"), &review).await.0;
        assert!(told.is_empty(), "{told:?}");
    }
}

#[tokio::test]
async fn where_some_namespaces_are_looked_at_or_none_is_known_nothing_is_told() {
    let review = to(json!([{"names": ["shpo"]}]));
    let mut some = Cluster::new();
    some.world.set_namespace_scope(Some(NamespaceScope::new(["shop"])));
    let mut starting = Cluster::new();
    starting.world.settings_mut().stores = [Store::Namespaces].into();
    starting.world.forget_listed(Store::Namespaces);
    for cluster in [some, starting] {
        assert_eq!(warned(cluster, &review).await, (Vec::new(), 0));
    }
}

#[tokio::test]
async fn a_rule_that_may_not_act_tells_nothing_beside() {
    let mut review = recorded("rule-create-service-account");
    review["request"]["object"]["spec"]["targets"] = json!([{"names": ["shpo"]}]);
    let (warnings, asked) = warned(Cluster::new().refuse("create secrets"), &review).await;
    assert!(warnings.len() == 1 && warnings[0].starts_with("copyrator: inert until "), "{warnings:?}");
    assert_eq!(asked, 0);
}

/// Only a process that watches Secrets: a webhook beside the reconciler may not.
#[tokio::test]
async fn a_process_that_sees_sources_tells_of_a_missing_one() {
    let seeing = || {
        let mut cluster = Cluster::new();
        cluster.world.settings_mut().stores.insert(Store::Secrets);
        cluster.world.set_listed(Store::Secrets);
        cluster
    };
    let review = to(json!([{"names": ["shop"]}]));
    let absent = ["copyrator: source Secret platform/registry not found"];
    assert_eq!(warned(seeing(), &review).await.0, absent);
    assert!(warned(Cluster::new(), &review).await.0.is_empty());
    let mut with = seeing();
    with.world.set_object(ObjectKey::new(Kind::Secret, "platform", "registry"), Some(facts()));
    assert!(warned(with, &review).await.0.is_empty());
    // What a status of before says is not asked where the source is seen.
    let update =
        updated("NoSource", "source Secret platform/registry not found", json!({"deletionPolicy": "Retain"}));
    assert_eq!(warned(seeing(), &update).await.0, absent);
}

#[tokio::test]
async fn a_rule_of_a_kind_that_is_not_copied_here_is_told_which_value_grants_it() {
    let mut review = to(json!([{"names": ["shop"]}]));
    review["request"]["object"]["spec"]["source"]["kind"] = "NetworkPolicy".into();
    let (warnings, _) = warned(Cluster::new(), &review).await;
    assert!(warnings.len() == 1 && warnings[0].contains("the chart's value copies.kinds"), "{warnings:?}");
    let mut granting = Cluster::new();
    granting.world.settings_mut().copy_kinds = [Kind::NetworkPolicy].into();
    assert!(warned(granting, &review).await.0.is_empty());
}

#[tokio::test]
async fn what_the_status_says_of_the_version_before_is_told_as_far_as_it_holds() {
    let no_source = "source Secret platform/registry not found";
    let wider = json!({"deletionPolicy": "Retain"});
    let told = async |reason: &str, change: &Value, edit: fn(&mut Value)| {
        let mut review = updated(reason, no_source, change.clone());
        edit(&mut review["request"]["oldObject"]["status"]);
        warned(Cluster::new(), &review).await.0
    };
    let says = |reason: &str| vec![format!("copyrator: the rule's status says {reason}: {no_source}")];
    assert_eq!(told("NoSource", &wider, |_| ()).await, says("NoSource"));
    assert_eq!(told("Forbidden", &wider, |_| ()).await, says("Forbidden"));
    let elsewhere = json!({"targets": [{"names": ["shop"]}]});
    assert_eq!(told("NoSource", &elsewhere, |_| ()).await, says("NoSource"));
    for (reason, change, edit) in [
        ("AllCopied", &wider, (|_| ()) as fn(&mut Value)),
        ("Forbidden", &elsewhere, |_| ()),
        ("NoSource", &json!({"source": {"kind": "Secret", "names": ["other"]}}), |_| ()),
        ("NoSource", &wider, |status| status["conditions"][0]["observedGeneration"] = json!(6)),
        ("NoSource", &wider, |status| status["conditions"][0]["status"] = json!("True")),
        // It was the author who lacked a right, and the author is asked about anew.
        ("Forbidden", &wider, |status| status["conditions"][1]["status"] = json!("False")),
        ("NoSource", &wider, |status| *status = json!(null)),
    ] {
        assert!(told(reason, change, edit).await.is_empty(), "{reason} {change}");
    }
}

/// An update of a rule whose status is of its 7th generation.
fn updated(reason: &str, message: &str, change: Value) -> Value {
    let mut review = to(json!([{"names": ["team-b"]}]));
    let condition = |type_: &str, status: &str, reason: &str, message: &str| {
        json!({"type": type_, "status": status, "reason": reason, "message": message, "observedGeneration": 7,
            "lastTransitionTime": "2026-05-04T09:12:33Z"})
    };
    let request = &mut review["request"];
    request["operation"] = json!("UPDATE");
    request["oldObject"] = request["object"].clone();
    request["oldObject"]["metadata"]["generation"] = json!(7);
    let conditions =
        [condition("Ready", "False", reason, message), condition("Authorized", "True", "Allowed", "yes")];
    request["oldObject"]["status"] = json!({"observedGeneration": 7, "conditions": conditions});
    json_patch::merge(&mut request["object"]["spec"], &change);
    review
}

fn facts() -> ObjectFacts {
    let object = json!({"metadata": {"name": "registry", "namespace": "platform", "uid": "u", "resourceVersion": "1"}});
    serde_json::from_value::<Slim<Secret>>(object).unwrap().facts
}

fn strings(all: &[&str]) -> Vec<String> {
    all.iter().map(ToString::to_string).collect()
}
