//! Facts about namespaces and about objects that are copied: metadata and digests, never content.

use std::{
    collections::{BTreeMap, BTreeSet},
    hash::{DefaultHasher, Hash, Hasher},
    sync::Arc,
};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{Labels, Seen};
use crate::{
    marks::{CopyMarks, MANAGED_BY, MANAGED_BY_VALUE, RULE_LABEL},
    paths::is_within,
};

/// Facts about a namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NamespaceFacts {
    /// The namespace's UID. Grants in a namespace are bound to this UID, so they do not hold in a new
    /// namespace of the same name.
    pub uid: Box<str>,
    /// The namespace's labels, which rules and policies select by.
    pub labels: BTreeMap<String, String>,
    /// The namespace's annotations, which expressions of templates read, up to a limit of number and length
    /// ([`crate::intake::watched::namespace_facts`]).
    pub annotations: BTreeMap<String, String>,
    /// Whether the namespace has more annotations, or longer annotations, than are kept.
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

/// The needed metadata of an object of a kind that is copied.
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
    /// Hash of the object's owners ([`Owner::hash`]): the garbage collector deletes an object together with
    /// its owners.
    pub owners: u64,
    /// An upper bound of the time of the last content change (1 s resolution): the latest managedFields time
    /// of an entry that owns content, else the creation. The bound is later if keys were seen to disappear,
    /// since no managedFields time records a removal.
    pub changed_at: Timestamp,
    /// Hash of the content keys that managedFields name ([`crate::marks::field_set`]).
    pub content_fields: u64,
    /// The value of `copyrator.dev/restart`; `None` without the annotation.
    pub restart: Option<Box<str>>,
    /// The marks of a copy, if [`CopyMarks::read`] can read them. The planner verifies them.
    pub marks: Option<Box<CopyMarks>>,
    /// Which managers own which fields; only read for objects with marks. Copies whose managers wrote the
    /// same fields at the same time share one value.
    pub ownership: Option<Arc<Ownership>>,
    /// The edition and drift of the object; only for objects with marks, of kinds without `data`.
    pub examined: Option<Box<Examined>>,
    /// The trace of the writes of an object with marks.
    pub trace: WriteTrace,
    /// The watches that show the object.
    pub seen: Seen,
}

/// The trace that writes leave in an object's managedFields. Anybody may write under the name of our manager,
/// and the metadata of such a write looks like that of a write by Copyrator.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WriteTrace {
    /// Hash of the entries of other managers, and of the entries of the status; `None` for an object without
    /// marks, and for an object whose generation counts the changes of the spec.
    pub others: Option<u64>,
    /// Whether a version arrived that changed none of the known facts of the object, without an entry of
    /// another manager. The content may have changed; only Copyrator's next write of different content clears
    /// this flag.
    pub is_untraced: bool,
}

impl ObjectFacts {
    /// Whether this version and the other one are the same version of the same object.
    pub fn is_version_of(&self, other: &Self) -> bool {
        self.uid == other.uid && self.resource_version == other.resource_version
    }

    /// Identifies the state of the object on which the refusal of a write may depend. For an examined object,
    /// the edition leaves out the status, which changes all the time in a Deployment.
    pub fn edition(&self) -> &str {
        self.examined.as_ref().map_or(&self.resource_version, |examined| &examined.edition)
    }

    /// Whether the admission policy for copies guards the object: the object has the labels of a copy, and
    /// its marks do not name another object.
    pub fn is_guarded(&self) -> bool {
        self.has_labels_of_copies() && self.marks.is_some()
    }

    /// Whether the object has the labels of a copy. A tool that copies the object copies these labels too.
    pub fn has_labels_of_copies(&self) -> bool {
        self.labels.get(MANAGED_BY) == Some(MANAGED_BY_VALUE) && self.labels.get(RULE_LABEL).is_some()
    }

    /// Whether a template declares the object, so that only a dry run shows whether the object is as
    /// declared. All other objects are compared by content. If the content differs without a change by
    /// another writer, a dry run shows whether a further write would change it.
    pub fn is_declared(&self) -> bool {
        let by_template = self.marks.as_deref().is_some_and(|marks| marks.rule.as_template().is_some());
        self.examined.is_some() && by_template
    }

    /// Whether a write would change the object, as far as a dry run has shown; [`Drift::None`] for kinds with
    /// `data`.
    pub fn drift(&self) -> Drift {
        self.examined.as_ref().map_or(Drift::None, |examined| examined.drift)
    }

    /// Sets the drift. Has no effect for kinds with `data`.
    pub fn set_drift(&mut self, drift: Drift) {
        if let Some(examined) = &mut self.examined {
            examined.drift = drift;
        }
    }
}

/// A problem that an Event reports to the author of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Remark {
    /// The reason of the Event.
    pub reason: &'static str,
    /// The problem and how to correct it, without values of the content.
    pub text: String,
}

impl Remark {
    /// An annotation looks like a Copyrator annotation, but has no effect.
    pub const MALFORMED_ANNOTATION: &'static str = "MalformedAnnotation";
    /// The object has more labels, or other fields, than are kept.
    pub const PARTLY_READ: &'static str = "PartlyRead";
}

/// An owner of an object, from the object's ownerReferences.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Owner {
    /// Group and version of the owner.
    pub api_version: String,
    /// The owner's kind, such as `ReplicaSet`.
    pub kind: String,
    /// The owner's name, in the object's own namespace unless the owner has none.
    pub name: String,
    /// The owner's UID, by which the garbage collector identifies the owner.
    pub uid: String,
    /// Whether the owner manages the object.
    pub controller: bool,
    /// Whether the owner cannot be deleted before the object.
    pub block_owner_deletion: bool,
}

impl Owner {
    /// The hash of no owners.
    pub const NONE: u64 = 0;

    /// A hash of all owners of an object, in any order: [`Self::NONE`] only for an object without owners.
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

/// The pending deletion of an object.
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
    /// The fields that our own Apply entry owns; `None` without such an entry.
    pub ours: Option<OwnFields>,
    /// Labels and annotations, except our marks, that only our own Apply entry owns, as `label/KEY` and
    /// `annotation/KEY`, sorted. Our next apply removes each of these keys that it leaves out (server-side
    /// apply, KEP-555).
    pub ours_alone: Vec<String>,
    /// Content and marks that other managers own, sorted; the first [`Self::FOREIGN`].
    pub foreign: Vec<ForeignField>,
    /// The names of other managers that own content or marks, sorted; the first [`Self::OTHERS`]. The names
    /// are known even for objects for which [`Self::foreign`] lists no content.
    pub others: Vec<String>,
    /// When we last wrote the object (1 s resolution), if managedFields still say so.
    pub written: Option<Timestamp>,
}

impl Ownership {
    /// Maximum number of fields of other managers.
    pub const FOREIGN: usize = 64;
    /// Maximum number of names of managers.
    pub const OTHERS: usize = 16;
}

/// Facts about an object that is not compared by content: the stored object differs from the text that a
/// template renders, by defaults, normalized quantities and fields of other writers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Examined {
    /// A text that changes with each change except of the status: `metadata.generation` with the fields that
    /// our apply owns. For a kind without a generation, or a kind that is kept whole, the text contains a
    /// hash of managedFields.
    pub edition: Box<str>,
    /// Whether the object differs from its declaration.
    pub drift: Drift,
}

/// Whether an object differs from its declaration in a template.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Drift {
    /// The object has not changed since this process first saw it; earlier changes are unknown.
    Unexamined,
    /// The object has not changed since Copyrator wrote or examined it; for a copy: since a dry run, or a
    /// write without effect, has shown that a further write would not change the copy.
    #[default]
    None,
    /// Another writer has changed the object; a dry run shows whether the change matters.
    Possible,
    /// The API server's dry run showed that Copyrator's write would change the object.
    Certain,
}

impl Drift {
    /// Whether the object has to be examined, or written.
    pub fn is_doubt(self) -> bool {
        matches!(self, Self::Possible | Self::Certain)
    }
}

/// The fields of a copy that an apply of ours owns, from managedFields or for an intended copy.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum OwnFields {
    /// For kinds with data: a hash of the set of their names ([`crate::marks::field_set`]).
    Names(u64),
    /// For the other kinds: the hash of the names of labels and annotations, and the paths of content
    /// ([`crate::paths`]). In managedFields a path can end above a leaf, where the API server treats the
    /// field as atomic.
    Paths(Box<(u64, Vec<String>)>),
}

impl OwnFields {
    /// Whether these fields, from managedFields, are exactly the fields of an intended copy.
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
