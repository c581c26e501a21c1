//! Why a namespace has no copies of a rule: the first reason, from the planner's decisions.

use super::{copy_row::CopyRow, copy_state::CopyState};
use crate::{
    marks::COPIES,
    model::World,
    names::Declarer,
    plan::{
        Reason,
        copy::{
            ProblemReason,
            claims::sources_of,
            demand::too_many_said,
            inert::unseen_source,
            targets::{Declines, declines, is_excluded, is_named, lacking},
            too_many,
        },
    },
};

/// The copies of a rule in a namespace, or why some copies are missing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Brings {
    /// The namespace has this many copies, all in order.
    Copies(usize),
    /// Some copies are missing or not in order, for this reason.
    Lacks {
        /// The word for the reason.
        reason: Reason,
        /// The reason in a sentence, with the fix.
        message: String,
    },
}

/// Returns the copies of a rule in a namespace, or why some copies are missing; `outlooks` are the outlooks
/// of all slots.
pub fn brings(world: &World, outlooks: &[CopyRow], rule: &Declarer, namespace: &str) -> Brings {
    let lacks = |reason: Reason, message: String| Brings::Lacks { reason, message };
    let Some(facts) = world.namespaces().get(namespace) else {
        if let Some((reason, message)) = world.unseen(namespace) {
            return lacks(reason.into(), message);
        }
        return lacks(Reason::NotFound, format!("namespace {namespace} does not exist"));
    };
    if let Some(why) = declines(world, namespace, facts) {
        let (reason, message) = declined(why);
        return lacks(reason, message);
    }
    let Some(known) = world.rules().get(rule) else {
        if let Some((reason, message)) = world.unseen(rule.namespace()) {
            return lacks(reason.into(), message);
        }
        return lacks(Reason::NotFound, format!("rule {rule} does not exist"));
    };
    let compiled = match &known.compiled {
        Ok(compiled) => compiled,
        Err(problems) => {
            let said: Vec<&str> = problems.iter().map(|problem| problem.message.as_str()).collect();
            return lacks(Reason::Invalid, said.join("; "));
        }
    };
    if is_excluded(compiled, namespace) {
        return lacks(Reason::Excluded, "excludeTargets names it".into());
    }
    if !is_named(compiled, namespace, facts) {
        return lacks(Reason::NotATarget, lacking(compiled, namespace, facts).join("; "));
    }
    if let Some((reason, message)) =
        unseen_source(world, rule, compiled).and_then(|namespace| world.unseen(namespace))
    {
        return lacks(reason.into(), format!("namespace of the sources: {message}"));
    }
    let mut sources = sources_of(world, rule, compiled).peekable();
    if sources.peek().is_none() {
        return lacks(Reason::NoSource, format!("the rule selects no existing {} as source", compiled.kind));
    }
    if sources.all(|(source, _)| &*source.namespace == namespace) {
        return lacks(
            Reason::SourceNamespace,
            "the rule's sources are in this namespace, and Copyrator never copies a source into its own namespace".into(),
        );
    }
    let here =
        |outlook: &&CopyRow| outlook.rule.as_ref() == Some(rule) && &*outlook.slot.namespace == namespace;
    let mut here: Vec<&CopyRow> = outlooks.iter().filter(here).collect();
    here.sort_by_key(|row| row.state);
    match here.first() {
        None if let Some(copies) = too_many(world, rule, compiled) => {
            lacks(ProblemReason::TooMany.into(), too_many_said(world, copies))
        }
        None => lacks(Reason::Unread, "Copyrator could not read an object that this decision needs".into()),
        Some(worst) if worst.state == CopyState::Current => Brings::Copies(here.len()),
        Some(worst) => {
            let message = match (worst.state, worst.message.as_str()) {
                (CopyState::Missing | CopyState::Outdated, "") => {
                    "Copyrator writes it soon; if it does not, run copyrator doctor".to_owned()
                }
                (_, message) => message.to_owned(),
            };
            let message = format!("{}: {message}", worst.slot).trim_end_matches([':', ' ']).to_owned();
            lacks(worst.reason, message)
        }
    }
}

fn declined(why: Declines) -> (Reason, String) {
    match why {
        Declines::Terminating => (ProblemReason::Terminating.into(), "the namespace is being deleted".into()),
        Declines::Ours => (Reason::OwnNamespace, "Copyrator does not copy to its own namespace".into()),
        Declines::System => {
            let message = "Copyrator does not copy to system namespaces, even if a rule names them (--system-namespaces)";
            (Reason::SystemNamespace, message.into())
        }
        Declines::Refuses => (Reason::Refuses, format!("the namespace has the label {COPIES}: refuse")),
    }
}
