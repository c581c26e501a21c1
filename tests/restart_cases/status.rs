//! What a monitor's status says, and when it says nothing new.

use copyrator::{
    model::{RestartAttempt, World},
    plan::monitor_status,
};

use crate::{
    case, object,
    world::{Case, at},
};

/// Content that is read again after a write of metadata would count as waiting, and a moment later not any more: a status
/// that is there stays, unless what cannot be read would be hidden by that.
#[test]
fn a_status_is_not_patched_back_and_forth_while_content_is_read_again() {
    let text = |not_fetched: bool| {
        format!(
            r#"{{name: read, now: 51, expect: "", objects: {{configmap/a: {{keys: {{x: "2"}}, changed: 20, not_fetched: {not_fetched}}}}},
                monitors: {{web: {{spec: {{watch: [{{kind: ConfigMap, names: [a]}}]}}}}}},
                workload: {{references: [configmap/a], applied: current}}}}"#
        )
    };
    let known = case(&text(false)).world();
    let said = monitor_status(&known, &Case::monitor_key(), at(51)).unwrap();
    assert_eq!((said.up_to_date, said.waiting), (1, 0));
    let mut reading = case(&text(true)).world();
    let first = monitor_status(&reading, &Case::monitor_key(), at(51)).unwrap();
    assert_eq!((first.up_to_date, first.waiting), (0, 1), "a first word is better than none");
    reading.monitors.get_mut(&Case::monitor_key()).unwrap().status = Some(said);
    assert_eq!(monitor_status(&reading, &Case::monitor_key(), at(51)), None);
    reading.unread.insert(object("a"), "no answer".into());
    let unread = monitor_status(&reading, &Case::monitor_key(), at(51)).unwrap();
    assert_eq!((unread.up_to_date, unread.waiting), (0, 1));
    reading.unread.clear();
    reading.monitors.get_mut(&Case::monitor_key()).unwrap().generation = 2;
    assert!(
        monitor_status(&reading, &Case::monitor_key(), at(51)).is_some(),
        "what is said is of another spec"
    );
}

#[test]
fn a_status_counts_and_explains_pods_without_a_workload_that_wait() {
    let due = case(
        r#"{name: due, now: 100, expect: "", objects: {configmap/a: {keys: {x: "2"}, changed: 50}},
            monitors: {web: {pods_applied: {configmap/a: {x: "1"}}, spec: {watch: [{kind: ConfigMap, names: [a]}],
                workloads: {podSelector: {}}, strategy: {type: Evict}, pace: {minInterval: 0s}}}},
            pods: [{name: web-1, created: 10}, {name: web-2, created: 10, unready: true}, {name: web-3, created: 60, unready: true}]}"#,
    );
    let told = |world: &World, now: i64| {
        let status = monitor_status(world, &Case::monitor_key(), at(now)).unwrap();
        let problems = status.problems.iter().map(|one| format!("{}: {}", one.reason, one.message));
        (status.waiting, status.restarting, status.failed, problems.collect::<Vec<_>>().join("; "))
    };
    let mut world = due.world();
    // The one that does not serve has gone; the other waits for it.
    world.selected_pods.get_mut(&Case::monitor_key()).unwrap().pods.retain(|pod| pod.name != "web-2");
    assert_eq!(told(&world, 100), (1, 0, 0, String::new()));
    world.selected_pods.get_mut(&Case::monitor_key()).unwrap().at = at(400);
    let lasting = "PodsNotReady: pods without a workload wait until others are ready: the next is replaced when they are";
    assert_eq!(told(&world, 400), (1, 0, 0, lasting.to_owned()));
    world.selected_removed_at.insert(Case::monitor_key(), at(90));
    assert_eq!(told(&world, 400), (0, 1, 0, lasting.to_owned()));

    let mut world = due.world();
    let attempt = |reason| RestartAttempt {
        label: due.current(&world).label(),
        tries: 1,
        reason,
        message: "cannot be evicted".into(),
        retry_at: at(110),
    };
    let [budget, two] = ["DisruptionBudget", "TooManyBudgets"].map(attempt);
    world.pod_attempts.insert(Case::monitor_key(), budget);
    let (waiting, _, failed, problems) = told(&world, 100);
    assert_eq!((waiting, failed), (1, 0));
    assert_eq!(
        problems,
        "DisruptionBudget: pods without a workload cannot be evicted now: raise their replicas, or relax their \
         PodDisruptionBudget"
    );
    world.pod_attempts.insert(Case::monitor_key(), two);
    let (waiting, _, failed, problems) = told(&world, 100);
    assert_eq!((waiting, failed), (0, 1));
    assert_eq!(problems, "TooManyBudgets: pods without a workload cannot be evicted");
}
