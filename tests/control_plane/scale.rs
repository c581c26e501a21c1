//! A thousand workloads: a first start restarts none of them, a start after a change exactly the one that it is about, and
//! a burst of changes that loses its leader each of them once.

use std::collections::BTreeMap;
use std::thread;

use serde_json::{Value, json};

use crate::bed::objects::{annotation, config_map, deployment, label, namespace, ours};
use crate::bed::{Bed, Person, Story, eventually, private, rough, same};

/// Opted in by their annotation; as many again by a monitor.
const HALF: usize = 500;

/// What becomes of a Deployment, as far as restarts go.
#[derive(Clone, Debug, PartialEq)]
struct Seen {
    generation: u64,
    is_running: bool,
    applied: Option<String>,
    restarted_for: Option<String>,
}

/// The Deployments of a namespace.
fn seen(admin: &Person, namespace: &str) -> BTreeMap<String, Seen> {
    let look = |workload: Value| {
        let number = |pointer: &str| workload.pointer(pointer).and_then(Value::as_u64).unwrap_or_default();
        let generation = number("/metadata/generation");
        let one = ["/status/replicas", "/status/updatedReplicas", "/status/availableReplicas"];
        let is_running =
            number("/status/observedGeneration") == generation && one.iter().all(|field| number(field) == 1);
        let template = &workload["spec"]["template"];
        let seen = Seen {
            generation,
            is_running,
            applied: label(&workload, "copyrator.dev/applied").map(str::to_owned),
            restarted_for: annotation(template, "copyrator.dev/restarted-for").map(str::to_owned),
        };
        (workload["metadata"]["name"].as_str().unwrap_or_default().to_owned(), seen)
    };
    admin.list("Deployment", namespace, "").into_iter().map(look).collect()
}

/// Waits until all Deployments of these namespaces are as wanted: those.
#[track_caller]
fn until_all(
    admin: &Person,
    namespaces: &[&str],
    what: &str,
    wanted: impl Fn(&Seen) -> bool,
) -> BTreeMap<String, Seen> {
    eventually(what, || {
        let all: BTreeMap<_, _> = namespaces.iter().flat_map(|one| seen(admin, one)).collect();
        match all.iter().filter(|(_, one)| !wanted(one)).collect::<Vec<_>>().as_slice() {
            [] if !all.is_empty() => Ok(all),
            missing => {
                Err(format!("{} of {} are not, the first: {:?}", missing.len(), all.len(), missing.first()))
            }
        }
    })
}

/// Deployments, each with a ConfigMap of its own, called alike. Their pods need no scheduler.
fn populate(admin: &Person, home: &str, names: &[String], annotations: &Value) {
    let make = |name: &String| {
        admin.create(&config_map(home, name, [("k", "1")])).ok();
        let mut workload =
            deployment(home, name, json!({ "envFrom": [{ "configMapRef": { "name": name } }] }));
        workload["metadata"]["annotations"] = annotations.clone();
        workload["spec"]["template"]["spec"]["nodeName"] = "node-0".into();
        admin.create(&workload).ok();
    };
    thread::scope(|scope| {
        for part in names.chunks(names.len().div_ceil(4)) {
            scope.spawn(move || part.iter().for_each(make));
        }
    });
}

fn names(prefix: &str, count: usize) -> Vec<String> {
    (0..count).map(|number| format!("{prefix}-{number:03}")).collect()
}

fn revisions(bed: &Bed, namespaces: &[&str]) -> usize {
    namespaces.iter().map(|one| bed.admin.list("ReplicaSet", one, "").len()).sum()
}

/// Restarted on starting: Reloader#166, #216, #279, VSO#285; missed while away: Reloader#814, #640.
#[test]
fn a_first_start_restarts_none_of_a_thousand_and_a_start_after_one_change_exactly_one() {
    let bed = private("thousand");
    let (annotated, monitored) = ("thousand-annotated", "thousand-monitored");
    let both = [annotated, monitored];
    for one in both {
        bed.admin.create(&namespace(one, &BTreeMap::new())).ok();
    }
    populate(&bed.admin, annotated, &names("a", HALF), &json!({ "copyrator.dev/restart": "true" }));
    populate(&bed.admin, monitored, &names("m", HALF), &json!({}));
    let watch = json!({ "watch": [{ "kind": "ConfigMap", "names": ["m-*"] }] });
    bed.admin.create(&ours("ConfigMonitor", monitored, "monitor", watch)).ok();
    let before = until_all(&bed.admin, &both, "a thousand run", |one| one.is_running);
    assert_eq!(before.len(), 2 * HALF);

    let crew = bed.man();
    until_all(&bed.admin, &both, "each is marked with its content", |one| one.applied.is_some());
    let story = Story::new(&bed, "thousand");
    story.marker("adopted");
    let adopted = until_all(&bed.admin, &both, "each runs", |one| one.is_running);
    let rolled: Vec<_> = adopted.iter().filter(|(_, one)| one.generation != 1).collect();
    assert!(rolled.is_empty(), "a first start restarted {}, the first: {:?}", rolled.len(), rolled[0]);
    assert_eq!(revisions(&bed, &both), 2 * HALF);

    crew.reconciler.kill();
    bed.admin.apply(&config_map(monitored, "m-137", [("k", "2")])).ok();
    bed.release_lease();
    let mut reconciler = bed.reconciler(0);
    reconciler.wait_ready().expect("the reconciler becomes ready");
    eventually("what uses the changed object restarts", || {
        let generation =
            bed.admin.get("Deployment", monitored, "m-137").map(|mut it| it["metadata"]["generation"].take());
        same(generation, Some(json!(2)))
    });
    story.marker("restarted");
    let after = until_all(&bed.admin, &both, "each runs", |one| one.is_running);
    let changed = after.iter().filter(|(name, one)| adopted[*name] != **one);
    let changed: Vec<&str> = changed.map(|(name, _)| name.as_str()).collect();
    assert_eq!(changed, ["m-137"], "exactly what uses it");
    let one = &after["m-137"];
    let (applied, stamp) =
        (one.applied.clone().unwrap_or_default(), one.restarted_for.clone().unwrap_or_default());
    assert!(!stamp.is_empty() && applied.starts_with(&stamp), "{one:?}");
    assert_ne!(one.applied, adopted["m-137"].applied);
    assert_eq!(revisions(&bed, &both), 2 * HALF + 1);
    reconciler.kill();
    crew.webhook.kill();
}

/// Reloader#481 (lost by the change of leader), #810 (all restarted by it).
#[test]
fn a_burst_of_changes_that_loses_its_leader_restarts_each_workload_exactly_once() {
    const SIZE: usize = 60;
    let (bed, _turn) = rough();
    let crew = bed.man();
    let mut second = bed.reconciler(1);
    second.wait_ready().expect("a standby is ready");
    let story = Story::new(bed, "burst");
    let names = names("app", SIZE);
    let watch = json!({
        "watch": [{ "kind": "ConfigMap", "names": ["app-*"] }], "pace": { "quietPeriod": "1s" },
    });
    bed.admin.create(&ours("ConfigMonitor", &story.home, "monitor", watch)).ok();
    populate(&bed.admin, &story.home, &names, &json!({}));
    let home = [story.home.as_str()];
    let is_adopted = |one: &Seen| one.is_running && one.applied.is_some();
    let before = until_all(&bed.admin, &home, "all run and are marked", is_adopted);
    assert!(before.values().all(|one| one.generation == 1), "adoption restarted: {before:?}");
    story.until_older_than_now();

    let restarted = || seen(&bed.admin, &story.home).values().filter(|one| one.generation > 1).count();
    let change = |names: &[String]| {
        names
            .iter()
            .for_each(|name| drop(bed.admin.apply(&config_map(&story.home, name, [("k", "2")])).ok()));
    };
    // It dies with some restarts done, some held back by the quiet period, and some changes still to come.
    let (early, late) = names.split_at(SIZE * 2 / 3);
    change(&early[..SIZE / 3]);
    eventually("some have restarted", || match restarted() {
        0 => Err("none".into()),
        _ => Ok(()),
    });
    change(&early[SIZE / 3..]);
    crew.reconciler.kill();
    change(late);
    let at_death = restarted();
    assert!((1..SIZE).contains(&at_death), "it did not die in the burst: {at_death} of {SIZE}");

    // Nobody gives up the lease for the dead: it runs out.
    until_all(&bed.admin, &home, "all have restarted", |one| one.is_running && one.generation > 1);
    story.marker("then");
    let after = until_all(&bed.admin, &home, "all run", |one| one.is_running);
    for (name, one) in &after {
        let stamp = one.restarted_for.clone().unwrap_or_default();
        let is_of_last = one.applied.as_ref().is_some_and(|applied| applied.starts_with(&stamp));
        assert!(
            one.generation == 2 && !stamp.is_empty() && is_of_last,
            "{name}: {one:?}, not once for the last content"
        );
        assert_ne!(one.applied, before[name].applied, "{name}");
    }
    assert_eq!(revisions(bed, &home), 2 * SIZE);
    second.kill();
    crew.webhook.kill();
}
