//! What a decision comes down to.

use std::collections::BTreeMap;

use super::foresight::{Foresight, Written};
use crate::{
    authority::{Identity, Question, Subject},
    model::World,
    names::NamespacedName,
    validate::printable,
};

/// The longest message of a refusal, in bytes.
pub const LONGEST_MESSAGE: usize = 1024;
/// How many warnings an answer carries.
const MOST_WARNINGS: usize = 10;

/// The answer to a review.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// Whether the write may go on.
    pub allowed: bool,
    /// The status code of a refusal.
    pub code: u16,
    /// One word for a refusal.
    pub reason: &'static str,
    /// What a refusal says.
    pub message: String,
    /// What the writer is told.
    pub warnings: Vec<String>,
    /// What the audit log is told.
    pub audit: BTreeMap<String, String>,
    /// What is added to the object.
    pub edits: Vec<Edit>,
}

/// One change of an object's metadata.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Edit {
    /// The map is not there yet: it must be, before anything can be added.
    CreateMap(MetaMap),
    /// Adds an entry.
    Set(MetaMap, String, String),
    /// Takes an entry off that is there.
    Remove(MetaMap, String),
}

/// A map of an object's metadata.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetaMap {
    /// `metadata.labels`.
    Labels,
    /// `metadata.annotations`.
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

/// A verdict, or what must be asked before there is one.
#[derive(Debug)]
pub enum Decision {
    /// The verdict.
    Now(Verdict),
    /// `allow`, unless one of the answers is no.
    Ask(Box<Inquiry>),
}

/// What must be asked of the API server before a verdict.
#[derive(Debug)]
pub struct Inquiry {
    /// The object that was written; without a name where one is to be generated.
    pub of: NamespacedName,
    /// Who writes it.
    pub author: Subject,
    /// Whose rights the object would act with.
    pub identity: Identity,
    /// Without a yes to all of these the write is refused.
    pub required: Vec<Question>,
    /// Without a yes to all of these the object stays inert, and a warning says so.
    pub expected: Vec<Question>,
    /// The rule that it is, if it is one.
    pub(super) written: Option<Written>,
    /// What its author is told beside, if every answer is a yes.
    pub foresight: Foresight,
    /// The verdict with every answer a yes.
    pub allow: Verdict,
}

impl Inquiry {
    /// Looks at the world for what the author of a rule is to be told.
    pub fn look(&mut self, world: &World) {
        self.foresight = self.written.as_ref().map(|written| written.look(world)).unwrap_or_default();
    }
}

/// Why there is no verdict: the fault is ours, so the hook's failure policy decides.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecideError {
    /// The first lists are not complete.
    #[error("the webhook does not know the cluster yet")]
    NotReady,
    /// A policy hangs on labels of a namespace that the webhook has not heard of yet.
    #[error("the webhook has not heard of the namespace yet")]
    UnknownNamespace,
    /// The object of the review cannot be read.
    #[error("cannot read {what} of the review: {source}")]
    Unreadable {
        /// `object` or `oldObject`.
        what: &'static str,
        /// Why.
        source: crate::validate::CandidateError,
    },
    /// The review lacks the object that its operation needs.
    #[error("the review has no {0}")]
    Missing(&'static str),
}

impl Verdict {
    /// The write may go on.
    pub fn allow() -> Self {
        Self {
            allowed: true,
            code: 200,
            reason: "",
            message: String::new(),
            warnings: Vec::new(),
            audit: BTreeMap::new(),
            edits: Vec::new(),
        }
    }

    /// The write is refused.
    pub fn refuse(code: u16, reason: &'static str, message: &str) -> Self {
        Self { allowed: false, code, reason, message: printable(message, LONGEST_MESSAGE), ..Self::allow() }
    }

    /// Tells the writer something, unless enough has been said.
    pub fn warn(&mut self, warning: String) {
        if self.warnings.len() < MOST_WARNINGS && !self.warnings.contains(&warning) {
            self.warnings.push(warning);
        }
    }
}
