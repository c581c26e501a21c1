//! Helm 3 and Helm 4: the one merges three ways on its own side, the other applies on the server's, where two who own a
//! field conflict (kubernaut#332, chaos-mesh#4822).

use std::collections::BTreeMap;
use std::process::Command;

use base64::{Engine, engine::general_purpose::STANDARD};
use serde_json::Value;
use testbed::{NAMESPACE, RELEASE, Role};

use crate::bed::objects::{config_map, version};
use crate::bed::{Bed, Story, eventually, private};

const CHART: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/charts/copyrator");
/// Bytes of the Secret that a release is kept in: beyond 1 MiB it cannot be (kyverno#14378, cozystack#4174).
const LARGEST: usize = 300 * 1024;
/// Everything that the chart has and that needs no definitions of others.
const VALUES: [&str; 6] = [
    "--set",
    "topology=combined,reconciler.replicas=0",
    "--set",
    "networkPolicy.enabled=true,dashboard.enabled=true",
    "--set",
    "webhook.clientCA.configMapName=",
];
/// A field of each sort of object.
const CHANGED: [&str; 6] = [
    "--set",
    "commonLabels.team=blue,maxRollouts=7,webhook.service.annotations.k=v",
    "--set",
    "serviceAccount.annotations.k=v,podDisruptionBudget.maxUnavailable=2",
    "--set",
    "flowSchema.enabled=false",
];

#[test]
fn helm_3_installs_upgrades_and_uninstalls() {
    install_upgrade_and_uninstall(
        "helm3",
        |bed| bed.testbed.cluster().helm().expect("Helm 3 is there"),
        "v3.",
    );
}

#[test]
fn helm_4_installs_upgrades_and_uninstalls() {
    install_upgrade_and_uninstall(
        "helm4",
        |bed| bed.testbed.cluster().helm4().expect("Helm 4 is there"),
        "v4.",
    );
}

fn install_upgrade_and_uninstall(name: &'static str, helm: fn(&Bed) -> Command, numbered: &str) {
    let bed = private(name);
    let run = |arguments: &[&str]| succeed(helm(&bed).args(arguments));
    let place = ["--namespace", NAMESPACE];
    let is_numbered = run(&["version", "--template", "{{.Version}}"]);
    assert!(is_numbered.starts_with(numbered), "{is_numbered}");
    // What the bed has installed goes, all but the CRDs, which the next one has to take over.
    run(&[&["uninstall", RELEASE], &place[..]].concat());
    run(&[&["install", RELEASE, CHART], &place[..], &VALUES].concat());

    let account = bed.testbed.credentials(name).expect("the account is there");
    let start = || {
        let mut process = bed.testbed.operator_as(Role::Both, 0, &account, &[]).expect("it starts");
        process.wait_ready().expect("it becomes ready");
        bed.testbed.wait_hooked().expect("the hooks are applied");
        process
    };
    let process = start();
    bed.until_stamped();
    let story = Story::new(&bed, name);
    let target = story.target("a");
    bed.admin.create(&config_map(&story.home, "app", [("k", "v")])).ok();
    bed.admin.create(&story.rule("ConfigMap", &["app"])).ok();
    let copy = story.until("ConfigMap", &target, "app", [("k", "v")]);

    // While the operator runs, and has written what it writes.
    let upgrade = [&["upgrade", RELEASE, CHART], &place[..], &VALUES, &CHANGED].concat();
    run(&upgrade);
    let deployment = bed.admin.get("Deployment", NAMESPACE, "copyrator-reconciler").expect("it is there");
    assert_eq!(deployment["metadata"]["labels"]["team"], "blue");
    assert!(deployment.to_string().contains("--max-rollouts=7"), "{deployment}");
    let service = bed.admin.get("Service", NAMESPACE, "copyrator-webhook").expect("it is there");
    assert_eq!(service["metadata"]["annotations"]["k"], "v");
    assert!(bed.admin.get("FlowSchema", "", "copyrator-lease").is_none(), "a value took it away");
    let before = contents(&bed);
    run(&upgrade);
    assert_eq!(contents(&bed), before, "the same again changed something");
    let history = run(&[&["history", RELEASE, "--output", "json"], &place[..]].concat());
    let history: Value = serde_json::from_str(&history).expect("JSON");
    let statuses: Vec<&Value> =
        history.as_array().expect("a list").iter().map(|one| &one["status"]).collect();
    assert_eq!(statuses, ["superseded", "superseded", "deployed"]);
    for size in release_sizes(&bed) {
        assert!((10_000..LARGEST).contains(&size), "a release takes {size} bytes of {LARGEST}");
        println!("a release takes {size} bytes");
    }

    run(&[&["uninstall", RELEASE], &place[..]].concat());
    eventually("the hooks are gone", || {
        let kinds = ["ValidatingWebhookConfiguration", "MutatingWebhookConfiguration"];
        let left: Vec<Value> = kinds.iter().flat_map(|kind| bed.admin.list(kind, "", "")).collect();
        if left.is_empty() { Ok(()) } else { Err(format!("{left:?}")) }
    });
    let left: Vec<_> = ours(&bed).into_iter().map(|(kind, name, _)| (kind, name)).collect();
    let definitions = left.iter().all(|(kind, _)| *kind == "CustomResourceDefinition");
    assert!(definitions && left.len() == 4, "{left:?}");
    let still = bed.admin.get("ConfigMap", &target, "app").expect("a copy was removed");
    assert_eq!(version(&still), version(&copy));
    assert!(bed.admin.get("CopyratorRule", &story.home, "rule").is_some(), "people's rules are gone");
    drop(process);
}

/// Kind, name and content of every object of the chart.
fn ours(bed: &Bed) -> Vec<(&'static str, String, Value)> {
    const KINDS: [&str; 15] = [
        "ClusterRole",
        "ClusterRoleBinding",
        "ConfigMap",
        "CustomResourceDefinition",
        "Deployment",
        "FlowSchema",
        "MutatingAdmissionPolicy",
        "NetworkPolicy",
        "PodDisruptionBudget",
        "Role",
        "RoleBinding",
        "Service",
        "ServiceAccount",
        "ValidatingAdmissionPolicy",
        "ValidatingAdmissionPolicyBinding",
    ];
    let of = |kind: &'static str| {
        let objects = bed.admin.list(kind, "", "").into_iter();
        objects.filter_map(move |object| {
            let labels = &object["metadata"]["labels"];
            let is_ours = labels["app.kubernetes.io/part-of"] == "copyrator"
                || object["metadata"]["name"].as_str()?.starts_with("copyrator-")
                || labels["app.kubernetes.io/name"] == "copyrator";
            // The operator's own, which stays until somebody deletes it.
            let is_index = object["metadata"]["name"] == "copyrator-annotated-sources";
            (is_ours && !is_index).then(|| (kind, object["metadata"]["name"].to_string(), written(object)))
        })
    };
    KINDS.into_iter().flat_map(of).collect()
}

/// Without what Kubernetes' own controllers write, some time after an upgrade; the generation tells of every other write.
fn written(mut object: Value) -> Value {
    object["status"].take();
    for field in ["resourceVersion", "managedFields"] {
        object["metadata"][field].take();
    }
    if let Some(annotations) = object["metadata"]["annotations"].as_object_mut() {
        annotations.remove("deployment.kubernetes.io/revision");
    }
    object
}

fn contents(bed: &Bed) -> BTreeMap<(&'static str, String), Value> {
    let all = ours(bed);
    assert!(all.len() > 25, "{all:?}");
    all.into_iter().map(|(kind, name, content)| ((kind, name), content)).collect()
}

fn release_sizes(bed: &Bed) -> Vec<usize> {
    let secrets = bed.admin.list("Secret", NAMESPACE, "owner%3Dhelm");
    assert!(secrets.len() >= 3, "{} releases are kept", secrets.len());
    let size = |secret: &Value| {
        STANDARD.decode(secret["data"]["release"].as_str().expect("a release")).expect("base64").len()
    };
    secrets.iter().map(size).collect()
}

#[track_caller]
fn succeed(command: &mut Command) -> String {
    let output = command.output().expect("helm starts");
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("helm writes text")
}
