//! Namespaces that go and are made anew, of which one watch tells before another.

use super::*;

/// What was allowed in an earlier namespace of that name is not allowed in this one. The watch of Secrets may tell first.
#[test]
fn a_source_waits_for_its_namespace_and_its_copy_stays_meanwhile() {
    for place in ["vault", "home"] {
        let mut world = world();
        world.set_namespace("vault".into(), NamespaceFacts::default());
        secret(&mut world, place, "app", json!({}));
        let from: &[&str] = if place == "home" { &[] } else { &[place] };
        let spec = json!({"spec": {"source": {"namespaces": from}, "deletionGrace": "0s"}});
        let rule = rule(&mut world, "a", 0, spec);
        answer(&mut world, &rule, true);
        let write = written(&plan_slot(&world, &slot(), at(100))).clone();

        world.forget_namespace(place);
        let rest = |world: &World| {
            let plan = plan_slot(world, &slot(), at(100));
            assert_eq!((plan.action, plan.needs), (None, Vec::new()), "from {place}");
        };
        rest(&world);
        let (labels, annotations) = (write.intent.marks.labels(), write.intent.marks.annotations(&slot()));
        let metadata = json!({"uid": "old", "labels": labels, "annotations": annotations});
        secret(&mut world, "shop", "app", metadata);
        rest(&world);
        world.set_object(slot(), None);

        // Asked on both sides of the change: the namespace's own watch tells of it now.
        let change = Changed::Namespace(place.into());
        let mut keys = affected(&world, &change);
        let anew = NamespaceFacts { uid: "anew".into(), ..NamespaceFacts::default() };
        world.set_namespace(place.into(), anew);
        keys.extend(affected(&world, &change));
        assert!(keys.contains(&Key::Slot(slot())), "from {place}: {keys:?}");
        if place == "home" {
            // A namespace takes its own rules with it.
            written(&plan_slot(&world, &slot(), at(100)));
        } else {
            assert!(keys.contains(&Key::Rule(rule.clone())), "{keys:?}");
            let plan = plan_slot(&world, &slot(), at(100));
            assert_eq!((plan.action, plan.state), (None, SlotState::Inert(inert::Inert::Unauthorized)));
        }
    }
}
