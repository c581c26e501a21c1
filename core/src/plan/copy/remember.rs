//! Records the result of carrying out a slot's plan, or of examining its object. This file writes these
//! results into [`crate::model::Memory`]; the effects of events are written in `model/`.

use jiff::Timestamp;

use super::{
    hold::{Failure, attempted, repaired},
    removal::unmarked,
    slot_plan::{CopyAction, CopyWrite},
    spread::spread,
};
use crate::{
    model::{Attempt, Comparison, SlotMemory, World, WriteFault},
    names::ObjectKey,
};

/// The outcome of the action of a slot's plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Acted {
    /// The write succeeded, or no write was necessary; contains the stored object, if the reconciler read it
    /// back.
    Done(Option<Made>),
    /// An update is not possible, only deleting and recreating the object; with the API server's message,
    /// without values.
    NeedsReplacing(String),
    /// The write was refused, and is tried again at the time of the [`Attempt`].
    Refused(WriteFault, String),
    /// The write failed and may soon succeed: the queue tries it again.
    Failed(WriteFault, String),
    /// The write was not made: the facts behind the decision have changed.
    Outdated,
}

/// The object that the API server stores for a write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Made {
    /// The paths of the fields that the API server does not keep; usually empty.
    pub not_kept: Vec<String>,
    /// Hash of the existing object, as in [`crate::model::Compared::object`].
    pub object: u64,
}

/// Remembers the outcome of a slot's action, for the next plan and for the rule's status. Returns whether the
/// outcome is new: a repeated refusal is not.
pub fn settle_slot(
    world: &mut World,
    slot: &ObjectKey,
    action: &CopyAction,
    acted: Acted,
    now: Timestamp,
) -> bool {
    if acted == Acted::Outdated {
        // The result of the last attempt is still valid, and so is the grace of an object that could not be
        // marked.
        return true;
    }
    let last = forget_attempt(world, slot);
    let attempt = match (action, acted) {
        (CopyAction::Write(write), Acted::Done(made)) => {
            written(world, slot, write, made, now);
            None
        }
        (CopyAction::Write(write), acted) => {
            failed(write, acted).map(|failure| attempted(world, slot, write, failure, last.as_deref(), now))
        }
        (
            CopyAction::MarkRemoval(_, after) | CopyAction::MarkStaying(_, after),
            Acted::Failed(reason, message) | Acted::Refused(reason, message),
        ) => unmarked(world, slot, *after, reason, message),
        _ => None,
    };
    let Some(attempt) = attempt else { return true };
    let said = |attempt: &Attempt| (attempt.reason, attempt.message.clone());
    let is_again =
        matches!(action, CopyAction::Write(_)) && Some(said(&attempt)) == last.as_deref().map(said);
    world.memory_mut().at_slot(slot, |memory| memory.failed(attempt));
    !is_again
}

/// Forgets the last attempt to write to a slot that needs no write any more.
pub fn forget_attempt(world: &mut World, slot: &ObjectKey) -> Option<Box<Attempt>> {
    world.memory_mut().at_slot(slot, SlotMemory::forget_attempt)
}

fn failed(write: &CopyWrite, acted: Acted) -> Option<Failure> {
    let (replace, reason, message) = match acted {
        // Deleting the object and creating it again did not help, so the write is treated as refused.
        Acted::NeedsReplacing(message) => (!write.anew, WriteFault::Refused, message),
        Acted::Refused(reason, message) | Acted::Failed(reason, message) => (false, reason, message),
        Acted::Done(_) | Acted::Outdated => return None,
    };
    Some(Failure { replace, reason, message })
}

fn written(world: &mut World, slot: &ObjectKey, write: &CopyWrite, made: Option<Made>, now: Timestamp) {
    // The facts of an object that no watch showed are outdated now.
    world.memory_mut().ask_now(slot);
    let digest = &write.intent.marks.digest;
    let spread = write.follows.then(|| spread(world, slot, now));
    world.memory_mut().at_slot(slot, |slot| {
        let repairs = repaired(slot.repairs().cloned(), digest, write.replaces.is_none(), now);
        slot.written(repairs, made.map(|made| (made.not_kept, made.object)));
        spread.into_iter().for_each(|spread| slot.followed(spread));
    });
    // If the write changed nothing, no watch event follows.
    let known = world.object(slot).filter(|facts| {
        write.replaces.as_ref().is_some_and(|version| version.resource_version == facts.resource_version)
    });
    if let Some(edition) = known.map(|facts| facts.edition().to_owned()) {
        world.note_drift(slot, &edition, false);
    }
}

/// Remembers what an examination of a slot's object has found: a difference, unless a write is known not to
/// help, or the fields of the content of this digest that the API server does not keep. Returns whether the
/// object differs.
pub fn settle_examined(
    world: &mut World,
    slot: &ObjectKey,
    digest: &str,
    comparison: Comparison,
    not_kept: Vec<String>,
) -> bool {
    world.memory_mut().at_slot(slot, |memory| memory.examined(digest, comparison, not_kept))
}

/// Remembers that a copy was read, and has the content that it should have.
pub fn settle_compared(world: &mut World, slot: &ObjectKey) {
    let is_compared = world.object(slot).is_some_and(|facts| !facts.is_declared());
    if is_compared && world.memory().slot(slot).not_kept().is_some() {
        world.memory_mut().at_slot(slot, SlotMemory::all_kept);
    }
}
