//! Policies: what is refused, what warns, and what no answer may hold.

use http::StatusCode;
use serde_json::{Value, json};

use crate::harness::{Cluster, recorded};

fn app_policy() -> Value {
    json!({
        "match": {"kinds": ["ConfigMap", "Secret"], "namespaceSelector": {"matchLabels": {"team": "blue"}}},
        "data": [
            {"name": "has-url", "keys": ["url"], "required": true, "format": "url"},
            {"name": "settings", "keys": ["*.yaml"], "format": "yaml"},
            {"name": "frozen", "keys": ["schema-version"], "immutable": true}
        ],
        "labels": {"required": ["owner"], "patterns": {"owner": "[a-z-]+"}},
        "validations": [{"expression": "!has(text.min) || int(text.min) <= int(text.max)", "message": "min must not exceed max"}]
    })
}

pub fn guarded() -> Cluster {
    Cluster::new().policy("app", app_policy())
}

#[tokio::test]
async fn a_good_object_passes_in_silence() {
    let app = guarded().app();
    for name in [
        "configmap-create",
        "configmap-create-generate-name",
        "configmap-update",
        "configmap-delete",
        "configmap-delete-collection",
        "configmap-delete-without-object",
    ] {
        let response = app.send("/validate/policies?timeout=2s", name).await.allowed();
        assert!(response["warnings"].is_null(), "{name}: {response}");
    }
}

#[tokio::test]
async fn a_refusal_names_policy_rule_object_key_line_and_fix() {
    let app = guarded().app();
    for name in ["configmap-create-bad", "configmap-create-dry-run"] {
        let message = app.send("/validate/policies", name).await.refused(403, "Forbidden");
        for part in [
            "policy app, rule has-url: ConfigMap shop/web, key url: is no URL; write scheme://host",
            "rule settings: ConfigMap shop/web, key app.yaml, line 2 column 4: is no valid YAML",
            "rule labels.required: ConfigMap shop/web: label owner is missing; add the label owner",
            "rule validations[0]: ConfigMap shop/web: min must not exceed max; ",
        ] {
            assert!(message.contains(part), "{part}\nin {message}");
        }
        let audit = &app.send("/validate/policies", name).await.response()["auditAnnotations"];
        assert_eq!(audit["verdict"], "refused");
        assert_eq!(audit["violations"], "app/has-url,app/settings,app/labels.required,app/validations[0]");
    }
}

#[tokio::test]
async fn what_was_wrong_before_warns_and_what_is_left_alone_passes() {
    let app = guarded().app();
    let warnings = app.send("/validate/policies", "configmap-update-stands-already").await.warnings();
    assert_eq!(warnings.len(), 3, "{warnings:?}");
    let response = app.send("/validate/policies", "configmap-update-finalizers").await.allowed();
    assert!(response["warnings"].is_null(), "{response}");
    let message =
        app.send("/validate/policies", "configmap-update-immutable-key").await.refused(403, "Forbidden");
    assert!(
        message
            .contains("rule frozen: ConfigMap shop/web, key schema-version: is immutable and would change"),
        "{message}"
    );
    // The same wrong value, newly written, is refused.
    let mut review = recorded("configmap-update-stands-already");
    review["request"]["object"]["data"]["url"] = json!("still no url");
    let message = app.send_value("/validate/policies", &review).await.refused(403, "Forbidden");
    assert!(message.contains("has-url") && !message.contains("settings"), "{message}");
}

#[tokio::test]
async fn actions_decide_what_a_violation_does() {
    let with = |actions: Value| {
        let mut policy = app_policy();
        policy["validationActions"] = actions;
        Cluster::new().policy("app", policy).app()
    };
    let warned = with(json!(["Warn"])).send("/validate/policies", "configmap-create-bad").await;
    assert_eq!((warned.allowed()["allowed"].clone(), warned.warnings().len()), (json!(true), 4));
    let audited = with(json!(["Audit"])).send("/validate/policies", "configmap-create-bad").await.allowed();
    assert!(
        audited["warnings"].is_null() && audited["auditAnnotations"]["verdict"] == "allowed",
        "{audited}"
    );
}

#[tokio::test]
async fn a_secrets_values_are_in_no_answer() {
    let formats = ["json", "yaml", "url", "regex", "integer", "boolean", "pem-certificate"];
    let keys = ["config.json", "app.yaml", "url", "pattern", "port", "flag", "tls.crt"];
    let mut data: Vec<Value> = formats
        .iter()
        .zip(keys)
        .map(|(format, key)| json!({"name": format, "keys": [key], "format": format}))
        .collect();
    data.push(json!({"name": "pair", "format": "tls-pair"}));
    data.push(json!({"name": "strong", "keys": ["password"], "pattern": "[a-z]{40}"}));
    let expressions = [
        "int(text.password) > 0",
        "text[text.url] == ''",
        "text.password.matches(text.pattern)",
        "text.password + 1 == ''",
        "-text.password == ''",
        "text.nothing == object.data.password",
        "duration(text.password) > duration('1s')",
        "object.data[text.password] == 'x'",
        "quantity(text.password).isGreaterThan(quantity('1'))",
        "text.password",
        "[1][text.password] == 1",
        "text.password < 1",
        "url(text.password).getHost() == 'x'",
        "text.url.format([1]) == 'x'",
    ];
    let validations: Vec<Value> =
        expressions.iter().map(|expression| json!({"expression": expression, "message": "m"})).collect();
    let policy = json!({"match": {"kinds": ["Secret"]}, "data": data, "validations": validations});
    let app = Cluster::new().policy("secrets", policy).app();
    let message = app.send("/validate", "secret-create-bad").await.refused(403, "Forbidden");
    assert!(message.matches("policy secrets").count() == 10 && message.contains("and 13 more"), "{message}");
    app.send("/validate", "secret-update").await.refused(403, "Forbidden");
    let answer = app.send("/validate", "secret-not-base64").await;
    assert_eq!(answer.status, StatusCode::BAD_REQUEST, "{}", answer.text);
}

#[tokio::test]
async fn bombs_and_catastrophes_are_refused_in_time() {
    let policy = json!({
        "match": {"kinds": ["ConfigMap"]},
        "data": [{"name": "y", "keys": ["*.yaml"], "format": "yaml"}, {"name": "j", "keys": ["*.json"], "format": "json"},
                 {"name": "r", "keys": ["*.re"], "format": "regex"}, {"name": "p", "keys": ["*.txt"], "pattern": "(a|aa)+$"}]
    });
    let app = Cluster::new().policy("p", policy).app();
    let mut laughs = String::from("a0: &a0 [lol,lol,lol,lol,lol,lol,lol,lol]\n");
    for level in 1..20 {
        laughs += &format!("a{level}: &a{level} [{}]\n", vec![format!("*a{}", level - 1); 8].join(","));
    }
    let values = [
        ("a.yaml", laughs),
        ("b.yaml", "[".repeat(200_000)),
        ("c.yaml", "a: &a [*a]\n".into()),
        ("d.json", "[".repeat(200_000)),
        ("e.re", "((((a{100}){100}){100}){100})".into()),
        ("f.txt", "a".repeat(500_000) + "b"),
        ("g.yaml", "{a: ".repeat(50_000)),
    ];
    for (key, value) in values {
        let mut review = recorded("configmap-create");
        review["request"]["object"]["data"] = json!({key: value});
        let start = std::time::Instant::now();
        let message = app.send_value("/validate/policies", &review).await.refused(403, "Forbidden");
        assert!(message.contains(&format!("key {key}")) && message.len() <= 1024, "{message}");
        assert!(start.elapsed().as_secs() < 5, "{key}: {:?}", start.elapsed());
    }
}
