//! The number of objects of a rule or template in each state, for the status.

use jiff::Timestamp;

use super::{
    problem::{CopyProblem, ProblemReason},
    slot_plan::SlotState,
    spread::LargeSpread,
    unreadable::unreadable_said,
};
use crate::{
    api::{Problem, WORST_PROBLEMS},
    model::{UnreadObject, WriteFault},
    names::ObjectKey,
};

/// The numbers of a rule's copies. All are zero for a rule that writes nothing at present (invalid,
/// suspended, not authorized): its status gives the reason, and missing copies of the rule should cause no
/// alert.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// How many copies should exist.
    pub desired: usize,
    /// How many copies are as they should be.
    pub current: usize,
    /// How many copies are blocked by a foreign object, a different rule or source, or a foreign writer.
    pub conflicting: usize,
    /// How many copies were refused or could not be written, and how many copies of an earlier spec may not
    /// be deleted.
    pub failed: usize,
}

/// The states of the objects of a rule or template, in numbers, and the problems.
#[derive(Default)]
pub(super) struct Count {
    pub(super) sources: usize,
    pub(super) desired: usize,
    pub(super) current: usize,
    /// Slots that a problem blocks.
    pub(super) hindered: usize,
    /// Slots that are blocked because our own account lacks a right.
    pub(super) forbidden: usize,
    /// Copies whose source keeps changing.
    pub(super) braked: usize,
    /// When the last of the copies whose source keeps changing will be written.
    pub(super) until: Option<Timestamp>,
    /// The first source that is large for so many targets.
    pub(super) large: Option<LargeSpread>,
    /// Orphaned copies that are still in their grace period.
    pub(super) leaving: usize,
    /// Literally named sources that do not exist.
    pub(super) absent_sources: Vec<ObjectKey>,
    /// The first unreadable object that the rule or template may need, in words.
    pub(super) unreadable: Option<String>,
    /// Which literally named target namespaces do not exist, in words.
    pub(super) absent_targets: Option<String>,
    /// Whether all targets that the rule names are absent.
    pub(super) is_nowhere: bool,
    /// The first problems, up to the limit of a status.
    pub(super) problems: Vec<Problem>,
    /// The reason why the first object waits for other objects of its template.
    pub(super) waiting: Option<String>,
    /// How many objects wait for other objects of their template.
    pub(super) waiting_objects: usize,
    /// How many problems are disputes over a slot.
    pub(super) conflicting: usize,
    /// How many problems are not disputes over a slot.
    pub(super) failed: usize,
    /// How many objects exist and differ from their declaration.
    pub(super) altered: usize,
    /// The first objects that differ from their declaration, up to the limit of a status. A status lists
    /// these after all problems.
    pub(super) alterations: Vec<Problem>,
}

impl Count {
    /// Counts a problem, and keeps the problem while the list is short.
    pub(super) fn add(&mut self, reason: ProblemReason, problem: Problem) {
        match reason.is_conflict() {
            true => self.conflicting += 1,
            false => self.failed += 1,
        }
        list(&mut self.problems, reason, problem);
    }

    /// Counts an object that cannot be read.
    pub(super) fn unread(&mut self, object: &UnreadObject, why: &str) {
        let message = unreadable_said(object, why);
        self.unreadable.get_or_insert_with(|| message.clone());
        let (namespace, name) = (object.namespace().to_string(), object.name().to_string());
        self.add(ProblemReason::Unreadable, Problem { namespace, name, message, ..Problem::default() });
    }

    /// Counts a slot that a problem blocks.
    pub(super) fn block(&mut self, problem: CopyProblem) {
        self.hindered += 1;
        self.forbidden += usize::from(problem.reason == ProblemReason::Fault(WriteFault::Forbidden));
        self.add(problem.reason, problem.into());
    }

    /// Counts the state of a slot.
    pub(super) fn state(&mut self, state: SlotState) {
        match state {
            SlotState::Current => self.current += 1,
            // The existing object works and needs no write, so no alert counts the slot.
            SlotState::Altered(problem) => {
                self.current += 1;
                self.altered += 1;
                list(&mut self.alterations, problem.reason, problem.into());
            }
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

    /// The reason why the first object waits, if no object is in order and each object that is still to be
    /// written waits.
    pub(super) fn only_waits(&self) -> Option<String> {
        let is_so = self.current == 0 && self.waiting_objects == self.pending();
        self.waiting.clone().filter(|_| is_so)
    }

    /// How many objects are still to be written.
    pub(super) fn pending(&self) -> usize {
        self.desired - self.current - self.hindered
    }
}

fn list(problems: &mut Vec<Problem>, reason: ProblemReason, problem: Problem) {
    let problem = Problem { reason: reason.as_str().into(), ..problem };
    let is_listed = |known: &Problem| (&known.reason, &known.message) == (&problem.reason, &problem.message);
    if problems.len() < WORST_PROBLEMS || problems.iter().any(is_listed) {
        problem.join(problems);
    }
}
