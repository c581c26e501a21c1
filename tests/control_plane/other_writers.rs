//! Others write the workloads that we restart: what we write survives a user who applies a manifest, and one who takes
//! it away pays with one rollout at most. Nobody fights.

use std::io::Write as _;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::bed::objects::{config_map, deployment, gated, label};
use crate::bed::{Story, chart, eventually, peaceful};

/// Runs a command that replaces an object whole: it reads, and then writes what nobody may have written meanwhile. Where
/// somebody has, it is done again, as people do.
#[track_caller]
pub fn replaced(mut command: impl FnMut() -> Command, input: &str) -> String {
    eventually("nobody writes between reading and replacing", || {
        let mut command = command();
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("the command starts");
        // A command that takes no input ends without reading it.
        drop(child.stdin.take().expect("a pipe").write_all(input.as_bytes()));
        let output = child.wait_with_output().expect("it ends");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        if said.contains("the object has been modified") {
            return Err(said);
        }
        assert!(output.status.success(), "{command:?}: {said}");
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    })
}

/// Where a Deployment stands: how often it has rolled out, what we wrote of its content, and the pod that runs.
fn standing(story: &Story<'_>, name: &str) -> (usize, Option<String>, String) {
    let running = story.until_running(name);
    (story.rollouts(name), story.stamp(name), running)
}

/// A manifest of a Deployment that takes its environment from a ConfigMap.
fn manifest(story: &Story<'_>, name: &str, config: &str) -> Value {
    let references = json!({ "envFrom": [{ "configMapRef": { "name": config } }] });
    deployment(&story.home, name, references)
}

pub fn change(story: &Story<'_>, config: &str, value: &str) {
    story.admin().apply(&config_map(&story.home, config, [("k", value)])).ok();
}

/// Waits until the operator has seen everything, and a clock of its own could have rung.
fn until_silent(story: &Story<'_>, part: &str) {
    story.until_later(1);
    story.marker(part);
}

/// Waits until a Deployment has a new pod, which is not let start, beside its old one.
#[track_caller]
pub fn until_half_way(story: &Story<'_>, name: &str) {
    eventually(&format!("{name} is half-way"), || {
        let pods = story.pods(name);
        let held = pods.iter().filter(|pod| pod["spec"]["schedulingGates"].is_array()).count();
        if (pods.len(), held) == (2, 1) { Ok(()) } else { Err(format!("{} pods, {held} held", pods.len())) }
    });
}

/// An object without what every write changes.
fn settled(mut object: Value) -> Value {
    for of_each_write in ["managedFields", "resourceVersion"] {
        object["metadata"].as_object_mut().expect("metadata").remove(of_each_write);
    }
    object["status"].take();
    object
}

/// Client-side, server-side, by Helm, and in a loop as GitOps tools do: no rollout on top, and no drift (Reloader#333: the
/// tool removed the annotation, which was a second rollout).
#[test]
fn our_writes_survive_an_apply_of_the_users_manifest() {
    let story = Story::new(peaceful(), "reapplied");
    let (bed, home) = (story.bed, story.home.as_str());
    let names = ["client", "server", "released"];
    change(&story, "app", "1");
    let [by_client, by_server, mut released] = names.map(|name| manifest(&story, name, "app"));
    released["spec"]["template"]["metadata"]["annotations"]["version"] = "{{ .Values.version }}".into();
    let chart = chart("reapplied", &released.to_string());
    let chart = chart.to_str().expect("a path in words");
    let with_client = || bed.kubectl(&["apply", "--filename", "-"], &by_client);
    let with_server = || {
        let how =
            ["apply", "--server-side", "--field-manager", "gitops", "--force-conflicts", "--filename", "-"];
        bed.kubectl(&how, &by_server)
    };
    let with_helm = |version: &str| {
        let version = format!("version=v{version}");
        bed.helm(&["upgrade", "--install", "web", chart, "--namespace", home, "--set", &version])
    };
    with_client();
    with_server();
    with_helm("1");
    story.admin().create(&story.monitor(&["app"], json!(null))).ok();
    let before = names.map(|name| {
        story.until_adopted(name);
        story.until_running(name)
    });
    story.until_older_than_now();
    change(&story, "app", "2");
    names.iter().zip(&before).for_each(|(name, before)| drop(story.until_restarted(name, before)));
    let restarted = names.map(|name| standing(&story, name));
    assert!(restarted.iter().all(|(rollouts, stamp, _)| *rollouts == 2 && stamp.is_some()), "{restarted:?}");

    for _ in 0..3 {
        with_client();
        with_server();
        with_helm("1");
        story.until_later(0);
    }
    until_silent(&story, "again");
    assert_eq!(names.map(|name| standing(&story, name)), restarted, "somebody rolled out for nothing");
    // No drift: each tool would change nothing, and nobody owns what is theirs.
    bed.kubectl(&["diff", "--filename", "-"], &by_client);
    bed.kubectl(&["diff", "--server-side", "--field-manager", "gitops", "--filename", "-"], &by_server);
    let live = story.admin().get("Deployment", home, "server").expect("it is there");
    let dry = story.admin().try_apply_as("gitops", &by_server).ok();
    assert_eq!(settled(dry), settled(live));

    // A new version rolls out once, and keeps what we wrote.
    with_helm("2");
    story.until_restarted("released", &restarted[2].2);
    until_silent(&story, "upgraded");
    let (rollouts, stamp, running) = standing(&story, "released");
    assert_eq!((rollouts, &stamp), (3, &restarted[2].1));
    // Nothing of this has put us to sleep.
    story.until_older_than_now();
    change(&story, "app", "3");
    story.until_restarted("released", &running);
    story.until_restarted("client", &restarted[0].2);
    story.until_restarted("server", &restarted[1].2);
    assert_eq!(names.map(|name| story.rollouts(name)), [3, 3, 4]);
}

/// A user who replaces the workload takes our annotation away, which is a rollout of that user. We do not put it back.
#[test]
fn a_replaced_workload_rolls_once_and_runs_the_current_content() {
    let story = Story::new(peaceful(), "replaced");
    let home = story.home.as_str();
    change(&story, "app", "1");
    let by_kubectl = manifest(&story, "by-kubectl", "app");
    let chart = chart("replaced", &manifest(&story, "by-helm", "app").to_string());
    let chart = chart.to_str().expect("a path in words");
    story.admin().create(&by_kubectl).ok();
    story.bed.helm(&["install", "web", chart, "--namespace", home]);
    story.admin().create(&story.monitor(&["app"], json!(null))).ok();
    let names = ["by-kubectl", "by-helm"];
    let before = names.map(|name| {
        story.until_adopted(name);
        story.until_running(name)
    });
    story.until_older_than_now();
    change(&story, "app", "2");
    let restarted = [0, 1].map(|of| story.until_restarted(names[of], &before[of]));
    assert!(names.iter().all(|name| story.stamp(name).is_some()));

    let cluster = story.bed.testbed.cluster();
    let kubectl = || {
        let mut kubectl = cluster.kubectl();
        kubectl.args(["replace", "--filename", "-"]);
        kubectl
    };
    let helm = || {
        let mut helm = cluster.helm().expect("helm is there");
        helm.args(["upgrade", "web", chart, "--namespace", home, "--force"]);
        helm
    };
    let replace = || {
        replaced(kubectl, &by_kubectl.to_string());
        replaced(helm, "");
    };
    replace();
    let replaced = [0, 1].map(|of| story.until_restarted(names[of], &restarted[of]));
    names.iter().for_each(|name| drop(story.until_adopted(name)));
    // Again and again, as a GitOps tool that replaces: nothing is left to take but the label.
    for _ in 0..2 {
        replace();
        names.iter().for_each(|name| drop(story.until_adopted(name)));
    }
    until_silent(&story, "again");
    assert_eq!(names.map(|name| standing(&story, name)), [0, 1].map(|of| (3, None, replaced[of].clone())));
    story.until_older_than_now();
    change(&story, "app", "3");
    names.iter().zip(&replaced).for_each(|(name, before)| drop(story.until_restarted(name, before)));
    assert_eq!(names.map(|name| story.rollouts(name)), [4, 4]);
}

/// A GitOps tool that replaces writes the configuration and, a moment later, the workload without our label. Adopted anew,
/// it would be left with pods that run the old content.
#[test]
fn a_change_that_waits_outlives_a_replacement_of_the_workload() {
    let story = Story::new(peaceful(), "replaced-due");
    change(&story, "app", "1");
    let never = manifest(&story, "never-restarted", "app");
    let half_way = gated(manifest(&story, "half-way", "app"));
    story.admin().create(&never).ok();
    story.admin().create(&half_way).ok();
    story.lift("half-way");
    let mut monitor = story.monitor(&["app"], json!(null));
    monitor["spec"]["pace"]["quietPeriod"] = "1h".into();
    story.admin().create(&monitor).ok();
    let names = ["never-restarted", "half-way"];
    let before = names.map(|name| {
        story.until_adopted(name);
        story.until_running(name)
    });
    story.until_older_than_now();
    change(&story, "app", "2");
    let replaced = story.admin().replace(&never).ok();
    assert_eq!(label(&replaced, "copyrator.dev/applied"), None, "not what a replacement does");
    story.marker("replaced");
    story.end_quiet_period();
    story.until_restarted("never-restarted", &before[0]);
    // The new pod does not start, and so the old one stays, and is kept by the replacement.
    until_half_way(&story, "half-way");
    story.admin().replace(&half_way).ok();
    eventually("half-way restarts again", || match story.rollouts("half-way") {
        4 => Ok(()),
        rollouts => Err(format!("{rollouts} rollouts")),
    });
    until_half_way(&story, "half-way");
    story.lift("half-way");
    story.until_restarted("half-way", &before[1]);
    until_silent(&story, "then");
    assert_eq!(names.map(|name| story.rollouts(name)), [2, 4]);
    assert_eq!(story.stamp("half-way"), story.stamp("never-restarted"));
}

/// A rollback is somebody's decision: it costs the rollout that it is, and is not undone by us (kubernetes#22368).
#[test]
fn a_rollback_rolls_once_and_is_respected() {
    let story = Story::new(peaceful(), "rolled-back");
    change(&story, "app", "1");
    let done = manifest(&story, "done", "app");
    let half_way = gated(manifest(&story, "half-way", "app"));
    for workload in [&done, &half_way] {
        story.admin().create(workload).ok();
    }
    story.lift("half-way");
    story.admin().create(&story.monitor(&["app"], json!(null))).ok();
    let names = ["done", "half-way"];
    let before = names.map(|name| {
        story.until_adopted(name);
        story.until_running(name)
    });
    story.until_older_than_now();
    change(&story, "app", "2");
    let restarted = story.until_restarted("done", &before[0]);
    until_half_way(&story, "half-way");
    for name in names {
        let workload = format!("deployment/{name}");
        story.bed.kubectl(&["rollout", "undo", &workload, "--namespace", &story.home], &json!(null));
    }
    let undone = story.until_restarted("done", &restarted);
    assert_eq!(story.until_running("half-way"), before[1], "the pods that the user wanted to keep");
    until_silent(&story, "then");
    assert_eq!(standing(&story, "done"), (3, None, undone.clone()), "the new pod runs the current content");
    assert_eq!(standing(&story, "half-way"), (3, None, before[1].clone()));

    // A change that waits when somebody rolls back comes with the pods of the rollback.
    story.until_older_than_now();
    change(&story, "app", "3");
    let restarted = story.until_restarted("done", &undone);
    until_half_way(&story, "half-way");
    story.lift("half-way");
    let half_way = story.until_restarted("half-way", &before[1]);
    until_silent(&story, "changed");
    assert_eq!((story.until_running("done"), story.rollouts("done")), (restarted, 4));
    assert_eq!((story.until_running("half-way"), story.rollouts("half-way")), (half_way, 4));
}
