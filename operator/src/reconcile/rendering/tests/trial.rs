//! What is tried of a new version of a template before its first object is written.

use std::sync::{Arc, Mutex};

use serde_json::json;

use super::{
    at,
    instances::{put, template_for_each, world_with_kind},
    settle,
};
use crate::{
    model::{Authority, SpecVersion, World, WriteFault},
    names::{Declarer, Kind, ObjectKey},
    plan::copy::{
        Acted, plan_slot, settle_slot,
        trial::{Trial, trial},
    },
    reconcile::{
        context::now,
        tests::{Oracle, Server, reconciler},
    },
    render::all::render_all,
};

fn slot(name: &str, instance: &str) -> ObjectKey {
    ObjectKey::new(Kind::ConfigMap, "shop", format!("{name}-{instance}"))
}

/// A template of two ConfigMaps, `one` and `two`, with two instances, `a` and `b`.
fn kit(generation: i64) -> (World, Declarer) {
    let mut world = world_with_kind();
    let object = |name: &str| {
        json!({"id": name, "template": {"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": format!("{name}-${{object.metadata.name}}")}, "data": {"a": "b"}}})
    };
    let objects = json!({"objects": [object("one"), object("two")]});
    let kit = template_for_each(&mut world, ("kit", 1, generation), objects);
    put(&mut world, ("shop", "a"), 1, json!({}));
    put(&mut world, ("shop", "b"), 1, json!({}));
    render_all(&mut world);
    (world, kit)
}

/// The trial before the write of this slot.
fn tried_before(world: &World, slot: &ObjectKey) -> Trial {
    trial(world, slot, &plan_slot(world, slot, at(100)), at(100)).unwrap()
}

/// The slots that the trial before the write of this slot checks.
fn tried(world: &World, slot: &ObjectKey) -> Vec<String> {
    let trial = trial(world, slot, &plan_slot(world, slot, at(100)), at(100));
    let writes = trial.into_iter().flat_map(|trial| trial.writes);
    writes.map(|(slot, _)| slot.name.to_string()).collect()
}

#[test]
fn all_objects_of_one_instance_are_tried_once_for_each_version_of_the_template() {
    let (mut world, kit) = kit(1);
    assert_eq!(tried(&world, &slot("one", "a")), ["one-a", "two-a"]);
    assert_eq!(tried(&world, &slot("two", "b")), ["one-b", "two-b"]);
    world.memory_mut().passed(&kit, SpecVersion { uid: "kit", generation: 1 });
    assert_eq!(tried(&world, &slot("one", "a")), [""; 0]);
    world.memory_mut().passed(&kit, SpecVersion { uid: "kit", generation: 0 });
    assert_eq!(tried(&world, &slot("one", "a")), ["one-a", "two-a"]);
    settle(&mut world);
    assert_eq!(tried(&world, &slot("one", "a")), [""; 0], "nothing is to be written");
}

/// The code of the answer to each dry run, in their order; the attempts on the slots of both instances, and whether the template has passed.
async fn carried_out(codes: &[u16]) -> (Vec<Option<WriteFault>>, bool, usize) {
    let (mut world, kit) = kit(1);
    let answered = world.rule_authority(&kit).cloned().unwrap();
    world.set_rule_authority(&kit, Authority { asked: now(), ..answered });
    let server = Server::default();
    server.answer_patches(codes);
    let reconciler = reconciler(&server, &Arc::new(Oracle(Mutex::new(Some(true)))), world);
    reconciler.context.queue().open();
    reconciler.slots.handle(&slot("one", "a")).await;
    let world = reconciler.context.world();
    let slots = [slot("one", "a"), slot("two", "a"), slot("one", "b")];
    let attempts = slots.iter().map(|slot| world.memory().slot(slot).attempt().map(|last| last.reason));
    let dry_runs =
        server.asked.lock().unwrap().iter().filter(|(_, uri, _)| uri.contains("dryRun=All")).count();
    let version = SpecVersion { uid: "kit", generation: 1 };
    (attempts.collect(), world.memory().has_passed(&kit, version), dry_runs)
}

#[tokio::test]
async fn a_type_error_in_one_object_stops_its_instance_and_no_other() {
    let (mistyped, held_back) = (Some(WriteFault::Mistyped), Some(WriteFault::HeldBack));
    assert_eq!(carried_out(&[200, 400]).await, (vec![held_back, mistyped, None], false, 2));
    assert_eq!(carried_out(&[400]).await, (vec![mistyped, held_back, None], false, 1));
    assert_eq!(carried_out(&[200, 200, 200]).await, (vec![None, None, None], true, 2));
    // Another refusal is no type error, and comes after the check of types. A failure ends the trial without a result.
    assert_eq!(carried_out(&[403, 200, 200]).await, (vec![None, None, None], true, 2));
    assert_eq!(carried_out(&[503, 200]).await, (vec![None, None, None], false, 1));
}

/// An edit of one object makes that object due while the faulty one still waits.
#[test]
fn a_known_type_error_of_one_object_holds_back_the_others() {
    let (mut world, _) = kit(1);
    let faulty = slot("two", "a");
    let action = plan_slot(&world, &faulty, at(100)).action.unwrap();
    let refused = Acted::Refused(WriteFault::Mistyped, "no such field".into());
    settle_slot(&mut world, &faulty, &action, refused, at(100));
    let due = slot("one", "a");
    let trial = tried_before(&world, &due);
    let (known, message) = trial.known.unwrap();
    assert_eq!((known, message.as_str()), (faulty.clone(), "no such field"));

    // The faulty object is due again, and the other one is held back: a trial that passes releases it.
    let (mut world, _) = kit(1);
    let action = plan_slot(&world, &due, at(100)).action.unwrap();
    settle_slot(&mut world, &due, &action, Acted::Refused(WriteFault::HeldBack, "waits".into()), at(100));
    let trial = tried_before(&world, &faulty);
    assert_eq!((trial.known, trial.is_whole, trial.held_back), (None, false, vec![due]));
}
