//! The gates of a copy: which page lists them, and which of them ask about an action.

use std::{fs, path::Path};

use super::{super::write_gates::WRITE_GATES, *};

/// The page lists every gate with every reason, in the order in which the gates are asked.
#[test]
fn the_page_about_what_holds_back_a_copy_has_every_gate_in_its_order() {
    let page =
        fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/copy-model.md")).unwrap();
    let cell = |text: &str| text.trim().trim_matches('`').to_owned();
    let rows = page.lines().filter(|line| line.starts_with('|')).skip(2);
    let rows = rows.map(|row| row.trim_matches('|').split('|').map(cell).take(2).collect::<Vec<_>>());
    let of_writes = WRITE_GATES.iter().map(|gate| (gate.name, gate.says));
    let gates = of_writes.chain(ACTION_GATES.iter().map(|gate| (gate.name, gate.says)));
    let lines = gates.flat_map(|(name, says)| match says {
        [] => vec![[name, "–"]],
        says => says.iter().map(|reason| [name, *reason]).collect(),
    });
    assert_eq!(rows.collect::<Vec<_>>(), lines.collect::<Vec<_>>());
}

/// The gates that ask about the action of the slot's plan.
fn asking(world: &World, now: i64) -> Vec<&'static str> {
    let (slot, now) = (slot(), at(now));
    let plan = plan_slot(world, &slot, now);
    assert!(matches!(plan.action, Some(CopyAction::Write(_))), "{plan:?}");
    let due = DueAction { world, slot: &slot, plan: &plan, account: "us", now };
    ACTION_GATES.iter().filter(|gate| (gate.ask)(&due).is_some()).map(|gate| gate.name).collect()
}

#[test]
fn before_a_write_only_old_answers_are_asked_for_again_and_only_about_rights_that_can_be_withdrawn() {
    let mut world = world();
    secret(&mut world, "home", "app", json!({}));
    let name = rule(&mut world, "a", 0, json!({}));
    answer(&mut world, &name, true);
    assert_eq!(asking(&world, 1_000), [""; 0], "the author's answer stays");
    rule(&mut world, "a", 0, json!({"spec": {"serviceAccountName": "copier"}}));
    answer(&mut world, &name, true);
    assert_eq!((asking(&world, 29), asking(&world, 30)), (vec![], vec!["fresh_rights"]));
}
