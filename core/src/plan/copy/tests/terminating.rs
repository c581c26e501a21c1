//! Copies that were deleted and that a finalizer keeps.

use super::*;

/// The content that should be gone is still there, whether the rule wants it or not.
#[test]
fn a_deleted_copy_that_nobody_wants_and_a_finalizer_keeps_is_told() {
    let mut world = world();
    world.set_namespace("web".into(), NamespaceFacts::default());
    secret(&mut world, "home", "app", json!({}));
    let name = rule(&mut world, "a", 0, json!({}));
    answer(&mut world, &name, true);
    let marks = written(&plan_slot(&world, &slot(), at(10))).intent.marks.clone();
    secret(
        &mut world,
        "shop",
        "app",
        json!({"labels": marks.labels(), "annotations": marks.annotations(&slot()), "deletionTimestamp": at(100).to_string(),
            "finalizers": ["ops.example.com/keep"]}),
    );
    let narrowed = |world: &mut World, suspend: bool| {
        let spec = json!({"targets": [{"names": ["web"]}], "suspend": suspend});
        rule(world, "a", 0, json!({"metadata": {"generation": 2}, "spec": spec}));
        answer(world, &name, true);
    };
    narrowed(&mut world, false);
    let plan = plan_slot(&world, &slot(), at(159));
    assert_eq!((&plan.state, plan.recheck), (&SlotState::Kept, Some(at(160))), "a deletion takes its time");

    let plan = plan_slot(&world, &slot(), at(160));
    assert_eq!((blocked(&plan), &plan.rule), ("Terminating", &Some(name.clone())));
    let SlotState::Blocked(problem) = &plan.state else { panic!() };
    for part in
        ["finalizer ops.example.com/keep still keeps it", "the rule does not want this object any more"]
    {
        assert!(problem.message.contains(part), "{}", problem.message);
    }
    let status = rule_status(&world, &name, at(160)).unwrap();
    assert_eq!(status.problems[0].reason, "Terminating");
    let is_degraded =
        |status: &CopyratorRuleStatus| status.conditions.iter().any(|one| one.type_ == "Degraded");
    assert!(is_degraded(&status));
    // Once it goes, the status is written again.
    assert!(affected(&world, &Changed::Object(slot())).contains(&Key::RuleStatus(name.clone())));
    world.set_object(slot(), None);
    assert!(!is_degraded(&rule_status(&world, &name, at(160)).unwrap()));

    secret(
        &mut world,
        "shop",
        "app",
        json!({"labels": marks.labels(), "annotations": marks.annotations(&slot()), "deletionTimestamp": at(100).to_string()}),
    );
    narrowed(&mut world, true);
    assert_eq!(
        plan_slot(&world, &slot(), at(160)).state,
        SlotState::Kept,
        "a suspended rule may still want it"
    );
    world.forget_rule(&name);
    assert_eq!(plan_slot(&world, &slot(), at(160)).state, SlotState::Kept, "nobody reads a status");
}
