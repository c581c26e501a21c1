//! Decisions about a review: verdicts, questions to the API server, and errors.

use std::collections::BTreeMap;

use super::foresight::{Foresight, Written};
use crate::{
    authority::{Identity, Question, Subject},
    model::{RefusalReason, World},
    names::NamespacedName,
    plan::Reason,
    validate::printable,
};

/// The longest message of a refusal, in bytes.
pub const LONGEST_MESSAGE: usize = 1024;
/// The maximum number of warnings in an answer.
const MOST_WARNINGS: usize = 10;

/// The answer to a review.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// The reason for a refusal; `None` if the write is allowed.
    pub denial: Option<Denial>,
    /// The message of a refusal; empty if the write is allowed.
    pub message: String,
    /// The warnings that kubectl prints to the writer.
    pub warnings: Vec<String>,
    /// Audit annotations, by key.
    pub audit: BTreeMap<String, String>,
    /// Changes to the object's metadata, in order.
    pub edits: Vec<Edit>,
}

/// The reason for a refusal: the code and the `reason` of the Status that the API server returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Denial {
    /// The write is the canary, whose refusal shows that the API server calls the webhook.
    Canary,
    /// The user, or the account that would act, lacks a right, or a policy forbids the write.
    Forbidden,
    /// The object is not valid.
    Invalid,
    /// The user should try again in a moment.
    TooManyRequests,
}

impl Denial {
    /// The HTTP status code.
    pub fn code(self) -> u16 {
        match self {
            Self::Canary => 418,
            Self::Forbidden => 403,
            Self::Invalid => 422,
            Self::TooManyRequests => 429,
        }
    }

    /// The `reason` of the Status.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Canary => "Canary",
            Self::Forbidden => "Forbidden",
            Self::Invalid => "Invalid",
            Self::TooManyRequests => "TooManyRequests",
        }
    }
}

/// The word for the reason in a plan that predicts the webhook's refusal.
impl From<Denial> for Reason {
    fn from(denial: Denial) -> Self {
        match denial {
            Denial::Canary => Self::Canary,
            Denial::Forbidden => Self::Refused(RefusalReason::Forbidden),
            Denial::Invalid => Self::Invalid,
            Denial::TooManyRequests => Self::Refused(RefusalReason::TooManyQuestions),
        }
    }
}

/// One change of an object's metadata.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Edit {
    /// Creates the map, which must exist before an entry can be added.
    CreateMap(MetaMap),
    /// Adds an entry with key and value, or replaces the entry with the same key.
    Set(MetaMap, String, String),
    /// Removes an existing entry.
    Remove(MetaMap, String),
}

/// A map of an object's metadata.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetaMap {
    /// `metadata.labels`, in which policies set defaults.
    Labels,
    /// `metadata.annotations`, in which policies set defaults and a hook sets the author's stamp.
    Annotations,
}

impl MetaMap {
    /// The name of the field below `metadata`.
    pub fn field(self) -> &'static str {
        match self {
            Self::Labels => "labels",
            Self::Annotations => "annotations",
        }
    }
}

/// A verdict, or the questions that the API server must answer first.
#[derive(Debug)]
pub enum Decision {
    /// The verdict needs no answer of the API server.
    Now(Verdict),
    /// The verdict is `allow`, unless the API server answers one of the questions with no.
    Ask(Box<Inquiry>),
}

/// The questions to ask the API server before a verdict.
#[derive(Debug)]
pub struct Inquiry {
    /// The written object; its name is empty if the API server will generate the name.
    pub of: NamespacedName,
    /// The user who writes the object.
    pub author: Subject,
    /// The identity whose rights the object would act with.
    pub identity: Identity,
    /// Questions about required rights: the write is refused unless the answer to each question is yes.
    pub required: Vec<Question>,
    /// Questions about rights to act: unless the answer to each question is yes, the object stays inert, with
    /// a warning.
    pub expected: Vec<Question>,
    /// The spec of a rule or template that is written.
    pub(super) written: Option<Written>,
    /// Further warnings for the author, if every answer is yes.
    pub foresight: Foresight,
    /// The verdict if every answer is yes.
    pub allow: Verdict,
}

impl Inquiry {
    /// Computes the warnings for the author from the world.
    pub fn look(&mut self, world: &World) {
        self.foresight = self.written.as_ref().map(|written| written.look(world)).unwrap_or_default();
    }
}

/// The reason why there is no verdict. The hook's `failurePolicy` decides.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecideError {
    /// The first lists of the watches are not complete.
    #[error("the webhook has not read the cluster yet")]
    NotReady,
    /// A policy selects by namespace labels, and the webhook does not know the object's namespace yet.
    #[error("the webhook does not know the namespace yet")]
    UnknownNamespace,
    /// The object of the review cannot be read.
    #[error("cannot read {what} of the review: {source}")]
    Unreadable {
        /// The part that cannot be read: `object` or `oldObject`.
        what: &'static str,
        /// The decoder's error.
        source: crate::validate::CandidateError,
    },
    /// The review lacks the object that its operation needs: `object` or `oldObject`.
    #[error("the review has no {0}")]
    Missing(&'static str),
}

impl Verdict {
    /// Allows the write, without warnings.
    pub fn allow() -> Self {
        Self {
            denial: None,
            message: String::new(),
            warnings: Vec::new(),
            audit: BTreeMap::new(),
            edits: Vec::new(),
        }
    }

    /// Refuses the write. A message longer than [`LONGEST_MESSAGE`] is cut.
    pub fn refuse(denial: Denial, message: &str) -> Self {
        Self { denial: Some(denial), message: printable(message, LONGEST_MESSAGE), ..Self::allow() }
    }

    /// Whether the API server may go on with the write.
    pub fn is_allowed(&self) -> bool {
        self.denial.is_none()
    }

    /// Adds a warning, unless the answer already has the same warning or the maximum number of warnings.
    pub fn warn(&mut self, warning: String) {
        if self.warnings.len() < MOST_WARNINGS && !self.warnings.contains(&warning) {
            self.warnings.push(warning);
        }
    }
}
