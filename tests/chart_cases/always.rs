//! What holds whatever the values.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::difference::name;
use crate::rendering::{Release, render, text};

/// Bytes of a CRD as JSON: client-side apply keeps a whole object in an annotation of 256 KiB (external-secrets#5205).
const DEFINITION: usize = 200 * 1024;
/// As long as Helm lets a release's name be.
const LONG: &str = "a-release-whose-name-is-as-long-as-helm-allows-it-52b";
/// What is selected by; everything else may change between versions, and a Deployment's selector never.
const SELECTED: [&str; 3] =
    ["app.kubernetes.io/component", "app.kubernetes.io/instance", "app.kubernetes.io/name"];
/// What every object says of itself.
const LABELS: [&str; 6] = [
    "app.kubernetes.io/instance",
    "app.kubernetes.io/managed-by",
    "app.kubernetes.io/name",
    "app.kubernetes.io/part-of",
    "app.kubernetes.io/version",
    "helm.sh/chart",
];
/// The same text in every install, without labels of a release.
const FIXED: [&str; 5] = [
    "CustomResourceDefinition",
    "MutatingAdmissionPolicy",
    "MutatingAdmissionPolicyBinding",
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionPolicyBinding",
];
const OF_THE_CLUSTER: [&str; 3] = ["ClusterRole", "ClusterRoleBinding", "FlowSchema"];

/// With everything that the chart has, in each topology.
fn everything() -> Vec<Value> {
    let with = |topology: &str| {
        let on = json!({ "enabled": true });
        json!({
            "topology": topology,
            "serviceMonitor": on,
            "prometheusRule": on,
            "dashboard": on,
            "networkPolicy": on,
            "commonLabels": { "app.kubernetes.io/name": "theirs", "app.kubernetes.io/component": "theirs", "team": "a" },
            "podLabels": { "app.kubernetes.io/instance": "theirs", "app.kubernetes.io/component": "theirs" },
            "certificates": { "mode": "cert-manager", "issuerRef": { "name": "ca" } },
        })
    };
    ["split", "combined"].map(with).into()
}

fn objects(release: &str, values: &Value) -> Vec<Value> {
    let release = Release { name: release, ..Release::default() };
    render(&release, values).expect("the chart renders")
}

/// Else a user who compares sees a change that nobody made (apisix-helm#993, envoy ai-gateway PR 2596).
#[test]
fn the_same_values_are_the_same_bytes() {
    for values in everything().iter().chain([&json!({})]) {
        let rendered = || text(&Release::default(), values).expect("the chart renders");
        assert_eq!(rendered(), rendered());
    }
}

#[test]
fn each_definition_fits_an_annotation() {
    let objects = objects("copyrator", &json!({}));
    let definitions = objects.iter().filter(|object| object["kind"] == "CustomResourceDefinition");
    let sizes: Vec<usize> = definitions.map(|object| object.to_string().len()).collect();
    assert_eq!(sizes.len(), 4);
    assert!(sizes.iter().all(|size| *size < DEFINITION), "{sizes:?} of {DEFINITION} bytes");
}

#[test]
fn every_object_says_whose_it_is() {
    for object in everything().iter().flat_map(|values| objects("copyrator", values)) {
        let kind = object["kind"].as_str().unwrap();
        if FIXED.contains(&kind) {
            continue;
        }
        let labels = object["metadata"]["labels"].as_object().unwrap();
        for label in LABELS {
            assert!(labels.contains_key(label), "{} has no {label}", name(&object));
        }
        assert_eq!(
            labels["app.kubernetes.io/name"],
            "copyrator",
            "{}: theirs is in its place",
            name(&object)
        );
        assert!(
            labels.get("app.kubernetes.io/component").is_none_or(|it| it != "theirs"),
            "{}",
            name(&object)
        );
        assert_eq!(labels["team"], "a", "{}", name(&object));
        let namespace = &object["metadata"]["namespace"];
        match OF_THE_CLUSTER.contains(&kind) {
            true => assert!(namespace.is_null(), "{}", name(&object)),
            // `helm template` is applied by others, who may have another default.
            false => assert_eq!(namespace, "copyrator-system", "{}", name(&object)),
        }
    }
}

/// Annotations of an account give it rights in a cloud, which would be those of everybody who gets around the console.
#[test]
fn the_console_has_no_rights_in_a_cloud() {
    let annotations = json!({ "eks.amazonaws.com/role-arn": "arn:aws:iam::1:role/x" });
    let values = json!({ "console": { "enabled": true }, "serviceAccount": { "annotations": annotations } });
    let objects = objects("copyrator", &values);
    let accounts = objects.iter().filter(|object| object["kind"] == "ServiceAccount");
    let told = accounts.map(|account| (name(account), account["metadata"]["annotations"].is_object()));
    let expected = [("console", false), ("reconciler", true), ("webhook", true)];
    let expected = expected.map(|(component, has)| (format!("ServiceAccount copyrator-{component}"), has));
    assert_eq!(told.collect::<BTreeSet<_>>(), BTreeSet::from(expected));
}

/// A selector that a value changes is an upgrade that the API server refuses.
#[test]
fn nothing_is_selected_by_what_may_change() {
    let mut selectors = 0;
    for object in everything().iter().flat_map(|values| objects("copyrator", values)) {
        let spec = &object["spec"];
        let labels = match object["kind"].as_str().unwrap() {
            "Deployment" | "PodDisruptionBudget" | "ServiceMonitor" => &spec["selector"]["matchLabels"],
            "NetworkPolicy" => &spec["podSelector"]["matchLabels"],
            "Service" => &spec["selector"],
            _ => continue,
        };
        selectors += 1;
        let labels = labels.as_object().unwrap();
        assert!(labels.keys().all(|key| SELECTED.contains(&&**key)), "{}: {labels:?}", name(&object));
        assert!(labels.values().all(|value| value != "theirs"), "{}: {labels:?}", name(&object));
        let template = &spec["template"]["metadata"]["labels"];
        assert!(
            template.is_null() || labels.iter().all(|(key, value)| template[key] == *value),
            "{template}"
        );
    }
    assert!(selectors > 12, "only {selectors}");
}

/// Names and label values have 63 characters at most, and a name that was cut must not end in a dash.
#[test]
fn a_long_release_has_valid_names_that_differ() {
    assert_eq!(LONG.len(), 53);
    for values in everything() {
        let objects = objects(LONG, &values);
        let names: BTreeSet<String> = objects.iter().map(name).collect();
        assert_eq!(names.len(), objects.len(), "{names:#?}");
        for object in &objects {
            let name = object["metadata"]["name"].as_str().unwrap();
            let is_ours = !FIXED.contains(&object["kind"].as_str().unwrap());
            assert!(!is_ours || name.len() <= 63, "{name} has {} characters", name.len());
            assert!(!name.contains("--") && !name.ends_with('-'), "{name}");
            for (key, value) in object["metadata"]["labels"].as_object().into_iter().flatten() {
                let value = value.as_str().unwrap();
                assert!(value.len() <= 63 && !value.ends_with('-'), "{name}: {key} = {value}");
            }
        }
    }
}

/// OpenShift gives each namespace its own users, and refuses pods that name another (kyverno#4118, harbor-helm#2380).
#[test]
fn no_user_or_group_is_fixed() {
    for values in everything() {
        for object in objects("copyrator", &values).iter().filter(|object| object["kind"] == "Deployment") {
            let text = object.to_string();
            for fixed in ["runAsUser", "runAsGroup", "fsGroup"] {
                assert!(!text.contains(fixed), "{} has {fixed}", name(object));
            }
        }
    }
}
