//! The views over rows that a test makes.

use std::collections::BTreeSet;

use copyrator_cli::states::restarts::row_of;

use super::{
    frame::Frame,
    overview, restarts,
    spread::{self, Matrix},
};
use crate::{
    asked::Asked,
    explain::{CopyRow, CopyState, RestartCourse, RestartOutlook},
    names::{Declarer, Kind, NamespacedName, ObjectKey},
    paged::page,
    plan::{Reason, restart::RestartState},
};

fn line(namespace: &str, rule: &str, state: CopyState, message: &str) -> CopyRow {
    CopyRow {
        state,
        slot: ObjectKey::new(Kind::Secret, namespace, rule),
        rule: Some(Declarer::rule("platform", rule)),
        source: Some(NamespacedName::new("platform", rule)),
        instance: None,
        reason: Reason::Missing,
        message: message.into(),
        difference: None,
        at: None,
        last_attempt: None,
    }
}

fn places(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

#[test]
fn a_cell_shows_the_worst_copy_and_filters_leave_the_rest_out() {
    let lines = || {
        vec![
            line("shop", "registry", CopyState::Current, ""),
            line("shop", "registry", CopyState::Blocked, "an object is in the way"),
            line("web", "ca", CopyState::Current, ""),
        ]
    };
    let matrix = Matrix::new(lines(), places(&["docs"]), &Asked::read("").unwrap());
    assert_eq!(matrix.rules, ["platform/ca", "platform/registry"]);
    let rows: Vec<&str> = matrix.rows.iter().map(|(place, _)| place.as_str()).collect();
    assert_eq!(rows, ["docs", "shop", "web"]);
    let cell = &matrix.rows[1].1["platform/registry"];
    assert_eq!((cell.copies, cell.line.state), (2, CopyState::Blocked));

    for (query, expected) in
        [("namespace=o", "docs shop"), ("state=blocked", "shop"), ("rule=ca&state=current", "web")]
    {
        let matrix = Matrix::new(lines(), places(&["docs"]), &Asked::read(query).unwrap());
        let rows: Vec<&str> = matrix.rows.iter().map(|(place, _)| place.as_str()).collect();
        assert_eq!(rows.join(" "), expected, "{query}");
    }
}

#[test]
fn what_others_have_written_is_text() {
    let evil = "<script>alert(1)</script>";
    let asked = Asked::read("").unwrap();
    let matrix =
        Matrix::new(vec![line("shop", "registry", CopyState::Blocked, evil)], BTreeSet::new(), &asked);
    let shown = spread::render(&Frame::plain(), &asked, matrix, &[evil.to_owned()]).unwrap().into_string();
    assert!(shown.contains("&lt;script&gt;") && !shown.contains(evil), "{shown}");
    let row =
        RestartOutlook { message: evil.into(), ..row_of(RestartCourse::Restart, RestartState::Due, "web") };
    let page = page(vec![row], |row| vec![row.of.to_string()], &asked, Vec::new()).unwrap();
    let shown = restarts::render(&Frame::plain(), &page).into_string();
    assert!(shown.contains("&lt;script&gt;") && !shown.contains(evil), "{shown}");
}

#[test]
fn a_thousand_namespaces_are_shown_a_small_page_at_a_time() {
    let rules: Vec<String> = (0..50).map(|rule| format!("rule-{rule}")).collect();
    let all = (0..1000).flat_map(|place| {
        let place = format!("namespace-{place:04}");
        rules.iter().map(move |rule| line(&place, rule, CopyState::Current, "")).collect::<Vec<_>>()
    });
    let asked = Asked::read("").unwrap();
    let matrix = Matrix::new(all.collect(), BTreeSet::new(), &asked);
    let shown = spread::render(&Frame::plain(), &asked, matrix, &[]).unwrap().into_string();
    assert!(shown.len() < 200_000, "{} bytes", shown.len());
    assert!(shown.contains("of 1000 namespaces") && shown.contains("Next namespaces"));
}

#[test]
fn the_overview_names_the_worst_and_says_when_all_is_well() {
    let facts = |copies: Vec<CopyRow>| overview::Facts {
        copies,
        workloads: vec![row_of(RestartCourse::Current, RestartState::Current, "web")],
        rules: 1,
        monitors: 1,
        namespaces: 2,
        notes: Vec::new(),
    };
    let well = overview::render(&Frame::plain(), &facts(vec![line("shop", "ca", CopyState::Current, "")]))
        .into_string();
    assert!(well.contains("Everything is as declared"), "{well}");
    let ill = vec![
        line("shop", "ca", CopyState::Current, ""),
        line("web", "ca", CopyState::CreateFailed, "make room first"),
    ];
    let ill = overview::render(&Frame::plain(), &facts(ill)).into_string();
    assert!(ill.contains("1 thing needs attention") && ill.contains("make room first"), "{ill}");
    assert!(ill.contains("/object/secret/web/ca"), "{ill}");
}
