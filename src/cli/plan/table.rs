//! A plan for people: below each rule a line a copy, with a sign as in a diff.

use super::report::{Authority, CopyRow, Report, RuleRow, Summary};
use crate::{
    marks::DIGEST,
    plan::{Course, Difference},
};

/// What the signs mean is in the command's help.
fn sign(course: Course) -> char {
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

/// Renders a plan; `colour` for terminals only.
pub(super) fn table(report: &Report, colour: bool) -> String {
    let mut text = String::new();
    let paint = |course: Course, line: &str| match colour_of(course).filter(|_| colour) {
        Some(code) => format!("\x1b[{code}m{line}\x1b[0m\n"),
        None => format!("{line}\n"),
    };
    for rule in &report.rules {
        let name = format!("{}/{}", rule.namespace, rule.name);
        // A rule of a file that would be refused has no copies: those of that name are of the rule in the cluster.
        let is_declined =
            rule.file.is_some() && rule.action == Some(Course::Refuse) && rule.identity.is_none();
        let of_rule = |row: &&CopyRow| !is_declined && row.rule.as_ref() == Some(&name);
        let copies: Vec<&CopyRow> = report.copies.iter().filter(of_rule).collect();
        let is_held = |row: &CopyRow| {
            rule.action.is_some()
                && row.action == rule.action.unwrap_or(row.action)
                && row.reason == rule.reason
        };
        let (held, listed): (Vec<&CopyRow>, Vec<&CopyRow>) = copies.into_iter().partition(|row| is_held(row));
        if listed.is_empty() && held.is_empty() && rule.action.is_none() && rule.file.is_none() {
            continue;
        }
        text.push_str(&heading(&name, rule));
        if let Some(action) = rule.action {
            text.push_str(&paint(action, &format!("  {} {}: {}", sign(action), rule.reason, rule.message)));
        } else if !rule.message.is_empty() {
            text.push_str(&paint(Course::Wait, &format!("  {} {}", sign(Course::Wait), rule.message)));
        }
        for warning in &rule.warnings {
            text.push_str(&paint(Course::Wait, &format!("  {} warning: {warning}", sign(Course::Wait))));
        }
        for line in lines(&listed) {
            text.push_str(&paint(line.0, &line.1));
        }
        if let (Some(action), false) = (rule.action, held.is_empty()) {
            let number = counted(held.len(), "copy", "copies");
            text.push_str(&paint(action, &format!("  {} {number} held back by that", sign(action))));
        }
        if listed.is_empty() && held.is_empty() && rule.action.is_none() {
            text.push_str("    everything is in order\n");
        }
    }
    let gone: Vec<&CopyRow> = report.copies.iter().filter(|row| is_without_rule(report, row)).collect();
    if !gone.is_empty() {
        text.push_str("copies of rules that are gone\n");
        for line in lines(&gone) {
            text.push_str(&paint(line.0, &line.1));
        }
    }
    text.push_str(&last_line(&report.summary));
    text
}

fn is_without_rule(report: &Report, row: &CopyRow) -> bool {
    let is_of = |rule: &RuleRow| row.rule.as_deref() == Some(&format!("{}/{}", rule.namespace, rule.name));
    !report.rules.iter().any(is_of)
}

fn heading(name: &str, rule: &RuleRow) -> String {
    let mut words = format!("CopyratorRule {name}");
    if let Some(identity) = &rule.identity {
        let how = match rule.authority {
            Authority::AllowedByStatus => ", as its status says",
            Authority::NotAsked => ", authority not asked",
            _ => "",
        };
        words.push_str(&format!(", acts as {identity}{how}"));
    }
    if let Some(file) = &rule.file {
        words.push_str(&format!(", from {file}"));
    }
    words + "\n"
}

/// A line a copy, in columns.
fn lines(copies: &[&CopyRow]) -> Vec<(Course, String)> {
    let place = |row: &CopyRow| format!("{} {}/{}", row.kind, row.namespace, row.name);
    let width = copies.iter().map(|row| place(row).chars().count()).max().unwrap_or(0);
    let line = |row: &&CopyRow| {
        let line = format!("  {} {:width$}  {}", sign(row.action), place(row), what(row));
        (row.action, line.trim_end().to_owned())
    };
    copies.iter().map(line).collect()
}

/// What happens to a copy, and why.
fn what(row: &CopyRow) -> String {
    let mut words: Vec<String> = Vec::new();
    let from = row.source.as_ref().map(|source| format!("from {source}"));
    match row.action {
        Course::Create | Course::Change | Course::Current => {
            words.extend(from);
            words.extend(Some(row.message.clone()).filter(|message| !message.is_empty()));
            match &row.changes {
                Some(changes) => words.push(difference(changes)),
                None if row.reason == "Differs" => words.push("what is there could not be read".into()),
                None => {}
            }
        }
        Course::Remove => {
            let when = match (&row.removed_at, &*row.reason) {
                (_, "Retain") => None,
                (Some(at), "Marked") => Some(format!("marked, goes at {}", in_seconds(*at))),
                (Some(at), _) => Some(format!("is marked, and goes at {}", in_seconds(*at))),
                (None, _) => Some("goes at once".into()),
            };
            words.extend(when);
            words.push(row.message.clone());
        }
        Course::Refuse | Course::Unknown | Course::Wait => {
            words.push(format!("{}: {}", row.reason, row.message))
        }
    }
    words.extend(row.last_attempt.as_ref().map(|said| format!("last attempt: {said}")));
    words.retain(|word| !word.is_empty());
    words.join("; ")
}

fn in_seconds(at: jiff::Timestamp) -> String {
    crate::marks::write_time(at)
}

/// `keys: +new ~other -old; labels: team; type`.
fn difference(changes: &Difference) -> String {
    if changes.is_about_digest_only() {
        return "labels or annotations that the rule does not set any more".into();
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
        // Those are what it is about, and follow from the rest.
        ("annotations: ", changes.annotations.iter().filter(|key| *key != DIGEST).cloned().collect()),
        ("", changes.fields.clone()),
    ];
    let named = parts.into_iter().filter(|(_, names)| !names.is_empty());
    let named: Vec<String> = named.map(|(what, names)| format!("{what}{}", names.join(" "))).collect();
    if named.is_empty() { "who wrote it".into() } else { named.join("; ") }
}

fn last_line(summary: &Summary) -> String {
    let Summary { create, change, remove, refuse, unknown, wait, current } = *summary;
    let counts = [
        (create, "to make"),
        (change, "to change"),
        (remove, "to remove"),
        (refuse, "refused"),
        (unknown, "not known"),
        (wait, "waiting"),
    ];
    let said = counts.iter().filter(|(count, _)| *count > 0).map(|(count, what)| format!("{count} {what}"));
    let said: Vec<String> = said.collect();
    match said.as_slice() {
        [] => format!("Nothing to do: {} in order.\n", counted(current, "copy", "copies")),
        said => format!("{}, {current} in order.\n", said.join(", ")),
    }
}

fn counted(number: usize, one: &str, many: &str) -> String {
    format!("{number} {}", if number == 1 { one } else { many })
}

fn colour_of(course: Course) -> Option<u8> {
    match course {
        Course::Create => Some(32),
        Course::Change => Some(33),
        Course::Remove => Some(31),
        Course::Refuse => Some(35),
        Course::Unknown => Some(36),
        Course::Wait | Course::Current => None,
    }
}
