//! The common parts of the statuses of rules and templates: numbers, problems, the proof of a grant, and
//! conditions.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::count::Count;
use crate::{
    api::{CopyratorRuleStatus, Problem, WORST_PROBLEMS, set_condition},
    authority::{BoundSpec, Bounds},
    digest::DigestKey,
    model::{Authority, Declared},
    plan::Reason,
};

/// Status, reason and message of a condition.
pub(super) type Said = (bool, Reason, String);

/// The conditions to put into a status.
pub(super) struct Conditions {
    pub(super) ready: Said,
    pub(super) authorized: Option<Said>,
    pub(super) is_stalled: bool,
    pub(super) reconciling: Option<Said>,
    /// Reason and message of `Degraded`; `None` without a problem.
    pub(super) degraded: Option<(String, String)>,
}

/// Returns the last seen status with these numbers and problems, and the reason and message of `Degraded`.
/// Errors in the spec (`refused`) come first: while the spec has errors, Copyrator writes no object.
/// `located` puts the place before a problem's message.
pub(super) fn begun<S, C>(
    facts: &Declared<S, C, CopyratorRuleStatus>,
    authority: Option<&Authority>,
    refused: &[Problem],
    count: &mut Count,
    located: impl Fn(&Problem) -> String,
) -> (CopyratorRuleStatus, Option<(String, String)>) {
    let mut status = facts.status.clone().unwrap_or_default();
    let mut problems = std::mem::take(&mut count.problems);
    problems.append(&mut count.alterations);
    let mut number = count.conflicting + count.failed + count.altered;
    problems.splice(0..0, refused.iter().cloned());
    number += refused.len();
    let first = problems.first().filter(|_| refused.is_empty());
    let degraded = first.map(|first| {
        let message = match (number, problems.len()) {
            (1, _) | (_, 1) => located(first),
            (number, _) => format!("{number} problems, the first: {}", located(first)),
        };
        (first.reason.clone(), message)
    });
    problems.truncate(WORST_PROBLEMS);
    status.observed_generation = Some(facts.generation);
    status.identity = authority.map(|authority| authority.identity.clone());
    status.sources = count.sources as i64;
    status.desired = count.desired as i64;
    status.current = count.current as i64;
    status.leaving = count.leaving as i64;
    status.problem_count = number as i64;
    status.problems = problems;
    (status, degraded)
}

/// Keeps the proof that this exact spec was allowed, and since when; makes a new proof if no valid one
/// exists. A refusal does not withdraw the rights that were proven: to write, and to let the writer
/// impersonate an account. Values that other writers put into the status prove nothing.
pub(super) fn grant<S: BoundSpec, C>(
    status: &mut CopyratorRuleStatus,
    facts: &Declared<S, C, CopyratorRuleStatus>,
    key: &DigestKey,
    bounds: &Bounds,
    asked: Timestamp,
) {
    status.authorized_generation = Some(facts.generation);
    if !facts.is_granted(key, bounds) {
        status.authorized_proof = Some(facts.grant(key, bounds));
        // The time has no fractions of a second, since the API server stores none: messages about the time
        // must be the same after the status is read back.
        status.authorized_time = Some(Time(Timestamp::from_second(asked.as_second()).unwrap_or(asked)));
    }
}

/// Returns the condition `Authorized` from the API server's answer about the identity; `allowed` gives the
/// message for an identity with the rights.
pub(super) fn authorized(
    authority: Option<&Authority>,
    allowed: impl FnOnce(&str) -> String,
) -> Option<Said> {
    Some(match &authority?.answer {
        Ok(()) => (true, Reason::Allowed, allowed(&authority?.identity)),
        Err(refusal) => (false, Reason::Refused(refusal.reason), refusal.message.clone()),
    })
}

/// Sets `Ready`, `Authorized`, `Stalled`, `Reconciling` and `Degraded`.
pub(super) fn set(status: &mut CopyratorRuleStatus, generation: i64, said: Conditions, now: Timestamp) {
    let Conditions { ready, authorized, is_stalled, reconciling, degraded } = said;
    let stalled = is_stalled.then(|| (true, ready.1, ready.2.clone()));
    let degraded = degraded.as_ref().map(|(reason, message)| (true, reason.as_str(), message.clone()));
    let word = |(is, reason, message): Said| (is, reason.as_str(), message);
    let (conditions, now) = (&mut status.conditions, Time(now));
    set_condition(conditions, "Ready", Some(word(ready)), generation, &now);
    set_condition(conditions, "Authorized", authorized.map(word), generation, &now);
    set_condition(conditions, "Stalled", stalled.map(word), generation, &now);
    set_condition(conditions, "Reconciling", reconciling.map(word), generation, &now);
    set_condition(conditions, "Degraded", degraded, generation, &now);
}

/// Sets `Ready` alone, to `False`.
pub(super) fn set_not_ready(
    status: &mut CopyratorRuleStatus,
    generation: i64,
    reason: Reason,
    message: String,
    now: Timestamp,
) {
    let ready = Some((false, reason.as_str(), message));
    set_condition(&mut status.conditions, "Ready", ready, generation, &Time(now));
}

/// The work under way: copies or objects (`nouns`, one and more) that are being written, and copies or
/// objects that wait until their sources stop changing.
pub(super) fn being_written(count: &Count, one: &str, more: &str) -> String {
    let (copies, braked, until) = (count.pending() - count.braked, count.braked, count.until);
    let written = match copies {
        1 => format!("Copyrator is writing 1 {one}"),
        number => format!("Copyrator is writing {number} {more}"),
    };
    let (Some(until), 1..) = (until, braked) else { return written };
    let until = until.round(jiff::Unit::Second).unwrap_or(until);
    let wait = match braked {
        1 => format!("1 {one} waits"),
        number => format!("{number} {more} wait"),
    };
    let wait = format!("{wait} until {until}, because the source keeps changing");
    if copies == 0 { wait } else { format!("{written}; {wait}") }
}
