//! A rule's status, from what is known.
//!
//! Reasons of `Ready`: `Invalid`, `UnsupportedField` (a newer version wrote it), `KindNotGranted`, `Suspended`,
//! `IdentityRequired`, `Forbidden` (its identity or our own account lacks a right), `TooManyQuestions`
//! (nobody asked whether its identity may), `AuthorityUnknown`, `Copying`, `AllCopied`, `Incomplete`,
//! `NoSource`, `NoTarget`; where not all namespaces are looked at `NotServed`, `OutOfSight`. Reasons of
//! problems: `Conflict`, `OtherRule`, `DuplicateName`, `Contested`, `Terminating`, `RefusedByPolicy`,
//! `Forbidden`, `TooLarge`, `TooMany`, `Refused`, `Failed`, `Invalid`, `NotServed`, `OutOfSight`.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

use super::{
    absent::{absent_sources, absent_targets, names_only, namespaces_absent, sources_not_found},
    claims::{
        Inert, KIND_NOT_GRANTED, authority, claims_on, inert, not_granted, slots_of, sources_of,
        unseen_source,
    },
    copies::{plan_claimed, plan_slot},
    copy_cache::CopyCache,
    demand::{too_many, too_many_said},
    problem::{CopyProblem, ProblemReason},
    slot_plan::SlotState,
    spread::{LargeSpread, is_large},
    targets::{bounds, can_grow, unseen},
};
use crate::{
    api::{CopyratorRuleStatus, Problem, WORST_PROBLEMS, set_condition, speaks_of},
    authority::NOT_ASKED,
    model::{Authority, RuleFacts, Unseen, World, WriteFault},
    names::{NamespacedName, ObjectKey},
    plan::Need,
    validate::quarantine_reason,
};

/// A rule's copies in numbers. A rule that writes nothing at present (invalid, suspended, not authorized) has
/// none: its status gives the reason, and missing copies of it should alert nobody.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// How many copies should exist.
    pub desired: usize,
    /// How many of them are as they should be.
    pub current: usize,
    /// How many are blocked by a foreign object, another rule, another source or another writer.
    pub conflicting: usize,
    /// How many were refused, or could not be written.
    pub failed: usize,
}

/// What there is to say of a rule.
#[derive(Clone, Debug, PartialEq)]
pub struct RuleReport {
    /// The status that the rule should have.
    pub status: CopyratorRuleStatus,
    /// Its copies in numbers.
    pub tally: Tally,
    /// The first of its sources that is large for so many targets.
    pub large: Option<LargeSpread>,
}

/// The status that a rule should have; `None` as in [`rule_report`].
pub fn rule_status(world: &World, rule: &NamespacedName, now: Timestamp) -> Option<CopyratorRuleStatus> {
    rule_report(world, rule, now).map(|report| report.status)
}

/// What there is to say of a rule. `None` where the rule is gone, or where it
/// has a status and something must be asked or read again first: after a restart of ours nothing has changed
/// for its users. The task that asks or reads plans the status again afterwards.
pub fn rule_report(world: &World, rule: &NamespacedName, now: Timestamp) -> Option<RuleReport> {
    let facts = world.rules().get(rule)?;
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
    // An author without the rights that a rule declares is not told either what the rule would find.
    let may = authority(world, rule, facts).is_some_and(|authority| authority.answer.is_ok());
    if let (Ok(compiled), true, None) = (&facts.compiled, may, unseen_source) {
        let too_many = too_many(world, rule, compiled);
        if let Some(copies) = too_many {
            let message = too_many_said(world, copies);
            count.add(ProblemReason::TooMany, Problem { message, ..Problem::default() });
        }
        for namespace in unseen(world, compiled) {
            if let Some((reason, message)) = world.unseen(namespace) {
                let problem = Problem { namespace: namespace.to_owned(), message, ..Problem::default() };
                count.add(ProblemReason::Unseen(reason), problem);
            }
        }
        count.absent_sources = absent_sources(world, rule, compiled);
        let absent = absent_targets(world, compiled);
        count.is_nowhere = names_only(compiled, &absent);
        count.absent_targets = namespaces_absent(&absent);
        for (source, _) in sources_of(world, rule, compiled) {
            count.sources += 1;
            let print = world.fingerprint(source);
            count.large = count.large.or_else(|| is_large(world, compiled, source, print?));
        }
        let mut alike = CopyCache::default();
        let slots = match too_many {
            Some(_) => world.copies_of_rule(rule).cloned().collect(),
            None => slots_of(world, rule),
        };
        for slot in world.copies_of_rule(rule).filter(|slot| !slots.contains(slot)) {
            let left = plan_slot(world, slot, now);
            if !left.needs.is_empty() && speaks_of(conditions, "Ready", facts.generation) {
                return None;
            }
            // A copy that an earlier spec has left, and that may not be deleted.
            if let (SlotState::Blocked(problem), true) = (left.state, left.rule.as_ref() == Some(rule)) {
                count.problems.push(problem.into());
            }
        }
        for slot in slots {
            count.desired += 1;
            let claims = claims_on(world, &slot);
            let plan = plan_claimed(world, &slot, &claims, &mut alike, now);
            if let Some((reason, why)) = plan.needs.iter().find_map(|need| unread(world, need)) {
                count.block(CopyProblem::fault(&slot, *reason, why));
                continue;
            }
            if !plan.needs.is_empty() && speaks_of(conditions, "Ready", facts.generation) {
                return None;
            }
            if plan.rule.as_ref() != Some(rule) {
                count.block(CopyProblem::served_by_another(&slot, plan.rule.as_ref()));
                continue;
            }
            count.state(plan.state);
            for claim in claims.iter().filter(|claim| claim.rule == rule) {
                for other in &claim.duplicates {
                    let problem = CopyProblem::duplicate(&slot, claim, other);
                    count.add(problem.reason, problem.into());
                }
            }
        }
        if let Some(copies) = too_many {
            // Nothing that is missing is being written.
            count.desired = copies.max(count.current);
            count.hindered = count.desired - count.current;
            count.braked = 0;
        }
    }
    let copies = world.copies_of_rule(rule).filter_map(|slot| world.object(slot));
    let marked = copies.filter(|copy| copy.marks.as_ref().is_some_and(|marks| marks.remove_after.is_some()));
    count.leaving = marked.count();
    let is_inert = inert(world, rule, facts).is_some();
    let large = count.large.take().filter(|_| !is_inert);
    let tally = count.tally(is_inert);
    Some(RuleReport { status: status(world, rule, facts, count, large.as_ref(), now), tally, large })
}

/// Why what is needed could not be read the last time, if it could not.
fn unread<'w>(world: &'w World, need: &Need) -> Option<&'w (WriteFault, String)> {
    match need {
        Need::Fingerprint(key) => world.memory().source(key).unread.as_ref(),
        Need::Pods(_) | Need::SelectedPods(_) | Need::Deletion(..) => None,
    }
}

/// Whether a status says that its rule would have too many copies.
pub fn says_too_many(status: &CopyratorRuleStatus) -> bool {
    let reason = ProblemReason::TooMany.as_str();
    let is_so = |one: &Condition| one.type_ == "Degraded" && one.status == "True" && one.reason == reason;
    status.conditions.iter().any(is_so)
}

#[derive(Default)]
pub(super) struct Count {
    pub(super) sources: usize,
    pub(super) desired: usize,
    pub(super) current: usize,
    /// Slots that a problem blocks.
    pub(super) hindered: usize,
    /// Those of them for which our own account lacks a right.
    pub(super) forbidden: usize,
    /// Copies whose source keeps changing.
    pub(super) braked: usize,
    /// When the last of those will be written.
    pub(super) until: Option<Timestamp>,
    /// The first source that is large for so many targets.
    large: Option<LargeSpread>,
    /// Orphaned copies that are still in their grace period.
    pub(super) leaving: usize,
    /// Literally named sources that do not exist.
    absent_sources: Vec<ObjectKey>,
    /// Which literally named target namespaces do not exist, in words.
    absent_targets: Option<String>,
    /// Whether the rule names no other targets.
    is_nowhere: bool,
    /// The first problems, up to the limit of a status.
    pub(super) problems: Vec<Problem>,
    /// How many problems are disputes over a slot.
    pub(super) conflicting: usize,
    /// How many problems are of another kind.
    pub(super) failed: usize,
}

impl Count {
    /// Counts a problem, and keeps it while there are few.
    pub(super) fn add(&mut self, reason: ProblemReason, problem: Problem) {
        match reason.is_conflict() {
            true => self.conflicting += 1,
            false => self.failed += 1,
        }
        if self.problems.len() < WORST_PROBLEMS {
            self.problems.push(Problem { reason: reason.as_str().into(), ..problem });
        }
    }

    /// Counts a slot that a problem blocks.
    pub(super) fn block(&mut self, problem: CopyProblem) {
        self.hindered += 1;
        self.forbidden += usize::from(problem.reason == ProblemReason::Fault(WriteFault::Forbidden));
        self.add(problem.reason, problem.into());
    }

    /// Counts how a slot stands.
    pub(super) fn state(&mut self, state: SlotState) {
        match state {
            SlotState::Current => self.current += 1,
            SlotState::Braked(until) => {
                self.braked += 1;
                self.until = self.until.max(Some(until));
            }
            SlotState::Blocked(problem) => self.block(problem),
            _ => {}
        }
    }

    /// Whether our own account lacks a right for every copy that should exist.
    pub(super) fn is_forbidden(&self) -> bool {
        self.desired > 0 && self.forbidden == self.desired
    }

    pub(super) fn tally(&self, is_inert: bool) -> Tally {
        if is_inert {
            return Tally::default();
        }
        let Self { desired, current, conflicting, failed, .. } = *self;
        Tally { desired, current, conflicting, failed }
    }
}

fn status(
    world: &World,
    rule: &NamespacedName,
    facts: &RuleFacts,
    count: Count,
    large: Option<&LargeSpread>,
    now: Timestamp,
) -> CopyratorRuleStatus {
    let mut status = facts.status.clone().unwrap_or_default();
    let (generation, now) = (facts.generation, Time(now));
    let authority = authority(world, rule, facts);
    let is_forbidden = count.is_forbidden();
    let (mut problems, mut problem_count) = (count.problems, count.conflicting + count.failed);
    if let Err(found) = &facts.compiled {
        problems.splice(0..0, found.iter().cloned());
        problem_count += found.len();
    }
    status.observed_generation = Some(generation);
    status.identity = authority.map(|authority| authority.identity.clone());
    status.sources = count.sources as i64;
    status.desired = count.desired as i64;
    status.current = count.current as i64;
    status.leaving = count.leaving as i64;
    status.problem_count = problem_count as i64;
    let first_problem = problems.first().map(|problem| problem.message.clone()).unwrap_or_default();
    let degraded = (!problems.is_empty() && facts.compiled.is_ok()).then(|| {
        (
            true,
            problems[0].reason.clone(),
            match problem_count {
                1 => located(facts, &problems[0]),
                number => format!("{number} problems, the first: {}", located(facts, &problems[0])),
            },
        )
    });
    problems.truncate(WORST_PROBLEMS);
    status.problems = problems;

    let pending = count.desired - count.current - count.hindered;
    let copying = || being_written(pending - count.braked, count.braked, count.until);
    // A refusal takes nothing back: the rights to write, and that the writer may impersonate an account, stay
    // settled. What others wrote into the status proves nothing.
    if let Some(Authority { answer: Ok(()), asked, .. }) = authority {
        grant(&mut status, world, rule, facts, *asked);
    }
    let authorized = authority.map(|authority| match &authority.answer {
        Ok(()) => (true, "Allowed", allowed(rule, facts, &authority.identity, &status)),
        Err(refusal) => (false, refusal.reason.as_str(), refusal.message.clone()),
    });
    let stopped = inert(world, rule, facts);
    let ready = match (stopped, &authorized) {
        (Some(Inert::Quarantined), _) => {
            let message = status.problems.first().map(|problem| problem.message.clone());
            (false, quarantine_reason(&status.problems), message.unwrap_or_default())
        }
        (Some(Inert::NotGranted), _) => (
            false,
            KIND_NOT_GRANTED,
            facts.compiled.as_ref().map(|it| not_granted(it.kind)).unwrap_or_default(),
        ),
        (Some(Inert::Suspended), _) => {
            (true, "Suspended", "spec.suspend is true: nothing is written or removed".into())
        }
        (Some(Inert::Unseen), _) => {
            let compiled = facts.compiled.as_ref().ok();
            let source = compiled.and_then(|it| world.unseen(unseen_source(world, rule, it)?));
            let (reason, message) = source.unwrap_or((Unseen::OutOfSight, String::new()));
            (false, reason.as_str(), format!("a namespace of its sources: {message}"))
        }
        (Some(Inert::Unauthorized), Some((_, reason, message))) => (false, *reason, message.clone()),
        (Some(Inert::Unauthorized), None) => (false, "AuthorityUnknown", NOT_ASKED.into()),
        (None, _) if is_forbidden => (false, WriteFault::Forbidden.as_str(), first_problem),
        (None, _) if pending > 0 => (true, "Copying", copying()),
        (None, _) => {
            let absent = count.absent_targets.as_deref();
            settled(facts, &status, sources_not_found(&count.absent_sources), absent, count.is_nowhere)
        }
    };
    let grows = facts.compiled.as_ref().is_ok_and(|compiled| can_grow(compiled));
    let ready = match world.namespace_scope().filter(|places| places.is_all() && stopped.is_none() && grows) {
        Some(places) => (ready.0, ready.1, format!("{}; looks at {} only", ready.2, places.said())),
        None => ready,
    };
    let ready = match large {
        Some(large) => (ready.0, ready.1, format!("{}; large: {large}", ready.2)),
        None => ready,
    };
    let is_stalled = matches!(stopped, Some(Inert::Quarantined | Inert::NotGranted | Inert::Unseen))
        || matches!(authorized, Some((false, ..)))
        || (stopped.is_none() && is_forbidden);
    let stalled = is_stalled.then(|| (true, ready.1, ready.2.clone()));
    // Named objects that do not exist yet are waited for.
    let reconciling = match stopped {
        None if pending > 0 => Some((true, "Copying", copying())),
        None if !ready.0 && !is_stalled => Some((true, ready.1, ready.2.clone())),
        _ => None,
    };
    let conditions = &mut status.conditions;
    set_condition(conditions, "Ready", Some(ready), generation, &now);
    set_condition(conditions, "Authorized", authorized.clone(), generation, &now);
    set_condition(conditions, "Stalled", stalled, generation, &now);
    set_condition(conditions, "Reconciling", reconciling, generation, &now);
    let degraded = degraded.as_ref().map(|(on, reason, message)| (*on, reason.as_str(), message.clone()));
    set_condition(conditions, "Degraded", degraded, generation, &now);
    status
}

/// A problem's message, behind the name of the copy that it is about.
fn located(facts: &RuleFacts, problem: &Problem) -> String {
    let Problem { namespace, name, message, .. } = problem;
    match &facts.compiled {
        Ok(compiled) if !name.is_empty() => format!("{} {namespace}/{name}: {message}", compiled.shape.kind),
        _ => message.clone(),
    }
}

/// Keeps the proof that this very spec was allowed, and since when; a new one where there is no valid proof
/// yet.
fn grant(
    status: &mut CopyratorRuleStatus,
    world: &World,
    rule: &NamespacedName,
    facts: &RuleFacts,
    asked: Timestamp,
) {
    status.authorized_generation = Some(facts.generation);
    let (Ok(compiled), Some(key)) = (&facts.compiled, world.key()) else { return };
    let bounds = bounds(world, rule, compiled);
    if !facts.is_granted(key, &bounds) {
        status.authorized_proof = Some(facts.grant(key, &bounds));
        // Without fractions of a second, as it is stored: messages about it must be the same after it is read
        // back.
        status.authorized_time = Some(Time(Timestamp::from_second(asked.as_second()).unwrap_or(asked)));
    }
}

/// The message for a rule whose identity has the rights: which of them were checked, and when.
fn allowed(rule: &NamespacedName, facts: &RuleFacts, identity: &str, status: &CopyratorRuleStatus) -> String {
    if facts.spec.service_account_name.is_some() {
        return format!("{identity} may do what this rule declares; that is asked again every 20 s");
    }
    let when = status.authorized_time.as_ref().map(|time| format!(" at {}", time.0)).unwrap_or_default();
    let was = format!("{identity} was allowed what this rule declares when that was asked{when}");
    match facts.spec.source.namespaces.iter().any(|name| **name != *rule.namespace) {
        true => format!("{was}; what it may read in other namespaces is asked again every 20 s"),
        false => was,
    }
}

/// What is under way: copies that are being written, and copies that wait for their source to stop changing.
pub(super) fn being_written(copies: usize, braked: usize, until: Option<Timestamp>) -> String {
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

/// Reason and message where nothing is under way. `AllCopied` only if there is a source and every copy
/// exists. `Ready` is `False` where a rule copies nothing because its named sources do not exist; sources
/// that a glob or selector may match later are as declared, and so is a namespace that does not exist yet.
fn settled(
    facts: &RuleFacts,
    status: &CopyratorRuleStatus,
    not_found: Option<String>,
    absent: Option<&str>,
    is_nowhere: bool,
) -> (bool, &'static str, String) {
    let (ready, reason, mut said) = match (status.sources, status.desired) {
        (0, _) if not_found.is_some() => (false, "NoSource", Vec::new()),
        (0, _) => (true, "NoSource", vec![nothing_selected(facts)]),
        (_, 0) if is_nowhere => (true, "NoTarget", Vec::new()),
        (_, 0) => (true, "NoTarget", vec![NO_TARGET.to_owned()]),
        (_, desired) => {
            let reason = if status.current == desired { "AllCopied" } else { "Incomplete" };
            (true, reason, vec![format!("{} of {desired} copies are in order", status.current)])
        }
    };
    said.extend(not_found);
    said.extend(absent.map(str::to_owned));
    match status.leaving {
        0 => {}
        1 => said.push("1 orphaned copy is deleted after its grace".into()),
        number => said.push(format!("{number} orphaned copies are deleted after their grace")),
    }
    (ready, reason, said.join("; "))
}

/// Why nothing is copied anywhere.
const NO_TARGET: &str = "spec.targets selects no namespace that takes copies: the source's own, excluded and system namespaces \
                         take none, and those that refuse copies neither";

fn nothing_selected(facts: &RuleFacts) -> String {
    let source = &facts.spec.source;
    let kind = source.kind;
    let names = source.names.as_ref().map(|names| format!(" named {}", names.join(", "))).unwrap_or_default();
    let labels = if source.object_selector.is_some() { " with the labels of its objectSelector" } else { "" };
    let places = match source.namespaces.as_slice() {
        [] => "the rule's own namespace".to_owned(),
        namespaces => format!("namespaces {}", namespaces.join(", ")),
    };
    format!("no {kind}{names}{labels} found in {places}")
}
