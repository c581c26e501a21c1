//! `copyrator doctor`: silent where nothing is wrong, and its commands, run as they stand, mend what it finds.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};
use testbed::{NAMESPACE, RELEASE};

use crate::bed::objects::{data, pod};
use crate::bed::{Bed, Crew, Request, USUAL_TIMEOUTS, eventually, private, same};

const CHART: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/charts/copyrator");
const VALIDATING: &str = "ValidatingWebhookConfiguration";
const MUTATING: &str = "MutatingWebhookConfiguration";

/// What it says: exit code, findings, and what is in order.
struct Said {
    code: Option<i32>,
    findings: Vec<Value>,
    in_order: usize,
    notes: String,
}

impl Said {
    fn ids(&self) -> BTreeSet<&str> {
        self.findings.iter().filter_map(|finding| finding["id"].as_str()).collect()
    }

    /// The commands of a finding, each once.
    fn fixes(&self, id: &str) -> BTreeSet<&str> {
        let of = self.findings.iter().filter(|finding| finding["id"] == id);
        of.filter_map(|finding| finding["fix"].as_str()).collect()
    }
}

fn doctor(bed: &Bed, who: Option<&Path>) -> Said {
    let mut command = bed.testbed.copyrator(&["doctor", "-n", NAMESPACE, "-o", "json"]);
    if let Some(kubeconfig) = who {
        command.env("KUBECONFIG", kubeconfig);
    }
    let output = command.output().expect("it runs");
    let notes = String::from_utf8_lossy(&output.stderr).into_owned();
    let report: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| json!({}));
    let list = |key: &str| report[key].as_array().cloned().unwrap_or_default();
    Said { code: output.status.code(), findings: list("findings"), in_order: list("inOrder").len(), notes }
}

/// Nothing is found, soon.
#[track_caller]
fn sound(bed: &Bed, why: &str) {
    eventually(why, || match doctor(bed, None) {
        Said { code: Some(0), findings, .. } if findings.is_empty() => Ok(()),
        said => Err(format!("{:?} {:#?} {}", said.code, said.findings, said.notes)),
    });
}

/// These are found, and no others.
#[track_caller]
fn found(bed: &Bed, wanted: &[&str]) -> Said {
    eventually("doctor finds what is broken", || finds(bed, wanted))
}

fn finds(bed: &Bed, wanted: &[&str]) -> Result<Said, String> {
    let said = doctor(bed, None);
    let is_it = said.ids() == wanted.iter().copied().collect() && said.code == Some(1);
    if is_it { Ok(said) } else { Err(format!("{:?} {:#?} {}", said.code, said.findings, said.notes)) }
}

/// Runs a command as a person would, in a shell, from the checkout.
#[track_caller]
fn run(bed: &Bed, fix: &str) {
    let cluster = bed.testbed.cluster();
    let (kubectl, helm) = (cluster.kubectl(), cluster.helm().expect("helm is there"));
    let folder = |program: &Path| program.parent().map(Path::to_owned).unwrap_or_default();
    let folders: Vec<PathBuf> =
        [kubectl.get_program(), helm.get_program(), env!("CARGO_BIN_EXE_copyrator").as_ref()]
            .iter()
            .map(|program| folder(Path::new(program)))
            .collect();
    let path = std::env::join_paths(
        folders.into_iter().chain(std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default())),
    );
    let mut shell = Command::new("sh");
    shell.args(["-c", fix]).current_dir(env!("CARGO_MANIFEST_DIR"));
    for (name, value) in helm.get_envs() {
        value.map(|value| shell.env(name, value));
    }
    let output = shell.env("PATH", path.expect("a path")).output().expect("a shell");
    assert!(output.status.success(), "{fix}: {}", String::from_utf8_lossy(&output.stderr));
}

/// Runs every command that a finding names.
#[track_caller]
fn mend(bed: &Bed, said: &Said, id: &str) {
    let fixes = said.fixes(id);
    assert!(!fixes.is_empty(), "{id} names no command");
    fixes.into_iter().for_each(|fix| run(bed, fix));
}

/// One cluster, where one thing after the other breaks.
#[test]
fn doctor_finds_nothing_in_a_sound_install_and_its_commands_mend_a_broken_one() {
    let bed = private("doctor");
    let crew = bed.man_with(&USUAL_TIMEOUTS);
    as_in_pods(&bed);
    sound(&bed, "nothing is found where nothing is wrong");
    nothing_is_written(&bed);
    a_user_who_may_not_look_is_told_what_is_missing(&bed);

    rights(&bed);
    definitions_and_policies(&bed);
    a_foreign_hook_that_nobody_answers(&bed);
    a_stolen_lease(&bed);
    hooks_that_are_left_alone(&bed);
    drift_while_nobody_leads(&bed, crew);
}

/// The processes run beside the cluster; this is what it would know of them, did they run in pods.
fn as_in_pods(bed: &Bed) {
    let hooks = bed.admin.get(VALIDATING, "", "copyrator").expect("the hooks");
    let url = hooks["webhooks"][0]["clientConfig"]["url"].as_str().expect("an URL");
    let base = url.strip_suffix("/validate/own-kinds").expect("its path");
    let told = format!("webhook.url={base}");
    bed.helm(&["upgrade", RELEASE, CHART, "-n", NAMESPACE, "--reuse-values", "--set", &told]);
    let mut leader = pod(NAMESPACE, "copyrator-reconciler-0", &data([]));
    leader["spec"]["serviceAccountName"] = "copyrator-reconciler".into();
    bed.admin.create(&leader).ok();
}

/// It reads, asks, and tries: what it asks for is in the audit log.
fn nothing_is_written(bed: &Bed) {
    bed.kubectl(&["create", "serviceaccount", "doctor", "-n", "default"], &Value::Null);
    let account = "--serviceaccount=default:doctor";
    bed.kubectl(
        &["create", "clusterrolebinding", "doctor", "--clusterrole=cluster-admin", account],
        &Value::Null,
    );
    let token = bed.kubectl(&["create", "token", "doctor", "-n", "default"], &Value::Null);
    let kubeconfig =
        bed.testbed.cluster().kubeconfig_with_token("doctor", token.trim()).expect("a kubeconfig");
    eventually("a user who may see everything finds nothing, once the rights are known", || {
        let said = doctor(bed, Some(&kubeconfig));
        same((said.code, said.findings.len()), (Some(0), 0))
            .map_err(|seen| format!("{seen}: {:#?} {}", said.findings, said.notes))
    });
    let asked = eventually("its requests are in the audit log", || {
        let mut requests = bed.requests();
        requests.retain(|request| request.user == "system:serviceaccount:default:doctor");
        let asks = |what: fn(&Request) -> bool| requests.iter().any(what);
        let is_whole = asks(|it| it.resource == "subjectaccessreviews") && asks(|it| it.dry);
        if is_whole { Ok(requests) } else { Err(format!("{} requests", requests.len())) }
    });
    let is_harmless = |verb: &str| ["get", "list", "watch"].contains(&verb);
    for request in &asked {
        let is_question = request.resource.ends_with("reviews");
        assert!(is_harmless(&request.verb) || request.dry || is_question, "it writes: {request:?}");
    }
    assert!(
        asked.iter().any(|request| request.dry && request.resource == "copyratorrules"),
        "no canary: {asked:?}"
    );
}

/// What could not be looked at is not in order.
fn a_user_who_may_not_look_is_told_what_is_missing(bed: &Bed) {
    let alice = bed.testbed.cluster().user("alice").expect("a user of the cluster");
    let said = doctor(bed, Some(&alice));
    assert_eq!(said.code, Some(1), "{}", said.notes);
    assert!(said.findings.iter().all(|finding| finding["severity"] == "unknown"), "{:#?}", said.findings);
    let lease = said.findings.iter().find(|finding| finding["id"] == "lease-stale").expect("the Lease");
    let right = "get leases.coordination.k8s.io/copyrator-reconciler in namespace copyrator-system";
    assert!(lease["what"].as_str().is_some_and(|what| what.contains(right)), "{lease}");
    // Only the server's version is everybody's to see.
    assert_eq!(said.in_order, 1, "{:#?}", said.findings);
}

fn rights(bed: &Bed) {
    let role = bed.admin.get("ClusterRole", "", "copyrator-restart").expect("the chart's ClusterRole");
    let mut rules = role["rules"].as_array().expect("rules").clone();
    rules.pop();
    bed.admin.merge("ClusterRole", "", "copyrator-restart", &json!({ "rules": rules })).ok();
    let account = format!("--serviceaccount={NAMESPACE}:copyrator-webhook");
    bed.kubectl(
        &["create", "clusterrolebinding", "more", "--clusterrole=cluster-admin", &account],
        &Value::Null,
    );
    let said = found(bed, &["right-missing", "right-too-many"]);
    let missing = said.findings.iter().find(|finding| finding["id"] == "right-missing").expect("it is found");
    assert!(missing["what"].to_string().contains("create pods/eviction"), "{missing}");
    mend(bed, &said, "right-missing");
    // Which of the bindings it is, a person sees.
    mend(bed, &said, "right-too-many");
    bed.admin.delete("ClusterRoleBinding", "", "more").ok();
    sound(bed, "the rights are as they were");
}

fn definitions_and_policies(bed: &Bed) {
    bed.kubectl(&["delete", "crd", "configmonitors.copyrator.dev"], &Value::Null);
    bed.kubectl(&["delete", "validatingadmissionpolicybinding", "copyrator-copies"], &Value::Null);
    let exempt = r#"{"spec": {"failurePolicy": "Ignore"}}"#;
    let policy = ["validatingadmissionpolicy", "copyrator-author-honest"];
    bed.kubectl(&["patch", policy[0], policy[1], "--type=merge", "-p", exempt], &Value::Null);
    let said = found(bed, &["crd-missing", "policy-missing", "policy-changed"]);
    mend(bed, &said, "crd-missing");
    sound(bed, "definitions and policies are as they were");
}

fn a_foreign_hook_that_nobody_answers(bed: &Bed) {
    bed.admin
        .create(&json!({
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": VALIDATING,
            "metadata": { "name": "theirs" },
            "webhooks": [{
                "name": "theirs.example.com",
                "clientConfig": { "service": { "namespace": "default", "name": "nobody" } },
                "rules": [{ "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"], "operations": ["CREATE"] }],
                "admissionReviewVersions": ["v1"],
                "sideEffects": "None",
            }],
        }))
        .ok();
    let said = found(bed, &["foreign-fail-hook"]);
    assert_eq!(said.findings[0]["severity"], "error", "{:#?}", said.findings);
    mend(bed, &said, "foreign-fail-hook");
    sound(bed, "the hook lets writes pass");
    bed.admin.delete(VALIDATING, "", "theirs").ok();
}

/// Somebody else holds the Lease and goes on renewing it.
fn a_stolen_lease(bed: &Bed) {
    let steal = |at: usize| {
        // Only what changes the content is a renewal.
        let stolen = json!({ "spec": { "holderIdentity": "thief_1", "leaseTransitions": 100 + at } });
        bed.admin.merge("Lease", NAMESPACE, "copyrator-reconciler", &stolen).ok();
    };
    /// Lets the thief go, also when the test panics: nobody would end otherwise.
    struct Done<'d>(&'d AtomicBool);
    impl Drop for Done<'_> {
        fn drop(&mut self) {
            self.0.store(true, Ordering::SeqCst);
        }
    }
    let done = AtomicBool::new(false);
    steal(0);
    let said = thread::scope(|scope| {
        scope.spawn(|| {
            for at in 1.. {
                thread::sleep(Duration::from_millis(500));
                steal(at);
                if done.load(Ordering::SeqCst) {
                    break;
                }
            }
        });
        let _done = Done(&done);
        doctor(bed, None)
    });
    assert_eq!(said.ids(), BTreeSet::from(["lease-stolen"]), "{:#?} {}", said.findings, said.notes);
    mend(bed, &said, "lease-stolen");
    sound(bed, "one of ours leads again");
}

/// Left alone by annotation, so that what is wrong with them stays until that is taken off.
fn hooks_that_are_left_alone(bed: &Bed) {
    let hands_off = json!({ "metadata": { "annotations": { "copyrator.dev/hands-off": "incident" } } });
    bed.admin.merge(VALIDATING, "", "copyrator", &hands_off).ok();
    let mut hooks = bed.admin.get(VALIDATING, "", "copyrator").expect("the hooks")["webhooks"].clone();
    hooks[0]["clientConfig"]["caBundle"] = Value::Null;
    hooks[1]["objectSelector"] = json!({ "matchLabels": { "exempt": "yes" } });
    let broken = ["hooks-off", "hooks-missing", "hooks-drifted", "ca-not-trusted"];
    let said = eventually("doctor finds what is broken", || {
        // Again each time: a reconciler that had just looked at the hooks, before they were to be left alone, may have mended them.
        bed.admin.merge(VALIDATING, "", "copyrator", &json!({ "webhooks": hooks })).ok();
        bed.admin.delete(MUTATING, "", "copyrator");
        finds(bed, &broken)
    });
    broken.iter().for_each(|id| mend(bed, &said, id));
    sound(bed, "the hooks are as they were");
}

/// No reconciler repairs, and no webhook answers.
fn drift_while_nobody_leads(bed: &Bed, crew: Crew) {
    crew.reconciler.terminate().expect("it ends");
    crew.webhook.terminate().expect("it ends");
    let said = found(bed, &["lease-stale", "webhook-down"]);
    for finding in &said.findings {
        assert_eq!(finding["severity"], "error", "{finding}");
    }
    // What the commands restart are Deployments without pods here.
    mend(bed, &said, "lease-stale");
    mend(bed, &said, "webhook-down");
    let _crew = bed.man_with(&USUAL_TIMEOUTS);
    sound(bed, "webhook and reconciler are back");
}

#[test]
fn doctor_says_by_its_code_that_no_cluster_answers() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("control_plane");
    fs::create_dir_all(&folder).expect("the folder can be made");
    let kubeconfig = folder.join("nowhere.kubeconfig");
    let file = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "nowhere",
        "clusters": [{ "name": "nowhere", "cluster": { "server": "http://127.0.0.1:1" } }],
        "users": [{ "name": "nobody", "user": {} }],
        "contexts": [{ "name": "nowhere", "context": { "cluster": "nowhere", "user": "nobody" } }],
    });
    fs::write(&kubeconfig, file.to_string()).expect("it is written");
    let mut command = Command::new(env!("CARGO_BIN_EXE_copyrator"));
    let output = command.args(["doctor"]).env("KUBECONFIG", &kubeconfig).output().expect("it runs");
    assert_eq!(output.status.code(), Some(3), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(output.stdout.is_empty());
    let unknown = command.args(["--ignore", "no-such-id"]).output().expect("it runs");
    assert_eq!(unknown.status.code(), Some(2));
}
