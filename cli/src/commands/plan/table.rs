//! A plan as a table for people: a line for each copy below its rule, with a sign as in a diff.

use std::collections::BTreeSet;

use super::{
    declared::{Authority, RuleRow},
    report::{Report, Summary},
    restarts::{file_lines, lines as lines_of},
    words::{counted, difference, sign, value_lines},
};
use crate::{
    explain::{CopyRow, Course, RestartOutlook},
    files::FileKind,
    model::Unseen,
    names::Declarer,
    plan::Reason,
    terminal,
};

/// Renders a plan, with colours for terminals only.
pub(super) fn table(report: &Report, colour: bool) -> String {
    let mut text = String::new();
    let paint = |course: Course, line: &str| match (terminal::line(line), colour_of(course)) {
        (line, Some(code)) if colour => format!("\x1b[{code}m{line}\x1b[0m\n"),
        (line, _) => format!("{line}\n"),
    };
    let section = |title: &str, lines: Vec<(Course, String)>, text: &mut String| {
        if !lines.is_empty() {
            text.push_str(&format!("{title}\n"));
            lines.iter().for_each(|(course, line)| text.push_str(&paint(*course, line)));
        }
    };
    let restarts = report.restarts.as_deref().unwrap_or_default();
    section("ConfigPolicies of files", file_lines(&report.policies), &mut text);
    section("ConfigMaps and Secrets of files", file_lines(&report.files), &mut text);
    for rule in report.rules.iter().chain(&report.templates).chain(&report.monitors) {
        // If a rule of a file would be refused, copies of that name belong to the rule in the cluster.
        let is_declined =
            rule.file.is_some() && rule.action == Some(Course::Refuse) && rule.identity.is_none();
        let is_monitor = rule.kind == FileKind::Monitor;
        let of_rule =
            |row: &&CopyRow| !is_monitor && !is_declined && row.rule.as_ref() == Some(&rule.declarer);
        let copies: Vec<&CopyRow> = report.copies.iter().filter(of_rule).collect();
        let is_held = |row: &CopyRow| {
            rule.action.is_some()
                && row.state.action() == rule.action.unwrap_or(row.state.action())
                && Some(row.reason) == rule.reason
        };
        let (held, listed): (Vec<&CopyRow>, Vec<&CopyRow>) = copies.into_iter().partition(|row| is_held(row));
        if listed.is_empty() && held.is_empty() && rule.action.is_none() && rule.file.is_none() {
            continue;
        }
        text.push_str(&heading(rule));
        if let Some(action) = rule.action {
            let word = rule.reason.map(Reason::as_str).unwrap_or_default();
            text.push_str(&paint(action, &format!("  {} {}: {}", sign(action), word, rule.message)));
        } else if !rule.message.is_empty() {
            text.push_str(&paint(Course::Wait, &format!("  {} {}", sign(Course::Wait), rule.message)));
        }
        for warning in &rule.warnings {
            text.push_str(&paint(Course::Wait, &format!("  {} warning: {warning}", sign(Course::Wait))));
        }
        if !rule.reads.is_empty() {
            let line = format!(
                "    users who may write these fields control what the template renders: {}",
                rule.reads.join(", ")
            );
            text.push_str(&(terminal::line(&line) + "\n"));
        }
        for line in lines(&listed) {
            text.push_str(&paint(line.0, &line.1));
        }
        if let (Some(action), false) = (rule.action, held.is_empty()) {
            let number = counted(held.len(), "copy", "copies");
            text.push_str(&paint(action, &format!("  {} {number} affected by this", sign(action))));
        }
        if listed.is_empty() && held.is_empty() && rule.action.is_none() {
            let of_monitor = |row: &RestartOutlook| row.monitors.contains(&rule.declarer);
            text.push_str(match is_monitor && restarts.iter().any(of_monitor) {
                true => "    its workloads are below\n",
                false => "    everything is in order\n",
            });
        }
    }
    let rules: BTreeSet<&Declarer> =
        report.rules.iter().chain(&report.templates).map(|row| &row.declarer).collect();
    let is_gone = |row: &&CopyRow| row.rule.as_ref().is_none_or(|rule| !rules.contains(rule));
    let (unseen, gone): (Vec<&CopyRow>, Vec<&CopyRow>) =
        report.copies.iter().filter(is_gone).partition(|row| row.reason == Unseen::OutOfSight.into());
    for (title, rows) in [("copies of deleted rules", gone), ("copies of rules that you may not see", unseen)]
    {
        if rows.is_empty() {
            continue;
        }
        text.push_str(&format!("{title}\n"));
        for line in lines(&rows) {
            text.push_str(&paint(line.0, &line.1));
        }
    }
    section("workloads", lines_of(restarts), &mut text);
    text.push_str(&last_line(&report.summary));
    text.push_str(&report.restart_summary.line());
    text
}

fn heading(rule: &RuleRow) -> String {
    let mut words = match &rule.declarer {
        Declarer::Annotated(source) => format!("{source}, by annotation"),
        _ => format!("{} {}/{}", rule.kind.as_str(), rule.namespace, rule.name),
    };
    if let Some(identity) = &rule.identity {
        let how = match rule.authority {
            Authority::AllowedByStatus => ", from its status",
            Authority::NotAsked => ", rights not checked",
            _ => "",
        };
        words.push_str(&format!(", acts as {identity}{how}"));
    }
    if let Some(file) = &rule.file {
        words.push_str(&format!(", from {file}"));
    }
    terminal::line(&words) + "\n"
}

/// A line for each copy, in columns, and below it a line for each field that changes.
fn lines(copies: &[&CopyRow]) -> Vec<(Course, String)> {
    let place = |row: &CopyRow| row.slot.to_string();
    let width = copies.iter().map(|row| place(row).chars().count()).max().unwrap_or(0);
    let lines = |row: &&CopyRow| {
        let line = format!("  {} {:width$}  {}", sign(row.state.action()), place(row), what(row));
        let first = (row.state.action(), line.trim_end().to_owned());
        let values = row.difference.as_ref().map(value_lines).unwrap_or_default();
        std::iter::once(first).chain(values)
    };
    copies.iter().flat_map(lines).collect()
}

/// What happens to a copy, and why.
fn what(row: &CopyRow) -> String {
    let mut words: Vec<String> = Vec::new();
    // A template is not named as the source: the content is its own text.
    let by_template = row.rule.as_ref().is_some_and(|rule| rule.as_template().is_some());
    let source = row.source.as_ref().filter(|_| !by_template);
    let from = source.map(|source| format!("from {source}"));
    match row.state.action() {
        Course::Create | Course::Change | Course::Current => {
            words.extend(from);
            words.extend(Some(row.message.clone()).filter(|_| !row.state.has_failed()));
            match &row.difference {
                Some(changes) => words.push(difference(changes)),
                None if row.reason == Reason::Differs => {
                    words.push("cannot read the existing object, so the difference is unknown".into())
                }
                None => {}
            }
        }
        Course::Remove => {
            let when = match (&row.at, row.reason) {
                (_, Reason::Retain) => None,
                (Some(at), Reason::Marked) => {
                    Some(format!("marked for removal, will be deleted at {}", in_seconds(*at)))
                }
                (Some(at), _) => {
                    Some(format!("will be marked for removal, and deleted at {}", in_seconds(*at)))
                }
                (None, _) => Some("will be deleted at once".into()),
            };
            words.extend(when);
            words.push(row.message.clone());
        }
        Course::Refuse | Course::Unknown | Course::Wait => {
            words.push(format!("{}: {}", row.reason.as_str(), row.message))
        }
    }
    words.extend(row.last_attempt.as_ref().map(|said| format!("last attempt: {said}")));
    words.retain(|word| !word.is_empty());
    words.join("; ")
}

fn in_seconds(at: jiff::Timestamp) -> String {
    crate::marks::write_time(at)
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        explain::{CopyState, Difference, FieldChange},
        marks::DIGEST,
        model::{RefusalReason, WriteFault},
        names::{Kind, NamespacedName, ObjectKey},
        plan::copy::ProblemReason,
    };

    const FORBIDDEN: Reason = Reason::Refused(RefusalReason::Forbidden);

    fn rule(name: &str, action: Option<(Course, Reason)>, message: &str) -> RuleRow {
        RuleRow {
            kind: FileKind::Rule,
            declarer: Declarer::rule("platform", name),
            namespace: "platform".into(),
            name: name.into(),
            file: None,
            identity: Some("user alice".into()),
            authority: Authority::Allowed,
            action: action.map(|(action, _)| action),
            reason: action.map(|(_, reason)| reason),
            message: message.into(),
            reads: Vec::new(),
            warnings: Vec::new(),
        }
    }

    fn copy(state: CopyState, rule: &str, namespace: &str, reason: Reason, message: &str) -> CopyRow {
        CopyRow {
            state,
            rule: Some(Declarer::rule("platform", rule)),
            slot: ObjectKey::new(Kind::Secret, namespace, "registry"),
            source: Some(NamespacedName::new("platform", "registry")),
            instance: None,
            reason,
            message: message.into(),
            difference: None,
            at: None,
            last_attempt: None,
        }
    }

    fn changed(namespace: &str, changes: Difference) -> CopyRow {
        let row = copy(CopyState::Outdated, "registry", namespace, Reason::Differs, "");
        CopyRow { difference: Some(changes), ..row }
    }

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn a_plan_reads_like_a_diff() {
        let changes = Difference {
            keys_added: names(&["b"]),
            keys_changed: names(&["a", "c"]),
            keys_removed: names(&["d"]),
            labels: names(&["tier"]),
            fields: names(&["type"]),
            ..Difference::default()
        };
        let digest = Difference { annotations: names(&[DIGEST]), ..Difference::default() };
        let value = |path: &str, old: Option<&str>, new: Option<&str>| FieldChange {
            path: path.into(),
            old: old.map(str::to_owned),
            new: new.map(str::to_owned),
        };
        let values = Difference {
            keys_changed: names(&["/spec/replicas"]),
            values: vec![
                value("metadata.labels.tier", None, Some("\"web\"")),
                value("spec.replicas", Some("2"), Some("3")),
                value("spec.paused", Some("true"), None),
            ],
            has_more_values: true,
            ..Difference::default()
        };
        let mut old = copy(CopyState::Leaving, "registry", "old", Reason::Unwanted, "its source is gone");
        old.at = Some(jiff::Timestamp::from_second(1_000).unwrap());
        let report = Report {
            rules: vec![
                rule("calm", None, ""),
                rule("registry", None, ""),
                RuleRow {
                    file: Some("rules.yaml:3".into()),
                    authority: Authority::NotAsked,
                    ..rule("asked", None, "rights not checked (why); the plan assumes that they are granted")
                },
                rule("refused", Some((Course::Refuse, FORBIDDEN)), "user \"alice\" may not create secrets"),
            ],
            copies: vec![
                copy(CopyState::Missing, "registry", "shop", Reason::Missing, ""),
                changed("web", changes),
                changed("docs", digest),
                changed("values", values),
                old,
                CopyRow {
                    last_attempt: Some("Forbidden: exceeded quota".into()),
                    ..copy(CopyState::CreateFailed, "registry", "full", FORBIDDEN, "exceeded quota")
                },
                copy(
                    CopyState::Blocked,
                    "registry",
                    "theirs",
                    Reason::Problem(ProblemReason::Fault(WriteFault::Conflict)),
                    "an object is in the way",
                ),
                copy(
                    CopyState::Blocked,
                    "refused",
                    "shop",
                    FORBIDDEN,
                    "user \"alice\" may not create secrets",
                ),
                copy(
                    CopyState::Leaving,
                    "gone",
                    "shop",
                    Reason::Unwanted,
                    "its rule platform/gone no longer exists",
                ),
            ],
            summary: Summary { create: 2, change: 2, remove: 2, refuse: 2, current: 7, ..Summary::default() },
            ..Report::default()
        };
        let expected = r#"CopyratorRule platform/registry, acts as user alice
  + Secret shop/registry    from platform/registry
  ~ Secret web/registry     from platform/registry; keys: +b ~a ~c -d; labels: tier; type
  ~ Secret docs/registry    from platform/registry; labels or annotations that the rule no longer sets
  ~ Secret values/registry  from platform/registry
      + metadata.labels.tier: "web"
      - spec.replicas: 2
      + spec.replicas: 3
      - spec.paused: true
      ~ and more fields
  - Secret old/registry     will be marked for removal, and deleted at 1970-01-01T00:16:40Z; its source is gone
  + Secret full/registry    from platform/registry; last attempt: Forbidden: exceeded quota
  ! Secret theirs/registry  Conflict: an object is in the way
CopyratorRule platform/asked, acts as user alice, rights not checked, from rules.yaml:3
  . rights not checked (why); the plan assumes that they are granted
    everything is in order
CopyratorRule platform/refused, acts as user alice
  ! Forbidden: user "alice" may not create secrets
  ! 1 copy affected by this
copies of deleted rules
  - Secret shop/registry  will be deleted at once; its rule platform/gone no longer exists
2 to make, 2 to change, 2 to remove, 2 refused, 7 in order.
"#;
        assert_eq!(table(&report, false), expected);
        let coloured = table(&report, true);
        assert!(coloured.contains("\u{1b}[32m  + Secret shop/registry    from platform/registry\u{1b}[0m\n"));
        assert!(report.has_findings());
    }

    /// Scripts read these fields.
    #[test]
    fn a_copy_has_its_outlook_as_fields_of_its_row() {
        let mut row = changed("web", Difference { labels: names(&["tier"]), ..Difference::default() });
        let said = |row: &CopyRow| serde_json::to_string(row).unwrap();
        assert_eq!(
            said(&row),
            r#"{"action":"change","state":"Outdated","kind":"Secret","namespace":"web","name":"registry","rule":"platform/registry","source":"platform/registry","reason":"Differs","changes":{"labels":["tier"]}}"#
        );
        row = CopyRow {
            rule: None,
            source: None,
            instance: Some("ConfigMap shop/a".into()),
            message: "its rule is gone".into(),
            difference: None,
            at: Some(jiff::Timestamp::from_second(1_000).unwrap()),
            ..row
        };
        row.last_attempt = Some("Failed: no".into());
        assert_eq!(
            said(&row),
            r#"{"action":"change","state":"Outdated","kind":"Secret","namespace":"web","name":"registry","reason":"Differs","message":"its rule is gone","removedAt":"1970-01-01T00:16:40Z","lastAttempt":"Failed: no"}"#
        );
    }

    /// The rule in the cluster stays as it is while its new version would be refused.
    #[test]
    fn a_rule_of_a_file_that_would_be_refused_has_no_copies() {
        let declined = RuleRow {
            file: Some("-:1".into()),
            identity: None,
            ..rule(
                "registry",
                Some((Course::Refuse, Reason::Invalid)),
                "spec.targets: needs at least one entry",
            )
        };
        let report = Report {
            rules: vec![declined, rule("registry", None, "")],
            copies: vec![copy(CopyState::Missing, "registry", "shop", Reason::Missing, "")],
            summary: Summary { create: 1, ..Summary::default() },
            ..Report::default()
        };
        let expected = "CopyratorRule platform/registry, from -:1
  ! Invalid: spec.targets: needs at least one entry
CopyratorRule platform/registry, acts as user alice
  + Secret shop/registry  from platform/registry
1 to make, 0 in order.
";
        assert_eq!(table(&report, false), expected);
    }

    /// A user who asks about a readable namespace need not read the namespaces whose rules copy something
    /// there.
    #[test]
    fn what_another_namespace_hides_is_no_finding_of_one_that_is_seen() {
        let out_of_sight = Reason::from(Unseen::OutOfSight);
        let unknown = |reason: Reason| copy(CopyState::Unknown, "a", "shop", reason, "");
        let of_file = |reason: Reason, file: Option<&str>| RuleRow {
            file: file.map(str::to_owned),
            ..rule("a", Some((Course::Unknown, reason)), "")
        };
        for (is_of_seen, reason, file, expected) in [
            (true, out_of_sight, None, false),
            (false, out_of_sight, None, true),
            (true, Reason::Unread, None, true),
            (true, out_of_sight, Some("rules.yaml:3"), true),
        ] {
            let rules = vec![of_file(reason, file)];
            let report = Report { is_of_seen, rules, copies: vec![unknown(reason)], ..Report::default() };
            assert_eq!(report.has_refusals(), expected, "{is_of_seen} {reason:?} {file:?}");
            let of_copies = Report { rules: Vec::new(), ..report };
            assert_eq!(
                of_copies.has_findings(),
                !is_of_seen || reason == Reason::Unread,
                "{is_of_seen} {reason:?}"
            );
        }
        let report = Report { copies: vec![unknown(out_of_sight)], ..Report::default() };
        let text = table(&report, false);
        assert!(text.contains("copies of rules that you may not see\n") && !text.contains("gone"), "{text}");
    }

    #[test]
    fn waiting_and_being_in_order_are_no_findings() {
        let summary = Summary { wait: 3, current: 1, ..Summary::default() };
        let report = Report {
            summary,
            rules: vec![rule("a", Some((Course::Wait, Reason::Suspended)), "")],
            ..Report::default()
        };
        assert!(!report.has_findings());
        let report = Report {
            copies: vec![copy(
                CopyState::Waiting,
                "a",
                "shop",
                Reason::Problem(ProblemReason::Fault(WriteFault::Failed)),
                "\u{1b}[2Jgone",
            )],
            ..report
        };
        assert!(!table(&report, false).contains('\u{1b}'), "a terminal obeys what a status says");
        assert_eq!(table(&Report::default(), true), "Nothing to do: 0 copies in order.\n");
    }
}
