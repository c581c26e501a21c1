//! Where the values name namespaces, no account of ours gets a right over the cluster but to read definitions of ours.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::difference::name;
use crate::rendering::{Release, render};

/// What an administrator installs who may, and what gives our accounts nothing.
const OF_THE_CLUSTER: [&str; 5] = [
    "CustomResourceDefinition",
    "MutatingAdmissionPolicy",
    "MutatingAdmissionPolicyBinding",
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionPolicyBinding",
];

/// What reads these definitions, where the chart brings them.
const READING: [&str; 2] = ["ClusterRole copyrator-definitions", "ClusterRoleBinding copyrator-definitions"];

fn everything(crds: bool) -> Vec<Value> {
    rendered(crds, true)
}

fn rendered(crds: bool, reads: bool) -> Vec<Value> {
    let on = json!({ "enabled": true });
    let values = json!({
        "namespaces": ["shop", "web"], "crds": { "enabled": crds }, "serviceMonitor": on, "prometheusRule": on,
        "dashboard": on, "networkPolicy": on, "flowSchema": on, "podDisruptionBudget": on,
        "certificates": { "mode": "cert-manager", "issuerRef": { "name": "ca" } },
        "rbac": { "definitions": reads },
    });
    render(&Release::default(), &values).expect("the chart renders")
}

#[test]
fn nothing_of_the_cluster_is_rendered_but_definitions_and_policies() {
    for (crds, reads) in [(true, true), (true, false), (false, true)] {
        let objects = rendered(crds, reads);
        let without: Vec<String> =
            objects.iter().filter(|object| object["metadata"]["namespace"].is_null()).map(name).collect();
        let is_known = |name: &&String| OF_THE_CLUSTER.iter().any(|kind| name.starts_with(kind));
        let others: Vec<&String> = without.iter().filter(|name| !is_known(name)).collect();
        let is_read = crds && reads;
        assert_eq!(others, READING.iter().filter(|_| is_read).collect::<Vec<_>>());
        let deployment = objects.iter().find(|object| object["kind"] == "Deployment").unwrap();
        assert_eq!(deployment.to_string().contains("--read-definitions=true"), is_read);
        assert_eq!(without.is_empty(), !crds, "{without:?}");
    }
}

#[test]
fn each_namespace_has_a_role_for_our_one_account_and_nobody_answers() {
    let objects = everything(false);
    let of = |kind: &str| -> Vec<&Value> { objects.iter().filter(|one| one["kind"] == kind).collect() };
    let places = |kind: &str| -> BTreeSet<&str> {
        of(kind).into_iter().filter_map(|one| one["metadata"]["namespace"].as_str()).collect()
    };
    for kind in ["Role", "RoleBinding"] {
        assert_eq!(places(kind), ["copyrator-system", "shop", "web"].into(), "{kind}");
        assert_eq!(of(kind).len(), 3, "{kind}");
    }
    for binding in of("RoleBinding") {
        assert_eq!(binding["roleRef"]["kind"], "Role", "{}", name(binding));
        let account = json!([{ "kind": "ServiceAccount", "name": "copyrator-reconciler", "namespace": "copyrator-system" }]);
        assert_eq!(binding["subjects"], account, "{}", name(binding));
    }
    let deployments = of("Deployment");
    assert_eq!(deployments.len(), 1);
    let arguments = deployments[0].pointer("/spec/template/spec/containers/0/args").unwrap().to_string();
    assert!(arguments.contains("\"--roles=reconciler\""), "{arguments}");
    assert!(arguments.contains("\"--namespaces=shop,web\""), "{arguments}");
    for webhooks in ["--webhook-service", "--owner-cluster-role", "--tls-dir"] {
        assert!(!arguments.contains(webhooks), "{arguments}");
    }
    assert_eq!(of("ServiceAccount").len(), 1);
    assert!(of("Service").iter().all(|service| !name(service).ends_with("-webhook")));
    assert!(of("Certificate").is_empty());
}

/// The dry run of a ConfigMap is for annotations alone.
#[test]
fn without_annotations_no_config_map_is_made_at_home() {
    for annotations in [true, false] {
        let values = json!({ "namespaces": ["shop"], "annotations": annotations });
        let objects = render(&Release::default(), &values).expect("the chart renders");
        let home = objects.iter().find(|object| name(object) == "Role copyrator-reconciler").unwrap();
        assert_eq!(home["rules"].to_string().contains("configmaps"), annotations);
    }
}
