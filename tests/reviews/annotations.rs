//! Annotations that ask for copies: understood, authorized, and counted where their object changes.

use serde_json::{Value, json};

use crate::harness::{Cluster, recorded};

/// A recorded review with other annotations.
fn asking(name: &str, old: Value, new: Value) -> Value {
    let mut review = recorded(name);
    for (version, annotations) in [("oldObject", old), ("object", new)] {
        if review["request"][version].is_object() {
            review["request"][version]["metadata"]["annotations"] = annotations;
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
            "copyrator.dev/copy-to[0]: \"team-[\" is no glob",
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

/// What an object asks for is done with the rights of whoever wrote any of it last.
#[tokio::test]
async fn whoever_adds_a_wish_is_asked_about_all_of_them() {
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
    for part in ["copyrator.dev/copy-to[0]", "copyrator.dev/restart-pods: is empty"] {
        assert!(refusal.contains(part), "{part:?} is missing in {refusal}");
    }
    // Nothing that is asked for any more is nobody's business.
    let app = Cluster::new().refuse("delete pods").app();
    let taken_back = asking("configmap-update", json!({"copyrator.dev/restart-pods": "app=web"}), json!({}));
    app.send_value("/validate/annotations", &taken_back).await.allowed();
}

#[tokio::test]
async fn copies_by_annotation_are_counted_once_they_may_be_made() {
    let app = Cluster::new().app();
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
    let granted = by("alice");
    let told = app.send_value("/validate/warnings", &granted).await.warnings();
    assert_eq!(told, ["copyrator: this change reaches 2 copies"]);
    // The workload's pods have these labels: `!old` is true of all.
    let app = Cluster::new().deployment("shop", "web", copyrator::model::Kind::Secret, "another").app();
    let restarts = json!({"copyrator.dev/restart-pods": "!old", "copyrator.dev/copy-to": null});
    let mut granted = granted;
    for version in ["oldObject", "object"] {
        json_patch::merge(&mut granted["request"][version]["metadata"]["annotations"], &restarts);
    }
    let told = app.send_value("/validate/warnings", &granted).await.warnings();
    assert_eq!(told, ["copyrator: 1 workload restarts after this change"]);
    let app = Cluster::new().app();
    // Who was never asked learns nothing by it of what there is.
    for unasked in [asks(json!({})), by("system:serviceaccount:flux:applier")] {
        assert!(app.send_value("/validate/warnings", &unasked).await.warnings().is_empty());
    }
}
