//! What is not ours is not sent to us.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::bed::objects::{config_map, ours, secret};
use crate::bed::{Bed, Story, eventually, private, same};

/// Without anything that needs it no Secret leaves the API server; with a rule, those of its namespace do; policies of one
/// place share a hook, which asks about what they speak of and about nothing else.
#[test]
fn a_write_reaches_the_hooks_that_it_concerns_and_no_other() {
    let bed = private("bystander");
    let crew = bed.man();
    let story = Story::new(&bed, "bystander");
    let elsewhere = story.bystander("elsewhere");
    let target = story.target("copies");
    for place in [&story.home, &elsewhere] {
        bed.admin.create(&secret(place, "app", [("k", "1")])).ok();
        bed.admin.create(&config_map(place, "app", [("k", "1")])).ok();
    }
    until_hooked(&bed, &["own-kinds", "annotations", "copyratortemplates.warnings"]);
    assert_eq!(calls_for_writes(&bed, &elsewhere), BTreeMap::new(), "without a rule");
    bed.admin.create(&story.rule("Secret", &["app"])).ok();
    story.until("Secret", &target, "app", [("k", "1")]);
    until_hooked(
        &bed,
        &[
            "own-kinds",
            "annotations",
            "secrets.warnings",
            "namespaces.warnings",
            "copyratorrules.warnings",
            "copyratortemplates.warnings",
        ],
    );
    let told = |place: &str, value: &str| {
        bed.admin.merge("Secret", place, "app", &json!({ "stringData": { "k": value } })).warnings.len()
    };
    let mut next = 2..;
    eventually("who changes the source is told", || {
        same(told(&story.home, &next.next().map_or_else(String::new, |it: u32| it.to_string())), 1)
    });
    assert_eq!(told(&elsewhere, "2"), 0);
    assert_eq!(calls_for_writes(&bed, &elsewhere), BTreeMap::new(), "with a rule elsewhere");
    let here = calls_for_writes(&bed, &story.home);
    assert_eq!(here.keys().collect::<Vec<_>>(), ["secrets.warnings"], "the API server counts its calls");

    for (name, names, labels) in [
        ("first", json!(["app", "x-*"]), json!(null)),
        ("second", json!(["*-y", "a?c"]), json!(null)),
        (
            "third",
            json!(["*"]),
            json!({ "matchExpressions": [{ "key": "tier", "operator": "In", "values": ["1"] }] }),
        ),
    ] {
        let mut spec = json!({
            "match": { "kinds": ["ConfigMap"], "names": names, "excludeNamespaces": [elsewhere, "z*z"] },
            "failurePolicy": "Fail", "data": [{ "name": "url", "keys": ["url"], "format": "url" }],
            "whileInUse": "Refuse",
        });
        if !labels.is_null() {
            spec["match"]["objectSelector"] = labels;
        }
        bed.admin.create(&ours("ConfigPolicy", "", name, spec)).ok();
    }
    eventually("three policies are one hook", || {
        let found = hooked(&bed);
        let policies: Vec<_> = found.iter().filter(|name| name.contains("policies-fail")).collect();
        same(policies.len(), 1)?;
        same(policies[0].starts_with("first.and-2-more."), true)
    });
    let labelled = |mut object: serde_json::Value| {
        object["metadata"]["labels"] = json!({ "tier": "1" });
        object
    };
    let bad = |name: &str| config_map(&story.home, name, [("url", "nonsense")]);
    eventually("each of them judges", || {
        let codes = [bad("x-1"), bad("z-y"), bad("abc"), labelled(bad("other"))]
            .map(|it| bed.admin.try_create(&it).code);
        same(codes, [403; 4])
    });
    crew.reconciler.kill();
    crew.webhook.kill();
    eventually("what they speak of waits for the webhook", || {
        let codes = [bad("x-1"), bad("abc"), labelled(bad("other"))].map(|it| bed.admin.try_create(&it).code);
        same(codes, [500; 3])
    });
    // What is not spoken of does not, nor does what is on its way out of labels that nobody selects by.
    bed.admin.create(&bad("other")).ok();
    bed.admin.create(&config_map(&elsewhere, "x-1", [("url", "nonsense")])).ok();
    bed.admin.create(&secret(&story.home, "x-1", [("url", "nonsense")])).ok();
    bed.admin.merge("ConfigMap", &story.home, "other", &json!({ "data": { "url": "more" } })).ok();
    bed.admin.delete("ConfigMap", &story.home, "other").ok();
    let kept = bed.admin.delete("ConfigMap", &story.home, "app");
    assert_eq!(kept.code, 500, "deletions that are judged wait, too");
}

/// How often the API server calls each hook, as it counts itself, while somebody creates, replaces, changes, labels and deletes
/// their own objects; but for the hook for our own kinds, which the reconciler tries with a rule of its own.
fn calls_for_writes(bed: &Bed, place: &str) -> BTreeMap<String, u64> {
    let before = calls(bed);
    for object in [config_map(place, "mine", [("k", "1")]), secret(place, "mine", [("k", "1")])] {
        let kind = object["kind"].as_str().unwrap_or_default();
        bed.admin.create(&object).ok();
        bed.admin.replace(&object).ok();
        bed.admin.merge(kind, place, "mine", &json!({ "data": { "k": "Mg==" } })).ok();
        let mut labelled = object.clone();
        labelled["metadata"]["labels"] = json!({ "team": "blue" });
        bed.admin.apply(&labelled).ok();
        bed.admin.delete(kind, place, "mine").ok();
    }
    let more = calls(bed).into_iter().map(|(hook, count)| {
        let before = before.get(&hook).copied().unwrap_or_default();
        (hook, count - before)
    });
    more.filter(|(hook, count)| *count > 0 && hook != "own-kinds").collect()
}

/// How often the API server has called each hook of ours since it began, of either kind.
fn calls(bed: &Bed) -> BTreeMap<String, u64> {
    let metrics = bed.kubectl(&["get", "--raw", "/metrics"], &Value::Null);
    let mut calls = BTreeMap::new();
    for line in metrics.lines() {
        let Some(line) = line.strip_prefix("apiserver_admission_webhook_request_total{") else { continue };
        let (labels, count) = line.rsplit_once(' ').expect("a sample");
        let name = labels.split("name=\"").nth(1).and_then(|rest| rest.split('"').next());
        let Some(hook) = name.and_then(|name| name.strip_suffix(".copyrator.dev")) else { continue };
        *calls.entry(hook.to_owned()).or_default() += count.parse::<u64>().expect("a count");
    }
    calls
}

/// The hooks that are there, without the end of their names.
fn hooked(bed: &Bed) -> Vec<String> {
    let hooks = bed.admin.get("ValidatingWebhookConfiguration", "", "copyrator");
    let hooks = hooks.map(|mut hooks| hooks["webhooks"].take()).unwrap_or_default();
    let names = hooks.as_array().into_iter().flatten().filter_map(|hook| hook["name"].as_str());
    names.map(|name| name.trim_end_matches(".copyrator.dev").to_owned()).collect()
}

fn until_hooked(bed: &Bed, wanted: &[&str]) {
    eventually(&format!("the hooks are {wanted:?}"), || {
        same(hooked(bed).iter().map(String::as_str).collect::<Vec<_>>(), wanted.to_vec())
    });
}
