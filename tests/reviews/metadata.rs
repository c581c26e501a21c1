//! What is added to an object, and what its writer is told.

use copyrator::{model::Bytes, names::Kind};
use serde_json::{Value, json};

use super::harness::{Cluster, recorded};

#[tokio::test]
async fn defaults_patch_what_is_missing_and_nothing_twice() {
    let policy = json!({
        "match": {"kinds": ["ConfigMap", "Secret", "Namespace"]},
        "defaults": {"labels": {"team": "unknown", "example.com/tier": "x"}, "annotations": {"example.com/a": "1"}}
    });
    let follower = json!({
        "match": {"kinds": ["ConfigMap", "Secret"], "objectSelector": {"matchLabels": {"example.com/tier": "x"}}},
        "defaults": {"annotations": {"example.com/seen": "yes"}}
    });
    let app = Cluster::new().policy("z-first", policy).policy("a-second", follower).app();
    for (name, labels) in [
        ("configmap-create", Some("blue")),
        ("configmap-create-bad", None),
        ("secret-create-bad", None),
        ("namespace-create", Some("blue")),
        ("configmap-create-generate-name", Some("blue")),
    ] {
        let mut review = recorded(name);
        let mut object = review["request"]["object"].clone();
        let response = app.send_value("/mutate", &review).await.allowed();
        assert_eq!(response["patchType"], "JSONPatch", "{name}");
        let patch: json_patch::Patch = serde_json::from_value(decoded(&response["patch"])).unwrap();
        json_patch::patch(&mut object, &patch).unwrap();
        let mut expected = review["request"]["object"].clone();
        let meta = expected["metadata"].as_object_mut().unwrap();
        let set = meta.entry("labels").or_insert(json!({}));
        set["example.com/tier"] = json!("x");
        set["team"] = json!(labels.unwrap_or("unknown"));
        let set = meta.entry("annotations").or_insert(json!({}));
        set["example.com/a"] = json!("1");
        if name != "namespace-create" {
            set["example.com/seen"] = json!("yes");
        }
        assert_eq!(object, expected, "{name}");
        review["request"]["object"] = object;
        let again = app.send_value("/mutate", &review).await.allowed();
        assert!(again["patch"].is_null(), "{name}: {again}");
    }
}

fn decoded(patch: &Value) -> Value {
    use base64::Engine as _;
    serde_json::from_slice(
        &base64::engine::general_purpose::STANDARD.decode(patch.as_str().unwrap()).unwrap(),
    )
    .unwrap()
}

#[tokio::test]
async fn writers_are_told_what_follows() {
    let rule = |kind: &str, name: &str| json!({"source": {"kind": kind, "names": [name]}, "targets": [{"namespaceSelector": {"matchLabels": {"team": "blue"}}}]});
    let watch = json!({"watch": [{"kind": "ConfigMap", "names": ["*"]}]});
    let app = Cluster::new()
        .rule("shop", "configs", rule("ConfigMap", "web"))
        .rule("platform", "registry", rule("Secret", "registry"))
        .monitor("team-b", "all", watch.clone())
        .monitor("shop", "all", watch)
        .deployment("team-b", "a", Kind::ConfigMap, "web")
        .deployment("team-c", "b", Kind::ConfigMap, "web")
        .deployment("shop", "c", Kind::ConfigMap, "web")
        .deployment("shop", "d", Kind::ConfigMap, "other")
        .app();
    let warnings = app.send("/validate/warnings?timeout=1s", "namespace-create").await.warnings();
    // A user who makes a namespace need not be allowed to see the rules: they are counted, not named.
    assert_eq!(warnings, ["copyrator: 2 objects will be created in this namespace (2 rules)"]);
    let warnings = app.send("/validate/warnings", "configmap-update").await.warnings();
    assert_eq!(warnings, ["copyrator: this change reaches 3 copies, 2 workloads restart"]);
    let warnings = app.send("/validate/warnings", "configmap-delete").await.warnings();
    let told = "copyrator: 3 copies will be deleted after a grace period, unless their rule retains them; 2 workloads use \
     it";
    assert_eq!(warnings, [told]);
    for name in [
        "configmap-update-finalizers",
        "configmap-create",
        "configmap-delete-without-object",
        "secret-update",
    ] {
        assert!(app.send("/validate/warnings", name).await.warnings().is_empty(), "{name}");
    }
}

/// The hook that stands in for the API server's own policy before Kubernetes 1.36.
#[tokio::test]
async fn an_author_is_stamped_once_and_nobody_else_is() {
    let app = Cluster::new().app();
    let mut review = recorded("rule-create");
    let response = app.send_value("/mutate/author", &review).await.allowed();
    let patch: json_patch::Patch = serde_json::from_value(decoded(&response["patch"])).unwrap();
    json_patch::patch(&mut review["request"]["object"], &patch).unwrap();
    let annotations = &review["request"]["object"]["metadata"]["annotations"];
    assert_eq!(annotations["copyrator.dev/author"], "alice");
    assert_eq!(annotations["copyrator.dev/author-groups"], r#"["dev","system:authenticated"]"#);
    let again = app.send_value("/mutate/author", &review).await.allowed();
    assert!(again["patch"].is_null(), "{again}");
    for other in ["configmap-create", "namespace-create", "rule-update-metadata"] {
        let response = app.send("/mutate/author", other).await.allowed();
        assert!(response["patch"].is_null(), "{other}: {response}");
    }
}

#[tokio::test]
async fn large_content_is_named_to_its_writer() {
    for (warn, most, told) in [
        (1000, 2000, "copyrator: this change reaches 3 copies"),
        (10, 2000, "copyrator: this change reaches 3 copies (225 bytes)"),
        (
            10,
            20,
            "copyrator: this change reaches 3 copies (225 bytes, more than the maximum of 20 bytes: not copied)",
        ),
    ] {
        let spec = json!({"source": {"kind": "ConfigMap", "names": ["web"]}, "targets": [{"namespaceSelector": {}}]});
        let mut cluster = Cluster::new().rule("shop", "configs", spec);
        cluster.world.settings_mut().spread_limits.warn_bytes = Bytes(warn);
        cluster.world.settings_mut().spread_limits.max_bytes = Bytes(most);
        let warnings = cluster.app().send("/validate/warnings", "configmap-update").await.warnings();
        assert_eq!(warnings, [told]);
    }
}
