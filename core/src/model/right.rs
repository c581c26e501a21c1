//! Rights of the identities of rules that Copyrator checks only when a plan needs them, since they depend on
//! existing objects.

use std::{collections::BTreeMap, sync::Arc};

use jiff::Timestamp;

use crate::names::Kind;

/// The namespace of a question about all namespaces at once.
pub const EVERYWHERE: &str = "";

/// A right in a namespace.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Right {
    /// The right to delete objects of a kind: a copy may be in a namespace that the current spec of its rule
    /// does not reach.
    Delete(Kind),
    /// The right to bind this ClusterRole, which the source of a copied RoleBinding names.
    Bind(Arc<str>),
}

/// The API server's answer to whether an identity has a right in one namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RightAnswer {
    /// The answer; `Err` with the reason and the fix if the identity lacks the right.
    pub answer: Result<(), String>,
    /// When the API server was asked.
    pub asked: Timestamp,
}

/// The answers about the identity of one rule. Until old answers are forgotten, there is one answer for each
/// namespace with orphaned copies of the rule, and one answer for each pair of a namespace with copies of a
/// RoleBinding and a role that the RoleBinding has named.
#[derive(Clone, Debug)]
pub struct RightAnswers {
    /// UID of the rule at the time of the questions.
    pub uid: Box<str>,
    /// Generation of the rule at the time of the questions.
    pub generation: i64,
    /// Answers by right, and by namespace or [`EVERYWHERE`].
    pub answers: BTreeMap<(Right, Arc<str>), RightAnswer>,
}
