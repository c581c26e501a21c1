//! What a policy's status tells: what is there already, and whether anybody asks us about writes.

use serde_json::{Value, json};

use crate::bed::objects::{condition, config_map, namespace, secret};
use crate::bed::{Story, eventually, peaceful, rough, same};

/// A policy that wants values of the key `url` to be URLs.
fn urls(story: &Story<'_>, kinds: &[&str]) -> Value {
    let spec = json!({ "match": {}, "data": [{ "name": "url", "keys": ["url"], "format": "url" }] });
    story.policy(kinds, spec)
}

/// Waits until the policy of the story tells of exactly these objects.
#[track_caller]
fn until_told(story: &Story<'_>, name: &str, wanted: &[&str]) -> Value {
    let wanted: Vec<String> = wanted.iter().map(ToString::to_string).collect();
    eventually(&format!("the status tells of {wanted:?}"), || {
        let policy = story.admin().get("ConfigPolicy", "", name).ok_or("it does not exist")?;
        let status = &policy["status"];
        let told = status["violations"].as_array().cloned().unwrap_or_default();
        let brief = |one: &Value| {
            let [kind, namespace, name] =
                ["kind", "namespace", "name"].map(|field| one[field].as_str().unwrap_or_default());
            format!("{kind} {namespace}/{name}")
        };
        same(told.iter().map(brief).collect(), wanted.clone())?;
        same(status["violationCount"].as_i64(), Some(wanted.len() as i64))?;
        Ok(policy)
    })
}

/// Alone with the operator: looking at what is there gives way to everything else, and rests for many times what it took.
#[test]
fn what_is_there_already_shows_in_the_status() {
    let (bed, _turn) = rough();
    let crew = bed.man();
    let story = Story::new(bed, "standing");
    let (place, elsewhere) = (story.target("a"), story.bystander("b"));
    let admin = story.admin();
    admin.create(&config_map(&place, "bad", [("url", "nonsense"), ("other", "1")])).ok();
    admin.create(&secret(&place, "worse", [("url", "hunter2 is no address")])).ok();
    admin.create(&config_map(&place, "good", [("url", "https://example.com")])).ok();
    admin.create(&config_map(&elsewhere, "bad", [("url", "nonsense")])).ok();
    // A copy counts where it is, though its source is in none of the policy's namespaces; unless the policy leaves copies out.
    admin.create(&config_map(&story.home, "copied", [("url", "nonsense")])).ok();
    admin.create(&story.rule("ConfigMap", &["copied"])).ok();
    story.until("ConfigMap", &place, "copied", [("url", "nonsense")]);

    admin.create(&urls(&story, &["ConfigMap", "Secret"])).ok();
    let (bad, worse) = (format!("ConfigMap {place}/bad"), format!("Secret {place}/worse"));
    let policy = until_told(&story, "standing", &[&bad, &format!("ConfigMap {place}/copied"), &worse]);
    assert!(!policy.to_string().contains("hunter2"), "{policy}");
    let first = &policy["status"]["violations"][0];
    assert_eq!((&first["rule"], &first["key"]), (&json!("url"), &json!("url")));
    assert!(first["message"].as_str().is_some_and(|text| text.contains("is not a URL; write")), "{first}");
    let told = |status: &str, reason: &str| Some((status.to_owned(), reason.to_owned()));
    // What is there and whether writes are judged are found apart.
    eventually("it is in force, with violations", || {
        let policy = admin.get("ConfigPolicy", "", "standing").ok_or("it does not exist")?;
        let seen = ["Ready", "Degraded"].map(|kind| condition(&policy, kind));
        same(seen, [told("True", "InForce"), told("True", "Violations")])
    });
    let row = story.bed.testbed.cluster().kubectl().args(["get", "cfgpol", "standing"]).output();
    let row = String::from_utf8(row.expect("kubectl runs").stdout).expect("text");
    assert!(row.contains("VIOLATIONS") && row.contains(" 3 "), "{row}");
    assert!(row.contains(" ConfigMap,Secret ") && row.contains(" Deny "), "{row}");

    // What the policy leaves out from now on and what is put right is told of no more; what comes under it is.
    let without = json!({ "spec": { "match": { "copies": "Exclude" } } });
    admin.merge("ConfigPolicy", "", "standing", &without).ok();
    admin.merge("ConfigMap", &place, "bad", &json!({ "data": { "url": "https://example.com" } })).ok();
    admin
        .merge("Namespace", "", &elsewhere, &json!({ "metadata": { "labels": { "story": "standing" } } }))
        .ok();
    until_told(&story, "standing", &[&format!("ConfigMap {elsewhere}/bad"), &worse]);
    // So it is with what goes.
    admin.delete("Secret", &place, "worse").ok();
    admin.delete("ConfigMap", &elsewhere, "bad").ok();
    let policy = until_told(&story, "standing", &[]);
    assert_eq!(condition(&policy, "Degraded"), None);
    admin.delete("ConfigPolicy", "", "standing").ok();
    drop(crew);
}

#[test]
fn namespaces_that_are_there_are_judged_too() {
    let story = Story::new(peaceful(), "standing-places");
    let labels = |owner: &str| crate::bed::objects::data([("story", "standing-places"), ("owner", owner)]);
    for (part, owner) in [("good", "blue"), ("bad", "BLUE")] {
        story.admin().create(&namespace(&story.called(part), &labels(owner))).ok();
    }
    let spec = json!({ "match": {}, "labels": { "patterns": { "owner": "[a-z]+" } } });
    story.admin().create(&story.policy(&["Namespace"], spec)).ok();
    until_told(&story, "standing-places", &[&format!("Namespace /{}", story.called("bad"))]);
}

/// A policy that nobody asks must not say that it is in force.
#[test]
fn a_policy_without_hooks_says_so() {
    let (bed, _turn) = rough();
    let crew = bed.man();
    let story = Story::new(bed, "hookless");
    story.target("a");
    let admin = story.admin();
    admin.create(&urls(&story, &["ConfigMap"])).ok();
    story.until_condition("ConfigPolicy", "hookless", "Ready", "True", "InForce");
    let hooks = "ValidatingWebhookConfiguration";
    let annotate =
        |value: Value| json!({ "metadata": { "annotations": { "copyrator.dev/hands-off": value } } });
    admin.merge(hooks, "", "copyrator", &annotate(json!("incident"))).ok();
    admin.merge(hooks, "", "copyrator", &json!({ "webhooks": [] })).ok();
    // A policy that comes has the hooks looked at.
    let mut another = urls(&story, &["Secret"]);
    another["metadata"]["name"] = json!("hookless-too");
    admin.create(&another).ok();
    let policy = story.until_condition("ConfigPolicy", "hookless", "Ready", "False", "HooksOff");
    let why = policy["status"]["conditions"].to_string();
    assert!(why.contains("CREATE configmaps") && why.contains("hands-off"), "{why}");
    story.until_condition("ConfigPolicy", "hookless-too", "Ready", "False", "HooksOff");
    admin.merge(hooks, "", "copyrator", &annotate(json!(null))).ok();
    admin.delete("ConfigPolicy", "", "hookless-too").ok();
    story.until_condition("ConfigPolicy", "hookless", "Ready", "True", "InForce");
    admin.delete("ConfigPolicy", "", "hookless").ok();
    drop(crew);
}
