//! What a rule without copies costs, and what happens to slots that other rules claim, too.

use super::*;

/// Twenty sources and twelve targets.
fn many() -> World {
    let mut world = world();
    for number in 0..20 {
        secret(&mut world, "home", &format!("s{number:02}"), json!({}));
    }
    for number in 0..12 {
        world.set_namespace(format!("team-{number:02}").as_str().into(), NamespaceFacts::default());
    }
    world
}

fn of_all(world: &mut World, name: &str, created: i64, copy: &str) -> Declarer {
    let spec = json!({"spec": {"source": {"names": null, "objectSelector": {}},
        "targets": [{"names": ["team-*"]}], "copy": {"name": copy}}});
    rule(world, name, created, spec)
}

fn slots_in(keys: &std::collections::BTreeSet<Key>) -> usize {
    keys.iter().filter(|key| matches!(key, Key::Slot(_))).count()
}

/// A rule that may do nothing is one key and costs nothing more until it may.
#[test]
fn a_rule_that_may_do_nothing_is_one_key() {
    let mut world = many();
    let rule = of_all(&mut world, "greedy", 0, "{namespace}-{name}");
    let source = ObjectKey::new(Kind::Secret, "home", "s00");
    let into = Changed::Namespace("team-00".into());
    let asked = |world: &World| {
        let slots = [everything(world), affected(world, &Changed::Rule(rule.clone()))];
        let events = [affected(world, &Changed::Object(source.clone())), affected(world, &into)];
        slots.iter().chain(&events).map(slots_in).collect::<Vec<_>>()
    };
    assert_eq!(asked(&world), [0; 4], "nobody has been asked");
    answer(&mut world, &rule, false);
    assert_eq!(asked(&world), [0; 4], "it may not");
    let status = rule_status(&world, &rule, at(1)).unwrap();
    assert_eq!((status.sources, status.desired), (0, 0));

    answer(&mut world, &rule, true);
    assert_eq!(asked(&world), [240, 240, 12, 20], "it may");
    assert_eq!(
        slots_to_check(&world, &rule).len(),
        240,
        "the key of a rule that may from now on asks for all"
    );

    // A rule is responsible for its copies, whatever it may do.
    let slot = ObjectKey::new(Kind::Secret, "team-00", "home-s00");
    let intent = written(&plan_slot(&world, &slot, at(1))).intent.clone();
    let marks = json!({"annotations": intent.marks.annotations(&slot), "labels": intent.marks.labels()});
    secret(&mut world, "team-00", "home-s00", marks);
    answer(&mut world, &rule, false);
    assert_eq!(asked(&world), [1; 4]);
}

/// A free slot waits for an older rule until its rights were asked about: then its key asks for the slots
/// that both claim.
#[test]
fn a_slot_that_waited_for_another_rule_is_looked_at_when_that_one_may_not() {
    let mut world = many();
    let (old, young) = (of_all(&mut world, "old", 1, "{name}"), of_all(&mut world, "young", 2, "{name}"));
    answer(&mut world, &young, true);
    let slot = ObjectKey::new(Kind::Secret, "team-00", "s00");
    assert_eq!(plan_slot(&world, &slot, at(1)).rule, Some(old.clone()), "it waits");
    let source = ObjectKey::new(Kind::Secret, "home", "s00");
    assert!(affected(&world, &Changed::Object(source)).contains(&Key::Slot(slot.clone())));
    answer(&mut world, &old, false);
    assert!(slots_to_check(&world, &old).contains(&Key::Slot(slot.clone())));
    assert_eq!(plan_slot(&world, &slot, at(1)).rule, Some(young.clone()));
    // Slots that it claims alone are not asked about.
    answer(&mut world, &young, false);
    assert!(slots_to_check(&world, &old).is_empty());
}

#[test]
fn a_rule_that_comes_to_too_many_copies_keeps_those_it_has() {
    let mut world = many();
    let rule = of_all(&mut world, "wide", 0, "{name}");
    answer(&mut world, &rule, true);
    let there = ObjectKey::new(Kind::Secret, "team-00", "s00");
    let intent = written(&plan_slot(&world, &there, at(1))).intent.clone();
    let mut marks = json!({"annotations": intent.marks.annotations(&there), "labels": intent.marks.labels()});
    marks["annotations"][crate::marks::DIGEST] = json!("of another content");
    secret(&mut world, "team-00", "s00", marks);
    let own = &Key::Slot(there.clone());

    world.settings_mut().spread_limits.max_copies = 239;
    let keys = everything(&world);
    assert_eq!((slots_in(&keys), keys.contains(own)), (1, true));
    assert_eq!(slots_to_check(&world, &rule), [own.clone()].into());
    assert_eq!(slots_in(&affected(&world, &Changed::Namespace("team-00".into()))), 1);
    assert!(plan_slot(&world, &there, at(1)).action.is_some(), "a copy that is there is put right");
    let lacking = ObjectKey::new(Kind::Secret, "team-01", "s00");
    assert_eq!(blocked(&plan_slot(&world, &lacking, at(1))), "TooMany");
    let status = rule_status(&world, &rule, at(1)).unwrap();
    assert!(says_too_many(&status), "{status:?}");
    assert_eq!((status.desired, status.problem_count), (240, 1));
    let message = &status.problems[0].message;
    assert!(message.contains("would make 240 copies, more than --max-copies-per-rule (239)"), "{message}");

    // A rule that makes no copies yields to one that makes some.
    let young = self::rule(
        &mut world,
        "narrow",
        9,
        json!({"spec": {"source": {"names": ["s00"]}, "targets": [{"names": ["team-01"]}]}}),
    );
    answer(&mut world, &young, true);
    assert_eq!(plan_slot(&world, &lacking, at(1)).rule, Some(young));

    for most in [240, 0] {
        world.settings_mut().spread_limits.max_copies = most;
        assert_eq!(slots_to_check(&world, &rule).len(), 240);
        assert!(!says_too_many(&rule_status(&world, &rule, at(1)).unwrap()));
    }
}

/// Whatever a template makes of names, a slot knows its source, and a source its slots.
#[test]
fn slots_and_sources_find_each_other() {
    let mut world = many();
    for namespace in ["home", "shop"] {
        secret(&mut world, namespace, "app", json!({}));
    }
    for (name, copy, names) in [
        ("plain", "{name}", json!(["app", "s*"])),
        ("both", "{namespace}-{name}.{namespace}", json!(null)),
        ("twice", "{name}-{name}", json!(["app", "s01", "app"])),
        ("one", "settings", json!(["app"])),
        ("any", "settings-of-{namespace}", json!(["s*"])),
    ] {
        let spec = json!({"spec": {
            "source": {"names": names, "objectSelector": {}, "namespaces": ["shop", "home", "shop"]},
            "targets": [{"names": ["team-*", "home", "nowhere"]}], "copy": {"name": copy}}});
        let rule = rule(&mut world, name, 0, spec);
        answer(&mut world, &rule, true);
        let slots = slots_of(&world, &rule);
        assert!(slots.len() >= 12, "{name}: {slots:?}");
        for slot in &slots {
            assert_eq!(
                claims_on(&world, slot).iter().filter(|claim| *claim.rule == rule).count(),
                1,
                "{slot}"
            );
        }
        let compiled = world.rules()[&rule].compiled.clone().unwrap();
        for (source, facts) in world.objects() {
            let is_source = is_source(&world, &rule, &compiled, source, facts);
            assert_eq!(
                sources_of(&world, &rule, &compiled).filter(|(key, _)| *key == source).count(),
                usize::from(is_source)
            );
            let team = ObjectKey::new(Kind::Secret, "team-00", compiled.shape.copy_name(source));
            assert!(!is_source || slots.contains(&team), "{name}: {source} as {team}");
        }
        world.forget_rule(&rule);
        assert!(slots.iter().all(|slot| claims_on(&world, slot).is_empty()), "{name} is gone");
    }
}
