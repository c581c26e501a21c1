//! An answer carries the verdict and nothing else: a client that reaches the endpoint learns nothing of what is in the cluster.

use std::{collections::BTreeSet, sync::Arc};

use copyrator::{admit::PATHS, model::NamespaceFacts, names::Kind};
use serde_json::{Value, json};

use super::harness::{App, Cluster, Table, recorded};

/// Every recorded review.
fn reviews() -> Vec<String> {
    let folder = format!("{}/tests/reviews", env!("CARGO_MANIFEST_DIR"));
    let names = std::fs::read_dir(folder).unwrap().filter_map(|entry| {
        let name = entry.unwrap().file_name().into_string().unwrap();
        name.strip_suffix(".json").map(str::to_owned)
    });
    names.collect()
}

/// A cluster full of what the reviews do not name, all of which they touch.
fn crowded() -> Cluster {
    let rule = |kind: &str| json!({"source": {"kind": kind, "names": ["*"], "namespaces": ["shop", "hidden"]}, "targets": [{"namespaceSelector": {}}]});
    let watch = json!({"watch": [{"kind": "ConfigMap", "names": ["*"]}, {"kind": "Secret", "names": ["*"]}]});
    let policy = json!({
        "match": {"kinds": ["ConfigMap", "Secret", "Namespace"], "namespaceSelector": {"matchLabels": {"team": "hidden"}}},
        "labels": {"required": ["hidden"]},
    });
    let mut cluster = Cluster::new()
        .rule("hidden", "hidden-configs", rule("ConfigMap"))
        .rule("hidden", "hidden-secrets", rule("Secret"))
        .rule("hidden", "registry", rule("Secret"))
        .monitor("shop", "hidden-monitor", watch.clone())
        .monitor("hidden", "web", watch)
        .policy("hidden-policy", policy)
        .deployment("shop", "hidden-shop", Kind::ConfigMap, "web")
        .deployment("hidden", "hidden-web", Kind::ConfigMap, "web")
        .deployment("hidden", "hidden-registry", Kind::Secret, "registry");
    let labels = [("team".to_owned(), "hidden".to_owned())].into();
    cluster.world.set_namespace("hidden".into(), NamespaceFacts { labels, ..NamespaceFacts::default() });
    cluster
}

/// Whether everything that can be asked about is allowed, or nothing is.
fn with(mut cluster: Cluster, allows: bool) -> App {
    let verbs = ["get", "list", "create", "patch", "delete", "impersonate"];
    let resources =
        ["configmaps", "secrets", "deployments", "statefulsets", "daemonsets", "pods", "serviceaccounts"];
    let all = verbs.iter().flat_map(|verb| resources.map(|resource| &*format!("{verb} {resource}").leak()));
    let refused: BTreeSet<&'static str> = if allows { BTreeSet::new() } else { all.collect() };
    cluster.table = Arc::new(Table { refused, ..Table::default() });
    cluster.app()
}

#[tokio::test]
async fn no_answer_names_what_its_review_does_not() {
    let (mut refused, mut warned) = (0, 0);
    for app in [with(crowded(), true), with(crowded(), false)] {
        for review in reviews() {
            for (path, _) in PATHS {
                let answer = app.send_value(path, &recorded(&review)).await;
                assert!(!answer.text.contains("hidden"), "{path} {review}: {}", answer.text);
                let answer: Value = serde_json::from_str(&answer.text).unwrap_or_default();
                refused += usize::from(answer["response"]["allowed"] == false);
                warned += usize::from(answer["response"]["warnings"].is_array());
            }
        }
    }
    assert!(refused > 10 && warned > 5, "nothing was said that could tell: {refused} {warned}");
}

/// A client that sends a review of its own making cannot tell a full cluster from an empty one. Warnings count, and only they do.
#[tokio::test]
async fn verdicts_are_the_same_whatever_else_is_in_the_cluster() {
    let mut refused = 0;
    for allows in [true, false] {
        let (full, empty) = (with(crowded(), allows), with(Cluster::new(), allows));
        for review in reviews() {
            for path in
                ["/validate/own-kinds", "/validate/annotations", "/validate/policies", "/mutate/author"]
            {
                let told = full.send_value(path, &recorded(&review)).await.text;
                assert_eq!(told, empty.send_value(path, &recorded(&review)).await.text, "{path} {review}");
                refused += usize::from(told.contains("\"allowed\":false"));
            }
        }
    }
    assert!(refused > 5, "nothing was refused: {refused}");
}
