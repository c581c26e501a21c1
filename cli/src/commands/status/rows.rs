//! Reads everything that a status shows, once.

use kube::Client;

use crate::{
    explain::{CopyRow, CopyState, RestartOutlook},
    installed::ReadScope,
    model::Unseen,
    names::Declarer,
    plan::restart::Concern,
    states::{ObjectRow, ReadError, copies, of_annotations, of_workloads, read, read_rules, restarts, sort},
    survey::{Selected, Survey, SurveyMode, SurveyTarget, survey},
    terminal::{Exit, with_distinct_causes},
};

/// Why nothing could be read, and the exit code of a command that does not try again.
pub(super) struct ReadFailure {
    pub(super) why: String,
    pub(super) exit: Exit,
}

impl ReadFailure {
    pub(super) fn new(error: &dyn std::error::Error, exit: Exit) -> Self {
        Self { why: with_distinct_causes(error), exit }
    }
}

/// Everything that a status shows.
pub struct Rows {
    /// Every object of ours, the worst first.
    pub rows: Vec<ObjectRow>,
    /// Every copy, the worst first.
    pub copies: Vec<CopyRow>,
    /// Every workload, the worst first.
    pub workloads: Vec<RestartOutlook>,
    /// Notes for the reader of the status.
    pub notes: Vec<String>,
    /// Why copies and workloads could not be read one by one; a further try may succeed.
    unseen: Option<String>,
    /// Whether the caller may not read a namespace that Copyrator reads.
    is_partial: bool,
}

impl Rows {
    /// Every object of ours for machines, the worst first, with workloads that have no monitor.
    pub fn items(mut self) -> Vec<ObjectRow> {
        self.rows.extend(of_workloads(&self.workloads));
        sort(&mut self.rows);
        self.rows
    }

    /// Whether something is not as declared, or may not be read.
    pub(super) fn is_worrying(&self) -> bool {
        self.is_partial
            || self.rows.iter().any(ObjectRow::is_worrying)
            || self.workloads.iter().any(RestartOutlook::is_worrying)
    }

    /// Everything that is not as declared yet, in words, the worst first: `--wait` waits until the list is
    /// empty.
    pub(super) fn unsettled(&self) -> Vec<String> {
        // An object whose copies and workloads are named one by one is left out, unless it has a problem of
        // its own.
        let rows = self.rows.iter().filter(|row| row.is_unsettled()).map(ObjectRow::in_short);
        // The state of a copy whose rule cannot be read stays unknown, so waiting for that state is useless.
        let is_awaited =
            |copy: &&CopyRow| copy.state == CopyState::Unknown && copy.reason != Unseen::OutOfSight.into();
        let copies = self.copies.iter().filter(|copy| copy.is_worrying() || is_awaited(copy));
        let workloads = self.workloads.iter().filter(|row| row.state.concern() != Concern::Settled);
        let copies = copies.map(|copy| {
            format!(
                "{}: {}, {}",
                copy.slot,
                copy.state,
                said(copy.reason.as_str(), &copy.message_with_time())
            )
        });
        let workloads = workloads
            .map(|row| format!("{}: {}, {}", row.of, row.state, said(row.reason.as_str(), &row.message)));
        self.unseen.iter().cloned().chain(rows).chain(copies).chain(workloads).collect()
    }
}

fn said(reason: &str, message: &str) -> String {
    if message.is_empty() { reason.to_owned() } else { format!("{reason}: {message}") }
}

/// Reads every object of ours, every copy and every workload. A caller who may not read copies and workloads
/// gets what the statuses report.
pub(super) async fn look(
    client: &Client,
    target: SurveyTarget<'_>,
    namespace: Option<&str>,
    labels: Option<&str>,
    selected: Option<Selected>,
) -> Result<Rows, ReadError> {
    let (mut rows, is_lacking) = read(client, target.read_scope, namespace, labels).await?;
    let seen = match survey(client, target, SurveyMode::Current(namespace)).await {
        Ok(seen) => seen.only(selected).about(namespace),
        Err(error) => {
            let why =
                format!("status does not list single copies and workloads: {}", with_distinct_causes(&error));
            sort(&mut rows);
            let (copies, workloads) = (Vec::new(), Vec::new());
            // A refusal is final, so a command that waits uses the statuses.
            let unseen = (error.exit() == Exit::Unreachable).then(|| why.clone());
            let notes = vec![why];
            return Ok(Rows { rows, copies, workloads, notes, unseen, is_partial: is_lacking });
        }
    };
    rows_of(client, target.read_scope, namespace, labels, rows, &seen).await
}

/// The rows from a survey that was made before, with the rows that the statuses give.
pub async fn rows_of(
    client: &Client,
    read_scope: &ReadScope,
    namespace: Option<&str>,
    labels: Option<&str>,
    mut rows: Vec<ObjectRow>,
    seen: &Survey,
) -> Result<Rows, ReadError> {
    let copies = copies::standings(seen, namespace);
    let is_told = |rule: &Declarer| {
        seen.selects_rule(rule)
            && (namespace.is_none_or(|here| **rule.namespace() == *here)
                || copies.iter().any(|copy| copy.rule.as_ref() == Some(rule)))
    };
    rows.extend(of_annotations(seen, is_told));
    if let Some(here) = namespace {
        let reaches = |namespace: &str, name: &str| {
            let rule = Some(Declarer::rule(namespace, name));
            namespace != here && copies.iter().any(|copy| copy.rule == rule)
        };
        rows.extend(read_rules(client, read_scope, labels, reaches).await?);
    }
    let workloads = restarts::rows(seen, namespace);
    // Copies that may not be read one by one are not reported as absent.
    for row in rows.iter_mut().filter(|row| seen.world.sees(row.namespace())) {
        row.give(&copies);
        row.give_workloads(workloads.as_deref());
    }
    sort(&mut rows);
    let (workloads, is_partial) = (workloads.unwrap_or_default(), seen.is_partial);
    let notes = seen.notes.iter().cloned().chain(copies::held(seen, &copies)).collect();
    Ok(Rows { rows, copies, workloads, notes, unseen: None, is_partial })
}
