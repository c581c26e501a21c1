//! Who wrote which fields of an object, from managedFields (server-side apply, KEP-555).

use std::{
    borrow::Cow,
    collections::BTreeSet,
    fmt,
    hash::{DefaultHasher, Hash, Hasher},
};

use jiff::Timestamp;
use serde::{
    Deserialize, Deserializer,
    de::{DeserializeOwned, DeserializeSeed, IgnoredAny, MapAccess, Visitor},
};
use serde_json::Value;

use crate::{
    marks,
    model::{ForeignField, OwnFields, Ownership},
    paths::{child, is_content},
};

/// Our field managers of content and marks, which do not contest each other's fields.
const OURS: [&str; 3] = [marks::COPY_MANAGER, marks::REMOVAL_MANAGER, marks::RESTART_MANAGER];

/// One entry of managedFields.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase", bound = "F: Fields")]
pub(super) struct ManagedFields<F> {
    pub(super) manager: String,
    operation: String,
    subresource: Option<String>,
    pub(super) time: Option<Timestamp>,
    #[serde(rename = "fieldsV1")]
    pub(super) fields: F,
}

/// The fields of one entry.
pub trait Fields: Default + DeserializeOwned {
    /// Whether Copyrator also writes content by patches, besides its apply.
    const PATCHED: bool;

    /// Whether the entry owns a field of the object's content.
    fn owns_content(&self) -> bool;

    /// The paths of the content that the entry owns.
    fn content(&self) -> impl Iterator<Item = String> + '_;

    /// All fields of the entry, to describe the entry of our own apply.
    fn own(&self) -> OwnFields;

    /// The entry's fields of content, and our marks among its fields.
    fn touched(&self) -> Vec<ForeignField>;

    /// Whether the entry owns content or our marks, so that its manager may undo our writes.
    fn is_contesting(&self) -> bool {
        !self.touched().is_empty()
    }

    /// The labels and annotations that the entry owns.
    fn metadata(&self) -> &MetadataFields;

    /// Hashes the entry's fields of content and metadata, but not the fields of the status.
    fn hash(&self, state: &mut DefaultHasher);
}

/// Returns a text that changes with each change of an object except of its status, for kinds without a
/// generation: a hash of who wrote which fields, and when.
pub(super) fn edition<F: Fields>(entries: &[ManagedFields<F>]) -> String {
    let mut state = DefaultHasher::new();
    for entry in entries.iter().filter(|entry| entry.subresource.is_none()) {
        (&entry.manager, &entry.operation, entry.time).hash(&mut state);
        entry.fields.hash(&mut state);
    }
    format!("{:016x}", state.finish())
}

/// Whether an entry belongs to our apply.
fn is_our_apply<F>(entry: &ManagedFields<F>) -> bool {
    entry.manager == marks::COPY_MANAGER && entry.operation == "Apply" && entry.subresource.is_none()
}

/// Returns a hash of all entries except the entry of our apply: the entries of other managers, and the
/// entries of the status.
pub(super) fn others_written<F: Fields>(entries: &[ManagedFields<F>]) -> u64 {
    let mut state = DefaultHasher::new();
    for entry in entries.iter().filter(|entry| !is_our_apply(entry)) {
        (&entry.manager, &entry.operation, &entry.subresource, entry.time).hash(&mut state);
        entry.fields.hash(&mut state);
    }
    state.finish()
}

/// Returns which managers own which fields. Only the first few fields of other managers are kept: any user
/// may put marks on an object, and own a hundred thousand keys of the object.
pub(super) fn ownership<F: Fields>(entries: &[ManagedFields<F>]) -> Ownership {
    let our_entry = entries.iter().find(|entry| is_our_apply(entry));
    let ours = our_entry.map(|entry| entry.fields.own());
    let ours_alone = our_entry.map(|entry| alone(entries, entry)).unwrap_or_default();
    let by_our_patch = |entry: &&ManagedFields<F>| F::PATCHED && entry.manager == marks::COPY_MANAGER;
    let others = entries.iter().filter(|entry| !is_our_apply(entry) && !by_our_patch(entry));
    let mut foreign: Vec<ForeignField> = others.clone().flat_map(|entry| entry.fields.touched()).collect();
    foreign.sort();
    foreign.dedup();
    foreign.truncate(Ownership::FOREIGN);
    let contesting = others.filter(|entry| !OURS.contains(&&*entry.manager) && entry.fields.is_contesting());
    let mut others: Vec<String> = contesting.map(|entry| entry.manager.clone()).collect();
    others.sort();
    others.dedup();
    others.truncate(Ownership::OTHERS);
    let by_us =
        |entry: &&ManagedFields<F>| [marks::COPY_MANAGER, marks::REMOVAL_MANAGER].contains(&&*entry.manager);
    let written = entries.iter().filter(by_us).filter_map(|entry| entry.time).max();
    Ownership { ours, ours_alone, foreign, others, written }
}

/// Returns the labels and annotations that only this entry owns, without our marks.
fn alone<F: Fields>(entries: &[ManagedFields<F>], ours: &ManagedFields<F>) -> Vec<String> {
    let mut alone: Vec<String> = ours.fields.metadata().unmarked().collect();
    if !alone.is_empty() {
        let others = entries.iter().filter(|entry| !std::ptr::eq(*entry, ours));
        let others: BTreeSet<String> = others.flat_map(|entry| entry.fields.metadata().unmarked()).collect();
        alone.retain(|field| !others.contains(field));
        alone.sort();
    }
    alone
}

/// The fields of a ConfigMap or Secret.
#[derive(Default, Deserialize)]
#[serde(default)]
pub struct DataFields {
    #[serde(rename = "f:data")]
    data: Option<Names>,
    #[serde(rename = "f:binaryData")]
    binary_data: Option<Names>,
    #[serde(rename = "f:stringData")]
    string_data: Option<Names>,
    #[serde(rename = "f:immutable")]
    immutable: Option<IgnoredAny>,
    #[serde(rename = "f:type")]
    type_: Option<IgnoredAny>,
    #[serde(rename = "f:metadata")]
    metadata: MetadataFields,
}

/// The labels and annotations of one entry.
#[derive(Default, Deserialize)]
#[serde(default)]
pub struct MetadataFields {
    #[serde(rename = "f:labels")]
    labels: Names,
    #[serde(rename = "f:annotations")]
    annotations: Names,
}

impl MetadataFields {
    /// Labels and annotations, without our annotations `definition` and `object`, which are no content of a
    /// copy and may be missing on copies of earlier versions.
    fn names(&self) -> impl Iterator<Item = String> + '_ {
        self.names_but(|_| false)
    }

    /// Labels and annotations without our marks.
    fn unmarked(&self) -> impl Iterator<Item = String> + '_ {
        self.names_but(marks::is_mark)
    }

    fn names_but(&self, is_left_out: fn(&str) -> bool) -> impl Iterator<Item = String> + '_ {
        let counts = move |key: &&String| !is_left_out(key);
        let labels = self.labels.0.iter().filter(counts).map(|key| format!("label/{key}"));
        let annotations = self.annotations.0.iter().filter(counts);
        let annotations =
            annotations.filter(|key| ![marks::DEFINITION, marks::OBJECT].contains(&key.as_str()));
        labels.chain(annotations.map(|key| format!("annotation/{key}")))
    }

    fn marks(&self) -> impl Iterator<Item = ForeignField> + '_ {
        let marks = self.labels.0.iter().chain(&self.annotations.0).filter(|key| marks::is_mark(key));
        marks.cloned().map(ForeignField::Mark)
    }
}

impl Fields for DataFields {
    const PATCHED: bool = false;

    fn owns_content(&self) -> bool {
        self.data.is_some()
            || self.binary_data.is_some()
            || self.string_data.is_some()
            || self.immutable.is_some()
    }

    fn content(&self) -> impl Iterator<Item = String> + '_ {
        let sections =
            [("data", &self.data), ("binaryData", &self.binary_data), ("stringData", &self.string_data)];
        sections.into_iter().flat_map(|(section, names)| {
            let names = names.iter().flat_map(|names| &names.0);
            names.map(move |name| format!("{section}/{name}"))
        })
    }

    fn own(&self) -> OwnFields {
        let type_ = self.type_.map(|_| "type".to_owned());
        let immutable = self.immutable.map(|_| "immutable".to_owned());
        let paths = self.content().chain(self.metadata.names()).chain(type_).chain(immutable);
        OwnFields::Names(marks::field_set(paths))
    }

    fn touched(&self) -> Vec<ForeignField> {
        let keys = |names: &Option<Names>| names.as_ref().map_or_else(Vec::new, |names| names.0.clone());
        let mut touched: Vec<ForeignField> = keys(&self.data).into_iter().map(ForeignField::Data).collect();
        touched.extend(keys(&self.string_data).into_iter().map(ForeignField::Data));
        touched.extend(keys(&self.binary_data).into_iter().map(ForeignField::BinaryData));
        touched.extend(self.immutable.map(|_| ForeignField::Immutable));
        touched.extend(self.type_.map(|_| ForeignField::Type));
        touched.extend(self.metadata.marks());
        touched
    }

    fn metadata(&self) -> &MetadataFields {
        &self.metadata
    }

    fn hash(&self, state: &mut DefaultHasher) {
        self.content().chain(self.metadata.names()).collect::<Vec<_>>().hash(state);
    }
}

/// The fields of an object of another kind. The status and other fields that are no content are left out.
#[derive(Default)]
pub struct PathFields {
    content: Vec<String>,
    metadata: MetadataFields,
}

impl Fields for PathFields {
    const PATCHED: bool = true;

    fn owns_content(&self) -> bool {
        !self.content.is_empty()
    }

    fn content(&self) -> impl Iterator<Item = String> + '_ {
        self.content.iter().cloned()
    }

    fn own(&self) -> OwnFields {
        OwnFields::Paths(Box::new((marks::field_set(self.metadata.names()), self.content.clone())))
    }

    fn touched(&self) -> Vec<ForeignField> {
        self.content.iter().cloned().map(ForeignField::Path).chain(self.metadata.marks()).collect()
    }

    fn metadata(&self) -> &MetadataFields {
        &self.metadata
    }

    fn hash(&self, state: &mut DefaultHasher) {
        self.content().chain(self.metadata.names()).collect::<Vec<_>>().hash(state);
    }
}

/// The fields of an object of which Copyrator manages only the fields that a template names. The content is
/// reduced to whether the entry owns any content.
#[derive(Default, Deserialize)]
#[serde(from = "serde_json::Value")]
pub struct MarkFields {
    metadata: MetadataFields,
    has_content: bool,
    hash: u64,
}

impl From<Value> for MarkFields {
    fn from(mut fields: Value) -> Self {
        if let Some(fields) = fields.as_object_mut() {
            fields.remove("f:status");
        }
        let mut state = DefaultHasher::new();
        fields.to_string().hash(&mut state);
        let mut names = fields.as_object().into_iter().flatten().map(|(name, _)| name);
        let has_content = names.any(|name| name.starts_with("f:") && name != "f:metadata");
        let metadata = serde_json::from_value(fields["f:metadata"].take()).unwrap_or_default();
        Self { metadata, has_content, hash: state.finish() }
    }
}

impl Fields for MarkFields {
    const PATCHED: bool = false;

    fn owns_content(&self) -> bool {
        false
    }

    fn content(&self) -> impl Iterator<Item = String> + '_ {
        std::iter::empty()
    }

    fn own(&self) -> OwnFields {
        OwnFields::Names(marks::field_set(self.metadata.names()))
    }

    fn touched(&self) -> Vec<ForeignField> {
        self.metadata.marks().collect()
    }

    fn is_contesting(&self) -> bool {
        self.has_content || self.metadata.marks().next().is_some()
    }

    fn metadata(&self) -> &MetadataFields {
        &self.metadata
    }

    fn hash(&self, state: &mut DefaultHasher) {
        Hash::hash(&self.hash, state);
    }
}

impl<'de> Deserialize<'de> for PathFields {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Whole;
        impl<'de> Visitor<'de> for Whole {
            type Value = PathFields;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a set of managed fields")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<PathFields, A::Error> {
                let mut fields = PathFields::default();
                while let Some(key) = map.next_key::<Cow<'de, str>>()? {
                    match key.strip_prefix("f:") {
                        Some("metadata") => fields.metadata = map.next_value()?,
                        Some(field) if is_content(field) => {
                            map.next_value_seed(Below {
                                path: child("", field),
                                paths: &mut fields.content,
                            })?;
                        }
                        _ => drop(map.next_value::<IgnoredAny>()?),
                    }
                }
                Ok(fields)
            }
        }
        deserializer.deserialize_map(Whole)
    }
}

/// Collects the paths below `path`. A path ends at a list: the items have no paths of their own.
struct Below<'p> {
    path: String,
    paths: &'p mut Vec<String>,
}

impl<'de> DeserializeSeed<'de> for Below<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Below<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a set of managed fields")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let Self { path, paths } = self;
        let mut ends = true;
        while let Some(key) = map.next_key::<Cow<'de, str>>()? {
            match key.strip_prefix("f:") {
                Some(field) => {
                    ends = false;
                    map.next_value_seed(Below { path: child(&path, field), paths })?;
                }
                None => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        if ends {
            paths.push(path);
        }
        Ok(())
    }
}

/// The names of a map's entries in managedFields: the keys that begin with `f:`.
#[derive(Default)]
struct Names(Vec<String>);

impl<'de> Deserialize<'de> for Names {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct NamesVisitor;
        impl<'de> Visitor<'de> for NamesVisitor {
            type Value = Names;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a set of managed fields")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Names, A::Error> {
                let mut names = Vec::new();
                while let Some((key, IgnoredAny)) = map.next_entry::<Cow<'de, str>, IgnoredAny>()? {
                    names.extend(key.strip_prefix("f:").map(ToOwned::to_owned));
                }
                Ok(Names(names))
            }
        }
        deserializer.deserialize_map(NamesVisitor)
    }
}

#[cfg(test)]
mod tests;
