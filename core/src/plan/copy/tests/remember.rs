//! What an attempt to write leaves behind, and whether it is news.

use super::*;

#[test]
fn each_result_of_a_write_is_remembered_as_the_next_plan_needs_it() {
    let mut world = world();
    secret(&mut world, "home", "app", json!({}));
    let rule = rule(&mut world, "a", 0, json!({}));
    answer(&mut world, &rule, true);
    let action = plan_slot(&world, &slot(), at(100)).action.unwrap();
    let refused = |message: &str| Acted::Refused(WriteFault::Refused, message.into());
    let again = 1;
    for (acted, is_news, left) in [
        (refused("no"), true, Some((false, again))),
        (refused("no"), false, Some((false, again))),
        (refused("never"), true, Some((false, again))),
        (Acted::NeedsReplacing("immutable".into()), true, Some((true, again))),
        // The queue has a backoff of its own.
        (Acted::Failed(WriteFault::Failed, "busy".into()), true, Some((false, 0))),
        (Acted::Outdated, true, Some((false, 0))),
        (refused("no"), true, Some((false, again))),
        (Acted::Outdated, true, Some((false, again))),
        // Nothing but another object, text or definition makes these pass.
        (Acted::Refused(WriteFault::Unfit, "invalid".into()), true, Some((false, 300))),
        (Acted::Refused(WriteFault::TooLarge, "too large".into()), true, Some((false, 3600))),
        (refused("no"), true, Some((false, again))),
        (refused("no"), false, Some((false, again))),
        (Acted::Done(Some(Made { not_kept: vec!["data.a".into()], object: 1 })), true, None),
    ] {
        let what = format!("{acted:?}");
        assert_eq!(settle_slot(&mut world, &slot(), &action, acted, at(100)), is_news, "{what}");
        let attempt = world.memory().slot(&slot()).attempt();
        let attempt = attempt.map(|attempt| (attempt.replace, attempt.retry_at));
        assert_eq!(attempt, left.map(|(replace, after)| (replace, at(100 + after))), "{what}");
    }
    let memory = world.memory().slot(&slot());
    assert_eq!(memory.repairs().map(|repairs| (repairs.made, repairs.count)), Some((1, 0)));
    assert_eq!(memory.not_kept().map(|it| it.fields.clone()), Some(vec!["data.a".into()]));
    settle_compared(&mut world, &slot());
    assert!(world.memory().slot(&slot()).not_kept().is_some(), "nothing is there that could have been read");
    secret(&mut world, "shop", "app", json!({}));
    settle_compared(&mut world, &slot());
    assert_eq!(world.memory().slot(&slot()).not_kept(), None, "it has all that it should have");
}

/// Nothing tells that a quota is raised or an admission policy goes: what these refuse is tried again soon, and for one namespace's rules
/// no more often than twice a second, however many writes are refused.
#[test]
fn what_admission_refuses_is_tried_again_within_half_a_minute_where_it_is_little() {
    let mut world = world();
    secret(&mut world, "home", "app", json!({}));
    let rule = rule(&mut world, "a", 0, json!({}));
    answer(&mut world, &rule, true);
    let action = plan_slot(&world, &slot(), at(0)).action.unwrap();
    let refuse = |world: &mut World, second: i64| {
        settle_slot(world, &slot(), &action, Acted::Refused(WriteFault::Refused, "no".into()), at(second));
        let plan = plan_slot(world, &slot(), at(second));
        let SlotState::Blocked(problem) = plan.state else { panic!("{:?}", plan.state) };
        (plan.recheck.unwrap().as_second() - second, problem.message)
    };
    let waits = [0, 1, 2, 4, 8, 16, 32, 62, 92].map(|second| refuse(&mut world, second).0);
    assert_eq!(waits, [1, 1, 2, 4, 8, 16, 30, 30, 30]);
    let beside = |world: &mut World, number: usize, rule: &Declarer| {
        let attempt = world.memory().slot(&slot()).attempt().unwrap().clone();
        let other = ObjectKey::new(Kind::Secret, &*format!("n{number}"), "app");
        let attempt = Attempt { rule: Some(rule.clone()), ..attempt };
        world.memory_mut().at_slot(&other, |memory| memory.failed(attempt));
    };
    (0..239).for_each(|number| beside(&mut world, number, &rule));
    let (wait, said) = refuse(&mut world, 200);
    assert_eq!((wait, said.ends_with("every 2 minutes")), (120, true), "{said}");
    (239..999).for_each(|number| beside(&mut world, number, &rule));
    assert_eq!(refuse(&mut world, 400).0, 300, "as often as a sweep of what is refused may cost");
    let elsewhere = Declarer::rule("elsewhere", "b");
    (0..999).for_each(|number| beside(&mut world, number, &elsewhere));
    let (wait, said) = refuse(&mut world, 700);
    assert_eq!((wait, said.ends_with("every 30 seconds")), (30, true), "others' refusals are theirs: {said}");
}

/// A Service with a fixed port of the nodes is refused while the one before it holds the port.
#[test]
fn what_was_refused_is_tried_at_once_when_its_predecessor_is_gone() {
    let mut world = world();
    secret(&mut world, "home", "app", json!({}));
    let rule = rule(&mut world, "a", 0, json!({}));
    answer(&mut world, &rule, true);
    let write = written(&plan_slot(&world, &slot(), at(0))).clone();
    let old = ObjectKey::new(Kind::Secret, "shop", "before");
    let (labels, mut annotations) = (write.intent.marks.labels(), write.intent.marks.annotations(&old));
    annotations.insert(crate::marks::REMOVE_AFTER.into(), "1970-01-01T00:05:00Z".into());
    annotations.insert(crate::marks::MARK.into(), key().mark(&old, &rule));
    secret(&mut world, "shop", "before", json!({"labels": labels, "annotations": annotations}));
    let action = CopyAction::Write(Box::new(write));
    // What was refused for another reason needs the old object no less gone: that stays until the new one is there.
    let overdue = |world: &World| plan_slot(world, &old, at(301));
    assert_eq!((overdue(&world).action, overdue(&world).recheck), (None, Some(at(306))));
    settle_slot(&mut world, &slot(), &action, Acted::Refused(WriteFault::Refused, "no".into()), at(0));
    let kept = "kept, because its replacement Secret shop/app does not exist yet: no";
    let said = |plan: SlotPlan| match plan.state {
        SlotState::Blocked(problem) => problem.message,
        state => panic!("{state:?}"),
    };
    assert_eq!((said(overdue(&world)).as_str(), overdue(&world).action), (kept, None));
    assert!(!said(plan_slot(&world, &slot(), at(0))).contains("shop/before"));

    // Whether it fits in the place of the old one is not known before that was asked.
    settle_slot(&mut world, &slot(), &action, Acted::Refused(WriteFault::NoRoom, "taken".into()), at(0));
    assert_eq!(overdue(&world).action, None);
    let again = plan_slot(&world, &slot(), at(2));
    assert_eq!(written(&again).predecessor, Some(old.clone()));
    settle_slot(&mut world, &slot(), &action, Acted::Refused(WriteFault::RoomHeld, "taken".into()), at(0));
    assert!(matches!(overdue(&world).action, Some(CopyAction::Delete(_))));
    let plan = plan_slot(&world, &slot(), at(0));
    let SlotState::Blocked(problem) = &plan.state else { panic!("{:?}", plan.state) };
    let holds = "at once when Secret shop/before is deleted: rule home/a still keeps that object until 1970-01-01T00:05:00Z";
    assert!(plan.action.is_none() && problem.message.contains(holds), "{}", problem.message);

    let change = Changed::Object(old.clone());
    assert!(!affected(&world, &change).contains(&Key::Slot(slot())));
    world.set_object(old, None);
    assert!(affected(&world, &change).contains(&Key::Slot(slot())));
    assert!(plan_slot(&world, &slot(), at(0)).action.is_some());
}

/// A refusal that nothing but a change ends is told as such, and waits for it.
#[test]
fn what_is_invalid_waits_for_a_change_and_is_tried_less_and_less_often() {
    let mut world = world();
    secret(&mut world, "home", "app", json!({}));
    let rule = rule(&mut world, "a", 0, json!({}));
    answer(&mut world, &rule, true);
    let action = plan_slot(&world, &slot(), at(0)).action.unwrap();
    settle_slot(&mut world, &slot(), &action, Acted::Refused(WriteFault::Unfit, "invalid".into()), at(0));
    let plan = plan_slot(&world, &slot(), at(299));
    assert_eq!((plan.action, plan.recheck), (None, Some(at(300))));
    let again = plan_slot(&world, &slot(), at(1800)).action.unwrap();
    settle_slot(&mut world, &slot(), &again, Acted::Refused(WriteFault::Unfit, "invalid".into()), at(1800));
    let plan = plan_slot(&world, &slot(), at(1801));
    assert_eq!((plan.action, plan.recheck), (None, Some(at(3600))));
    let SlotState::Blocked(problem) = &plan.state else { panic!("{:?}", plan.state) };
    assert_eq!(problem.reason.as_str(), "Refused");
    assert!(problem.message.ends_with(
        "Copyrator tries again when the object or its source changes, and otherwise at growing intervals of up to one hour"
    ));
    assert!(plan_slot(&world, &slot(), at(3600)).action.is_some());
    let source = ObjectKey::new(Kind::Secret, "home", "app");
    let print = Fingerprint { immutable: true, ..world.fingerprint(&source).unwrap().clone() };
    world.assume_fingerprint(&source, print);
    assert!(plan_slot(&world, &slot(), at(1)).action.is_some(), "another content");
}
