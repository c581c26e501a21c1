//! How old pods are replaced, by kind and strategy: docs/restarting.md on a real control plane.

mod pod_log;

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::bed::objects::{annotation, config_map, data, deployment, label, pod, uid};
use crate::bed::{Story, eventually, peaceful, rough, same};
use pod_log::{Request, evictions, pod_writes, until_looked_again};

const APPLIED: &str = "copyrator.dev/applied";
const RESTARTED_FOR: &str = "copyrator.dev/restarted-for";

/// Reloader#294, wave#121: under OnDelete nothing happened at all.
#[test]
fn on_delete_is_stamped_and_then_evicted_from_the_highest_ordinal() {
    let story = Story::new(peaceful(), "on-delete");
    let before = adopted(&story, 3, json!({ "type": "OnDelete" }));
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
    until_recorded(&story);
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

#[test]
fn pods_below_a_partition_are_whose_it_is() {
    let story = Story::new(peaceful(), "partitioned");
    let partition = |number: u8| json!({ "type": "RollingUpdate", "rollingUpdate": { "partition": number } });
    let before = adopted(&story, 3, partition(2));
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
    until_recorded(&story);
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

/// No pod template reaches these.
#[test]
fn delete_removes_exactly_the_pods_of_the_selector_once() {
    let story = Story::new(peaceful(), "bare-pods");
    story.admin().apply(&config_map(&story.home, "app", [("k", "1")])).ok();
    for (name, app) in [("web-0", "web"), ("web-1", "web"), ("db-0", "db")] {
        story.admin().create(&pod(&story.home, name, &data([("app", app)]))).ok();
    }
    story.until_pods("web", &["web-0", "web-1"]);
    story.until_older_than_now();
    watch(&story, "Delete");
    story.until_pods("web", &["web-0", "web-1"]);
    change(&story);
    story.until_pods("web", &[]);
    // A user who makes them again makes younger ones, which stay.
    story.admin().create(&pod(&story.home, "web-2", &data([("app", "web")]))).ok();
    story.marker("then");
    story.until_pods("web", &["web-2"]);
    story.until_pods("db", &["db-0"]);
    until_last_restart(&story);
}

/// While a disruption budget refuses an eviction, Copyrator tries ever less often, and drops nothing. The API server never evicts a pod
/// under two budgets: the status says so, and Copyrator does not repeat the eviction (commons-operator#372).
#[test]
fn a_budget_that_says_no_is_not_hammered_and_two_are_reported() {
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
    let until_told = |reason: &str, words: &str| {
        eventually(&format!("the status tells {reason}"), || {
            let monitor = story.admin().get("ConfigMonitor", &story.home, "monitor").ok_or("it is gone")?;
            let problem = &monitor["status"]["problems"][0];
            let is_told = problem["reason"] == reason && problem["message"].to_string().contains(words);
            if is_told { Ok(()) } else { Err(monitor["status"].to_string()) }
        });
    };
    until_told("DisruptionBudget", "");

    budget["spec"]["minAvailable"] = 0.into();
    story.admin().apply(&budget).ok();
    let after = story.until_restarted("web", &before);
    assert_eq!(story.revisions("web"), 1, "an eviction is no rollout");
    until_last_restart(&story);
    assert!(pod_writes(&story).iter().all(Request::evicts));

    budget["metadata"]["name"] = "second".into();
    story.admin().apply(&budget).ok();
    story.until_older_than_now();
    story.admin().apply(&config_map(&story.home, "app", [("k", "3")])).ok();
    until_told("TooManyBudgets", "narrow");
    // A request that was not answered in time is sent again; once the answer is known, none.
    let tried = pod_writes(&story).len();
    story.marker("then");
    assert_eq!((pod_writes(&story).len(), story.until_running("web")), (tried, after));
}

/// The next leader goes on where the last one was, and begins nothing anew.
#[test]
fn a_leader_that_is_killed_half_way_is_followed_by_one_that_goes_on() {
    let (bed, _turn) = rough();
    let mut crew = bed.man();
    let story = Story::new(bed, "half-way");
    let before = adopted(&story, 3, json!({ "type": "OnDelete" }));
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
    until_recorded(&story);
    // Not by UID: the simulated node deletes a pod by its name, and now and then once too often.
    let evictions = evictions(&story);
    let evicted: Vec<&str> = evictions.iter().map(|it| it.name.as_str()).collect();
    assert_eq!(evicted, ["web-2", "web-1", "web-0"], "it began anew");
    crew.reconciler.kill();
}

/// A StatefulSet `web` of so many pods that uses the ConfigMap `app`, with a monitor that has taken it over: its pods.
fn adopted(story: &Story<'_>, pods: usize, strategy: Value) -> BTreeMap<String, String> {
    story.admin().apply(&config_map(&story.home, "app", [("k", "1")])).ok();
    let mut set =
        deployment(&story.home, "web", json!({ "envFrom": [{ "configMapRef": { "name": "app" } }] }));
    set["kind"] = "StatefulSet".into();
    set["spec"]["updateStrategy"] = strategy;
    set["spec"]["replicas"] = pods.into();
    story.admin().create(&set).ok();
    let before = until_ready(story, pods);
    story.admin().create(&story.monitor(&["app"], json!(null))).ok();
    until_recorded(story);
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
fn until_recorded(story: &Story<'_>) {
    eventually("the content is recorded on the StatefulSet", || {
        let set = story.admin().get("StatefulSet", &story.home, "web").ok_or("it is gone")?;
        if parts(&set) == 3 { Ok(()) } else { Err(set["metadata"]["labels"].to_string()) }
    });
}

/// No managedFields entry tells of a removed pod: the status has to remember.
fn until_last_restart(story: &Story<'_>) {
    eventually("the monitor says when it last restarted anything", || {
        let monitor = story.admin().get("ConfigMonitor", &story.home, "monitor").ok_or("it is gone")?;
        let is_told = monitor["status"]["lastRestartTime"].is_string();
        if is_told { Ok(()) } else { Err(monitor["status"].to_string()) }
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
