//! Why a namespace has no copies of a rule: the first reason there is, from the decisions that the planner
//! makes itself. Decides nothing.
//!
//! Reasons beside those of copies ([`super::outlook`]): of the namespace `NotFound`, `NotServed`,
//! `OutOfSight`, `Terminating`, `OwnNamespace`, `SystemNamespace`, `Refuses`; of the rule `Invalid`,
//! `Excluded`, `NotATarget`, `NoSource`, `SourceNamespace`, `TooMany`.

use super::outlook::{Course, Outlook};
use crate::{
    marks::COPIES,
    model::World,
    names::NamespacedName,
    plan::copy::{
        claims::{sources_of, unseen_source},
        demand::too_many_said,
        targets::{Declines, declines, is_excluded, is_named, lacking},
        too_many,
    },
};

/// What a rule brings into a namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Brings {
    /// This many copies, all in order.
    Copies(usize),
    /// Less than that, for this reason.
    Lacks {
        /// The reason in one word, such as `Excluded`.
        reason: String,
        /// Why, and what to do about it.
        message: String,
    },
}

/// What a rule brings into a namespace, or why not; `outlooks` are those of all slots.
pub fn brings(world: &World, outlooks: &[Outlook], rule: &NamespacedName, namespace: &str) -> Brings {
    let lacks = |reason: &str, message: String| Brings::Lacks { reason: reason.to_owned(), message };
    let Some(facts) = world.namespaces().get(namespace) else {
        if let Some((reason, message)) = world.unseen(namespace) {
            return lacks(reason.as_str(), message);
        }
        return lacks("NotFound", format!("namespace {namespace} does not exist"));
    };
    if let Some(why) = declines(world, namespace, facts) {
        let (reason, message) = declined(why);
        return lacks(reason, message);
    }
    let Some(known) = world.rules().get(rule) else {
        if let Some((reason, message)) = world.unseen(&rule.namespace) {
            return lacks(reason.as_str(), message);
        }
        return lacks("NotFound", format!("rule {rule} does not exist"));
    };
    let compiled = match &known.compiled {
        Ok(compiled) => compiled,
        Err(problems) => {
            let said: Vec<&str> = problems.iter().map(|problem| problem.message.as_str()).collect();
            return lacks("Invalid", said.join("; "));
        }
    };
    if is_excluded(compiled, namespace) {
        return lacks("Excluded", "excludeTargets names it".into());
    }
    if !is_named(compiled, namespace, facts) {
        return lacks("NotATarget", lacking(compiled, namespace, facts).join("; "));
    }
    if let Some((reason, message)) =
        unseen_source(world, rule, compiled).and_then(|namespace| world.unseen(namespace))
    {
        return lacks(reason.as_str(), format!("a namespace of its sources: {message}"));
    }
    let mut sources = sources_of(world, rule, compiled).peekable();
    if sources.peek().is_none() {
        return lacks("NoSource", format!("no {} that is there is one of its sources", compiled.kind));
    }
    if sources.all(|(source, _)| &*source.namespace == namespace) {
        return lacks(
            "SourceNamespace",
            "its sources are in this very namespace, and are not copied there".into(),
        );
    }
    let here =
        |outlook: &&Outlook| outlook.rule.as_ref() == Some(rule) && &*outlook.slot.namespace == namespace;
    let mut here: Vec<&Outlook> = outlooks.iter().filter(here).collect();
    here.sort_by_key(|outlook| outlook.course);
    match here.first() {
        None if let Some(copies) = too_many(world, rule, compiled) => {
            lacks("TooMany", too_many_said(world, copies))
        }
        None => lacks("Unread", "what the decision depends on could not be read".into()),
        Some(worst) if worst.course == Course::Current => Brings::Copies(here.len()),
        Some(worst) => {
            let message = match (worst.course, worst.message.as_str()) {
                (Course::Create | Course::Change, "") => {
                    "it is due; if it stays so, nobody reconciles: copyrator doctor".to_owned()
                }
                (_, message) => message.to_owned(),
            };
            let message = format!("{}: {message}", worst.slot).trim_end_matches([':', ' ']).to_owned();
            lacks(&worst.reason, message)
        }
    }
}

fn declined(why: Declines) -> (&'static str, String) {
    match why {
        Declines::Terminating => ("Terminating", "the namespace is being deleted".into()),
        Declines::Ours => {
            ("OwnNamespace", "Copyrator's own objects live in it, and it takes no copies".into())
        }
        Declines::System => {
            let message = "system namespaces take no copies, even if named (--system-namespaces)";
            ("SystemNamespace", message.into())
        }
        Declines::Refuses => ("Refuses", format!("its label {COPIES}: refuse says so")),
    }
}
