//! What people and monitoring can see.

use serde_json::{Value, json};
use testbed::Role;

use crate::bed::objects::{config_map, ours};
use crate::bed::{Story, eventually, peaceful, rough};

#[test]
fn status_shows_what_is_wrong_first_and_exits_accordingly() {
    let story = Story::new(peaceful(), "overview");
    story.target("a");
    story.admin().create(&config_map(&story.home, "app", [("k", "v")])).ok();
    story.admin().create(&story.rule("ConfigMap", &["app"])).ok();
    story.until_condition("CopyratorRule", "rule", "Ready", "True", "AllCopied");
    let run = |more: &[&str]| {
        let arguments = [&["status", "-n", &story.home], more].concat();
        let output = story.bed.testbed.copyrator(&arguments).output().expect("copyrator runs");
        eprintln!("{arguments:?} said: {}", String::from_utf8_lossy(&output.stderr));
        (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned())
    };
    // The first status may be from before its target was seen.
    eventually("the copy is counted, and nothing is wrong", || match run(&[]) {
        (Some(0), text) if text.contains("rule") && text.contains("1 of 1 copies") => Ok(()),
        (code, text) => Err(format!("{code:?} {text}")),
    });

    let taken = story.bystander("taken");
    story.admin().create(&config_map(&story.called("taken"), "other", [("k", "x")])).ok();
    let spec = json!({ "source": { "kind": "ConfigMap", "names": ["app"] }, "targets": [{ "names": [taken] }], "copy": { "name": "other" } });
    story.admin().create(&ours("CopyratorRule", &story.home, "troubled", spec)).ok();
    story.until_condition("CopyratorRule", "troubled", "Degraded", "True", "Conflict");
    let (code, json_text) = run(&["-o", "json"]);
    let rows: Value = serde_json::from_str(&json_text).expect("status -o json is JSON");
    assert!(rows.to_string().contains("Conflict"), "{rows}");
    assert_eq!(code, Some(1), "{json_text}");
    let (_, text) = run(&[]);
    let place = |of: &str| text.find(of).unwrap_or_else(|| panic!("{of} is not shown: {text}"));
    assert!(place("troubled") < place("1 of 1 copies"), "worst first: {text}");
}

#[test]
fn a_user_who_may_not_list_everywhere_is_told_what_may_work() {
    let story = Story::new(peaceful(), "unseen");
    let mut command = story.bed.testbed.copyrator(&["status"]);
    let alice = story.bed.testbed.cluster().user("alice").expect("a user of the cluster");
    let output = command.env("KUBECONFIG", alice).output().expect("copyrator runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("cannot list copyratorrules in all namespaces"), "{said}");
    assert!(said.contains("copyrator status -n NAMESPACE") && !said.contains("Status {"), "{said}");
}

#[test]
fn an_unreachable_cluster_is_exit_code_three() {
    let story = Story::new(peaceful(), "unreachable");
    let mut command = story.bed.testbed.copyrator(&["status"]);
    let output = command.env("KUBECONFIG", "/nonexistent").output().expect("copyrator runs");
    assert_eq!(output.status.code(), Some(3), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(!output.stderr.is_empty() && output.stdout.is_empty());
}

#[test]
fn processes_tell_how_they_are_and_end_in_order() {
    let (bed, _turn) = rough();
    let crew = bed.man();
    let story = Story::new(bed, "measured");
    story.marker("write");
    for process in [&crew.webhook, &crew.reconciler] {
        assert_eq!(process.ask("/livez").expect("it answers").0, 200);
        assert_eq!(process.ask("/readyz").expect("it answers").0, 200);
        let (code, metrics) = process.ask("/metrics").expect("it answers");
        assert_eq!(code, 200);
        assert!(metrics.trim_end().ends_with("# EOF"), "no OpenMetrics: {metrics}");
        assert!(metrics.contains("\ncopyrator_"), "{metrics}");
    }
    let (_, metrics) = crew.reconciler.ask("/metrics").expect("it answers");
    let written = metrics.lines().find(|line| line.starts_with("copyrator_writes_total{"));
    assert!(written.is_some(), "no write is counted: {metrics}");
    for process in [crew.webhook, crew.reconciler] {
        let status = process.terminate().expect("it ends");
        assert!(status.success(), "{status}");
    }
}

/// kubectl finds Events by the uid of what they are about.
#[test]
fn describe_shows_what_we_did() {
    let story = Story::new(peaceful(), "described");
    story.target("a");
    story.admin().apply(&config_map(&story.home, "app", [("k", "1")])).ok();
    story.admin().create(&story.rule("ConfigMap", &["app"])).ok();
    story.until("ConfigMap", &story.called("a"), "app", [("k", "1")]);
    story.deploy("web", &["app"]);
    story.admin().create(&story.monitor(&["app"], json!(null))).ok();
    story.until_adopted("web");
    story.until_older_than_now();
    story.admin().apply(&config_map(&story.home, "app", [("k", "2")])).ok();
    story.admin().merge("Namespace", "", &story.called("a"), &json!({ "metadata": { "labels": null } })).ok();
    let mut greedy = story.rule("ConfigMap", &["app"]);
    greedy["metadata"]["name"] = "greedy".into();
    greedy["spec"]["conflictPolicy"] = "Overwrite".into();
    greedy["spec"]["targets"] = json!([{ "names": [story.bystander("b")] }]);
    story.admin().create(&config_map(&story.called("b"), "app", [("k", "theirs")])).ok();
    story.admin().create(&greedy).ok();
    let described_in = |namespace: &str, what: &str, event: &str| {
        eventually(&format!("{what} shows {event}"), || {
            let mut kubectl = story.bed.testbed.cluster().kubectl();
            let output = kubectl.args(["describe", what, "--namespace", namespace]).output();
            let text = String::from_utf8_lossy(&output.expect("kubectl runs").stdout).into_owned();
            if text.contains(event) { Ok(()) } else { Err(text) }
        });
    };
    described_in(&story.home, "copyratorrule/rule", "CopyRemoved");
    described_in(
        &story.home,
        "deployment/web",
        "restarted because ConfigMap app (key k) has changed (ConfigMonitor monitor)",
    );
    described_in(&story.home, "configmap/app", "WorkloadsRestarted");
    described_in(
        &story.home,
        "configmap/app",
        "Deployment described-home/web restarts for this change (key k)",
    );
    let slip = json!({ "metadata": { "annotations": { "copyrator.dev/restart": "configmaps/app" } } });
    story.admin().merge("Deployment", &story.home, "web", &slip).ok();
    described_in(
        &story.home,
        "deployment/web",
        "\"configmaps/app\" is not a valid value; write \"configmap/app\"",
    );
    described_in(&story.home, "copyratorrule/greedy", "ObjectTakenOver");
    described_in(&story.called("b"), "configmap/app", "ObjectTakenOver");
}

/// A process for one rule leaves every other one alone, and competes with nobody for the lease.
#[test]
fn a_process_for_one_rule_serves_that_rule_only() {
    let (bed, _turn) = rough();
    let crew = bed.man();
    let story = Story::new(bed, "single");
    let target = story.target("a");
    bed.admin.create(&config_map(testbed::NAMESPACE, "single", [("k", "v")])).ok();
    let mut only = story.rule("ConfigMap", &["single"]);
    only["metadata"] = json!({ "name": "single", "namespace": testbed::NAMESPACE });
    // While the one who serves everything is away, whose lease nobody has given up.
    crew.reconciler.kill();
    bed.admin.create(&config_map(&story.home, "other", [("k", "v")])).ok();
    bed.admin.create(&story.rule("ConfigMap", &["other"])).ok();
    bed.admin.create(&only).ok();
    let single = bed.testbed.operator(Role::Reconciler, 0, &["--rule-name", "single"]).expect("it starts");
    story.until("ConfigMap", &target, "single", [("k", "v")]);
    bed.admin.apply(&config_map(testbed::NAMESPACE, "single", [("k", "w")])).ok();
    story.until("ConfigMap", &target, "single", [("k", "w")]);
    assert!(bed.admin.get("ConfigMap", &target, "other").is_none(), "another rule was served");
    single.kill();
    bed.admin.delete("CopyratorRule", testbed::NAMESPACE, "single").ok();
    crew.webhook.kill();
}

/// Logs and Events show names and counts, never values.
/// (ClusterSecret logs and stores them; zalando/postgres-operator#2182.)
#[test]
fn no_secret_value_reaches_a_log_or_an_event() {
    let story = Story::new(peaceful(), "discreet");
    let target = story.target("a");
    let value = "correct-horse-battery-staple";
    story.admin().apply(&crate::bed::objects::secret(&story.home, "token", [("token", value)])).ok();
    story.admin().create(&story.rule("Secret", &["token"])).ok();
    story.until("Secret", &target, "token", [("token", value)]);
    story.admin().merge("Secret", &target, "token", &json!({ "stringData": { "token": "changed" } })).ok();
    story.until("Secret", &target, "token", [("token", value)]);
    eventually("the rule settles", || {
        let rule = story.admin().get("CopyratorRule", &story.home, "rule").ok_or("it is gone")?;
        if rule["status"]["current"] == 1 { Ok(()) } else { Err(rule["status"].to_string()) }
    });
    let encoded = "Y29ycmVjdC1ob3JzZS1iYXR0ZXJ5LXN0YXBsZQ";
    for file in std::fs::read_dir(story.bed.testbed.logs()).expect("there are logs").flatten() {
        let text = std::fs::read_to_string(file.path()).expect("a log is readable");
        assert!(!text.contains(value) && !text.contains(encoded), "{} has the value", file.path().display());
    }
    let events = Value::from(story.admin().list("Event", "", "")).to_string();
    assert!(!events.contains(value) && !events.contains(encoded));
}
