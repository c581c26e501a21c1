//! What a workload uses, and what becomes of it when that comes, goes, is made again or gets another name.

use serde_json::{Value, json};

use crate::bed::objects::{config_map, deployment, gated, label, ours, secret};
use crate::bed::{Story, eventually, peaceful};

/// A monitor of every ConfigMap and Secret at home, for whatever references them.
fn watch_all(story: &Story<'_>, quiet: &str) {
    let spec = json!({
        "watch": [{ "kind": "ConfigMap", "names": ["*"] }, { "kind": "Secret", "names": ["*"] }],
        "pace": { "quietPeriod": quiet, "minInterval": "0s" },
    });
    story.admin().create(&ours("ConfigMonitor", &story.home, "monitor", spec)).ok();
}

/// Waits until the operator has seen everything, and a clock of its own could have rung.
fn until_silent(story: &Story<'_>, part: &str) {
    story.until_later(1);
    story.marker(part);
}

fn envs(uses: &[(&str, bool)]) -> Value {
    let from =
        |(name, optional): &(&str, bool)| json!({ "configMapRef": { "name": name, "optional": optional } });
    json!({ "envFrom": uses.iter().map(from).collect::<Vec<_>>() })
}

/// Each place of a pod template that names one of the two, and whether it takes all of its keys.
fn places() -> Vec<(&'static str, bool, Value)> {
    let container = |container: Value| json!({ "containers": [container] });
    let volume = |volume: Value, mount: Value| json!({ "containers": [{ "volumeMounts": [mount] }], "volumes": [volume] });
    let mount = json!({ "name": "v", "mountPath": "/v" });
    let key = |kind: &str, name: &str| json!([{ "name": "X", "valueFrom": { kind: { "name": name, "key": "used" } } }]);
    let items = json!([{ "key": "used", "path": "used" }]);
    let init = json!({ "name": "init", "image": "example.com/init", "env": key("configMapKeyRef", "app") });
    let mut sidecar = json!({ "name": "side", "image": "example.com/side", "restartPolicy": "Always" });
    sidecar["envFrom"] = json!([{ "secretRef": { "name": "cred" } }]);
    let projected = json!({ "sources": [{ "configMap": { "name": "app" } }, { "secret": { "name": "cred", "items": items } }] });
    let sub_path = json!({ "name": "v", "mountPath": "/v", "subPath": "used" });
    vec![
        ("env-config", false, container(json!({ "env": key("configMapKeyRef", "app") }))),
        ("env-secret", false, container(json!({ "env": key("secretKeyRef", "cred") }))),
        ("env-from-config", true, container(json!({ "envFrom": [{ "configMapRef": { "name": "app" } }] }))),
        ("env-from-secret", true, container(json!({ "envFrom": [{ "secretRef": { "name": "cred" } }] }))),
        (
            "volume-config",
            true,
            volume(json!({ "name": "v", "configMap": { "name": "app" } }), mount.clone()),
        ),
        (
            "volume-items",
            false,
            volume(json!({ "name": "v", "secret": { "secretName": "cred", "items": items } }), mount.clone()),
        ),
        ("volume-sub-path", false, volume(json!({ "name": "v", "configMap": { "name": "app" } }), sub_path)),
        ("projected", true, volume(json!({ "name": "v", "projected": projected }), mount)),
        ("init", false, json!({ "containers": [{}], "initContainers": [init] })),
        ("sidecar", true, json!({ "containers": [{}], "initContainers": [sidecar] })),
    ]
}

/// Reloader#786, #507: everybody restarts for a key that one of them uses.
#[test]
fn every_place_that_names_an_object_is_found_with_its_keys() {
    let story = Story::new(peaceful(), "places");
    let write = |used: &str, unused: &str| {
        story.admin().apply(&config_map(&story.home, "app", [("used", used), ("unused", unused)])).ok();
        story.admin().apply(&secret(&story.home, "cred", [("used", used), ("unused", unused)])).ok();
    };
    write("1", "1");
    let places = places();
    let create = |name: &str, spec: &Value| {
        let mut workload = deployment(&story.home, name, json!({}));
        let template = &mut workload["spec"]["template"]["spec"];
        let plain = template["containers"][0].take();
        *template = spec.clone();
        for (field, value) in plain.as_object().expect("a container") {
            template["containers"][0][field] = value.clone();
        }
        story.admin().create(&workload).ok();
    };
    for (name, _, spec) in &places {
        create(name, spec);
    }
    create("pull-only", &json!({ "containers": [{}], "imagePullSecrets": [{ "name": "cred" }] }));
    // Long enough for both writes of a change, on a busy machine too.
    watch_all(&story, "10s");
    let mut running: Vec<String> = Vec::new();
    for (name, ..) in &places {
        story.until_adopted(name);
        running.push(story.until_running(name));
    }
    let pulling = story.until_running("pull-only");
    story.until_later(1);

    write("1", "2");
    for ((name, takes_all, _), before) in places.iter().zip(&mut running) {
        if *takes_all {
            *before = story.until_restarted(name, before);
        }
    }
    until_silent(&story, "unused");
    for ((name, takes_all, _), before) in places.iter().zip(&running) {
        assert_eq!(&story.until_running(name), before, "{name} restarted for nothing");
        assert_eq!(story.rollouts(name), if *takes_all { 2 } else { 1 }, "{name}");
    }
    write("2", "2");
    for ((name, ..), before) in places.iter().zip(&running) {
        story.until_restarted(name, before);
    }
    until_silent(&story, "used");
    for (name, takes_all, _) in &places {
        assert_eq!(story.rollouts(name), if *takes_all { 3 } else { 2 }, "{name}");
    }
    assert_eq!((story.until_running("pull-only"), story.rollouts("pull-only")), (pulling, 1));
}

/// Pods that began without an optional object, or an optional key, do not have it when it comes; pods that need it began
/// with it.
#[test]
fn what_comes_later_restarts_the_pods_that_began_without_it() {
    let story = Story::new(peaceful(), "late-comers");
    let write = |name: &str| drop(story.admin().create(&config_map(&story.home, name, [("k", "1")])).ok());
    write("app");
    let key = json!({ "name": "keyed", "key": "extra", "optional": true });
    let by_key = json!({ "env": [{ "name": "X", "valueFrom": { "configMapKeyRef": key } }] });
    write("keyed");
    let without = [
        ("only-optional", deployment(&story.home, "only-optional", envs(&[("late", true)]))),
        ("with-others", deployment(&story.home, "with-others", envs(&[("app", false), ("late", true)]))),
        ("optional-key", deployment(&story.home, "optional-key", by_key)),
    ];
    let required = gated(deployment(&story.home, "required", envs(&[("app", false), ("late", false)])));
    for workload in without.iter().map(|(_, workload)| workload).chain([&required]) {
        story.admin().create(workload).ok();
    }
    watch_all(&story, "0s");
    let names = without.map(|(name, _)| name);
    let before = names.map(|name| {
        story.until_adopted(name);
        story.until_running(name)
    });
    story.until_later(1);
    story.marker("without");
    let waiting = story.admin().get("Deployment", &story.home, "required").expect("it is there");
    assert_eq!(label(&waiting, "copyrator.dev/applied"), None, "adopted without what it needs");

    write("late");
    let patch = json!({ "data": { "extra": "1" } });
    story.admin().merge("ConfigMap", &story.home, "keyed", &patch).ok();
    let after = [0, 1, 2].map(|of| story.until_restarted(names[of], &before[of]));
    story.until_adopted("required");
    story.lift("required");
    let required = story.until_running("required");
    until_silent(&story, "then");
    assert_eq!(
        names.map(|name| (story.rollouts(name), story.until_running(name))),
        after.map(|pod| (2, pod))
    );
    assert_eq!((story.rollouts("required"), story.until_running("required")), (1, required));
}

/// `kubectl replace --force`, and operators that delete and create: equal content is no change, be it needed or optional.
#[test]
fn an_object_made_again_restarts_only_for_other_content() {
    let story = Story::new(peaceful(), "made-again");
    let app = |value: &str| config_map(&story.home, "app", [("k", value)]);
    story.admin().create(&app("1")).ok();
    story.admin().create(&config_map(&story.home, "other", [("k", "1")])).ok();
    let names = ["needed", "optional", "beside-another"];
    let uses = [vec![("app", false)], vec![("app", true)], vec![("other", false), ("app", true)]];
    for (name, uses) in names.iter().zip(&uses) {
        story.admin().create(&deployment(&story.home, name, envs(uses))).ok();
    }
    watch_all(&story, "0s");
    let before = names.map(|name| (story.until_adopted(name), story.until_running(name)));
    story.until_later(1);
    story.bed.kubectl(&["replace", "--force", "--filename", "-"], &app("1"));
    until_silent(&story, "forced");
    story.admin().delete("ConfigMap", &story.home, "app").ok();
    until_silent(&story, "gone");
    story.admin().create(&app("1")).ok();
    until_silent(&story, "back");
    let now = names.map(|name| (story.until_adopted(name), story.until_running(name)));
    assert_eq!(now, before, "restarted for equal content");
    assert_eq!(names.map(|name| story.rollouts(name)), [1, 1, 1]);

    story.admin().delete("ConfigMap", &story.home, "app").ok();
    story.admin().create(&app("2")).ok();
    for (name, (_, before)) in names.iter().zip(&before) {
        story.until_restarted(name, before);
    }
    until_silent(&story, "other");
    assert_eq!(names.map(|name| story.rollouts(name)), [2, 2, 2]);
}

/// Kustomize gives changed content another name, so that the template changes with it: that is the rollout.
#[test]
fn content_under_a_new_name_is_one_rollout() {
    let story = Story::new(peaceful(), "renamed");
    let frozen = |name: &str| {
        let mut object = config_map(&story.home, name, [("k", name)]);
        object["immutable"] = true.into();
        story.admin().create(&object).ok();
    };
    frozen("app-1");
    story.deploy("web", &["app-1"]);
    watch_all(&story, "0s");
    let mut applied = story.until_adopted("web");
    let mut running = story.until_running("web");
    for (name, rollouts) in [("app-2", 2), ("app-3", 3)] {
        story.until_later(2);
        frozen(name);
        let mut patch = deployment(&story.home, "web", envs(&[(name, false)]));
        patch.as_object_mut().expect("an object").retain(|part, _| part == "spec");
        story.admin().merge("Deployment", &story.home, "web", &patch).ok();
        running = story.until_restarted("web", &running);
        applied = eventually("the new content is recorded", || {
            let now = story.until_adopted("web");
            if now == applied { Err(now) } else { Ok(now) }
        });
        until_silent(&story, name);
        assert_eq!((story.rollouts("web"), story.stamp("web")), (rollouts, None));
    }
    // Nobody uses it any more.
    story.admin().delete("ConfigMap", &story.home, "app-1").ok();
    until_silent(&story, "pruned");
    assert_eq!(
        (story.rollouts("web"), story.until_running("web"), story.until_adopted("web")),
        (3, running, applied)
    );
}
