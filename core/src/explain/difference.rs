//! The differences between an existing object and its intended state: names of keys and fields, and for kinds
//! without `data` the values of fields.

use schemars::JsonSchema;
use serde::Serialize;

use super::field_changes::FieldChange;
use crate::{digest::Fingerprint, marks::DIGEST, model::ObjectFacts, names::ObjectKey, plan::copy::Intent};

/// What a write would change about an existing object. Every list is sorted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Difference {
    /// Keys that it lacks.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub keys_added: Vec<String>,
    /// Keys whose value differs, or that move between `data` and `binaryData`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub keys_changed: Vec<String>,
    /// Keys that it has too many.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub keys_removed: Vec<String>,
    /// Labels that are missing or differ.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub labels: Vec<String>,
    /// Annotations that are missing or differ. The digest is named only where nothing else is: it changes
    /// with everything, and alone it tells of labels or annotations that are not set any more.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub annotations: Vec<String>,
    /// Fields beside them: `type`, `immutable`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub fields: Vec<String>,
    /// The fields that change, with their values; none of a ConfigMap or Secret. At most 32.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub values: Vec<FieldChange>,
    /// Whether more fields change than `values` has.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub has_more_values: bool,
}

impl Difference {
    /// Compares an object, by its metadata and fingerprint, with its intended state. For kinds of which
    /// Copyrator keeps only named fields, keys are not compared: the content also has defaults, and fields of
    /// other writers.
    pub fn new(slot: &ObjectKey, intent: &Intent, facts: &ObjectFacts, print: &Fingerprint) -> Self {
        let kind = slot.kind;
        let (mut keys_added, mut keys_changed) = (Vec::new(), Vec::new());
        for (key, wanted) in intent.content.iter().filter(|_| kind.is_whole()) {
            match print.keys.get(key) {
                None => keys_added.push(key.clone()),
                Some(there) if there != wanted => keys_changed.push(key.clone()),
                Some(_) => {}
            }
        }
        let surplus = print.keys.keys().filter(|key| kind.is_whole() && !intent.content.contains_key(*key));
        let labels = intent.labels.iter().filter(|(key, value)| !facts.labels.may_have(key, value));
        let marks = facts.marks.as_deref().map(|marks| marks.annotations(slot)).unwrap_or_default();
        let annotation = |key: &str| marks.get(key).or_else(|| print.annotations.get(key));
        let annotations = intent.annotations.iter().filter(|(key, value)| annotation(key) != Some(*value));
        let mut difference = Self {
            keys_removed: surplus.cloned().collect(),
            labels: labels.map(|(key, _)| key.clone()).collect(),
            annotations: annotations.map(|(key, _)| key.clone()).collect(),
            fields: [
                ("type", intent.type_ != print.type_),
                ("immutable", intent.immutable != print.immutable),
            ]
            .into_iter()
            .filter(|(_, differs)| *differs)
            .map(|(field, _)| field.to_owned())
            .collect(),
            keys_added,
            keys_changed,
            values: Vec::new(),
            has_more_values: false,
        };
        if !difference.is_about_digest_only() {
            difference.annotations.retain(|key| key != DIGEST);
        }
        difference
    }

    /// Whether the digest is the only difference.
    pub fn is_about_digest_only(&self) -> bool {
        *self == Self { annotations: vec![DIGEST.to_owned()], ..Self::default() }
    }

    /// Whether the difference has no entry.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}
