//! What `copyrator plan` and `status`, and the Events on changed objects, say of restarts.

use copyrator::{
    explain::{Around, foresee_workload, workload_outlook},
    plan::restart::{restarting_for, workloads_using},
};

use super::{case, object, world::at};

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
            "Paused Hold Paused: ConfigMap a has changed, but the workload is paused: it restarts when you resume it",
        ),
        (
            r#"workload: {references: [configmap/a], annotation: "true", applied: {configmap/a: {x: "1"}}, recorded: 30, rollout: unfinished}"#,
            "Waiting Wait RolloutUnfinished: a rollout is in progress and must finish first",
        ),
        (
            r#"monitors: {web: {spec: {watch: [{kind: ConfigMap, names: [a]}], window: {schedule: "0 2 * * *", duration: 1h}}}},
               workload: {references: [configmap/a], applied: {configmap/a: {x: "1"}}, recorded: 30}"#,
            "Waiting Restart QuietPeriod at 7200: ConfigMap a has changed; the window of ConfigMonitor shop/web is closed; to restart \
             once outside the window: kubectl annotate cfgmon web -n shop --overwrite copyrator.dev/restart-now=1; Rollout for web",
        ),
        (
            r#"monitors: {web: {spec: {suspend: true, watch: [{kind: ConfigMap, names: [a]}]}}}, workload: {references: [configmap/a]}"#,
            "Unwatched Current Suspended: ConfigMonitor shop/web is suspended",
        ),
        (
            r#"workload: {references: [configmap/a], annotation: "configmaps/a"}"#,
            "Unwatched Current MalformedAnnotation: annotation copyrator.dev/restart: \"configmaps/a\" is not a valid value; write \"configmap/a\"",
        ),
        // Copyrator saw it first when its pods were older than the content: nothing tells what they began with.
        (
            r#"workload: {references: [configmap/a], annotation: "true", applied: current, recorded: 50, templated: 10}"#,
            "Current Current Current: Copyrator first saw the workload at 1970-01-01T00:00:50Z and assumed that its pods run the current \
             content. The content was written at 1970-01-01T00:00:50Z, after the pod template: if pods are older than the content, run \
             kubectl rollout restart",
        ),
        (
            r#"workload: {references: [configmap/a], annotation: "true", applied: current, recorded: 50, templated: 50}"#,
            "Current Current Current: ",
        ),
        (
            r#"monitors: {web: {authority: refused, spec: {watch: [{kind: ConfigMap, names: [a]}]}}}, workload: {references: [configmap/a]}"#,
            "Unauthorized Refuse Unauthorized: ConfigMonitor shop/web may not restart the workload: the monitor's status says which right is missing",
        ),
    ] {
        let case = case(&format!("{{name: outlook, now: 51, {changed} {rest}, {pods}}}"));
        let (mut world, key) = (case.world(), case.workload_key());
        let foreseen = foresee_workload(&mut world, &key, at(51));
        let outlook = workload_outlook(&world, &key, &foreseen, &Around::default()).unwrap();
        let when = outlook.at.map(|at| format!(" at {}", at.as_second())).unwrap_or_default();
        let monitors = outlook.monitors.iter().map(|monitor| monitor.named().name.to_string());
        let by: Vec<String> = monitors.chain(outlook.by_annotation.then(|| "annotation".into())).collect();
        let how = outlook.strategy.map(|how| format!("; {how:?} for {}", by.join(","))).unwrap_or_default();
        let said = format!(
            "{} {:?} {}{when}: {}{how}",
            outlook.state,
            outlook.course,
            outlook.reason.as_str(),
            outlook.message
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
