//! The verdict about a write whose review the webhook does not read completely. A large write must not bypass
//! policies that would refuse it.

use std::fmt;

use super::{DecideError, Denial, Parties, Verdict, policy_kind};
use crate::{
    admit::decode::{BODY_LIMIT, Operation, Review},
    api::{Action, PolicyKind, WhileInUse},
    model::{PolicyFacts, World},
    plan::policy::scan::judging,
    validate::Candidate,
};

/// The maximum number of policies that a refusal names.
const MOST_NAMED: usize = 10;

/// The reason why the webhook does not read a review completely.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unread {
    /// The review is larger than [`BODY_LIMIT`].
    TooLarge,
    /// Other large reviews take all memory that is reserved for them.
    NoRoom,
    /// The webhook already judges the maximum number of reviews about the namespace.
    NoTurn,
}

impl fmt::Display for Unread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLarge => write!(
                f,
                "its AdmissionReview is larger than {} MiB (a control character counts as six bytes): make the object smaller",
                BODY_LIMIT >> 20
            ),
            Self::NoRoom => {
                f.write_str("the webhook is processing too many large reviews: try again in a moment")
            }
            Self::NoTurn => f.write_str(
                "the webhook is processing too many writes to this namespace: try again in a moment",
            ),
        }
    }
}

/// Refuses a write that a policy with `Deny` may cover. `review` lacks the objects, so their labels are
/// unknown and exempt no object.
///
/// # Errors
/// The webhook does not know the cluster yet, so the hook's `failurePolicy` decides.
pub fn unread(
    review: &Review<'_>,
    parties: &Parties,
    world: &World,
    why: Unread,
) -> Result<Verdict, DecideError> {
    if !world.is_listed() {
        return Err(DecideError::NotReady);
    }
    // Copyrator has judged the copies that its own accounts write.
    let is_ours = parties.own.contains(&review.user_info.username);
    let Some(kind) = policy_kind(review).filter(|_| !is_ours) else { return Ok(Verdict::allow()) };
    let object = Candidate::of_metadata(kind, &review.namespace, &review.name, Default::default());
    let labels = world.namespaces().get(&*review.namespace).map(|facts| &facts.labels);
    // The API server generates the name of the object later.
    let is_unnamed = review.name.is_empty();
    let refuses = |facts: &PolicyFacts| {
        let Ok(policy) = &facts.compiled else { return false };
        policy.actions().contains(&Action::Deny)
            && judges(facts, kind, review.operation)
            && (policy.may_cover(&object, labels) != Some(false)
                || is_unnamed && facts.spec.match_.kinds.contains(&kind))
    };
    let policies = world.policies().iter().filter(|(_, facts)| refuses(facts));
    let names: Vec<&str> = policies.map(|(name, _)| &**name).collect();
    if names.is_empty() {
        return Ok(Verdict::allow());
    }
    let place = match kind {
        PolicyKind::Namespace => String::new(),
        _ => format!("{}/", review.namespace),
    };
    let named = names.iter().take(MOST_NAMED).copied().collect::<Vec<_>>().join(", ");
    let message = format!(
        "copyrator: policy {named} cannot check {} {place}{}: {why}",
        kind.resource().kind,
        review.name
    );
    let denial = match why {
        Unread::TooLarge => Denial::Forbidden,
        Unread::NoRoom | Unread::NoTurn => Denial::TooManyRequests,
    };
    let mut verdict = Verdict::refuse(denial, &message);
    verdict.audit.insert("verdict".into(), "refused".into());
    Ok(verdict)
}

/// Whether a policy judges this operation on this kind.
fn judges(facts: &PolicyFacts, kind: PolicyKind, operation: Operation) -> bool {
    let keeps = facts.spec.while_in_use == WhileInUse::Refuse && kind != PolicyKind::Namespace;
    match operation {
        Operation::Create => judging(facts).is_some(),
        Operation::Update => judging(facts).is_some() || keeps,
        Operation::Delete => keeps,
        Operation::Connect => false,
    }
}
