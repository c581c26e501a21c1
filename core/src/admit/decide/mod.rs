//! Decides a review from memory alone, in three steps: `read` decodes the review, `look` copies facts out of
//! the world, `judge` decides. Only `look`, which is short, blocks the writers of the world; `judge` may take
//! its time. Pure: no async, client, clock or logging.

mod annotations;
mod author;
mod canary;
mod case;
mod change;
mod defaults;
mod difference;
mod fields;
mod foresight;
mod in_use;
mod labelled;
mod never_targets;
mod own_kinds;
mod policies;
mod reach;
mod unread;
mod verdict;
mod warnings;

pub use canary::{CANARY, STAMP_PROBE, UNJUDGED, UNSTAMPED, canary_answer};
pub use case::{Parties, Purpose, WriteCase};
pub use foresight::Foresight;
use jiff::Timestamp;
pub use labelled::InstanceCase;
pub use policies::{Breach, Effect, verdict};
pub use unread::{Unread, unread};
pub use verdict::{DecideError, Decision, Denial, Edit, Inquiry, LONGEST_MESSAGE, MetaMap, Verdict};

use self::case::Versions;
use super::decode::Review;
use crate::{
    api::{GROUP, PolicyKind},
    model::World,
};

/// A decoded review, by the facts that its decision needs from the world.
pub enum Case<'a> {
    /// The decision needs no facts from the world.
    Settled(Decision),
    /// A write of a ConfigMap, Secret or Namespace.
    Write(Box<WriteCase<'a>>),
    /// A write of an object that templates may be rendered for.
    Instance(Box<InstanceCase<'a>>),
}

/// The facts that a verdict about a write needs, copied out of the world.
#[derive(Default)]
pub struct Snapshot {
    covering: Vec<policies::Covering>,
    warnings: Vec<String>,
    edits: Vec<Edit>,
}

/// Reads a review: decodes its objects, and decides the review if no facts from the world are needed. `now`
/// is the time of judgement.
///
/// # Errors
/// The review is faulty, so the hook's `failurePolicy` decides.
pub fn read<'a>(
    review: &'a Review<'a>,
    purpose: &'a Purpose,
    parties: &'a Parties,
    now: Timestamp,
) -> Result<Case<'a>, DecideError> {
    let allowed = Ok(Case::Settled(Decision::Now(Verdict::allow())));
    let is_part = review.sub_resource.as_ref().is_some_and(|part| !part.0.is_empty());
    // A write of a Namespace's status or finalizers also stores its labels and annotations. A write of a
    // subresource of our own kinds stores no spec. (Policies judge no scale and no token.)
    if is_part && (review.kind.group == GROUP || !matches!(purpose, Purpose::All | Purpose::Policies)) {
        return allowed;
    }
    match purpose {
        Purpose::Annotations => return annotations::decide(review, parties).map(Case::Settled),
        Purpose::Author => {
            let edits = author::edits(review)?;
            return Ok(Case::Settled(Decision::Now(Verdict { edits, ..Verdict::allow() })));
        }
        _ => {}
    }
    if review.kind.group == GROUP {
        return match purpose {
            Purpose::All | Purpose::OwnKinds | Purpose::Files => {
                own_kinds::decide(review, purpose, parties).map(Case::Settled)
            }
            Purpose::Warnings => Ok(Case::Settled(Decision::Now(warnings::of_deletion(review, parties)))),
            _ => allowed,
        };
    }
    let is_policed = !matches!(purpose, Purpose::OwnKinds | Purpose::Files);
    let Some(kind) = policy_kind(review).filter(|_| is_policed) else {
        let instance = if *purpose == Purpose::Warnings { InstanceCase::read(review)? } else { None };
        return instance.map_or(allowed, |case| Ok(Case::Instance(Box::new(case))));
    };
    let versions = Versions::of(kind, review)?;
    Ok(Case::Write(Box::new(WriteCase { review, purpose, parties, kind, versions, now })))
}

impl Snapshot {
    /// Whether judging may need many times the review's size in memory.
    pub fn is_heavy(&self) -> bool {
        policies::is_heavy(&self.covering)
    }

    fn verdict(&self, breaches: &[Breach]) -> Verdict {
        let mut verdict = policies::verdict(breaches);
        self.warnings.iter().for_each(|warning| verdict.warn(warning.clone()));
        Verdict { edits: self.edits.clone(), ..verdict }
    }
}

impl WriteCase<'_> {
    /// Copies the facts that the verdict needs out of the world.
    ///
    /// # Errors
    /// The world lacks facts that the verdict needs, so the hook's `failurePolicy` decides.
    pub fn look(&self, world: &World) -> Result<Snapshot, DecideError> {
        if !world.is_listed() {
            return Err(DecideError::NotReady);
        }
        let mut known = Snapshot::default();
        match self.purpose {
            Purpose::OwnKinds | Purpose::Files | Purpose::Annotations | Purpose::Author => {}
            Purpose::Policies => known.covering = policies::look(self, world)?,
            Purpose::Warnings => known.warnings = warnings::look(self, world),
            Purpose::Defaults => known.edits = defaults::edits(self, world)?,
            Purpose::All => {
                known.covering = policies::look(self, world)?;
                known.warnings = warnings::look(self, world);
            }
        }
        Ok(known)
    }

    /// Every policy that the write breaks, in the order in which a refusal names them.
    pub fn breaches(&self, known: &Snapshot) -> Vec<Breach> {
        policies::breaches(self, &known.covering)
    }

    /// Allows, refuses or warns, by every policy that covers the write.
    pub fn judge(&self, known: Snapshot) -> Verdict {
        known.verdict(&self.breaches(&known))
    }

    /// Like [`Self::judge`], but `None` if judging would delay other requests for too long.
    pub fn judge_briefly(&self, known: Snapshot) -> Option<Verdict> {
        policies::breaches_briefly(self, &known.covering).map(|breaches| known.verdict(&breaches))
    }
}

fn policy_kind(review: &Review<'_>) -> Option<PolicyKind> {
    let asked = &review.kind;
    PolicyKind::ALL.into_iter().find(|kind| {
        let known = kind.resource();
        known.kind == asked.kind && known.version == asked.version && known.group == asked.group
    })
}
