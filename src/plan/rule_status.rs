//! A rule's status, from what is known.
//!
//! Reasons of `Ready`: `Invalid`, `UnsupportedField` (a newer version wrote it), `Suspended`, `IdentityRequired`, `Forbidden`,
//! `AuthorityUnknown`, `Copying`, `AllCopied`, `Incomplete`, `NoSource`, `NoTarget`; where not all namespaces are looked at
//! `NotServed`, `OutOfSight`. Reasons of problems: `Conflict`, `OtherRule`, `DuplicateName`, `Contested`, `Forbidden`, `TooLarge`, `Refused`,
//! `Failed`, `Invalid`, `NotServed`, `OutOfSight`.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

use super::{
    Need,
    alike::Alike,
    claims::{Claim, Inert, authority, claims_on, inert, slots_of, sources_of, unseen_source},
    copies::{SlotState, plan_claimed, problem},
    spread::is_large,
    targets::{can_grow, unseen, within},
};
use crate::{
    api::{CopyratorRuleStatus, Problem, WORST_PROBLEMS, set_condition, speaks_of},
    model::{NamespacedName, ObjectKey, RuleFacts, World},
    validate::quarantine_reason,
};

/// A rule's copies in numbers. A rule that writes nothing at present (invalid, suspended, not allowed to) has none: its
/// status says why, and nobody is to be woken because its copies do not come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Copies that should exist.
    pub desired: usize,
    /// Copies of them in order.
    pub current: usize,
    /// Copies that a foreign object, another rule, another source or another writer is in the way of.
    pub conflicting: usize,
    /// Copies that were refused, or could not be written.
    pub failed: usize,
}

/// What a rule's status should say.
pub fn rule_status(world: &World, rule: &NamespacedName, now: Timestamp) -> Option<CopyratorRuleStatus> {
    rule_report(world, rule, now).map(|(status, _)| status)
}

/// What a rule's status should say, and its copies in numbers; `None` where the rule is gone, or where it has a status
/// and something has to be asked or read again before there is anything to add: after a start of ours nothing has changed
/// for anybody. Whoever asks and reads has the status looked at afterwards.
pub fn rule_report(
    world: &World,
    rule: &NamespacedName,
    now: Timestamp,
) -> Option<(CopyratorRuleStatus, Tally)> {
    let facts = world.rules.get(rule)?;
    let conditions = facts.status.as_ref().map_or(&[][..], |status| &status.conditions);
    let unseen_source = facts.compiled.as_ref().ok().and_then(|it| unseen_source(world, rule, it));
    if facts.compiled.is_ok()
        && unseen_source.is_none()
        && authority(world, rule, facts).is_none()
        && speaks_of(conditions, "Authorized", facts.generation)
    {
        return None;
    }
    let mut count = Count::default();
    // Who may not do what a rule declares is not told what it would come upon either.
    let may = authority(world, rule, facts).is_some_and(|authority| authority.answer.is_ok());
    if let (Ok(compiled), true, None) = (&facts.compiled, may, unseen_source) {
        count.problems.extend(unseen(world, compiled).into_iter().filter_map(|name| not_seen(world, name)));
        for (source, _) in sources_of(world, rule, compiled) {
            count.sources += 1;
            let print = world.fingerprint(source);
            count.large.extend(print.and_then(|print| is_large(world, compiled, source, print)));
        }
        let mut alike = Alike::default();
        for slot in slots_of(world, rule) {
            count.desired += 1;
            let claims = claims_on(world, &slot);
            let plan = plan_claimed(world, &slot, &claims, &mut alike, now);
            if let Some(why) = plan.needs.iter().find_map(|need| unread(world, need)) {
                count.problems.push(problem(&slot, "Failed", why));
                count.hindered += 1;
                continue;
            }
            if !plan.needs.is_empty() && speaks_of(conditions, "Ready", facts.generation) {
                return None;
            }
            if plan.rule.as_ref() != Some(rule) {
                count.problems.push(served_by_another(&slot, plan.rule.as_ref()));
                count.hindered += 1;
                continue;
            }
            match plan.state {
                SlotState::Current => count.current += 1,
                SlotState::Braked(until) => {
                    count.braked += 1;
                    count.until = count.until.max(Some(until));
                }
                SlotState::Blocked(problem) => {
                    count.problems.push(problem);
                    count.hindered += 1;
                }
                _ => {}
            }
            for claim in claims.iter().filter(|claim| claim.rule == rule) {
                count.problems.extend(claim.duplicates.iter().map(|other| duplicate(&slot, claim, other)));
            }
        }
    }
    let copies = world.copies_of_rule(rule).filter_map(|slot| world.object(slot));
    let marked = copies.filter(|copy| copy.marks.as_ref().is_some_and(|marks| marks.remove_after.is_some()));
    count.leaving = marked.count();
    let tally = count.tally(inert(world, rule, facts).is_some());
    Some((status(world, rule, facts, count, now), tally))
}

/// A namespace that a rule means, and that is not seen.
fn not_seen(world: &World, namespace: &str) -> Option<Problem> {
    let (reason, message) = world.unseen(namespace)?;
    Some(Problem { namespace: namespace.to_owned(), reason: reason.into(), message, ..Problem::default() })
}

/// Why what is needed could not be read the last time, if it could not.
fn unread<'w>(world: &'w World, need: &Need) -> Option<&'w String> {
    match need {
        Need::Fingerprint(key) => world.unread.get(key),
        Need::Pods(_) | Need::SelectedPods(_) => None,
    }
}

/// Begins what `Ready` says of a source that is large for so many targets.
const LARGE: &str = "; large: ";

/// What a status says of a source that is large for so many targets.
pub fn large_spread(status: &CopyratorRuleStatus) -> Option<&str> {
    large_spread_of(&status.conditions)
}

/// The same, from the conditions alone.
pub(super) fn large_spread_of(conditions: &[Condition]) -> Option<&str> {
    let ready = conditions.iter().find(|one| one.type_ == "Ready")?;
    ready.message.split_once(LARGE).map(|(_, large)| large)
}

#[derive(Default)]
struct Count {
    sources: usize,
    desired: usize,
    current: usize,
    /// Slots that something else is in the way of.
    hindered: usize,
    /// Copies whose source keeps changing.
    braked: usize,
    /// When the last of those is written.
    until: Option<Timestamp>,
    /// Sources that are large for so many targets.
    large: Vec<String>,
    /// Copies that nobody wants any more, until their grace is over.
    leaving: usize,
    problems: Vec<Problem>,
}

impl Count {
    fn tally(&self, is_inert: bool) -> Tally {
        if is_inert {
            return Tally::default();
        }
        let is_conflict =
            |one: &&Problem| ["Conflict", "OtherRule", "DuplicateName", "Contested"].contains(&&*one.reason);
        let conflicting = self.problems.iter().filter(is_conflict).count();
        let failed = self.problems.len() - conflicting;
        Tally { desired: self.desired, current: self.current, conflicting, failed }
    }
}

fn status(
    world: &World,
    rule: &NamespacedName,
    facts: &RuleFacts,
    count: Count,
    now: Timestamp,
) -> CopyratorRuleStatus {
    let mut status = facts.status.clone().unwrap_or_default();
    let (generation, now) = (facts.generation, Time(now));
    let authority = authority(world, rule, facts);
    let mut problems = count.problems;
    if let Err(found) = &facts.compiled {
        problems.splice(0..0, found.iter().cloned());
    }
    status.observed_generation = Some(generation);
    status.identity = authority.map(|authority| authority.identity.clone());
    status.sources = count.sources as i64;
    status.desired = count.desired as i64;
    status.current = count.current as i64;
    status.leaving = count.leaving as i64;
    status.problem_count = problems.len() as i64;
    let degraded = (!problems.is_empty() && facts.compiled.is_ok()).then(|| {
        (
            true,
            problems[0].reason.clone(),
            match problems.len() {
                1 => problems[0].message.clone(),
                number => format!("{number} problems, the first: {}", problems[0].message),
            },
        )
    });
    problems.truncate(WORST_PROBLEMS);
    status.problems = problems;

    let pending = count.desired - count.current - count.hindered;
    let copying = || being_written(pending - count.braked, count.braked, count.until);
    let authorized = authority.map(|authority| match &authority.answer {
        Ok(()) => (true, "Allowed", format!("{} may do what this rule declares", authority.identity)),
        Err((reason, message)) => (false, reason.as_str(), message.clone()),
    });
    let stopped = inert(world, rule, facts);
    let ready = match (stopped, &authorized) {
        (Some(Inert::Quarantined), _) => {
            let message = status.problems.first().map(|problem| problem.message.clone());
            (false, quarantine_reason(&status.problems), message.unwrap_or_default())
        }
        (Some(Inert::Suspended), _) => {
            (true, "Suspended", "spec.suspend is true: nothing is written or removed".into())
        }
        (Some(Inert::Unseen), _) => {
            let compiled = facts.compiled.as_ref().ok();
            let source = compiled.and_then(|it| world.unseen(unseen_source(world, rule, it)?));
            let (reason, message) = source.unwrap_or(("OutOfSight", String::new()));
            (false, reason, format!("a namespace of its sources: {message}"))
        }
        (Some(Inert::Unauthorized), Some((_, reason, message))) => (false, *reason, message.clone()),
        (Some(Inert::Unauthorized), None) => {
            (false, "AuthorityUnknown", "the API server has not been asked yet".into())
        }
        (None, _) if pending > 0 => (true, "Copying", copying()),
        (None, _) => settled(facts, &status),
    };
    let grows = facts.compiled.as_ref().is_ok_and(|compiled| can_grow(compiled));
    let ready = match world.places.as_ref().filter(|_| stopped.is_none() && grows) {
        Some(places) => (ready.0, ready.1, format!("{}; looks at {} only", ready.2, places.said())),
        None => ready,
    };
    let ready = match count.large.first().filter(|_| stopped.is_none()) {
        Some(large) => (ready.0, ready.1, format!("{}{LARGE}{large}", ready.2)),
        None => ready,
    };
    let is_stalled = matches!(stopped, Some(Inert::Quarantined | Inert::Unseen))
        || matches!(authorized, Some((false, ..)));
    let stalled = is_stalled.then(|| (true, ready.1, ready.2.clone()));
    let reconciling = (stopped.is_none() && pending > 0).then(|| (true, "Copying", copying()));
    let conditions = &mut status.conditions;
    set_condition(conditions, "Ready", Some(ready), generation, &now);
    set_condition(conditions, "Authorized", authorized.clone(), generation, &now);
    set_condition(conditions, "Stalled", stalled, generation, &now);
    set_condition(conditions, "Reconciling", reconciling, generation, &now);
    let degraded = degraded.as_ref().map(|(on, reason, message)| (*on, reason.as_str(), message.clone()));
    set_condition(conditions, "Degraded", degraded, generation, &now);
    // A refusal takes nothing back: that the writer may impersonate an account stays settled, and what others have
    // claimed here proves nothing.
    if matches!(authorized, Some((true, ..))) {
        status.authorized_generation = Some(generation);
        let within = facts.compiled.as_ref().ok().and_then(|it| within(world, rule, it));
        status.authorized_proof = world.key.as_ref().map(|key| facts.grant(key, within.as_ref()));
    }
    status
}

/// A rule wants a copy where another rule's is.
pub(super) fn served_by_another(slot: &ObjectKey, other: Option<&NamespacedName>) -> Problem {
    let other = other.map_or_else(|| "nobody".to_owned(), ToString::to_string);
    let message = format!("rule {other} is served first here; exclude the namespace in one of the rules");
    problem(slot, "OtherRule", &message)
}

/// A rule would copy another object to the same slot, too.
pub(super) fn duplicate(slot: &ObjectKey, claim: &Claim<'_>, other: &ObjectKey) -> Problem {
    let message = format!(
        "{other} has the same name as {}, which wins: narrow spec.source, or tell them apart in copy.name by \
         {{namespace}}",
        claim.source
    );
    problem(slot, "DuplicateName", &message)
}

/// What is under way: copies that are written now, and copies that wait for their source to calm down.
fn being_written(copies: usize, braked: usize, until: Option<Timestamp>) -> String {
    let written = match copies {
        1 => "1 copy is being written".into(),
        number => format!("{number} copies are being written"),
    };
    let (Some(until), 1..) = (until, braked) else { return written };
    let until = until.round(jiff::Unit::Second).unwrap_or(until);
    let wait = match braked {
        1 => "1 copy waits".into(),
        number => format!("{number} copies wait"),
    };
    let wait = format!("{wait} until {until}, because the source keeps changing");
    if copies == 0 { wait } else { format!("{written}; {wait}") }
}

/// What there is to say where nothing is under way: `AllCopied` only where there is something and all of it is there.
fn settled(facts: &RuleFacts, status: &CopyratorRuleStatus) -> (bool, &'static str, String) {
    let (reason, mut message) = match (status.sources, status.desired) {
        (0, _) => ("NoSource", nothing_selected(facts)),
        (_, 0) => (
            "NoTarget",
            "spec.targets selects no namespace, or only the source's own, excluded ones, system namespaces and such \
             as refuse copies"
                .into(),
        ),
        (_, desired) => {
            let reason = if status.current == desired { "AllCopied" } else { "Incomplete" };
            (reason, format!("{} of {desired} copies are in order", status.current))
        }
    };
    match status.leaving {
        0 => {}
        1 => message.push_str("; 1 that nobody wants any more goes after its grace"),
        number => message.push_str(&format!("; {number} that nobody wants any more go after their grace")),
    }
    (true, reason, message)
}

fn nothing_selected(facts: &RuleFacts) -> String {
    let source = &facts.spec.source;
    let kind = source.kind;
    let names = source.names.as_ref().map(|names| format!(" named {}", names.join(", "))).unwrap_or_default();
    let labels = if source.object_selector.is_some() { " with the labels of its objectSelector" } else { "" };
    let places = match source.namespaces.as_slice() {
        [] => "the rule's own namespace".to_owned(),
        namespaces => format!("namespaces {}", namespaces.join(", ")),
    };
    format!("there is no {kind}{names}{labels} in {places} to be copied")
}
