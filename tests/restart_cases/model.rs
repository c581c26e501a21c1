//! The table of docs/restart-model.md, held against the gates of the planner.

use std::{collections::BTreeSet, fs, path::Path};

use copyrator::{
    model::{Ending, WaitReason},
    plan::restart::{RestartState, model},
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
    let cell = |text: &str| format!("`{text}`");
    let gates: Vec<[String; 3]> = model()
        .iter()
        .flat_map(|(when, function, says)| {
            says.iter().map(|reason| [(*when).to_owned(), cell(function), cell(reason)])
        })
        .collect();
    let told: Vec<[String; 3]> =
        page.iter().map(|[when, function, reason, _]| [when, function, reason].map(Clone::clone)).collect();
    assert_eq!(told, gates);
    for [_, function, reason, ends] in page {
        let wait = WaitReason::ALL.into_iter().find(|wait| cell(wait.as_str()) == reason);
        let mut endings = match wait {
            Some(wait) => vec![wait.ended_by()],
            None => vec![Ending::Knowledge, Ending::Clock, Ending::Event, Ending::Person],
        }
        .into_iter()
        .map(|ending| match ending {
            Ending::Knowledge => "knowledge: ",
            Ending::Clock => "the clock",
            Ending::Event => "an event: ",
            Ending::Person => "a person: ",
        });
        assert!(
            endings.any(|ending| ends.starts_with(ending)),
            "{function}: {reason} is not ended by {ends}"
        );
    }
}

#[test]
fn every_wait_has_a_gate() {
    let decided: BTreeSet<&str> = model().iter().flat_map(|(.., says)| says.iter().copied()).collect();
    let lacking: Vec<_> = WaitReason::ALL.iter().filter(|wait| !decided.contains(wait.as_str())).collect();
    assert_eq!(lacking, [&WaitReason::Starting; 0]);
}

/// What a plan says of a restart that is not carried out is in the model.
pub fn names(state: &RestartState) -> bool {
    let is_settled = matches!(state, RestartState::Due | RestartState::Current | RestartState::Unrecorded);
    is_settled || model().iter().any(|(.., says)| says.contains(&state.reason()))
}
