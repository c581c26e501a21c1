//! What is known of namespaces, ConfigMaps and Secrets: metadata and digests, never content.

use std::collections::BTreeMap;

use jiff::Timestamp;

use crate::marks::CopyMarks;

/// What is known of a namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NamespaceFacts {
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// Terminating, or marked for deletion.
    pub terminating: bool,
}

/// What is known of a ConfigMap or Secret from its metadata.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectFacts {
    /// Its UID.
    pub uid: Box<str>,
    /// Its resource version.
    pub resource_version: Box<str>,
    /// Its labels.
    pub labels: BTreeMap<Box<str>, Box<str>>,
    /// Marked for deletion.
    pub deleting: bool,
    /// An upper bound of the last content change (resolution 1 s): the latest managedFields time that owns content,
    /// else the creation; later where keys were seen to go, of which no managedFields time tells.
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

/// Who owns the fields of a copy, from its managedFields.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ownership {
    /// Hash of the set of fields that our own Apply entry owns ([`crate::marks::field_set`]), where there is one.
    pub ours: Option<u64>,
    /// Content and marks that another manager's entry owns, sorted.
    pub foreign: Vec<ForeignField>,
    /// The managers of those, sorted.
    pub others: Vec<String>,
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

/// What an object's content comes down to, without the content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fingerprint {
    /// Of which object, so that a new one under the same name is not mistaken for it.
    pub uid: Box<str>,
    /// Of which version of it.
    pub resource_version: Box<str>,
    /// A Secret's type.
    pub type_: Option<String>,
    /// Whether the object is immutable.
    pub immutable: bool,
    /// Each key's digest and size.
    pub keys: BTreeMap<String, KeyPrint>,
    /// The object's annotations, but for those that are never carried over.
    pub annotations: BTreeMap<String, String>,
}

impl Fingerprint {
    /// Bytes of all keys and values.
    pub fn size(&self) -> u64 {
        self.keys.iter().map(|(key, print)| key.len() as u64 + print.size).sum()
    }
}

/// One key's content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyPrint {
    /// Keyed digest of the value.
    pub digest: [u8; 16],
    /// Bytes of the value.
    pub size: u64,
    /// Lives in `binaryData`.
    pub binary: bool,
}
