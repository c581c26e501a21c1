//! Without Helm in the cluster: what `helm template` renders, applied by kubectl, and again and again by a controller
//! such as Argo CD or Flux.

use serde_json::{Value, json};
use testbed::{NAMESPACE, RELEASE, Role};

use crate::bed::objects::config_map;
use crate::bed::{Bed, Story, eventually, private};

const CHART: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/charts/copyrator");
const CA: &str = "copyrator-webhook-ca";
/// As Argo CD calls itself where it applies on the server's side.
const MANAGER: &str = "argocd-controller";
/// The account of both roles, by another name than the chart's own.
const ACCOUNT: &str = "writer";
/// What a rotation waits for on purpose, short.
const FAST: [&str; 4] = ["--ca-propagation", "3s", "--reconciler-account", ACCOUNT];

fn rendered(bed: &Bed) -> String {
    let values = "topology=combined,reconciler.replicas=0,networkPolicy.enabled=true,dashboard.enabled=true";
    let account = format!("serviceAccount.names.reconciler={ACCOUNT}");
    bed.helm(&[
        "template",
        RELEASE,
        CHART,
        "--namespace",
        NAMESPACE,
        "--kube-version",
        "1.36.0",
        "--set",
        values,
        "--set",
        &account,
    ])
}

/// Applied as a controller does: on the server's side, and without force, so that another owner of a field is seen.
fn apply(bed: &Bed, text: &str) {
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), text).expect("the file can be written");
    let path = file.path().to_string_lossy();
    bed.kubectl(&["apply", "--server-side", "--field-manager", MANAGER, "-f", &path], &Value::Null);
}

/// What applying it again would change: nothing but who applies it.
fn differences(bed: &Bed, objects: &[Value]) -> Vec<String> {
    let differs = |object: &Value| {
        let of = |answer: Value| {
            let mut object = answer;
            object["metadata"]["managedFields"] = Value::Null;
            object
        };
        let (kind, meta) = (object["kind"].as_str().expect("a kind"), &object["metadata"]);
        let text = |key: &str| meta[key].as_str().unwrap_or_default();
        let before = of(bed.admin.get(kind, text("namespace"), text("name")).expect("it is there"));
        let after = of(bed.admin.try_apply_as(MANAGER, object).ok());
        (before != after).then(|| format!("{kind} {}\n{before}\n{after}", text("name")))
    };
    objects.iter().filter_map(differs).collect()
}

/// Waits until nothing would change: Kubernetes' own controllers write statuses between two looks.
#[track_caller]
fn until_alike(bed: &Bed, objects: &[Value], when: &str) {
    eventually(&format!("applying it again changes nothing {when}"), || {
        let differences = differences(bed, objects);
        if differences.is_empty() { Ok(()) } else { Err(differences.join("\n")) }
    });
}

/// Hooks, certificates and index are the operator's alone: a controller that keeps the chart sees no drift, and takes nothing
/// back (actions-runner-controller#614, eck#6641, metallb#2571).
#[test]
fn the_chart_applied_again_after_the_operator_ran_and_its_ca_was_rotated_changes_nothing() {
    let bed = private("gitops-applied");
    bed.helm(&["uninstall", RELEASE, "--namespace", NAMESPACE]);
    // The chart keeps its definitions, and Helm its name on them.
    for plural in ["copyratorrules", "configmonitors", "configpolicies", "copyratortemplates"] {
        bed.admin.delete("CustomResourceDefinition", "", &format!("{plural}.copyrator.dev")).ok();
    }
    eventually("the definitions are gone", || {
        let left = bed.admin.list("CustomResourceDefinition", "", "app.kubernetes.io/name%3Dcopyrator");
        if left.is_empty() { Ok(()) } else { Err(format!("{} are left", left.len())) }
    });
    let text = rendered(&bed);
    let objects: Vec<Value> = serde_saphyr::from_multiple(&text).expect("helm renders YAML");
    apply(&bed, &text);

    let token = bed
        .kubectl(&["create", "token", ACCOUNT, "--namespace", NAMESPACE, "--duration", "24h"], &Value::Null);
    let account =
        bed.testbed.cluster().kubeconfig_with_token(ACCOUNT, token.trim()).expect("the account is there");
    let mut process = bed.testbed.operator_as(Role::Both, 0, &account, &FAST).expect("it starts");
    process.wait_ready().expect("it becomes ready");
    bed.testbed.wait_hooked().expect("the hooks are applied");
    bed.until_stamped();
    let story = Story::new(&bed, "gitops-applied");
    let target = story.target("a");
    bed.admin.create(&config_map(&story.home, "app", [("k", "v")])).ok();
    bed.admin.create(&story.rule("ConfigMap", &["app"])).ok();
    story.until("ConfigMap", &target, "app", [("k", "v")]);
    until_alike(&bed, &objects, "after the operator ran");

    let ca = || bed.admin.get("Secret", NAMESPACE, CA).expect("the CA's Secret")["data"]["ca.crt"].clone();
    let first = ca();
    let rotate = json!({ "metadata": { "annotations": { "copyrator.dev/rotate": "now" } } });
    bed.admin.merge("Secret", NAMESPACE, CA, &rotate).ok();
    eventually("another CA signs", || if ca() == first { Err("the first one".into()) } else { Ok(()) });
    until_alike(&bed, &objects, "after the CA was rotated");
    apply(&bed, &text);
    // It goes on as before.
    bed.admin.apply(&config_map(&story.home, "app", [("k", "w")])).ok();
    story.until("ConfigMap", &target, "app", [("k", "w")]);
    // And a difference would be seen, and a field of somebody else's.
    let mut other =
        objects.iter().find(|object| object["kind"] == "Deployment").expect("a Deployment").clone();
    other["spec"]["replicas"] = 1.into();
    assert_eq!(differences(&bed, &[other.clone()]).len(), 1);
    other["spec"]["replicas"] = 3.into();
    let conflict = bed.admin.try_apply_as("somebody", &other).refused();
    assert!(conflict.contains(MANAGER), "{conflict}");
}
