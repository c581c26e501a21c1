//! Stages over time: the plans of all workloads carried out, second by second, on a world whose controllers are simple.

use std::collections::{BTreeMap, BTreeSet};

use copyrator::{
    explain::{failed, monitor_status},
    model::{LastRestart, PodFacts, PodsSeen, ResourceVersion, Rollout, World},
    names::WorkloadKey,
    plan::{
        Need,
        restart::{
            Acted, RestartAction, RestartState, WorkloadPlan, plan_workload, settle_workload, whose_turn,
        },
    },
};
use serde_json::{Value, json};

use super::{
    carry_out,
    world::{Case, at},
};

/// How long a rollout takes.
const ROLLOUT: i64 = 5;

/// A world of this many Deployments, the last two of them canaries, whose one ConfigMap changed at 50.
fn crowd(count: usize, pace: &Value) -> World {
    let workloads: BTreeMap<String, Value> = (0..count)
        .map(|index| {
            let labels = if index + 2 >= count { json!({"track": "canary"}) } else { json!({}) };
            let workload = json!({"references": ["configmap/a"], "applied": {"configmap/a": {"x": "1"}}, "labels": labels, "desired": 1});
            (format!("w{index:03}"), workload)
        })
        .collect();
    let case = json!({"name": "crowd", "now": 60, "objects": {"configmap/a": {"keys": {"x": "2"}, "changed": 50}},
        "monitors": {"web": {"spec": {"watch": [{"kind": "ConfigMap", "names": ["a"]}], "pace": pace}}}, "workloads": workloads});
    serde_json::from_value::<Case>(case).unwrap().world()
}

/// What a run shows.
#[derive(Default)]
struct Run {
    /// When each workload was restarted.
    began: BTreeMap<String, i64>,
    lists: usize,
    looks: usize,
    most_at_once: usize,
}

/// The pod of each workload: since when it runs, and whether it crashes.
type Pods = BTreeMap<WorkloadKey, (i64, bool)>;

fn list(pods: &Pods, key: &WorkloadKey, facts_version: ResourceVersion, now: i64) -> PodsSeen {
    let (created, crashing) = pods[key];
    let is_ready = !crashing && now >= created + 2;
    let pod = PodFacts {
        name: format!("{}-pod", key.name),
        uid: "u".into(),
        created: at(created),
        leaving: false,
        finished: false,
        ready: is_ready,
        ready_since: is_ready.then(|| at(created + 2)),
        crashing: crashing && now >= created + 2,
        workload: Some(key.clone()),
        controlled: true,
        untouchable: false,
    };
    PodsSeen { at: at(now), resource_version: Some(facts_version), pods: vec![pod] }
}

/// Looks at every workload each second, as if every event came, in the order of their names; `crashes` says whose new
/// pods crash, and `forget` when we are started anew.
fn run(world: &mut World, crashes: impl Fn(&str) -> bool, forget: &[i64], until: i64) -> Run {
    let keys: Vec<WorkloadKey> = world.workloads().keys().cloned().collect();
    let mut pods: Pods = keys.iter().map(|key| (key.clone(), (10, false))).collect();
    let mut run = Run::default();
    for now in 60..until {
        if forget.contains(&now) {
            world.memory_mut().begin_term(at(0));
            keys.iter().for_each(|key| world.forget_pods(key));
        }
        for key in &keys {
            let plan = look(world, &pods, key, now, &mut run);
            let acted = if plan.action.is_some() { Acted::Done } else { Acted::Nothing };
            let _ = settle_workload(world, key, &plan, acted, at(now));
            let Some(action) = &plan.action else { continue };
            carry_out(world, key, action, now);
            if matches!(action, RestartAction::Rollout { .. }) {
                let before = run.began.insert(key.name.to_string(), now);
                assert_eq!(before, None, "{key} restarted twice");
                pods.insert(key.clone(), (now, crashes(&key.name)));
            }
        }
        let unfinished = |key: &&WorkloadKey| world.workloads()[*key].rollout == Rollout::Unfinished;
        run.most_at_once = run.most_at_once.max(keys.iter().filter(unfinished).count());
        for key in &keys {
            let (created, crashing) = pods[key];
            if world.workloads()[key].rollout == Rollout::Unfinished && !crashing && now >= created + ROLLOUT
            {
                world.edit_workload(key, |facts| facts.rollout = Rollout::Complete);
            }
        }
    }
    run
}

fn look(world: &mut World, pods: &Pods, key: &WorkloadKey, now: i64, run: &mut Run) -> WorkloadPlan {
    loop {
        run.looks += 1;
        let plan = plan_workload(world, key, at(now));
        if plan.needs.is_empty() {
            return plan;
        }
        for need in &plan.needs {
            let Need::Pods(of) = need else { panic!("{need:?}") };
            assert_eq!(of, key, "pods of others are nobody's business");
            run.lists += 1;
            let version = world.workloads()[of].resource_version.clone();
            world.set_pods(of, list(pods, of, version, now));
        }
    }
}

fn all_began(run: &Run) -> BTreeSet<i64> {
    run.began.values().copied().collect()
}

#[test]
fn groups_follow_each_other_and_never_more_at_once_than_may_be() {
    let pace = json!({"maxConcurrent": 3, "soak": "10s", "order": [{"matchLabels": {"track": "canary"}}]});
    let run = run(&mut crowd(12, &pace), |_| false, &[], 300);
    assert_eq!(run.began.len(), 12);
    assert_eq!(run.most_at_once, 3);
    let canaries = run.began["w010"].max(run.began["w011"]);
    assert_eq!(canaries, 60);
    let others: Vec<i64> =
        run.began.iter().filter(|(name, _)| name.as_str() < "w010").map(|(_, at)| *at).collect();
    assert!(
        others.iter().all(|began| *began >= canaries + 2 + 10),
        "before the canaries had soaked: {others:?}"
    );
    assert!(others.is_sorted(), "by name: {others:?}");
    assert_eq!(all_began(&run).len(), 5, "two canaries, then ten by threes: {:?}", run.began);
}

#[test]
fn a_start_in_the_middle_of_a_stage_goes_on_where_it_was() {
    let pace = json!({"maxConcurrent": 1, "soak": "20s", "order": [{"matchLabels": {"track": "canary"}}]});
    let uninterrupted = run(&mut crowd(5, &pace), |_| false, &[], 400);
    let forgetful: Vec<i64> = (61..250).step_by(7).collect();
    let forgotten = run(&mut crowd(5, &pace), |_| false, &forgetful, 400);
    // A workload that is looked at before the one that it waits for waits a second longer.
    for (name, began) in &uninterrupted.began {
        let then = forgotten.began[name];
        assert!((*began..began + 5).contains(&then), "{name} at {began}, and at {then} by those who forget");
    }
    assert_eq!(forgotten.most_at_once, 1);
}

#[test]
fn a_canary_that_crashes_stops_all_others() {
    let pace = json!({"maxConcurrent": 2, "order": [{"matchLabels": {"track": "canary"}}]});
    let mut world = crowd(6, &pace);
    let run = run(&mut world, |name| name == "w005", &[], 200);
    assert_eq!(run.began.keys().collect::<Vec<_>>(), ["w004", "w005"]);
    let status = monitor_status(&world, &Case::monitor_key(), at(200)).unwrap();
    assert_eq!((status.failed, status.waiting, status.up_to_date), (1, 4, 1));
    let reasons: Vec<&str> = status.problems.iter().map(|one| one.reason.as_str()).collect();
    assert_eq!(reasons, ["StageFailed", "StageStopped"]);
    let (told, stopped) = (&status.problems[0].message, &status.problems[1].message);
    assert!(
        told.starts_with(
            "Deployment w005: the workload failed with changed content: its pod w005-pod crashes"
        ),
        "{told}"
    );
    assert!(told.contains("; the last content that worked is ") && !told.contains("not known"), "{told}");
    assert!(
        stopped.starts_with("4 workloads with changed content wait, because Deployment w005 failed"),
        "{stopped}"
    );
    let degraded = status.conditions.iter().find(|one| one.type_ == "Degraded").unwrap();
    assert_eq!(degraded.reason, "StageFailed");

    let key = world.workloads().keys().nth(5).unwrap().clone();
    world.edit_workload(&key, |facts| facts.restarts.track.last_good = Some("k.before".into()));
    let RestartState::Failed(failure) = plan_workload(&world, &key, at(200)).state else { panic!() };
    let message = failed(&failure);
    assert!(message.contains("the last content that worked is k.before"), "{message}");
}

/// Each look lists at most the pods of the one it looks at, and one that waits for its turn lists none.
#[test]
fn a_crowd_lists_few_pods() {
    let pace = json!({"maxConcurrent": 2, "soak": "10s"});
    let mut world = crowd(500, &pace);
    let few = run(&mut world, |_| false, &[], 74);
    assert!(few.began.len() >= 4, "{}", few.began.len());
    assert!(few.lists <= 12 * few.began.len(), "{} lists for {} restarts", few.lists, few.began.len());
    let (restarting, next) = (world.memory(), whose_turn(&world, &Case::monitor_key(), at(74)));
    assert!(next.len() <= 2, "{next:?}");
    // A workload that is through is not listed any more.
    let is_through = |restarted: &&LastRestart| restarted.result == copyrator::model::RestartResult::Through;
    let restarting = restarting.workloads().filter_map(|(_, memory)| memory.restarted());
    let through = restarting.filter(is_through).count();
    assert!(through > 0, "{:?}", world.memory());
}
