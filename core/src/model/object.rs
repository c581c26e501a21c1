//! What is known of namespaces and of objects that are copied: metadata and digests, never content.

use std::{
    collections::{BTreeMap, BTreeSet},
    hash::{DefaultHasher, Hash, Hasher},
    sync::Arc,
};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::Labels;
use crate::{
    marks::{CopyMarks, MANAGED_BY, MANAGED_BY_VALUE, RULE_LABEL},
    paths::is_within,
};

/// What is known of a namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NamespaceFacts {
    /// The namespace's UID. Grants in a namespace end with it, even if another one of its name is created.
    pub uid: Box<str>,
    /// The namespace's labels, which rules and policies select by.
    pub labels: BTreeMap<String, String>,
    /// The namespace's annotations, which expressions of templates read: short ones, and few of them
    /// ([`crate::intake::watched::namespace_facts`]).
    pub annotations: BTreeMap<String, String>,
    /// Whether it has more annotations, or longer ones, than are kept.
    pub annotations_cut: bool,
    /// The namespace's `metadata.creationTimestamp` (1 s resolution).
    pub created: Timestamp,
    /// Whether the namespace is terminating or marked for deletion.
    pub terminating: bool,
}

impl NamespaceFacts {
    /// The namespace as expressions of templates read it.
    pub fn as_object(&self, name: &str) -> Value {
        json!({
            "apiVersion": "v1",
            "kind": "Namespace",
            "metadata": {
                "name": name,
                "uid": self.uid,
                "labels": self.labels,
                "annotations": self.annotations,
                "creationTimestamp": self.created.to_string(),
            },
        })
    }
}

/// The metadata of an object of a kind that is copied, as far as it is needed.
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
    /// The object's `metadata.creationTimestamp` (1 s resolution).
    pub created: Timestamp,
    /// Hash of the object's owners ([`Owner::hash`]): the garbage collector deletes it with them.
    pub owners: u64,
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
    /// Which managers own which fields; only read for objects with marks. Copies whose managers wrote the same at the same
    /// time share it.
    pub ownership: Option<Arc<Ownership>>,
    /// Of an object with marks, of a kind without data.
    pub examined: Option<Box<Examined>>,
}

impl ObjectFacts {
    /// Whether both are of the same version of the same object.
    pub fn is_version_of(&self, other: &Self) -> bool {
        self.uid == other.uid && self.resource_version == other.resource_version
    }

    /// What changes with each change that a refused write may depend on. The status of a Deployment changes all the time.
    pub fn edition(&self) -> &str {
        self.examined.as_ref().map_or(&self.resource_version, |examined| &examined.edition)
    }

    /// Whether the admission policy for copies guards the object: it has the labels of a copy, and marks that do not say that they are
    /// of another object.
    pub fn is_guarded(&self) -> bool {
        self.has_labels_of_copies() && self.marks.is_some()
    }

    /// Whether it has the labels of a copy. Whoever copies an object copies them, too.
    pub fn has_labels_of_copies(&self) -> bool {
        self.labels.get(MANAGED_BY) == Some(MANAGED_BY_VALUE) && self.labels.get(RULE_LABEL).is_some()
    }

    /// Whether a template declares the object, and only a dry run tells whether it is as declared. All others are compared by
    /// content; where that differs and nobody has written it, a dry run tells whether another write would change it.
    pub fn is_declared(&self) -> bool {
        let by_template = self.marks.as_deref().is_some_and(|marks| marks.rule.template().is_some());
        self.examined.is_some() && by_template
    }

    /// Whether a write would change the object, as far as a dry run has told; [`Drift::None`] of a kind with data.
    pub fn drift(&self) -> Drift {
        self.examined.as_ref().map_or(Drift::None, |examined| examined.drift)
    }

    /// Notes that; nothing of a kind with data.
    pub fn set_drift(&mut self, drift: Drift) {
        if let Some(examined) = &mut self.examined {
            examined.drift = drift;
        }
    }
}

/// What the writer of an object is told about it, by an Event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Remark {
    /// The reason of the Event.
    pub reason: &'static str,
    /// What is wrong, and what mends it. Never a value of content.
    pub text: String,
}

impl Remark {
    /// An annotation looks like one of ours, and has no effect.
    pub const MALFORMED_ANNOTATION: &'static str = "MalformedAnnotation";
    /// The object has more than is kept of it.
    pub const PARTLY_READ: &'static str = "PartlyRead";
}

/// An owner of an object, as its ownerReferences name it.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Owner {
    /// Group and version of the owner.
    pub api_version: String,
    /// The owner's kind, such as `ReplicaSet`.
    pub kind: String,
    /// The owner's name, in the object's own namespace unless the owner has none.
    pub name: String,
    /// The owner's UID, by which the garbage collector knows it.
    pub uid: String,
    /// Whether it manages the object.
    pub controller: bool,
    /// Whether it cannot go before the object.
    pub block_owner_deletion: bool,
}

impl Owner {
    /// The hash of no owners.
    pub const NONE: u64 = 0;

    /// A hash of all owners of an object, in whatever order: [`Self::NONE`] if and only if there is none.
    pub fn hash<'o>(owners: impl IntoIterator<Item = &'o Self>) -> u64 {
        let owners: BTreeSet<&Self> = owners.into_iter().collect();
        if owners.is_empty() {
            return Self::NONE;
        }
        let mut hasher = DefaultHasher::new();
        owners.hash(&mut hasher);
        hasher.finish().max(1)
    }
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
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ownership {
    /// The fields that our own Apply entry owns, if there is one.
    pub ours: Option<OwnFields>,
    /// Labels and annotations, but for our marks, that our own Apply entry owns and no other manager does, as `label/KEY` and
    /// `annotation/KEY`, sorted: an apply of ours that leaves them out takes them off (server-side apply, KEP-555).
    pub ours_alone: Vec<String>,
    /// Content and marks that another manager owns, sorted; the first [`Self::FOREIGN`].
    pub foreign: Vec<ForeignField>,
    /// The names of the managers but ours that own content or marks, sorted; the first [`Self::OTHERS`]. Of an object of which only
    /// the named fields are kept, too, though [`Self::foreign`] has no content of it.
    pub others: Vec<String>,
    /// When we last wrote the object (1 s resolution), if managedFields still say so.
    pub written: Option<Timestamp>,
}

impl Ownership {
    /// How many fields of others are kept.
    pub const FOREIGN: usize = 64;
    /// How many names of managers are kept.
    pub const OTHERS: usize = 16;
}

/// What is known of an object that is not compared by content: what the API server stores differs from the text that a template
/// renders to, by defaults, normalized quantities and what others write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Examined {
    /// What changes with each change but of the status: `metadata.generation` with the fields that our apply owns; of a kind
    /// without a generation, or that is kept whole, a hash of managedFields, too.
    pub edition: Box<str>,
    /// Whether the object differs from what is declared.
    pub drift: Drift,
}

/// Whether an object differs from what its template declares.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Drift {
    /// The object has not changed since this process first saw it; earlier changes are unknown.
    Unexamined,
    /// The object has not changed since Copyrator wrote or examined it; of a copy: since a dry run, or a write in vain, has shown that
    /// another write would not change it.
    #[default]
    None,
    /// Somebody else has changed the object; a dry run tells whether the change matters.
    Possible,
    /// The API server said that Copyrator's write would change the object.
    Certain,
}

impl Drift {
    /// Whether the object has to be examined, or written.
    pub fn is_doubt(self) -> bool {
        matches!(self, Self::Possible | Self::Certain)
    }
}

/// The fields of a copy that an apply of ours owns: as managedFields say, or as the copy is going to be.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum OwnFields {
    /// For kinds with data: a hash of the set of their names ([`crate::marks::field_set`]).
    Names(u64),
    /// For the other kinds: the hash of the names of labels and annotations, and the paths of content
    /// ([`crate::paths`]). In managedFields a path can end above a leaf, where the API server treats what is
    /// there as one.
    Paths(Box<(u64, Vec<String>)>),
}

impl OwnFields {
    /// Whether these fields, from managedFields, are exactly those of an intended copy.
    pub fn are(&self, intended: &Self) -> bool {
        match (self, intended) {
            (Self::Names(owned), Self::Names(intended)) => owned == intended,
            (Self::Paths(owned), Self::Paths(intended)) => {
                let (owned, leaves) = ((owned.0, &owned.1), (intended.0, &intended.1));
                let leads = |path: &String, leaf: &String| is_within(leaf, path);
                owned.0 == leaves.0
                    && leaves.1.iter().all(|leaf| owned.1.iter().any(|path| leads(path, leaf)))
                    && owned.1.iter().all(|path| leaves.1.iter().any(|leaf| leads(path, leaf)))
            }
            (Self::Names(_) | Self::Paths(_), _) => false,
        }
    }
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
    /// A field of an object without data, by its path ([`crate::paths`]).
    Path(String),
    /// One of our own labels or annotations, by key.
    Mark(String),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_covers_a_copy_whose_leaves_are_within_its_paths_and_leads_nowhere_else() {
        let of = |paths: &[&str]| {
            OwnFields::Paths(Box::new((1, paths.iter().map(|it| (*it).to_owned()).collect())))
        };
        let intended =
            of(&["/spec/ingress", "/spec/podSelector/matchLabels/a", "/spec/podSelector/matchLabels/b"]);
        for (owned, covers, what) in [
            (&["/spec/ingress", "/spec/podSelector"][..], true, "the API server treats the selector as one"),
            (
                &["/spec/ingress", "/spec/podSelector/matchLabels/a", "/spec/podSelector/matchLabels/b"],
                true,
                "or not",
            ),
            (&["/spec/podSelector"], false, "somebody removed a field"),
            (
                &["/spec/ingress", "/spec/podSelector", "/spec/egress"],
                false,
                "an earlier intent had one more",
            ),
            (&["/spec/ingress", "/spec/podSelector/matchLabels/a"], false, "a leaf is missing"),
            (&[], false, "all of them are"),
        ] {
            assert_eq!(of(owned).are(&intended), covers, "{what}");
        }
        assert!(of(&[]).are(&of(&[])), "a ServiceAccount can have no content");
        assert!(!OwnFields::Names(1).are(&of(&[])) && OwnFields::Names(1).are(&OwnFields::Names(1)));
        assert!(!OwnFields::Paths(Box::new((2, Vec::new()))).are(&of(&[])), "other labels");
    }
}
