//! Which rule gets a slot, what is copied, what delays a write, and what a status says meanwhile.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;
use serde_json::{Value, json};

mod demand;
mod gates;
mod guard;
mod labels;
mod leaving;
mod made_anew;
mod namespace_scope;
mod ready;
mod remember;
mod terminating;
mod unshown;

use super::{
    claims::{claims_on, is_source, slots_of, sources_of},
    targets::bounds,
    *,
};
use crate::{
    api::{CopyratorRule, CopyratorRuleStatus, DeletionPolicy},
    authority::Bounds,
    digest::{DigestKey, Fingerprint, KeyPrint},
    explain::{Brings, CopyRow, CopyState, brings, copy_rows},
    intake::{AsWritten, object::Slim, watched::Watched},
    marks::{CA_SECRET, KEY_SECRET},
    model::{
        Attempt, Authority, Bytes, NamespaceFacts, Refusal, RefusalReason, Repairs, Store, World, WriteFault,
    },
    names::{Declarer, Kind, NamespacedName, ObjectKey},
    plan::{Changed, Key, affected, every_slot, everything, listed_anew, slots_to_check},
};

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn key() -> DigestKey {
    DigestKey::new(&[7; DigestKey::LENGTH])
}

fn world() -> World {
    let mut world = World::default();
    world.set_key(key());
    world.settings_mut().own_namespace = "copyrator-system".into();
    world.settings_mut().stores = [Store::Secrets].into();
    world.set_all_listed();
    for name in ["copyrator-system", "home", "shop"] {
        world.set_namespace(name.into(), NamespaceFacts::default());
    }
    world
}

fn tried(world: &mut World, attempt: Attempt) {
    world.memory_mut().at_slot(&slot(), |memory| memory.failed(attempt));
}

fn rule(world: &mut World, name: &str, created: i64, change: Value) -> Declarer {
    let mut rule = json!({
        "apiVersion": "copyrator.dev/v1alpha1", "kind": "CopyratorRule",
        "metadata": {"namespace": "home", "name": name, "uid": name, "generation": 1, "resourceVersion": "1",
            "creationTimestamp": at(created).to_string(),
            "annotations": {"copyrator.dev/author": "alice", "copyrator.dev/author-groups": "[]"}},
        "spec": {"source": {"kind": "Secret", "names": ["app"]}, "targets": [{"names": ["shop"]}]},
    });
    json_patch::merge(&mut rule, &change);
    serde_json::from_value::<AsWritten<CopyratorRule>>(rule).unwrap().put(world, at(0));
    Declarer::rule("home", name)
}

fn answer(world: &mut World, rule: &Declarer, may: bool) {
    let facts = &world.rules()[rule];
    let answer =
        may.then_some(()).ok_or(Refusal { reason: RefusalReason::Forbidden, message: "no".to_owned() });
    let (uid, generation) = (facts.uid.clone(), facts.generation);
    let authority = Authority {
        uid,
        generation,
        identity: "user alice".into(),
        answer,
        asked: at(0),
        questions: 0,
        refusals: 0,
    };
    world.set_rule_authority(rule, authority);
}

fn bounds_of(world: &World, rule: &Declarer) -> Bounds {
    bounds(world, rule, world.rules()[rule].compiled.as_ref().unwrap())
}

fn secret(world: &mut World, namespace: &str, name: &str, metadata: Value) -> ObjectKey {
    let mut object = json!({"metadata": {"namespace": namespace, "name": name, "uid": format!("{namespace}/{name}"),
        "resourceVersion": "1", "creationTimestamp": "1970-01-01T00:00:00Z"}});
    json_patch::merge(&mut object["metadata"], &metadata);
    serde_json::from_value::<Slim<Secret>>(object).unwrap().put(world, at(0));
    let key = ObjectKey::new(Kind::Secret, namespace, name);
    let print = Fingerprint {
        uid: format!("{namespace}/{name}").into(),
        resource_version: "1".into(),
        type_: Some("Opaque".into()),
        immutable: false,
        keys: [].into(),
        annotations: [].into(),
        role: None,
        keeper: None,
    };
    world.assume_fingerprint(&key, print);
    key
}

fn slot() -> ObjectKey {
    ObjectKey::new(Kind::Secret, "shop", "app")
}

fn written(plan: &SlotPlan) -> &CopyWrite {
    let Some(CopyAction::Write(write)) = &plan.action else { panic!("nothing is written: {plan:?}") };
    write
}

fn blocked(plan: &SlotPlan) -> &str {
    assert_eq!(plan.action, None);
    let SlotState::Blocked(problem) = &plan.state else { panic!("nothing is in the way: {plan:?}") };
    problem.reason.as_str()
}

#[test]
fn everything_begins_with_authorities_and_leaves_no_slot_out() {
    let mut world = world();
    secret(&mut world, "home", "app", json!({}));
    let rule = rule(&mut world, "a", 0, json!({}));
    answer(&mut world, &rule, true);
    let keys: Vec<_> = everything(&world).into_iter().collect();
    assert_eq!(
        keys,
        [Key::Rule(rule), Key::Slot(slot()), Key::Hooks, Key::DigestKey],
        "a copy that is not there is a slot, too"
    );
    let listed = |store| listed_anew(&world, store, None).into_iter().collect::<Vec<_>>();
    assert_eq!(listed(Store::Secrets), keys[1..], "of one that was listed once more");
    let elsewhere = listed_anew(&world, Store::Secrets, Some("home"));
    assert_eq!(elsewhere.into_iter().collect::<Vec<_>>(), keys[2..], "of one namespace");
    assert_eq!(listed(Store::CopyratorRules), keys[..1]);
    assert_eq!(listed(Store::Namespaces), []);
}

/// Even an identity that may read our namespace cannot copy what marks, grants and certificates rest on.
#[test]
fn secrets_of_ours_are_no_sources_and_our_namespace_no_target() {
    let mut world = world();
    for name in [CA_SECRET, KEY_SECRET, "app"] {
        secret(&mut world, "copyrator-system", name, json!({}));
    }
    for (name, source) in [
        ("all", json!({"names": ["*"]})),
        ("any", json!({"names": null, "objectSelector": {}})),
        ("named", json!({"names": [CA_SECRET, KEY_SECRET, "app"]})),
    ] {
        let mut spec = json!({"spec": {"source": {"namespaces": ["copyrator-system"]}}});
        json_patch::merge(&mut spec["spec"]["source"], &source);
        let rule = rule(&mut world, name, 0, spec);
        assert_eq!(slots_of(&world, &rule), [slot()].into(), "{name}");
    }
    let into_ours = json!({"spec": {"targets": [{"names": ["copyrator-system"]}],
        "copy": {"name": KEY_SECRET}, "conflictPolicy": "Overwrite"}});
    secret(&mut world, "home", "app", json!({}));
    let rule = rule(&mut world, "into-ours", 0, into_ours);
    answer(&mut world, &rule, true);
    assert!(slots_of(&world, &rule).is_empty());
    let theirs = ObjectKey::new(Kind::Secret, "copyrator-system", KEY_SECRET);
    assert_eq!(plan_slot(&world, &theirs, at(100)).action, None);
}

/// The older of two rules that appear together gets the slot, however long the API server takes to answer.
#[test]
fn a_free_slot_waits_for_an_older_rule_that_has_not_been_asked_about() {
    let mut world = world();
    secret(&mut world, "home", "app", json!({}));
    let (old, young) = (rule(&mut world, "old", 1, json!({})), rule(&mut world, "young", 2, json!({})));
    answer(&mut world, &young, true);
    let plan = plan_slot(&world, &slot(), at(100));
    assert_eq!((&plan.rule, &plan.action), (&Some(old.clone()), &None), "the younger one must wait");

    // The planner waits for no rule whose question is put off.
    world.memory_mut().put_off(&old, at(100));
    assert_eq!(plan_slot(&world, &slot(), at(100)).rule, Some(young.clone()));
    world.memory_mut().asked(&old);
    assert_eq!(plan_slot(&world, &slot(), at(100)).rule, Some(old.clone()));

    answer(&mut world, &old, false);
    let plan = plan_slot(&world, &slot(), at(100));
    assert_eq!(plan.rule, Some(young.clone()));
    written(&plan);
    answer(&mut world, &old, true);
    assert_eq!(plan_slot(&world, &slot(), at(100)).rule, Some(old.clone()));
    rule(&mut world, "old", 1, json!({"spec": {"suspend": true}}));
    assert_eq!(plan_slot(&world, &slot(), at(100)).rule, Some(young));
}

/// The admission policy guards objects with the labels; everybody may write annotations on their own objects.
#[test]
fn with_an_unknown_key_only_labelled_marks_count() {
    let mut world = world();
    secret(&mut world, "home", "app", json!({}));
    let rule = rule(&mut world, "a", 0, json!({}));
    answer(&mut world, &rule, true);
    let intent = written(&plan_slot(&world, &slot(), at(100))).intent.clone();
    let mut annotations = intent.marks.annotations(&slot());
    let another = DigestKey::new(&[8; DigestKey::LENGTH]);
    annotations.insert(crate::marks::MARK.into(), another.mark(&slot(), &rule));

    secret(&mut world, "shop", "app", json!({"annotations": annotations}));
    assert_eq!(blocked(&plan_slot(&world, &slot(), at(100))), "Conflict");
    secret(&mut world, "shop", "app", json!({"annotations": annotations, "labels": intent.marks.labels()}));
    assert!(written(&plan_slot(&world, &slot(), at(100))).take_over.is_none(), "it is ours, of another key");
    // Without the labels, but with our own key: still ours.
    secret(
        &mut world,
        "shop",
        "app",
        json!({"annotations": intent.marks.annotations(&slot()), "labels": null}),
    );
    assert!(written(&plan_slot(&world, &slot(), at(100))).take_over.is_none());
}

#[test]
fn what_was_refused_waits_and_so_does_what_others_fight_over() {
    let mut world = world();
    secret(&mut world, "home", "app", json!({}));
    let rule = rule(&mut world, "a", 0, json!({}));
    answer(&mut world, &rule, true);
    let marks = written(&plan_slot(&world, &slot(), at(100))).intent.marks.clone();
    let digest = marks.digest.clone();
    let attempt = Attempt {
        version: None,
        digest: Some(digest.clone()),
        replace: false,
        reason: WriteFault::Refused,
        message: "exceeded quota".into(),
        rule: Some(rule.clone()),
        since: at(100),
        retry_at: at(400),
        every: AGAIN,
        judged_by: None,
    };
    tried(&mut world, attempt.clone());
    let plan = plan_slot(&world, &slot(), at(399));
    assert_eq!((blocked(&plan), plan.recheck), ("Refused", Some(at(400))));
    written(&plan_slot(&world, &slot(), at(400)));
    tried(&mut world, Attempt { digest: Some("other content".into()), ..attempt.clone() });
    written(&plan_slot(&world, &slot(), at(399)));
    tried(&mut world, attempt);
    world.set_object(slot(), None);
    written(&plan_slot(&world, &slot(), at(399)));

    let repairs =
        Repairs { digest, count: 10, since: at(399), not_before: Some(at(500)), made: 10, made_at: at(399) };
    world.memory_mut().at_slot(&slot(), |memory| memory.written(repairs, None));
    let plan = plan_slot(&world, &slot(), at(399));
    assert_eq!(
        (blocked(&plan), plan.recheck),
        ("Contested", Some(at(400))),
        "a missing copy waits for a second"
    );
    written(&plan_slot(&world, &slot(), at(400)));
    let fields = json!([{"manager": "other-tool", "operation": "Update", "fieldsType": "FieldsV1",
        "fieldsV1": {"f:data": {"f:k": {}}}}]);
    secret(
        &mut world,
        "shop",
        "app",
        json!({"annotations": marks.annotations(&slot()), "managedFields": fields}),
    );
    let plan = plan_slot(&world, &slot(), at(499));
    assert_eq!((blocked(&plan), plan.recheck), ("Contested", Some(at(500))));
    let SlotState::Blocked(problem) = &plan.state else { panic!() };
    assert!(problem.message.contains("(other-tool)"), "{}", problem.message);
    written(&plan_slot(&world, &slot(), at(500)));
}

/// A restart of ours changes nothing for users: no status says meanwhile that rights were not checked.
#[test]
fn a_status_waits_for_the_answer_it_already_gave() {
    let mut world = world();
    secret(&mut world, "home", "app", json!({}));
    let name = rule(&mut world, "a", 0, json!({}));
    let ready = |status: &CopyratorRuleStatus| status.conditions[0].reason.clone();
    assert_eq!(
        ready(&rule_status(&world, &name, at(1)).unwrap()),
        "AuthorityUnknown",
        "it is all there is to say"
    );

    for (may, says) in [(true, "Copying"), (false, "Forbidden")] {
        rule(&mut world, "a", 0, json!({}));
        answer(&mut world, &name, may);
        let status = rule_status(&world, &name, at(1)).unwrap();
        assert_eq!(ready(&status), says);
        let stored = json!({"status": status});
        rule(&mut world, "a", 0, stored.clone());
        world.forget_rule_authority(&name, |_| true);
        assert_eq!(rule_status(&world, &name, at(2)), None);
        answer(&mut world, &name, may);
        assert_eq!(rule_status(&world, &name, at(2)), Some(status), "a restart writes nothing");
        // The old answer says nothing about a new generation.
        let mut changed = stored;
        changed["metadata"] = json!({"generation": 2});
        rule(&mut world, "a", 0, changed);
        world.forget_rule_authority(&name, |_| true);
        assert_eq!(ready(&rule_status(&world, &name, at(2)).unwrap()), "AuthorityUnknown");
    }
}

/// The API server keeps whole seconds: after a restart of ours, a status with fractions would be written
/// again.
#[test]
fn when_it_was_asked_is_the_same_once_it_is_read_back() {
    for milliseconds in [1_000, 1_400, 1_600] {
        let mut world = world();
        let name = rule(&mut world, "a", 0, json!({}));
        answer(&mut world, &name, true);
        let asked = Timestamp::from_millisecond(milliseconds).unwrap();
        let answer = Authority { asked, ..world.rule_authority(&name).cloned().unwrap() };
        world.set_rule_authority(&name, answer);
        let told = rule_status(&world, &name, at(2)).unwrap();
        assert!(told.conditions[1].message.ends_with(" at 1970-01-01T00:00:01Z"), "{told:?}");
        rule(&mut world, "a", 0, json!({ "status": told }));
        let again = rule_status(&world, &name, at(3)).unwrap();
        assert_eq!(Some(&again), world.rules()[&name].status.as_ref(), "asked {milliseconds} ms after 1970");
    }
}

/// A claim in a status proves nothing, and does not make anybody write again and again.
#[test]
fn a_status_proves_a_grant_and_carries_a_claim_along() {
    let mut world = world();
    let name = rule(&mut world, "a", 0, json!({}));
    answer(&mut world, &name, true);
    let status = rule_status(&world, &name, at(1)).unwrap();
    assert_eq!(status.authorized_generation, Some(1));
    assert_eq!(status.authorized_proof, Some(world.rules()[&name].grant(&key(), &bounds_of(&world, &name))));

    rule(&mut world, "a", 0, json!({}));
    answer(&mut world, &name, false);
    let refused = rule_status(&world, &name, at(1)).unwrap();
    assert_eq!((refused.authorized_generation, &refused.authorized_proof), (None, &None));
    let mut claimed = json!({"status": refused});
    claimed["status"]["authorizedGeneration"] = 1.into();
    claimed["status"]["authorizedProof"] = "0.0".into();
    rule(&mut world, "a", 0, claimed);
    assert!(!world.rules()[&name].is_granted(&key(), &bounds_of(&world, &name)));
    assert_eq!(rule_status(&world, &name, at(2)), world.rules()[&name].status);
}

fn outlook(world: &World) -> Vec<String> {
    let slots = every_slot(world).into_iter();
    let plans = slots.map(|slot| (slot.clone(), plan_slot(world, &slot, at(1_000)))).collect();
    let line = |it: CopyRow| {
        let rule = it.rule.map_or_else(|| "nobody".into(), |rule| rule.to_string());
        let differs = it.difference.map(|it| serde_json::to_string(&it).unwrap()).unwrap_or_default();
        format!("{:?} {} {rule} {} {differs}", it.state.action(), it.slot, it.reason.as_str())
            .trim_end()
            .to_owned()
    };
    copy_rows(world, &plans).into_iter().map(line).collect()
}

#[test]
fn an_outlook_speaks_to_every_rule_that_wants_the_slot() {
    let mut world = world();
    let (first, second) = (rule(&mut world, "first", 1, json!({})), rule(&mut world, "second", 2, json!({})));
    secret(&mut world, "home", "app", json!({}));
    assert_eq!(
        outlook(&world),
        [
            "Unknown Secret shop/app home/first AuthorityUnknown",
            "Refuse Secret shop/app home/second OtherRule"
        ]
    );
    answer(&mut world, &first, true);
    answer(&mut world, &second, true);
    assert_eq!(
        outlook(&world),
        ["Create Secret shop/app home/first Missing", "Refuse Secret shop/app home/second OtherRule"]
    );
    secret(&mut world, "shop", "app", json!({}));
    assert_eq!(outlook(&world)[0], "Refuse Secret shop/app home/first Conflict");
    for object in [ObjectKey::new(Kind::Secret, "home", "app"), slot()] {
        world.forget_fingerprint(&object);
    }
    world.forget_namespace("shop");
    assert!(outlook(&world).is_empty());
}

#[test]
fn what_differs_is_named_and_never_shown() {
    let mut world = world();
    let overwrite =
        json!({"spec": {"conflictPolicy": "Overwrite", "copy": {"labels": {"set": {"tier": "infra"}}}}});
    let rule = rule(&mut world, "rule", 1, overwrite);
    answer(&mut world, &rule, true);
    let (source, copy) =
        (secret(&mut world, "home", "app", json!({})), secret(&mut world, "shop", "app", json!({})));
    let keys = |world: &mut World, of: &ObjectKey, values: &[(&str, &str)]| {
        let print = |value: &str| KeyPrint { digest: key().value(value.as_bytes()), size: 1, binary: false };
        let keys = values.iter().map(|(key, value)| ((*key).to_owned(), print(value))).collect();
        let print = Fingerprint { keys, ..world.fingerprint(of).cloned().unwrap() };
        world.assume_fingerprint(of, print);
    };
    keys(&mut world, &source, &[("a", "1"), ("b", "2"), ("c", "3")]);
    keys(&mut world, &copy, &[("b", "else"), ("c", "3"), ("d", "4")]);
    let expected = r#"{"keysAdded":["a"],"keysChanged":["b"],"keysRemoved":["d"],"labels":["app.kubernetes.io/managed-by","copyrator.dev/rule","tier"]"#;
    let said = &outlook(&world)[0];
    assert!(said.starts_with(&format!("Change Secret shop/app home/rule TakeOver {expected}")), "{said}");
    let print =
        Fingerprint { type_: Some("example.com/other".into()), ..world.fingerprint(&copy).cloned().unwrap() };
    world.assume_fingerprint(&copy, print);
    let said = &outlook(&world)[0];
    assert!(said.contains("home/rule Replace") && said.contains(r#""fields":["type"]"#), "{said}");
}

/// The status reports a delayed spread and a large one, and no other.
#[test]
fn a_status_tells_of_spreads() {
    let mut world = world();
    let source = secret(&mut world, "home", "app", json!({}));
    let rule = rule(&mut world, "a", 0, json!({}));
    answer(&mut world, &rule, true);
    let mut print = world.fingerprint(&source).cloned().unwrap();
    let value = KeyPrint { digest: [0; 16], size: 98, binary: false };
    print.keys.insert("ab".into(), value);
    world.assume_fingerprint(&source, print);
    let marks = written(&plan_slot(&world, &slot(), at(100))).intent.marks.clone();
    let ready = |world: &World| {
        let RuleReport { status, large, .. } = rule_report(world, &rule, at(101)).unwrap();
        let ready = status.conditions.iter().find(|one| one.type_ == "Ready").unwrap();
        (format!("{} {}", ready.reason, ready.message), large.map(|large| large.to_string()))
    };
    assert_eq!(ready(&world), ("Copying Copyrator is writing 1 copy".into(), None));

    let our_own = json!([{"manager": crate::marks::COPY_MANAGER, "operation": "Apply", "fieldsV1": {"f:data": {"f:old": {}}}}]);
    let shared = crate::marks::SharedMarks { digest: "old".into(), ..(*marks.shared).clone() };
    let old = crate::marks::CopyMarks { shared: shared.into(), ..marks };
    secret(
        &mut world,
        "shop",
        "app",
        json!({"annotations": old.annotations(&slot()), "labels": old.labels(), "managedFields": our_own}),
    );
    assert!(written(&plan_slot(&world, &slot(), at(100))).follows);
    let last = spread::spread(&world, &slot(), at(100));
    world.memory_mut().at_slot(&slot(), |memory| memory.followed(last));
    let plan = plan_slot(&world, &slot(), at(101));
    assert_eq!((&plan.state, &plan.action), (&SlotState::Braked(at(105)), &None));
    let waits = "Copying 1 copy waits until 1970-01-01T00:01:45Z, because the source keeps changing";
    assert_eq!(ready(&world), (waits.into(), None));

    world.settings_mut().spread_limits.warn_bytes = Bytes(99);
    let large = "Secret home/app: 100 bytes in each of 1 namespaces, 100 bytes in total";
    assert_eq!(ready(&world), (format!("{waits}; large: {large}"), Some(large.into())));
    world.settings_mut().spread_limits.max_bytes = Bytes(99);
    let (said, large) = ready(&world);
    assert!(
        said.starts_with("Incomplete 0 of 1 copies") && large.is_none(),
        "what is refused is no mere warning: {said}"
    );
}

/// After restoring a CA from a backup, webhooks use it at once, and calls fail until the hooks carry it.
/// After deleting the key of digests, a restart would make another one, by which no mark is known.
#[test]
fn our_own_secrets_are_looked_at_as_soon_as_they_change() {
    let world = world();
    for (kind, namespace, name, looked_at) in [
        (Kind::Secret, "copyrator-system", CA_SECRET, Some(Key::Hooks)),
        (Kind::Secret, "shop", CA_SECRET, None),
        (Kind::ConfigMap, "copyrator-system", CA_SECRET, None),
        (Kind::Secret, "copyrator-system", KEY_SECRET, Some(Key::DigestKey)),
        (Kind::Secret, "shop", KEY_SECRET, None),
        (Kind::ConfigMap, "copyrator-system", KEY_SECRET, None),
    ] {
        let changed = Changed::Object(ObjectKey::new(kind, namespace, name));
        let keys: Vec<_> = affected(&world, &changed).into_iter().collect();
        assert_eq!(keys, Vec::from_iter(looked_at), "{kind} {namespace}/{name}");
    }
}
