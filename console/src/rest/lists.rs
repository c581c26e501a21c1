//! Lists of the API: rules, templates, monitors, policies, copies, restarts and violations, one row each, in
//! pages.

use std::collections::BTreeSet;

use copyrator_cli::{
    commands::status::rows_of,
    states::{ObjectRow, ReadError, copies::standings, existing_violations, read, restarts::rows},
};
use schemars::JsonSchema;
use serde::Serialize;

use super::Call;
use crate::{
    api::ExistingViolation,
    explain::{CopyRow, RestartOutlook},
    names::{Declarer, ObjectKey},
    paged::{Page, page},
    problem::Problem,
    scoped_survey::{RequestedSurveys, ScopedSurvey, requested_surveys},
    seat::Seat,
};

/// A violation by an existing object.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(rename = "Violation")]
pub(crate) struct ViolationLine {
    /// The policy whose status has it.
    pub policy: String,
    #[serde(flatten)]
    pub found: ExistingViolation,
}

/// Lists objects of one of our kinds, as `copyrator status -o json` does.
pub(crate) async fn statuses(call: Call, kind: &'static str) -> Result<Page<ObjectRow>, Problem> {
    let RequestedSurveys { surveys, notes } = requested_surveys(&call.seat, &call.asked).await?;
    let mut all = Vec::new();
    for ScopedSurvey { namespace, survey, read_scope } in &surveys {
        let (namespace, client) = (namespace.as_deref(), &call.seat.client);
        let (rows, _) = read(client, read_scope, namespace, None).await.map_err(unread)?;
        let seen = rows_of(client, read_scope, namespace, None, rows, survey).await.map_err(unread)?;
        all.extend(seen.items());
    }
    let asked = &call.asked;
    let is_here =
        |row: &ObjectRow| asked.namespace.as_ref().is_none_or(|namespace| row.namespace() == *namespace);
    // An annotated source is listed as a rule.
    all.retain(|row| {
        (row.kind_and_name().0 == kind || (kind == "CopyratorRule" && row.is_annotated())) && is_here(row)
    });
    let key = |row: &ObjectRow| {
        let (kind, name) = row.kind_and_name();
        vec![row.rank().to_owned(), row.namespace().to_owned(), name.to_owned(), kind.to_owned()]
    };
    page(all, key, asked, notes)
}

/// Lists copies, one row each.
pub(crate) async fn copies(call: Call) -> Result<Page<CopyRow>, Problem> {
    let requested = requested_surveys(&call.seat, &call.asked).await?;
    let asked = &call.asked;
    let text = |rule: &Option<Declarer>| rule.as_ref().map(ToString::to_string);
    let mut rows = copy_rows(&requested);
    rows.retain(|row| {
        asked.namespace.as_ref().is_none_or(|namespace| *row.slot.namespace == **namespace)
            && asked.rule.as_ref().is_none_or(|rule| text(&row.rule).as_ref() == Some(rule))
            && is_asked(asked.state.as_deref(), row.state.as_str())
    });
    let key = |row: &CopyRow| {
        let ObjectKey { kind, namespace, name } = &row.slot;
        let place = [namespace.to_string(), name.to_string(), kind.to_string()];
        let state = std::iter::once(format!("{:02}", row.state as u8));
        state.chain(place).chain([text(&row.rule).unwrap_or_default()]).collect()
    };
    page(rows, key, asked, requested.notes)
}

/// Every copy that the caller may see, once: a copy is in the surveys of two namespaces, that of its rule and
/// its own.
pub(crate) fn copy_rows(requested: &RequestedSurveys) -> Vec<CopyRow> {
    let of = |scoped: &ScopedSurvey| standings(&scoped.survey, scoped.namespace.as_deref());
    let mut seen = BTreeSet::new();
    let is_new = |copy: &CopyRow| seen.insert((copy.slot.clone(), copy.rule.clone()));
    requested.surveys.iter().flat_map(of).filter(is_new).collect()
}

/// Lists workloads, one row each.
pub(crate) async fn restarts(call: Call) -> Result<Page<RestartOutlook>, Problem> {
    let requested = requested_surveys(&call.seat, &call.asked).await?;
    let asked = &call.asked;
    let mut lines = restart_lines(&requested);
    lines.retain(|row| {
        asked.namespace.as_ref().is_none_or(|namespace| row.of.namespace() == &**namespace)
            && is_asked(asked.state.as_deref(), &row.state.to_string())
    });
    let key = |row: &RestartOutlook| {
        let of = [row.of.namespace(), row.of.kind(), &row.of.name()].map(str::to_owned);
        std::iter::once(format!("{:02}", row.state.rank())).chain(of).collect()
    };
    page(lines, key, asked, requested.notes)
}

/// Every workload that the caller may see.
pub(crate) fn restart_lines(requested: &RequestedSurveys) -> Vec<RestartOutlook> {
    let of = |scoped: &ScopedSurvey| rows(&scoped.survey, scoped.namespace.as_deref()).unwrap_or_default();
    requested.surveys.iter().flat_map(of).collect()
}

/// Lists violations, one row each. Policies are cluster-scoped, so the caller needs a cluster-wide right to
/// list them.
pub(crate) async fn violations(call: Call) -> Result<Page<ViolationLine>, Problem> {
    let asked = &call.asked;
    let mut lines = violation_lines(&call.seat).await?;
    let named = if asked.namespaces.is_empty() { &call.seat.named } else { &asked.namespaces };
    lines.retain(|line| {
        let namespace = &line.found.namespace;
        (named.is_empty() || named.iter().any(|named| **named == **namespace))
            && asked.namespace.as_ref().is_none_or(|only| namespace == only)
            && asked.policy.as_ref().is_none_or(|policy| line.policy == *policy)
    });
    let key = |line: &ViolationLine| {
        let ExistingViolation { kind, namespace, name, rule, key, .. } = &line.found;
        let place = [namespace.clone(), format!("{kind:?}"), name.clone(), line.policy.clone()];
        place.into_iter().chain([rule.clone(), key.clone().unwrap_or_default()]).collect()
    };
    page(lines, key, asked, Vec::new())
}

/// Every violation in the statuses of policies.
pub(crate) async fn violation_lines(seat: &Seat) -> Result<Vec<ViolationLine>, Problem> {
    let found = existing_violations(&seat.client).await.map_err(unread)?;
    Ok(found.into_iter().map(|(policy, found)| ViolationLine { policy, found }).collect())
}

/// Whether a row has the requested state.
fn is_asked(asked: Option<&str>, state: &str) -> bool {
    asked.is_none_or(|asked| asked.eq_ignore_ascii_case(state))
}

/// The problem of a list of our kinds that could not be read.
pub(crate) fn unread(error: ReadError) -> Problem {
    match &error {
        ReadError::Refused { .. } => Problem::new(http::StatusCode::FORBIDDEN, error.to_string()),
        ReadError::Unreachable(_) => Problem::of(&error),
    }
}
