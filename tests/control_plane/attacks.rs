//! What tenants try, with real rights and no more: pods of others by way of a monitor, and labels as a way around policies.

use serde_json::{Value, json};

use crate::authority::grant;
use crate::bed::objects::{annotation, binding, config_map, data, ours, pod, secret, uid, version};
use crate::bed::{Answer, Person, Story, eventually, peaceful, same};

/// A monitor restarts in its own namespace, and pods go by the right to have them go: to evict or delete all of them, or, for
/// those of a workload under OnDelete, to write that workload.
#[test]
fn a_monitor_takes_no_pod_that_its_author_could_not() {
    let story = Story::new(peaceful(), "others-pods");
    let (bed, other) = (story.bed, story.bystander("other"));
    bed.admin.create(&binding(&story.home, "bob", "edit")).ok();
    let ours_and_workloads = json!([
        { "apiGroups": ["copyrator.dev"], "resources": ["*"], "verbs": ["*"] },
        { "apiGroups": ["apps"], "resources": ["statefulsets"], "verbs": ["patch"] },
    ]);
    grant(&story, "alice", ours_and_workloads);
    for place in [&story.home, &other] {
        bed.admin.create(&config_map(place, "app", [("k", "1")])).ok();
        bed.admin.create(&pod(place, "web-0", &data([("app", "web")]))).ok();
        // No pod of the StatefulSet, whatever its labels say.
        bed.admin.create(&pod(place, "by-label", &data([("app", "db")]))).ok();
    }
    bed.admin.create(&stateful_set(&story.home)).ok();
    bed.admin.create(&job(&story.home)).ok();
    let uids = |place: &str| -> Vec<String> {
        let mut pods = bed.admin.list("Pod", place, "");
        pods.retain(|pod| pod["metadata"]["deletionTimestamp"].is_null());
        pods.iter().map(uid).collect()
    };
    eventually("all pods are there", || same((uids(&story.home).len(), uids(&other).len()), (4, 2)));
    let uid_of = |place: &str, part: &str| {
        let name = |pod: &Value| pod["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        let pods = bed.admin.list("Pod", place, "");
        pods.iter().find(|pod| name(pod).starts_with(part)).map(uid)
    };
    let kept = || {
        [
            uid_of(&story.home, "by-label"),
            uid_of(&story.home, "once-"),
            uid_of(&other, "web-0"),
            uid_of(&other, "by-label"),
        ]
    };
    let (before, gone, replaced) = (kept(), uid_of(&story.home, "web-0"), uid_of(&story.home, "db-0"));
    assert!(before.iter().all(Option::is_some) && gone.is_some() && replaced.is_some(), "{before:?}");

    let monitor = |name: &str, strategy: &str, workloads: Value| {
        let mut monitor = story.monitor(&["app"], workloads);
        monitor["metadata"]["name"] = name.into();
        monitor["spec"]["strategy"] = json!({ "type": strategy });
        monitor
    };
    let everything = json!({ "podSelector": {} });
    let set = json!({ "names": [{ "kind": "StatefulSet", "name": "db" }] });
    // A user who may write the StatefulSet may have its own pods replaced, by the controller's way only.
    until_accepted(&bed.alice, &monitor("set", "Rollout", set.clone()));
    for (strategy, verb) in [("Evict", "create pods/eviction"), ("Delete", "delete pods")] {
        for workloads in [&everything, &set, &Value::Null] {
            let refusal = bed.alice.create(&monitor("more", strategy, workloads.clone())).refused();
            assert!(refusal.contains(verb), "{strategy} {workloads}: {refusal}");
        }
    }
    bed.alice.create(&monitor("more", "Rollout", everything.clone())).refused();
    until_accepted(
        &bed.bob,
        &monitor("web", "Delete", json!({ "podSelector": { "matchLabels": { "app": "web" } } })),
    );
    eventually("both know what runs", || {
        let set = bed.admin.get("StatefulSet", &story.home, "db").ok_or("it is gone")?;
        let web = bed.admin.get("ConfigMonitor", &story.home, "web").ok_or("it is gone")?;
        let known = [&set["metadata"]["labels"]["copyrator.dev/applied"], &web["status"]["podsApplied"]];
        if known.iter().all(|it| it.is_string()) { Ok(()) } else { Err(format!("{known:?}")) }
    });
    story.until_later(1);
    bed.admin.apply(&config_map(&story.home, "app", [("k", "2")])).ok();
    eventually("bob's pod goes, and that of the StatefulSet is replaced", || {
        let now = (uid_of(&story.home, "web-0"), uid_of(&story.home, "db-0"));
        if now.0.is_none() && now.1.is_some() && now.1 != replaced { Ok(()) } else { Err(format!("{now:?}")) }
    });
    bed.admin.apply(&config_map(&other, "app", [("k", "2")])).ok();
    story.marker("then");
    assert_eq!(kept(), before, "pods of others, of a Job, or found by label alone");
}

/// A user who may label an object says which policies speak of it. But what a policy speaks of, before the write or after it, it
/// judges: whether it lets writes pass while we are away, or not.
#[test]
fn a_label_that_comes_or_goes_with_a_value_is_no_way_around_a_policy() {
    for (name, failure) in [("label-tricks", "Ignore"), ("label-tricks-fail", "Fail")] {
        let story = Story::new(peaceful(), name);
        let (bed, place) = (story.bed, story.target("a"));
        bed.admin.create(&binding(&place, "bob", "edit")).ok();
        let spec = json!({ "match": {}, "failurePolicy": failure, "data": [
            { "name": "url", "keys": ["url"], "format": "url" }, { "name": "fixed", "keys": ["fixed"], "immutable": true },
        ] });
        let mut policy = story.policy(&["ConfigMap"], spec);
        policy["spec"]["match"]["objectSelector"] = json!({ "matchLabels": { "tier": "prod" } });
        bed.admin.create(&policy).ok();
        let labelled = |name: &str, url: &str| {
            let mut object = config_map(&place, name, [("url", url), ("fixed", "1")]);
            object["metadata"]["labels"] = json!({ "tier": "prod" });
            object
        };
        let refused = |what: &str, write: &dyn Fn() -> Answer| {
            eventually(&format!("{name}: {what} is refused by the policy"), || {
                let answer = write();
                let said = answer.body["message"].as_str().unwrap_or_default().to_owned();
                if answer.code == 403 && said.contains("policy ") {
                    Ok(())
                } else {
                    Err(format!("{} {said}", answer.code))
                }
            });
        };
        refused("nonsense", &|| bed.bob.try_create(&labelled("probe", "nonsense")));
        until_accepted(&bed.bob, &labelled("app", "https://a.test"));
        until_accepted(&bed.bob, &config_map(&place, "free", [("url", "nonsense")]));
        let merge = |object: &str, labels: Value, data: Value| {
            bed.bob.try_merge(
                "ConfigMap",
                &place,
                object,
                &json!({ "metadata": { "labels": labels }, "data": data }),
            )
        };
        refused("a label on what breaks it", &|| merge("free", json!({ "tier": "prod" }), json!({})));
        refused("a label and another bad value", &|| {
            merge("free", json!({ "tier": "prod" }), json!({ "url": "other" }))
        });
        refused("a bad value as the label goes", &|| {
            merge("app", json!({ "tier": null }), json!({ "url": "nonsense" }))
        });
        refused("a bad value as the label changes", &|| {
            merge("app", json!({ "tier": "test" }), json!({ "url": "nonsense" }))
        });
        refused("a fixed key as the label goes", &|| {
            merge("app", json!({ "tier": null }), json!({ "fixed": "2" }))
        });
        let mut generated = labelled("app", "nonsense");
        generated["metadata"]["name"] = Value::Null;
        generated["metadata"]["generateName"] = "app-".into();
        refused("a name that is made up", &|| bed.bob.try_create(&generated));
        // What remains, and docs/security.md says so: two writes, the first of which takes the label off.
        assert!(merge("app", json!({ "tier": null }), json!({})).code < 300);
        // And nobody but who may label namespaces takes one out of the policy.
        let relabelled = json!({ "metadata": { "labels": { "story": null } } });
        assert_eq!(bed.bob.try_merge("Namespace", "", &place, &relabelled).code, 403);
    }
}

/// The webhook counts for its warnings what a status says was authorized, and has no key to prove it.
#[test]
fn a_tenant_with_every_verb_on_our_kinds_writes_no_status() {
    let story = Story::new(peaceful(), "own-status");
    let (bed, target) = (story.bed, story.target("a"));
    grant(&story, "bob", json!([{ "apiGroups": ["*"], "resources": ["*"], "verbs": ["*"] }]));
    let source = json!({ "kind": "ConfigMap", "names": ["app"] });
    let spec = json!({ "source": source, "targets": [{ "names": [story.home] }] });
    until_accepted(&bed.bob, &ours("CopyratorRule", &story.home, "bobs", spec));
    until_accepted(&bed.bob, &story.monitor(&["app"], json!({ "podSelector": {} })));
    let object = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "declared" } });
    let spec = json!({ "forEach": { "namespaces": [{ "names": [story.home] }] }, "objects": [{ "id": "a", "template": object }] });
    until_accepted(&bed.bob, &ours("CopyratorTemplate", &story.home, "bobs", spec));
    let claims = json!({ "authorizedGeneration": 7, "authorizedProof": "mine" });
    for (kind, name) in
        [("CopyratorRule", "bobs"), ("ConfigMonitor", "monitor"), ("CopyratorTemplate", "bobs")]
    {
        story.until_condition(kind, name, "Authorized", "True", "Allowed");
        let refusal = bed.bob.merge_status(kind, &story.home, name, &claims).refused();
        let told = ["'copyrator-statuses'", "'patch'", "/status in all namespaces"];
        assert!(told.iter().all(|part| refusal.contains(part)), "{kind}: {refusal}");
        // The API server drops a status that comes with the object itself.
        let written = bed.bob.merge(kind, &story.home, name, &json!({ "status": claims })).ok();
        assert_ne!(written["status"]["authorizedProof"], "mine", "{kind}");
    }
    // Ours go on, and an administrator, or a backup, may still write one.
    bed.admin.create(&config_map(&story.home, "app", [("k", "v")])).ok();
    bed.admin.create(&story.rule("ConfigMap", &["app"])).ok();
    story.until("ConfigMap", &target, "app", [("k", "v")]);
    story.until_condition("CopyratorRule", "rule", "Ready", "True", "AllCopied");
    bed.admin.merge_status("CopyratorRule", &story.home, "bobs", &json!({ "observedGeneration": 0 })).ok();
}

/// What bob, who may edit home and target, tries in any topology: on the copy `name` in `target` of the ConfigMap of that name
/// at home, on the rule that made it, and on a namespace in which bob may do nothing.
pub fn are_fended_off(story: &Story<'_>, target: &str, name: &str, rule: &str) {
    let (admin, bob) = (story.admin(), &story.bed.bob);
    let copy = admin.get("ConfigMap", target, name).expect("the copy is there");
    eventually("bob may write there", || {
        let answer = bob.apply(&config_map(target, "own", [("k", "v")]));
        if answer.code < 300 { Ok(()) } else { Err(answer.refused()) }
    });
    // Marks that name another object are nobody's: these name the object that they are put on.
    let mut marks = json!({ "metadata": { "labels": copy["metadata"]["labels"], "annotations": copy["metadata"]["annotations"] } });
    marks["metadata"]["annotations"]["copyrator.dev/object"] = format!("configmaps/{target}/own").into();
    let dangling = json!({ "apiVersion": "v1", "kind": "ConfigMap", "name": "none", "uid": "00000000-0000-0000-0000-000000000000" });
    let owned = json!({ "metadata": { "ownerReferences": [dangling] } });
    let held = json!({ "metadata": { "finalizers": ["example.com/held"] } });
    for (what, answer) in [
        ("edited", bob.merge("ConfigMap", target, name, &json!({ "data": { "k": "bob's" } }))),
        ("unmarked", bob.merge("ConfigMap", target, name, &json!({ "metadata": { "labels": null } }))),
        (
            "kept",
            bob.merge(
                "ConfigMap",
                target,
                name,
                &json!({ "metadata": { "annotations": { "copyrator.dev/digest": "0" } } }),
            ),
        ),
        ("deleted", bob.delete("ConfigMap", target, name)),
        ("owned", bob.merge("ConfigMap", target, name, &owned)),
        ("held", bob.merge("ConfigMap", target, name, &held)),
        ("forged", bob.merge("ConfigMap", target, "own", &marks)),
    ] {
        let refusal = answer.refused();
        assert!(refusal.contains("copyrator.dev"), "{what}: {refusal}");
    }
    let author = |rule: &Value| annotation(rule, "copyrator.dev/author").map(str::to_owned);
    let written = admin.get("CopyratorRule", &story.home, rule).expect("the rule is there");
    let claim = json!({ "metadata": { "annotations": { "copyrator.dev/author": "somebody" } } });
    let answer = bob.merge("CopyratorRule", &story.home, rule, &claim);
    assert!(answer.code >= 400 || author(&answer.body) == author(&written), "{}", answer.body);

    let vault = story.bystander("vault");
    admin.create(&secret(&vault, "loot", [("k", "v")])).ok();
    let loot = json!({ "kind": "Secret", "names": ["loot"], "namespaces": [vault] });
    let own = json!({ "kind": "ConfigMap", "names": [name] });
    for (kind, source, to) in [("from", loot, &story.home), ("into", own, &vault)] {
        let mut forged = ours(
            "CopyratorRule",
            &story.home,
            kind,
            json!({ "source": source, "targets": [{ "names": [to] }] }),
        );
        let stamp = json!({ "copyrator.dev/author": "admin", "copyrator.dev/author-groups": r#"["system:masters"]"# });
        forged["metadata"]["annotations"] = stamp;
        let answer = bob.create(&forged);
        assert!(
            answer.code >= 400 || author(&answer.body).as_deref() == Some("bob"),
            "{kind}: {}",
            answer.body
        );
        if answer.code < 300 {
            eventually("it has been looked at", || {
                let rule = admin.get("CopyratorRule", &story.home, kind).ok_or("it is gone")?;
                same(&rule["status"]["observedGeneration"], &rule["metadata"]["generation"])
            });
        }
    }
    narrows_it_in_vain(story, (target, name), &written);
    let theirs = asks_for_pods_in_vain(story, name);
    admin.apply(&config_map(&story.home, name, [("k", "attacked")])).ok();
    let now = story.until("ConfigMap", target, name, [("k", "attacked")]);
    assert_eq!(uid(&now), uid(&copy), "it was deleted");
    let pod = admin.get("Pod", &story.home, "theirs").expect("a pod was taken by a user who may not");
    assert_eq!((uid(&pod), &pod["metadata"]["deletionTimestamp"]), (theirs, &Value::Null));
    assert!(admin.get("Secret", &story.home, "loot").is_none(), "had without the right to read it");
    assert!(admin.get("ConfigMap", &vault, name).is_none(), "written where bob may not");
}

/// alice, who may edit home and nothing else, has the rule leave its copy behind, at once and for good.
fn narrows_it_in_vain(story: &Story<'_>, (target, name): (&str, &str), rule: &Value) {
    // Where the operator looks at some namespaces only, `edit` contains none of our kinds.
    grant(
        story,
        "alice",
        json!([
            { "apiGroups": ["copyrator.dev"], "resources": ["*"], "verbs": ["*"] },
            { "apiGroups": [""], "resources": ["configmaps"], "verbs": ["*"] },
        ]),
    );
    let called = rule["metadata"]["name"].as_str().expect("a name");
    let before = story.admin().get("ConfigMap", target, name).expect("the copy is there");
    let narrowed =
        json!({ "targets": [{ "names": [story.home] }], "deletionPolicy": "Delete", "deletionGrace": "0s" });
    eventually("alice may edit the rule", || {
        let answer =
            story.bed.alice.merge("CopyratorRule", &story.home, called, &json!({ "spec": narrowed }));
        if answer.code < 300 { Ok(()) } else { Err(answer.refused()) }
    });
    story.until_condition("CopyratorRule", called, "Degraded", "True", "Forbidden");
    let now = story.admin().get("ConfigMap", target, name).expect("alice's edit of a rule deleted its copy");
    assert_eq!(version(&now), version(&before), "the copy was written");
    let back = json!([{ "op": "replace", "path": "/spec", "value": rule["spec"] }]);
    story.admin().patch_json("CopyratorRule", &story.home, called, &back).ok();
}

/// alice, who may write monitors at home and take no pods, has those of others go when the ConfigMap changes. Where no webhook
/// refuses the monitor, it is inert. Returns the pod's UID.
fn asks_for_pods_in_vain(story: &Story<'_>, name: &str) -> String {
    story.admin().create(&pod(&story.home, "theirs", &data([("app", "theirs")]))).ok();
    for (called, strategy, verb) in
        [("evicts", "Evict", "create pods/eviction"), ("deletes", "Delete", "delete pods")]
    {
        let mut monitor =
            story.monitor(&[name], json!({ "podSelector": { "matchLabels": { "app": "theirs" } } }));
        monitor["metadata"]["name"] = called.into();
        monitor["spec"]["strategy"] = json!({ "type": strategy });
        let answer = story.bed.alice.create(&monitor);
        let said = match answer.code {
            ..300 => {
                story.until_condition("ConfigMonitor", called, "Authorized", "False", "Forbidden").to_string()
            }
            _ => answer.refused(),
        };
        assert!(said.contains(verb), "{strategy}: {said}");
    }
    story.admin().get("Pod", &story.home, "theirs").as_ref().map(uid).expect("the pod is there")
}

fn stateful_set(namespace: &str) -> Value {
    let container = json!({ "name": "main", "image": "example.com/app", "envFrom": [{ "configMapRef": { "name": "app" } }] });
    json!({
        "apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": { "namespace": namespace, "name": "db" },
        "spec": {
            "replicas": 1, "serviceName": "db", "selector": { "matchLabels": { "app": "db" } },
            "updateStrategy": { "type": "OnDelete" },
            "template": { "metadata": { "labels": { "app": "db" } }, "spec": { "containers": [container] } },
        },
    })
}

/// Its pods have the labels that bob's monitor selects.
fn job(namespace: &str) -> Value {
    let container = json!({ "name": "main", "image": "example.com/app" });
    json!({
        "apiVersion": "batch/v1", "kind": "Job", "metadata": { "namespace": namespace, "name": "once" },
        "spec": { "template": {
            "metadata": { "labels": { "app": "web" } },
            "spec": { "restartPolicy": "Never", "containers": [container] },
        } },
    })
}

/// Creates, once RBAC has heard of the author's rights.
fn until_accepted(person: &Person, object: &Value) {
    eventually("it is accepted", || match person.create(object) {
        answer if answer.code < 300 => Ok(()),
        answer => Err(answer.refused()),
    });
}
