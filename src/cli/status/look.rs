//! Everything that a status shows, read once.

use kube::Client;

use crate::{
    cli::{
        operator::{Installed, Sight},
        standing::{
            ReadError, Standing,
            copies::{self, CopyStanding, State},
            of_annotations, read, read_rules,
            restarts::{self, RestartRow},
            sort,
        },
        survey::{Look, Selected, survey},
        terminal::{Exit, with_causes},
    },
    explain::RestartState,
    names::NamespacedName,
};

/// Everything that was seen.
pub(super) struct Looked {
    /// Every object of ours, the worst first.
    pub rows: Vec<Standing>,
    /// Every copy, likewise.
    pub copies: Vec<CopyStanding>,
    /// Every workload, likewise.
    pub workloads: Vec<RestartRow>,
    /// What a reader of the rest should know.
    pub notes: Vec<String>,
    /// Why copies and workloads are not shown one by one now, and may be in a moment.
    unseen: Option<String>,
    /// A namespace that Copyrator looks at may not be seen.
    is_partial: bool,
}

impl Looked {
    /// Something is not as declared, or may not be read.
    pub(super) fn is_worrying(&self) -> bool {
        self.is_partial
            || self.rows.iter().any(Standing::is_worrying)
            || self.workloads.iter().any(RestartRow::is_worrying)
    }

    /// What is not as declared, or under way, in words, the worst first: a command that waits waits for
    /// these.
    pub(super) fn unsettled(&self) -> Vec<String> {
        // Nothing more is said of an object whose copies and workloads are named one by one, unless it speaks
        // of itself.
        let rows = self.rows.iter().filter(|row| row.is_unsettled()).map(Standing::in_short);
        // What becomes of a copy whose rule is out of sight is not known in a moment either.
        let is_awaited = |copy: &&CopyStanding| copy.state == State::Unknown && copy.reason != "OutOfSight";
        let copies = self.copies.iter().filter(|copy| copy.is_worrying() || is_awaited(copy));
        let workloads = self.workloads.iter().filter(|row| {
            let is_under_way = matches!(
                row.state,
                RestartState::Waiting
                    | RestartState::Restarting
                    | RestartState::Unrecorded
                    | RestartState::Unknown
            );
            is_under_way || row.is_worrying()
        });
        let copies = copies.map(|copy| {
            format!(
                "{} {}/{}: {:?}, {}",
                copy.kind,
                copy.namespace,
                copy.name,
                copy.state,
                said(&copy.reason, &copy.message)
            )
        });
        let workloads = workloads
            .map(|row| format!("{}: {:?}, {}", row.place(), row.state, said(&row.reason, &row.message)));
        self.unseen.iter().cloned().chain(rows).chain(copies).chain(workloads).collect()
    }
}

fn said(reason: &str, message: &str) -> String {
    if message.is_empty() { reason.to_owned() } else { format!("{reason}: {message}") }
}

/// Every object of ours, every copy and every workload; a caller who may not see them one by one is told what
/// the statuses say.
pub(super) async fn look(
    client: &Client,
    (installed, sight): (&Installed, &Sight),
    namespace: Option<&str>,
    (labels, selected): (Option<&str>, Option<Selected>),
) -> Result<Looked, ReadError> {
    let (mut rows, is_lacking) = read(client, sight, namespace, labels).await?;
    let seen = match survey(client, (installed, sight), Look::AsItIs(namespace)).await {
        Ok(seen) => seen.only(selected).about(namespace),
        Err(error) => {
            let why = format!("copies and workloads are not shown one by one: {}", with_causes(&error));
            sort(&mut rows);
            let (copies, workloads) = (Vec::new(), Vec::new());
            // A refusal stays a refusal: a command that waits then waits for what the statuses say.
            let unseen = (error.exit() == Exit::Unreachable).then(|| why.clone());
            let notes = vec![why];
            return Ok(Looked { rows, copies, workloads, notes, unseen, is_partial: is_lacking });
        }
    };
    let copies = copies::standings(&seen, namespace);
    let is_told = |rule: &NamespacedName| {
        seen.selects_rule(rule)
            && (namespace.is_none_or(|here| *rule.namespace == *here)
                || copies.iter().any(|copy| copy.rule.as_ref() == Some(rule)))
    };
    rows.extend(of_annotations(&seen, is_told));
    if let Some(here) = namespace {
        let reaches = |namespace: &str, name: &str| {
            let is_it = |it: &NamespacedName| *it.namespace == *namespace && *it.name == *name;
            namespace != here && copies.iter().filter_map(|copy| copy.rule.as_ref()).any(is_it)
        };
        rows.extend(read_rules(client, sight, labels, reaches).await?);
    }
    let workloads = restarts::rows(&seen, namespace);
    // What may not be seen one by one is not said to be absent.
    for row in rows.iter_mut().filter(|row| seen.world.sees(row.namespace())) {
        row.give(&copies);
        row.give_workloads(workloads.as_deref());
    }
    sort(&mut rows);
    let (workloads, is_partial) = (workloads.unwrap_or_default(), seen.is_partial);
    let notes = seen.notes.iter().cloned().chain(copies::held(&seen, &copies)).collect();
    Ok(Looked { rows, copies, workloads, notes, unseen: None, is_partial })
}
