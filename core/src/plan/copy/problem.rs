//! Why a slot does not have the copy that a rule declares: the reasons of problems in a rule's status.

use super::claims::Claim;
use crate::{
    api::Problem,
    model::{Unseen, WriteFault},
    names::{Declarer, ObjectKey},
};

/// The reason why one slot does not have the copy that a rule declares.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CopyProblem {
    /// The place of the copy that the problem is about.
    pub slot: ObjectKey,
    /// The kind of problem.
    pub reason: ProblemReason,
    /// The problem and its remedy, without values of Secrets.
    pub message: String,
}

/// The kinds of problems of copies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProblemReason {
    /// A read or a write failed, or is known to be refused.
    Fault(WriteFault),
    /// The slot belongs to a different rule.
    OtherRule,
    /// The slot belongs to a different source of the same rule.
    DuplicateName,
    /// Another writer changes or deletes the copy again and again.
    Contested,
    /// The object in the slot is being deleted, and a finalizer keeps it.
    Terminating,
    /// The rule has more copies than one rule may have.
    TooMany,
    /// An orphaned copy stays: its rule may have been deleted together with the CustomResourceDefinition.
    Held,
    /// An expression of a template has no value, or a value that cannot be used in an object.
    RenderFailed,
    /// Expressions wait: the namespace that pays for them has used up its processor time.
    OverBudget,
    /// Another field manager owns a status field that a template writes.
    FieldOwned,
    /// Templates read each other's status fields, so each write causes the next.
    Unstable,
    /// The API server does not keep all written fields: the object exists, and differs from its declaration.
    NotKept,
    /// The namespace of the slot is not read.
    Unseen(Unseen),
    /// An object that matters cannot be read.
    Unreadable,
}

impl ProblemReason {
    const ALL: [Self; 21] = [
        Self::Fault(WriteFault::Forbidden),
        Self::Fault(WriteFault::Failed),
        Self::Fault(WriteFault::Refused),
        Self::Fault(WriteFault::Mistyped),
        Self::Fault(WriteFault::RefusedByPolicy),
        Self::Fault(WriteFault::TooLarge),
        Self::Fault(WriteFault::Conflict),
        Self::OtherRule,
        Self::DuplicateName,
        Self::Contested,
        Self::Terminating,
        Self::TooMany,
        Self::Held,
        Self::RenderFailed,
        Self::OverBudget,
        Self::FieldOwned,
        Self::Unstable,
        Self::NotKept,
        Self::Unseen(Unseen::NotServed),
        Self::Unseen(Unseen::OutOfSight),
        Self::Unreadable,
    ];

    /// The kind of a problem that a status lists; `None` for a problem that concerns no copy, or that another
    /// version wrote.
    pub fn of(problem: &Problem) -> Option<Self> {
        Self::ALL.into_iter().find(|reason| reason.as_str() == problem.reason)
    }

    /// The word for statuses and commands.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Fault(fault) => fault.as_str(),
            Self::OtherRule => "OtherRule",
            Self::DuplicateName => "DuplicateName",
            Self::Contested => "Contested",
            Self::Terminating => "Terminating",
            Self::TooMany => "TooMany",
            Self::Held => "Held",
            Self::RenderFailed => "RenderFailed",
            Self::OverBudget => "OverBudget",
            Self::FieldOwned => "FieldOwned",
            Self::Unstable => "Unstable",
            Self::NotKept => "NotKept",
            Self::Unseen(unseen) => unseen.as_str(),
            Self::Unreadable => "Unreadable",
        }
    }

    /// Whether somebody else claims or writes the slot; every other problem is a failure.
    pub(super) fn is_conflict(self) -> bool {
        match self {
            Self::Fault(WriteFault::Conflict)
            | Self::OtherRule
            | Self::DuplicateName
            | Self::FieldOwned
            | Self::Unstable
            | Self::Contested => true,
            Self::Fault(
                WriteFault::Forbidden
                | WriteFault::Failed
                | WriteFault::Refused
                | WriteFault::NoRoom
                | WriteFault::RoomHeld
                | WriteFault::Unfit
                | WriteFault::Mistyped
                | WriteFault::HeldBack
                | WriteFault::RefusedByPolicy
                | WriteFault::TooLarge,
            )
            | Self::Terminating
            | Self::TooMany
            | Self::Held
            | Self::RenderFailed
            | Self::OverBudget
            | Self::NotKept
            | Self::Unseen(_)
            | Self::Unreadable => false,
        }
    }
}

impl CopyProblem {
    /// The problem of one slot.
    pub(super) fn new(slot: &ObjectKey, reason: ProblemReason, message: impl Into<String>) -> Self {
        Self { slot: slot.clone(), reason, message: message.into() }
    }

    /// A read or write of the slot that failed or is known to be refused.
    pub(super) fn fault(slot: &ObjectKey, fault: WriteFault, message: impl Into<String>) -> Self {
        Self::new(slot, ProblemReason::Fault(fault), message)
    }

    /// The copy in this slot belongs to a different rule.
    pub(crate) fn served_by_another(slot: &ObjectKey, other: Option<&Declarer>) -> Self {
        let other = other.map_or_else(|| "another rule".to_owned(), Declarer::said);
        let message = format!(
            "{other} also writes this object and takes precedence: exclude the namespace in one of the two"
        );
        Self::new(slot, ProblemReason::OtherRule, message)
    }

    /// The rule would copy a second object to this slot, too.
    pub(crate) fn duplicate(slot: &ObjectKey, claim: &Claim<'_>, other: &ObjectKey) -> Self {
        let message = match claim.rule.as_template() {
            None => format!(
                "the copy of {other} would have the same name as the copy of {}, which stays: narrow spec.source, add {{namespace}} to \
                 copy.name, or set source.prefer: Newest",
                claim.source
            ),
            Some(_) => format!(
                "instances {} and {} both declare this object, and the first one keeps it: use object.metadata.name in its name, or \
                 select fewer instances",
                claim.source.name, other.name
            ),
        };
        Self::new(slot, ProblemReason::DuplicateName, message)
    }
}

/// The problem as an entry of a status.
impl From<CopyProblem> for Problem {
    fn from(problem: CopyProblem) -> Self {
        Self {
            namespace: problem.slot.namespace.to_string(),
            name: problem.slot.name.to_string(),
            reason: problem.reason.as_str().into(),
            message: problem.message,
            ..Self::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn a_problem_of_a_status_is_read_as_what_it_was() {
        let words: BTreeSet<&str> = ProblemReason::ALL.into_iter().map(ProblemReason::as_str).collect();
        assert_eq!(words.len(), ProblemReason::ALL.len(), "two reasons have one word");
        for reason in ProblemReason::ALL {
            let slot = ObjectKey::new(crate::names::Kind::Secret, "shop", "tls");
            assert_eq!(ProblemReason::of(&CopyProblem::new(&slot, reason, "").into()), Some(reason));
        }
        let newer = Problem { reason: "OfLater".into(), ..Problem::default() };
        assert_eq!(ProblemReason::of(&newer), None);
    }
}
