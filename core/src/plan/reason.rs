//! The reasons for the state of a copy, a rule, a template or a monitor. Conditions, Events and commands use
//! the same words. [`super::copy::rule_status`], `template_status` beside it, and `explain::monitor_status`
//! list the reasons of each status.

use serde::{Serialize, Serializer};

use super::copy::ProblemReason;
use crate::{
    model::{RefusalReason, Unseen},
    validate::SpecFault,
};

/// The reason for a state. JSON and commands write one word for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// Something is wrong with one copy.
    Problem(ProblemReason),
    /// The object's identity lacks a right that the object declares.
    Refused(RefusalReason),
    /// The object is the canary: the webhook's refusal shows that the API server calls the webhook.
    Canary,
    /// The API server has not been asked yet about the identity's rights.
    AuthorityUnknown,
    /// The spec is not valid.
    Invalid,
    /// Copyrator is not granted the kind: it neither reads nor writes objects of the kind.
    KindNotGranted,
    /// The API server does not serve the kind.
    KindNotServed,
    /// The objects of a kind are not known.
    KindUnread,
    /// The spec has `suspend: true`.
    Suspended,
    /// The facts that the decision depends on could not be read.
    Unread,
    /// The copy is missing, and will be created.
    Missing,
    /// The copy differs from its declaration, and will be changed.
    Differs,
    /// No update can correct the copy, so Copyrator deletes and recreates it.
    Replace,
    /// Copyrator takes over an object that it did not make.
    TakeOver,
    /// A rule wants the copy again, so Copyrator removes the removal mark.
    WantedAgain,
    /// The copy's rule was created again under a new CustomResourceDefinition.
    RuleBack,
    /// The copy is orphaned: no rule or template declares the copy any more.
    Unwanted,
    /// The copy is orphaned, and marked for removal.
    Marked,
    /// The copy is orphaned, and stays, without our marks.
    Retain,
    /// The copy is orphaned, and its marks were made with another key.
    UnknownKey,
    /// The object, or its namespace, is being deleted.
    Deleting,
    /// The copy's source keeps changing.
    Braked,
    /// The object, or the field that would change, is immutable.
    Immutable,
    /// The object is a copy: change its source instead.
    Copy,
    /// The object is as it should be.
    InOrder,
    /// The namespace or the object does not exist.
    NotFound,
    /// Copyrator's own objects are in the namespace.
    OwnNamespace,
    /// The namespace is a system namespace.
    SystemNamespace,
    /// The namespace has the label `copyrator.dev/copies: refuse`.
    Refuses,
    /// The rule excludes the namespace.
    Excluded,
    /// The rule does not name the namespace.
    NotATarget,
    /// The rule has no source.
    NoSource,
    /// The rule's sources are in the namespace itself.
    SourceNamespace,
    /// A newer version wrote the spec.
    UnsupportedField,
    /// Annotations have no effect without the label beside them.
    LabelMissing,
    /// The identity has all rights that the object declares.
    Allowed,
    /// Copies are being written.
    Copying,
    /// Objects of a template are being written.
    Rendering,
    /// The template waits for an object that its expressions read.
    WaitingFor,
    /// Every copy is in order.
    AllCopied,
    /// Every object of a template is in order.
    AllRendered,
    /// Not every copy or object is in order.
    Incomplete,
    /// The rule names no namespace that takes copies.
    NoTarget,
    /// The template is rendered for no namespace or object.
    NoInstance,
    /// No object exists that the monitor watches.
    NoObject,
    /// No workload exists that the monitor would restart.
    NoWorkload,
    /// The monitor watches.
    Watching,
}

impl Reason {
    /// The word for statuses and commands.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Problem(reason) => reason.as_str(),
            Self::Refused(reason) => reason.as_str(),
            Self::Canary => "Canary",
            Self::AuthorityUnknown => "AuthorityUnknown",
            Self::Invalid => SpecFault::Invalid.as_str(),
            Self::KindNotGranted => SpecFault::KindNotGranted.as_str(),
            Self::KindNotServed => "KindNotServed",
            Self::KindUnread => "KindUnread",
            Self::Suspended => "Suspended",
            Self::Unread => "Unread",
            Self::Missing => "Missing",
            Self::Differs => "Differs",
            Self::Replace => "Replace",
            Self::TakeOver => "TakeOver",
            Self::WantedAgain => "WantedAgain",
            Self::RuleBack => "RuleBack",
            Self::Unwanted => "Unwanted",
            Self::Marked => "Marked",
            Self::Retain => "Retain",
            Self::UnknownKey => "UnknownKey",
            Self::Deleting => "Deleting",
            Self::Braked => "Braked",
            Self::Immutable => "Immutable",
            Self::Copy => "Copy",
            Self::InOrder => "InOrder",
            Self::NotFound => "NotFound",
            Self::OwnNamespace => "OwnNamespace",
            Self::SystemNamespace => "SystemNamespace",
            Self::Refuses => "Refuses",
            Self::Excluded => "Excluded",
            Self::NotATarget => "NotATarget",
            Self::NoSource => "NoSource",
            Self::SourceNamespace => "SourceNamespace",
            Self::UnsupportedField => SpecFault::UnsupportedField.as_str(),
            Self::LabelMissing => SpecFault::LabelMissing.as_str(),
            Self::Allowed => "Allowed",
            Self::Copying => "Copying",
            Self::Rendering => "Rendering",
            Self::WaitingFor => "WaitingFor",
            Self::AllCopied => "AllCopied",
            Self::AllRendered => "AllRendered",
            Self::Incomplete => "Incomplete",
            Self::NoTarget => "NoTarget",
            Self::NoInstance => "NoInstance",
            Self::NoObject => "NoObject",
            Self::NoWorkload => "NoWorkload",
            Self::Watching => "Watching",
        }
    }
}

impl From<SpecFault> for Reason {
    fn from(fault: SpecFault) -> Self {
        match fault {
            SpecFault::Invalid => Self::Invalid,
            SpecFault::UnsupportedField => Self::UnsupportedField,
            SpecFault::LabelMissing => Self::LabelMissing,
            SpecFault::KindNotGranted => Self::KindNotGranted,
        }
    }
}

impl From<ProblemReason> for Reason {
    fn from(reason: ProblemReason) -> Self {
        Self::Problem(reason)
    }
}

impl From<Unseen> for Reason {
    fn from(unseen: Unseen) -> Self {
        Self::Problem(ProblemReason::Unseen(unseen))
    }
}

impl Serialize for Reason {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}
