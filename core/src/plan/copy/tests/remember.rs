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
    let again = i64::try_from(AGAIN.as_secs()).unwrap();
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
        (Acted::Refused(WriteFault::Unfit, "invalid".into()), true, Some((false, 12 * again))),
        (Acted::Refused(WriteFault::TooLarge, "too large".into()), true, Some((false, 12 * again))),
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

/// A refusal that nothing but a change ends is told as such, and waits for it.
#[test]
fn what_is_invalid_waits_for_a_change_or_an_hour() {
    let mut world = world();
    secret(&mut world, "home", "app", json!({}));
    let rule = rule(&mut world, "a", 0, json!({}));
    answer(&mut world, &rule, true);
    let action = plan_slot(&world, &slot(), at(0)).action.unwrap();
    settle_slot(&mut world, &slot(), &action, Acted::Refused(WriteFault::Unfit, "invalid".into()), at(0));
    let plan = plan_slot(&world, &slot(), at(1800));
    assert_eq!((plan.action, plan.recheck), (None, Some(at(3600))));
    let SlotState::Blocked(problem) = &plan.state else { panic!("{:?}", plan.state) };
    assert_eq!(problem.reason.as_str(), "Refused");
    assert!(problem.message.ends_with("when the object, or what it is made from, changes, and every hour"));
    assert!(plan_slot(&world, &slot(), at(3600)).action.is_some());
    let source = ObjectKey::new(Kind::Secret, "home", "app");
    let print = Fingerprint { immutable: true, ..world.fingerprint(&source).unwrap().clone() };
    world.assume_fingerprint(&source, print);
    assert!(plan_slot(&world, &slot(), at(1)).action.is_some(), "another content");
}
