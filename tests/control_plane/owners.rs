//! Owners and finalizers: with the one a copy would go, with the other it would stay as it is.

use serde_json::{Value, json};

use crate::bed::objects::{annotation, binding, config_map, data, pod, secret, uid};
use crate::bed::{Story, eventually, peaceful};

/// An owner that does not exist.
fn nobody() -> Value {
    let uid = "00000000-0000-0000-0000-000000000000";
    json!([{ "apiVersion": "v1", "kind": "ConfigMap", "name": "none", "uid": uid }])
}

fn metadata(field: &str, value: &Value) -> Value {
    json!({ "metadata": { field: value } })
}

/// The garbage collector deletes what has no owner left, and a finalizer keeps old content: five patches were enough for a
/// tenant to put another object in the place of a copy.
#[test]
fn a_tenant_gives_no_copy_an_owner_or_a_finalizer() {
    let story = Story::new(peaceful(), "tethered");
    let (target, bed) = (story.target("a"), story.bed);
    story.admin().create(&binding(&target, "bob", "edit")).ok();
    story.admin().create(&config_map(&story.home, "app", [("k", "v")])).ok();
    story.admin().create(&secret(&story.home, "app", [("k", "v")])).ok();
    for kind in ["ConfigMap", "Secret"] {
        let mut rule = story.rule(kind, &["app"]);
        rule["metadata"]["name"] = kind.to_lowercase().into();
        story.admin().create(&rule).ok();
    }
    eventually("bob may write in the target", || {
        let answer = bed.bob.apply(&config_map(&target, "own", [("k", "v")]));
        if answer.code < 300 { Ok(()) } else { Err(answer.refused()) }
    });
    for kind in ["ConfigMap", "Secret"] {
        let copy = story.until(kind, &target, "app", [("k", "v")]);
        for (field, value) in [("ownerReferences", nobody()), ("finalizers", json!(["bob.example.com/keep"]))]
        {
            let added = json!([{ "op": "add", "path": format!("/metadata/{field}"), "value": value }]);
            let mut applied = json!({ "apiVersion": "v1", "kind": kind, "metadata": { "name": "app", "namespace": target } });
            applied["metadata"][field] = value.clone();
            let mut whole = copy.clone();
            whole["metadata"][field] = value.clone();
            for answer in [
                bed.bob.merge(kind, &target, "app", &metadata(field, &value)),
                bed.bob.patch_json(kind, &target, "app", &added),
                bed.bob.apply(&applied),
                bed.bob.replace(&whole),
            ] {
                let refusal = answer.refused();
                assert!(refusal.contains("is a copy that Copyrator keeps"), "{kind} {field}: {refusal}");
            }
        }
        let still = story.until(kind, &target, "app", [("k", "v")]);
        assert_eq!(uid(&still), uid(&copy));
    }
    // On bob's own object bob may.
    bed.bob
        .merge("ConfigMap", &target, "own", &metadata("finalizers", &json!(["bob.example.com/keep"])))
        .ok();
    bed.bob.merge("ConfigMap", &target, "own", &metadata("finalizers", &json!([]))).ok();
}

/// They come from a user with override, or from the time before there was a policy.
#[test]
fn owners_of_a_copy_are_taken_off_and_what_a_finalizer_keeps_is_told() {
    let story = Story::new(peaceful(), "untethered");
    let (owned, kept) = (story.target("owned"), story.target("kept"));
    let admin = story.admin();
    admin.create(&config_map(&story.home, "app", [("k", "v")])).ok();
    admin.create(&story.rule("ConfigMap", &["app"])).ok();
    story.until("ConfigMap", &owned, "app", [("k", "v")]);
    let copy = story.until("ConfigMap", &kept, "app", [("k", "v")]);
    admin.create(&binding(&kept, "bob", "edit")).ok();
    admin.merge("ConfigMap", &kept, "app", &metadata("finalizers", &json!(["ops.example.com/keep"]))).ok();
    admin.delete("ConfigMap", &kept, "app").ok();

    // Also one that exists, with which the copy would go some day.
    let owner = admin.create(&config_map(&owned, "owner", [])).ok();
    let owner = json!([{ "apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": uid(&owner) }]);
    for owners in [owner, nobody()] {
        admin.merge("ConfigMap", &owned, "app", &metadata("ownerReferences", &owners)).ok();
        eventually("the copy is there, without an owner", || {
            let copy = admin.get("ConfigMap", &owned, "app").ok_or("it is gone")?;
            let metadata = &copy["metadata"];
            let is_bare = metadata["ownerReferences"].is_null() && metadata["deletionTimestamp"].is_null();
            if is_bare && copy["data"]["k"] == "v" { Ok(()) } else { Err(metadata.to_string()) }
        });
    }
    admin.merge("ConfigMap", &story.home, "app", &json!({ "data": { "k": "new" } })).ok();
    story.until("ConfigMap", &owned, "app", [("k", "new")]);

    let rule = eventually("the rule says what keeps the old copy", || {
        let rule = admin.get("CopyratorRule", &story.home, "rule").ok_or("it is gone")?;
        let problem = &rule["status"]["problems"][0];
        if problem["reason"] == "Terminating" { Ok(problem.clone()) } else { Err(rule["status"].to_string()) }
    });
    let message = rule["message"].as_str().unwrap_or_default();
    assert!(message.contains("ops.example.com/keep") && rule["namespace"] == json!(kept), "{rule}");
    // What the message says to do needs no right of ours.
    story.bed.bob.merge("ConfigMap", &kept, "app", &metadata("finalizers", &json!(null))).ok();
    let anew = story.until("ConfigMap", &kept, "app", [("k", "new")]);
    assert_ne!(uid(&anew), uid(&copy));
}

/// Tenants say of a copy which pods live by it, as the policy on copies means to let them.
#[test]
fn a_tenant_asks_for_restarts_on_a_copy_and_it_stays_one() {
    const RESTART_PODS: &str = "copyrator.dev/restart-pods";
    let story = Story::new(peaceful(), "tenants-pods");
    let (target, bed) = (story.target("a"), story.bed);
    story.admin().create(&binding(&target, "bob", "edit")).ok();
    story.admin().create(&config_map(&story.home, "app", [("k", "v")])).ok();
    story.admin().create(&story.rule("ConfigMap", &["app"])).ok();
    story.until("ConfigMap", &target, "app", [("k", "v")]);
    story.admin().create(&pod(&target, "web-0", &data([("app", "web")]))).ok();
    let asks = json!({ "metadata": {
        "labels": { "copyrator.dev/declares": "true" }, "annotations": { RESTART_PODS: "app=web" },
    } });
    eventually("bob annotates the copy", || {
        let answer = bed.bob.merge("ConfigMap", &target, "app", &asks);
        if answer.code < 300 { Ok(()) } else { Err(answer.refused()) }
    });
    let copy = eventually("what the pods run with is recorded", || {
        let copy = story.admin().get("ConfigMap", &target, "app").ok_or("it is gone")?;
        let is_recorded = annotation(&copy, "copyrator.dev/pods-applied").is_some();
        if is_recorded { Ok(copy) } else { Err(copy["metadata"].to_string()) }
    });
    assert_eq!(annotation(&copy, "copyrator.dev/author"), Some("bob"));
    // Marks are nobody's business all the same, in the same request too.
    let more = json!({ "metadata": { "annotations": { RESTART_PODS: null, "copyrator.dev/digest": "0" } } });
    bed.bob.merge("ConfigMap", &target, "app", &more).refused();
    story.admin().merge("ConfigMap", &story.home, "app", &json!({ "data": { "k": "new" } })).ok();
    story.until("ConfigMap", &target, "app", [("k", "new")]);
    let followed = story.admin().get("ConfigMap", &target, "app").expect("it is there");
    assert_eq!(annotation(&followed, RESTART_PODS), Some("app=web"), "our write leaves it");
    bed.bob
        .merge("ConfigMap", &target, "app", &json!({ "metadata": { "annotations": { RESTART_PODS: null } } }))
        .ok();
}
