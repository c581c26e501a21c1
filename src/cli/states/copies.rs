//! The state of every copy, from the plan of its slot and Copyrator's last report. A row for each rule and
//! target namespace.

use schemars::JsonSchema;
use serde::Serialize;

use crate::{
    cli::{survey::Survey, terminal::aligned},
    explain::{Course, Outlook},
    marks::write_time,
    names::NamespacedName,
    plan::{
        Reason,
        copy::{ProblemReason, let_go, places, served},
    },
};

/// The state of a copy, the worst first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
pub(crate) enum State {
    /// It is due, and the last attempt failed.
    Failed,
    /// An object is in the way, or its rule lacks a right.
    Blocked,
    /// It does not exist yet.
    Missing,
    /// It exists, and is about to be updated.
    Outdated,
    /// Its state is unknown.
    Unknown,
    /// No rule claims it any more.
    Leaving,
    /// Nothing happens to it for now.
    Waiting,
    /// It is as it should be.
    Current,
}

/// A copy and its state.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct CopyStatus {
    /// The rule that the copy belongs to.
    #[serde(skip)]
    pub rule: Option<NamespacedName>,
    /// Why the plan has it so; `reason` may be the last attempt's.
    #[serde(skip)]
    pub planned: Reason,
    pub kind: String,
    pub namespace: String,
    pub name: String,
    /// `namespace/name` of the source.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    pub state: State,
    pub reason: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
}

impl CopyStatus {
    /// Whether it is not as declared, and will not become so by itself.
    pub(crate) fn is_worrying(&self) -> bool {
        self.state <= State::Outdated
    }
}

/// Every copy of a survey that lands in this namespace or belongs to a rule there, the worst first.
pub(crate) fn standings(survey: &Survey, namespace: Option<&str>) -> Vec<CopyStatus> {
    let mut rows: Vec<CopyStatus> =
        survey.shown(namespace).into_iter().map(|outlook| standing(survey, outlook)).collect();
    rows.sort_by(|a, b| {
        (a.state, &a.reason, &a.rule, &a.namespace).cmp(&(b.state, &b.reason, &b.rule, &b.namespace))
    });
    rows
}

fn standing(survey: &Survey, outlook: &Outlook) -> CopyStatus {
    let reported = survey.reported(outlook);
    let state = match outlook.course {
        Course::Create | Course::Change if reported.is_some() => State::Failed,
        Course::Create => State::Missing,
        Course::Change => State::Outdated,
        Course::Refuse => State::Blocked,
        Course::Unknown => State::Unknown,
        Course::Remove => State::Leaving,
        Course::Wait => State::Waiting,
        Course::Current => State::Current,
    };
    let (reason, message) = match reported.filter(|_| state == State::Failed) {
        Some(problem) => (problem.reason.clone(), problem.message.clone()),
        None => (outlook.reason.as_str().to_owned(), outlook.message.clone()),
    };
    let goes = outlook.at.map(|at| format!("goes at {}", crate::marks::write_time(at)));
    let message = match (goes, message) {
        (Some(goes), message) if message.is_empty() => goes,
        (Some(goes), message) => format!("{message}; {goes}"),
        (None, message) => message,
    };
    CopyStatus {
        rule: outlook.rule.clone(),
        planned: outlook.reason,
        kind: outlook.slot.kind.to_string(),
        namespace: outlook.slot.namespace.to_string(),
        name: outlook.slot.name.to_string(),
        source: outlook.source.as_ref().map(ToString::to_string),
        state,
        reason,
        message,
    }
}

/// Notes about held copies and objects, with both remedies.
pub(crate) fn held(survey: &Survey, rows: &[CopyStatus]) -> Vec<String> {
    let held = rows.iter().filter(|row| row.planned == ProblemReason::Held.into());
    let of: Vec<&NamespacedName> = held.filter_map(|row| row.rule.as_ref()).collect();
    let (templates, rules): (Vec<_>, Vec<_>) = of.into_iter().partition(|rule| rule.template().is_some());
    let note = |(rules, what, (one, more)): (Vec<&NamespacedName>, &str, (&str, &str))| {
        let definition = survey.world.definition_of(rules.first()?)?;
        let are = match rules.len() {
            1 => format!("1 {one} is"),
            number => format!("{number} {more} are"),
        };
        Some(format!(
            "{are} held: the definition of {what} was made anew at {}, and their {what} have not been there since; put the {what} back, or \
             have a user who may override copies let all of them go: {}",
            write_time(definition.created),
            let_go(served(&survey.world), &places(&survey.world), None, &definition.uid)
        ))
    };
    let each = [(rules, "rules", ("copy", "copies")), (templates, "templates", ("object", "objects"))];
    each.into_iter().filter_map(note).collect()
}

/// A table for people, with a line for each copy; current copies only with `with_current`.
pub(crate) fn table(rows: &[CopyStatus], with_current: bool) -> String {
    let shown: Vec<&CopyStatus> =
        rows.iter().filter(|row| with_current || row.state != State::Current).collect();
    if shown.is_empty() {
        return String::new();
    }
    let header = ["STATE", "COPY", "RULE", "SOURCE", "REASON", "MESSAGE"].map(str::to_owned);
    let cells = shown.iter().map(|row| {
        [
            format!("{:?}", row.state),
            format!("{} {}/{}", row.kind, row.namespace, row.name),
            row.rule.as_ref().map_or_else(|| "-".to_owned(), ToString::to_string),
            row.source.clone().unwrap_or_else(|| "-".to_owned()),
            row.reason.clone(),
            row.message.clone(),
        ]
    });
    let lines: Vec<[String; 6]> = std::iter::once(header).chain(cells).collect();
    format!("\n{}\n", aligned(&lines).join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(state: State, namespace: &str, reason: &str, message: &str) -> CopyStatus {
        CopyStatus {
            rule: Some(NamespacedName::new("platform", "registry")),
            planned: Reason::InOrder,
            kind: "Secret".into(),
            namespace: namespace.into(),
            name: "registry".into(),
            source: Some("platform/registry".into()),
            state,
            reason: reason.into(),
            message: message.into(),
        }
    }

    #[test]
    fn what_is_in_order_is_left_out_unless_asked_for() {
        let rows = [
            row(State::Blocked, "shop", "Conflict", "an object is in the way"),
            row(State::Current, "web", "InOrder", ""),
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
