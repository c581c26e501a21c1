//! The trial of a template: the writes for one instance, which a dry run checks before the first object of a
//! new version of the template is written. A type error in one object also delays the instance's other
//! objects.

use jiff::Timestamp;

use super::{CopyAction, CopyWrite, ProblemReason, SlotPlan, SlotState, plan_slot};
use crate::{
    model::{World, WriteFault},
    names::{Declarer, ObjectKey},
};

/// The writes that a trial checks.
#[derive(Debug)]
pub struct Trial {
    /// The template.
    pub template: Declarer,
    /// UID and generation of the template.
    pub version: (Box<str>, i64),
    /// The writes for one instance, including the write of the planned slot.
    pub writes: Vec<(ObjectKey, Box<CopyWrite>)>,
    /// Whether the writes and the objects without a needed write are together all objects of the instance.
    pub is_whole: bool,
    /// The object whose type error an earlier trial found, and the API server's message.
    pub known: Option<(ObjectKey, String)>,
    /// The objects that an earlier type error of another object holds back.
    pub held_back: Vec<ObjectKey>,
}

/// Returns the trial that comes before the write of this plan; `None` if the plan writes no object of a
/// template, or an instance of this version of the template has passed its trial.
pub fn trial(world: &World, slot: &ObjectKey, plan: &SlotPlan, now: Timestamp) -> Option<Trial> {
    let Some(CopyAction::Write(write)) = &plan.action else { return None };
    let template = plan.rule.as_ref()?;
    let facts = world.templates().get(template)?;
    if world.memory().has_passed(template, facts.version()) {
        return None;
    }
    let (_, _, set, _) = world.rendered_at(slot).find(|(declaring, instance, ..)| {
        let source = instance.source(template);
        *declaring == template
            && (source.namespace, source.name) == (write.source.namespace.clone(), write.source.name.clone())
    })?;
    let mut trial = Trial {
        template: template.clone(),
        version: (facts.uid.clone(), facts.generation),
        writes: Vec::new(),
        is_whole: set.faults.is_empty(),
        known: None,
        held_back: Vec::new(),
    };
    for object in &set.objects {
        let other = plan_slot(world, &object.slot, now);
        let is_its = other.rule.as_ref() == Some(template);
        match (other.action, other.state) {
            (Some(CopyAction::Write(write)), _) if is_its => trial.writes.push((object.slot.clone(), write)),
            (_, SlotState::Blocked(problem)) if problem.reason == MISTYPED && object.slot != *slot => {
                // The problem's message also contains the time of the next try.
                let last = world.memory().slot(&object.slot).attempt();
                let message = last.map_or(problem.message, |last| last.message.clone());
                trial.known.get_or_insert((object.slot.clone(), message));
            }
            (_, SlotState::Blocked(problem)) if problem.reason == HELD_BACK => {
                trial.is_whole = false;
                trial.held_back.push(object.slot.clone());
            }
            (_, SlotState::Current | SlotState::Altered(_)) if other.needs.is_empty() => {}
            _ => trial.is_whole = false,
        }
    }
    Some(trial).filter(|trial| !trial.writes.is_empty())
}

const MISTYPED: ProblemReason = ProblemReason::Fault(WriteFault::Mistyped);
const HELD_BACK: ProblemReason = ProblemReason::Fault(WriteFault::HeldBack);
