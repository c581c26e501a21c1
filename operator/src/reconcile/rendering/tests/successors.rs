//! Objects that a template no longer declares, beside those that it declares instead.

use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::{Value, json};

use super::{
    at,
    instances::{put, template_for_each, world_with_kind},
    plans, settle,
};
use crate::{
    explain::carry_out,
    intake::{object::Slim, watched::Watched},
    marks::CopyMarks,
    model::{World, WriteFault},
    names::{Kind, ObjectKey},
    plan::copy::{Acted, CopyAction, SlotState, hindrances, plan_slot, settle_slot},
    render::all::render_all,
};

fn slot(name: &str) -> ObjectKey {
    ObjectKey::new(Kind::ConfigMap, "shop", name)
}

fn declares(names: &[&str]) -> Value {
    let object = |name: &&str| json!({"id": name.replace('-', "_"), "template": {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"a": "b"}}});
    json!({ "objects": names.iter().map(object).collect::<Vec<_>>() })
}

/// A world with the objects of a template for one instance, which then declares others instead.
fn changed(before: &[&str], after: &[&str], meanwhile: impl FnOnce(&mut World)) -> World {
    let mut world = world_with_kind();
    template_for_each(&mut world, ("kit", 1, 1), declares(before));
    put(&mut world, ("shop", "a"), 1, json!({}));
    settle(&mut world);
    meanwhile(&mut world);
    template_for_each(&mut world, ("kit", 1, 2), declares(after));
    world
}

/// Marks an object at second 100 to go at second 400, as its plan says, and renders what the template declares.
fn mark(world: &mut World, slot: &ObjectKey) {
    render_all(world);
    let plan = plan_slot(world, slot, at(100));
    let Some(CopyAction::MarkRemoval(_, after)) = plan.action else { panic!("{plan:?}") };
    let mut facts = world.object(slot).unwrap().clone();
    let marks = facts.marks.as_deref().unwrap().clone();
    facts.marks = Some(Box::new(CopyMarks { remove_after: Some(after), ..marks }));
    world.set_object(slot.clone(), Some(facts));
}

fn foreign(world: &mut World, name: &str) {
    let object =
        json!({"metadata": {"namespace": "shop", "name": name, "uid": "foreign", "resourceVersion": "1"}});
    serde_json::from_value::<Slim<ConfigMap>>(object).unwrap().put(world, at(0));
}

/// A tenant must not make a platform's object vanish by taking the name that it will have.
#[test]
fn somebody_elses_object_under_the_new_name_keeps_the_old_one() {
    let mut world = changed(&["deny"], &["deny-all"], |world| foreign(world, "deny-all"));
    mark(&mut world, &slot("deny"));
    let overdue = |world: &World| plan_slot(world, &slot("deny"), at(500));
    let plan = overdue(&world);
    let SlotState::Blocked(problem) = &plan.state else { panic!("{:?}", plan.state) };
    assert!(plan.action.is_none() && problem.message.contains("another object has that name"), "{problem:?}");
    world.set_object(slot("deny-all"), None);
    assert_eq!(overdue(&world).action, None, "the new one is not there yet");
    let made = plans(&world).into_iter().filter(|(place, _)| *place == slot("deny-all")).collect::<Vec<_>>();
    carry_out(&mut world, made.iter().map(|(place, plan)| (place, plan)), at(100));
    assert!(matches!(overdue(&world).action, Some(CopyAction::Delete(_))));
}

/// Marks do not say which object takes whose place: one that was refused all along takes none.
#[test]
fn an_object_that_was_refused_long_before_keeps_no_other_one() {
    for (refused_at, goes) in [(-1000, true), (50, false)] {
        let mut world = changed(&["a", "b"], &["b"], |world| {
            world.set_object(slot("b"), None);
            let plan = plan_slot(world, &slot("b"), at(refused_at));
            let refused = Acted::Refused(WriteFault::Refused, "no".into());
            settle_slot(world, &slot("b"), plan.action.as_ref().unwrap(), refused, at(refused_at));
        });
        mark(&mut world, &slot("a"));
        let plan = plan_slot(&world, &slot("a"), at(500));
        assert_eq!(matches!(plan.action, Some(CopyAction::Delete(_))), goes, "{refused_at}: {plan:?}");
    }
}

/// An Event that names another declaration would be false until the new version is rendered.
#[test]
fn nothing_is_reported_of_an_earlier_version_of_a_template() {
    let mut world = changed(&["a"], &["a"], |_| ());
    let slot = slot("a");
    assert_eq!(hindrances(&world, &slot, at(100)).unwrap().len(), 0);
    render_all(&mut world);
    let found = hindrances(&world, &slot, at(100)).unwrap();
    assert!(matches!(found[..], [(_, _, None)]), "{found:?}");
}

/// Each of them would cost a look at all the others.
#[test]
fn of_many_that_want_one_name_a_few_get_an_event() {
    let mut world = changed(&["a"], &["a"], |_| ());
    for number in 0..30 {
        put(&mut world, ("shop", &format!("m{number:02}")), 1, json!({}));
    }
    render_all(&mut world);
    let slot = slot("a");
    let found = hindrances(&world, &slot, at(100)).unwrap();
    let duplicates = found.iter().filter_map(|(.., problem)| problem.as_ref());
    assert_eq!((found.len(), duplicates.count()), (20, 19));
}
