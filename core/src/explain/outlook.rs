//! The outlook of every copy, in words for people: each slot's plan, from the view of every rule that it
//! concerns. Decides nothing; the planner does.

use std::{collections::BTreeMap, fmt};

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;

use super::{difference::Difference, fields};
use crate::{
    marks::{CopyMarks, OnRemoval},
    model::{Unseen, World},
    names::{NamespacedName, ObjectKey},
    plan::{
        Reason,
        copy::{
            CopyAction, CopyProblem, CopyWrite, ProblemReason, SlotPlan, SlotState,
            claims::{Claim, claims_on, is_anothers},
            inert::{Inert, why_inert},
            stays,
            targets::{is_named, takes_copies},
            templates::is_rendered,
        },
    },
};

/// What is going to happen to a copy; the worst first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Course {
    /// Nothing, though something should: it is refused, or in dispute.
    Refuse,
    /// It cannot be told.
    Unknown,
    /// The copy is missing, and is made.
    Create,
    /// The copy is there, and is changed.
    Change,
    /// It is marked, removed, or given up.
    Remove,
    /// Nothing for now: something is waited for.
    Wait,
    /// Nothing: it is in order.
    Current,
}

/// The word of its JSON.
impl fmt::Display for Course {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
    }
}

/// What is going to happen to one copy for one rule; as JSON, a row of a plan.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Outlook {
    /// What happens to the copy.
    #[serde(rename = "action")]
    pub course: Course,
    /// The copy, there or not.
    #[serde(flatten, serialize_with = "fields::object")]
    #[schemars(with = "fields::ObjectFields<'static>")]
    pub slot: ObjectKey,
    /// `namespace/name` of the rule; absent where the copy is orphaned.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "fields::text")]
    #[schemars(with = "Option<String>")]
    pub rule: Option<NamespacedName>,
    /// `namespace/name` of what it is copied from, where that is known.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "fields::text")]
    #[schemars(with = "Option<String>")]
    pub source: Option<NamespacedName>,
    /// Kind and name of the object that a template declares it for.
    #[serde(skip)]
    pub instance: Option<String>,
    /// The word for why.
    #[schemars(with = "String")]
    pub reason: Reason,
    /// Why, and what to do about it. May be empty. Never a Secret's value.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// What differs, where it is there and will be changed, and could be read.
    #[serde(rename = "changes", skip_serializing_if = "Option::is_none")]
    pub difference: Option<Difference>,
    /// When an orphaned copy is deleted, or one that waits is written.
    #[serde(rename = "removedAt", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub at: Option<Timestamp>,
}

/// Returns the outlook of each of these slots, and a refusal for each rule or source whose slot another one
/// has. Omits slots that no rule claims and that have no copy of ours.
pub fn outlooks(world: &World, plans: &BTreeMap<ObjectKey, SlotPlan>) -> Vec<Outlook> {
    let mut all = Vec::new();
    for (slot, plan) in plans {
        let claims = claims_on(world, slot);
        all.extend(of_slot(world, slot, plan, &claims));
        for claim in &claims {
            if plan.rule.as_ref() == Some(claim.rule) {
                let others = claim.duplicates.iter();
                all.extend(
                    others.map(|other| {
                        refused(world, claim, other, CopyProblem::duplicate(slot, claim, other))
                    }),
                );
            } else {
                let problem = CopyProblem::served_by_another(slot, plan.rule.as_ref());
                all.push(refused(world, claim, &claim.source, problem));
            }
        }
    }
    all.sort_by(|a, b| (&a.rule, &a.slot, a.course).cmp(&(&b.rule, &b.slot, b.course)));
    all
}

/// Kind and name of an object that a template declares objects for.
fn instance(world: &World, rule: &NamespacedName, source: &NamespacedName) -> Option<String> {
    let compiled = world.templates().get(rule)?.compiled.as_deref().ok()?;
    Some(format!("{} {source}", compiled.instance_kind()?.kind))
}

fn refused(world: &World, claim: &Claim<'_>, source: &ObjectKey, problem: CopyProblem) -> Outlook {
    let made_for = source.named();
    Outlook {
        course: Course::Refuse,
        rule: Some(claim.rule.clone()),
        slot: problem.slot,
        instance: instance(world, claim.rule, &made_for),
        source: Some(if claim.rule.template().is_some() { claim.rule.clone() } else { made_for }),
        reason: problem.reason.into(),
        message: problem.message,
        difference: None,
        at: None,
    }
}

fn of_slot(world: &World, slot: &ObjectKey, plan: &SlotPlan, claims: &[Claim<'_>]) -> Option<Outlook> {
    let existing = world.object(slot);
    let marks = existing.and_then(|facts| facts.marks.as_deref());
    let claim = claims.iter().find(|claim| Some(claim.rule) == plan.rule.as_ref());
    let made_for = match claim {
        Some(claim) => Some(claim.source.named()),
        None => marks.map(|marks| marks.source.clone()),
    };
    let rule = plan.rule.clone().or_else(|| marks.map(|marks| marks.rule.clone()));
    let template = rule.clone().filter(|rule| rule.template().is_some());
    let made_of = template.as_ref().zip(made_for.as_ref());
    let made_of = made_of.and_then(|(template, source)| instance(world, template, source));
    let source = template.or(made_for);
    let outlook = |course, reason: Reason, message: String| Outlook {
        course,
        rule: rule.clone(),
        slot: slot.clone(),
        source: source.clone(),
        instance: made_of.clone(),
        reason,
        message,
        difference: None,
        at: None,
    };
    if !plan.needs.is_empty() {
        return Some(outlook(
            Course::Unknown,
            Reason::Unread,
            "what the decision depends on could not be read".into(),
        ));
    }
    let unwanted = || {
        let why = marks.map(|marks| why_unwanted(world, slot, marks)).unwrap_or_default();
        match stays(world, slot) && !matches!(plan.action, Some(CopyAction::Release(_))) {
            true => format!("{why}; it stays then, as an ordinary object"),
            false => why,
        }
    };
    Some(match (&plan.action, &plan.state) {
        (None, SlotState::Nothing) => return None,
        (_, SlotState::Blocked(problem)) => {
            outlook(Course::Refuse, problem.reason.into(), problem.message.clone())
        }
        (Some(CopyAction::Write(write)), _) => written(world, slot, write, outlook),
        (Some(CopyAction::Unmark(_)), _) => {
            outlook(Course::Change, Reason::WantedAgain, "it is wanted again: its removal mark goes".into())
        }
        (Some(CopyAction::Vouch(..)), _) => {
            let message = "its rule is back under a new definition, which is noted on it";
            outlook(Course::Change, Reason::RuleBack, message.into())
        }
        (Some(CopyAction::MarkRemoval(_, at) | CopyAction::MarkStaying(_, at)), _) => {
            Outlook { at: Some(*at), ..outlook(Course::Remove, Reason::Unwanted, unwanted()) }
        }
        (Some(CopyAction::Delete(_)), _) => outlook(Course::Remove, Reason::Unwanted, unwanted()),
        (Some(CopyAction::Release(_)), _) => {
            let message = format!("{}; it stays as an ordinary object, without our marks", unwanted());
            outlook(Course::Remove, Reason::Retain, message)
        }
        (None, SlotState::Leaving(at)) => {
            Outlook { at: *at, ..outlook(Course::Remove, Reason::Marked, unwanted()) }
        }
        (None, SlotState::Current) => outlook(Course::Current, Reason::InOrder, String::new()),
        (None, SlotState::Altered(problem)) => {
            outlook(Course::Current, problem.reason.into(), problem.message.clone())
        }
        (None, SlotState::Inert(why)) => {
            let (reason, message) = rule.as_ref().map(|rule| why_inert(world, rule, *why))?;
            outlook(course_of(*why, reason), reason, message)
        }
        (None, SlotState::Outdated) => {
            let message = "what is there is being deleted; the copy follows when it is gone";
            outlook(Course::Wait, Reason::Deleting, message.into())
        }
        (None, SlotState::Braked(until)) => {
            let message = "its source keeps changing, and spreads more and more slowly";
            Outlook { at: Some(*until), ..outlook(Course::Wait, Reason::Braked, message.into()) }
        }
        (None, SlotState::Kept) => kept(world, slot, outlook),
    })
}

fn written(
    world: &World,
    slot: &ObjectKey,
    write: &CopyWrite,
    outlook: impl Fn(Course, Reason, String) -> Outlook,
) -> Outlook {
    let Some(facts) = world.object(slot).filter(|_| write.replaces.is_some()) else {
        return outlook(Course::Create, Reason::Missing, String::new());
    };
    let difference = world.fingerprint(slot).map(|print| Difference::new(slot, &write.intent, facts, print));
    let (reason, message) = if write.anew {
        (Reason::Replace, "no update makes it right: it is deleted and made anew".to_owned())
    } else if write.take_over.is_some() {
        let keeper = world.fingerprint(slot).and_then(|print| print.keeper.as_deref());
        let whose = keeper.map(|keeper| format!(" from {keeper}")).unwrap_or_default();
        let later = match write.intent.marks.on_removal {
            Some(OnRemoval::Adopted) => {
                "; when no rule wants it any more, it is given back without our marks, and not deleted"
            }
            _ => "",
        };
        (Reason::TakeOver, format!("an object that Copyrator did not make is taken over{whose}{later}"))
    } else {
        (Reason::Differs, String::new())
    };
    Outlook { difference, ..outlook(Course::Change, reason, message) }
}

/// Returns what happens to a copy whose rule or template writes nothing at present.
fn course_of(why: Inert, reason: Reason) -> Course {
    match why {
        Inert::Suspended => Course::Wait,
        Inert::NotListed => Course::Unknown,
        _ if [Reason::AuthorityUnknown, Unseen::OutOfSight.into()].contains(&reason) => Course::Unknown,
        Inert::NotGranted | Inert::Invalid | Inert::Unseen | Inert::Unauthorized => Course::Refuse,
    }
}

fn kept(world: &World, slot: &ObjectKey, outlook: impl Fn(Course, Reason, String) -> Outlook) -> Outlook {
    let deleting = world.object(slot).is_some_and(|facts| facts.deletion.is_some());
    let going = world.namespaces().get(&slot.namespace).is_none_or(|namespace| namespace.terminating);
    if deleting || going {
        return outlook(Course::Wait, Reason::Deleting, "it goes already, or its namespace does".into());
    }
    let rule = world.object(slot).and_then(|facts| facts.marks.as_deref()).map(|marks| &marks.rule);
    if let Some((reason, message)) = rule.and_then(|rule| world.unseen(&rule.namespace)) {
        let message = format!("it stays as it is, since its rule is not seen: {message}");
        let course = match reason {
            Unseen::NotServed => Course::Wait,
            Unseen::OutOfSight => Course::Unknown,
        };
        return outlook(course, reason.into(), message);
    }
    if let Some(template) = rule.and_then(|rule| Some((rule, world.templates().get(rule)?)))
        && !is_rendered(world, template.0, template.1, slot)
    {
        let message =
            format!("it stays as it is until {} is rendered here without a fault", template.0.said());
        return outlook(Course::Wait, ProblemReason::RenderFailed.into(), message);
    }
    if let Some(rule) = rule.filter(|rule| is_anothers(world, rule)) {
        if rule.template().is_some() {
            let message = format!("{} is out of sight here, so that it stays as it is", rule.said());
            return outlook(Course::Unknown, Unseen::OutOfSight.into(), message);
        }
        let message = "annotations of sources do not count here, so that their copies stay as they are";
        return outlook(Course::Wait, Unseen::NotServed.into(), message.into());
    }
    let message = "no rule wants it, but its mark was made with another key, so that it is not deleted: delete it by \
                   hand if it is a copy";
    outlook(Course::Refuse, Reason::UnknownKey, message.into())
}

/// Why no rule claims a copy any more.
fn why_unwanted(world: &World, slot: &ObjectKey, marks: &CopyMarks) -> String {
    let (rule, source) = (&marks.rule, &marks.source);
    if rule.template().is_some() {
        return match world.templates().contains_key(rule) {
            true => match instance(world, rule, source) {
                Some(instance) => {
                    format!("{} does not declare it for {instance}, or that is gone", rule.said())
                }
                None => format!("{} does not declare it there", rule.said()),
            },
            false => format!("its {} is gone", rule.said()),
        };
    }
    let Some(facts) = world.rules().get(rule) else { return format!("its rule {rule} is gone") };
    let Ok(compiled) = &facts.compiled else { return String::new() };
    let key =
        ObjectKey { kind: compiled.kind, namespace: source.namespace.clone(), name: source.name.clone() };
    if world.object(&key).is_none() {
        return format!("its source {key} is gone");
    }
    match world.namespaces().get(&slot.namespace) {
        Some(namespace) if !takes_copies(world, &slot.namespace, namespace) => {
            format!("namespace {} takes no copies", slot.namespace)
        }
        Some(namespace) if !is_named(compiled, &slot.namespace, namespace) => {
            format!("rule {rule} does not name namespace {}", slot.namespace)
        }
        _ => format!("rule {rule} does not copy {source} there"),
    }
}
