//! What is answered to a review, from memory alone. Pure: no async, client, clock or logging.

mod canary;
mod defaults;
mod fields;
mod own_kinds;
mod policies;
mod reach;
mod verdict;
mod warnings;

use std::collections::BTreeSet;

pub use canary::{CANARY, canary_token};
pub use verdict::{DecideError, Decision, Edit, Inquiry, MetaMap, Verdict};

use super::decode::{Operation, Review};
use crate::{
    api::{GROUP, PolicyKind},
    authority::TrustedWriters,
    model::World,
};

/// What of a review is decided: each hook asks for one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Purpose {
    /// Everything that applies (by hand, or from the command line).
    All,
    /// Our own kinds.
    OwnKinds,
    /// Policies.
    Policies,
    /// Warnings.
    Warnings,
    /// Defaults.
    Defaults,
}

/// Who we are and whom we trust.
#[derive(Clone, Debug, Default)]
pub struct Parties {
    /// The user names that we write with; copies that they write are judged at their source.
    pub own: BTreeSet<String>,
    /// Accounts of other namespaces that may write without `serviceAccountName`.
    pub trusted: TrustedWriters,
}

/// Decides a review.
///
/// # Errors
/// The fault is ours or the review's, so that the hook's failure policy decides.
pub fn decide(
    review: &Review<'_>,
    world: &World,
    purpose: Purpose,
    parties: &Parties,
) -> Result<Decision, DecideError> {
    if review.sub_resource.as_ref().is_some_and(|part| !part.0.is_empty()) {
        return Ok(Decision::Now(Verdict::allow()));
    }
    if review.kind.group == GROUP {
        return match purpose {
            Purpose::All | Purpose::OwnKinds => own_kinds::decide(review, parties),
            _ => Ok(Decision::Now(Verdict::allow())),
        };
    }
    let Some(kind) = policy_kind(review) else { return Ok(Decision::Now(Verdict::allow())) };
    if !world.expected.is_subset(&world.complete) {
        return Err(DecideError::NotReady);
    }
    let mut verdict = Verdict::allow();
    match purpose {
        Purpose::OwnKinds => {}
        Purpose::Policies => verdict = policies::decide(kind, review, world, parties)?,
        Purpose::Warnings => warnings::add(kind, review, world, &mut verdict)?,
        Purpose::Defaults => verdict.edits = defaults::edits(kind, review, world, parties)?,
        Purpose::All => {
            verdict = policies::decide(kind, review, world, parties)?;
            warnings::add(kind, review, world, &mut verdict)?;
        }
    }
    Ok(Decision::Now(verdict))
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
    new: Option<crate::validate::Candidate<'a>>,
    old: Option<crate::validate::Candidate<'a>>,
}

impl<'a> Versions<'a> {
    fn of(kind: PolicyKind, review: &Review<'a>) -> Result<Self, DecideError> {
        let read = |what, raw: Option<&'a serde_json::value::RawValue>| {
            raw.map(|raw| crate::validate::Candidate::decode(kind, raw.get()))
                .transpose()
                .map_err(|source| DecideError::Unreadable { what, source })
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
