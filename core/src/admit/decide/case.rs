//! The input of a decision: the part of a review that a hook asks for, and a write with both versions of its
//! object.

use std::{collections::BTreeSet, time::Duration};

use jiff::Timestamp;

use super::verdict::DecideError;
use crate::{
    admit::decode::{Operation, Review},
    api::PolicyKind,
    authority::TrustedWriters,
    names::TemplateKind,
    validate::Candidate,
};

/// The part of a review that a hook decides.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Purpose {
    /// Every part that applies, for calls by hand or from the command line.
    All,
    /// Writes of our own kinds: the spec must be valid, and its author must have the rights that the spec
    /// uses.
    OwnKinds,
    /// Like `OwnKinds`, for files, which may also use features that the operator does not support yet.
    Files,
    /// Annotations on ConfigMaps and Secrets that declare copies or restarts.
    Annotations,
    /// ConfigPolicies, on ConfigMaps, Secrets and Namespaces.
    Policies,
    /// Warnings about consequences, such as the number of copies that a change reaches.
    Warnings,
    /// Labels and annotations that ConfigPolicies add when missing.
    Defaults,
    /// The author annotations, if the API server does not add them itself.
    Author,
}

/// Our own accounts, the accounts that we trust, and other settings that a decision needs.
#[derive(Clone, Debug, Default)]
pub struct Parties {
    /// The user names that Copyrator's own processes write with. The webhook does not judge their copies
    /// again.
    pub own: BTreeSet<String>,
    /// Accounts of other namespaces whose rules and monitors act without `serviceAccountName`.
    pub trusted: TrustedWriters,
    /// The kinds whose objects templates are rendered for.
    pub template_kinds: BTreeSet<TemplateKind>,
    /// How long the objects of a rule or template without `deletionGrace` are kept once it is deleted.
    pub default_grace: Duration,
    /// The namespaces that never get copies, beside Kubernetes' own namespaces.
    pub system_namespaces: BTreeSet<String>,
}

/// A write of a ConfigMap, Secret or Namespace.
pub struct WriteCase<'a> {
    pub(super) review: &'a Review<'a>,
    pub(super) purpose: &'a Purpose,
    pub(super) parties: &'a Parties,
    pub(super) kind: PolicyKind,
    pub(super) versions: Versions<'a>,
    pub(super) now: Timestamp,
}

/// The object after and before the write; the old object is missing on CREATE, the new object on DELETE.
pub(super) struct Versions<'a> {
    pub(super) new: Option<Candidate<'a>>,
    pub(super) old: Option<Candidate<'a>>,
}

impl<'a> Versions<'a> {
    pub(super) fn of(kind: PolicyKind, review: &Review<'a>) -> Result<Self, DecideError> {
        let read = |what, raw: Option<&'a serde_json::value::RawValue>| {
            let decoded = raw.map(|raw| Candidate::decode(kind, raw.get())).transpose();
            let mut object = decoded.map_err(|source| DecideError::Unreadable { what, source })?;
            if let Some(object) = object.as_mut().filter(|object| object.namespace.is_empty()) {
                object.namespace = review.namespace.clone();
            }
            Ok(object)
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
