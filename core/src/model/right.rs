//! Rights of the identities of rules that are asked about when a plan comes to need them: what they are depends on what is there.

use std::{collections::BTreeMap, sync::Arc};

use jiff::Timestamp;

use crate::names::Kind;

/// Stands for all namespaces, in a question about all of them at once.
pub const EVERYWHERE: &str = "";

/// A right in a namespace.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Right {
    /// To delete objects of a kind: a copy may be where its rule's current spec does not reach.
    Delete(Kind),
    /// To give the rights of this ClusterRole: the source of a copied RoleBinding names it.
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

/// The answers about the identity of one rule. They are forgotten when they are old; until then there is one for each namespace with
/// orphaned copies of the rule, and for each with copies of a RoleBinding, for each role that it has named meanwhile.
#[derive(Clone, Debug)]
pub struct RightAnswers {
    /// UID of the rule that was asked about.
    pub uid: Box<str>,
    /// Generation that was asked about.
    pub generation: i64,
    /// Answers by right and namespace, or [`EVERYWHERE`].
    pub answers: BTreeMap<(Right, Arc<str>), RightAnswer>,
}
