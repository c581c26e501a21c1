//! The table of docs/restart-model.md, held against the gates of the planner.

use std::{collections::BTreeSet, fs, path::Path};

use copyrator::{
    model::{Ending, WaitReason},
    plan::restart::model,
};

/// The table's rows: when it is asked, by which function, the reasons, and what ends it.
fn rows() -> Vec<[String; 4]> {
    let page =
        fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/restart-model.md")).unwrap();
    let cell = |cell: &str| cell.trim().to_owned();
    let row = |line: &str| -> [String; 4] {
        let cells: Vec<String> = line.trim_matches('|').split('|').map(cell).collect();
        cells.try_into().unwrap_or_else(|cells| panic!("{cells:?} are not four"))
    };
    page.lines().filter(|line| line.starts_with('|')).skip(2).map(row).collect()
}

#[test]
fn the_page_has_every_gate_in_its_order_and_what_ends_each_wait() {
    let page = rows();
    let gates: Vec<(String, String)> = model()
        .iter()
        .flat_map(|(when, function, waits)| {
            let row = ((*when).to_owned(), format!("`{function}`"));
            vec![row; waits.len().max(1)]
        })
        .collect();
    let told: Vec<(String, String)> = page.iter().map(|row| (row[0].clone(), row[1].clone())).collect();
    assert_eq!(told, gates);
    let waits = model().into_iter().flat_map(|(_, _, waits)| match waits {
        // It says another state than that it waits.
        [] => vec![None],
        waits => waits.iter().copied().map(Some).collect(),
    });
    for (row, wait) in page.iter().zip(waits) {
        let [_, function, reason, ends] = row;
        let Some(wait) = wait else {
            let is_wait = |one: &WaitReason| reason.contains(&format!("`{one}`"));
            assert!(!WaitReason::ALL.iter().any(is_wait), "{function} never says {reason}");
            continue;
        };
        let ending = match wait.ended_by() {
            Ending::Knowledge => "knowledge",
            Ending::Clock => "the clock",
            Ending::Event => "an event",
            Ending::Person => "a person",
        };
        assert_eq!(*reason, format!("`{wait}`"), "{function}");
        assert!(ends.starts_with(ending), "{wait} is ended by {ending}, not {ends}");
    }
}

#[test]
fn every_wait_has_a_gate() {
    let decided: BTreeSet<WaitReason> =
        model().iter().flat_map(|(_, _, waits)| waits.iter().copied()).collect();
    assert_eq!(decided, WaitReason::ALL.into_iter().collect());
}
