//! Computes a template's status from the world, in the fields of a rule's status: `sources` counts the
//! namespaces or objects that the template is rendered for.
//!
//! Reasons of `Ready`: `Invalid`, `UnsupportedField`, `KindNotGranted`, `KindNotServed`, `KindUnread`,
//! `TypeError`, `Suspended`, `IdentityRequired`, `Forbidden`, `TooManyQuestions`, `AuthorityUnknown`,
//! `Rendering`, `WaitingFor`, `AllRendered`, `Incomplete`, `NoInstance`, `Unreadable`, `Unread`. Reasons of
//! problems: the reasons for copies ([`super::rule_status`]), `RenderFailed` and `OverBudget`.

use jiff::Timestamp;

use super::{
    absent::listed,
    claims::{Claim, claims_on},
    conditions::{self, Conditions, Said, authorized, begun, being_written, grant},
    copies::{plan_claimed, plan_slot},
    copy_cache::CopyCache,
    count::Count,
    demand::{Demand, too_many_said},
    inert::{Inert, authority, inert_template},
    problem::{CopyProblem, ProblemReason},
    rule_status::{RuleReport, outdated, rule_status, unread},
    slot_plan::{SlotPlan, SlotState},
    templates::{instances, is_of, template_bounds, too_many_objects},
    unreadable::{unread_instances, unread_lists},
    why_inert::why_inert,
};
use crate::{
    api::{CopyratorRuleStatus, Problem, speaks_of},
    authority::{Subject, template_questions},
    model::{Authority, StatusFaultKind, Store, TemplateFacts, World, WriteFault},
    names::{Declarer, InstanceName, ObjectKey},
    plan::Reason,
    validate::CompiledTemplate,
};

/// The report about a template; `None` as for rules ([`super::rule_report`]).
pub fn template_report(world: &World, template: &Declarer, now: Timestamp) -> Option<RuleReport> {
    let facts = world.templates().get(template)?;
    let outdates = unread_lists_of(world, template, facts);
    if outdates.is_some() && !world.is_complete() {
        return outdates.map(|said| outdated(facts, said, now));
    }
    let conditions = facts.status.as_ref().map_or(&[][..], |status| &status.conditions);
    let known = authority(world, template, facts);
    if facts.compiled.is_ok() && known.is_none() && speaks_of(conditions, "Authorized", facts.generation) {
        return None;
    }
    let mut count = Count::default();
    // The status must not show the objects that a template would find to an author without the rights that
    // the template declares.
    if let (Ok(compiled), Some(Authority { answer: Ok(()), .. })) = (&facts.compiled, known) {
        let is_settled = counted(world, template, facts, compiled, &mut count, now);
        let waits = match inert_template(world, template, facts) {
            // The status reports an instance that waits for its namespace's budget.
            None => !is_settled && world.memory().over_budget_of(template).next().is_none(),
            Some(_) => false,
        };
        if waits && speaks_of(conditions, "Ready", facts.generation) {
            return None;
        }
    }
    let objects = world.copies_of_rule(template).filter_map(|slot| world.object(slot));
    let marked = objects.filter(|one| one.marks.as_ref().is_some_and(|marks| marks.remove_after.is_some()));
    count.leaving = marked.count();
    let is_inert = inert_template(world, template, facts).is_some();
    let tally = count.tally(is_inert);
    let (mut status, mut ready) = status(world, template, facts, count, now);
    if let Some((reason, message)) = outdates.filter(|_| !is_inert) {
        conditions::set_not_ready(&mut status, facts.generation, reason, message.clone(), now);
        ready = (reason, message);
    }
    Some(RuleReport { status, ready, tally, large: None })
}

/// The lists that a template needs and that have failed for long.
fn unread_lists_of(world: &World, template: &Declarer, facts: &TemplateFacts) -> Option<(Reason, String)> {
    let compiled = facts.compiled.as_deref().ok();
    let kinds = compiled.into_iter().flat_map(|compiled| compiled.kinds(&world.settings().template_kinds));
    let instances = compiled.and_then(CompiledTemplate::instance_kind);
    let reaches = |place: &str| {
        let takes = |compiled: &CompiledTemplate| {
            let target = world.namespaces().get(place);
            target.is_some_and(|facts| compiled.goes_into(template.namespace(), place, &facts.labels))
        };
        **template.namespace() == *place || compiled.is_some_and(takes)
    };
    unread_lists(world, Store::CopyratorTemplates, kinds, instances, reaches)
}

/// The status that a rule or template should have; `None` as in the report.
pub fn status_of(world: &World, name: &Declarer, now: Timestamp) -> Option<CopyratorRuleStatus> {
    match name.as_template() {
        Some(_) => template_report(world, name, now).map(|report| report.status),
        None => rule_status(world, name, now),
    }
}

/// Counts the states of the template's objects; returns `false` if an object must be rendered or read first.
fn counted(
    world: &World,
    template: &Declarer,
    facts: &TemplateFacts,
    compiled: &CompiledTemplate,
    count: &mut Count,
    now: Timestamp,
) -> bool {
    let too_many = too_many_objects(world, template, compiled);
    if let Some(objects) = too_many {
        let message = too_many_said(world, objects);
        count.add(ProblemReason::TooMany, Problem { message, ..Problem::default() });
    }
    let over: Vec<_> = world.memory().over_budget_of(template).collect();
    if let Some(named) = listed(&over) {
        let word = if over.len() == 1 { "namespace" } else { "namespaces" };
        let message = format!(
            "{word} {named} used up the processor time for template expressions, so the template renders late: simplify the expressions, \
             increase spec.resync, or use fewer templates"
        );
        count.add(ProblemReason::OverBudget, Problem { message, ..Problem::default() });
    }
    unread_instances(world, template, compiled).for_each(|(object, why)| count.unread(object, why));
    let demand = if too_many.is_some() { Demand::Kept } else { Demand::All };
    let (mut is_settled, mut alike) = (true, CopyCache::default());
    for instance in instances(world, template, compiled) {
        count.sources += 1;
        let Some(set) = world.rendered(template, &instance).filter(|set| is_of(world, set, facts, &instance))
        else {
            count.desired += compiled.objects.len();
            is_settled &= !demand.has(world, template, &instance);
            continue;
        };
        if let Some(fault) = &set.status_fault {
            let reason = match fault.kind {
                StatusFaultKind::Failed => ProblemReason::RenderFailed,
                StatusFaultKind::Owned => ProblemReason::FieldOwned,
                StatusFaultKind::Unstable => ProblemReason::Unstable,
                StatusFaultKind::NotKept => ProblemReason::NotKept,
            };
            let problem = Problem {
                namespace: instance.namespace.to_string(),
                name: "writeStatus".into(),
                message: of_instance(compiled, &instance, &fault.message),
                ..Problem::default()
            };
            count.add(reason, problem);
        }
        for fault in &set.faults {
            count.desired += 1;
            if fault.waits {
                count.waiting_objects += 1;
                let waits = format!("{} {}", fault.id, fault.message);
                count.waiting.get_or_insert_with(|| of_instance(compiled, &instance, &waits));
                continue;
            }
            count.hindered += 1;
            let problem = Problem {
                namespace: instance.namespace.to_string(),
                name: fault.id.clone(),
                message: of_instance(compiled, &instance, &fault.message),
                ..Problem::default()
            };
            count.add(ProblemReason::RenderFailed, problem);
        }
        for object in &set.objects {
            count.desired += 1;
            let claims = claims_on(world, &object.slot);
            let plan = plan_claimed(world, &object.slot, &claims, &mut alike, now);
            if let Some((reason, why)) = plan.needs.iter().find_map(|need| unread(world, need)) {
                count.block(CopyProblem::fault(&object.slot, *reason, why));
                continue;
            }
            is_settled &= plan.needs.is_empty();
            let planned = Planned { slot: &object.slot, claims: &claims, plan: &plan };
            match planned.taken(template, &instance) {
                Some(problem) => count.block(problem),
                None => count.state(plan.state),
            }
        }
    }
    if let Some(objects) = too_many {
        // No write of a missing object is under way.
        count.desired = objects.max(count.current);
        count.hindered = count.desired - count.current;
        count.braked = 0;
    }
    let is_declared = |slot| world.rendered_at(slot).any(|(other, ..)| other == template);
    for slot in world.copies_of_rule(template).filter(|slot| !is_declared(slot)) {
        let left = plan_slot(world, slot, now);
        is_settled &= left.needs.is_empty();
        // The object belongs to an earlier spec, and Copyrator may not delete it.
        if let (SlotState::Blocked(problem), true) = (left.state, left.rule.as_ref() == Some(template)) {
            count.add(problem.reason, problem.into());
        }
    }
    is_settled
}

/// The maximum number of instances that get an Event about one slot: each Event costs a look at the other
/// instances.
const MOST_HINDERED: usize = 20;

/// The plan of a slot, and the claims on the slot.
struct Planned<'p> {
    slot: &'p ObjectKey,
    claims: &'p [Claim<'p>],
    plan: &'p SlotPlan,
}

impl Planned<'_> {
    /// Why the slot does not belong to this instance: the slot holds the object of a different declaration or
    /// instance.
    fn taken(&self, template: &Declarer, instance: &InstanceName) -> Option<CopyProblem> {
        if self.plan.rule.as_ref() != Some(template) {
            return Some(CopyProblem::served_by_another(self.slot, self.plan.rule.as_ref()));
        }
        let claim = self.claims.iter().find(|claim| claim.rule == template)?;
        let own = instance.object().filter(|own| *own != claim.source.named())?;
        Some(CopyProblem::duplicate(self.slot, claim, &ObjectKey { name: own.name, ..claim.source.clone() }))
    }
}

/// The problem of the object in a slot, for each instance that a template declares the object for: the first
/// [`MOST_HINDERED`] instances. Leaves out declarations of an earlier version of a template, a namespace or
/// an instance. `None` while an object must be read.
pub fn hindrances<'w>(
    world: &'w World,
    slot: &'w ObjectKey,
    now: Timestamp,
) -> Option<Vec<(&'w Declarer, &'w InstanceName, Option<CopyProblem>)>> {
    let claims = claims_on(world, slot);
    let plan = plan_claimed(world, slot, &claims, &mut CopyCache::default(), now);
    if !plan.needs.is_empty() {
        return None;
    }
    let planned = Planned { slot, claims: &claims, plan: &plan };
    let declared = world.rendered_at(slot).filter(|(template, instance, set, _)| {
        let facts = world.templates().get(template);
        instance.object.is_some() && facts.is_some_and(|facts| is_of(world, set, facts, instance))
    });
    let hindrance = |(template, instance, ..): (&'w Declarer, &'w InstanceName, _, _)| {
        let own = match &plan.state {
            SlotState::Blocked(problem) => Some(problem.clone()),
            _ => None,
        };
        (template, instance, planned.taken(template, instance).or(own))
    };
    Some(declared.take(MOST_HINDERED).map(hindrance).collect())
}

fn status(
    world: &World,
    template: &Declarer,
    facts: &TemplateFacts,
    mut count: Count,
    now: Timestamp,
) -> (CopyratorRuleStatus, (Reason, String)) {
    let authority = authority(world, template, facts);
    let stopped = inert_template(world, template, facts);
    let refused = facts.compiled.as_ref().err().map(Vec::as_slice).unwrap_or_default();
    let (mut status, degraded) = begun(facts, authority, refused, &mut count, located);
    if let (Some(Authority { answer: Ok(()), asked, .. }), Ok(compiled), Some(key)) =
        (authority, &facts.compiled, world.key())
    {
        grant(&mut status, facts, key, &template_bounds(world, compiled), *asked);
    }
    let reads_elsewhere = || reads_elsewhere(world, template, facts);
    let authorized = authorized(authority, |identity| allowed(facts, identity, &status, reads_elsewhere));
    let (pending, is_forbidden) = (count.pending(), count.is_forbidden());
    let rendering = || being_written(&count, "object", "objects");
    let first_problem = || status.problems.first().map(|problem| problem.message.clone()).unwrap_or_default();
    let ready = match stopped {
        Some(why) => {
            let (reason, message) = why_inert(world, template, why);
            (why == Inert::Suspended, reason, message)
        }
        None if is_forbidden => (false, ProblemReason::Fault(WriteFault::Forbidden).into(), first_problem()),
        None if let Some(waiting) = count.only_waits() => (false, Reason::WaitingFor, waiting),
        None if pending > 0 => (true, Reason::Rendering, rendering()),
        None if let Some(unreadable) = count.unreadable.clone() => {
            (false, ProblemReason::Unreadable.into(), unreadable)
        }
        None => settled(&status, facts.spec.for_each.objects.as_ref().map(|objects| objects.kind.as_str())),
    };
    let is_stalled = matches!(stopped, Some(Inert::Invalid | Inert::NotGranted))
        || matches!(authorized, Some((false, ..)))
        || (stopped.is_none() && is_forbidden);
    let reconciling = match count.waiting.clone() {
        Some(waiting) if stopped.is_none() => Some((true, Reason::WaitingFor, waiting)),
        _ => (stopped.is_none() && pending > 0).then(|| (true, Reason::Rendering, rendering())),
    };
    let said = Conditions { ready, authorized, is_stalled, reconciling, degraded };
    let ready = (said.ready.1, said.ready.2.clone());
    conditions::set(&mut status, facts.generation, said, now);
    (status, ready)
}

/// A message about an instance, with the instance's name if the instance is an object and no namespace.
fn of_instance(compiled: &CompiledTemplate, instance: &InstanceName, message: &str) -> String {
    match (compiled.instance_kind(), &instance.object) {
        (Some(kind), Some(name)) => format!("for {} {name}: {message}", kind.kind),
        _ => message.to_owned(),
    }
}

/// A problem's message, after the place of the object concerned: the object's name, or its id if it has no
/// name yet.
fn located(problem: &Problem) -> String {
    let Problem { namespace, name, message, .. } = problem;
    match (namespace.as_str(), name.as_str()) {
        ("", _) => message.clone(),
        _ if problem.others.is_some() => format!("{}: {message}", problem.place()),
        (namespace, "") => format!("namespace {namespace}: {message}"),
        (namespace, name) => format!("{name} in namespace {namespace}: {message}"),
    }
}

/// Reason and message of `Ready` if no write is under way. `Ready` is `False` if the template declares
/// objects and no object is in order.
fn settled(status: &CopyratorRuleStatus, kind: Option<&str>) -> Said {
    let is_ready = status.current > 0 || status.desired == 0;
    let (reason, mut said) = match (status.sources, status.desired, kind) {
        (0, _, None) => {
            (Reason::NoInstance, "spec.forEach selects no namespace that may have objects".to_owned())
        }
        (0, _, Some(kind)) => (
            Reason::NoInstance,
            format!("spec.forEach selects no {kind} in a namespace that may have objects"),
        ),
        (instances, desired, kind) => {
            let reason = if status.current == desired { Reason::AllRendered } else { Reason::Incomplete };
            let of = match (kind, instances) {
                (None, 1) => "in 1 namespace".to_owned(),
                (None, _) => format!("in {instances} namespaces"),
                (Some(kind), _) => format!("for {instances} {kind}"),
            };
            (reason, format!("{} of {desired} objects are in order, {of}", status.current))
        }
    };
    match status.leaving {
        0 => {}
        1 => said.push_str("; 1 undeclared object leaves after its grace period"),
        number => {
            said.push_str(&format!("; {number} undeclared objects leave after their grace period"));
        }
    }
    (is_ready, reason, said)
}

/// Whether the template reads objects in namespaces other than its own.
fn reads_elsewhere(world: &World, template: &Declarer, facts: &TemplateFacts) -> bool {
    let compiled = facts.compiled.as_deref().ok();
    let granted = &world.settings().template_kinds;
    let questions =
        template_questions(template.namespace(), &facts.spec, compiled, &Subject::default(), granted);
    questions.iter().any(|question| question.reads_elsewhere(template.namespace()))
}

/// The message for a template whose identity has the rights: which rights were checked, and when.
fn allowed(
    facts: &TemplateFacts,
    identity: &str,
    status: &CopyratorRuleStatus,
    reads_elsewhere: impl FnOnce() -> bool,
) -> String {
    if facts.spec.service_account_name.is_some() {
        return format!(
            "{identity} has the rights that this template needs; Copyrator checks them again every 20 s"
        );
    }
    let when = status.authorized_time.as_ref().map(|time| format!(" at {}", time.0)).unwrap_or_default();
    let was = format!("{identity} had the rights that this template needs at the last check{when}");
    match reads_elsewhere() {
        true => format!("{was}; Copyrator checks the rights to read in other namespaces again every 20 s"),
        false => was,
    }
}
