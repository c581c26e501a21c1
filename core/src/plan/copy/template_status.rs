//! A template's status, from what is known, in the fields of a rule's: `sources` are the namespaces that it is rendered for.
//!
//! Reasons of `Ready`: `Invalid`, `UnsupportedField`, `KindNotGranted`, `Suspended`, `IdentityRequired`, `Forbidden`,
//! `TooManyQuestions`, `AuthorityUnknown`, `Rendering`, `AllRendered`, `Incomplete`, `NoInstance`. Reasons of problems: those of
//! copies ([`super::rule_status`]), and `RenderFailed`.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::{
    claims::{Inert, KIND_NOT_GRANTED, authority, claims_on, inert_template, not_granted},
    copies::{plan_claimed, plan_slot},
    copy_cache::CopyCache,
    problem::{CopyProblem, ProblemReason},
    rule_status::{Count, RuleReport, being_written},
    slot_plan::SlotState,
    templates::{instances, is_of, not_granted_kind, template_bounds, too_many_objects},
};
use crate::{
    api::{CopyratorRuleStatus, Problem, WORST_PROBLEMS, set_condition, speaks_of},
    authority::NOT_ASKED,
    model::{Authority, TemplateFacts, World, WriteFault},
    names::NamespacedName,
    validate::{CompiledTemplate, quarantine_reason},
};

/// What there is to say of a template; `None` as for rules ([`super::rule_report`]).
pub fn template_report(world: &World, template: &NamespacedName, now: Timestamp) -> Option<RuleReport> {
    let facts = world.templates().get(template)?;
    let conditions = facts.status.as_ref().map_or(&[][..], |status| &status.conditions);
    let known = authority(world, template, facts);
    if facts.compiled.is_ok() && known.is_none() && speaks_of(conditions, "Authorized", facts.generation) {
        return None;
    }
    let mut count = Count::default();
    // An author without the rights that a template declares is not told either what it would find.
    if let (Ok(compiled), Some(Authority { answer: Ok(()), .. })) = (&facts.compiled, known) {
        let is_settled = counted(world, template, facts, compiled, &mut count, now);
        let may = inert_template(world, template, facts).is_none();
        if may && !is_settled && speaks_of(conditions, "Ready", facts.generation) {
            return None;
        }
    }
    let objects = world.copies_of_rule(template).filter_map(|slot| world.object(slot));
    let marked = objects.filter(|one| one.marks.as_ref().is_some_and(|marks| marks.remove_after.is_some()));
    count.leaving = marked.count();
    let is_inert = inert_template(world, template, facts).is_some();
    let tally = count.tally(is_inert);
    Some(RuleReport { status: status(world, template, facts, count, now), tally, large: None })
}

/// Counts how the template's objects stand; returns whether nothing has to be rendered or read first.
fn counted(
    world: &World,
    template: &NamespacedName,
    facts: &TemplateFacts,
    compiled: &CompiledTemplate,
    count: &mut Count,
    now: Timestamp,
) -> bool {
    if let Some(objects) = too_many_objects(world, compiled) {
        let message = super::demand::too_many_said(world, objects);
        count.add(ProblemReason::TooMany, Problem { message, ..Problem::default() });
    }
    let (mut is_settled, mut alike) = (true, CopyCache::default());
    for namespace in instances(world, compiled) {
        count.sources += 1;
        let Some(set) = world.rendered(template, namespace).filter(|set| is_of(world, set, facts, namespace))
        else {
            count.desired += compiled.objects.len();
            is_settled = false;
            continue;
        };
        for fault in &set.faults {
            count.desired += 1;
            count.hindered += 1;
            let problem = Problem {
                namespace: namespace.to_string(),
                name: fault.id.clone(),
                message: fault.message.clone(),
                ..Problem::default()
            };
            count.add(ProblemReason::RenderFailed, problem);
        }
        for object in &set.objects {
            count.desired += 1;
            let plan = plan_claimed(world, &object.slot, &claims_on(world, &object.slot), &mut alike, now);
            is_settled &= plan.needs.is_empty();
            match plan.rule.as_ref() == Some(template) {
                true => count.state(plan.state),
                false => count.block(CopyProblem::served_by_another(&object.slot, plan.rule.as_ref())),
            }
        }
    }
    let is_declared = |slot| world.rendered_at(slot).any(|(other, ..)| other == template);
    for slot in world.copies_of_rule(template).filter(|slot| !is_declared(slot)) {
        let left = plan_slot(world, slot, now);
        is_settled &= left.needs.is_empty();
        // An object that an earlier spec has left, and that may not be deleted.
        if let (SlotState::Blocked(problem), true) = (left.state, left.rule.as_ref() == Some(template)) {
            count.add(problem.reason, problem.into());
        }
    }
    is_settled
}

fn status(
    world: &World,
    template: &NamespacedName,
    facts: &TemplateFacts,
    count: Count,
    now: Timestamp,
) -> CopyratorRuleStatus {
    let mut status = facts.status.clone().unwrap_or_default();
    let (generation, now) = (facts.generation, Time(now));
    let authority = authority(world, template, facts);
    let pending = count.desired - count.current - count.hindered;
    let working = || being_written(pending - count.braked, count.braked, count.until);
    let (is_forbidden, stopped) = (count.is_forbidden(), inert_template(world, template, facts));
    status.observed_generation = Some(generation);
    status.identity = authority.map(|authority| authority.identity.clone());
    status.sources = count.sources as i64;
    status.desired = count.desired as i64;
    status.current = count.current as i64;
    status.leaving = count.leaving as i64;
    let copying = working();
    let mut problem_count = count.conflicting + count.failed;
    let mut problems = count.problems;
    let degraded = (!problems.is_empty()).then(|| degraded(&problems[0], problem_count));
    if let Err(found) = &facts.compiled {
        problems.splice(0..0, found.iter().cloned());
        problem_count += found.len();
    }
    status.problem_count = problem_count as i64;
    problems.truncate(WORST_PROBLEMS);
    let first_problem = problems.first().map(|problem| problem.message.clone()).unwrap_or_default();
    status.problems = problems;
    if let Some(Authority { answer: Ok(()), asked, .. }) = authority {
        grant(&mut status, world, facts, *asked);
    }
    let authorized = authority.map(|authority| match &authority.answer {
        Ok(()) => (true, "Allowed", allowed(facts, &authority.identity, &status)),
        Err(refusal) => (false, refusal.reason.as_str(), refusal.message.clone()),
    });
    let ready = match (stopped, &authorized) {
        (Some(Inert::Quarantined), _) => (false, quarantine_reason(&status.problems), first_problem),
        (Some(Inert::NotGranted), _) => {
            let compiled = facts.compiled.as_ref().ok();
            let kind = compiled.and_then(|compiled| not_granted_kind(world, compiled));
            (false, KIND_NOT_GRANTED, kind.map(not_granted).unwrap_or_default())
        }
        (Some(Inert::Suspended), _) => {
            (true, "Suspended", "spec.suspend is true: nothing is written or removed".into())
        }
        (Some(Inert::Unauthorized), Some((_, reason, message))) => (false, *reason, message.clone()),
        (Some(Inert::Unauthorized | Inert::Unseen), _) => (false, "AuthorityUnknown", NOT_ASKED.into()),
        (None, _) if is_forbidden => (false, WriteFault::Forbidden.as_str(), first_problem),
        (None, _) if pending > 0 => (true, "Rendering", copying.clone()),
        (None, _) => settled(&status),
    };
    let is_stalled = matches!(stopped, Some(Inert::Quarantined | Inert::NotGranted))
        || matches!(authorized, Some((false, ..)))
        || (stopped.is_none() && is_forbidden);
    let stalled = is_stalled.then(|| (true, ready.1, ready.2.clone()));
    let reconciling = (stopped.is_none() && pending > 0).then_some((true, "Rendering", copying));
    let conditions = &mut status.conditions;
    set_condition(conditions, "Ready", Some(ready), generation, &now);
    set_condition(conditions, "Authorized", authorized.clone(), generation, &now);
    set_condition(conditions, "Stalled", stalled, generation, &now);
    set_condition(conditions, "Reconciling", reconciling, generation, &now);
    let degraded = degraded.as_ref().map(|(reason, message)| (true, reason.as_str(), message.clone()));
    set_condition(conditions, "Degraded", degraded, generation, &now);
    status
}

/// Reason and message of the first of so many problems.
fn degraded(first: &Problem, number: usize) -> (String, String) {
    let Problem { namespace, name, reason, message } = first;
    let place = match (namespace.as_str(), name.as_str()) {
        ("", _) => String::new(),
        (namespace, "") => format!("namespace {namespace}: "),
        (namespace, name) => format!("{name} in namespace {namespace}: "),
    };
    let first = format!("{place}{message}");
    let message = if number == 1 { first } else { format!("{number} problems, the first: {first}") };
    (reason.clone(), message)
}

/// Reason and message where nothing is under way.
fn settled(status: &CopyratorRuleStatus) -> (bool, &'static str, String) {
    let (reason, mut said) = match (status.sources, status.desired) {
        (0, _) => ("NoInstance", "spec.forEach selects no namespace that takes objects".to_owned()),
        (_, desired) => {
            let reason = if status.current == desired { "AllRendered" } else { "Incomplete" };
            let namespaces = if status.sources == 1 { "namespace" } else { "namespaces" };
            let said = format!(
                "{} of {desired} objects are in order, in {} {namespaces}",
                status.current, status.sources
            );
            (reason, said)
        }
    };
    match status.leaving {
        0 => {}
        1 => said.push_str("; 1 object that is no longer wanted is deleted after its grace"),
        number => {
            said.push_str(&format!(
                "; {number} objects that are no longer wanted are deleted after their grace"
            ));
        }
    }
    (true, reason, said)
}

/// Keeps the proof that this very spec was allowed, and since when.
fn grant(status: &mut CopyratorRuleStatus, world: &World, facts: &TemplateFacts, asked: Timestamp) {
    status.authorized_generation = Some(facts.generation);
    let (Ok(compiled), Some(key)) = (&facts.compiled, world.key()) else { return };
    let bounds = template_bounds(world, compiled);
    if !facts.is_granted(key, &bounds) {
        status.authorized_proof = Some(facts.grant(key, &bounds));
        status.authorized_time = Some(Time(Timestamp::from_second(asked.as_second()).unwrap_or(asked)));
    }
}

/// The message for a template whose identity has the rights.
fn allowed(facts: &TemplateFacts, identity: &str, status: &CopyratorRuleStatus) -> String {
    if facts.spec.service_account_name.is_some() {
        return format!("{identity} may do what this template declares; that is asked again every 20 s");
    }
    let when = status.authorized_time.as_ref().map(|time| format!(" at {}", time.0)).unwrap_or_default();
    format!("{identity} was allowed what this template declares when that was asked{when}")
}
