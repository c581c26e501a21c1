//! The webhook configurations: applied once calls arrive, repaired, and gone with the release.

use serde_json::{Value, json};

use crate::bed::objects::{binding, condition, config_map, ours, uid};
use crate::bed::{Bed, Story, eventually, private, same};

const VALIDATING: &str = "ValidatingWebhookConfiguration";
const MUTATING: &str = "MutatingWebhookConfiguration";

/// One cluster, in the order in which an installation's life goes.
#[test]
fn hooks_come_after_the_canary_are_repaired_and_go_with_the_cluster_role() {
    let bed = private("hooks");
    // It reconciles before any webhook answers, and is ready only when one does.
    let mut reconciler = bed.reconciler(0);
    an_apply_with_a_uid_makes_nothing_anew(&bed);
    rules_written_without_hooks_are_no_stronger(&bed);
    a_policy_full_of_faults_has_a_status(&bed);
    nothing_depends_on_a_webhook_that_does_not_answer(&bed);

    let mut webhook = bed.webhook();
    webhook.wait_ready().expect("the webhook becomes ready");
    reconciler.wait_ready().expect("the reconciler becomes ready");
    bed.testbed.wait_hooked().expect("the hooks are applied");
    hooks_are_trusted_and_owned(&bed);
    bad_rules_are_refused_from_now_on(&bed);
    drift_is_repaired(&bed);
    deleted_hooks_switch_the_webhook_off_and_return(&bed);

    bed.admin.delete("ClusterRole", "", "copyrator").ok();
    eventually("the garbage collector takes the hooks", || {
        let left = bed.admin.list(VALIDATING, "", "").len() + bed.admin.list(MUTATING, "", "").len();
        if left == 0 { Ok(()) } else { Err(format!("{left} are left")) }
    });
}

/// What the writer of hooks builds on: somebody who deletes them while it looks at them is not overruled.
fn an_apply_with_a_uid_makes_nothing_anew(bed: &Bed) {
    let mut object = config_map("default", "gone", [("k", "v")]);
    object["metadata"]["uid"] = bed.admin.create(&object).ok()["metadata"]["uid"].clone();
    bed.admin.apply(&object).ok();
    bed.admin.delete("ConfigMap", "default", "gone").ok();
    assert_eq!(bed.admin.apply(&object).code, 409);
    assert_eq!(bed.admin.get("ConfigMap", "default", "gone"), None);
}

/// All there may be is what the canary comes by, and that harms nobody.
fn nothing_depends_on_a_webhook_that_does_not_answer(bed: &Bed) {
    for kind in [VALIDATING, MUTATING] {
        for object in bed.admin.list(kind, "", "") {
            for hook in object["webhooks"].as_array().into_iter().flatten() {
                let harmless = hook["failurePolicy"] == "Ignore"
                    && hook["rules"][0]["apiGroups"] == json!(["copyrator.dev"]);
                assert!(harmless, "applied before a call could arrive: {hook}");
            }
        }
    }
}

/// The reconciler is the gate: it understands and asks by itself.
fn rules_written_without_hooks_are_no_stronger(bed: &Bed) {
    let story = Story::new(bed, "unhooked");
    let target = story.target("a");
    story.admin().create(&config_map(&story.home, "app", [("k", "v")])).ok();
    bed.until_stamped();
    story.admin().create(&story.rule("ConfigMap", &["app"])).ok();
    let mut bad = story.rule("ConfigMap", &["a["]);
    bad["metadata"]["name"] = "bad".into();
    story.admin().create(&bad).ok();
    let bad = story.until_condition("CopyratorRule", "bad", "Stalled", "True", "Invalid");
    assert!(bad["status"].to_string().contains("spec.source.names[0]"), "{}", bad["status"]);
    story.until("ConfigMap", &target, "app", [("k", "v")]);

    let forbidden = story.target("forbidden");
    story.admin().create(&binding(&story.home, "alice", "edit")).ok();
    let mut rule = story.rule("ConfigMap", &["app"]);
    rule["metadata"]["name"] = "alices".into();
    rule["spec"]["copy"] = json!({ "name": "stolen" });
    eventually("alice writes a rule", || {
        let answer = bed.alice.create(&rule);
        if answer.code < 300 { Ok(()) } else { Err(answer.refused()) }
    });
    story.until_condition("CopyratorRule", "alices", "Authorized", "False", "Forbidden");
    story.marker("then");
    assert!(
        story.admin().get("ConfigMap", &forbidden, "stolen").is_none(),
        "copied with rights that alice lacks"
    );
}

/// A status holds twenty problems, and the API server refuses one more.
fn a_policy_full_of_faults_has_a_status(bed: &Bed) {
    let rules: Vec<Value> = (0..25)
        .map(|number| json!({ "name": format!("r{number}"), "keys": ["a["], "required": true }))
        .collect();
    let spec = json!({ "match": { "kinds": ["ConfigMap"] }, "data": rules });
    bed.admin.create(&ours("ConfigPolicy", "", "faulty", spec)).ok();
    eventually("the policy says that it is not valid", || {
        let policy = bed.admin.get("ConfigPolicy", "", "faulty").ok_or("it is gone")?;
        same(condition(&policy, "Ready"), Some(("False".to_owned(), "Invalid".to_owned())))?;
        same(policy["status"]["problems"].as_array().map(Vec::len), Some(20))
    });
    bed.admin.delete("ConfigPolicy", "", "faulty").ok();
}

fn hooks_are_trusted_and_owned(bed: &Bed) {
    let role = bed.admin.get("ClusterRole", "", "copyrator").expect("the chart's ClusterRole");
    for kind in [VALIDATING, MUTATING] {
        for object in bed.admin.list(kind, "", "") {
            let owner = &object["metadata"]["ownerReferences"][0];
            assert_eq!(
                (&owner["kind"], &owner["uid"]),
                (&json!("ClusterRole"), &json!(uid(&role))),
                "{object}"
            );
            for hook in object["webhooks"].as_array().into_iter().flatten() {
                assert!(hook["clientConfig"]["caBundle"].is_string(), "no caBundle in {hook}");
                assert!(hook["timeoutSeconds"].as_i64().is_some_and(|seconds| seconds <= 10), "{hook}");
            }
        }
    }
}

/// A rule that only the webhook refuses.
fn bad_rule() -> Value {
    let spec = json!({ "source": { "kind": "ConfigMap", "names": ["a["] }, "targets": [{ "names": ["x"] }] });
    ours("CopyratorRule", "default", "bad", spec)
}

fn bad_rules_are_refused_from_now_on(bed: &Bed) {
    let rule = bad_rule();
    eventually("a bad rule is refused with its field", || {
        let said = bed.admin.try_create(&rule).body.to_string();
        if said.contains("spec.source.names[0]") { Ok(()) } else { Err(said) }
    });
}

fn drift_is_repaired(bed: &Bed) {
    // The hooks for warnings follow the rules that stories make meanwhile.
    let hooks = |object: &Value| {
        let mut hooks = object["webhooks"].clone();
        let is_kept = |hook: &Value| {
            !hook["name"].as_str().is_some_and(|name| name.ends_with("warnings.copyrator.dev"))
        };
        hooks.as_array_mut().expect("hooks").retain(is_kept);
        hooks
    };
    let before = bed.admin.get(VALIDATING, "", "copyrator").expect("the hooks");
    let mut edited = before.clone();
    let own_kinds = &mut edited["webhooks"][0];
    own_kinds["timeoutSeconds"] = 29.into();
    own_kinds["clientConfig"]["caBundle"] = json!(null);
    // What is added exempts writes, and an apply of what we want leaves it there.
    let exempt = json!({ "matchLabels": { "exempt": "yes" } });
    own_kinds["objectSelector"] = exempt.clone();
    own_kinds["namespaceSelector"] = exempt;
    let never = json!({ "name": "never", "expression": "request.userInfo.username != 'mallory'" });
    own_kinds["matchConditions"].as_array_mut().expect("conditions").push(never);
    let mut foreign = edited["webhooks"][1].clone();
    foreign["name"] = "foreign.example.com".into();
    edited["webhooks"].as_array_mut().expect("hooks").push(foreign);
    let patch = json!({ "webhooks": edited["webhooks"] });
    bed.admin.merge(VALIDATING, "", "copyrator", &patch).ok();
    bed.admin.delete(MUTATING, "", "copyrator").ok();
    // Drift is looked for every minute.
    eventually("the hooks are as they were", || {
        let object = bed.admin.get(VALIDATING, "", "copyrator").ok_or("they are gone")?;
        same(hooks(&object), hooks(&before))?;
        bed.admin.get(MUTATING, "", "copyrator").map(drop).ok_or_else(|| "the mutating ones are gone".into())
    });
}

/// The first way to switch the webhook off that docs/emergency.md tells of.
fn deleted_hooks_switch_the_webhook_off_and_return(bed: &Bed) {
    let hooks = |kind: &str| bed.admin.get(kind, "", "copyrator").map(|object| object["webhooks"].clone());
    let before = [VALIDATING, MUTATING].map(hooks);
    assert!(before.iter().all(Option::is_some), "{before:?}");
    eventually("nobody is asked", || {
        // Again each time, should they have returned between.
        [VALIDATING, MUTATING].iter().for_each(|kind| drop(bed.admin.delete(kind, "", "copyrator")));
        let answer = bed.admin.try_create(&bad_rule());
        if answer.code < 300 { Ok(()) } else { Err(answer.refused()) }
    });
    eventually("both return as they were", || same([VALIDATING, MUTATING].map(hooks), before.clone()));
    bad_rules_are_refused_from_now_on(bed);
}
