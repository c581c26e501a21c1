//! What a template costs that may do nothing, or that comes to too many objects.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex},
};

use serde_json::{Value, json};

use super::{
    answer, at,
    instances::{put, template_for_each, world_with_kind},
    namespace, settle, template, world,
};
use crate::{
    model::{Store, World},
    names::{Declarer, InstanceName, NamespacedName},
    plan::{
        Changed, Key, affected,
        copy::{says_too_many, template_report},
        everything, listed_anew, slots_to_check,
    },
    reconcile::{
        Lane,
        tests::{Oracle, Server, reconciler},
    },
    render::all::render_all,
};

fn map(name: &str) -> Value {
    json!([{"id": "one", "template": {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}}}])
}

/// Twelve namespaces of team blue, and shop.
fn many(mut world: World) -> World {
    for number in 0..12 {
        namespace(&mut world, &format!("team-{number:02}"), json!({"team": "blue"}));
    }
    world
}

/// How many keys there are of what templates are rendered for, and of their objects.
fn count(keys: &BTreeSet<Key>) -> (usize, usize) {
    let number = |is: fn(&Key) -> bool| keys.iter().filter(|key| is(key)).count();
    (number(|key| matches!(key, Key::Rendering(..))), number(|key| matches!(key, Key::Slot(_))))
}

/// At each start, sweep and list, when it is written, and for each namespace.
fn asked(world: &World, template: &Declarer, more: &Changed) -> [(usize, usize); 4] {
    let sets = [
        everything(world),
        listed_anew(world, Store::CopyratorTemplates, None),
        affected(world, &Changed::Template(template.clone())),
        affected(world, more),
    ];
    for keys in &sets {
        assert!(
            keys.contains(&Key::Rule(template.clone())) || keys.contains(&Key::RuleStatus(template.clone()))
        );
    }
    sets.map(|keys| count(&keys))
}

#[test]
fn a_template_that_may_do_nothing_is_one_key() {
    let mut world = many(world());
    let kit = template(&mut world, ("kit", 1, 1), map("one"));
    let into = Changed::Namespace("team-00".into());
    answer(&mut world, &kit, false);
    assert_eq!(asked(&world, &kit, &into), [(0, 0); 4], "it may not");
    world.forget_rule_authority(&kit, |_| true);
    assert_eq!(asked(&world, &kit, &into), [(0, 0); 4], "nobody has been asked");
    assert!(slots_to_check(&world, &kit).is_empty());

    answer(&mut world, &kit, true);
    assert_eq!(asked(&world, &kit, &into), [(13, 0), (13, 0), (13, 0), (1, 0)], "it may");
    assert_eq!(slots_to_check(&world, &kit).len(), 13, "the key that learns it asks for all");

    // It is responsible for its objects, whatever it may do. What was rendered is dropped, once.
    settle(&mut world);
    answer(&mut world, &kit, false);
    assert_eq!(asked(&world, &kit, &into), [(13, 13), (13, 0), (13, 13), (1, 1)]);
    render_all(&mut world);
    assert_eq!(asked(&world, &kit, &into), [(0, 13), (0, 0), (0, 13), (0, 1)]);
}

#[test]
fn the_objects_of_a_kind_ask_for_no_template_that_may_do_nothing() {
    let mut world = many(world_with_kind());
    let each = template_for_each(&mut world, ("each", 1, 1), json!({"suspend": true}));
    for place in ["team-00", "team-01"] {
        put(&mut world, (place, "a"), 1, json!({"spec": {"size": 1}}));
    }
    let of_a = Changed::Instance(super::instances::kind(), NamespacedName::new("team-00", "a"));
    assert_eq!(asked(&world, &each, &of_a), [(0, 0); 4], "it is suspended");
    template_for_each(&mut world, ("each", 1, 2), json!({}));
    assert_eq!(asked(&world, &each, &of_a), [(2, 0), (2, 0), (2, 0), (1, 0)]);
}

#[test]
fn a_template_that_comes_to_too_many_objects_keeps_those_it_has() {
    let mut world = many(world());
    let kit = template(&mut world, ("kit", 1, 1), map("one"));
    settle(&mut world);
    namespace(&mut world, "late", json!({"team": "blue"}));
    world.settings_mut().spread_limits.max_copies = 13;
    // Another process leads.
    let places: Vec<InstanceName> = world.rendered_of(&kit).map(|(instance, _)| instance.clone()).collect();
    places.iter().for_each(|place| world.set_rendered(&kit, place, None));
    let late = Changed::Namespace("late".into());
    assert_eq!(asked(&world, &kit, &late), [(13, 13), (13, 0), (13, 13), (0, 0)]);
    let status = |world: &World| template_report(world, &kit, at(100)).map(|report| report.status);
    for place in &places {
        let inputs = crate::render::inputs::Inputs::of(&world, &kit, place).unwrap();
        world.set_rendered(&kit, place, Some(inputs.render(&Default::default()).0));
    }
    let told = status(&world).unwrap();
    assert!(says_too_many(&told), "{told:?}");
    assert_eq!((told.sources, told.desired, told.current, told.problem_count), (14, 14, 13, 1));
    // Nothing is waited for, or no status would ever tell it.
    world.set_template_status(&kit, told.clone());
    assert_eq!(status(&world).unwrap().desired, 14);
}

/// What was left out is rendered, though nothing of it has changed; before that there is no other status.
#[tokio::test]
async fn where_there_is_room_again_what_was_left_out_is_rendered() {
    let mut world = many(world());
    let kit = template(&mut world, ("kit", 1, 1), map("one"));
    world.settings_mut().spread_limits.max_copies = 12;
    let told = template_report(&world, &kit, at(100)).unwrap().status;
    assert!(says_too_many(&told));
    world.set_template_status(&kit, told);
    namespace(&mut world, "team-00", json!({"team": "red"}));
    let oracle = Arc::new(Oracle(Mutex::new(Some(true))));
    let reconciler = reconciler(&Server::default(), &oracle, world);
    reconciler.context.queue().open();
    let name = kit.as_template().unwrap();
    reconciler.statuses.template(&Key::RuleStatus(kit.clone()), &kit, name).await;
    let (depth, _) = reconciler.context.queue().depth();
    assert_eq!(depth[Lane::Change as usize], 12);
}
