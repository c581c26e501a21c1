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
    /// To delete objects of a kind: a copy may be where its rule's current spec does not reach.
    Delete(Kind),
    /// To bind this ClusterRole, which the source of a copied RoleBinding names.
    Bind(Arc<str>),
}

/// The API server's answer to whether an identity has a right in one namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RightAnswer {
    /// `Err` with the reason, and what to do about it.
    pub answer: Result<(), String>,
    /// When the API server was asked.
    pub asked: Timestamp,
}

/// The answers about the identity of one rule. Old answers are forgotten; until they are, one answer is kept
/// for each namespace with orphaned copies of the rule, and one for each namespace with copies of a
/// RoleBinding and each role that the RoleBinding has named.
#[derive(Clone, Debug)]
pub struct RightAnswers {
    /// UID of the rule that was asked about.
    pub uid: Box<str>,
    /// Generation that was asked about.
    pub generation: i64,
    /// Answers by right and namespace, or [`EVERYWHERE`].
    pub answers: BTreeMap<(Right, Arc<str>), RightAnswer>,
}
