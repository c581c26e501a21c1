//! How old pods are replaced, by kind and strategy: docs/restarting.md on a real control plane.

mod pod_log;

use std::collections::BTreeMap;

use jiff::SignedDuration;
use serde_json::{Value, json};

use crate::bed::objects::{annotation, config_map, data, deployment, label, ours, pod, uid};
use crate::bed::{Story, eventually, peaceful, rough, same};
use pod_log::{Request, evictions, pod_writes, until_looked_again, until_looked_again_or_next};

const APPLIED: &str = "copyrator.dev/applied";
const RESTARTED_FOR: &str = "copyrator.dev/restarted-for";

/// Reloader#294, wave#121: under OnDelete nothing happened at all.
#[test]
fn on_delete_is_stamped_and_then_evicted_from_the_highest_ordinal() {
    let story = Story::new(peaceful(), "on-delete");
    let before = adopted(&story, "StatefulSet", 3, json!({ "type": "OnDelete" }));
    // What is made from now on finds no node at first.
    let nowhere = json!({ "spec": { "template": { "spec": { "nodeSelector": { "on-delete": "go" } } } } });
    story.admin().merge("StatefulSet", &story.home, "web", &nowhere).ok();
    // Two changes that it sees at once would be one revision.
    eventually("its controller has seen that", || {
        let set = story.admin().get("StatefulSet", &story.home, "web").ok_or("it is gone")?;
        same(&set["status"]["observedGeneration"], &set["metadata"]["generation"])
    });
    change(&story);
    until_other(&story, "web-2", &before);
    until_looked_again(&story);
    let meanwhile = uids(&story);
    assert_eq!((&meanwhile["web-0"], &meanwhile["web-1"]), (&before["web-0"], &before["web-1"]));
    let set = story.admin().get("StatefulSet", &story.home, "web").expect("it is there");
    assert!(annotation(&set["spec"]["template"], RESTARTED_FOR).is_some(), "{set}");
    assert_eq!(parts(&set), 4, "it is written on it that it goes on");

    let go = json!({ "metadata": { "labels": { "on-delete": "go" } } });
    story.admin().merge("Node", "", "node-0", &go).ok();
    until_all_replaced(&story, &before);
    until_recorded(&story, "StatefulSet");
    let evictions = evictions(&story);
    let names: Vec<&str> = evictions.iter().map(|it| it.name.as_str()).collect();
    assert_eq!(names, ["web-2", "web-1", "web-0"]);
    let pods = story.pods("web");
    for eviction in &evictions[1..] {
        let (_, number) = eviction.name.split_once('-').unwrap();
        let former = format!("web-{}", number.parse::<u8>().unwrap() + 1);
        let former = pods.iter().find(|pod| pod["metadata"]["name"] == *former).expect("it is there");
        let since = ready_since(former).expect("it is ready");
        assert!(since[..19] <= eviction.at.0[..19], "{} went before {former} was ready", eviction.name);
    }
    // The first one, the user's and ours.
    assert_eq!(story.admin().list("ControllerRevision", &story.home, "").len(), 3);
}

/// Reloader#294: the same of a DaemonSet.
#[test]
fn a_daemon_set_under_on_delete_is_stamped_and_evicted() {
    let story = Story::new(peaceful(), "on-delete-daemons");
    let before = adopted(&story, "DaemonSet", 2, json!({ "type": "OnDelete" }));
    change(&story);
    until_all_replaced(&story, &before);
    until_recorded(&story, "DaemonSet");
    let mut evicted: Vec<String> = evictions(&story).into_iter().map(|it| it.name).collect();
    evicted.sort();
    assert_eq!(evicted, before.keys().cloned().collect::<Vec<_>>());
    assert_eq!(story.admin().list("ControllerRevision", &story.home, "").len(), 2);
}

#[test]
fn a_daemon_set_is_rolled_by_its_controller() {
    let story = Story::new(peaceful(), "rolling-daemons");
    let before = adopted(&story, "DaemonSet", 2, json!({ "type": "RollingUpdate" }));
    change(&story);
    until_all_replaced(&story, &before);
    story.marker("then");
    assert_eq!(story.admin().list("ControllerRevision", &story.home, "").len(), 2, "one rollout");
    assert!(pod_writes(&story).is_empty(), "its controller replaces them");
}

#[test]
fn pods_below_a_partition_are_whose_it_is() {
    let story = Story::new(peaceful(), "partitioned");
    let partition = |number: u8| json!({ "type": "RollingUpdate", "rollingUpdate": { "partition": number } });
    let before = adopted(&story, "StatefulSet", 3, partition(2));
    change(&story);
    let problem = || -> Value {
        let monitor = story.admin().get("ConfigMonitor", &story.home, "monitor").expect("it is there");
        monitor["status"]["problems"][0].clone()
    };
    eventually("the status tells of those that are held", || {
        let problem = problem();
        let message = problem["message"].as_str().unwrap_or_default();
        let is_told =
            problem["reason"] == "Held" && message.contains("partition 2 keeps 2 pods on the old content");
        if is_told { Ok(()) } else { Err(problem.to_string()) }
    });
    // Between its pods a set has none of that number, and holds the others already.
    let meanwhile = until_other(&story, "web-2", &before);
    assert_eq!((&meanwhile["web-0"], &meanwhile["web-1"]), (&before["web-0"], &before["web-1"]));
    let monitor = story.admin().get("ConfigMonitor", &story.home, "monitor").expect("it is there");
    assert_eq!(monitor["status"]["failed"], 0, "it is no failure");

    let lowered = json!({ "spec": { "updateStrategy": partition(0) } });
    story.admin().merge("StatefulSet", &story.home, "web", &lowered).ok();
    until_all_replaced(&story, &before);
    until_recorded(&story, "StatefulSet");
    assert_eq!(uids(&story)["web-2"], meanwhile["web-2"], "it was replaced twice");
    assert_eq!(story.admin().list("ControllerRevision", &story.home, "").len(), 2);
    assert!(evictions(&story).is_empty(), "its controller replaces them");
    eventually("nothing is held any more", || {
        let problem = problem();
        if problem.is_null() { Ok(()) } else { Err(problem.to_string()) }
    });
}

#[test]
fn pods_of_a_bare_replica_set_are_evicted_one_by_one() {
    let story = Story::new(peaceful(), "bare-set");
    story.admin().apply(&config_map(&story.home, "app", [("k", "1")])).ok();
    let mut set = deployment(&story.home, "web", json!({}));
    set["kind"] = "ReplicaSet".into();
    set["spec"]["replicas"] = 2.into();
    story.admin().create(&set).ok();
    let before = until_ready(&story, 2);
    story.until_older_than_now();
    watch(&story, "Evict");
    change(&story);
    eventually("both are replaced", || {
        let now = uids(&story);
        let none_is_old = before.values().all(|old| !now.values().any(|new| new == old));
        if now.len() == 2 && none_is_old { Ok(()) } else { Err(format!("{now:?}, {before:?} before")) }
    });
    eventually("two evictions and no deletion are in the log", || {
        let writes = pod_writes(&story);
        let evicted = writes.iter().filter(|it| it.evicts()).count();
        if (evicted, writes.len()) == (2, 2) { Ok(()) } else { Err(format!("{writes:?}")) }
    });
}

/// Reloader#1057, kruise#2064: pods behind other operators. Nobody knows how many there should be, so that the one that
/// follows is waited for before the next one goes.
#[test]
fn pods_of_an_operator_are_deleted_one_by_one() {
    let story = Story::new(peaceful(), "operated");
    story.admin().apply(&config_map(&story.home, "app", [("k", "1")])).ok();
    let spec = json!({ "source": { "kind": "ConfigMap", "names": ["none"] }, "targets": [{ "names": ["none"] }], "suspend": true });
    let owner = story.admin().create(&ours("CopyratorRule", &story.home, "owner", spec)).ok();
    // The operator is this test.
    let make = |name: &str| {
        let mut pod = pod(&story.home, name, &data([("app", "web")]));
        pod["metadata"]["ownerReferences"] = json!([{
            "apiVersion": owner["apiVersion"], "kind": owner["kind"], "name": "owner", "uid": uid(&owner), "controller": true,
        }]);
        story.admin().create(&pod).ok();
    };
    ["web-0", "web-1"].iter().for_each(|name| make(name));
    let before = until_ready(&story, 2);
    story.until_older_than_now();
    watch(&story, "Delete");
    change(&story);
    let gone = eventually("one of them goes", || {
        let mut gone = before.keys().filter(|name| story.admin().get("Pod", &story.home, name).is_none());
        gone.next().cloned().ok_or_else(|| "all are there".to_owned())
    });
    // On a busy machine the minute may be over before the log has been read.
    let waited = until_looked_again_or_next(&story);
    let is_patient = waited.is_none_or(|waited| waited >= SignedDuration::from_secs(59));
    assert!(is_patient, "the next went {waited:?} after the first, and another had not come");
    make(&gone);
    let other = before.keys().find(|name| **name != gone).unwrap();
    eventually("the other goes", || {
        let pod = story.admin().get("Pod", &story.home, other);
        pod.map_or(Ok(()), |pod| Err(pod["metadata"].to_string()))
    });
    make(other);
    until_all_replaced(&story, &before);
    assert!(pod_writes(&story).iter().all(Request::deletes));
}

/// Reloader#543, #755: expensive jobs ran out of schedule.
#[test]
fn pods_of_jobs_are_never_touched() {
    let story = Story::new(peaceful(), "jobs");
    story.admin().apply(&config_map(&story.home, "app", [("k", "1")])).ok();
    // It waits for a node that never comes, and so is neither finished nor ready.
    let mut of_job = pod(&story.home, "web", &data([("app", "web")]));
    of_job["spec"]["nodeSelector"] = json!({ "no": "node" });
    of_job["spec"]["restartPolicy"] = "Never".into();
    let template = json!({ "metadata": { "labels": { "app": "web" } }, "spec": of_job["spec"] });
    let job = json!({
        "apiVersion": "batch/v1", "kind": "Job", "metadata": { "namespace": story.home, "name": "once" },
        "spec": { "template": template },
    });
    story.admin().create(&job).ok();
    story.admin().create(&pod(&story.home, "bare", &data([("app", "web")]))).ok();
    let before = eventually("the Job has its pod", || {
        let pods = uids(&story);
        if pods.len() == 2 { Ok(pods) } else { Err(format!("{pods:?}")) }
    });
    story.until_older_than_now();
    watch(&story, "Delete");
    change(&story);
    eventually("the bare pod goes", || {
        let pods = uids(&story);
        if pods.contains_key("bare") { Err(format!("{pods:?}")) } else { Ok(()) }
    });
    eventually("the content is recorded", || {
        let monitor = story.admin().get("ConfigMonitor", &story.home, "monitor").ok_or("it is gone")?;
        let record = monitor["status"]["podsApplied"].as_str().unwrap_or_default().to_owned();
        if record.split('.').count() == 3 { Ok(()) } else { Err(record) }
    });
    let left = uids(&story);
    assert_eq!(left.len(), 1);
    assert!(before.values().any(|uid| left.values().any(|left| left == uid)), "the Job's pod was replaced");
    assert!(pod_writes(&story).iter().all(|it| it.name == "bare"));
}

/// A budget says no for as long as it takes: it is asked ever less often, and nothing is dropped (commons-operator#372).
#[test]
fn a_budget_that_says_no_is_not_hammered() {
    let story = Story::new(peaceful(), "patient");
    story.admin().apply(&config_map(&story.home, "app", [("k", "1")])).ok();
    story.deploy("web", &[]);
    let before = story.until_running("web");
    let mut budget = json!({
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
        "metadata": { "namespace": story.home, "name": "web" },
        "spec": { "minAvailable": 1, "selector": { "matchLabels": { "app": "web" } } },
    });
    story.admin().apply(&budget).ok();
    eventually("the budget is in force", || {
        let budget = story.admin().get("PodDisruptionBudget", &story.home, "web").ok_or("it is gone")?;
        if budget["status"]["expectedPods"] == 1 { Ok(()) } else { Err(budget["status"].to_string()) }
    });
    story.until_older_than_now();
    watch(&story, "Evict");
    change(&story);
    let refused = eventually("three evictions are refused", || {
        let asked = pod_writes(&story);
        if asked.len() >= 3 { Ok(asked) } else { Err(format!("{asked:?}")) }
    });
    assert!(refused.iter().all(|it| it.code == 429), "{refused:?}");
    let second = |request: &Request| request.at.0.parse::<jiff::Timestamp>().expect("a time").as_second();
    let gaps: Vec<i64> = refused.windows(2).map(|pair| second(&pair[1]) - second(&pair[0])).collect();
    assert!(gaps.iter().all(|gap| *gap >= 4), "seconds between them: {gaps:?}");
    assert_eq!(story.until_running("web"), before);
    eventually("the status tells of it", || {
        let monitor = story.admin().get("ConfigMonitor", &story.home, "monitor").ok_or("it is gone")?;
        let is_told = monitor["status"]["problems"][0]["reason"] == "DisruptionBudget";
        if is_told { Ok(()) } else { Err(monitor["status"].to_string()) }
    });

    budget["spec"]["minAvailable"] = 0.into();
    story.admin().apply(&budget).ok();
    eventually("the pod is replaced in the end", || {
        let pods = uids(&story);
        if pods.len() == 1 && !pods.values().any(|uid| *uid == before) {
            Ok(())
        } else {
            Err(format!("{pods:?}"))
        }
    });
}

#[test]
fn a_workload_that_says_no_restarts_when_it_says_so_no_longer() {
    let story = Story::new(peaceful(), "saying-no");
    story.admin().apply(&config_map(&story.home, "app", [("k", "1")])).ok();
    story.deploy("web", &["app"]);
    let says = |word: Value| json!({ "metadata": { "annotations": { "copyrator.dev/restart": word } } });
    story.admin().merge("Deployment", &story.home, "web", &says(json!("false"))).ok();
    story.admin().create(&story.monitor(&["app"], json!(null))).ok();
    let (applied, before) = (story.until_adopted("web"), story.until_running("web"));
    story.until_older_than_now();
    change(&story);
    eventually("the status tells of it", || {
        let monitor = story.admin().get("ConfigMonitor", &story.home, "monitor").ok_or("it is gone")?;
        let problem = &monitor["status"]["problems"][0];
        if problem["reason"] == "Suspended" { Ok(()) } else { Err(monitor["status"].to_string()) }
    });
    assert_eq!((story.until_running("web"), story.until_adopted("web")), (before.clone(), applied));
    story.admin().merge("Deployment", &story.home, "web", &says(Value::Null)).ok();
    story.until_restarted("web", &before);
    assert_eq!(story.revisions("web"), 2);
}

/// Reloader#1016: `spec.paused` is the user's, and what waits is not forgotten.
#[test]
fn a_paused_deployment_is_not_written_and_restarts_when_resumed() {
    let story = Story::new(peaceful(), "paused-rollout");
    story.admin().apply(&config_map(&story.home, "app", [("k", "1")])).ok();
    story.deploy("web", &["app"]);
    story.admin().create(&story.monitor(&["app"], json!(null))).ok();
    story.until_adopted("web");
    let before = story.until_running("web");
    story.until_older_than_now();
    let paused = |paused: bool| json!({ "spec": { "paused": paused } });
    story.admin().merge("Deployment", &story.home, "web", &paused(true)).ok();
    eventually("the pause has been seen", || {
        let deployment = story.admin().get("Deployment", &story.home, "web").ok_or("it is gone")?;
        let is_seen = deployment["status"]["conditions"].to_string().contains("DeploymentPaused");
        if is_seen { Ok(()) } else { Err(deployment["status"].to_string()) }
    });
    // Its controller writes its status; we write metadata and template.
    let written = || {
        let deployment = story.admin().get("Deployment", &story.home, "web").expect("it is there");
        (deployment["metadata"]["labels"].clone(), deployment["metadata"]["generation"].clone())
    };
    let settled = written();
    change(&story);
    eventually("the status tells of it", || {
        let monitor = story.admin().get("ConfigMonitor", &story.home, "monitor").ok_or("it is gone")?;
        let problem = &monitor["status"]["problems"][0];
        if problem["reason"] == "Paused" { Ok(()) } else { Err(monitor["status"].to_string()) }
    });
    assert_eq!(written(), settled, "it was written while it was paused");
    story.admin().merge("Deployment", &story.home, "web", &paused(false)).ok();
    story.until_restarted("web", &before);
    assert_eq!(story.revisions("web"), 2);
}

/// A pod under two budgets can never be evicted: that is said, and it is not tried again and again (commons-operator#372).
#[test]
fn a_pod_under_two_budgets_is_reported() {
    let story = Story::new(peaceful(), "two-budgets");
    story.admin().apply(&config_map(&story.home, "app", [("k", "1")])).ok();
    story.deploy("web", &[]);
    for name in ["one", "two"] {
        let budget = json!({
            "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": { "namespace": story.home, "name": name },
            "spec": { "minAvailable": 0, "selector": { "matchLabels": { "app": "web" } } },
        });
        story.admin().create(&budget).ok();
    }
    story.until_older_than_now();
    watch(&story, "Evict");
    change(&story);
    eventually("the status tells of it", || {
        let monitor = story.admin().get("ConfigMonitor", &story.home, "monitor").ok_or("it is gone")?;
        let problem = &monitor["status"]["problems"][0];
        let is_told =
            problem["reason"] == "TooManyBudgets" && problem["message"].to_string().contains("narrow");
        if is_told { Ok(()) } else { Err(monitor["status"].to_string()) }
    });
    // A request that was not answered in time is sent again; once the answer is known, none.
    let tried = pod_writes(&story).len();
    story.marker("then");
    assert_eq!(pod_writes(&story).len(), tried);
}

/// The next leader goes on where the last one was, and begins nothing anew.
#[test]
fn a_leader_that_is_killed_half_way_is_followed_by_one_that_goes_on() {
    let (bed, _turn) = rough();
    let mut crew = bed.man();
    let story = Story::new(bed, "half-way");
    let before = adopted(&story, "StatefulSet", 3, json!({ "type": "OnDelete" }));
    // What is made from now on finds no node, so that the first step is the only one.
    let nowhere = json!({ "spec": { "template": { "spec": { "nodeSelector": { "half-way": "go" } } } } });
    story.admin().merge("StatefulSet", &story.home, "web", &nowhere).ok();
    change(&story);
    until_other(&story, "web-2", &before);
    crew.reconciler.kill();
    bed.release_lease();
    let go = json!({ "metadata": { "labels": { "half-way": "go" } } });
    story.admin().merge("Node", "", "node-0", &go).ok();
    crew.reconciler = bed.reconciler(0);
    until_all_replaced(&story, &before);
    until_recorded(&story, "StatefulSet");
    // Not by UID: the simulated node deletes a pod by its name, and now and then once too often.
    let evictions = evictions(&story);
    let evicted: Vec<&str> = evictions.iter().map(|it| it.name.as_str()).collect();
    assert_eq!(evicted, ["web-2", "web-1", "web-0"], "it began anew");
    crew.reconciler.kill();
}

/// A workload `web` of so many pods that uses the ConfigMap `app`, with a monitor that has taken it over: its pods.
fn adopted(story: &Story<'_>, kind: &str, pods: usize, strategy: Value) -> BTreeMap<String, String> {
    story.admin().apply(&config_map(&story.home, "app", [("k", "1")])).ok();
    let mut workload =
        deployment(&story.home, "web", json!({ "envFrom": [{ "configMapRef": { "name": "app" } }] }));
    workload["kind"] = kind.into();
    workload["spec"]["updateStrategy"] = strategy;
    match kind {
        "DaemonSet" => drop(workload["spec"].as_object_mut().expect("a spec").remove("replicas")),
        _ => workload["spec"]["replicas"] = pods.into(),
    }
    story.admin().create(&workload).ok();
    let before = until_ready(story, pods);
    story.admin().create(&story.monitor(&["app"], json!(null))).ok();
    until_recorded(story, kind);
    story.until_older_than_now();
    before
}

fn change(story: &Story<'_>) {
    story.admin().apply(&config_map(&story.home, "app", [("k", "2")])).ok();
}

/// The pods labelled `app: web` that are to stay: name and UID.
fn uids(story: &Story<'_>) -> BTreeMap<String, String> {
    let name = |pod: &Value| pod["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    story.pods("web").iter().map(|pod| (name(pod), uid(pod))).collect()
}

fn ready_since(pod: &Value) -> Option<&str> {
    let conditions = pod["status"]["conditions"].as_array()?;
    let ready = conditions.iter().find(|one| one["type"] == "Ready" && one["status"] == "True")?;
    ready["lastTransitionTime"].as_str()
}

#[track_caller]
fn until_ready(story: &Story<'_>, count: usize) -> BTreeMap<String, String> {
    eventually(&format!("{count} pods are ready"), || {
        let pods = story.pods("web");
        let ready = pods.iter().filter(|pod| ready_since(pod).is_some()).count();
        if (pods.len(), ready) == (count, count) {
            Ok(uids(story))
        } else {
            Err(format!("{ready} of {}", pods.len()))
        }
    })
}

/// Waits until another pod has this name: the pods then.
#[track_caller]
fn until_other(story: &Story<'_>, name: &str, before: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    eventually(&format!("{name} is replaced"), || {
        let pods = uids(story);
        let is_other = pods.get(name).is_some_and(|uid| *uid != before[name]);
        if is_other { Ok(pods) } else { Err(format!("{pods:?}")) }
    })
}

/// Waits until as many other pods serve.
#[track_caller]
fn until_all_replaced(story: &Story<'_>, before: &BTreeMap<String, String>) {
    eventually("every pod is another and ready", || {
        let (now, pods) = (uids(story), story.pods("web"));
        let is_old = |uid: &String| before.values().any(|old| old == uid);
        let are_ready = pods.iter().all(|pod| ready_since(pod).is_some());
        match now.len() == before.len() && are_ready && !now.values().any(is_old) {
            true => Ok(()),
            false => Err(format!("{now:?}, {before:?} before")),
        }
    });
}

/// How many parts the label has: four while pods are still to be replaced.
fn parts(workload: &Value) -> usize {
    label(workload, APPLIED).map_or(0, |label| label.split('.').count())
}

#[track_caller]
fn until_recorded(story: &Story<'_>, kind: &str) {
    eventually(&format!("the content is recorded on the {kind}"), || {
        let workload = story.admin().get(kind, &story.home, "web").ok_or("it is gone")?;
        if parts(&workload) == 3 { Ok(()) } else { Err(workload["metadata"]["labels"].to_string()) }
    });
}

/// A monitor of the pods labelled `app: web`, in force: it knows what they run with.
fn watch(story: &Story<'_>, strategy: &str) {
    let mut monitor = story.monitor(&["app"], json!({ "podSelector": { "matchLabels": { "app": "web" } } }));
    monitor["spec"]["strategy"] = json!({ "type": strategy });
    story.admin().create(&monitor).ok();
    eventually("the monitor knows what the pods run with", || {
        let monitor = story.admin().get("ConfigMonitor", &story.home, "monitor").ok_or("it is gone")?;
        let workloads = story.admin().list("Deployment", &story.home, APPLIED);
        let known = monitor["status"]["podsApplied"].is_string();
        match known && workloads.len() == story.admin().list("Deployment", &story.home, "").len() {
            true => Ok(()),
            false => Err(monitor["status"].to_string()),
        }
    });
}
