//! Where Copyrator looks at some namespaces only: what it cannot read is neither guessed nor taken as
//! deleted.

use super::*;
use crate::{
    model::{NamespaceRead, NamespaceScope},
    plan::copy::targets::within,
};

fn forget_namespaces(world: &mut World) {
    let names: Vec<_> = world.namespaces().keys().cloned().collect();
    names.iter().for_each(|name| world.forget_namespace(name));
}

/// A world with these namespaces; `shop` has a label.
fn some(names: &[&str]) -> World {
    let mut world = world();
    forget_namespaces(&mut world);
    world.set_namespace_scope(Some(NamespaceScope::new(names.iter().copied())));
    for name in names {
        see(&mut world, name);
    }
    world
}

fn see(world: &mut World, name: &str) {
    let labels = [("team".to_owned(), if name == "shop" { "blue" } else { "red" }.to_owned())].into();
    world.note_read(
        &name.into(),
        NamespaceRead::Namespace(NamespaceFacts { labels, ..NamespaceFacts::default() }),
    );
    for store in [
        Store::ConfigMaps,
        Store::Secrets,
        Store::Deployments,
        Store::StatefulSets,
        Store::DaemonSets,
        Store::CopyratorRules,
        Store::ConfigMonitors,
    ] {
        world.note_read(&name.into(), NamespaceRead::Listed(store));
    }
}

fn hide(world: &mut World, name: &str) {
    world.note_read(&name.into(), NamespaceRead::Refused(Store::Secrets, "secrets is forbidden".into()));
}

fn targets_of(terms: Value) -> Value {
    json!({"spec": {"targets": terms}})
}

fn ready(world: &World, rule: &Declarer) -> (String, String, String) {
    let status = rule_status(world, rule, at(100)).unwrap();
    let ready = status.conditions.iter().find(|one| one.type_ == "Ready").unwrap();
    (ready.status.clone(), ready.reason.clone(), ready.message.clone())
}

/// What the writer of the slot's copy left there, as a later plan sees it.
fn a_copy(world: &mut World, rule: &Declarer) {
    secret(world, "home", "app", json!({}));
    let plan = plan_slot(world, &slot(), at(100));
    let marks = &written(&plan).intent.marks;
    let annotations: serde_json::Map<String, Value> =
        marks.annotations(&slot()).into_iter().map(|(key, value)| (key, Value::from(value))).collect();
    let labels: serde_json::Map<String, Value> =
        marks.labels().into_iter().map(|(key, value)| (key, Value::from(value))).collect();
    secret(world, "shop", "app", json!({"annotations": annotations, "labels": labels}));
    assert_eq!(world.copies_of_rule(rule).count(), 1);
}

#[test]
fn a_target_outside_is_told_of_and_the_others_are_served() {
    let mut world = some(&["home", "shop"]);
    secret(&mut world, "home", "app", json!({}));
    let rule = rule(&mut world, "a", 0, targets_of(json!([{"names": ["shop", "web"]}])));
    answer(&mut world, &rule, true);
    assert_eq!(slots_of(&world, &rule), [slot()].into());
    assert!(plan_slot(&world, &slot(), at(100)).action.is_some());
    let status = rule_status(&world, &rule, at(100)).unwrap();
    let problems: Vec<_> =
        status.problems.iter().map(|problem| (&*problem.namespace, &*problem.reason)).collect();
    assert_eq!(problems, [("web", "NotServed")]);
    assert!(status.problems[0].message.contains("only namespaces home, shop"), "{:?}", status.problems);

    hide(&mut world, "shop");
    answer(&mut world, &rule, true);
    let status = rule_status(&world, &rule, at(100)).unwrap();
    let problems: Vec<_> =
        status.problems.iter().map(|problem| (&*problem.namespace, &*problem.reason)).collect();
    assert_eq!(problems, [("shop", "OutOfSight"), ("web", "NotServed")]);
    assert!(status.problems[0].message.contains("secrets is forbidden"), "{:?}", status.problems);
}

#[test]
fn labels_count_among_the_namespaces_in_sight_and_the_status_says_that_there_are_no_others() {
    let mut world = some(&["home", "shop", "web"]);
    secret(&mut world, "home", "app", json!({}));
    for (selector, into) in [
        (json!({"matchLabels": {"team": "blue"}}), "shop"),
        (json!({"matchExpressions": [{"key": "team", "operator": "NotIn", "values": ["blue"]}]}), "web"),
    ] {
        let rule = rule(&mut world, "a", 0, targets_of(json!([{"namespaceSelector": selector}])));
        answer(&mut world, &rule, true);
        assert_eq!(slots_of(&world, &rule), [ObjectKey::new(Kind::Secret, into, "app")].into());
        let (_, _, message) = ready(&world, &rule);
        assert!(message.ends_with("; Copyrator reads only namespaces home, shop, web"), "{message}");
    }
}

#[test]
fn a_rule_whose_sources_are_not_seen_does_nothing_and_says_why() {
    let mut world = some(&["home", "shop"]);
    let sources = json!({"spec": {"source": {"namespaces": ["home", "web"]}, "deletionGrace": "0s"}});
    let rule = rule(&mut world, "a", 0, json!({"spec": {"deletionGrace": "0s"}}));
    answer(&mut world, &rule, true);
    a_copy(&mut world, &rule);
    super::rule(&mut world, "a", 0, sources);
    answer(&mut world, &rule, true);
    // A process that cannot read `web` cannot know that there is nothing to copy from there.
    world.set_object(ObjectKey::new(Kind::Secret, "home", "app"), None);
    let plan = plan_slot(&world, &slot(), at(100));
    assert_eq!(plan.action, None, "{plan:?}");
    let (status, reason, message) = ready(&world, &rule);
    assert_eq!((&*status, &*reason), ("False", "NotServed"), "{message}");
    assert!(message.starts_with("namespace of the sources: namespace web is not listed"), "{message}");
}

/// A 403 looks as if everything in the namespace were deleted, including the rules.
#[test]
fn copies_stay_while_the_namespace_of_their_rule_is_not_seen() {
    let mut world = some(&["home", "shop"]);
    let rule = rule(&mut world, "a", 0, json!({"spec": {"deletionGrace": "0s"}}));
    answer(&mut world, &rule, true);
    a_copy(&mut world, &rule);
    let gone = |world: &mut World| {
        world.rules().keys().cloned().collect::<Vec<_>>().iter().for_each(|rule| world.forget_rule(rule));
        world.set_object(ObjectKey::new(Kind::Secret, "home", "app"), None);
    };
    let mut hidden = some(&["shop"]);
    a_copy_of(&world, &mut hidden);
    for world in [&mut hidden, &mut world] {
        hide(world, "home");
        gone(world);
        let plan = plan_slot(world, &slot(), at(100));
        assert_eq!((plan.action, plan.state), (None, SlotState::Kept));
    }
    // Once it can be read again, the rule acts again.
    see(&mut world, "home");
    let plan = plan_slot(&world, &slot(), at(100));
    assert!(matches!(plan.action, Some(CopyAction::Delete(_))), "{plan:?}");
}

/// What the caller of a command is told of such a copy: its state is unknown, if only the caller cannot read
/// the rule; otherwise that the copy stays.
#[test]
fn of_a_copy_whose_rule_is_not_seen_nothing_is_made_up() {
    let told = |world: &World| {
        let plans = [(slot(), plan_slot(world, &slot(), at(100)))].into();
        let all = copy_rows(world, &plans);
        assert_eq!(all.len(), 1, "{all:?}");
        (all[0].state, all[0].reason, all[0].message.clone())
    };
    let mut world = some(&["home", "shop"]);
    let rule = rule(&mut world, "a", 0, json!({}));
    answer(&mut world, &rule, true);
    a_copy(&mut world, &rule);
    // A readable rule with sources that cannot be read.
    let sources = json!({"spec": {"source": {"namespaces": ["home", "web"]}}});
    super::rule(&mut world, "a", 0, sources);
    answer(&mut world, &rule, true);
    let (course, reason, message) = told(&world);
    assert_eq!((course, reason.as_str()), (CopyState::Blocked, "NotServed"), "{message}");
    assert!(message.starts_with("namespace of the sources: namespace web is not listed"), "{message}");

    let mut callers = World::default();
    callers.set_key(world.key().cloned().unwrap());
    callers.set_namespace_scope(Some(NamespaceScope::of_caller(["home", "shop"])));
    see(&mut callers, "shop");
    hide(&mut callers, "home");
    a_copy_of(&world, &mut callers);
    let (course, reason, message) = told(&callers);
    assert_eq!((course, reason.as_str()), (CopyState::Unknown, "OutOfSight"), "{message}");
    assert!(message.ends_with("(secrets is forbidden)"), "{message}");
    let Brings::Lacks { reason, .. } = brings(&callers, &[], &rule, "shop") else { panic!("it brings") };
    assert_eq!(reason.as_str(), "OutOfSight");

    callers.set_namespace_scope(Some(NamespaceScope::of_caller(["shop"])));
    see(&mut callers, "shop");
    let (course, reason, message) = told(&callers);
    assert_eq!((course, reason.as_str()), (CopyState::Waiting, "NotServed"), "{message}");
}

/// The copy of one world in another.
fn a_copy_of(from: &World, to: &mut World) {
    to.set_object(slot(), from.object(&slot()).cloned());
}

/// A namespace that becomes readable was not part of the earlier questions, so the earlier answer no longer
/// counts.
#[test]
fn a_namespace_that_comes_into_sight_is_asked_about() {
    let mut world = some(&["home", "shop", "web"]);
    let rule = rule(&mut world, "a", 0, targets_of(json!([{"names": ["*"]}])));
    answer(&mut world, &rule, true);
    hide(&mut world, "web");
    assert_eq!(world.rule_authority(&rule), None);
    let asked = |world: &World| {
        let compiled = world.rules()[&rule].compiled.clone().unwrap();
        within(world, &rule, &compiled).unwrap().into_iter().collect::<Vec<_>>()
    };
    assert_eq!(asked(&world), ["shop"], "copies of its only source go nowhere near it");
    answer(&mut world, &rule, true);
    see(&mut world, "web");
    assert_eq!(world.rule_authority(&rule), None);
    assert_eq!(asked(&world), ["shop", "web"]);
}

/// Copyrator has asked about namespaces that the caller cannot read, and its proof covers them, too.
#[test]
fn what_a_person_may_not_see_is_asked_about_all_the_same() {
    let mut world = some(&["home", "shop", "web"]);
    let rule = rule(&mut world, "a", 0, targets_of(json!([{"names": ["*"]}])));
    let compiled = world.rules()[&rule].compiled.clone().unwrap();
    let asked = |world: &World| within(world, &rule, &compiled).unwrap();
    let of_copyrator = asked(&world);

    forget_namespaces(&mut world);
    world.set_namespace_scope(Some(NamespaceScope::of_caller(["gone", "home", "shop", "web"])));
    see(&mut world, "home");
    see(&mut world, "shop");
    hide(&mut world, "web");
    world.note_read(&"gone".into(), NamespaceRead::Absent);
    assert!(!world.sees("web"));
    assert_eq!(asked(&world), of_copyrator);
}
