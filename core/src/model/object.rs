//! What is known of namespaces, ConfigMaps and Secrets: metadata and digests, never content.

use std::{collections::BTreeMap, sync::Arc};

use jiff::Timestamp;

use crate::marks::CopyMarks;

/// What is known of a namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NamespaceFacts {
    /// Its UID: what was granted in a namespace ends with it, whatever is made anew under its name.
    pub uid: Box<str>,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// Terminating, or marked for deletion.
    pub terminating: bool,
}

/// The labels of an object.
pub type Labels = BTreeMap<Box<str>, Box<str>>;

/// What is known of a ConfigMap or Secret from its metadata.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectFacts {
    /// Its UID.
    pub uid: Box<str>,
    /// Its resource version.
    pub resource_version: Box<str>,
    /// Its labels; the world keeps one set for all objects that have the same.
    pub labels: Arc<Labels>,
    /// Marked for deletion: since when, and what keeps it.
    pub deletion: Option<Box<Deletion>>,
    /// It has an owner: the garbage collector deletes it when that is gone.
    pub owned: bool,
    /// An upper bound of the last content change (resolution 1 s): the latest managedFields time that owns
    /// content, else the creation; later where keys were seen to go, of which no managedFields time tells.
    pub changed_at: Timestamp,
    /// Hash of the set of content keys that somebody owns by managedFields ([`crate::marks::field_set`]).
    pub content_fields: u64,
    /// The value of `copyrator.dev/restart`, where it is set.
    pub restart: Option<Box<str>>,
    /// Our marks, where all of them are there; whether they verify is the planner's to say.
    pub marks: Option<Box<CopyMarks>>,
    /// Who owns which fields; only looked at where there are marks.
    pub ownership: Option<Box<Ownership>>,
}

/// An object that is marked for deletion and is not gone yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Deletion {
    /// Since when.
    pub since: Timestamp,
    /// The first of the finalizers that keep it.
    pub finalizers: Vec<String>,
}

impl Deletion {
    /// How many finalizers are known of; the rest is not kept.
    pub const FINALIZERS: usize = 3;
}

/// Who owns the fields of a copy, from its managedFields.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ownership {
    /// Hash of the set of fields that our own Apply entry owns ([`crate::marks::field_set`]), where there is
    /// one.
    pub ours: Option<u64>,
    /// Content and marks that another manager's entry owns, sorted.
    pub foreign: Vec<ForeignField>,
    /// The managers of those, sorted.
    pub others: Vec<String>,
    /// When we last wrote the object (1 s resolution), where managedFields still tell.
    pub written: Option<Timestamp>,
}

/// A field of a copy that another manager has touched.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ForeignField {
    /// A key of `data` (or of `stringData`, which lands there).
    Data(String),
    /// A key of `binaryData`.
    BinaryData(String),
    /// `immutable`.
    Immutable,
    /// `type`.
    Type,
    /// One of our own labels or annotations, by key.
    Mark(String),
}
