//! Restart decisions as data: a world in, a plan as text out. Every action is then carried out on the world, and
//! the plan of that must be empty (a plan, applied, gives a snapshot whose plan is empty).

#![allow(clippy::unwrap_used, reason = "a test that cannot read its cases has failed")]

mod simulation;
mod stages;
mod status;
mod tables;
mod world;

use std::{collections::BTreeMap, fs, path::Path};

use copyrator::{
    model::{Rollout, TrackRecord, WorkloadFacts, WorkloadKey, World},
    plan::{
        Around, Content, Inputs, Removal, RemovePod, RestartAction, RestartCourse, SelectedPodsAction,
        SelectedPodsState, WorkloadState, foresee_workload, monitor_status, monitors_reaching,
        plan_selected_pods, plan_workload, restarting_for, workload_outlook, workloads_using,
    },
};

use world::{Case, Expect, at, digest_key};

impl Case {
    fn run(&self) -> Expect {
        match self.workloads.is_empty() {
            true => Expect::One(self.run_one()),
            false => Expect::Each(self.run_each()),
        }
    }

    /// Each of several workloads, planned on the same world: that is when they could all take the same place.
    fn run_each(&self) -> BTreeMap<String, String> {
        let each = self.several().map(|(key, _)| {
            let mut world = self.world();
            let content = Inputs::of(&world, &key, &world.workloads[&key]).content(&world, &digest_key());
            (key.name.to_string(), self.run_workload(&mut world, &key, content.as_ref()))
        });
        each.collect()
    }

    fn run_one(&self) -> String {
        let mut world = self.world();
        let current = self.current(&world);
        if self.workload.is_none() {
            return self.run_selected(&mut world, &current);
        }
        self.run_workload(&mut world, &self.workload_key(), Some(&current))
    }

    fn run_workload(&self, world: &mut World, key: &WorkloadKey, current: Option<&Content>) -> String {
        self.events_reach_it(world, key);
        let plan = plan_workload(world, key, at(self.now));
        self.told_as_planned(world, key);
        let mut text = vec![state(&plan.state)];
        text.extend(
            plan.needs.iter().map(|need| format!("needs {}", format!("{need:?}").split('(').next().unwrap())),
        );
        let mut action = plan.action;
        while let Some(step) = action.take() {
            let facts = world.workloads[key].clone();
            text.push(print(&step, current.unwrap(), &facts));
            carry_out(world, key, &step, self.now);
            let again = plan_workload(world, key, at(self.now));
            // What has begun goes on: one step after the other, and then nothing.
            if begins(&step, current.unwrap()) && again.action.is_some() {
                action = again.action;
                continue;
            }
            // With the last old pod on its way out there is nothing left but to say so.
            let is_last = matches!(
                (&step, &again.action),
                (RestartAction::RemovePods { .. }, Some(RestartAction::Adopt { .. }))
            );
            assert!(is_last || again.action.is_none(), "{}: not idempotent: {:?}", self.name, again.action);
            let action = &step;
            if matches!(action, RestartAction::Adopt { .. } | RestartAction::Rollout { .. }) {
                assert!(
                    matches!(again.state, WorkloadState::UpToDate | WorkloadState::Restarting),
                    "{}",
                    self.name
                );
            }
        }
        text.join("; ")
    }

    /// Whatever counts for a workload must be found from the other side too, or its change would go unnoticed.
    fn events_reach_it(&self, world: &World, key: &WorkloadKey) {
        let inputs = Inputs::of(world, key, &world.workloads[key]);
        for object in inputs.objects.keys().chain(&inputs.missing).chain(&inputs.absent) {
            assert!(workloads_using(world, object).contains(key), "{}: {object}", self.name);
        }
        assert!(inputs.monitors.is_subset(&monitors_reaching(world, key)), "{}", self.name);
    }

    /// What `copyrator plan` and `status` say of a workload is what its plan does, now or when the waits have passed.
    fn told_as_planned(&self, world: &mut World, key: &WorkloadKey) {
        let seen = world.pods.get(key).cloned();
        let foreseen = foresee_workload(world, key, at(self.now));
        let outlook = workload_outlook(world, key, &foreseen, &Around::default());
        if let (Some(seen), Some(pods)) = (seen, world.pods.get_mut(key)) {
            *pods = seen;
        }
        let Some(outlook) = outlook else {
            assert_eq!(foreseen.now.state, WorkloadState::NotWatched, "{}", self.name);
            return;
        };
        let then = &foreseen.then;
        let restarts = then.action.as_ref().is_some_and(RestartAction::restarts);
        assert_eq!(outlook.course == RestartCourse::Restart, restarts, "{}: {outlook:?}", self.name);
        assert_eq!(restarts, outlook.strategy.is_some() && outlook.at == Some(foreseen.at), "{}", self.name);
        let records = matches!(then.action, Some(RestartAction::Adopt { .. }));
        assert_eq!(outlook.course == RestartCourse::Record, records, "{}: {outlook:?}", self.name);
        let is_unknown = !then.needs.is_empty();
        assert_eq!(outlook.course == RestartCourse::Unknown, is_unknown, "{}: {outlook:?}", self.name);
        assert!(!outlook.reason.is_empty(), "{}", self.name);
    }

    fn run_selected(&self, world: &mut World, current: &Content) -> String {
        let name = Self::monitor_key();
        let plan = plan_selected_pods(world, &name, at(self.now));
        let mut text = vec![match plan.state {
            SelectedPodsState::Waiting(wait) => state(&WorkloadState::Waiting(wait)),
            other => format!("{other:?}"),
        }];
        text.extend(
            plan.needs.iter().map(|need| format!("needs {}", format!("{need:?}").split('(').next().unwrap())),
        );
        match plan.action {
            Some(SelectedPodsAction::Record(label)) => {
                text.push(format!("record {}", label.replace(&current.label(), "current")));
                world.monitors.get_mut(&name).unwrap().status.get_or_insert_default().pods_applied =
                    Some(label);
                match plan_selected_pods(world, &name, at(self.now)).action {
                    Some(SelectedPodsAction::Remove { pods, how, .. }) => text.push(removed(&pods, how)),
                    again => assert_eq!(again, None, "{}", self.name),
                }
            }
            Some(SelectedPodsAction::Remove { pods, how, .. }) => text.push(removed(&pods, how)),
            None => {}
        }
        text.join("; ")
    }
}

fn removed(pods: &[RemovePod], how: Removal) -> String {
    format!("{how:?} {}", pods.iter().map(|pod| &*pod.name).collect::<Vec<_>>().join(" "))
}

/// Whether pods are replaced one by one after this.
fn begins(action: &RestartAction, current: &Content) -> bool {
    action.label() != current.label()
}

fn state(state: &WorkloadState) -> String {
    match state {
        WorkloadState::Waiting(wait) => {
            let until = wait.until.map_or(String::new(), |until| format!(" until {}", until.as_second()));
            format!("Waiting {}{until}", wait.reason.as_str())
        }
        WorkloadState::Unauthorized(name) => format!("Unauthorized {name}"),
        WorkloadState::Failed { reason, .. } => format!("Failed {reason}"),
        other => format!("{other:?}"),
    }
}

fn print(action: &RestartAction, current: &Content, before: &WorkloadFacts) -> String {
    match action {
        RestartAction::Adopt { label, track } => {
            format!("adopt {label}{}", print_track(track, before, current))
        }
        RestartAction::Begin { label, track } => {
            format!("begin {label}{}", print_track(track, before, current))
        }
        RestartAction::Rollout { label, stamp, track } => {
            format!("rollout {label} stamp {stamp}{}", print_track(track, before, current))
        }
        RestartAction::RemovePods { pods, how, .. } => {
            let how = if *how == Removal::Evict { "evict" } else { "delete" };
            format!("{how} {}", pods.iter().map(|pod| &*pod.name).collect::<Vec<_>>().join(" "))
        }
    }
    .replace(&current.label(), "current")
    .replace(&current.digest, "current")
}

/// What goes without saying is left out: that this is a first restart, and that it was ready with the content recorded so
/// far.
fn print_track(track: &TrackRecord, before: &WorkloadFacts, current: &Content) -> String {
    let brake = track.brake().filter(|brake| brake != "1.0");
    let brake = brake.map_or(String::new(), |brake| format!(" brake {brake}"));
    let digest = |applied: &String| applied.rsplit_once('.').map(|(digest, _)| digest.to_owned());
    let so_far = before.applied.as_ref().and_then(digest);
    let good = match &track.last_good {
        good if *good == before.track.last_good => "",
        Some(good) if *good == current.digest => " good current",
        good if *good == so_far => "",
        Some(_) => " good other",
        None => " good none",
    };
    brake + good
}

/// What the API server and its controllers do about an action.
pub fn carry_out(world: &mut World, key: &WorkloadKey, action: &RestartAction, now: i64) {
    let facts = world.workloads.get_mut(key).unwrap();
    if !matches!(action, RestartAction::RemovePods { .. }) {
        world.taken.remove(key);
    }
    match action {
        RestartAction::Adopt { label, track } | RestartAction::Begin { label, track } => {
            facts.track = track.clone();
            (facts.applied, facts.recorded) = (Some(label.clone()), Some(at(now)));
        }
        RestartAction::Rollout { label, stamp, track } => {
            facts.track = track.clone();
            assert_ne!(facts.restarted_for.as_ref(), Some(stamp), "the template would not change");
            (facts.applied, facts.recorded) = (Some(label.clone()), Some(at(now)));
            facts.restarted_for = Some(stamp.clone());
            (facts.last_restart, facts.templated) = (Some(at(now)), Some(at(now)));
            if !matches!(facts.rollout, Rollout::OnDelete) {
                facts.rollout = Rollout::Unfinished;
            }
        }
        RestartAction::RemovePods { pods, .. } => {
            let seen = world.pods.get_mut(key).unwrap();
            for pod in seen.pods.iter_mut().filter(|pod| pods.iter().any(|one| one.name == pod.name)) {
                (pod.leaving, pod.ready) = (true, false);
            }
        }
    }
}

#[test]
fn every_case() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases/restart");
    let mut failures = Vec::new();
    let mut count = 0;
    for file in fs::read_dir(folder).unwrap() {
        let path = file.unwrap().path();
        let text = fs::read_to_string(&path).unwrap();
        let cases: Vec<Case> =
            serde_saphyr::from_str(&text).unwrap_or_else(|error| panic!("{path:?}: {error}"));
        for case in cases {
            count += 1;
            let got = case.run();
            if got != case.expect {
                failures.push(format!(
                    "{}: {}\n  expected {:?}\n  got      {got:?}",
                    path.display(),
                    case.name,
                    case.expect
                ));
            }
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    assert!(count > 30, "only {count} cases were found");
}

fn case(text: &str) -> Case {
    serde_saphyr::from_str(text).unwrap()
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
        "Deployment web uses ConfigMap gone and 1 more, which do not exist: create them, or correct the names"
    );

    let pulling = case(
        r#"{name: pulling, now: 51, objects: {secret/pull: {keys: {x: "1"}, changed: 40}, secret/used: {keys: {x: "1"}, changed: 40}}, expect: "",
            monitors: {web: {spec: {watch: [{kind: Secret, names: ["*"]}]}}},
            workload: {references: [secret/used], pulls: [pull, used], applied: current}}"#,
    );
    let status = monitor_status(&pulling.world(), &Case::monitor_key(), at(51)).unwrap();
    assert_eq!(
        status.conditions[0].message,
        "1 of 1 workloads run the current content; images are pulled with pull, which restarts nobody"
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
        assert!(message.contains("1 pods below its partition 1"), "{message}");
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

    let invalid = case(r#"{name: invalid, now: 51, expect: "", monitors: {web: {spec: {watch: []}}}}"#);
    let mut world = invalid.world();
    world.monitor_authority.clear();
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
        "True NoObject: namespace shop has nothing that spec.watch names (no ConfigMap a, to begin with): create it, or \
         correct the name"
    );
    for (workloads, expected) in [
        ("", "no workload references what spec.watch names"),
        (
            "workloads: {podSelector: {matchLabels: {app: x}}},",
            "spec.workloads.podSelector matches no workload's pod template",
        ),
        (
            "workloads: {names: [{kind: Deployment, name: x}]},",
            "spec.workloads names nothing that is there (Deployment x, to begin with)",
        ),
    ] {
        let text = format!(
            r#"{{name: nobody, now: 51, expect: "", objects: {{configmap/a: {{keys: {{x: "2"}}, changed: 50}}}},
                monitors: {{web: {{spec: {{{workloads} watch: [{{kind: ConfigMap, names: [a]}}]}}}}}}}}"#
        );
        let expected =
            format!("True NoWorkload: {expected} in namespace shop: nothing restarts for this monitor");
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
    assert_eq!(counts(&world), (0, 1, None));
    // For content of before: this one is due anew.
    world.removed_at.insert(between.workload_key(), at(40));
    assert_eq!(counts(&world), (0, 1, Some(at(40))));
    world.removed_at.insert(between.workload_key(), at(54));
    assert_eq!(counts(&world), (1, 0, Some(at(54))));
}

/// What a plan says of a workload, looking past the waits that the clock ends.
#[test]
fn an_outlook_says_when_and_why() {
    let changed = r#"objects: {configmap/a: {keys: {x: "2"}, changed: 50}, secret/b: {keys: {k: "1"}, changed: 10}}, expect: "","#;
    let pods = "pods: [{name: web-1, created: 10}]";
    for (rest, expected) in [
        (
            r#"monitors: {web: {spec: {watch: [{kind: ConfigMap, names: [a]}], pace: {quietPeriod: 5s, minInterval: 1m}}}},
               workload: {references: [configmap/a], applied: {configmap/a: {x: "1"}}, last_restart: 30, recorded: 30}"#,
            "Waiting Restart QuietPeriod at 90: ConfigMap a has changed; Rollout for web",
        ),
        (
            r#"workload: {references: [configmap/a, secret/b], annotation: "true", recorded: 30,
                applied: {configmap/a: {x: "1"}, secret/b: {k: "1"}}}"#,
            "Waiting Restart QuietPeriod at 53: ConfigMap a has changed; Rollout for annotation",
        ),
        (
            r#"workload: {references: [configmap/a], annotation: "true", applied: {configmap/a: {x: "1"}}, recorded: 30, rollout: paused}"#,
            "Paused Hold Paused: ConfigMap a has changed, and it is paused: resume it, and it restarts",
        ),
        (
            r#"workload: {references: [configmap/a], annotation: "true", applied: {configmap/a: {x: "1"}}, recorded: 30, rollout: unfinished}"#,
            "Waiting Wait RolloutUnfinished: a rollout is under way, and has to end first",
        ),
        (
            r#"monitors: {web: {spec: {watch: [{kind: ConfigMap, names: [a]}], window: {schedule: "0 2 * * *", duration: 1h}}}},
               workload: {references: [configmap/a], applied: {configmap/a: {x: "1"}}, recorded: 30}"#,
            "Waiting Restart QuietPeriod at 7200: ConfigMap a has changed; the window of ConfigMonitor shop/web is closed; \
             past it, once: kubectl annotate cfgmon web -n shop --overwrite copyrator.dev/restart-now=1; Rollout for web",
        ),
        (
            r#"monitors: {web: {spec: {suspend: true, watch: [{kind: ConfigMap, names: [a]}]}}}, workload: {references: [configmap/a]}"#,
            "Unwatched Current Suspended: ConfigMonitor shop/web is suspended",
        ),
        (
            r#"workload: {references: [configmap/a], annotation: "configmaps/a"}"#,
            "Unwatched Current MalformedAnnotation: annotation copyrator.dev/restart: \"configmaps/a\" names nothing to restart \
             for; write \"configmap/a\"",
        ),
        (
            r#"monitors: {web: {authority: refused, spec: {watch: [{kind: ConfigMap, names: [a]}]}}}, workload: {references: [configmap/a]}"#,
            "Unauthorized Refuse Unauthorized: ConfigMonitor shop/web may not restart it: its status says what it lacks",
        ),
    ] {
        let case = case(&format!("{{name: outlook, now: 51, {changed} {rest}, {pods}}}"));
        let (mut world, key) = (case.world(), case.workload_key());
        let foreseen = foresee_workload(&mut world, &key, at(51));
        let outlook = workload_outlook(&world, &key, &foreseen, &Around::default()).unwrap();
        let when = outlook.at.map(|at| format!(" at {}", at.as_second())).unwrap_or_default();
        let monitors = outlook.monitors.iter().map(|name| name.name.to_string());
        let by: Vec<String> = monitors.chain(outlook.by_annotation.then(|| "annotation".into())).collect();
        let how = outlook.strategy.map(|how| format!("; {how:?} for {}", by.join(","))).unwrap_or_default();
        let said = format!(
            "{:?} {:?} {}{when}: {}{how}",
            outlook.state, outlook.course, outlook.reason, outlook.message
        );
        assert_eq!(said, expected);
    }
}

/// What is said on a changed object counts who restarts for it, not who waits for a person.
#[test]
fn a_change_counts_only_whom_it_restarts() {
    for (rest, count) in [("recorded: 30", 1), ("recorded: 30, rollout: paused", 0), ("recorded: 60", 0)] {
        let text = format!(
            r#"{{name: counted, now: 51, expect: "", objects: {{configmap/a: {{keys: {{x: "2"}}, changed: 50}}, configmap/b: {{keys: {{x: "2"}}, changed: 20}}}},
                workload: {{references: [configmap/a, configmap/b], annotation: "true", applied: {{configmap/a: {{x: "1"}}, configmap/b: {{x: "2"}}}}, {rest}}}}}"#
        );
        let (world, case) = (case(&text).world(), case(&text));
        let using = workloads_using(&world, &object("a"));
        assert!(using.contains(&case.workload_key()));
        assert_eq!(restarting_for(&world, &object("a"), at(51)).len(), count, "{rest}");
        assert!(restarting_for(&world, &object("b"), at(51)).is_empty(), "it has not changed");
    }
}

fn object(name: &str) -> copyrator::model::ObjectKey {
    copyrator::model::ObjectKey::new(copyrator::model::Kind::ConfigMap, world::NAMESPACE, name)
}
