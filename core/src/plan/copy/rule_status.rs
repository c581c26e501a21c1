//! Computes a rule's status from the world.
//!
//! Reasons of `Ready`: `Invalid`, `UnsupportedField` (a newer version wrote it), `KindNotGranted`,
//! `Suspended`, `IdentityRequired`, `Forbidden` (its identity or our own account lacks a right),
//! `TooManyQuestions` (checking its rights would take too many questions), `AuthorityUnknown`, `Copying`,
//! `AllCopied`, `Incomplete`, `NoSource`, `NoTarget`, `Unreadable` (a source cannot be read), `Unread` (a
//! list has failed for long), `LabelMissing` (annotations have no effect without the label beside them); and,
//! if Copyrator reads only some namespaces, `NotServed`, `OutOfSight`. Reasons of problems: `Conflict`,
//! `OtherRule`, `DuplicateName`, `Contested`, `Terminating`, `RefusedByPolicy`, `Forbidden`, `TooLarge`,
//! `TooMany`, `NotKept`, `Refused`, `Failed`, `NotServed`, `OutOfSight`, `Unreadable`; of the spec `Invalid`,
//! `UnsupportedField`, `LabelMissing`.

use jiff::Timestamp;

use super::{
    absent::{absent_sources, absent_targets, names_only, namespaces_absent, sources_not_found},
    claims::{claims_on, slots_of, sources_of},
    conditions::{self, Conditions, Said, authorized, begun, being_written, grant},
    copies::{plan_claimed, plan_slot},
    copy_cache::CopyCache,
    count::{Count, Tally},
    demand::{too_many, too_many_said},
    inert::{Inert, authority, inert, source_namespaces, unseen_source},
    problem::{CopyProblem, ProblemReason},
    slot_plan::SlotState,
    spread::{LargeSpread, is_large},
    targets::{bounds, can_grow, is_named, unseen},
    unreadable::{unread_lists, unread_sources},
    why_inert::why_inert,
};
use crate::{
    api::{CopyratorRuleStatus, Problem, speaks_of},
    model::{Authority, Declared, RuleFacts, Store, World, WriteFault},
    names::Declarer,
    plan::{Need, Reason},
    validate::CompiledRule,
};

/// The report about a rule.
#[derive(Clone, Debug, PartialEq)]
pub struct RuleReport {
    /// The status that the rule should have.
    pub status: CopyratorRuleStatus,
    /// Reason and message of `Ready`.
    pub ready: (Reason, String),
    /// The numbers of the rule's copies.
    pub tally: Tally,
    /// The rule's first source that is large for so many targets.
    pub large: Option<LargeSpread>,
}

/// The status that a rule should have; `None` as in [`rule_report`].
pub fn rule_status(world: &World, rule: &Declarer, now: Timestamp) -> Option<CopyratorRuleStatus> {
    rule_report(world, rule, now).map(|report| report.status)
}

/// The report about a rule. `None` if the rule does not exist, while needed objects are not listed, or if the
/// rule has a status and a right or an object must be checked again first: after a restart of ours, the old
/// status is still right. The task that checks the right or the object plans the status again.
pub fn rule_report(world: &World, rule: &Declarer, now: Timestamp) -> Option<RuleReport> {
    let facts = world.rules().get(rule)?;
    let outdates = unread_lists_of(world, rule, facts);
    let lists = |compiled: &CompiledRule| {
        source_namespaces(rule, compiled).any(|namespace| world.is_listing(compiled.kind, namespace))
    };
    let is_listing = facts.compiled.as_deref().is_ok_and(lists);
    if is_listing || (outdates.is_some() && !world.is_complete()) {
        return outdates.map(|said| outdated(facts, said, now));
    }
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
    // The status must not show the objects that a rule would find to an author without the rights that the
    // rule declares.
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
        count.absent_sources.retain(|source| world.unreadable_object(source).is_none());
        unread_sources(world, rule, compiled).for_each(|(object, why)| count.unread(object, why));
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
            // The copy belongs to an earlier spec, and Copyrator may not delete it.
            if let (SlotState::Blocked(problem), true) = (left.state, left.rule.as_ref() == Some(rule)) {
                count.add(problem.reason, problem.into());
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
            // No write of a missing copy is under way.
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
    let (mut status, mut ready) = status(world, rule, facts, count, large.as_ref(), now);
    if let Some((reason, message)) = outdates.filter(|_| !is_inert) {
        conditions::set_not_ready(&mut status, facts.generation, reason, message.clone(), now);
        ready = (reason, message);
    }
    Some(RuleReport { status, ready, tally, large })
}

/// The lists that a rule needs and that have failed for long.
fn unread_lists_of(world: &World, rule: &Declarer, facts: &RuleFacts) -> Option<(Reason, String)> {
    let kinds = facts.compiled.as_ref().map(|compiled| [compiled.kind, compiled.shape.kind]);
    let reaches = |place: &str| {
        let is_source = |compiled| source_namespaces(rule, compiled).any(|namespace| namespace == place);
        let target = world.namespaces().get(place);
        let takes = |compiled| target.is_some_and(|facts| is_named(compiled, place, facts));
        **rule.namespace() == *place
            || facts.compiled.as_deref().is_ok_and(|compiled| is_source(compiled) || takes(compiled))
    };
    unread_lists(world, Store::CopyratorRules, kinds.into_iter().flatten(), None, reaches)
}

/// The report of a rule or template whose facts cannot be read now: the present status, with a note that the
/// status may be out of date.
pub(super) fn outdated<S, C>(
    facts: &Declared<S, C, CopyratorRuleStatus>,
    said: (Reason, String),
    now: Timestamp,
) -> RuleReport {
    let mut status = facts.status.clone().unwrap_or_default();
    let (reason, message) = said;
    conditions::set_not_ready(&mut status, facts.generation, reason, message.clone(), now);
    RuleReport { status, ready: (reason, message), tally: Tally::default(), large: None }
}

/// Why a needed object could not be read the last time, if the read failed.
pub(super) fn unread<'w>(world: &'w World, need: &Need) -> Option<&'w (WriteFault, String)> {
    match need {
        Need::Fingerprint(key) | Need::Drift(key) | Need::Existing(key) => {
            world.memory().source(key).unread()
        }
        Need::List(..) | Need::Pods(_) | Need::SelectedPods(_) | Need::Right(..) => None,
    }
}

/// Whether a status reports that its rule would have too many copies; such a status lists this problem first.
pub fn says_too_many(status: &CopyratorRuleStatus) -> bool {
    status.problems.first().and_then(ProblemReason::of) == Some(ProblemReason::TooMany)
}

fn status(
    world: &World,
    rule: &Declarer,
    facts: &RuleFacts,
    mut count: Count,
    large: Option<&LargeSpread>,
    now: Timestamp,
) -> (CopyratorRuleStatus, (Reason, String)) {
    let authority = authority(world, rule, facts);
    let refused = facts.compiled.as_ref().err().map(Vec::as_slice).unwrap_or_default();
    let located = |problem: &Problem| located(facts, problem);
    let (mut status, degraded) = begun(facts, authority, refused, &mut count, located);
    if let (Some(Authority { answer: Ok(()), asked, .. }), Ok(compiled), Some(key)) =
        (authority, &facts.compiled, world.key())
    {
        grant(&mut status, facts, key, &bounds(world, rule, compiled), *asked);
    }
    let authorized = authorized(authority, |identity| allowed(rule, facts, identity, &status));
    let (pending, is_forbidden) = (count.pending(), count.is_forbidden());
    let copying = || being_written(&count, "copy", "copies");
    let stopped = inert(world, rule, facts);
    let first_problem = || status.problems.first().map(|problem| problem.message.clone()).unwrap_or_default();
    let ready = match stopped {
        Some(why) => {
            let (reason, message) = why_inert(world, rule, why);
            (why == Inert::Suspended, reason, message)
        }
        None if is_forbidden => (false, ProblemReason::Fault(WriteFault::Forbidden).into(), first_problem()),
        None if pending > 0 => (true, Reason::Copying, copying()),
        None if let Some(unreadable) = count.unreadable.clone() => {
            (false, ProblemReason::Unreadable.into(), unreadable)
        }
        None => {
            let absent = count.absent_targets.as_deref();
            settled(facts, &status, sources_not_found(&count.absent_sources), absent, count.is_nowhere)
        }
    };
    let grows = facts.compiled.as_ref().is_ok_and(|compiled| can_grow(compiled));
    let ready = match world.namespace_scope().filter(|places| places.is_all() && stopped.is_none() && grows) {
        Some(places) => (ready.0, ready.1, format!("{}; Copyrator reads only {}", ready.2, places.said())),
        None => ready,
    };
    let ready = match large {
        Some(large) => (ready.0, ready.1, format!("{}; large: {large}", ready.2)),
        None => ready,
    };
    let is_stalled = matches!(stopped, Some(Inert::Invalid | Inert::NotGranted | Inert::Unseen))
        || matches!(authorized, Some((false, ..)))
        || (stopped.is_none() && is_forbidden);
    // The rule waits for literally named objects that do not exist yet.
    let reconciling = match stopped {
        None if pending > 0 => Some((true, Reason::Copying, copying())),
        None if !ready.0 && count.desired == 0 => Some((true, ready.1, ready.2.clone())),
        _ => None,
    };
    let said = Conditions { ready, authorized, is_stalled, reconciling, degraded };
    let ready = (said.ready.1, said.ready.2.clone());
    conditions::set(&mut status, facts.generation, said, now);
    (status, ready)
}

/// A problem's message, behind the name of the copy that it is about.
fn located(facts: &RuleFacts, problem: &Problem) -> String {
    let Problem { name, message, .. } = problem;
    match &facts.compiled {
        Ok(compiled) if !name.is_empty() => {
            format!("{} {}: {message}", compiled.shape.kind, problem.place())
        }
        _ => message.clone(),
    }
}

/// The message for a rule whose identity has the rights: which rights were checked, and when.
fn allowed(rule: &Declarer, facts: &RuleFacts, identity: &str, status: &CopyratorRuleStatus) -> String {
    if facts.spec.service_account_name.is_some() {
        return format!(
            "{identity} has the rights that this rule needs; Copyrator checks them again every 20 s"
        );
    }
    let when = status.authorized_time.as_ref().map(|time| format!(" at {}", time.0)).unwrap_or_default();
    let was = format!("{identity} had the rights that this rule needs at the last check{when}");
    match facts.spec.source.namespaces.iter().any(|name| **name != **rule.namespace()) {
        true => format!("{was}; Copyrator checks the rights to read in other namespaces again every 20 s"),
        false => was,
    }
}

/// Reason and message of `Ready` if no write is under way. `AllCopied` only if the rule has a source and
/// every copy exists. `Ready` is `False` if a rule has no copies because its named sources do not exist, or
/// because each copy has a problem. A glob or selector without a matching source is no fault, since a source
/// may appear later; a target namespace that does not exist yet is no fault either.
fn settled(
    facts: &RuleFacts,
    status: &CopyratorRuleStatus,
    not_found: Option<String>,
    absent: Option<&str>,
    is_nowhere: bool,
) -> Said {
    let (ready, reason, mut said) = match (status.sources, status.desired) {
        (0, _) if not_found.is_some() => (false, Reason::NoSource, Vec::new()),
        (0, _) => (true, Reason::NoSource, vec![nothing_selected(facts)]),
        (_, 0) if is_nowhere => (true, Reason::NoTarget, Vec::new()),
        (_, 0) => (true, Reason::NoTarget, vec![NO_TARGET.to_owned()]),
        (_, desired) => {
            let reason = if status.current == desired { Reason::AllCopied } else { Reason::Incomplete };
            (status.current > 0, reason, vec![format!("{} of {desired} copies are in order", status.current)])
        }
    };
    said.extend(not_found);
    said.extend(absent.map(str::to_owned));
    match status.leaving {
        0 => {}
        1 => said.push("Copyrator deletes 1 orphaned copy after its grace period".into()),
        number => said.push(format!("Copyrator deletes {number} orphaned copies after their grace period")),
    }
    (ready, reason, said.join("; "))
}

/// Why the rule has no copy in any namespace.
const NO_TARGET: &str = "spec.targets selects no namespace that may have copies: Copyrator never copies to the source's namespace, to \
 excluded and system namespaces, and to namespaces that refuse copies";

fn nothing_selected(facts: &RuleFacts) -> String {
    let source = &facts.spec.source;
    let kind = &source.kind;
    let names = source.names.as_ref().map(|names| format!(" named {}", names.join(", "))).unwrap_or_default();
    let labels = if source.object_selector.is_some() { " with the labels of its objectSelector" } else { "" };
    let places = match source.namespaces.as_slice() {
        [] => "the rule's own namespace".to_owned(),
        namespaces => format!("namespaces {}", namespaces.join(", ")),
    };
    format!("no {kind}{names}{labels} found in {places}")
}
