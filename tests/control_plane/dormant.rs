//! While we are away, the cluster works on, and nothing is lost of what happens meanwhile.

use serde_json::json;

use crate::bed::objects::{annotation, config_map, data, namespace, ours, secret, uid};
use crate::bed::{Story, eventually, rough, same};

const COPY_TO: &str = "copyrator.dev/copy-to";

/// One team's policy that would rather have writes refused than unjudged is nobody else's outage.
#[test]
fn a_policy_that_fails_holds_up_its_own_namespaces_and_no_others() {
    let (bed, _turn) = rough();
    let crew = bed.man();
    let story = Story::new(bed, "held");
    let (held, free) = (story.target("a"), story.bystander("b"));
    let mut lenient = json!({ "data": [{ "name": "url", "keys": ["url"], "format": "url" }], "match": {} });
    let mut strict = story.policy(&["ConfigMap", "Secret"], lenient.clone());
    strict["spec"]["failurePolicy"] = "Fail".into();
    bed.admin.create(&strict).ok();
    // With a policy beside it that covers everybody.
    lenient["match"]["kinds"] = json!(["ConfigMap", "Secret"]);
    bed.admin.create(&ours("ConfigPolicy", "", "held-beside", lenient)).ok();
    eventually("both policies are in force", || {
        let refused = |place: &str| bed.admin.try_create(&config_map(place, "app", [("url", "nonsense")]));
        let answers = [&held, &free].map(|place| refused(place).code);
        if answers.iter().all(|code| *code == 403) { Ok(()) } else { Err(format!("{answers:?}")) }
    });
    eventually("the strict one has a hook of its own", || {
        let hooks = bed.admin.get("ValidatingWebhookConfiguration", "", "copyrator").ok_or("no hooks")?;
        let hooks = hooks["webhooks"].to_string();
        if hooks.contains("held.policies-fail.copyrator.dev") { Ok(()) } else { Err(hooks) }
    });
    crew.webhook.kill();
    crew.reconciler.kill();

    let good = [("url", "https://example.com")];
    eventually("the API server has the hook, and refuses", || {
        let answer = bed.admin.try_create(&config_map(&held, "app", good));
        if answer.code >= 400 { same(answer.code, 500) } else { Err("it lets everything pass".into()) }
    });
    let refusal = bed.admin.create(&secret(&held, "app", good)).refused();
    assert!(refusal.contains("held.policies-fail.copyrator.dev"), "{refusal}");
    for place in [&free, &story.home] {
        bed.admin.create(&config_map(place, "app", [("url", "nonsense")])).ok();
        bed.admin.create(&secret(place, "app", [("url", "nonsense")])).ok();
    }
    bed.admin.create(&namespace(&story.called("later"), &data([("story", "held")]))).ok();
    bed.admin.delete("ConfigPolicy", "", "held").ok();
    bed.admin.delete("ConfigPolicy", "", "held-beside").ok();
}

/// Reloader#814, #640: missed while it was down; Reloader#810: all restart because the leader changed.
#[test]
fn a_change_while_we_were_away_restarts_exactly_once_afterwards() {
    let (bed, _turn) = rough();
    let mut crew = bed.man();
    let story = Story::new(bed, "away");
    bed.admin.apply(&config_map(&story.home, "app", [("k", "1")])).ok();
    bed.admin.apply(&config_map(&story.home, "same", [("k", "1")])).ok();
    bed.admin.apply(&config_map(&story.home, "less", [("kept", "1"), ("removed", "1")])).ok();
    story.deploy("web", &["app"]);
    story.deploy("calm", &["same"]);
    // Its pod begins in a later second than its content.
    story.until_older_than_now();
    story.deploy("fewer", &["less"]);
    bed.admin.create(&story.monitor(&["app", "less", "same"], json!(null))).ok();
    for name in ["web", "fewer", "calm"] {
        story.until_adopted(name);
    }
    let [before, fewer, calm] = ["web", "fewer", "calm"].map(|name| story.until_running(name));
    crew.reconciler.kill();
    story.until_older_than_now();
    bed.admin.apply(&config_map(&story.home, "app", [("k", "2")])).ok();
    // No time tells of it, and nobody saw it: the label does, which is younger than the pod.
    let removed = json!({ "data": { "removed": null } });
    bed.admin.merge("ConfigMap", &story.home, "less", &removed).ok();

    bed.release_lease();
    crew.reconciler = bed.reconciler(0);
    let after = story.until_restarted("web", &before);
    let fewer = story.until_restarted("fewer", &fewer);
    // A leader later everything is as it should be: nobody restarts again.
    crew.reconciler.kill();
    bed.release_lease();
    crew.reconciler = bed.reconciler(0);
    crew.reconciler.wait_ready().expect("the reconciler is ready again");
    story.marker("then");
    assert_eq!((story.until_running("web"), story.until_running("fewer")), (after, fewer));
    assert_eq!(["web", "fewer", "calm"].map(|name| story.revisions(name)), [2, 2, 1]);
    assert_eq!(story.until_running("calm"), calm);
    crew.reconciler.kill();
    crew.webhook.kill();
}

/// A start finds what users wrote and which copies became orphans while no process of ours ran
/// (replicator#357, #241, #73; config-syncer#381; reflector#485). Wanted copies and foreign objects stay.
#[test]
fn what_changed_or_was_orphaned_while_we_were_away_is_made_up_for() {
    let (bed, _turn) = rough();
    let mut crew = bed.man();
    let story = Story::new(bed, "orphans");
    let (kept, left) = (story.target("kept"), story.target("left"));
    let sources = ["source-goes", "rule-goes", "rule-narrowed", "annotation-narrowed"];
    for name in &sources[..3] {
        bed.admin.create(&config_map(&story.home, name, [("k", "v")])).ok();
        let mut rule = story.rule("ConfigMap", &[name]);
        rule["metadata"]["name"] = (*name).into();
        bed.admin.create(&rule).ok();
    }
    let mut annotated = config_map(&story.home, sources[3], [("k", "v")]);
    annotated["metadata"]["annotations"] = json!({ COPY_TO: format!("{kept},{left}") });
    annotated["metadata"]["labels"] = json!({ "copyrator.dev/declares": "true" });
    bed.admin.create(&annotated).ok();
    bed.admin.create(&config_map(&left, "theirs", [("k", "v")])).ok();
    for (target, name) in [&kept, &left].into_iter().flat_map(|target| sources.map(|name| (target, name))) {
        story.until("ConfigMap", target, name, [("k", "v")]);
    }
    crew.reconciler.kill();

    bed.admin.delete("ConfigMap", &story.home, "source-goes").ok();
    bed.admin.delete("CopyratorRule", &story.home, "rule-goes").ok();
    let narrower = json!({ "spec": { "excludeTargets": [left] } });
    bed.admin.merge("CopyratorRule", &story.home, "rule-narrowed", &narrower).ok();
    let narrower = json!({ "metadata": { "annotations": { COPY_TO: kept } } });
    bed.admin.merge("ConfigMap", &story.home, "annotation-narrowed", &narrower).ok();
    let (edited, changed) = (json!({ "data": { "more": "x" } }), json!({ "data": { "k": "2" } }));
    bed.admin.merge("ConfigMap", &kept, "rule-narrowed", &edited).ok();
    bed.admin.merge("ConfigMap", &story.home, "rule-narrowed", &changed).ok();
    let late = story.target("late");
    bed.release_lease();
    crew.reconciler = bed.reconciler(0);
    for name in ["source-goes", "rule-goes"] {
        story.until_gone("ConfigMap", &kept, name);
        story.until_gone("ConfigMap", &left, name);
    }
    story.until_gone("ConfigMap", &left, "rule-narrowed");
    for target in [&kept, &late] {
        story.until("ConfigMap", target, "rule-narrowed", [("k", "2")]);
    }
    // Annotations have the default grace.
    story.until_leaving("ConfigMap", &left, "annotation-narrowed");
    for name in ["rule-narrowed", "annotation-narrowed"] {
        let copy = bed.admin.get("ConfigMap", &kept, name).expect("a wanted copy was removed");
        assert_eq!(annotation(&copy, "copyrator.dev/remove-after"), None);
    }
    assert!(bed.admin.get("ConfigMap", &left, "theirs").is_some());
    crew.reconciler.kill();
    crew.webhook.kill();
}

/// Kubernetes' own controllers clear up while nothing of ours runs: no finalizer, policy or hook of ours is in their way
/// (HNC#352, #152; multi-tenancy#1023; ESO#6677: namespaces stuck in Terminating).
#[test]
fn with_us_dead_namespaces_and_garbage_go_by_the_controllers_own_accounts() {
    let (bed, _turn) = rough();
    let crew = bed.man();
    let story = Story::new(bed, "cleared");
    let (whole, owned) = (story.target("whole"), story.target("owned"));
    for kind in ["ConfigMap", "Secret"] {
        let mut rule = story.rule(kind, &["app"]);
        rule["metadata"]["name"] = kind.to_lowercase().into();
        bed.admin.create(&rule).ok();
    }
    bed.admin.create(&config_map(&story.home, "app", [("k", "v")])).ok();
    bed.admin.create(&secret(&story.home, "app", [("k", "v")])).ok();
    for (kind, target) in [("ConfigMap", &whole), ("Secret", &whole), ("ConfigMap", &owned)] {
        story.until(kind, target, "app", [("k", "v")]);
    }
    let strict = json!({ "match": {}, "failurePolicy": "Fail", "labels": { "required": ["owner"] } });
    bed.admin.create(&story.policy(&["ConfigMap", "Secret"], strict)).ok();
    eventually("the strict policy has a hook of its own", || {
        let hooks = bed.admin.get("ValidatingWebhookConfiguration", "", "copyrator").ok_or("no hooks")?;
        let hooks = hooks["webhooks"].to_string();
        if hooks.contains("cleared.policies-fail.copyrator.dev") { Ok(()) } else { Err(hooks) }
    });
    // A user hangs a copy on an object in the namespace, of a kind that the policy does not speak of.
    let owner = json!({ "apiVersion": "v1", "kind": "ServiceAccount", "metadata": { "namespace": owned, "name": "owner" } });
    let owner = bed.admin.create(&owner).ok();
    let reference =
        json!([{ "apiVersion": "v1", "kind": "ServiceAccount", "name": "owner", "uid": uid(&owner) }]);
    // While the reconciler lives it takes owners off.
    crew.reconciler.kill();
    bed.admin
        .merge("ConfigMap", &owned, "app", &json!({ "metadata": { "ownerReferences": reference } }))
        .ok();
    crew.webhook.kill();
    eventually("the API server has the hook, and holds writes up", || {
        let answer = bed.admin.try_create(&config_map(&whole, "probe", [("k", "v")]));
        if answer.code >= 500 { Ok(()) } else { Err(answer.code.to_string()) }
    });

    bed.admin.delete("Namespace", "", &whole).ok();
    story.until_gone("Namespace", "", &whole);
    bed.admin.delete("ServiceAccount", &owned, "owner").ok();
    story.until_gone("ConfigMap", &owned, "app");
    bed.admin.delete("ConfigPolicy", "", "cleared").ok();
}
