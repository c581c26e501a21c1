//! `Ready` is `False` where nothing works, and `True` where everything is as declared and something is yet to
//! come.

use super::*;
use crate::model::{FailingList, ListName, UnreadObject};

/// Each condition of a rule: type, status and reason; and what `Ready` says.
fn said(world: &World, rule: &Declarer) -> (Vec<String>, String) {
    let status = rule_status(world, rule, at(1)).unwrap();
    let word = |one: &_| {
        let k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition { type_, status, reason, .. } = one;
        format!("{type_}={status} {reason}")
    };
    (status.conditions.iter().map(word).collect(), status.conditions[0].message.clone())
}

fn granted(world: &mut World, change: Value) -> Declarer {
    let rule = rule(world, "a", 0, change);
    answer(world, &rule, true);
    rule
}

#[test]
fn a_named_source_that_is_not_there_is_waited_for() {
    let mut world = world();
    let it = granted(&mut world, json!({}));
    let waits = ["Ready=False NoSource", "Authorized=True Allowed", "Reconciling=True NoSource"];
    let (conditions, message) = said(&world, &it);
    assert_eq!(conditions, waits);
    assert_eq!(message, "source Secret home/app not found (Helm releases and tokens are never copied)");

    // One of two exists: the rule works, and says what is missing.
    secret(&mut world, "home", "app", json!({}));
    let two = json!({"spec": {"source": {"names": ["app", "nothere"]}, "targets": [{"names": ["later"]}]}});
    let it = granted(&mut world, two);
    let (conditions, message) = said(&world, &it);
    assert_eq!(conditions, ["Ready=True NoTarget", "Authorized=True Allowed"]);
    assert_eq!(
        message,
        "source Secret home/nothere not found (Helm releases and tokens are never copied); namespace later does not exist"
    );

    // Objects that a glob may match later are as declared.
    let it = granted(&mut world, json!({"spec": {"source": {"names": ["no-*"]}}}));
    assert_eq!(said(&world, &it).0, ["Ready=True NoSource", "Authorized=True Allowed"]);
}

#[test]
fn a_named_namespace_that_does_not_exist_yet_is_as_declared() {
    let mut world = world();
    secret(&mut world, "home", "app", json!({}));
    let it = granted(&mut world, json!({"spec": {"targets": [{"names": ["shpo"]}]}}));
    let (conditions, message) = said(&world, &it);
    assert_eq!(conditions, ["Ready=True NoTarget", "Authorized=True Allowed"]);
    assert_eq!(message, "namespace shpo does not exist");
}

/// Tools that wait for `Ready` go on when it is `True`.
#[test]
fn where_copies_are_wanted_and_none_is_in_order_it_is_not_ready() {
    let mut world = world();
    secret(&mut world, "home", "app", json!({}));
    secret(&mut world, "shop", "app", json!({}));
    let it = granted(&mut world, json!({}));
    let (conditions, message) = said(&world, &it);
    assert_eq!(conditions, ["Ready=False Incomplete", "Authorized=True Allowed", "Degraded=True Conflict"]);
    assert_eq!(message, "0 of 1 copies are in order");
    // One of two is being written.
    world.set_namespace("web".into(), NamespaceFacts::default());
    let it = granted(&mut world, json!({"spec": {"targets": [{"names": ["shop", "web"]}]}}));
    assert_eq!(said(&world, &it).0[0], "Ready=True Copying");
}

/// If some copies cannot be written, the rule is `Degraded`; if none can, because our account lacks a right,
/// it is not `Ready`.
#[test]
fn a_right_that_we_lack_everywhere_is_not_ready() {
    let mut world = world();
    secret(&mut world, "home", "app", json!({}));
    world.set_namespace("web".into(), NamespaceFacts::default());
    let it = granted(&mut world, json!({"spec": {"targets": [{"names": ["shop", "web"]}]}}));
    let lack = |world: &mut World, slot: ObjectKey| {
        let action = plan_slot(world, &slot, at(1)).action.unwrap();
        let message = "Copyrator's own account may not patch secrets".to_owned();
        settle_slot(world, &slot, &action, Acted::Failed(WriteFault::Forbidden, message), at(1));
    };
    lack(&mut world, slot());
    let (conditions, _) = said(&world, &it);
    assert_eq!(conditions[0], "Ready=True Copying", "{conditions:?}");
    lack(&mut world, ObjectKey::new(Kind::Secret, "web", "app"));
    let (conditions, message) = said(&world, &it);
    assert_eq!(
        conditions,
        [
            "Ready=False Forbidden",
            "Authorized=True Allowed",
            "Stalled=True Forbidden",
            "Degraded=True Forbidden"
        ]
    );
    assert_eq!(message, "Copyrator's own account may not patch secrets");

    // The same where the source cannot be read.
    let source = ObjectKey::new(Kind::Secret, "home", "app");
    world.forget_fingerprint(&source);
    *world.memory_mut() = Default::default();
    let unread = (WriteFault::Forbidden, "Copyrator's own account may not get secrets".into());
    world.memory_mut().content_unreadable(&source, unread);
    let (conditions, message) = said(&world, &it);
    assert_eq!(
        (&*conditions[0], &*message),
        ("Ready=False Forbidden", "Copyrator's own account may not get secrets")
    );
}

/// A source that cannot be read is not one that is missing.
#[test]
fn a_source_that_cannot_be_read_is_named() {
    let mut world = world();
    let it = granted(&mut world, json!({}));
    let source = UnreadObject::Object(ObjectKey::new(Kind::Secret, "home", "app"));
    assert!(world.note_unreadable(source.clone(), Some("the object is nested more than 128 levels deep")));
    let (conditions, message) = said(&world, &it);
    assert_eq!(conditions[0], "Ready=False Unreadable", "{conditions:?}");
    assert!(
        message.starts_with("Copyrator cannot read Secret home/app (the object is nested more"),
        "{message}"
    );
    // A rule that cannot mean it says nothing of it.
    let other = granted(&mut world, json!({"spec": {"source": {"names": ["no-*"]}}}));
    assert_eq!(said(&world, &other).0[0], "Ready=True NoSource");
    assert!(world.note_unreadable(source, None));
    let it = granted(&mut world, json!({}));
    assert_eq!(said(&world, &it).0[0], "Ready=False NoSource");
}

/// What was copied before is not what is there now.
#[test]
fn a_list_that_fails_makes_no_status_out_of_date_in_silence() {
    let mut world = world();
    let globs = json!({"spec": {"source": {"names": ["no-*"]}}});
    let it = granted(&mut world, globs);
    assert_eq!(said(&world, &it).0[0], "Ready=True NoSource");
    let fails = |world: &mut World, store| {
        let failing = FailingList { since: at(0), why: "its conversion fails".into() };
        world.note_failing(ListName::of(store, None), Some(failing))
    };
    assert!(fails(&mut world, Store::ConfigMaps));
    assert_eq!(said(&world, &it).0[0], "Ready=True NoSource", "it copies Secrets");
    let elsewhere = ListName::of(Store::Secrets, Some("elsewhere".into()));
    let failing = FailingList { since: at(0), why: "its conversion fails".into() };
    assert!(world.note_failing(elsewhere, Some(failing)));
    assert_eq!(said(&world, &it).0[0], "Ready=True NoSource", "it neither reads nor writes there");
    assert!(fails(&mut world, Store::Secrets));
    let (conditions, message) = said(&world, &it);
    assert_eq!(conditions[0], "Ready=False Unread");
    assert!(
        message.contains("because Copyrator cannot read Secrets since 1970-01-01T00:00:00Z"),
        "{message}"
    );
    assert!(message.ends_with("its conversion fails"), "{message}");
}
