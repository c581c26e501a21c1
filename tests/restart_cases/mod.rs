//! Restart decisions as data: a world in, a plan as text out. Every action is then carried out on the world, and
//! the plan of that must be empty (a plan, applied, gives a snapshot whose plan is empty).

mod model;
mod outlook;
mod places;
mod simulation;
mod stages;
mod status;
mod tables;
mod world;

use std::{collections::BTreeMap, fs, path::Path};

use copyrator::{
    explain::{Around, RestartCourse, foresee_workload, workload_outlook},
    model::{Rollout, TrackRecord, WorkloadFacts, World},
    names::{Declarer, WorkloadKey},
    plan::restart::{
        InputDigest, Inputs, Removal, RemovePod, RestartAction, RestartState, SelectedPodsAction,
        monitors_reaching, plan_selected_pods, plan_workload, workloads_using,
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
            let content = Inputs::of(&world, &key, &world.workloads()[&key]).content(&world, &digest_key());
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

    fn run_workload(&self, world: &mut World, key: &WorkloadKey, current: Option<&InputDigest>) -> String {
        self.events_reach_it(world, key);
        let plan = plan_workload(world, key, at(self.now));
        assert!(model::names(&plan.state), "{}: docs/restart-model.md lacks {:?}", self.name, plan.state);
        self.told_as_planned(world, key);
        let mut text = vec![state(&plan.state)];
        text.extend(
            plan.needs.iter().map(|need| format!("needs {}", format!("{need:?}").split('(').next().unwrap())),
        );
        let mut action = plan.action;
        while let Some(step) = action.take() {
            let facts = world.workloads()[key].clone();
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
                    matches!(again.state, RestartState::Current | RestartState::Restarting),
                    "{}",
                    self.name
                );
            }
        }
        text.join("; ")
    }

    /// Whatever counts for a workload must be found from the other side too, or its change would go unnoticed.
    fn events_reach_it(&self, world: &World, key: &WorkloadKey) {
        let inputs = Inputs::of(world, key, &world.workloads()[key]);
        for object in inputs.objects.keys().chain(&inputs.missing).chain(&inputs.absent) {
            assert!(workloads_using(world, object).contains(key), "{}: {object}", self.name);
        }
        assert!(inputs.monitors.is_subset(&monitors_reaching(world, key)), "{}", self.name);
    }

    /// What `copyrator plan` and `status` say of a workload is what its plan does, now or when the waits have passed.
    fn told_as_planned(&self, world: &mut World, key: &WorkloadKey) {
        let seen = world.pods(key).cloned();
        let foreseen = foresee_workload(world, key, at(self.now));
        let outlook = workload_outlook(world, key, &foreseen, &Around::default());
        if let Some(seen) = seen {
            world.set_pods(key, seen);
        }
        let Some(outlook) = outlook else {
            assert_eq!(foreseen.now.state, RestartState::Unwatched, "{}", self.name);
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
    }

    fn run_selected(&self, world: &mut World, current: &InputDigest) -> String {
        let name = Self::monitor_key();
        let plan = plan_selected_pods(world, &name, at(self.now));
        let mut text = vec![state(&plan.state)];
        text.extend(
            plan.needs.iter().map(|need| format!("needs {}", format!("{need:?}").split('(').next().unwrap())),
        );
        match plan.action {
            Some(SelectedPodsAction::Record(label)) => {
                text.push(format!("record {}", label.replace(&current.label(), "current")));
                recorded(world, &name, label);
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
fn begins(action: &RestartAction, current: &InputDigest) -> bool {
    action.label() != current.label()
}

fn state(state: &RestartState) -> String {
    match state {
        RestartState::Waiting(wait) => {
            let until = wait.until.map_or(String::new(), |until| format!(" until {}", until.as_second()));
            format!("Waiting {}{until}", wait.reason.as_str())
        }
        RestartState::Unauthorized(name) => format!("Unauthorized {name}"),
        RestartState::Failed(failure) => format!("Failed {}", failure.as_str()),
        other => format!("{other:?}"),
    }
}

fn print(action: &RestartAction, current: &InputDigest, before: &WorkloadFacts) -> String {
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
fn print_track(track: &TrackRecord, before: &WorkloadFacts, current: &InputDigest) -> String {
    let brake = track.brake().filter(|brake| brake != "1.0");
    let brake = brake.map_or(String::new(), |brake| format!(" brake {brake}"));
    let digest = |applied: &String| applied.rsplit_once('.').map(|(digest, _)| digest.to_owned());
    let so_far = before.restarts.applied.as_ref().and_then(digest);
    let good = match &track.last_good {
        good if *good == before.restarts.track.last_good => "",
        Some(good) if *good == current.digest => " good current",
        good if *good == so_far => "",
        Some(_) => " good other",
        None => " good none",
    };
    brake + good
}

/// What the API server and its controllers do about an action.
pub fn carry_out(world: &mut World, key: &WorkloadKey, action: &RestartAction, now: i64) {
    if let RestartAction::RemovePods { pods, .. } = action {
        return world.edit_pods(key, |seen| {
            for pod in seen.pods.iter_mut().filter(|pod| pods.iter().any(|one| one.name == pod.name)) {
                (pod.leaving, pod.ready) = (true, false);
            }
        });
    }
    world.set_lost_record(key, None);
    world.edit_workload(key, |facts| match action {
        RestartAction::Adopt { label, track } | RestartAction::Begin { label, track } => {
            facts.restarts.track = track.clone();
            // The API server gives the entry of an apply that changes nothing no time.
            if facts.restarts.applied.as_ref() != Some(label) {
                facts.restarts.recorded = Some(at(now));
            }
            (facts.restarts.applied, facts.restarts.verified) = (Some(label.clone()), true);
        }
        RestartAction::Rollout { label, stamp, track } => {
            facts.restarts.track = track.clone();
            assert_ne!(facts.restarts.restarted_for.as_ref(), Some(stamp), "the template would not change");
            // A forced apply takes the label from whoever owned another value.
            facts.restarts.verified &= facts.restarts.applied.as_ref() == Some(label);
            (facts.restarts.applied, facts.restarts.recorded) = (Some(label.clone()), Some(at(now)));
            facts.restarts.restarted_for = Some(stamp.clone());
            (facts.restarts.last_restart, facts.templated) = (Some(at(now)), Some(at(now)));
            if !matches!(facts.rollout, Rollout::OnDelete) {
                facts.rollout = Rollout::Unfinished;
            }
        }
        RestartAction::RemovePods { .. } => {}
    });
}

/// What its pods run with is written down in a monitor's status.
pub fn recorded(world: &mut World, monitor: &Declarer, label: String) {
    world.edit_monitor(monitor, |facts| facts.status.get_or_insert_default().pods_applied = Some(label));
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

fn object(name: &str) -> copyrator::names::ObjectKey {
    copyrator::names::ObjectKey::new(copyrator::names::Kind::ConfigMap, world::NAMESPACE, name)
}
