//! The table of copies, with a row for each rule and target namespace.

use crate::{
    explain::{CopyRow, CopyState},
    marks::write_time,
    names::Declarer,
    plan::copy::{ProblemReason, let_go, places, served},
    survey::Survey,
    terminal::aligned,
};

/// Every copy of a survey that is in this namespace or belongs to a rule of the namespace, the worst first.
pub fn standings(survey: &Survey, namespace: Option<&str>) -> Vec<CopyRow> {
    let mut rows: Vec<CopyRow> = survey.shown(namespace).into_iter().cloned().collect();
    rows.sort_by(|a, b| {
        let place = |row: &CopyRow| (row.state.as_str(), row.reason.as_str());
        a.state
            .cmp(&b.state)
            .then_with(|| place(a).cmp(&place(b)))
            .then_with(|| (&a.rule, &a.slot.namespace).cmp(&(&b.rule, &b.slot.namespace)))
    });
    rows
}

/// Notes about held copies and objects, with the two remedies.
pub(crate) fn held(survey: &Survey, rows: &[CopyRow]) -> Vec<String> {
    let held = rows.iter().filter(|row| row.reason == ProblemReason::Held.into());
    let of: Vec<&Declarer> = held.filter_map(|row| row.rule.as_ref()).collect();
    let (templates, rules): (Vec<_>, Vec<_>) = of.into_iter().partition(|rule| rule.as_template().is_some());
    let note = |(rules, what, (one, more)): (Vec<&Declarer>, &str, (&str, &str))| {
        let definition = survey.world.definition_of(rules.first()?)?;
        let are = match rules.len() {
            1 => format!("1 {one} is"),
            number => format!("{number} {more} are"),
        };
        Some(format!(
            "{are} kept, because the CustomResourceDefinition of {what} was created again at {} and their {what} have not existed since; \
             restore the {what}, or let a user with the right to override copies release them: {}",
            write_time(definition.created),
            let_go(served(&survey.world), &places(&survey.world), None, &definition.uid)
        ))
    };
    let each = [(rules, "rules", ("copy", "copies")), (templates, "templates", ("object", "objects"))];
    each.into_iter().filter_map(note).collect()
}

/// A table for people, with a line for each copy; current copies only with `with_current`.
pub fn table(rows: &[CopyRow], with_current: bool) -> String {
    let shown: Vec<&CopyRow> =
        rows.iter().filter(|row| with_current || row.state != CopyState::Current).collect();
    if shown.is_empty() {
        return String::new();
    }
    let header = ["STATE", "COPY", "RULE", "SOURCE", "REASON", "MESSAGE"].map(str::to_owned);
    let cells = shown.iter().map(|row| {
        [
            row.state.to_string(),
            row.slot.to_string(),
            row.rule.as_ref().map_or_else(|| "-".to_owned(), ToString::to_string),
            row.source.as_ref().map_or_else(|| "-".to_owned(), ToString::to_string),
            row.reason.as_str().to_owned(),
            row.message_with_time(),
        ]
    });
    let lines: Vec<[String; 6]> = std::iter::once(header).chain(cells).collect();
    format!("\n{}\n", aligned(&lines).join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        model::WriteFault,
        names::{Kind, NamespacedName, ObjectKey},
        plan::Reason,
    };

    fn row(state: CopyState, namespace: &str, reason: Reason, message: &str) -> CopyRow {
        CopyRow {
            state,
            slot: ObjectKey::new(Kind::Secret, namespace, "registry"),
            rule: Some(Declarer::rule("platform", "registry")),
            source: Some(NamespacedName::new("platform", "registry")),
            instance: None,
            reason,
            message: message.into(),
            difference: None,
            at: None,
            last_attempt: None,
        }
    }

    #[test]
    fn what_is_in_order_is_left_out_unless_asked_for() {
        let rows = [
            row(
                CopyState::Blocked,
                "shop",
                ProblemReason::Fault(WriteFault::Conflict).into(),
                "an object is in the way",
            ),
            row(CopyState::Current, "web", Reason::InOrder, ""),
        ];
        let blocked = "\nSTATE     COPY                   RULE                SOURCE              REASON     MESSAGE\n\
            Blocked   Secret shop/registry   platform/registry   platform/registry   Conflict   an object is in the way\n";
        assert_eq!(table(&rows, false), blocked);
        assert_eq!(
            table(&rows, true),
            format!(
                "{blocked}Current   Secret web/registry    platform/registry   platform/registry   InOrder\n"
            )
        );
        assert_eq!(table(&rows[1..], false), "");
        assert!(rows[0].is_worrying() && !rows[1].is_worrying());
    }
}
