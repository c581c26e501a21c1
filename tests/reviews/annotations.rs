//! Annotations that ask for copies: understood, authorized, and counted where their object changes.

use copyrator::{api::CopyratorRuleStatus, names::Declarer};
use serde_json::{Value, json};

use super::harness::{Cluster, recorded};

/// A recorded review with other annotations.
fn asking(name: &str, old: Value, new: Value) -> Value {
    let mut review = recorded(name);
    for (version, annotations) in [("oldObject", old), ("object", new)] {
        if review["request"][version].is_object() {
            review["request"][version]["metadata"]["annotations"] = annotations;
            review["request"][version]["metadata"]["labels"] = json!({"copyrator.dev/declares": "true"});
        }
    }
    review
}

#[tokio::test]
async fn annotations_are_understood_or_refused_by_name() {
    let app = Cluster::new().app();
    for name in ["configmap-create", "secret-create"] {
        let bad =
            json!({"copyrator.dev/copy-to": "team-[", "copyrator.dev/copy-to-selector": "team near blue"});
        let review = asking(name, Value::Null, bad);
        let refusal = app.send_value("/validate/annotations", &review).await.refused(422, "Invalid");
        for part in [
            "copyrator.dev/copy-to[0]: \"team-[\" is not a valid glob",
            "copyrator.dev/copy-to-selector: \"team near blue\"",
        ] {
            assert!(refusal.contains(part), "{part:?} is missing in {refusal}");
        }
    }
}

#[tokio::test]
async fn what_asks_for_nothing_new_is_nobodys_business() {
    let app = Cluster::new().refuse("create configmaps").app();
    let asks = |to: &str| json!({"copyrator.dev/copy-to": to, "example.com/note": to});
    let same = asking("configmap-update", asks("web"), asks("web"));
    app.send_value("/validate/annotations", &same).await.allowed();
    let taken_back = asking("configmap-update", asks("web"), json!({}));
    app.send_value("/validate/annotations", &taken_back).await.allowed();
    let more = asking("configmap-update", asks("web"), asks("web,shop"));
    let refusal = app.send_value("/validate/annotations", &more).await.refused(403, "Forbidden");
    assert!(refusal.contains("\"alice\" may not create configmaps"), "{refusal}");
}

/// What an object asks for is done with the rights of the user who wrote any of it last.
#[tokio::test]
async fn a_user_who_adds_an_annotation_is_asked_about_all_of_them() {
    let copies = json!({"copyrator.dev/copy-to": "web"});
    let both = json!({"copyrator.dev/copy-to": "web", "copyrator.dev/restart-pods": "app=web"});
    let added = asking("configmap-update", copies.clone(), both.clone());
    for (lacking, resource) in [("delete pods", "pods"), ("create configmaps", "configmaps")] {
        let app = Cluster::new().refuse(lacking).app();
        let refusal = app.send_value("/validate/annotations", &added).await.refused(403, "Forbidden");
        assert!(refusal.contains(&format!("may not {lacking}")) && refusal.contains(resource), "{refusal}");
    }
    let app = Cluster::new().app();
    app.send_value("/validate/annotations", &added).await.allowed();
    let bad = json!({"copyrator.dev/copy-to": "team-[", "copyrator.dev/restart-pods": ""});
    let bad = asking("configmap-update", both, bad);
    let refusal = app.send_value("/validate/annotations", &bad).await.refused(422, "Invalid");
    for part in ["copyrator.dev/copy-to[0]", "copyrator.dev/restart-pods: must not be empty"] {
        assert!(refusal.contains(part), "{part:?} is missing in {refusal}");
    }
    // Nothing that is asked for any more is nobody's business.
    let app = Cluster::new().refuse("delete pods").app();
    let taken_back = asking("configmap-update", json!({"copyrator.dev/restart-pods": "app=web"}), json!({}));
    app.send_value("/validate/annotations", &taken_back).await.allowed();
}

/// A dry run that is refused is answered by every hook all the same.
#[tokio::test]
async fn what_is_refused_or_was_never_asked_is_not_counted() {
    let far = json!({"match": {"kinds": ["ConfigMap"]}, "warnAbove": {"copies": 0, "restarts": 0}});
    let policy = |cluster: Cluster| cluster.policy("far", far.clone());
    let index = json!([{"kind": "ConfigMap", "namespace": "shop", "name": "web", "copyTo": "team-*"}]);
    for app in [policy(Cluster::new()).app(), policy(Cluster::new()).indexed(index).app()] {
        let mut created = recorded("configmap-create");
        let claims = json!({"copyrator.dev/copy-to": "*", "copyrator.dev/restart-pods": "!old",
            "copyrator.dev/authorized": "x", "copyrator.dev/author": "bob", "copyrator.dev/author-groups": "[]"});
        created["request"]["object"]["metadata"]["annotations"] = claims;
        assert!(app.send_value("/validate/policies", &created).await.warnings().is_empty());
    }
    // A rule of which nothing is said yet, or something of an earlier spec, or that it may not.
    let spec = json!({"source": {"kind": "ConfigMap", "names": ["web"]}, "targets": [{"names": ["team-*"]}]});
    let told = async |change: fn(&mut CopyratorRuleStatus)| {
        let mut cluster = Cluster::new().rule("shop", "r", spec.clone());
        let rule = Declarer::rule("shop", "r");
        let mut status = cluster.world.rules()[&rule].status.clone().unwrap();
        change(&mut status);
        cluster.world.set_rule_status(&rule, status);
        cluster.app().send("/validate/warnings", "configmap-update").await.warnings()
    };
    assert_eq!(told(|_| ()).await, ["copyrator: this change reaches 2 copies"]);
    assert!(told(|status| status.conditions.clear()).await.is_empty());
    assert!(told(|status| status.conditions[0].observed_generation = Some(0)).await.is_empty());
    assert!(told(|status| status.conditions[0].status = "False".into()).await.is_empty());
}

#[tokio::test]
async fn copies_by_annotation_are_counted_once_they_may_be_made() {
    let asks = |more: Value| {
        let mut asks = json!({"copyrator.dev/copy-to": "team-*"});
        json_patch::merge(&mut asks, &more);
        asking("configmap-update", asks.clone(), asks)
    };
    let by = |author: &str| {
        asks(json!({
            "copyrator.dev/authorized": "proof", "copyrator.dev/author": author, "copyrator.dev/author-groups": "[]",
        }))
    };
    let source = |asks: Value| {
        let mut source = json!({"kind": "ConfigMap", "namespace": "shop", "name": "web"});
        json_patch::merge(&mut source, &asks);
        Cluster::new().indexed(json!([source]))
    };
    let granted = by("alice");
    let app = source(json!({"copyTo": "team-*"})).app();
    let told = app.send_value("/validate/warnings", &granted).await.warnings();
    assert_eq!(told, ["copyrator: this change reaches 2 copies"]);
    // The workload's pods have these labels: `!old` is true of all.
    let pods =
        |cluster: Cluster| cluster.deployment("shop", "web", copyrator::names::Kind::Secret, "another").app();
    let app = pods(source(json!({"restartPods": "!old"})));
    let restarts = json!({"copyrator.dev/restart-pods": "!old", "copyrator.dev/copy-to": null});
    let mut granted = granted;
    for version in ["oldObject", "object"] {
        json_patch::merge(&mut granted["request"][version]["metadata"]["annotations"], &restarts);
    }
    let told = app.send_value("/validate/warnings", &granted).await.warnings();
    assert_eq!(told, ["copyrator: 1 workload restarts after this change"]);
    // What an object says of itself is nothing, whatever it says: who was never asked would learn by it what there is.
    let app = pods(Cluster::new());
    let both = granted.clone();
    for unasked in [asks(json!({})), by("alice"), by("system:serviceaccount:flux:applier"), both] {
        assert!(app.send_value("/validate/warnings", &unasked).await.warnings().is_empty());
    }
}
