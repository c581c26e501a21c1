//! The tables of docs/restarting.md, held against the planner and against the API's own schema.

use std::{collections::BTreeMap, fs, path::Path};

use copyrator::{
    intake::workload::Workload,
    model::{PodFacts, Rollout, World},
    plan::restart::{
        Removal, RemovePod, RestartAction, RestartState, SelectedPodsAction, plan_selected_pods,
        plan_workload,
    },
};
use k8s_openapi::api::{apps::v1::Deployment, core::v1::PodSpec};
use serde_json::{Value, json};

use super::{
    carry_out, case, recorded,
    world::{Case, at},
};

/// The rows of the table whose head begins with this word.
fn table(head: &str) -> Vec<Vec<String>> {
    let page = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/restarting.md")).unwrap();
    let cells = |line: &str| -> Vec<String> {
        line.trim_matches('|').split('|').map(|cell| cell.trim().to_owned()).collect()
    };
    let lines = page.lines().skip_while(|line| !line.starts_with(&format!("| {head} |")));
    let rows: Vec<_> = lines.skip(2).take_while(|line| line.starts_with('|')).map(cells).collect();
    assert!(rows.len() > 5, "no table of {head}");
    rows
}

/// Pods whose order by age is another one than by name.
const PODS: &str =
    "[{name: web-0, created: 12MORE}, {name: web-1, created: 10MORE}, {name: web-2, created: 11MORE}]";

/// Old pods of one kind, whose content has changed.
fn due(pods_of: &str, strategy: &str) -> (Case, bool) {
    let workload = |kind: &str, rollout: &str| Some((kind.to_owned(), rollout.to_owned()));
    let (workload, more) = match pods_of {
        "Deployment" | "StatefulSet" | "DaemonSet" => (workload(pods_of, ""), ", of_workload: true"),
        "StatefulSet with a partition" => {
            (workload("StatefulSet", ", rollout: partition 2"), ", of_workload: true")
        }
        "StatefulSet, OnDelete" => (workload("StatefulSet", ", rollout: on delete"), ", of_workload: true"),
        "DaemonSet, OnDelete" => (workload("DaemonSet", ", rollout: on delete"), ", of_workload: true"),
        "ReplicaSet without a Deployment" | "an operator's own kind" => (None, ""),
        "no owner" => (None, ", bare: true"),
        "Job or CronJob" | "node (mirror pods)" => (None, ", of_job: true"),
        other => panic!("what is {other}?"),
    };
    let pods = PODS.replace("MORE", more);
    let was = r#"{configmap/a: {x: "1"}}"#;
    let (choice, record, workload) = match &workload {
        Some((kind, rollout)) => {
            let facts = format!(
                "workload: {{kind: {kind}, references: [configmap/a], applied: {was}, desired: 3{rollout}}}"
            );
            ("", String::new(), facts)
        }
        None => (
            "workloads: {podSelector: {matchLabels: {app: web}}}, ",
            format!("pods_applied: {was}, "),
            "annotations_off: false".to_owned(),
        ),
    };
    let text = format!(
        r#"{{name: "{pods_of}", now: 100, expect: "", objects: {{configmap/a: {{keys: {{x: "2"}}, changed: 50}}}},
            monitors: {{web: {{{record}spec: {{watch: [{{kind: ConfigMap, names: [a]}}], {choice}strategy: {{type: {strategy}}}}}}}}},
            {workload}, pods: {pods}}}"#
    );
    (case(&text), choice.is_empty())
}

/// What is done until nothing is left to do.
#[derive(Default)]
struct Done {
    template: bool,
    verb: &'static str,
    /// The pods of each step.
    removed: Vec<Vec<String>>,
    held: bool,
}

impl Done {
    fn remove(&mut self, pods: &[RemovePod], how: Removal) {
        self.verb = if how == Removal::Evict { "evicts" } else { "deletes" };
        self.removed.push(pods.iter().map(|pod| pod.name.clone()).collect());
    }

    fn words(&self) -> String {
        let order: Vec<&str> = self.removed.iter().flatten().map(String::as_str).collect();
        let order = match (&order[..], self.removed.len()) {
            ([], _) => "",
            (_, 1) => "all at once",
            (["web-1", "web-2", "web-0"], _) => "oldest first",
            (["web-2", "web-1", "web-0"], _) => "highest ordinal first",
            (other, _) => panic!("in no order: {other:?}"),
        };
        match (self.template, order) {
            (true, "") if self.held => "template; those below the partition are held".into(),
            (true, "") => "template".into(),
            (true, order) => format!("template, then {}, {order}", self.verb),
            (false, "") => "nothing".into(),
            (false, order) => format!("{}, {order}", self.verb),
        }
    }
}

fn of_workload(case: &Case, world: &mut World) -> Done {
    let (key, mut done) = (case.workload_key(), Done::default());
    for turn in 1..20 {
        let now = case.now + turn * 100;
        world.edit_pods(&key, |seen| seen.at = at(now));
        let plan = plan_workload(world, &key, at(now));
        done.held = matches!(plan.state, RestartState::Held { .. });
        let Some(action) = plan.action else { break };
        let partition = match world.workloads()[&key].rollout {
            Rollout::Partitioned(partition) => Some(partition),
            _ => None,
        };
        carry_out(world, &key, &action, now);
        match &action {
            RestartAction::RemovePods { pods: removed, how, .. } => {
                done.remove(removed, *how);
                world.edit_pods(&key, |seen| {
                    for pod in seen.pods.iter_mut().filter(|pod| pod.leaving) {
                        (pod.leaving, pod.ready, pod.created) = (false, true, at(now));
                    }
                });
            }
            // The workload's own controller does what its update strategy says.
            RestartAction::Rollout { .. } => {
                done.template = true;
                let is_by_hand = world.workloads()[&key].rollout == Rollout::OnDelete;
                let replaces = |name: &str| match partition {
                    _ if is_by_hand => false,
                    Some(partition) => name.ends_with(|end: char| end >= char::from(b'0' + partition as u8)),
                    None => true,
                };
                world.edit_pods(&key, |seen| {
                    let replaced = seen.pods.iter_mut().filter(|pod| replaces(&pod.name));
                    replaced.for_each(|pod| pod.created = at(now));
                });
                if !is_by_hand {
                    let rollout = partition.map_or(Rollout::Complete, Rollout::Partitioned);
                    world.edit_workload(&key, |facts| facts.rollout = rollout);
                }
            }
            RestartAction::Adopt { .. } | RestartAction::Begin { .. } => {}
        }
    }
    done
}

fn of_selector(case: &Case, world: &mut World) -> Done {
    let (name, mut done) = (Case::monitor_key(), Done::default());
    for turn in 1..20 {
        let now = case.now + turn * 100;
        world.edit_selected_pods(&name, |seen| seen.at = at(now));
        match plan_selected_pods(world, &name, at(now)).action {
            Some(SelectedPodsAction::Record(label)) => {
                recorded(world, &name, label);
            }
            Some(SelectedPodsAction::Remove { pods: removed, how, .. }) => {
                done.remove(&removed, how);
                world.edit_selected_pods(&name, |seen| {
                    let is_it = |pod: &&mut PodFacts| removed.iter().any(|one| one.name == pod.name);
                    seen.pods.iter_mut().filter(is_it).for_each(|pod| pod.created = at(now));
                });
            }
            None => break,
        }
    }
    done
}

#[test]
fn each_strategy_does_to_each_kind_what_the_page_says() {
    for row in table("pods of") {
        let [pods_of, says @ ..] = &row[..] else { panic!() };
        for (strategy, says) in ["Rollout", "Evict", "Delete"].iter().zip(says) {
            let (case, is_workload) = due(pods_of, strategy);
            let mut world = case.world();
            let done =
                if is_workload { of_workload(&case, &mut world) } else { of_selector(&case, &mut world) };
            assert_eq!(done.words(), *says, "{pods_of}, {strategy}");
        }
    }
}

/// Every place of the API's own schema of a pod that names a ConfigMap or Secret.
fn places(schema: &Value, at: &Value, path: &str, found: &mut BTreeMap<String, ()>) {
    const NAMES: [&str; 10] = [
        "ConfigMapKeySelector",
        "SecretKeySelector",
        "ConfigMapEnvSource",
        "SecretEnvSource",
        "ConfigMapVolumeSource",
        "SecretVolumeSource",
        "ConfigMapProjection",
        "SecretProjection",
        "LocalObjectReference",
        "SecretReference",
    ];
    // allOf: a description beside a reference. anyOf: an optional one.
    for key in ["allOf", "anyOf"] {
        at[key].as_array().into_iter().flatten().for_each(|part| places(schema, part, path, found));
    }
    if let Some(reference) = at["$ref"].as_str() {
        let name = reference.rsplit('/').next().unwrap();
        if NAMES.iter().any(|one| name.ends_with(&format!(".{one}"))) {
            found.insert(path.to_owned(), ());
            return;
        }
        return places(schema, &schema["$defs"][name], path, found);
    }
    if at["items"].is_object() {
        places(schema, &at["items"], &format!("{path}[]"), found);
    }
    for (name, property) in at["properties"].as_object().into_iter().flatten() {
        let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
        if name == "secretName" {
            found.insert(path.clone(), ());
        }
        // Not part of a template.
        if name != "ephemeralContainers" {
            places(schema, property, &path, found);
        }
    }
}

/// A pod's spec with just this place.
fn spec_with(path: &str) -> Value {
    let (first, rest) = path.split_once('.').map_or((path, ""), |(first, rest)| (first, rest));
    let leaf = match first {
        "secret" => json!({ "secretName": "it" }),
        "secretName" => json!("it"),
        _ => json!({ "name": "it", "key": "k" }),
    };
    let inner = if rest.is_empty() { leaf } else { spec_with(rest) };
    match first.strip_suffix("[]") {
        Some(list) => {
            let mut inner = inner;
            if !rest.is_empty() && list != "sources" {
                inner["name"] = "v".into();
            }
            json!({ list: [inner] })
        }
        None => json!({ first: inner }),
    }
}

#[test]
fn every_place_of_a_template_is_on_the_page_and_counts_as_it_says() {
    let schema = serde_json::to_value(schemars::schema_for!(PodSpec)).unwrap();
    let mut found = BTreeMap::new();
    places(&schema, &schema, "", &mut found);
    let rows: BTreeMap<String, String> =
        table("place").into_iter().map(|row| (row[0].trim_matches('`').to_owned(), row[1].clone())).collect();
    let known: Vec<&String> = rows.keys().collect();
    // An init container has every place that a container has.
    let of_inits: Vec<String> =
        found.keys().filter_map(|path| path.strip_prefix("initContainers")).map(str::to_owned).collect();
    let of_containers: Vec<String> =
        found.keys().filter_map(|path| path.strip_prefix("containers")).map(str::to_owned).collect();
    assert_eq!(of_inits, of_containers);
    assert!(!of_inits.is_empty());
    let named: Vec<&String> = found.keys().filter(|path| !path.starts_with("initContainers")).collect();
    assert_eq!(named, known);

    for path in found.keys() {
        let says = &rows[&path.replace("initContainers", "containers")];
        let mut spec = spec_with(path);
        if path == "volumes[].projected.sources[].secret" {
            spec["volumes"][0]["projected"]["sources"][0]["secret"] = json!({ "name": "it" });
        }
        let object = json!({ "metadata": { "name": "web" }, "spec": { "template": { "spec": spec } } });
        let workload: Workload<Deployment> = serde_json::from_value(object).unwrap();
        let used: Vec<&str> = workload.facts.references.iter().map(|one| &*one.name).collect();
        let pulls: Vec<&str> = workload.facts.pull_secrets.iter().map(|one| &**one).collect();
        let expected: [&[&str]; 2] = match says.split([',', ':']).next().unwrap() {
            "yes" => [&["it"], &[]],
            "reported" => [&[], &["it"]],
            "no" => [&[], &[]],
            other => panic!("{path}: what is {other}?"),
        };
        assert_eq!([&used[..], &pulls[..]], expected, "{path}");
    }
}
