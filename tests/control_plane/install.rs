//! What Helm installs.

use std::io::Write;
use std::process::{Command, Output, Stdio};

use testbed::{NAMESPACE, RELEASE, Role};

use crate::bed::objects::config_map;
use crate::bed::{Bed, Story, peaceful, private};

const CHART: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/charts/copyrator");

#[test]
fn helm_finds_nothing_to_complain_about_in_either_topology() {
    let bed = peaceful();
    let demands =
        "webhook.clientCA.configMapName=kube-root-ca.crt,webhook.clientCA.names={a,b},webhook.peerRate=0";
    for values in ["topology=split", "topology=combined", demands] {
        succeed(helm(bed).args(["lint", "--strict", CHART, "--set", values]));
        let rendered = succeed(helm(bed).args(["template", RELEASE, CHART, "--set", values]).args([
            "--namespace",
            NAMESPACE,
            "--kube-version",
            "1.36.0",
        ]));
        let accepted = apply(bed, &["--dry-run=server", "--server-side", "--force-conflicts"], &rendered);
        assert_eq!(accepted.lines().count(), objects(&rendered), "{accepted}");
    }
}

/// Before Kubernetes 1.36 there is no such kind, and a hook of ours stamps authors.
#[test]
fn helm_renders_the_stamping_policy_where_it_is_known() {
    let rendered = |more: &[&str]| {
        let chart = ["template", RELEASE, CHART, "--namespace", NAMESPACE];
        succeed(helm(peaceful()).args(chart).args(more))
    };
    let served = ["--api-versions", "admissionregistration.k8s.io/v1/MutatingAdmissionPolicy"];
    for (more, expected) in [
        (vec!["--kube-version", "1.36.0"], true),
        (vec!["--kube-version", "v1.36.2-eks-1"], true),
        (vec!["--kube-version", "1.35.9"], false),
        (vec!["--kube-version", "v1.30.0-gke.1"], false),
        ([&["--kube-version", "1.35.0"], &served[..]].concat(), true),
        (vec!["--kube-version", "1.36.0", "--set", "crds.enabled=false"], false),
    ] {
        let text = rendered(&more);
        assert_eq!(text.contains("kind: MutatingAdmissionPolicy\n"), expected, "{more:?}");
        assert_eq!(text.contains("name: copyrator-author-honest"), !more.contains(&"crds.enabled=false"));
    }
    let output =
        helm(peaceful()).args(["template", CHART, "--kube-version", "1.29.9"]).output().expect("helm runs");
    assert!(!output.status.success(), "the chart takes a server without ValidatingAdmissionPolicy v1");
}

#[test]
fn helm_creates_every_object_of_the_chart() {
    let bed = peaceful();
    let manifest = succeed(helm(bed).args(["get", "manifest", RELEASE, "--namespace", NAMESPACE]));
    let mut kubectl = bed.testbed.cluster().kubectl();
    kubectl.args(["get", "--filename", "-", "--output", "name", "--namespace", NAMESPACE]);
    let there = fed(&mut kubectl, &manifest);
    assert_eq!(there.lines().count(), objects(&manifest), "{there}");
    assert!(objects(&manifest) >= 25, "only {} objects in the manifest", objects(&manifest));
}

#[test]
fn a_wrong_value_is_refused_by_the_charts_schema() {
    for wrong in ["topology=both", "webhook.replicas=many", "nonsense=1", "webhook.peerRate=-1"] {
        let output = helm(peaceful()).args(["template", CHART, "--set", wrong]).output().expect("helm runs");
        assert!(!output.status.success(), "{wrong} is taken");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        let name = wrong.split(['=', '.']).next().unwrap_or_default();
        assert!(said.contains(name), "{wrong}: {said}");
    }
}

/// One process does everything, with the rights of one account.
#[test]
fn a_combined_installation_copies_and_refuses() {
    let bed = private("combined");
    succeed(helm(&bed).args(["upgrade", RELEASE, CHART, "--namespace", NAMESPACE]).args([
        "--set",
        "topology=combined",
        "--set",
        "reconciler.replicas=0",
    ]));
    let mut process = bed.testbed.operator(Role::Both, 0, &[]).expect("it starts");
    process.wait_ready().expect("it becomes ready");
    bed.testbed.wait_hooked().expect("the hooks are applied");
    let story = Story::new(&bed, "combined");
    let target = story.target("a");
    bed.admin.create(&config_map(&story.home, "app", [("k", "v")])).ok();
    let mut rule = story.rule("ConfigMap", &["app"]);
    bed.admin.create(&rule).ok();
    story.until("ConfigMap", &target, "app", [("k", "v")]);
    rule["metadata"]["name"] = "senseless".into();
    rule["spec"]["targets"][0]["namespaceSelector"]["matchLabels"]["no label"] = "x".into();
    let refusal = bed.admin.create(&rule).refused();
    assert!(refusal.contains("no label"), "{refusal}");
}

fn helm(bed: &Bed) -> Command {
    bed.testbed.cluster().helm().expect("helm is there")
}

/// How many objects a manifest has.
fn objects(manifest: &str) -> usize {
    manifest.lines().filter(|line| line.starts_with("kind: ")).count()
}

fn apply(bed: &Bed, how: &[&str], manifest: &str) -> String {
    let mut kubectl = bed.testbed.cluster().kubectl();
    fed(kubectl.args(["apply", "--filename", "-", "--namespace", NAMESPACE]).args(how), manifest)
}

/// What a command wrote that was given this to read.
fn fed(command: &mut Command, input: &str) -> String {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("the command starts");
    let mut stdin = child.stdin.take().expect("it reads");
    stdin.write_all(input.as_bytes()).expect("it takes what it is given");
    drop(stdin);
    checked(child.wait_with_output().expect("it ends"))
}

fn succeed(command: &mut Command) -> String {
    checked(command.output().expect("the command starts"))
}

fn checked(output: Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("it writes text")
}
