//! This version under the definitions of the next one: while an upgrade is under way, and after one was taken back that
//! left the definitions. What it does not understand it leaves alone; a rule without the field that restrains it would do
//! what nobody asked for.

use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};
use testbed::{NAMESPACE, RELEASE};

use super::estate::Estate;
use super::next::next_chart;
use super::{Before, CHART};
use crate::bed::objects::{condition, uid};
use crate::bed::{Bed, Crew, USUAL_TIMEOUTS, eventually, private, same};

const BOTH: &str = "validatingwebhookconfiguration,mutatingwebhookconfiguration";

#[test]
fn definitions_newer_than_this_version_are_served_and_what_it_does_not_know_is_left_alone() {
    let bed = private("newer-definitions");
    let helm = |arguments: &[&str]| {
        let mut command = bed.testbed.cluster().helm4().expect("Helm 4 is there");
        let output = command.args(arguments).args(["--namespace", NAMESPACE]).output().expect("it starts");
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    };
    // So that Helm 4 upgrades what it has installed: it applies on the server's side, where owners conflict.
    bed.helm(&["uninstall", RELEASE, "--namespace", NAMESPACE]);
    helm(&["install", RELEASE, CHART, "--set", "webhook.replicas=0,reconciler.replicas=0"]);
    bed.testbed.renew_accounts().expect("the accounts are there");
    let crew = bed.man_with(&USUAL_TIMEOUTS);
    bed.until_stamped();
    let estate = Estate::found(&bed, "half-understood");

    let before = Before::of(&estate);
    let next = next_chart();
    helm(&["upgrade", RELEASE, next.to_str().expect("a path"), "--reset-then-reuse-values"]);
    until_beta_reads_the_same(&bed);
    before.is_unchanged(&estate, "under-newer");
    estate.lives("5");
    until_ready_without_a_remark(&crew);
    unknown_is_refused_in_either_version(&bed, &estate);

    leave_to_ourselves(&bed);
    nothing_is_done_for_what_is_half_understood(&bed, &estate);

    // The definitions go back, too, and take the field with them.
    helm(&["rollback", RELEASE, "1"]);
    estate.story.until_condition("CopyratorRule", "app", "Ready", "True", "AllCopied");
    estate.story.until("ConfigMap", &estate.blue, "app", [("k", "6")]);
    let rule = bed.admin.get("CopyratorRule", &estate.story.home, "app").expect("the rule");
    assert!(rule["spec"]["later"].is_null(), "{rule}");
    // A word is not taken back by a definition: it stays what nobody understands.
    estate.story.until_condition("CopyratorRule", "tls", "Ready", "False", "UnsupportedField");
    until_ready_without_a_remark(&crew);
}

/// The same objects, by either version of the API.
fn until_beta_reads_the_same(bed: &Bed) {
    for plural in ["copyratorrules", "configmonitors", "configpolicies"] {
        let seen = |version: &str| -> Result<Vec<(String, Value)>, String> {
            let resource = format!("{plural}.{version}.copyrator.dev");
            let mut kubectl = bed.testbed.cluster().kubectl();
            let output = kubectl.args(["get", &resource, "--all-namespaces", "--output=json"]).output();
            let output = output.expect("kubectl runs");
            let list: Value = serde_json::from_slice(&output.stdout)
                .map_err(|_| String::from_utf8_lossy(&output.stderr).into_owned())?;
            let items = list["items"].as_array().cloned().unwrap_or_default();
            Ok(items.iter().map(|one| (uid(one), one["spec"].clone())).collect())
        };
        eventually(&format!("{plural} are served as v1beta1"), || {
            let (old, new) = (seen("v1alpha1")?, seen("v1beta1")?);
            assert!(!old.is_empty(), "no {plural}");
            same(new, old)
        });
    }
}

fn until_ready_without_a_remark(crew: &Crew) {
    for process in [&crew.webhook, &crew.reconciler] {
        eventually("all is well", || {
            let (code, said) = process.ask("/readyz").map_err(|error| error.to_string())?;
            if (code, said.as_str()) == (200, "ready\n") { Ok(()) } else { Err(format!("{code} {said}")) }
        });
    }
}

fn unknown_is_refused_in_either_version(bed: &Bed, estate: &Estate<'_>) {
    for version in ["v1alpha1", "v1beta1"] {
        let mut rule = estate.story.rule("ConfigMap", &["nothing"]);
        rule["apiVersion"] = format!("copyrator.dev/{version}").into();
        rule["metadata"]["name"] = version.into();
        // A version that has just come is not known everywhere in the API server at once.
        let create = |rule: &Value| {
            let output = fed(bed.testbed.cluster().kubectl().args(["create", "--filename=-"]), rule);
            let said = String::from_utf8_lossy(&output.stderr);
            let said: String = said.lines().filter(|line| !line.starts_with("Warning: ")).collect();
            if said.contains("There can be a delay") { Err(said) } else { Ok(said) }
        };
        assert_eq!(eventually("the rule can be written", || create(&rule)), "", "{version}");
        estate.story.until_condition("CopyratorRule", version, "Ready", "False", "NoSource");

        rule["metadata"]["name"] = "refused".into();
        rule["spec"]["later"] = "weekdays".into();
        let said = eventually("a rule can be refused", || create(&rule));
        assert!(said.contains("spec.later: unknown field in this version of the kind"), "{version}: {said}");
    }
}

/// As after an image that was set back by hand: the next version's definitions and objects, and no webhook to refuse them.
fn leave_to_ourselves(bed: &Bed) {
    let none = Value::Null;
    bed.kubectl(&["annotate", BOTH, RELEASE, "copyrator.dev/hands-off=test"], &none);
    bed.kubectl(&["patch", BOTH, RELEASE, "--type=merge", "--patch", r#"{"webhooks":[]}"#], &none);
}

fn nothing_is_done_for_what_is_half_understood(bed: &Bed, estate: &Estate<'_>) {
    let home = &estate.story.home;
    let policy = home.trim_end_matches("-home");
    let later = json!({ "spec": { "later": "weekdays" } });
    let merge = json!({ "spec": { "conflictPolicy": "Merge" } });
    for (kind, namespace, name, change) in [
        ("CopyratorRule", &**home, "app", &later),
        ("CopyratorRule", home, "tls", &merge),
        ("ConfigMonitor", home, "web", &later),
        ("ConfigPolicy", "", policy, &later),
    ] {
        // The API server may still call a webhook that is not there any more.
        eventually("nobody refuses it", || {
            let answer = bed.admin.merge(kind, namespace, name, change);
            if answer.code < 300 { Ok(()) } else { Err(answer.body.to_string()) }
        });
        for (part, status) in [("Ready", "False"), ("Stalled", "True")] {
            eventually(&format!("{kind} {name} is {part}={status}"), || {
                let object = bed.admin.get(kind, namespace, name).ok_or("it is gone")?;
                same(condition(&object, part), Some((status.into(), "UnsupportedField".into())))
            });
        }
    }
    let pods = estate.story.until_running("web");
    let green = estate.story.target("6");
    for name in ["app", "web"] {
        estate.change("ConfigMap", name, "6");
    }
    estate.change("Secret", "tls", "6");
    // What comes after it has come, of copies and of restarts.
    estate.story.marker("left-alone");
    estate.restarts(["marked"], "6");
    for (kind, name) in [("ConfigMap", "app"), ("Secret", "tls")] {
        estate.story.until(kind, &estate.blue, name, [("k", "5")]);
        assert!(bed.admin.get(kind, &green, name).is_none(), "{name} was copied to {green}");
    }
    assert_eq!(estate.story.until_running("web"), pods, "it was restarted");

    // A user who goes back asks this first, of the version before; kubectl itself would take the newest version.
    let kinds = ["copyratorrules", "configmonitors", "configpolicies", "copyratortemplates"];
    let kinds = kinds.map(|plural| format!("{plural}.v1alpha1.copyrator.dev")).join(",");
    let all = bed.kubectl(&["get", &kinds, "--all-namespaces", "--output=json"], &Value::Null);
    let all: Value = serde_json::from_str(&all).expect("JSON");
    let checked = fed(&mut bed.testbed.copyrator(&["check", "-f", "-"]), &all);
    let said = String::from_utf8_lossy(&checked.stdout).into_owned();
    assert_eq!(checked.status.code(), Some(1), "{said}");
    for part in ["CopyratorRule", "ConfigMonitor", "ConfigPolicy", "spec.later: unknown field", "Merge"] {
        assert!(said.contains(part), "{part:?} is missing in: {said}");
    }
    let doctor = bed.testbed.copyrator(&["doctor", "-o", "json"]).output().expect("it runs");
    let told: Value = serde_json::from_slice(&doctor.stdout).expect("JSON");
    let found = told["findings"].as_array().expect("findings");
    let of_definitions = found.iter().filter(|one| one["id"] == "crd-old" && one["severity"] == "warning");
    assert_eq!(of_definitions.count(), 3, "{told}");
    assert!(
        found.iter().all(|one| !["unknown", "hooks-drifted"].iter().any(|id| one["id"] == *id)),
        "{told}"
    );
    let status = bed.testbed.copyrator(&["status", "-n", home]).output().expect("it runs");
    let said = String::from_utf8_lossy(&status.stdout).into_owned();
    assert!(status.status.code() == Some(1) && said.contains("UnsupportedField"), "{status:?}");
}

/// What a command says that is given this to read.
fn fed(command: &mut Command, input: &Value) -> Output {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("it starts");
    let mut stdin = child.stdin.take().expect("a pipe");
    // Who refuses may do so before it has read all.
    drop(std::io::Write::write_all(&mut stdin, input.to_string().as_bytes()));
    drop(stdin);
    child.wait_with_output().expect("it ends")
}
