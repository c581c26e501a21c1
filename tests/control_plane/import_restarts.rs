//! From a tool that restarts to us on a live cluster: a change is followed by one restart, by either of them, and handing
//! over by none.

use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use crate::bed::objects::{annotation, binding, config_map, deployment, label};
use crate::bed::{Story, eventually, peaceful};

const RELOADER: &str = "reloader.stakater.com/auto";
const WAVE: &str = "wave.pusher.com/update-on-config-change";

/// What `copyrator import` prints, and its exit code.
fn import(story: &Story<'_>, file: Option<&Path>) -> (Vec<Value>, String, Option<i32>) {
    import_as(story, story.bed.testbed.cluster().admin_kubeconfig(), file)
}

fn import_as(story: &Story<'_>, kubeconfig: &Path, file: Option<&Path>) -> (Vec<Value>, String, Option<i32>) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_copyrator"));
    command.args(["import", "-n", &story.home]);
    match file {
        Some(file) => command.arg("-f").arg(file),
        None => command.arg("--kubeconfig").arg(kubeconfig),
    };
    let output = command.output().expect("copyrator runs");
    let (out, err) = (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
    let documents: Vec<Value> =
        serde_saphyr::from_multiple(&out).unwrap_or_else(|error| panic!("{error}: {out}{err}"));
    let made = documents.into_iter().filter(|one| !one.is_null()).collect();
    (made, format!("{out}{err}"), output.status.code())
}

fn unsuspend(story: &Story<'_>, monitors: &[Value]) {
    for monitor in monitors {
        let name = monitor["metadata"]["name"].as_str().expect("a monitor has a name");
        let go = json!({ "spec": { "suspend": false } });
        story.admin().merge("ConfigMonitor", &story.home, name, &go).ok();
    }
}

fn applied(story: &Story<'_>, name: &str) -> Option<String> {
    let deployment = story.admin().get("Deployment", &story.home, name).expect("it stays");
    label(&deployment, "copyrator.dev/applied").map(str::to_owned)
}

/// Waits until the adoption of a Deployment is so long ago that a change from now on surely came after it: for one that
/// came in the same moment it is right to restart once too often.
fn until_long_adopted(story: &Story<'_>, name: &str) {
    let deployment = story.admin().get("Deployment", &story.home, name).expect("it is there");
    let entries = deployment["metadata"]["managedFields"].as_array().expect("it has some");
    let ours = entries.iter().find(|entry| entry["manager"] == "copyrator-adopt").expect("it is adopted");
    let time = |value: &Value| value.as_str().unwrap_or_default().parse::<jiff::Timestamp>().expect("a time");
    let adopted = time(&ours["time"]).as_second();
    eventually("the adoption is some seconds ago", || {
        let probe = story.admin().try_create(&config_map("default", "clock", [])).ok();
        let now = time(&probe["metadata"]["creationTimestamp"]).as_second();
        if now > adopted + 2 { Ok(()) } else { Err(format!("{} s", now - adopted)) }
    });
}

/// Reloader#814, #640, #481 (missed at a change of hands), #166, #216, #279 (restarted by it).
#[test]
fn what_another_tool_restarted_is_taken_over_without_a_restart_too_many_or_too_few() {
    let story = Story::new(peaceful(), "reloaded");
    let admin = story.admin();
    admin.apply(&config_map(&story.home, "app", [("k", "1")])).ok();
    let references = json!({ "envFrom": [{ "configMapRef": { "name": "app" } }] });
    for (name, asks) in [("web", RELOADER), ("api", WAVE)] {
        let mut workload = deployment(&story.home, name, references.clone());
        workload["metadata"]["annotations"] = json!({ asks: "true" });
        admin.create(&workload).ok();
    }
    let before = ["web", "api"].map(|name| story.until_running(name));

    let (monitors, text, code) = import(&story, None);
    assert_eq!((monitors.len(), code), (2, Some(0)), "{text}");
    assert!(text.contains("2 monitors, suspended") && text.contains("Unsuspend them while"), "{text}");
    for monitor in &monitors {
        admin.create(monitor).ok();
    }
    story.marker("suspended");
    assert_eq!(["web", "api"].map(|name| applied(&story, name)), [None, None], "a suspended monitor acted");

    // Adopted, while the other tool runs: nobody restarts.
    unsuspend(&story, &monitors);
    let adopted = ["web", "api"].map(|name| story.until_adopted(name));
    assert_eq!(["web", "api"].map(|name| story.until_running(name)), before, "adoption restarted");

    // A change that both see: Reloader writes at once, and its rollout is the only one.
    ["web", "api"].iter().for_each(|name| until_long_adopted(&story, name));
    let mut container = admin.get("Deployment", &story.home, "web").expect("it is there")["spec"]["template"]
        ["spec"]["containers"][0]
        .take();
    container["env"] = json!([{ "name": "STAKATER_APP_CONFIGMAP", "value": "c0ffee" }]);
    let reload = json!({ "spec": { "template": { "spec": { "containers": [container] } } } });
    admin.apply(&config_map(&story.home, "app", [("k", "2")])).ok();
    admin.merge("Deployment", &story.home, "web", &reload).ok();
    let web = story.until_restarted("web", &before[0]);
    // wave is gone already: its workload is Copyrator's.
    let api = story.until_restarted("api", &before[1]);
    for (name, adopted) in ["web", "api"].iter().zip(&adopted) {
        eventually(&format!("{name} is known to run the new content"), || match applied(&story, name) {
            Some(now) if now != *adopted => Ok(()),
            now => Err(format!("{now:?}")),
        });
    }
    assert_eq!((story.until_running("web"), story.until_running("api")), (web.clone(), api.clone()));
    assert_eq!(["web", "api"].map(|name| story.revisions(name)), [2, 2], "one rollout for one change");
    let template =
        admin.get("Deployment", &story.home, "web").expect("it is there")["spec"]["template"].take();
    assert_eq!(annotation(&template, "copyrator.dev/restarted-for"), None, "Reloader's rollout was enough");

    // Reloader is gone, its annotation too: the next change is ours, once.
    let gone = json!({ "metadata": { "annotations": { RELOADER: null } } });
    admin.merge("Deployment", &story.home, "web", &gone).ok();
    story.marker("taken-off");
    assert_eq!(story.until_running("web"), web, "taking the annotation off restarted");
    story.until_older_than_now();
    admin.apply(&config_map(&story.home, "app", [("k", "3")])).ok();
    story.until_restarted("web", &web);
    assert_eq!(story.revisions("web"), 3, "one restart for one change");
}

/// The first Copyrator's monitor, as its own example writes it.
#[test]
fn a_monitor_of_the_first_copyrator_goes_on_deleting_the_pods_of_its_label() {
    let story = Story::new(peaceful(), "seeded");
    let admin = story.admin();
    admin.apply(&config_map(&story.home, "flaskapp-config", [("config.cfg", "MSG=1")])).ok();
    story.deploy("frontend", &["flaskapp-config"]);
    story.deploy("other", &["flaskapp-config"]);
    let (first, other) = (story.until_running("frontend"), story.until_running("other"));
    let file = tempfile::NamedTempFile::with_suffix(".yaml").expect("a file");
    let seed = json!({
        "apiVersion": "magalix.com/v1", "kind": "ConfigMonitor",
        "metadata": { "name": "flaskapp-config-monitor" },
        "spec": { "configmap": "flaskapp-config", "podSelector": { "app": "frontend" } },
    });
    std::fs::write(file.path(), seed.to_string()).expect("it is written");
    let (monitors, text, code) = import(&story, Some(file.path()));
    assert_eq!((monitors.len(), code), (1, Some(0)), "{text}");
    admin.create(&monitors[0]).ok();
    unsuspend(&story, &monitors);
    story.until_adopted("frontend");
    assert_eq!(story.until_running("frontend"), first, "adoption restarted");

    story.until_older_than_now();
    admin.apply(&config_map(&story.home, "flaskapp-config", [("config.cfg", "MSG=2")])).ok();
    story.until_restarted("frontend", &first);
    assert_eq!(story.revisions("frontend"), 1, "its pod was to be deleted, not rolled out");
    assert_eq!(story.until_running("other"), other, "what has another label restarted");
}

/// Workloads that may not be listed are said to be missing, and what may be is imported all the same.
#[test]
fn an_import_that_may_not_see_workloads_names_them() {
    let story = Story::new(peaceful(), "import-blind");
    let admin = story.admin();
    let annotations = json!({ "kubed.appscode.com/sync": "story=import-blind" });
    let mut source = config_map(&story.home, "app", [("k", "1")]);
    source["metadata"]["annotations"] = annotations;
    admin.create(&source).ok();
    let role = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role",
        "metadata": { "namespace": story.home, "name": "reader" },
        "rules": [{ "apiGroups": [""], "resources": ["configmaps", "secrets"], "verbs": ["list"] }],
    });
    admin.create(&role).ok();
    let mut bound = binding(&story.home, "alice", "reader");
    bound["roleRef"]["kind"] = "Role".into();
    admin.create(&bound).ok();
    let alice = story.bed.testbed.cluster().user("alice").expect("a user of the cluster");
    let (made, text) = eventually("her rights are known", || {
        let (made, text, code) = import_as(&story, &alice, None);
        assert_eq!(code, Some(1), "{text}");
        if made.is_empty() { Err(text) } else { Ok((made, text)) }
    });
    assert_eq!((made.len(), &made[0]["kind"]), (1, &json!("CopyratorRule")), "{text}");
    for kind in ["Deployment", "StatefulSet", "DaemonSet"] {
        assert!(text.contains(&format!("{kind} * (Reloader)")), "{kind} is not named: {text}");
    }
}
