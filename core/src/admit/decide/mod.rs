//! What is answered to a review, from memory alone, in three steps: `read` the review, `look` at the world,
//! `judge`. Only the second holds up the writers of the world, and it is short; the third may take its time.
//! Pure: no async, client, clock or logging.

mod annotations;
mod author;
mod canary;
mod defaults;
mod fields;
mod foresight;
mod in_use;
mod own_kinds;
mod policies;
mod reach;
mod verdict;
mod warnings;

use std::collections::BTreeSet;

pub use canary::{CANARY, STAMP_PROBE, UNSTAMPED, canary_answer};
pub use foresight::Foresight;
use jiff::Timestamp;
pub use policies::{Breach, Effect};
pub use verdict::{DecideError, Decision, Edit, Inquiry, LONGEST_MESSAGE, MetaMap, Verdict};

use super::decode::{Operation, Review};
use crate::{
    api::{GROUP, PolicyKind},
    authority::TrustedWriters,
    model::World,
    validate::Candidate,
};

/// Which part of a review is decided: each hook asks for one.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Purpose {
    /// Everything that applies (by hand, or from the command line).
    All,
    /// Our own kinds.
    OwnKinds,
    /// Annotations that ask for copies.
    Annotations,
    /// Policies.
    Policies,
    /// Warnings.
    Warnings,
    /// Defaults.
    Defaults,
    /// The author's stamp.
    Author,
}

/// Who we are and whom we trust.
#[derive(Clone, Debug, Default)]
pub struct Parties {
    /// The user names that we write with; copies that they write are judged before.
    pub own: BTreeSet<String>,
    /// Accounts of other namespaces that may write without `serviceAccountName`.
    pub trusted: TrustedWriters,
}

/// A review, read.
pub enum Case<'a> {
    /// Nothing of the cluster needs to be known.
    Settled(Decision),
    /// A write of a ConfigMap, Secret or Namespace.
    Write(Box<WriteCase<'a>>),
}

/// A write of a ConfigMap, Secret or Namespace.
pub struct WriteCase<'a> {
    review: &'a Review<'a>,
    purpose: &'a Purpose,
    parties: &'a Parties,
    kind: PolicyKind,
    versions: Versions<'a>,
    now: Timestamp,
}

/// What is known of the cluster about a write, apart from the world.
#[derive(Default)]
pub struct Known {
    covering: Vec<policies::Covering>,
    warning: Option<String>,
    edits: Vec<Edit>,
}

/// Reads a review: objects are decoded, and our own kinds understood. `now` is when it is judged.
///
/// # Errors
/// The fault is the review's, so that the hook's failure policy decides.
pub fn read<'a>(
    review: &'a Review<'a>,
    purpose: &'a Purpose,
    parties: &'a Parties,
    now: Timestamp,
) -> Result<Case<'a>, DecideError> {
    let allowed = Ok(Case::Settled(Decision::Now(Verdict::allow())));
    if review.sub_resource.as_ref().is_some_and(|part| !part.0.is_empty()) {
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
            Purpose::All | Purpose::OwnKinds => own_kinds::decide(review, parties).map(Case::Settled),
            Purpose::Warnings => Ok(Case::Settled(Decision::Now(warnings::of_deletion(review)))),
            _ => allowed,
        };
    }
    let Some(kind) = policy_kind(review).filter(|_| *purpose != Purpose::OwnKinds) else { return allowed };
    let versions = Versions::of(kind, review)?;
    Ok(Case::Write(Box::new(WriteCase { review, purpose, parties, kind, versions, now })))
}

impl Known {
    /// Whether judging may take many times the memory of the review.
    pub fn is_heavy(&self) -> bool {
        policies::is_heavy(&self.covering)
    }

    fn verdict(&self, breaches: &[Breach]) -> Verdict {
        let mut verdict = policies::verdict(breaches);
        if let Some(warning) = &self.warning {
            verdict.warn(warning.clone());
        }
        Verdict { edits: self.edits.clone(), ..verdict }
    }
}

impl WriteCase<'_> {
    /// Takes what the verdict needs out of the world.
    ///
    /// # Errors
    /// The fault is ours, so that the hook's failure policy decides.
    pub fn look(&self, world: &World) -> Result<Known, DecideError> {
        if !world.is_listed() {
            return Err(DecideError::NotReady);
        }
        let mut known = Known::default();
        match self.purpose {
            Purpose::OwnKinds | Purpose::Annotations | Purpose::Author => {}
            Purpose::Policies => known.covering = policies::look(self, world)?,
            Purpose::Warnings => known.warning = warnings::look(self, world),
            Purpose::Defaults => known.edits = defaults::edits(self, world)?,
            Purpose::All => {
                known.covering = policies::look(self, world)?;
                known.warning = warnings::look(self, world);
            }
        }
        Ok(known)
    }

    /// Everything by which the write breaks policies, in the order in which a refusal names it.
    pub fn breaches(&self, known: &Known) -> Vec<Breach> {
        policies::breaches(self, &known.covering)
    }

    /// The verdict.
    pub fn judge(&self, known: Known) -> Verdict {
        known.verdict(&self.breaches(&known))
    }

    /// The verdict, where it takes no longer than others can wait.
    pub fn judge_briefly(&self, known: Known) -> Option<Verdict> {
        policies::breaches_briefly(self, &known.covering).map(|breaches| known.verdict(&breaches))
    }
}

fn policy_kind(review: &Review<'_>) -> Option<PolicyKind> {
    match (&*review.kind.group, &*review.kind.version, &*review.kind.kind) {
        ("", "v1", "ConfigMap") => Some(PolicyKind::ConfigMap),
        ("", "v1", "Secret") => Some(PolicyKind::Secret),
        ("", "v1", "Namespace") => Some(PolicyKind::Namespace),
        _ => None,
    }
}

/// The object as it would be and as it is, as far as the operation has them.
struct Versions<'a> {
    new: Option<Candidate<'a>>,
    old: Option<Candidate<'a>>,
}

impl<'a> Versions<'a> {
    fn of(kind: PolicyKind, review: &Review<'a>) -> Result<Self, DecideError> {
        let read = |what, raw: Option<&'a serde_json::value::RawValue>| {
            let decoded = raw.map(|raw| Candidate::decode(kind, raw.get())).transpose();
            let mut object = decoded.map_err(|source| DecideError::Unreadable { what, source })?;
            if let Some(object) = object.as_mut().filter(|object| object.namespace.is_empty()) {
                object.namespace = review.namespace.clone();
            }
            Ok(object)
        };
        let versions =
            Self { new: read("object", review.object)?, old: read("oldObject", review.old_object)? };
        let needs = |operations: &[Operation]| operations.contains(&review.operation);
        if versions.new.is_none() && needs(&[Operation::Create, Operation::Update]) {
            return Err(DecideError::Missing("object"));
        }
        if versions.old.is_none() && needs(&[Operation::Update]) {
            return Err(DecideError::Missing("oldObject"));
        }
        Ok(versions)
    }
}
