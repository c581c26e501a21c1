//! What a policy refuses, lets pass and warns of, through the real API server.

use serde_json::{Value, json};

use crate::bed::objects::{binding, config_map, namespace};
use crate::bed::{Answer, Story, eventually, peaceful};

/// A policy in force: it refuses (or warns of) this object.
fn in_force(story: &Story<'_>, kinds: &[&str], mut spec: Value, caught: &Value) {
    spec["match"] = json!({});
    story.admin().create(&story.policy(kinds, spec)).ok();
    eventually("the policy is in force", || {
        let answer = story.admin().try_create(caught);
        let caught = answer.code >= 400 || answer.warnings.iter().any(|warning| warning.contains("policy "));
        if caught { Ok(()) } else { Err("it lets everything pass".into()) }
    });
}

/// What a write, of which nothing is stored, is refused with. Where we do not answer in time, as on a busy machine, these
/// policies let it pass.
#[track_caller]
fn refused(write: impl Fn() -> Answer) -> String {
    eventually("it is refused", || {
        let answer = write();
        if answer.code >= 400 { Ok(answer.refused()) } else { Err("it passed".into()) }
    })
}

/// What the tests of the router (`tests/reviews/policies.rs`) take for granted, where each verdict and each word has its case: the
/// API server asks about what is created and what is changed, tells what was there before, passes on what we say, and asks
/// nothing of what no policy covers. A new policy locks no user out of what is there.
#[test]
fn a_policy_judges_what_is_created_and_what_is_changed_and_nothing_else() {
    let story = Story::new(peaceful(), "judging");
    let place = story.target("a");
    let (wrong, other_wrong, right) = ("a: 1\nb: [1,\nc: }\n", "[", "a: 1\n");
    for name in ["old", "gone"] {
        story.admin().create(&config_map(&place, name, [("settings.yaml", wrong), ("other", "1")])).ok();
    }
    let bad = config_map(&place, "app", [("settings.yaml", wrong)]);
    in_force(
        &story,
        &["ConfigMap"],
        json!({ "data": [{ "name": "settings", "keys": ["*.yaml"], "format": "yaml" }] }),
        &bad,
    );
    let refusal = refused(|| story.admin().try_create(&bad));
    for part in [
        "policy judging",
        "rule settings",
        "ConfigMap judging-a/app",
        "key settings.yaml",
        "line ",
        "correct",
    ] {
        assert!(refusal.contains(part), "{part:?} is missing in: {refusal}");
    }
    let bystander = story.bystander("b");
    story.admin().create(&config_map(&bystander, "app", [("settings.yaml", wrong)])).ok();

    let change = |key: &str, value: &str| json!({ "data": { key: value } });
    let write = |patch: &Value| story.admin().merge("ConfigMap", &place, "old", patch);
    let attempt = |patch: &Value| story.admin().try_merge("ConfigMap", &place, "old", patch);
    eventually("what was wrong before is warned of", || {
        let answer = attempt(&change("other", "2"));
        let is_warned = answer.warnings.iter().any(|warning| warning.contains("rule settings"));
        if is_warned { Ok(()) } else { Err(format!("{:?}", answer.warnings)) }
    });
    write(&change("other", "2")).ok();
    refused(|| attempt(&change("settings.yaml", other_wrong)));
    write(&change("settings.yaml", right)).ok();
    refused(|| attempt(&change("settings.yaml", wrong)));
    story.admin().delete("ConfigMap", &place, "gone").ok();
}

/// That it warns, and refuses nothing, is `tests/reviews/policies.rs`; only a cluster has an audit log.
#[test]
fn what_is_let_pass_is_in_the_audit_log() {
    let story = Story::new(peaceful(), "lenient");
    let place = story.target("a");
    let bad = config_map(&place, "app", [("url", "nonsense")]);
    let spec = json!({
        "data": [{ "name": "url", "keys": ["url"], "format": "url" }], "validationActions": ["Warn", "Audit"],
    });
    in_force(&story, &["ConfigMap"], spec, &bad);
    story.admin().create(&bad).ok();
    eventually("the audit log has the violation", || {
        let requests = story.bed.requests();
        let about =
            |it: &&crate::bed::Request| it.namespace == place && it.name == "app" && it.verb == "create";
        let notes: Vec<String> = requests.iter().filter(about).map(|it| it.annotations.to_string()).collect();
        if notes.iter().any(|note| note.contains("lenient/url")) { Ok(()) } else { Err(format!("{notes:?}")) }
    });
}

#[test]
fn a_policy_for_namespaces_judges_namespaces() {
    let story = Story::new(peaceful(), "namespaces");
    let bad =
        |part: &str| namespace(&story.called(part), &crate::bed::objects::data([("story", "namespaces")]));
    in_force(&story, &["Namespace"], json!({ "labels": { "required": ["owner"] } }), &bad("probe"));
    let refusal = refused(|| story.admin().try_create(&bad("a")));
    assert!(refusal.contains("Namespace namespaces-a") && refusal.contains("owner"), "{refusal}");
    let mut good = bad("b");
    good["metadata"]["labels"]["owner"] = "blue".into();
    story.admin().create(&good).ok();
    story.admin().delete("Namespace", "", &story.called("b")).ok();
    story.until_gone("Namespace", "", &story.called("b"));
}

/// To take off the label that a policy goes by is a write that it speaks of, too: the API server looks at labels as they
/// were only where it is asked in the right way.
#[test]
fn a_namespace_is_judged_as_it_was_too() {
    let story = Story::new(peaceful(), "outgoing");
    let place = story.target("a");
    let label = |labels: Value| json!({ "metadata": { "labels": labels } });
    story.admin().merge("Namespace", "", &place, &label(json!({ "owner": "blue" }))).ok();
    let mut bad = namespace(&story.called("probe"), &crate::bed::objects::data([("story", "outgoing")]));
    bad["metadata"]["labels"]["owner"] = "BLUE".into();
    let spec = json!({
        "labels": { "patterns": { "owner": "[a-z]+" } },
        "validations": [{
            "expression": "oldObject == null || object.metadata.labels.owner == oldObject.metadata.labels.owner",
            "message": "the owner stays",
        }],
        "failurePolicy": "Fail",
    });
    in_force(&story, &["Namespace"], spec, &bad);
    let both = label(json!({ "story": null, "owner": "red" }));
    let refusal = story.admin().merge("Namespace", "", &place, &both).refused();
    assert!(refusal.contains("the owner stays"), "{refusal}");
    let bystander = story.bystander("b");
    story.admin().merge("Namespace", "", &bystander, &label(json!({ "owner": "BLUE" }))).ok();
}

/// RBAC knows each subresource as a resource of its own, and a Role with `*` has them all.
#[test]
fn a_namespace_is_judged_through_its_subresources_and_can_be_deleted() {
    let story = Story::new(peaceful(), "parts");
    let (place, bed) = (story.target("a"), story.bed);
    let label = |owner: Value| json!({ "metadata": { "labels": { "owner": owner } } });
    bed.admin.merge("Namespace", "", &place, &label(json!("blue"))).ok();
    let role = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": { "name": "namespace-parts" },
        "rules": [{
            "apiGroups": [""], "verbs": ["get", "patch", "update"],
            "resources": ["namespaces", "namespaces/status", "namespaces/finalize"],
        }],
    });
    bed.admin.create(&role).ok();
    bed.admin.create(&binding(&place, "bob", "namespace-parts")).ok();
    let bad = namespace(&story.called("probe"), &crate::bed::objects::data([("story", "parts")]));
    in_force(
        &story,
        &["Namespace"],
        json!({ "labels": { "required": ["owner"] }, "failurePolicy": "Fail" }),
        &bad,
    );
    let there = || bed.admin.get("Namespace", "", &place).expect("it is there");
    let mut bare = there();
    bare["metadata"]["labels"].as_object_mut().expect("labels").remove("owner");
    bare["metadata"].as_object_mut().expect("metadata").remove("resourceVersion");
    let unlabel = label(Value::Null);
    let tries: [(&str, &dyn Fn() -> Answer); 4] = [
        ("the object", &|| bed.bob.merge("Namespace", "", &place, &unlabel)),
        ("PATCH status", &|| bed.bob.merge_by_status("Namespace", "", &place, &unlabel)),
        ("PUT status", &|| bed.bob.replace_by("status", &bare)),
        ("PUT finalize", &|| bed.bob.replace_by("finalize", &bare)),
    ];
    for (way, write) in tries {
        eventually(&format!("bob is refused by {way}"), || {
            let answer = write();
            assert_eq!(there()["metadata"]["labels"]["owner"], "blue", "{way}");
            let is_judged = answer.code == 403 && answer.body.to_string().contains("policy parts");
            if is_judged { Ok(()) } else { Err(answer.body.to_string()) }
        });
    }
    // What leaves the labels alone passes, and so does the controller that empties namespaces.
    let condition = json!({ "conditions": [{ "type": "example.com/Seen", "status": "True" }] });
    bed.bob.merge_status("Namespace", "", &place, &condition).ok();
    bed.admin.delete("Namespace", "", &place).ok();
    story.until_gone("Namespace", "", &place);
}

/// In a review a control character takes six bytes: four commands made one that was not read, and `Ignore` let the write pass.
#[test]
fn no_size_lets_a_write_through() {
    let story = Story::new(peaceful(), "huge");
    let place = story.target("a");
    let bad = config_map(&place, "probe", [("url", "nonsense")]);
    let spec = json!({ "data": [{ "name": "url", "keys": ["url"], "format": "url" }] });
    in_force(&story, &["ConfigMap"], spec, &bad);
    let padding = "\u{1}".repeat(400_000);
    let first = config_map(&place, "app", [("url", "https://example.com"), ("a", &padding)]);
    story.admin().create(&first).ok();
    story.admin().merge("ConfigMap", &place, "app", &json!({ "data": { "b": padding } })).ok();
    let worse = json!({ "data": { "url": "nonsense" } });
    let refusal = refused(|| story.admin().try_merge("ConfigMap", &place, "app", &worse));
    assert!(refusal.contains("key url"), "{refusal}");
    story.admin().delete("ConfigMap", &place, "app").ok();
}

/// No ConfigMap is that large. The API server writes what identifies a write before its objects.
#[test]
fn a_write_whose_review_is_not_read_is_refused_by_its_beginning() {
    let story = Story::new(peaceful(), "unread");
    let place = story.target("a");
    let label = |owner: Value| json!({ "metadata": { "labels": { "owner": owner } } });
    story.admin().merge("Namespace", "", &place, &label(json!("blue"))).ok();
    let bad = namespace(&story.called("probe"), &crate::bed::objects::data([("story", "unread")]));
    in_force(&story, &["Namespace"], json!({ "labels": { "required": ["owner"] } }), &bad);
    // JSON escapes each of these with six bytes.
    let message = "<".repeat(1_450_000);
    let large =
        json!({ "conditions": [{ "type": "example.com/Large", "status": "True", "message": message }] });
    story.admin().merge_status("Namespace", "", &place, &large).ok();
    let refusal = refused(|| story.admin().try_merge("Namespace", "", &place, &label(Value::Null)));
    assert!(refusal.contains("its AdmissionReview is larger than 16 MiB"), "{refusal}");
    // What is smaller can always be written.
    story.admin().merge_status("Namespace", "", &place, &json!({ "conditions": [] })).ok();
    story.admin().delete("Namespace", "", &place).ok();
}

/// A copy that a policy comes to dislike stays, and follows its source where that is no worse: what already runs is not torn
/// down. (What comes anew is judged: see `guarded.rs`.)
#[test]
fn a_copy_that_was_there_before_a_policy_stays_and_follows() {
    let story = Story::new(peaceful(), "judged");
    let place = story.target("a");
    story.admin().create(&story.rule("ConfigMap", &["app"])).ok();
    story.admin().create(&config_map(&story.home, "app", [("url", "nonsense"), ("other", "1")])).ok();
    story.until("ConfigMap", &place, "app", [("url", "nonsense"), ("other", "1")]);
    let bad = config_map(&place, "probe", [("url", "nonsense")]);
    in_force(
        &story,
        &["ConfigMap"],
        json!({ "data": [{ "name": "url", "keys": ["url"], "format": "url" }] }),
        &bad,
    );
    story.admin().merge("ConfigMap", &story.home, "app", &json!({ "data": { "other": "2" } })).ok();
    story.until("ConfigMap", &place, "app", [("url", "nonsense"), ("other", "2")]);
}
