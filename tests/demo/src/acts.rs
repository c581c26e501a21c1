//! The acts, in order. Each shows something with real commands, and fails where it cannot be seen.

use std::time::Duration;

use crate::arrivals::Arrivals;
use crate::stage::{Failure, Stage, heading, note};

const OURS: &str = "app.kubernetes.io/managed-by=copyrator";

pub(crate) fn all(stage: &Stage<'_>) -> Result<(), Failure> {
    install(stage)?;
    rules(stage)?;
    namespace_appears(stage)?;
    source_changes(stage)?;
    nonsense_is_refused(stage)?;
    copies_are_protected(stage)?;
    namespace_goes(stage)
}

fn install(stage: &Stage<'_>) -> Result<(), Failure> {
    heading("Copyrator, by its chart");
    stage
        .helm("install copyrator charts/copyrator --namespace copyrator-system --create-namespace --wait")?;
    stage.kubectl("get pods -n copyrator-system")?;
    if let Some((pod, words)) = stage.playground.commands().first() {
        note(&format!("{pod} is: copyrator {}", words.join(" ")));
    }
    note("the reconciler writes the hooks once it has seen that calls reach the webhook");
    for kind in ["mutating", "validating"] {
        stage.kubectl(&format!("wait --for=create {kind}webhookconfiguration/copyrator --timeout=60s"))?;
    }
    // A hook just written takes the API server a moment.
    stage.until_well()?;
    let found = stage.copyrator("doctor")?;
    if found.succeeded { Ok(()) } else { Err(found.unlike("find nothing")) }
}

fn rules(stage: &Stage<'_>) -> Result<(), Failure> {
    heading("1. Rules say what is copied where");
    stage.kubectl("apply -f tests/demo/manifests/sources.yaml")?;
    stage.cat("tests/demo/manifests/rules.yaml")?;
    stage.kubectl("apply -f tests/demo/manifests/rules.yaml")?;
    stage.kubectl("wait --for=condition=Ready copyratorrules --all -n platform --timeout=30s")?;
    stage.kubectl("get copyratorrules -n platform")?.says("NoTarget")
}

fn namespace_appears(stage: &Stage<'_>) -> Result<(), Failure> {
    heading("2. A namespace appears, and so do its objects");
    let cluster = stage.playground.cluster();
    let namespaces = Arrivals::watch(cluster, "/api/v1/namespaces", "")?;
    let config_maps = Arrivals::watch(cluster, "/api/v1/configmaps", OURS)?;
    let secrets = Arrivals::watch(cluster, "/api/v1/secrets", OURS)?;
    stage
        .kubectl("apply -f tests/demo/manifests/namespace.yaml")?
        .says("2 objects will be created in this namespace")?;
    let born = namespaces.of("", "shop")?;
    let last = config_maps.of("shop", "app-settings")?.max(secrets.of("shop", "registry")?);
    stage.kubectl(&format!("get configmaps,secrets -n shop -l {OURS}"))?.says("secret/registry")?;
    note(&format!(
        "from the namespace to its last copy, both as seen on a watch: {}",
        milliseconds(last - born)
    ));
    Ok(())
}

fn source_changes(stage: &Stage<'_>) -> Result<(), Failure> {
    heading("3. A source changes: its copies follow, and what uses them restarts");
    stage.kubectl("apply -f tests/demo/manifests/workloads.yaml")?;
    stage.kubectl("rollout status -n shop deployment/web deployment/docs --timeout=60s")?;
    stage
        .kubectl("wait -n shop --for=jsonpath='{.status.upToDate}'=1 configmonitor/settings --timeout=30s")?;
    note("web uses app-settings, docs doesn't");
    let patch = r#"patch configmap app-settings -n platform --type=merge -p '{"data":{"url":"https://new.example.com"}}'"#;
    stage.kubectl(patch)?.says("this change reaches 1 copy, 1 workload restarts")?;
    stage.kubectl(
        "wait -n shop --for=jsonpath='{.data.url}'=https://new.example.com configmap/app-settings --timeout=30s",
    )?;
    stage.kubectl("wait -n shop --for=jsonpath='{.metadata.generation}'=2 deployment/web --timeout=60s")?;
    stage.kubectl("rollout status -n shop deployment/web --timeout=60s")?;
    stage.kubectl("get deployments -n shop -o custom-columns='NAME:.metadata.name,TIMES ROLLED OUT:.metadata.annotations.deployment\\.kubernetes\\.io/revision'")?;
    let revisions = stage.kubectl("get replicasets -n shop --sort-by=.metadata.creationTimestamp")?;
    let times = |name: &str| revisions.text.lines().filter(|line| line.starts_with(name)).count();
    match (times("web-"), times("docs-")) {
        (2, 1) => Ok(()),
        (web, docs) => {
            Err(Failure::new(format!("web rolled out {web} times and docs {docs}, instead of 2 and 1")))
        }
    }
}

fn nonsense_is_refused(stage: &Stage<'_>) -> Result<(), Failure> {
    heading("4. Nonsense is refused while it is being written");
    stage.cat("tests/demo/manifests/policy.yaml")?;
    stage.kubectl("apply -f tests/demo/manifests/policy.yaml")?;
    stage.kubectl("wait --for=condition=Ready configpolicy/app-config --timeout=30s")?;
    in_force(stage)?;
    stage.cat("tests/demo/manifests/bad.yaml")?;
    let refusal = stage.refused("apply -f tests/demo/manifests/bad.yaml")?;
    refusal.says("policy app-config, rule has-url: ConfigMap shop/app-checkout, key url")?;
    refusal.says("rule settings")
}

/// A new hook takes the API server a moment.
fn in_force(stage: &Stage<'_>) -> Result<(), Failure> {
    until(stage, "create configmap app-probe -n shop --dry-run=server", false, "the policy is not in force")
}

/// So does a new right.
fn granted(stage: &Stage<'_>) -> Result<(), Failure> {
    until(stage, "auth can-i patch configmaps -n shop --as=bob", true, "bob has no rights")
}

/// Asks, without a word, until kubectl succeeds, or fails.
fn until(stage: &Stage<'_>, words: &str, succeeds: bool, otherwise: &str) -> Result<(), Failure> {
    for _ in 0..300 {
        let mut kubectl = stage.playground.cluster().kubectl();
        if kubectl.args(words.split(' ')).output()?.status.success() == succeeds {
            return Ok(());
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    Err(Failure::new(format!("{otherwise} after 300 tries")))
}

fn copies_are_protected(stage: &Stage<'_>) -> Result<(), Failure> {
    heading("5. Copies are changed at their source");
    stage.kubectl("create rolebinding bob-owns-shop -n shop --clusterrole=admin --user=bob")?;
    granted(stage)?;
    let edit = r#"patch configmap app-settings -n shop --type=merge -p '{"data":{"url":"https://elsewhere.example.com"}}'"#;
    let refusal = stage.refused(&format!("{edit} --as=bob"))?;
    refusal.says("is a copy that Copyrator keeps: change its source platform/app-settings")?;
    note("a user with every right is let through, and the reconciler repairs the copy");
    stage.kubectl(edit)?;
    stage.kubectl(
        "wait -n shop --for=jsonpath='{.data.url}'=https://new.example.com configmap/app-settings --timeout=30s",
    )?;
    Ok(())
}

fn namespace_goes(stage: &Stage<'_>) -> Result<(), Failure> {
    heading("6. The namespace goes, with everything in it");
    stage.kubectl("delete namespace shop --timeout=60s")?;
    stage.kubectl("get copyrator -A")?;
    stage.copyrator("status -A")?.says("settings")
}

fn milliseconds(duration: Duration) -> String {
    format!("{:.1} ms", duration.as_secs_f64() * 1000.0)
}
