//! The plan of one slot: its state, and the one write to make.

use std::collections::BTreeMap;

use jiff::Timestamp;

use super::{inert::Inert, intent::Intent, problem::CopyProblem};
use crate::{
    model::{Body, ForeignField, ObjectFacts},
    names::{Declarer, ObjectKey},
    plan::Need,
};

/// The plan of one slot.
#[derive(Clone, Debug, PartialEq)]
pub struct SlotPlan {
    /// The state of the slot before the action.
    pub state: SlotState,
    /// The rule that the slot belongs to; `None` if the slot belongs to no rule.
    pub rule: Option<Declarer>,
    /// The one write to make.
    pub action: Option<CopyAction>,
    /// The facts to fetch before the decision.
    pub needs: Vec<Need>,
    /// When to plan again without an event.
    pub recheck: Option<Timestamp>,
}

impl SlotPlan {
    /// Returns the plan for a slot of this rule in this state, without an action.
    pub(super) fn rest(rule: Option<&Declarer>, state: SlotState) -> Self {
        Self { state, rule: rule.cloned(), action: None, needs: Vec::new(), recheck: None }
    }
}

/// The state of a slot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SlotState {
    /// No rule claims the slot, and it has no copy of ours.
    Nothing,
    /// The copy is as its rule declares.
    Current,
    /// The copy is as the API server changed it: the problem names the declared fields that the API server
    /// does not keep.
    Altered(CopyProblem),
    /// The copy is missing or outdated, and about to be written.
    Outdated,
    /// The copy has an earlier content of its source, and gets the current content at this time at the
    /// earliest: the content of a source that keeps changing spreads more and more slowly.
    Braked(Timestamp),
    /// A foreign object occupies the slot, or the last write was refused.
    Blocked(CopyProblem),
    /// The rule that claims the slot may not write at present.
    Inert(Inert),
    /// An orphaned copy, and when it will be deleted.
    Leaving(Option<Timestamp>),
    /// An orphaned copy that stays.
    Kept,
}

/// UID and resource version of the object that a decision was based on, for preconditions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Version {
    /// `metadata.uid`: a write does not change a new object of the same name.
    pub uid: Box<str>,
    /// `metadata.resourceVersion`: a write fails if the object was written since.
    pub resource_version: Box<str>,
}

impl Version {
    /// The version that the world knows.
    pub fn of(facts: &ObjectFacts) -> Self {
        Self { uid: facts.uid.clone(), resource_version: facts.resource_version.clone() }
    }
}

/// One write to one slot.
#[derive(Clone, Debug, PartialEq)]
pub enum CopyAction {
    /// Create or update the copy.
    Write(Box<CopyWrite>),
    /// Note on an orphaned copy when it will be deleted.
    MarkRemoval(Version, Timestamp),
    /// Note on an object when our marks will be removed, and that the object stays, even if its template is
    /// gone by that time.
    MarkStaying(Version, Timestamp),
    /// Remove the removal mark: a rule claims the copy again.
    Unmark(Version),
    /// Note on the copy the definition under which its rule exists; the copy names a different definition.
    Vouch(Version, Box<str>),
    /// Delete the orphaned copy.
    Delete(Version),
    /// Remove our marks: the object stays as an ordinary object.
    Release(Version),
}

impl CopyAction {
    /// Whether the action deletes, marks or releases a copy. Removals wait while a CRD of ours is being
    /// deleted, since `kubectl delete crd` looks like the deletion of every rule.
    pub fn removes(&self) -> bool {
        matches!(self, Self::MarkRemoval(..) | Self::MarkStaying(..) | Self::Delete(_) | Self::Release(_))
    }
}

/// One write of a copy.
#[derive(Clone, Debug, PartialEq)]
pub struct CopyWrite {
    /// The object to copy from.
    pub source: ObjectKey,
    /// The version of the source that the intent was made from.
    pub source_version: Version,
    /// The rendered object, if a template declares the object; `None` for a copy.
    pub rendered: Option<Body>,
    /// The keys, metadata and marks that the copy is to have.
    pub intent: Intent,
    /// The version of the existing object; `None` for a write that must create the object.
    pub replaces: Option<Version>,
    /// Whether the object has owners, which must be removed first: it would be deleted with them.
    pub disown: bool,
    /// The predecessor of an object that was refused because a quota, port or address is used up: the
    /// declaration's object under its previous name. A predecessor that uses up the quota, port or address is
    /// deleted first.
    pub predecessor: Option<ObjectKey>,
    /// Fields to null before the apply.
    pub surplus: Vec<ForeignField>,
    /// For a foreign object: the fields of the object's content that we take ownership of first, so that the
    /// apply decides about all fields.
    pub take_over: Option<Vec<ForeignField>>,
    /// Whether to delete and recreate the object, because the API server refused the update as impossible.
    pub anew: bool,
    /// Whether the write only follows the source. [`super::spread`] delays writes that only follow the
    /// source.
    pub follows: bool,
    /// UID of the definition under which the rule exists.
    pub definition: Option<Box<str>>,
}

impl CopyWrite {
    /// Whether a label or annotation of the existing object, as `label/KEY` or `annotation/KEY`, survives
    /// this write if the write does not set it. A recreated object keeps no labels or annotations. An apply
    /// removes keys that only Copyrator's apply owned and that the new apply leaves out. Copyrator owns no
    /// key of a foreign object.
    pub fn keeps(&self, existing: &ObjectFacts, field: &str) -> bool {
        let is_ours_alone = existing
            .ownership
            .as_ref()
            .is_some_and(|owned| owned.ours_alone.iter().any(|alone| alone == field));
        !self.anew && (self.take_over.is_some() || !is_ours_alone)
    }

    /// The labels of the object after this write: the copy's labels, and the existing labels that the write
    /// leaves alone.
    pub fn labels_after(&self, existing: Option<&ObjectFacts>) -> BTreeMap<String, String> {
        let now = existing.into_iter().flat_map(|facts| facts.labels.iter().map(move |label| (facts, label)));
        let kept = now.filter(|(facts, (key, _))| self.keeps(facts, &format!("label/{key}")));
        let mut labels: BTreeMap<String, String> =
            kept.map(|(_, (key, value))| (key.to_string(), value.to_string())).collect();
        labels.extend(self.intent.labels.clone());
        labels
    }

    /// The annotations of the object after this write; `now` are the existing annotations.
    pub fn annotations_after(
        &self,
        existing: &ObjectFacts,
        now: BTreeMap<String, String>,
    ) -> BTreeMap<String, String> {
        let mut annotations = now;
        annotations.retain(|key, _| self.keeps(existing, &format!("annotation/{key}")));
        annotations.extend(self.intent.annotations.clone());
        annotations
    }
}
