//! What a policy refuses, lets pass and warns of, through the real API server.

use serde_json::{Value, json};

use crate::bed::objects::{config_map, namespace, secret};
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

#[test]
fn a_refusal_names_policy_rule_object_key_line_and_fix() {
    let story = Story::new(peaceful(), "named");
    let place = story.target("a");
    let bad = config_map(&place, "app", [("settings.yaml", "a: 1\nb: [1,\nc: }\n")]);
    in_force(
        &story,
        &["ConfigMap"],
        json!({ "data": [{ "name": "settings", "keys": ["*.yaml"], "format": "yaml" }] }),
        &bad,
    );
    let refusal = refused(|| story.admin().try_create(&bad));
    for part in
        ["policy named", "rule settings", "ConfigMap named-a/app", "key settings.yaml", "line ", "correct"]
    {
        assert!(refusal.contains(part), "{part:?} is missing in: {refusal}");
    }
    let bystander = story.bystander("b");
    story.admin().create(&config_map(&bystander, "app", [("settings.yaml", "[")])).ok();
}

#[test]
fn a_secrets_value_is_never_quoted() {
    let story = Story::new(peaceful(), "unquoted");
    let place = story.target("a");
    let bad = secret(&place, "app", [("url", "hunter2 is no address")]);
    let spec = json!({
        "data": [{ "name": "url", "keys": ["url"], "format": "url", "pattern": "https://.*" }],
        "validations": [{ "expression": "int(text.url) > 1" }],
    });
    in_force(&story, &["Secret"], spec, &bad);
    let refusal = refused(|| story.admin().try_create(&bad));
    assert!(refusal.contains("key url") && !refusal.contains("hunter2"), "{refusal}");
}

#[test]
fn every_violation_is_named_at_once() {
    let story = Story::new(peaceful(), "all-at-once");
    let place = story.target("a");
    let bad = config_map(&place, "app", [("port", "many"), ("min", "5"), ("max", "3")]);
    let spec = json!({
        "data": [
            { "name": "port", "keys": ["port"], "format": "integer" },
            { "name": "has-url", "keys": ["url"], "required": true },
        ],
        "labels": { "required": ["owner"], "patterns": { "owner": "^[a-z-]+$" } },
        "validations": [{ "expression": "int(text.min) <= int(text.max)", "message": "min must not exceed max" }],
    });
    in_force(&story, &["ConfigMap"], spec, &bad);
    let refusal = refused(|| story.admin().try_create(&bad));
    for part in ["rule port", "rule has-url", "owner", "min must not exceed max"] {
        assert!(refusal.contains(part), "{part:?} is missing in: {refusal}");
    }
    let mut good = config_map(&place, "app", [("port", "80"), ("url", "x"), ("min", "1"), ("max", "3")]);
    good["metadata"]["labels"] = json!({ "owner": "team-blue" });
    story.admin().create(&good).ok();
    let relabelled = json!({ "metadata": { "labels": { "owner": "BLUE" } } });
    let refusal = refused(|| story.admin().try_merge("ConfigMap", &place, "app", &relabelled));
    assert!(refusal.contains("owner"), "{refusal}");
}

/// A new policy must not lock people out of what they already have.
#[test]
fn what_was_wrong_before_warns_and_what_becomes_wrong_is_refused() {
    let story = Story::new(peaceful(), "ratcheted");
    let place = story.target("a");
    story.admin().create(&config_map(&place, "old", [("url", "nonsense"), ("other", "1")])).ok();
    let bad = config_map(&place, "new", [("url", "nonsense")]);
    in_force(
        &story,
        &["ConfigMap"],
        json!({ "data": [{ "name": "url", "keys": ["url"], "format": "url" }] }),
        &bad,
    );

    let change = |data: Value| story.admin().merge("ConfigMap", &place, "old", &json!({ "data": data }));
    let attempt = |data: Value| story.admin().try_merge("ConfigMap", &place, "old", &json!({ "data": data }));
    eventually("it is warned of", || {
        let answer = attempt(json!({ "other": "2" }));
        let is_warned = answer.warnings.iter().any(|warning| warning.contains("rule url"));
        if is_warned { Ok(()) } else { Err(format!("{:?}", answer.warnings)) }
    });
    change(json!({ "other": "2" })).ok();
    refused(|| attempt(json!({ "url": "other nonsense" })));
    change(json!({ "url": "https://example.com" })).ok();
    refused(|| attempt(json!({ "url": "nonsense" })));
    let finalized = json!({ "metadata": { "finalizers": ["example.com/keep"] } });
    story.admin().merge("ConfigMap", &place, "old", &finalized).ok();
    story.admin().merge("ConfigMap", &place, "old", &json!({ "metadata": { "finalizers": null } })).ok();
    story.admin().delete("ConfigMap", &place, "old").ok();
}

#[test]
fn an_immutable_key_cannot_change_once_it_is_set() {
    let story = Story::new(peaceful(), "frozen-key");
    let place = story.target("a");
    story.admin().create(&config_map(&place, "app", [("version", "1"), ("other", "1")])).ok();
    let spec = json!({ "data": [
        { "name": "frozen", "keys": ["version"], "immutable": true },
        { "name": "probe", "keys": ["probe"], "format": "integer" },
    ] });
    in_force(&story, &["ConfigMap"], spec, &config_map(&place, "probe", [("probe", "x")]));
    let attempt = |data: Value| story.admin().try_merge("ConfigMap", &place, "app", &json!({ "data": data }));
    assert!(refused(|| attempt(json!({ "version": "2" }))).contains("rule frozen"));
    refused(|| attempt(json!({ "version": null })));
    attempt(json!({ "other": "2" })).ok();
}

#[test]
fn too_much_data_is_refused() {
    let story = Story::new(peaceful(), "oversized");
    let place = story.target("a");
    let bad = config_map(&place, "app", [("k", "more than sixteen bytes of it")]);
    in_force(&story, &["ConfigMap"], json!({ "limits": { "maxBytes": 16 } }), &bad);
    assert!(refused(|| story.admin().try_create(&bad)).contains("16"));
    story.admin().create(&config_map(&place, "app", [("k", "little")])).ok();
}

#[test]
fn warn_warns_and_lets_pass_and_audit_only_notes() {
    let story = Story::new(peaceful(), "lenient");
    let place = story.target("a");
    let bad = config_map(&place, "app", [("url", "nonsense")]);
    let spec = json!({
        "data": [{ "name": "url", "keys": ["url"], "format": "url" }], "validationActions": ["Warn", "Audit"],
    });
    in_force(&story, &["ConfigMap"], spec, &bad);
    let answer = story.admin().create(&bad);
    assert!(
        answer.warnings.iter().any(|warning| warning.contains("policy lenient")),
        "{:?}",
        answer.warnings
    );
    answer.ok();
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
