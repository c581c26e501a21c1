//! What is no review, what is too much, and whose fault it is.

use axum::body::Body;
use http::{Request, StatusCode};
use serde_json::{Value, json};

use super::{
    harness::{Cluster, recorded},
    policies::guarded,
};

#[tokio::test]
async fn requests_that_are_no_reviews_get_the_status_that_says_so() {
    let app = guarded().app();
    let good = recorded("configmap-create");
    let with = |pointer: &str, value: Value| {
        let mut review = good.clone();
        *review.pointer_mut(pointer).unwrap() = value;
        review.to_string().into_bytes()
    };
    let text = good.to_string();
    for (body, status, says) in [
        (b"".to_vec(), 400, "ends too early"),
        (b"hello".to_vec(), 400, "is not JSON"),
        (text.as_bytes()[..text.len() / 2].to_vec(), 400, "ends too early"),
        (b"{}".to_vec(), 400, "send an AdmissionReview of admission.k8s.io/v1"),
        (
            with("/apiVersion", json!("admission.k8s.io/v1beta1")),
            400,
            "\"admission.k8s.io/v1beta1\" is not supported",
        ),
        (with("/kind", json!("Pod")), 400, "\"Pod\" of"),
        (with("/request", json!(null)), 400, "has no request"),
        (with("/request/uid", json!("")), 400, "has no uid"),
        (with("/request/operation", json!("EAT")), 400, "is not an AdmissionReview"),
        (with("/request/object", json!(null)), 400, "has no object"),
        (with("/request/object/data", json!(["swordfish"])), 400, "cannot read object of the review"),
        (vec![b' '; (16 << 20) + 1], 413, "larger than"),
    ] {
        let answer = app.send_bytes("/validate/policies", body).await;
        assert_eq!(answer.status, status, "{says}: {}", answer.text);
        assert!(answer.text.contains(says), "{says}: {}", answer.text);
    }
    for (request, status) in [
        (
            Request::post("/validate")
                .header("content-type", "text/yaml")
                .body(Body::from(text.clone()))
                .unwrap(),
            415,
        ),
        (Request::post("/validate").body(Body::from(text.clone())).unwrap(), 415),
        (
            Request::post("/validate")
                .header("content-type", "application/json; charset=utf-8")
                .body(Body::from(text.clone()))
                .unwrap(),
            200,
        ),
        (Request::get("/validate").body(Body::empty()).unwrap(), 405),
        (Request::put("/mutate").body(Body::empty()).unwrap(), 405),
        (Request::post("/").body(Body::empty()).unwrap(), 404),
        (Request::post("/validate/secrets").body(Body::empty()).unwrap(), 404),
    ] {
        assert_eq!(app.call(request).await.status, status);
    }
}

#[tokio::test]
async fn faults_of_ours_are_left_to_the_failure_policy() {
    let app = Cluster::new().fault("panic").app();
    let answer = app.send("/validate/own-kinds", "rule-create").await;
    assert_eq!((answer.status, app.metrics.panics.get()), (StatusCode::INTERNAL_SERVER_ERROR, 1));
    app.send("/validate/own-kinds", "policy-create").await.allowed();
    let app = Cluster::new().fault("error").app();
    assert_eq!(app.send("/validate/own-kinds", "rule-create").await.status, StatusCode::BAD_GATEWAY);
    let app = Cluster::new().fault("hang").app();
    // A clock that goes on when nothing else does: before the API server has given up.
    tokio::time::pause();
    let start = tokio::time::Instant::now();
    assert_eq!(
        app.send("/validate/own-kinds?timeout=1s", "rule-create").await.status,
        StatusCode::GATEWAY_TIMEOUT
    );
    assert!(start.elapsed() < std::time::Duration::from_secs(1), "{:?}", start.elapsed());
    tokio::time::resume();

    let mut lagging = guarded();
    let names: Vec<_> = lagging.world.namespaces().keys().cloned().collect();
    names.iter().for_each(|name| lagging.world.forget_namespace(name));
    assert_eq!(
        lagging.app().send("/validate/policies", "configmap-create").await.status,
        StatusCode::SERVICE_UNAVAILABLE
    );
    let mut starting = guarded();
    starting.world.settings_mut().stores.insert(copyrator::model::Store::ConfigPolicies);
    assert_eq!(
        starting.app().send("/validate/policies", "configmap-create").await.status,
        StatusCode::SERVICE_UNAVAILABLE
    );
}

#[tokio::test(start_paused = true)]
async fn too_much_at_once_is_turned_away_at_once() {
    let mut cluster = Cluster::new().fault("hang");
    cluster.most = 2;
    let app = cluster.app();
    let slow = || app.send("/validate/own-kinds?timeout=1s", "rule-create");
    let quick = async {
        // On the test's clock: it comes once both hang.
        tokio::time::sleep(std::time::Duration::from_millis(1)).await;
        app.send("/validate/policies", "configmap-create").await
    };
    let (one, two, shed) = tokio::join!(slow(), slow(), quick);
    assert_eq!((one.status, two.status), (StatusCode::GATEWAY_TIMEOUT, StatusCode::GATEWAY_TIMEOUT));
    assert_eq!((shed.status, app.metrics.shed.get()), (StatusCode::TOO_MANY_REQUESTS, 1));
    app.send("/validate/policies", "configmap-create").await.allowed();
    let mut registry = prometheus_client::registry::Registry::with_prefix("copyrator");
    app.metrics.register(&mut registry);
    let mut text = String::new();
    prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
    for line in [
        "copyrator_admission_shed_total 1",
        "copyrator_admission_in_flight 0",
        "le=\"0.000005\"",
        "verdict=\"deadline\"} 2",
    ] {
        assert!(text.contains(line), "{line}\n{text}");
    }
}

/// Every value of a review replaced by one of another type: an answer or a 400, and never a panic.
#[tokio::test]
async fn no_mutilated_review_makes_us_panic() {
    let app = guarded().app();
    for name in
        ["configmap-update", "secret-create-bad", "namespace-create", "rule-create-bad", "policy-create"]
    {
        let review = recorded(name);
        let mut pointers = Vec::new();
        collect("", &review, &mut pointers);
        for pointer in &pointers {
            for value in [json!(null), json!(-1), json!("x"), json!([]), json!({ "": [{}] })] {
                let mut review = review.clone();
                *review.pointer_mut(pointer).unwrap() = value;
                for path in ["/validate", "/mutate"] {
                    let status = app.send_value(path, &review).await.status;
                    assert!(status == 200 || status == 400 || status == 503, "{name} {pointer} {status}");
                }
            }
        }
        let text = review.to_string();
        for end in (0..text.len()).step_by(11) {
            assert_eq!(app.send_bytes("/validate", text.as_bytes()[..end].to_vec()).await.status, 400);
        }
    }
    assert_eq!(app.metrics.panics.get(), 0);
}

fn collect(at: &str, value: &Value, pointers: &mut Vec<String>) {
    pointers.push(at.to_owned());
    match value {
        Value::Object(map) => map.iter().for_each(|(key, value)| {
            let key = key.replace('~', "~0").replace('/', "~1");
            collect(&format!("{at}/{key}"), value, pointers);
        }),
        Value::Array(list) => {
            list.iter()
                .enumerate()
                .for_each(|(index, value)| collect(&format!("{at}/{index}"), value, pointers));
        }
        _ => {}
    }
}
