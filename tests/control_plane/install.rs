//! What Helm installs.

use std::collections::BTreeSet;
use std::io::Write;
use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};
use testbed::{NAMESPACE, RELEASE, Role};

use crate::attacks::are_fended_off;
use crate::bed::objects::{binding, config_map};
use crate::bed::{Bed, Story, peaceful, private};

const KUBE: [&str; 2] = ["--kube-version", "1.36.0"];
const CHART: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/charts/copyrator");

#[test]
fn helm_finds_nothing_to_complain_about_in_either_topology() {
    let bed = peaceful();
    let demands =
        "webhook.clientCA.configMapName=kube-root-ca.crt,webhook.clientCA.names={a,b},webhook.peerRate=5000";
    let guarded = "topology=split,networkPolicy.enabled=true";
    for values in [guarded, "topology=combined,networkPolicy.enabled=true", demands] {
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

/// Only whom the values name reaches the port where reviews are answered; probes and metrics, everybody.
#[test]
fn network_policies_select_our_pods_and_name_their_ports() {
    for (topology, from, expected) in [
        ("split", "", "copyrator-reconciler: metrics; copyrator-webhook: webhook metrics"),
        (
            "split",
            "10.1.2.0/28",
            "copyrator-reconciler: metrics; copyrator-webhook: webhook<10.1.2.0/28 metrics",
        ),
        ("combined", "10.1.2.0/28", "copyrator-reconciler: webhook<10.1.2.0/28 metrics"),
    ] {
        let values = format!("topology={topology},networkPolicy.enabled=true");
        let from = format!("networkPolicy.from={}", if from.is_empty() { "[]".into() } else { peers(from) });
        let chart =
            ["template", RELEASE, CHART, "--namespace", NAMESPACE, "--set", &values, "--set-json", &from];
        let rendered = succeed(helm(peaceful()).args(chart).args(KUBE));
        let objects: Vec<Value> = serde_saphyr::from_multiple(&rendered).expect("helm renders YAML");
        let of = |kind: &str| objects.iter().filter(move |it| it["kind"] == kind).collect::<Vec<_>>();
        let mut told = Vec::new();
        for policy in of("NetworkPolicy") {
            assert_eq!(
                policy["spec"]["policyTypes"],
                json!(["Ingress"]),
                "the API server may be out of reach"
            );
            let selector = policy["spec"]["podSelector"]["matchLabels"].as_object().expect("labels");
            let selected = of("Deployment").into_iter().filter(|it| {
                let labels = &it["spec"]["template"]["metadata"]["labels"];
                selector.iter().all(|(key, value)| labels[key] == *value)
            });
            let [deployment] = selected.collect::<Vec<_>>()[..] else { panic!("not one: {policy}") };
            let ports = &deployment["spec"]["template"]["spec"]["containers"][0]["ports"];
            let opened = policy["spec"]["ingress"].as_array().expect("rules").iter().map(|rule| {
                let port = rule["ports"][0]["port"].as_str().expect("a name");
                assert!(ports.to_string().contains(&format!("{port:?}")), "no port {port}: {ports}");
                let from = rule["from"][0]["ipBlock"]["cidr"].as_str();
                from.map_or_else(|| port.to_owned(), |from| format!("{port}<{from}"))
            });
            let opened: Vec<String> = opened.collect();
            told.push(format!(
                "{}: {}",
                deployment["metadata"]["name"].as_str().unwrap_or(""),
                opened.join(" ")
            ));
        }
        told.sort();
        assert_eq!(told.join("; "), expected);
    }
    let rendered = succeed(helm(peaceful()).args(["template", RELEASE, CHART]).args(KUBE));
    assert!(!rendered.contains("kind: NetworkPolicy"), "nobody asked for it");
}

/// A role without its binding gives nothing, and where only some values leave it out nobody sees why.
#[test]
fn every_role_is_bound_whatever_the_values() {
    let modes = [
        "certificates.mode=self-managed",
        "certificates.mode=secret,certificates.secretName=tls",
        "certificates.mode=cert-manager,certificates.issuerRef.name=ca",
    ];
    for (topology, mode) in ["split", "combined"].iter().flat_map(|one| modes.map(|mode| (one, mode))) {
        let values = format!("topology={topology},{mode}");
        let chart = ["template", RELEASE, CHART, "--namespace", NAMESPACE, "--set", &values];
        let rendered = succeed(helm(peaceful()).args(chart).args(KUBE));
        let objects: Vec<Value> = serde_saphyr::from_multiple(&rendered).expect("helm renders YAML");
        let named = |one: &Value| format!("{} {}", one["kind"], one["name"]);
        let is_of = |kinds: [&str; 2], one: &Value| kinds.contains(&one["kind"].as_str().unwrap_or_default());
        let roles = objects.iter().filter(|one| is_of(["Role", "ClusterRole"], one));
        // Those of people are added to roles that are bound already.
        let is_peoples = |one: &Value| one["metadata"]["labels"].to_string().contains("aggregate-to-");
        let roles: BTreeSet<String> = roles
            .filter(|one| !is_peoples(one))
            .map(|one| named(&json!({ "kind": one["kind"], "name": one["metadata"]["name"] })))
            .collect();
        let bindings = objects.iter().filter(|one| is_of(["RoleBinding", "ClusterRoleBinding"], one));
        let accounts: Vec<&Value> = objects
            .iter()
            .filter(|one| one["kind"] == "ServiceAccount")
            .map(|one| &one["metadata"]["name"])
            .collect();
        let bound: BTreeSet<String> = bindings
            .map(|one| {
                let subjects = one["subjects"].as_array().expect("subjects");
                assert!(subjects.iter().all(|who| accounts.contains(&&who["name"])), "{values}: {one}");
                named(&one["roleRef"])
            })
            .collect();
        assert_eq!(bound, roles, "{values}");
    }
}

/// The loss of a node is the loss of one pod of two, and a rollout that of none.
#[test]
fn pods_are_on_different_nodes_unless_the_values_say_otherwise() {
    let theirs = r#"topologySpreadConstraints=[{"maxSkew":2,"topologyKey":"zone","whenUnsatisfiable":"DoNotSchedule"}]"#;
    for (values, spread, is_spare) in [
        ("topology=split", "kubernetes.io/hostname", true),
        ("topology=combined", "kubernetes.io/hostname", true),
        ("webhook.hostNetwork=true", "kubernetes.io/hostname", false),
        ("topology=split", "zone", true),
    ] {
        let more: &[&str] = if spread == "zone" { &["--set-json", theirs] } else { &[] };
        let chart = ["template", RELEASE, CHART, "--namespace", NAMESPACE, "--set", values];
        let rendered = succeed(helm(peaceful()).args(chart).args(KUBE).args(more));
        let objects: Vec<Value> = serde_saphyr::from_multiple(&rendered).expect("helm renders YAML");
        for deployment in objects.iter().filter(|one| one["kind"] == "Deployment") {
            let template = &deployment["spec"]["template"];
            let constraints = template["spec"]["topologySpreadConstraints"].as_array().expect("constraints");
            let [constraint] = &constraints[..] else { panic!("{values}: {constraints:?}") };
            assert_eq!(constraint["topologyKey"], spread, "{values}");
            if spread != "zone" {
                let selector = &deployment["spec"]["selector"];
                assert_eq!(&constraint["labelSelector"], selector, "{values}");
            }
            let answers = template["spec"]["containers"][0]["ports"].to_string().contains("webhook");
            let unavailable = &deployment["spec"]["strategy"]["rollingUpdate"]["maxUnavailable"];
            assert_eq!(
                *unavailable == 0,
                answers && is_spare,
                "{values}: {}",
                deployment["spec"]["strategy"]
            );
        }
    }
}

fn peers(block: &str) -> String {
    json!([{ "ipBlock": { "cidr": block } }]).to_string()
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
    for place in [&story.home, &target] {
        bed.admin.create(&binding(place, "bob", "edit")).ok();
    }
    are_fended_off(&story, &target, "app", "rule");
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
