//! The rows of copies for people: the plan of each slot, from the view of each rule that claims the slot. The
//! planner makes all decisions; this file only describes them.

use std::collections::BTreeMap;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;

use super::{copy_state::CopyState, difference::Difference, fields};
use crate::{
    api::Problem,
    marks::{CopyMarks, OnRemoval, write_time},
    model::{Unseen, World},
    names::{Declarer, NamespacedName, ObjectKey},
    plan::{
        Reason,
        copy::{
            CopyAction, CopyProblem, CopyWrite, ProblemReason, SlotPlan, SlotState,
            claims::{Claim, claims_on, is_anothers},
            inert::Inert,
            stays,
            targets::{is_named, takes_copies},
            templates::is_rendered,
            why_inert::why_inert,
        },
    },
};

/// One copy of one rule: `plan`, `status`, `why` and the console show columns of this row.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Copy")]
pub struct CopyRow {
    /// The state of the copy, and what Copyrator does about it.
    #[serde(flatten, serialize_with = "fields::state")]
    #[schemars(with = "fields::StateFields")]
    pub state: CopyState,
    /// The copy, there or not.
    #[serde(flatten, serialize_with = "fields::object")]
    #[schemars(with = "fields::ObjectFields<'static>")]
    pub slot: ObjectKey,
    /// `namespace/name` of the rule; absent where the copy is orphaned.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "fields::text")]
    #[schemars(with = "Option<String>")]
    pub rule: Option<Declarer>,
    /// `namespace/name` of the source, if known.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "fields::text")]
    #[schemars(with = "Option<String>")]
    pub source: Option<NamespacedName>,
    /// Kind and name of the object that a template declares it for.
    #[serde(skip)]
    pub instance: Option<String>,
    /// The reason of the state, as one word; after a failure that of the last attempt.
    #[schemars(with = "String")]
    pub reason: Reason,
    /// The reason in a sentence, with what to do about it. May be empty. Never a Secret's value.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// The differences between the copy and its declaration, if the copy exists, will be changed, and could be read.
    #[serde(rename = "changes", skip_serializing_if = "Option::is_none")]
    pub difference: Option<Difference>,
    /// When an orphaned copy is deleted, or one that waits is written.
    #[serde(rename = "removedAt", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub at: Option<Timestamp>,
    /// The result of the last attempt, according to the status of the rule.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_attempt: Option<String>,
}

impl CopyRow {
    /// Whether the copy differs from its declaration, and will not be corrected by itself.
    pub fn is_worrying(&self) -> bool {
        self.state <= CopyState::Outdated
    }

    /// The message, with the time at which the grace of an orphaned copy ends, or the copy is written.
    pub fn message_with_time(&self) -> String {
        let time = self.at.map(|at| match self.state {
            CopyState::Leaving => format!("its grace ends at {}", write_time(at)),
            _ => format!("will be written at {}", write_time(at)),
        });
        let parts = [Some(self.message.clone()).filter(|message| !message.is_empty()), time];
        parts.into_iter().flatten().collect::<Vec<_>>().join("; ")
    }

    /// Adds the result of the last attempt to the row, if the copy is due and the status of its rule reports
    /// a problem.
    fn with_last_attempt(self, world: &World) -> Self {
        let state = match self.state {
            CopyState::Missing => CopyState::CreateFailed,
            CopyState::Outdated => CopyState::ChangeFailed,
            _ => return self,
        };
        let Some(problem) = reported(world, &self) else { return self };
        Self {
            state,
            reason: ProblemReason::of(problem).map_or(self.reason, Into::into),
            message: problem.message.clone(),
            last_attempt: Some(format!("{}: {}", problem.reason, problem.message)),
            ..self
        }
    }
}

/// Returns the problem that the reconciler last reported for a slot, from the status of its rule, if the
/// status is about the current spec.
fn reported<'w>(world: &'w World, row: &CopyRow) -> Option<&'w Problem> {
    let declared = world.declaration(row.rule.as_ref()?)?;
    let generation = declared.version().generation;
    let status = declared.status().filter(|it| it.observed_generation == Some(generation))?;
    status.problems.iter().find(|problem| problem.is_about(&row.slot.namespace, &row.slot.name))
}

/// Returns the row of each of these slots, and a refusal for each rule or source whose slot belongs to a
/// different rule or source. Omits slots that no rule claims and that have no copy of ours.
pub fn copy_rows(world: &World, plans: &BTreeMap<ObjectKey, SlotPlan>) -> Vec<CopyRow> {
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
    let mut all: Vec<CopyRow> = all.into_iter().map(|row| row.with_last_attempt(world)).collect();
    all.sort_by(|a, b| (&a.rule, &a.slot, a.state).cmp(&(&b.rule, &b.slot, b.state)));
    all
}

/// Kind and name of an object that a template declares objects for.
fn instance(world: &World, rule: &Declarer, source: &NamespacedName) -> Option<String> {
    let compiled = world.templates().get(rule)?.compiled.as_deref().ok()?;
    Some(format!("{} {source}", compiled.instance_kind()?.kind))
}

fn refused(world: &World, claim: &Claim<'_>, source: &ObjectKey, problem: CopyProblem) -> CopyRow {
    let made_for = source.named();
    CopyRow {
        state: CopyState::Blocked,
        rule: Some(claim.rule.clone()),
        slot: problem.slot,
        instance: instance(world, claim.rule, &made_for),
        source: Some(if claim.rule.as_template().is_some() { claim.rule.named() } else { made_for }),
        reason: problem.reason.into(),
        message: problem.message,
        difference: None,
        at: None,
        last_attempt: None,
    }
}

fn of_slot(world: &World, slot: &ObjectKey, plan: &SlotPlan, claims: &[Claim<'_>]) -> Option<CopyRow> {
    let existing = world.object(slot);
    let marks = existing.and_then(|facts| facts.marks.as_deref());
    let claim = claims.iter().find(|claim| Some(claim.rule) == plan.rule.as_ref());
    let made_for = match claim {
        Some(claim) => Some(claim.source.named()),
        None => marks.map(|marks| marks.source.clone()),
    };
    let rule = plan.rule.clone().or_else(|| marks.map(|marks| marks.rule.clone()));
    let template = rule.clone().filter(|rule| rule.as_template().is_some());
    let made_of = template.as_ref().zip(made_for.as_ref());
    let made_of = made_of.and_then(|(template, source)| instance(world, template, source));
    let source = template.map(|template| template.named()).or(made_for);
    let row = |state, reason: Reason, message: String| CopyRow {
        state,
        rule: rule.clone(),
        slot: slot.clone(),
        source: source.clone(),
        instance: made_of.clone(),
        reason,
        message,
        difference: None,
        at: None,
        last_attempt: None,
    };
    if !plan.needs.is_empty() {
        return Some(row(
            CopyState::Unknown,
            Reason::Unread,
            "Copyrator could not read an object that this decision needs".into(),
        ));
    }
    let unwanted = || {
        let why = marks.map(|marks| why_unwanted(world, slot, marks)).unwrap_or_default();
        match stays(world, slot) && !matches!(plan.action, Some(CopyAction::Release(_))) {
            true => format!("{why}; Copyrator then stops managing the object, and the object stays"),
            false => why,
        }
    };
    Some(match (&plan.action, &plan.state) {
        (None, SlotState::Nothing) => return None,
        (_, SlotState::Blocked(problem)) => {
            row(CopyState::Blocked, problem.reason.into(), problem.message.clone())
        }
        (Some(CopyAction::Write(write)), _) => written(world, slot, write, row),
        (Some(CopyAction::Unmark(_)), _) => row(
            CopyState::Outdated,
            Reason::WantedAgain,
            "the rule wants the copy again: Copyrator cancels its deletion".into(),
        ),
        (Some(CopyAction::Vouch(..)), _) => {
            let message = "its rule exists again under a new CustomResourceDefinition: Copyrator updates the copy's annotation";
            row(CopyState::Outdated, Reason::RuleBack, message.into())
        }
        (Some(CopyAction::MarkRemoval(_, at) | CopyAction::MarkStaying(_, at)), _) => {
            CopyRow { at: Some(*at), ..row(CopyState::Leaving, Reason::Unwanted, unwanted()) }
        }
        (Some(CopyAction::Delete(_)), _) => row(CopyState::Leaving, Reason::Unwanted, unwanted()),
        (Some(CopyAction::Release(_)), _) => {
            let message = format!(
                "{}; the object stays, and Copyrator removes its labels and annotations from it",
                unwanted()
            );
            row(CopyState::Leaving, Reason::Retain, message)
        }
        (None, SlotState::Leaving(at)) => {
            CopyRow { at: *at, ..row(CopyState::Leaving, Reason::Marked, unwanted()) }
        }
        (None, SlotState::Current) => row(CopyState::Current, Reason::InOrder, String::new()),
        (None, SlotState::Altered(problem)) => {
            row(CopyState::Current, problem.reason.into(), problem.message.clone())
        }
        (None, SlotState::Inert(why)) => {
            let (reason, message) = rule.as_ref().map(|rule| why_inert(world, rule, *why))?;
            row(state_of(*why, reason), reason, message)
        }
        (None, SlotState::Outdated) => {
            let message = "the existing object is being deleted; Copyrator then writes the copy";
            row(CopyState::Waiting, Reason::Deleting, message.into())
        }
        (None, SlotState::Braked(until)) => {
            let message = "its source changes often, so Copyrator copies it less often";
            CopyRow { at: Some(*until), ..row(CopyState::Waiting, Reason::Braked, message.into()) }
        }
        (None, SlotState::Kept) => kept(world, slot, row),
    })
}

fn written(
    world: &World,
    slot: &ObjectKey,
    write: &CopyWrite,
    row: impl Fn(CopyState, Reason, String) -> CopyRow,
) -> CopyRow {
    let Some(facts) = world.object(slot).filter(|_| write.replaces.is_some()) else {
        return row(CopyState::Missing, Reason::Missing, String::new());
    };
    let difference = world.fingerprint(slot).map(|print| Difference::new(slot, &write.intent, facts, print));
    let (reason, message) = if write.anew {
        (
            Reason::Replace,
            "the change is to an immutable field: Copyrator deletes the object and creates it again"
                .to_owned(),
        )
    } else if write.take_over.is_some() {
        let keeper = world.fingerprint(slot).and_then(|print| print.keeper.as_deref());
        let whose = keeper.map(|keeper| format!(" from {keeper}")).unwrap_or_default();
        let later = match write.intent.marks.on_removal {
            Some(OnRemoval::Adopted) => {
                "; when no rule wants it any more, Copyrator keeps the object and only removes its labels and annotations"
            }
            _ => "",
        };
        (Reason::TakeOver, format!("Copyrator takes over an object that it did not create{whose}{later}"))
    } else {
        (Reason::Differs, String::new())
    };
    CopyRow { difference, ..row(CopyState::Outdated, reason, message) }
}

/// Returns the state of a copy whose rule or template may not write at present.
fn state_of(why: Inert, reason: Reason) -> CopyState {
    match why {
        Inert::Suspended => CopyState::Waiting,
        Inert::NotListed => CopyState::Unknown,
        _ if [Reason::AuthorityUnknown, Unseen::OutOfSight.into()].contains(&reason) => CopyState::Unknown,
        Inert::NotGranted | Inert::Invalid | Inert::Unseen | Inert::Unauthorized => CopyState::Blocked,
    }
}

fn kept(world: &World, slot: &ObjectKey, row: impl Fn(CopyState, Reason, String) -> CopyRow) -> CopyRow {
    let deleting = world.object(slot).is_some_and(|facts| facts.deletion.is_some());
    let going = world.namespaces().get(&slot.namespace).is_none_or(|namespace| namespace.terminating);
    if deleting || going {
        return row(
            CopyState::Waiting,
            Reason::Deleting,
            "the object or its namespace is already being deleted".into(),
        );
    }
    let rule = world.object(slot).and_then(|facts| facts.marks.as_deref()).map(|marks| &marks.rule);
    if let Some((reason, message)) = rule.and_then(|rule| world.unseen(rule.namespace())) {
        let message =
            format!("Copyrator leaves the copy as it is, because it cannot see the copy's rule: {message}");
        let state = match reason {
            Unseen::NotServed => CopyState::Waiting,
            Unseen::OutOfSight => CopyState::Unknown,
        };
        return row(state, reason.into(), message);
    }
    if let Some(template) = rule.and_then(|rule| Some((rule, world.templates().get(rule)?)))
        && !is_rendered(world, template.0, template.1, slot)
    {
        let message = format!(
            "Copyrator leaves the object as it is until {} renders without errors here",
            template.0.said()
        );
        return row(CopyState::Waiting, ProblemReason::RenderFailed.into(), message);
    }
    if let Some(rule) = rule.filter(|rule| is_anothers(world, rule)) {
        if rule.as_template().is_some() {
            let message =
                format!("Copyrator cannot see {} here, so it leaves the object as it is", rule.said());
            return row(CopyState::Unknown, Unseen::OutOfSight.into(), message);
        }
        let message =
            "this installation ignores annotations of sources, so it leaves their copies as they are";
        return row(CopyState::Waiting, Unseen::NotServed.into(), message.into());
    }
    let message = "no rule wants this object, but Copyrator cannot verify that it is a copy (its digest key differs), so it does not \
     delete it: if the object is a copy, delete it by hand";
    row(CopyState::Blocked, Reason::UnknownKey, message.into())
}

/// Why a copy is orphaned.
fn why_unwanted(world: &World, slot: &ObjectKey, marks: &CopyMarks) -> String {
    let (rule, source) = (&marks.rule, &marks.source);
    if rule.as_template().is_some() {
        return match world.templates().contains_key(rule) {
            true => match instance(world, rule, source) {
                Some(instance) => {
                    format!(
                        "{} does not declare this object for {instance}, or {instance} no longer exists",
                        rule.said()
                    )
                }
                None => format!("{} does not declare this object there", rule.said()),
            },
            false => format!("its {} no longer exists", rule.said()),
        };
    }
    let Some(facts) = world.rules().get(rule) else { return format!("its rule {rule} no longer exists") };
    let Ok(compiled) = &facts.compiled else { return String::new() };
    let key =
        ObjectKey { kind: compiled.kind, namespace: source.namespace.clone(), name: source.name.clone() };
    if world.object(&key).is_none() {
        return format!("its source {key} no longer exists");
    }
    match world.namespaces().get(&slot.namespace) {
        Some(namespace) if !takes_copies(world, &slot.namespace, namespace) => {
            format!("Copyrator does not copy to namespace {}", slot.namespace)
        }
        Some(namespace) if !is_named(compiled, &slot.namespace, namespace) => {
            format!("rule {rule} does not select namespace {}", slot.namespace)
        }
        _ => format!("rule {rule} does not copy {source} there"),
    }
}
