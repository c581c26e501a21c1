//! Slots in namespaces of which watches show only objects with our labels.

use super::*;
use crate::{
    intake::selection::{Asked, OfCopies},
    model::{DATA_KINDS, DataNeed, DataScope, DataWatch},
    plan::{Need, needed},
};

/// The time at which this process began to lead.
const BEGAN: i64 = 1000;

/// A world that has listed the namespace of the rule's source, and watches Secrets of `shop` by our labels only.
fn scoped() -> (World, Declarer) {
    let mut world = world();
    world.set_data_scope(Some(DataScope::new(DataNeed::in_namespace("copyrator-system"))));
    let rule = rule(&mut world, "app", 0, json!({"status": {"observedGeneration": 1}}));
    let need = needed(&world);
    world.widen_data(&need);
    world.memory_mut().begin_term(at(BEGAN));
    answer(&mut world, &rule, true);
    (world, rule)
}

fn list_everything(world: &mut World) {
    let watches = world.data_scope().unwrap().watches().clone();
    watches.iter().for_each(|watch| assert!(world.note_data_listed(watch)));
}

/// An object in the slot, as the reconciler has asked for it.
fn asked(world: &mut World) {
    let object =
        json!({"metadata": {"namespace": "shop", "name": "app", "uid": "o", "resourceVersion": "5"}});
    serde_json::from_value::<Slim<Secret, Asked>>(object).unwrap().put(world, at(BEGAN));
    world.memory_mut().in_the_way(&slot(), &"home".into(), at(BEGAN));
}

#[test]
fn a_plan_waits_for_the_lists_that_it_reads_and_for_no_other() {
    let (mut world, _) = scoped();
    let source = DataWatch::Namespace(DATA_KINDS[1], "home".into());
    let watches = world.data_scope().unwrap().watches().clone();
    for watch in watches.iter().filter(|watch| **watch != source) {
        world.note_data_listed(watch);
    }
    let plan = plan_slot(&world, &slot(), at(BEGAN));
    assert_eq!((&plan.needs, plan.action), (&vec![Need::List(Kind::Secret, "home".into())], None));
    let other = ObjectKey::new(Kind::Secret, "shop", "other");
    assert_eq!(plan_slot(&world, &other, at(BEGAN)).needs, [], "no rule copies to that name");
    secret(&mut world, "home", "app", json!({}));
    world.note_data_listed(&source);
    assert_eq!(plan_slot(&world, &slot(), at(BEGAN)).needs, [Need::Existing(slot())]);
}

#[test]
fn a_start_asks_before_it_writes_and_everything_newer_is_written_at_once() {
    let old = "1970-01-01T00:10:00Z";
    let new = "1970-01-01T00:20:00Z";
    for (namespace, source, observed, is_asked) in
        [(600, old, 1, true), (1200, old, 1, false), (600, new, 1, false), (600, old, 0, false)]
    {
        let (mut world, _) = scoped();
        list_everything(&mut world);
        rule(&mut world, "app", 0, json!({"status": {"observedGeneration": observed}}));
        let facts = NamespaceFacts { created: at(namespace), ..NamespaceFacts::default() };
        world.set_namespace("shop".into(), facts);
        secret(&mut world, "home", "app", json!({ "creationTimestamp": source }));
        let plan = plan_slot(&world, &slot(), at(BEGAN));
        assert_eq!(!plan.needs.is_empty(), is_asked, "{namespace} {source} {observed}");
        world.memory_mut().found_empty(&slot());
        written(&plan_slot(&world, &slot(), at(BEGAN)));
    }
}

#[test]
fn an_object_in_the_way_is_asked_about_again() {
    let (mut world, _) = scoped();
    list_everything(&mut world);
    secret(&mut world, "home", "app", json!({}));
    asked(&mut world);
    let plan = plan_slot(&world, &slot(), at(BEGAN));
    assert_eq!((blocked(&plan), plan.recheck), ("Conflict", Some(at(BEGAN + 1))));
    let SlotState::Blocked(problem) = &plan.state else { panic!("{plan:?}") };
    assert!(problem.message.contains("checks again within a minute"), "{}", problem.message);
    let due = plan_slot(&world, &slot(), at(BEGAN + 1));
    assert_eq!((blocked(&due), &due.needs), ("Conflict", &vec![Need::Existing(slot())]));

    // A watch shows it: nothing is asked any more.
    let labels = json!({"app.kubernetes.io/managed-by": "copyrator", "copyrator.dev/rule": "x"});
    let shown = json!({"metadata": {"namespace": "shop", "name": "app", "uid": "o", "resourceVersion": "5",
        "labels": labels}});
    let shown: Slim<Secret, OfCopies> = serde_json::from_value(shown).unwrap();
    assert!(shown.put(&mut world, at(BEGAN)), "that is news");
    let plan = plan_slot(&world, &slot(), at(BEGAN + 1));
    assert_eq!((blocked(&plan), &plan.needs, plan.recheck), ("Conflict", &vec![], None));
}

/// Only the type tells them apart, and the answer to a question has none.
#[test]
fn tokens_are_never_written_over() {
    let (mut world, _) = scoped();
    list_everything(&mut world);
    let change = json!({"spec": {"conflictPolicy": "Overwrite"}, "status": {"observedGeneration": 1}});
    rule(&mut world, "app", 0, change);
    secret(&mut world, "home", "app", json!({}));
    asked(&mut world);
    for (type_, is_written) in [("Opaque", true), ("kubernetes.io/service-account-token", false)] {
        let print = Fingerprint {
            uid: "o".into(),
            resource_version: "5".into(),
            type_: Some(type_.into()),
            immutable: false,
            keys: [].into(),
            annotations: [].into(),
            role: None,
            keeper: None,
        };
        world.assume_fingerprint(&slot(), print);
        let plan = plan_slot(&world, &slot(), at(BEGAN));
        assert_eq!(plan.action.is_some(), is_written, "{type_}: {plan:?}");
    }
}
