//! Whether the identities of rules may delete copies that the rules' current specs do not mention.

use std::{collections::BTreeMap, sync::Arc};

use jiff::Timestamp;

use crate::names::Kind;

/// Stands for all namespaces, in a question about all of them at once.
pub const EVERYWHERE: &str = "";

/// The API server's answer to whether an identity may delete objects of one kind in one namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeletionAnswer {
    /// `Err` with the reason, and what to do about it.
    pub answer: Result<(), String>,
    /// When the API server was asked.
    pub asked: Timestamp,
}

/// The answers about the identity of one rule. There are at most as many as namespaces with orphaned copies
/// of the rule.
#[derive(Clone, Debug)]
pub struct DeletionAnswers {
    /// UID of the rule that was asked about.
    pub uid: Box<str>,
    /// Generation that was asked about.
    pub generation: i64,
    /// Answers by kind and namespace, or [`EVERYWHERE`].
    pub answers: BTreeMap<(Kind, Arc<str>), DeletionAnswer>,
}
