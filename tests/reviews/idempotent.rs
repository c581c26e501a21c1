//! A patch, applied, leaves nothing to patch: the API server may ask mutating hooks twice.

use std::{cell::RefCell, collections::BTreeMap};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use proptest::{
    collection::{btree_map, vec},
    option,
    prelude::*,
    sample::select,
    test_runner::TestRunner,
};
use serde_json::{Value, json};

use super::harness::{App, Cluster, recorded};

type Map = BTreeMap<String, String>;

const KEYS: [&str; 4] = ["team", "tier", "example.com/a", "x"];
const KINDS: [&str; 5] = ["ConfigMap", "Secret", "Namespace", "CopyratorRule", "ConfigMonitor"];
const ASKING: [&str; 5] = [
    "copyrator.dev/copy-to",
    "copyrator.dev/restart-pods",
    "copyrator.dev/author",
    "copyrator.dev/author-groups",
    "other",
];

fn map(keys: &'static [&'static str]) -> impl Strategy<Value = Map> {
    btree_map(select(keys).prop_map(str::to_owned), select(&["a", "b"][..]).prop_map(str::to_owned), 0..4)
}

/// A policy that adds something to some objects.
fn policy() -> impl Strategy<Value = Value> {
    let selector = option::of((select(&KEYS[..]), select(&["a", "b"][..])));
    (selector, map(&KEYS), map(&KEYS)).prop_map(|(selector, labels, annotations)| {
        let mut policy = json!({
            "match": { "kinds": ["ConfigMap", "Secret", "Namespace"] },
            "defaults": { "labels": labels, "annotations": annotations },
        });
        if let Some((key, value)) = selector {
            policy["match"]["objectSelector"] = json!({ "matchLabels": { key: value } });
        }
        policy
    })
}

fn metadata() -> impl Strategy<Value = Value> {
    let keys: &'static [&'static str] = &ASKING;
    (option::of(map(&KEYS)), option::of((map(&KEYS), map(keys)))).prop_map(|(labels, annotations)| {
        let mut metadata = json!({ "name": "app", "namespace": "shop" });
        if let Some(mut labels) = labels {
            let declares =
                labels.remove("x").map(|_| ("copyrator.dev/declares".to_owned(), "true".to_owned()));
            labels.extend(declares);
            metadata["labels"] = json!(labels);
        }
        if let Some((plain, asking)) = annotations {
            metadata["annotations"] = json!(plain.into_iter().chain(asking).collect::<Map>());
        }
        metadata
    })
}

/// A write: the kind, the object as it would be, and as it is.
fn write() -> impl Strategy<Value = Value> {
    let spec = || select(vec![json!({ "suspend": false }), json!({ "suspend": true }), json!({ "a": 1 })]);
    let object =
        || (metadata(), spec()).prop_map(|(metadata, spec)| json!({ "metadata": metadata, "spec": spec }));
    (select(&KINDS[..]), object(), option::of(object())).prop_map(|(kind, object, old)| {
        let mut review = recorded("configmap-create");
        let request = &mut review["request"];
        let (group, version) = if kind.starts_with("Co") && kind != "ConfigMap" {
            ("copyrator.dev", "v1alpha1")
        } else {
            ("", "v1")
        };
        request["kind"] = json!({ "group": group, "version": version, "kind": kind });
        (request["name"], request["namespace"]) = (json!("app"), json!("shop"));
        request["object"] = object;
        if let Some(old) = old {
            request["operation"] = "UPDATE".into();
            request["oldObject"] = old;
        }
        review
    })
}

async fn patched(app: &App, path: &str, review: &Value) -> Option<Value> {
    let response = app.send_value(path, review).await.allowed();
    let patch: Value =
        serde_json::from_slice(&STANDARD.decode(response["patch"].as_str()?).unwrap()).unwrap();
    let mut after = review.clone();
    let patch: json_patch::Patch = serde_json::from_value(patch).unwrap();
    json_patch::patch(&mut after["request"]["object"], &patch).unwrap();
    assert_ne!(&after, review, "an empty patch is none");
    Some(after)
}

const PATHS: [&str; 3] = ["/mutate/defaults", "/mutate", "/mutate/author"];

#[test]
fn a_patch_applied_leaves_nothing_to_patch() {
    let config = ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() };
    let patches = RefCell::new(BTreeMap::from(PATHS.map(|path| (path, 0))));
    let holds = |(policies, review): (Vec<Value>, Value)| {
        let mut cluster = Cluster::new();
        for (index, mut policy) in policies.into_iter().enumerate() {
            policy["limits"] = json!({ "maxBytes": 9 });
            cluster = cluster.policy(&format!("p{index}"), policy);
        }
        let app = cluster.app();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        for path in PATHS {
            runtime.block_on(async {
                let Some(after) = patched(&app, path, &review).await else { return };
                *patches.borrow_mut().get_mut(path).unwrap() += 1;
                assert_eq!(patched(&app, path, &after).await, None, "{path}");
                // Nor does the other hook's patch bring it back, in whatever order they are asked.
                let other = if path == "/mutate/author" { "/mutate/defaults" } else { "/mutate/author" };
                if let Some(after) = patched(&app, other, &after).await {
                    assert_eq!(patched(&app, path, &after).await, None, "{path} after {other}");
                }
            });
        }
        Ok(())
    };
    TestRunner::new(config).run(&(vec(policy(), 0..6), write()), holds).unwrap();
    // Where nothing is patched, nothing is shown.
    let patches = patches.into_inner();
    assert!(patches.values().all(|count| *count > 50), "{patches:?}");
}
