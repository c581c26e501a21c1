//! No size lets a write through unjudged.

use axum::body::Body;
use http::Request;
use serde_json::{Value, json};

use super::harness::{Answer, App, Cluster};

const MIB: usize = 1 << 20;

/// Control characters that take so many bytes of JSON.
fn padding(bytes: usize) -> String {
    "\u{1}".repeat(bytes / 6)
}

fn config_map(url: &str, padding: &str) -> Value {
    json!({"metadata": {"name": "web", "namespace": "shop"}, "data": {"url": url, "padding": padding}})
}

/// A review in the order in which the API server writes its fields.
fn review(kind: &str, operation: &str, user: &str, object: &Value, old: &Value) -> String {
    format!(
        r#"{{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":{{"uid":"7-of-9","kind":{{"group":"","version":"v1","kind":"{kind}"}},"resource":{{"group":"","version":"v1","resource":"x"}},"name":"web","namespace":"shop","operation":"{operation}","userInfo":{{"username":"{user}","groups":["a,\"object\":{{"],"extra":{{"first":[""],"object":["x"]}}}},"object":{object},"oldObject":{old},"dryRun":false}}}}"#
    )
}

async fn ask(app: &App, path: &str, review: String) -> Answer {
    let length = review.len();
    let request =
        Request::post(path).header("content-type", "application/json").header("content-length", length);
    app.call(request.body(Body::from(review)).unwrap()).await
}

fn policy(more: Value) -> Value {
    let mut spec = json!({"match": {"kinds": ["ConfigMap"], "objectSelector": {"matchExpressions": [
        {"key": "free", "operator": "DoesNotExist"}]}},
        "data": [{"name": "url", "keys": ["url"], "format": "url"}]});
    for (key, value) in more.as_object().unwrap() {
        spec[key] = value.clone();
    }
    spec
}

/// Such a write was answered with 413, which `failurePolicy: Ignore` lets pass.
#[tokio::test]
async fn a_write_is_judged_however_large_its_review_is() {
    let app = Cluster::new().policy("app", policy(json!({"whileInUse": "Refuse"}))).app();
    let ask_about = |operation: &'static str, size: usize| {
        let (new, old) = (config_map("nonsense", &padding(size)), config_map("https://a.b", &padding(size)));
        let review = match operation {
            "DELETE" => {
                review("ConfigMap", operation, "alice", &Value::Null, &config_map("x", &padding(size)))
            }
            _ => review("ConfigMap", operation, "alice", &new, &old),
        };
        ask(&app, "/validate/policies?timeout=30s", review)
    };
    let message = ask_about("UPDATE", 7 * MIB).await.refused(403, "Forbidden");
    assert!(message.contains("rule url: ConfigMap shop/web, key url: is not a URL"), "{message}");
    for (operation, size) in [("UPDATE", 9 * MIB), ("DELETE", 17 * MIB)] {
        let answer = ask_about(operation, size).await;
        assert_eq!(answer.response()["uid"], "7-of-9");
        let message = answer.refused(403, "Forbidden");
        assert!(
            message.contains(
                "policy app cannot check ConfigMap shop/web: its AdmissionReview is larger than 16 MiB"
            ),
            "{message}"
        );
    }
}

#[tokio::test]
async fn what_no_policy_would_refuse_passes_however_large_it_is() {
    let huge = config_map("nonsense", &padding(17 * MIB));
    let asked = |operation: &str, user: &str| review("ConfigMap", operation, user, &huge, &Value::Null);
    let own = "system:serviceaccount:copyrator-system:copyrator";
    for (spec, operation, user) in [
        (policy(json!({"validationActions": ["Warn"]})), "CREATE", "alice"),
        (policy(json!({"match": {"kinds": ["Secret"]}})), "CREATE", "alice"),
        (policy(json!({"match": {"kinds": ["ConfigMap"], "names": ["app"]}})), "CREATE", "alice"),
        (policy(json!({"match": {"kinds": ["ConfigMap"], "excludeNamespaces": ["sh*"]}})), "CREATE", "alice"),
        (policy(json!({})), "DELETE", "alice"),
        // It judges what it copies before it writes.
        (policy(json!({})), "CREATE", own),
    ] {
        let said = spec.to_string();
        let answer =
            ask(&Cluster::new().policy("app", spec).app(), "/validate/policies", asked(operation, user))
                .await;
        assert_eq!(answer.response()["allowed"], true, "{said} {operation} {user}");
    }
    // Warnings and defaults may be left out.
    let app = Cluster::new().app();
    for path in ["/validate/warnings", "/mutate/defaults"] {
        assert_eq!(ask(&app, path, asked("CREATE", "alice")).await.status, 413, "{path}");
    }
}

/// The labels of a Namespace that was not read exempt it from no policy.
#[tokio::test]
async fn a_large_namespace_is_covered_whatever_its_labels_are() {
    let spec = json!({"match": {"kinds": ["Namespace"], "namespaceSelector": {"matchLabels": {"team": "red"}}},
        "labels": {"required": ["owner"]}});
    let app = Cluster::new().policy("owned", spec).app();
    let namespace = json!({"metadata": {"name": "web", "annotations": {"a": padding(17 * MIB)}}});
    let review = review("Namespace", "UPDATE", "alice", &namespace, &namespace);
    let message = ask(&app, "/validate/policies", review).await.refused(403, "Forbidden");
    assert!(message.contains("policy owned cannot check Namespace web: "), "{message}");
}

/// Policies do not judge our own kinds, so `/validate` allowed a rule that it had not read.
#[tokio::test]
async fn a_large_rule_has_no_verdict() {
    let rule = json!({"metadata": {"name": "web", "annotations": {"a": padding(17 * MIB)}}, "spec": {}});
    let kind = r#""kind":{"group":"","version":"v1","kind":"X"}"#;
    let own = r#""kind":{"group":"copyrator.dev","version":"v1alpha1","kind":"CopyratorRule"}"#;
    let review = review("X", "CREATE", "alice", &rule, &Value::Null).replacen(kind, own, 1);
    let app = Cluster::new().app();
    for path in ["/validate", "/validate/own-kinds"] {
        assert_eq!(ask(&app, path, review.clone()).await.status, 413, "{path}");
    }
}
