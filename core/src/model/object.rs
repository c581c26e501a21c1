//! What is known of namespaces, ConfigMaps and Secrets: metadata and digests, never content.

use std::{collections::BTreeMap, sync::Arc};

use jiff::Timestamp;

use crate::marks::CopyMarks;

/// What is known of a namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NamespaceFacts {
    /// The namespace's UID. Grants in a namespace end with it, even if another one of its name is created.
    pub uid: Box<str>,
    /// The namespace's labels, which rules and policies select by.
    pub labels: BTreeMap<String, String>,
    /// Whether the namespace is terminating or marked for deletion.
    pub terminating: bool,
}

/// The labels of an object.
pub type Labels = BTreeMap<Box<str>, Box<str>>;

/// The metadata of a ConfigMap or Secret, as far as it is needed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectFacts {
    /// The object's UID, which preconditions of writes carry.
    pub uid: Box<str>,
    /// The resource version that was last seen.
    pub resource_version: Box<str>,
    /// The object's labels; objects with the same labels share one set.
    pub labels: Arc<Labels>,
    /// Present once the object is marked for deletion.
    pub deletion: Option<Box<Deletion>>,
    /// Whether the object has an owner: the garbage collector deletes it with its owners.
    pub owned: bool,
    /// An upper bound of the time of the last content change (1 s resolution): the latest managedFields time
    /// of an entry that owns content, else the creation. It is later where we saw keys disappear, which no
    /// managedFields time records.
    pub changed_at: Timestamp,
    /// Hash of the content keys that managedFields name ([`crate::marks::field_set`]).
    pub content_fields: u64,
    /// The value of `copyrator.dev/restart`, where it is set.
    pub restart: Option<Box<str>>,
    /// The marks of a copy, where all of them are there. The planner verifies them.
    pub marks: Option<Box<CopyMarks>>,
    /// Which managers own which fields; only read for objects with marks.
    pub ownership: Option<Box<Ownership>>,
}

/// The deletion that an object waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Deletion {
    /// The object's `metadata.deletionTimestamp` (1 s resolution).
    pub since: Timestamp,
    /// The first finalizers that delay the deletion, at most [`Self::FINALIZERS`].
    pub finalizers: Vec<String>,
}

impl Deletion {
    /// How many finalizers are kept.
    pub const FINALIZERS: usize = 3;
}

/// The managers of a copy's fields, from its managedFields.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ownership {
    /// Hash of the set of fields that our own Apply entry owns ([`crate::marks::field_set`]), if there is
    /// one.
    pub ours: Option<u64>,
    /// Content and marks that another manager owns, sorted.
    pub foreign: Vec<ForeignField>,
    /// The names of those managers, sorted.
    pub others: Vec<String>,
    /// When we last wrote the object (1 s resolution), if managedFields still say so.
    pub written: Option<Timestamp>,
}

/// A field of a copy that another manager owns.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ForeignField {
    /// A key of `data`, or of `stringData`, which becomes `data`.
    Data(String),
    /// A key of `binaryData`, by name.
    BinaryData(String),
    /// The field `immutable` of the object.
    Immutable,
    /// The field `type` of a Secret.
    Type,
    /// One of our own labels or annotations, by key.
    Mark(String),
}
