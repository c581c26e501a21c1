//! Our own kinds: understood, authorized, and a canary.

use serde_json::json;

use crate::harness::{Cluster, recorded};

#[tokio::test]
async fn our_own_kinds_are_understood_or_refused_with_every_problem() {
    let app = Cluster::new().app();
    for (name, parts) in [
        (
            "rule-create-bad",
            &[
                "CopyratorRule registry is not valid: ",
                "spec.source.namespace: is no field",
                "spec.source.names[0]: \"reg[\" is no glob",
                "spec.targets[0]: needs names",
                "spec.deletionGrace: \"5 days\"",
            ][..],
        ),
        (
            "rule-create-undecodable",
            &[
                "spec.conflictPolicy: cannot be read: unknown variant `Force`, expected one of `Refuse`, `Adopt`, `Overwrite`",
            ],
        ),
        (
            "policy-create-bad",
            &[
                "spec.data[0].pattern: ",
                "spec.data[1].name: \"a\" is taken",
                "spec.data[1]: demands nothing",
                "spec.labels.patterns[owner]: is too large",
                "spec.validations[0].expression: is no CEL",
                "\"self\" is none of the variables",
                "\"frobnicate\" is no function",
                "spec.defaults.labels[team]: ",
                "both Deny and Warn",
            ],
        ),
    ] {
        let message = app.send("/validate/own-kinds?timeout=5s", name).await.refused(422, "Invalid");
        for part in parts {
            assert!(message.contains(part), "{name}: {part}\nin {message}");
        }
    }
    app.send("/validate/own-kinds", "policy-create").await.allowed();
    app.send("/validate/own-kinds", "rule-update-metadata").await.allowed();
}

#[tokio::test]
async fn nobody_gets_through_us_what_he_could_not_do_himself() {
    let app = Cluster::new().app();
    app.send("/validate/own-kinds", "rule-create").await.allowed();
    app.send("/validate/own-kinds", "monitor-create").await.allowed();
    let mut asked = app.table.asked.lock().unwrap().clone();
    asked.sort();
    assert_eq!(
        asked,
        [
            "alice create secrets  ",
            "alice delete secrets  ",
            "alice get secrets platform registry",
            "alice patch deployments shop web",
            "alice patch secrets  "
        ]
    );

    let app = Cluster::new().refuse("create secrets").app();
    let message = app.send("/validate/own-kinds", "rule-create").await.refused(403, "Forbidden");
    assert!(message.contains("user \"alice\" may not create secrets in all namespaces; to allow it: kubectl create clusterrole copyrator-platform-"), "{message}");
    app.send("/validate/own-kinds", "rule-update-suspend").await.allowed();
    // The account's own rights may come with the rest of the release.
    let warnings = app.send("/validate/own-kinds", "rule-create-service-account").await.warnings();
    assert_eq!(
        warnings,
        ["copyrator: inert until serviceaccount platform/copier may create secrets in all namespaces"]
    );

    let app = Cluster::new().refuse("impersonate serviceaccounts").app();
    let message =
        app.send("/validate/own-kinds", "rule-create-service-account").await.refused(403, "Forbidden");
    assert!(
        message.contains("may not impersonate serviceaccounts \"copier\" in namespace \"platform\""),
        "{message}"
    );
    let warnings = app.send("/validate/own-kinds", "rule-create-foreign-account").await.warnings();
    assert!(warnings[0].contains("spec.serviceAccountName"), "{warnings:?}");
}

#[tokio::test]
async fn a_canary_shows_that_calls_arrive() {
    let app = Cluster::new().app();
    let message = app.send("/validate/own-kinds", "rule-canary").await.refused(418, "Canary");
    assert_eq!(message, "copyrator canary t0k3n-42, unstamped");
    let mut review = recorded("rule-canary");
    review["request"]["object"]["metadata"]["annotations"]["copyrator.dev/author"] = json!("alice");
    let message = app.send_value("/validate/own-kinds", &review).await.refused(418, "Canary");
    assert_eq!(message, "copyrator canary t0k3n-42");
    review["request"]["dryRun"] = json!(false);
    app.send_value("/validate/own-kinds", &review).await.allowed();
}
