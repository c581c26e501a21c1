//! Copies, judged by the policies that cover them.

use std::{collections::BTreeMap, sync::Arc};

use super::*;
use crate::{
    api::ConfigPolicySpec,
    model::{Declared, PolicyFacts},
    validate::CompiledPolicy,
};

fn policy(world: &mut World, change: Value) {
    let mut spec = json!({
        "match": {"kinds": ["Secret"], "names": ["app"]},
        "data": [{"name": "url", "keys": ["k"], "format": "url"}, {"name": "fixed", "keys": ["id"], "immutable": true}],
    });
    json_patch::merge(&mut spec, &change);
    let spec: ConfigPolicySpec = serde_json::from_value(spec).unwrap();
    let facts: PolicyFacts = Declared {
        uid: "u".into(),
        resource_version: "1".into(),
        generation: 1,
        created: at(0),
        annotations: BTreeMap::new(),
        compiled: CompiledPolicy::compile(&spec).map(Arc::new),
        spec,
        status: None,
    };
    world.set_policy("p".into(), facts);
}

fn object(k: &str, id: &str) -> String {
    json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "app", "namespace": "shop"},
        "stringData": {"k": k, "id": id}})
    .to_string()
}

/// A world in which a copy is about to be written.
fn writing() -> (World, CopyWrite) {
    let mut world = world();
    secret(&mut world, "home", "app", json!({}));
    let rule = rule(&mut world, "a", 0, json!({}));
    answer(&mut world, &rule, true);
    let write = written(&plan_slot(&world, &slot(), at(100))).clone();
    (world, write)
}

#[test]
fn a_copy_is_judged_where_it_will_be_and_by_what_refuses() {
    let (mut world, write) = writing();
    let guarded = |world: &World| Guards::of(world, &slot(), &write, "us").is_some();
    assert!(!guarded(&world), "without policies it costs nothing");
    for (change, is_guarded) in [
        (json!({}), true),
        (json!({"match": {"copies": "Exclude"}}), false),
        (json!({"match": {"names": ["other"]}}), false),
        (json!({"match": {"kinds": ["ConfigMap"]}}), false),
        (json!({"match": {"excludeNamespaces": ["shop"]}}), false),
        (json!({"match": {"excludeNamespaces": ["home"]}}), true),
        (json!({"match": {"namespaceSelector": {"matchLabels": {"team": "blue"}}}}), false),
        (json!({"validationActions": ["Warn"]}), false),
        (json!({"validationActions": ["Audit"]}), false),
        (json!({"data": [{"name": "url", "keys": ["k"], "format": "no such format"}]}), false),
    ] {
        if change.pointer("/data/0/format") == Some(&json!("no such format")) {
            // An invalid policy counts as absent.
            policy(&mut world, json!({}));
            world.edit_policy("p", |facts| facts.compiled = Err(Vec::new()));
        } else {
            policy(&mut world, change.clone());
        }
        assert_eq!(guarded(&world), is_guarded, "{change}");
    }
}

#[test]
fn what_a_copy_breaks_is_named_and_what_it_broke_before_is_let_be() {
    let (mut world, write) = writing();
    policy(&mut world, json!({}));
    let guards = Guards::of(&world, &slot(), &write, "us").unwrap();
    let refusal = |new: &str, old: Option<&str>| guards.refusal(new, old, at(100)).unwrap();
    assert_eq!(refusal(&object("https://example.com", "1"), None), None);
    let refused = refusal(&object("hunter2", "1"), None).unwrap();
    for part in ["policy p, rule url: Secret shop/app, key k: ", "spec.match.copies: Exclude"] {
        assert!(refused.contains(part), "{refused}");
    }
    assert!(!refused.contains("hunter2"), "{refused}");
    let changed = refusal(&object("https://example.com", "2"), Some(&object("https://example.com", "1")));
    assert!(changed.unwrap().contains("rule fixed"), "a frozen key is frozen in a copy, too");

    let marks = write.intent.marks.annotations(&slot());
    secret(&mut world, "shop", "app", json!({"annotations": marks, "labels": write.intent.marks.labels()}));
    let there = world.object(&slot()).map(Version::of);
    let update = CopyWrite { replaces: there, ..write };
    let guards = Guards::of(&world, &slot(), &update, "us").unwrap();
    let same = guards.refusal(&object("bad", "1"), Some(&object("bad", "1")), at(100)).unwrap();
    assert_eq!(same, None);
    let worse = guards.refusal(&object("worse", "1"), Some(&object("bad", "1")), at(100));
    assert!(worse.unwrap().is_some());
}

/// A refused write is tried again as soon as the judgement could differ, and not before.
#[test]
fn what_a_policy_refused_waits_for_the_policy() {
    let mut world = world();
    secret(&mut world, "home", "app", json!({}));
    let rule = rule(&mut world, "a", 0, json!({}));
    answer(&mut world, &rule, true);
    let digest = written(&plan_slot(&world, &slot(), at(100))).intent.marks.digest.clone();
    let attempt = Attempt {
        version: None,
        digest: Some(digest),
        replace: false,
        reason: WriteFault::RefusedByPolicy,
        message: "policy p, rule url".into(),
        rule: Some(rule.clone()),
        since: at(100),
        retry_at: at(400),
        every: AGAIN,
        judged_by: Some(judged_by(&world, &slot())),
    };
    tried(&mut world, attempt);
    assert_eq!(blocked(&plan_slot(&world, &slot(), at(101))), "RefusedByPolicy");
    assert!(affected(&world, &Changed::Policy("p".into())).contains(&Key::Slot(slot())));
    let mut facts = world.namespaces()["shop"].clone();
    facts.labels.insert("team".into(), "red".into());
    world.set_namespace("shop".into(), facts);
    written(&plan_slot(&world, &slot(), at(102)));
}

/// Others may label a copy, and a server-side apply leaves their labels there. What our own apply alone has put there goes with it.
#[test]
fn what_others_put_on_a_copy_is_judged_with_it() {
    let (mut world, write) = writing();
    policy(&mut world, json!({"match": {"objectSelector": {"matchLabels": {"tier": "prod"}}}}));
    assert!(Guards::of(&world, &slot(), &write, "us").is_none(), "a new copy has no such label");
    let by = |manager: &str, operation: &str| {
        let fields = json!({"f:metadata": {"f:labels": {"f:tier": {}}}});
        json!({"manager": manager, "operation": operation, "fieldsV1": fields})
    };
    let (us, kubectl) = (by(crate::marks::COPY_MANAGER, "Apply"), by("kubectl-label", "Update"));
    let (anew, take_over) = (
        |write| CopyWrite { anew: true, ..write },
        |write| CopyWrite { take_over: Some(Vec::new()), ..write },
    );
    type Change = fn(CopyWrite) -> CopyWrite;
    for (label, managers, change, stays, is_guarded, what) in [
        (Some("prod"), json!([kubectl]), (|write| write) as Change, true, true, "another writer's label"),
        (Some("prod"), json!([us, kubectl]), |write| write, true, true, "also another writer's"),
        (Some("prod"), json!([us]), |write| write, false, true, "ours, which the rule gives no more"),
        (Some("prod"), json!([us]), take_over, true, true, "a foreign object, of which nothing is taken off"),
        (Some("prod"), json!([kubectl]), anew, false, true, "an object that is made anew"),
        (Some("dev"), json!([kubectl]), |write| write, true, false, "another value"),
        (None, json!([]), |write| write, false, false, "no label"),
    ] {
        let mut labels = write.intent.marks.labels();
        labels.extend(label.map(|label| ("tier".to_owned(), label.to_owned())));
        let annotations = write.intent.marks.annotations(&slot());
        let metadata = json!({"annotations": annotations, "labels": labels, "managedFields": managers});
        world.set_object(slot(), None);
        secret(&mut world, "shop", "app", metadata);
        let there = world.object(&slot()).unwrap();
        let update = change(CopyWrite { replaces: Some(Version::of(there)), ..write.clone() });
        let after = update.labels_after(Some(there));
        assert_eq!(after.get("tier").map(String::as_str), label.filter(|_| stays), "{what}");
        assert!(write.intent.labels.iter().all(|(key, value)| after.get(key) == Some(value)), "{what}");
        let note = [("note".to_owned(), "x".to_owned())].into();
        assert_eq!(update.annotations_after(there, note).contains_key("note"), !update.anew, "{what}");
        assert_eq!(Guards::of(&world, &slot(), &update, "us").is_some(), is_guarded, "{what}");
    }
}

#[test]
fn a_copy_of_which_labels_are_not_kept_is_judged_by_all_that_might_find_it() {
    let (mut world, write) = writing();
    let mut labels = write.intent.marks.labels();
    labels.extend((0..70).map(|number| (format!("label-{number}"), String::new())));
    let metadata = json!({"annotations": write.intent.marks.annotations(&slot()), "labels": labels});
    world.set_object(slot(), None);
    secret(&mut world, "shop", "app", metadata);
    let there = world.object(&slot()).unwrap();
    let update = CopyWrite { replaces: Some(Version::of(there)), ..write };
    for (names, is_guarded) in [(json!(["app"]), true), (json!(["another"]), false)] {
        let found = json!({"names": names, "objectSelector": {"matchLabels": {"tier": "prod"}}});
        policy(&mut world, json!({ "match": found }));
        assert_eq!(Guards::of(&world, &slot(), &update, "us").is_some(), is_guarded, "{names}");
    }
}
