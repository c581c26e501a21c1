//! Findings as a table for people: what is wrong, and the command.

use super::finding::{Finding, Id, Severity};
use crate::terminal::{aligned, line};

/// Every finding, and how many checks found nothing.
pub(super) fn table(found: &[Finding], in_order: usize) -> String {
    if found.is_empty() {
        return format!("Nothing found: {in_order} checks passed.\n");
    }
    let lines: Vec<[String; 3]> = found
        .iter()
        .map(|finding| [finding.severity.word().to_owned(), finding.id.text(), finding.object.clone()])
        .collect();
    let mut text = String::new();
    for (first, finding) in aligned(&lines).iter().zip(found) {
        let (what, fix) = (line(&finding.what), line(&finding.fix));
        text.push_str(&format!("{first}\n    {what}\n    fix: {fix}\n"));
    }
    let count = |severity| found.iter().filter(|finding| finding.severity == severity).count();
    text.push_str(&format!(
        "{}, {}, {} unknown; {in_order} checks passed.\n",
        counted(count(Severity::Error), "error"),
        counted(count(Severity::Warning), "warning"),
        count(Severity::Unknown)
    ));
    text
}

/// The checks that found nothing, a line each.
pub(super) fn names(in_order: &[Id]) -> String {
    in_order.iter().map(|id| format!("  in order: {}\n", id.text())).collect()
}

/// The ids of findings, a line each.
pub(super) fn ids(found: &[Finding]) -> String {
    let mut ids: Vec<String> = found.iter().map(|finding| finding.id.text() + "\n").collect();
    ids.dedup();
    ids.concat()
}

fn counted(number: usize, word: &str) -> String {
    if number == 1 { format!("1 {word}") } else { format!("{number} {word}s") }
}
