//! What a monitor's status says, and when it says nothing new.

use copyrator::{
    explain::monitor_status,
    model::{AttemptFailure, PodRemoved, RestartAttempt, World, WriteFault},
    plan::restart::plan_workload,
};

use super::{
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
    reading.edit_monitor(&Case::monitor_key(), |facts| facts.status = Some(said));
    assert_eq!(monitor_status(&reading, &Case::monitor_key(), at(51)), None);
    let unread = (WriteFault::Failed, "no answer".to_owned());
    reading.memory_mut().content_unreadable(&object("a"), unread);
    let unread = monitor_status(&reading, &Case::monitor_key(), at(51)).unwrap();
    assert_eq!((unread.up_to_date, unread.waiting), (0, 1));
    *reading.memory_mut() = Default::default();
    reading.edit_monitor(&Case::monitor_key(), |facts| facts.generation = 2);
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
    world.edit_selected_pods(&Case::monitor_key(), |seen| seen.pods.retain(|pod| pod.name != "web-2"));
    assert_eq!(told(&world, 100), (1, 0, 0, String::new()));
    world.edit_selected_pods(&Case::monitor_key(), |seen| seen.at = at(400));
    let lasting = "PodsNotReady: pods without a workload: other pods must become ready first";
    assert_eq!(told(&world, 400), (1, 0, 0, lasting.to_owned()));
    let removed = Some(PodRemoved { at: at(90), controlled: 0 });
    world.memory_mut().at_monitor(&Case::monitor_key(), |memory| memory.pods_removed(removed));
    assert_eq!(told(&world, 400), (0, 1, 0, lasting.to_owned()));

    let mut world = due.world();
    let attempt =
        |failure| RestartAttempt { label: due.current(&world).label(), tries: 1, failure, retry_at: at(110) };
    let [budget, two] = [None, Some(AttemptFailure::TooManyBudgets)].map(attempt);
    world.memory_mut().at_monitor(&Case::monitor_key(), |memory| memory.failed(budget));
    let (waiting, _, failed, problems) = told(&world, 100);
    assert_eq!((waiting, failed), (1, 0));
    assert_eq!(
        problems,
        "DisruptionBudget: pods without a workload: a PodDisruptionBudget allows no eviction now: increase the replicas, or relax the \
         budget"
    );
    world.memory_mut().at_monitor(&Case::monitor_key(), |memory| memory.failed(two));
    let (waiting, _, failed, problems) = told(&world, 100);
    assert_eq!((waiting, failed), (0, 1));
    assert_eq!(
        problems,
        "TooManyBudgets: pods without a workload: a pod matches more than one PodDisruptionBudget, so the API server never evicts it: \
         narrow the budgets' selectors until only one matches"
    );
}

#[test]
fn a_status_counts_and_explains() {
    let due = case(
        r#"{name: due, now: 51, objects: {configmap/a: {keys: {x: "2"}, changed: 50}}, expect: "",
            monitors: {web: {spec: {watch: [{kind: ConfigMap, names: [a]}]}}},
            workload: {references: [configmap/a], applied: {configmap/a: {x: "1"}}, last_restart: 20}}"#,
    );
    let status = monitor_status(&due.world(), &Case::monitor_key(), at(51)).unwrap();
    assert_eq!((status.workloads, status.waiting, status.up_to_date, status.failed), (1, 1, 0, 0));
    assert_eq!(status.next_restart_time.as_ref().map(|time| time.0), Some(at(53)));
    assert_eq!(status.last_restart_time.as_ref().map(|time| time.0), Some(at(20)));
    assert_eq!(status.identity.as_deref(), Some("user alice"));
    assert_eq!(status.authorized_generation, Some(1));
    let ready = |status: &copyrator::api::ConfigMonitorStatus| {
        let conditions =
            status.conditions.iter().map(|one| format!("{}={} {}", one.type_, one.status, one.reason));
        conditions.collect::<Vec<_>>().join(", ")
    };
    assert_eq!(ready(&status), "Ready=True Watching, Authorized=True Allowed");

    let missing = case(
        r#"{name: missing, now: 100, objects: {configmap/a: {keys: {x: "2"}, changed: 50}}, expect: "",
            monitors: {web: {spec: {watch: [{kind: ConfigMap, names: ["*"]}]}}},
            workload: {references: [configmap/a, configmap/gone, configmap/lost], applied: {configmap/a: {x: "1"}}}}"#,
    );
    let status = monitor_status(&missing.world(), &Case::monitor_key(), at(100)).unwrap();
    assert_eq!(
        status.problems[0].message,
        "Deployment web: the workload uses ConfigMap gone and 1 more, which do not exist: create them, or correct the names"
    );

    let pulling = case(
        r#"{name: pulling, now: 51, objects: {secret/pull: {keys: {x: "1"}, changed: 40}, secret/used: {keys: {x: "1"}, changed: 40}}, expect: "",
            monitors: {web: {spec: {watch: [{kind: Secret, names: ["*"]}]}}},
            workload: {references: [secret/used], pulls: [pull, used], applied: current}}"#,
    );
    let status = monitor_status(&pulling.world(), &Case::monitor_key(), at(51)).unwrap();
    assert_eq!(
        status.conditions[0].message,
        "1 of 1 workloads run the current content; Secrets used only to pull images restart no workload: pull"
    );

    let held = case(
        r#"{name: held, now: 100, objects: {configmap/a: {keys: {x: "2"}, changed: 50}}, expect: "",
            monitors: {web: {spec: {watch: [{kind: ConfigMap, names: [a]}]}}},
            workload: {kind: StatefulSet, references: [configmap/a], applied: current, pending: 50, restarted_for: current, rollout: partition 1, desired: 1},
            pods: [{name: web-0, created: 10}]}"#,
    );
    for now in [100, 200] {
        let status = monitor_status(&held.world(), &Case::monitor_key(), at(now)).unwrap();
        assert_eq!((status.waiting, status.failed), (1, 0), "an old list of pods still says how it stands");
        let message = &status.problems[0].message;
        assert!(message.contains("partition 1 keeps 1 pods on the old content"), "{message}");
    }

    let stuck = case(
        r#"{name: stuck, now: 51, objects: {configmap/a: {keys: {x: "2"}, changed: 50}}, expect: "",
            monitors: {web: {spec: {watch: [{kind: ConfigMap, names: [a]}]}, pods_applied: current}},
            workload: {references: [configmap/a], applied: current, restarted_for: current, rollout: stuck}}"#,
    );
    let status = monitor_status(&stuck.world(), &Case::monitor_key(), at(51)).unwrap();
    assert_eq!((status.failed, status.problems.len()), (1, 1));
    assert_eq!(status.pods_applied, None, "an old one would be written back");
    assert_eq!(ready(&status), "Ready=True Watching, Authorized=True Allowed, Degraded=True RolloutStuck");

    let waiting = case(
        r#"{name: waiting, now: 51, objects: {configmap/a: {keys: {x: "2"}, changed: 50}}, expect: "",
            monitors: {web: {spec: {watch: [{kind: ConfigMap, names: [a]}]}}},
            workload: {references: [configmap/a], applied: {configmap/a: {x: "1"}}, rollout: unfinished}}"#,
    );
    let soon = monitor_status(&waiting.world(), &Case::monitor_key(), at(100)).unwrap();
    assert_eq!((soon.waiting, soon.problems.len()), (1, 0), "rollouts take their time");
    let late = monitor_status(&waiting.world(), &Case::monitor_key(), at(350)).unwrap();
    assert_eq!((late.waiting, late.failed), (1, 0));
    assert_eq!(ready(&late), "Ready=True Watching, Authorized=True Allowed, Degraded=True RolloutUnfinished");
    let plan = plan_workload(&waiting.world(), &waiting.workload_key(), at(350));
    assert_eq!(plan.recheck, Some(at(410)), "an event that is lost must not be missed");

    let refused = case(
        r#"{name: refused, now: 51, objects: {configmap/a: {keys: {x: "2"}, changed: 50}}, expect: "",
            monitors: {web: {authority: refused, spec: {watch: [{kind: ConfigMap, names: [a]}]}}}}"#,
    );
    let status = monitor_status(&refused.world(), &Case::monitor_key(), at(51)).unwrap();
    assert_eq!(ready(&status), "Ready=False Forbidden, Authorized=False Forbidden, Stalled=True Forbidden");

    let suspended = case(
        r#"{name: suspended, now: 51, expect: "", objects: {configmap/a: {keys: {x: "2"}, changed: 50}},
            monitors: {web: {spec: {suspend: true, watch: [{kind: ConfigMap, names: [a]}]}}}}"#,
    );
    let status = monitor_status(&suspended.world(), &Case::monitor_key(), at(51)).unwrap();
    assert_eq!(ready(&status), "Ready=True Suspended, Authorized=True Allowed");

    let invalid = case(r#"{name: invalid, now: 51, expect: "", monitors: {web: {spec: {watch: []}}}}"#);
    let mut world = invalid.world();
    world.forget_monitor_authority(&Case::monitor_key(), |_| true);
    let status = monitor_status(&world, &Case::monitor_key(), at(51)).unwrap();
    assert_eq!(ready(&status), "Ready=False Invalid, Stalled=True Invalid");
}

fn ready_of(world: &World, now: i64) -> String {
    let status = monitor_status(world, &Case::monitor_key(), at(now)).unwrap();
    let ready = status.conditions.iter().find(|one| one.type_ == "Ready").unwrap();
    format!("{} {}: {}", ready.status, ready.reason, ready.message)
}

/// As a rule says `NoTarget`: a name that is misspelt looks like one that is there and calm.
#[test]
fn a_monitor_says_that_it_watches_or_restarts_nothing() {
    let nothing = case(
        r#"{name: nothing, now: 51, expect: "", objects: {configmap/b: {keys: {x: "2"}, changed: 50}},
            monitors: {web: {spec: {watch: [{kind: ConfigMap, names: [a]}, {kind: Secret, names: ["a-*"]}]}}}}"#,
    );
    assert_eq!(
        ready_of(&nothing.world(), 51),
        "True NoObject: namespace shop has none of the objects that spec.watch names (for example, no ConfigMap a): create the object, or \
         correct the name"
    );
    for (workloads, expected) in [
        ("", "no workload uses an object that spec.watch names"),
        (
            "workloads: {podSelector: {matchLabels: {app: x}}},",
            "spec.workloads.podSelector matches no workload's pod template",
        ),
        (
            "workloads: {names: [{kind: Deployment, name: x}]},",
            "spec.workloads names only workloads that do not exist (for example, Deployment x)",
        ),
    ] {
        let text = format!(
            r#"{{name: nobody, now: 51, expect: "", objects: {{configmap/a: {{keys: {{x: "2"}}, changed: 50}}}},
                monitors: {{web: {{spec: {{{workloads} watch: [{{kind: ConfigMap, names: [a]}}]}}}}}}}}"#
        );
        let expected =
            format!("True NoWorkload: {expected} in namespace shop: the monitor restarts no workload");
        assert_eq!(ready_of(&case(&text).world(), 51), expected);
    }
    // Whether there are pods without a workload is not known before they are due.
    let pods = case(
        r#"{name: pods, now: 51, expect: "", objects: {configmap/a: {keys: {x: "2"}, changed: 50}},
            monitors: {web: {spec: {watch: [{kind: ConfigMap, names: [a]}], strategy: {type: Delete},
                workloads: {podSelector: {matchLabels: {app: x}}}}}}}"#,
    );
    assert!(ready_of(&pods.world(), 51).starts_with("True Watching: "));
}

/// No managedFields entry tells of a removed pod, and between two removals the plan says that it waits.
#[test]
fn a_status_counts_a_workload_whose_pods_are_replaced_one_by_one_as_restarting() {
    let between = case(
        r#"{name: between, now: 60, expect: "", objects: {configmap/a: {keys: {x: "2"}, changed: 50}},
            monitors: {web: {spec: {watch: [{kind: ConfigMap, names: [a]}], strategy: {type: Evict}}}},
            workload: {references: [configmap/a], applied: {configmap/a: {x: "1"}}, recorded: 20, desired: 2},
            pods: [{name: web-1, created: 10}, {name: web-2, created: 55, unready: true}]}"#,
    );
    let mut world = between.world();
    let counts = |world: &World| {
        let status = monitor_status(world, &Case::monitor_key(), at(60)).unwrap();
        (status.restarting, status.waiting, status.last_restart_time.map(|time| time.0))
    };
    let removed = |world: &mut World, second| {
        world.memory_mut().at_workload(&between.workload_key(), |memory| memory.pods_removed(at(second)));
    };
    assert_eq!(counts(&world), (0, 1, None));
    // For content of before: this one is due anew.
    removed(&mut world, 40);
    assert_eq!(counts(&world), (0, 1, Some(at(40))));
    removed(&mut world, 54);
    assert_eq!(counts(&world), (1, 0, Some(at(54))));
}
