//! A rule's status, from what is known.
//!
//! Reasons of `Ready`: `Invalid`, `Suspended`, `IdentityRequired`, `Forbidden`, `AuthorityUnknown`, `Copying`,
//! `AllCopied`. Reasons of problems: `Conflict`, `OtherRule`, `DuplicateName`, `Contested`, `Forbidden`,
//! `TooLarge`, `Refused`, `Failed`, `Invalid`.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::{
    claims::{Inert, authority, claims_on, inert, slots_of, sources_of},
    copies::{SlotState, plan_slot, problem},
};
use crate::{
    api::{CopyratorRuleStatus, Problem, WORST_PROBLEMS, set_condition, speaks_of},
    model::{NamespacedName, RuleFacts, World},
};

/// What a rule's status should say; `None` where the rule is gone, or where the API server is about to be asked again
/// what the status already says: after a start of ours nothing has changed for anybody.
pub fn rule_status(world: &World, rule: &NamespacedName, now: Timestamp) -> Option<CopyratorRuleStatus> {
    let facts = world.rules.get(rule)?;
    let conditions = facts.status.as_ref().map_or(&[][..], |status| &status.conditions);
    if facts.compiled.is_ok()
        && authority(world, rule, facts).is_none()
        && speaks_of(conditions, "Authorized", facts.generation)
    {
        return None;
    }
    let mut count = Count::default();
    if let Ok(compiled) = &facts.compiled {
        count.sources = sources_of(world, rule, compiled).count();
        for slot in slots_of(world, rule) {
            count.desired += 1;
            let plan = plan_slot(world, &slot, now);
            if plan.rule.as_ref() != Some(rule) {
                let other = plan.rule.map_or_else(|| "nobody".to_owned(), |other| other.to_string());
                let message =
                    format!("rule {other} has this copy; exclude the namespace in one of the rules");
                count.problems.push(problem(&slot, "OtherRule", &message));
                count.hindered += 1;
                continue;
            }
            match plan.state {
                SlotState::Current => count.current += 1,
                SlotState::Blocked(problem) => {
                    count.problems.push(problem);
                    count.hindered += 1;
                }
                _ => {}
            }
            for claim in claims_on(world, &slot).iter().filter(|claim| claim.rule == rule) {
                count.problems.extend(claim.duplicates.iter().map(|other| {
                    let message = format!("{other} has the same name as {}, which wins", claim.source);
                    problem(&slot, "DuplicateName", &message)
                }));
            }
        }
    }
    Some(status(world, rule, facts, count, now))
}

#[derive(Default)]
struct Count {
    sources: usize,
    desired: usize,
    current: usize,
    /// Slots that something else is in the way of.
    hindered: usize,
    problems: Vec<Problem>,
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
    status.problem_count = problems.len() as i64;
    let degraded = (!problems.is_empty() && facts.compiled.is_ok()).then(|| {
        (
            true,
            problems[0].reason.clone(),
            format!("{} problems, the first: {}", problems.len(), problems[0].message),
        )
    });
    problems.truncate(WORST_PROBLEMS);
    status.problems = problems;

    let pending = count.desired - count.current - count.hindered;
    let authorized = authority.map(|authority| match &authority.answer {
        Ok(()) => (true, "Allowed", format!("{} may do what this rule declares", authority.identity)),
        Err((reason, message)) => (false, reason.as_str(), message.clone()),
    });
    let stopped = inert(world, rule, facts);
    let ready = match (stopped, &authorized) {
        (Some(Inert::Quarantined), _) => {
            (false, "Invalid", status.problems.first().map(|p| p.message.clone()).unwrap_or_default())
        }
        (Some(Inert::Suspended), _) => {
            (true, "Suspended", "spec.suspend is true: nothing is written or removed".into())
        }
        (Some(Inert::Unauthorized), Some((_, reason, message))) => (false, *reason, message.clone()),
        (Some(Inert::Unauthorized), None) => {
            (false, "AuthorityUnknown", "the API server has not been asked yet".into())
        }
        (None, _) if pending > 0 => (true, "Copying", format!("{pending} copies are being written")),
        (None, _) => {
            (true, "AllCopied", format!("{} of {} copies are in order", count.current, count.desired))
        }
    };
    let is_stalled = matches!(stopped, Some(Inert::Quarantined)) || matches!(authorized, Some((false, ..)));
    let stalled = is_stalled.then(|| (true, ready.1, ready.2.clone()));
    let reconciling = (stopped.is_none() && pending > 0)
        .then(|| (true, "Copying", format!("{pending} copies are being written")));
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
        status.authorized_proof = world.key.as_ref().map(|key| facts.grant(key));
    }
    status
}
