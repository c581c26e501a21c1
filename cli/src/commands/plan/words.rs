//! Words that lines of a plan share: signs of actions, names of changes, and counts.

use crate::{
    explain::{Course, Difference},
    marks::DIGEST,
};

/// The sign of a line; the command's help explains the signs.
pub(super) fn sign(course: Course) -> char {
    match course {
        Course::Create => '+',
        Course::Change => '~',
        Course::Remove => '-',
        Course::Refuse => '!',
        Course::Unknown => '?',
        Course::Wait => '.',
        Course::Current => '=',
    }
}

/// The names of changes: `keys: +new ~other -old; labels: team; type`. Empty if the fields have separate
/// lines.
pub(super) fn difference(changes: &Difference) -> String {
    if !changes.values.is_empty() {
        return String::new();
    }
    if changes.is_about_digest_only() {
        return "labels or annotations that the rule no longer sets".into();
    }
    let signed =
        |sign: char, keys: &[String]| keys.iter().map(|key| format!("{sign}{key}")).collect::<Vec<_>>();
    let keys = [
        signed('+', &changes.keys_added),
        signed('~', &changes.keys_changed),
        signed('-', &changes.keys_removed),
    ];
    let parts = [
        ("keys: ", keys.concat()),
        ("labels: ", changes.labels.clone()),
        // The digest annotation follows from the other changes.
        ("annotations: ", changes.annotations.iter().filter(|key| *key != DIGEST).cloned().collect()),
        ("", changes.fields.clone()),
    ];
    let named = parts.into_iter().filter(|(_, names)| !names.is_empty());
    let named: Vec<String> = named.map(|(what, names)| format!("{what}{}", names.join(" "))).collect();
    if named.is_empty() { "who wrote it".into() } else { named.join("; ") }
}

/// The lines of a row's fields, as in a diff: `- path: old`, `+ path: new`.
pub(super) fn value_lines(changes: &Difference) -> Vec<(Course, String)> {
    let line = |course: Course, path: &str, value: &Option<String>| {
        value.as_ref().map(|value| (course, format!("      {} {path}: {value}", sign(course))))
    };
    let lines = changes.values.iter().flat_map(|change| {
        [line(Course::Remove, &change.path, &change.old), line(Course::Create, &change.path, &change.new)]
    });
    let more = changes.has_more_values.then(|| (Course::Change, "      ~ and more fields".to_owned()));
    lines.flatten().chain(more).collect()
}

/// A number with its noun in the singular or the plural: `1 copy`, `2 copies`.
pub(super) fn counted(number: usize, one: &str, many: &str) -> String {
    format!("{number} {}", if number == 1 { one } else { many })
}
