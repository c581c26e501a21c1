//! ConfigMaps and Secrets, decoded from their metadata into our own small type. `last-applied-configuration`
//! carries whole Secrets and is skipped while decoding.

use std::{borrow::Cow, collections::BTreeMap, fmt, marker::PhantomData};

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use serde::{
    Deserialize, Deserializer,
    de::{IgnoredAny, MapAccess, Visitor},
};

use crate::{
    marks::{self, CopyMarks},
    model::{ForeignField, ObjectFacts, Ownership},
};

/// An object of kind `K` of which only the metadata is asked for, and little of that is kept.
#[derive(Clone, Debug)]
pub struct Slim<K> {
    meta: ObjectMeta,
    /// What is kept.
    pub facts: ObjectFacts,
    kind: PhantomData<fn() -> K>,
}

impl<K: Resource<DynamicType = ()>> Resource for Slim<K> {
    type DynamicType = ();
    type Scope = K::Scope;

    fn kind((): &()) -> Cow<'_, str> {
        K::kind(&())
    }

    fn group((): &()) -> Cow<'_, str> {
        K::group(&())
    }

    fn version((): &()) -> Cow<'_, str> {
        K::version(&())
    }

    fn plural((): &()) -> Cow<'_, str> {
        K::plural(&())
    }

    fn meta(&self) -> &ObjectMeta {
        &self.meta
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.meta
    }

    fn metadata_api() -> bool {
        true
    }
}

impl<'de, K> Deserialize<'de> for Slim<K> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let Partial { metadata } = Partial::deserialize(deserializer)?;
        let meta = ObjectMeta {
            name: Some(metadata.name.clone()),
            namespace: metadata.namespace.clone(),
            uid: Some(metadata.uid.clone()),
            resource_version: Some(metadata.resource_version.clone()),
            ..ObjectMeta::default()
        };
        Ok(Self { meta, facts: metadata.into_facts(), kind: PhantomData })
    }
}

#[derive(Deserialize)]
struct Partial {
    #[serde(default)]
    metadata: Metadata,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Metadata {
    name: String,
    namespace: Option<String>,
    uid: String,
    resource_version: String,
    creation_timestamp: Option<Timestamp>,
    deletion_timestamp: Option<Timestamp>,
    labels: BTreeMap<Box<str>, Box<str>>,
    annotations: OurAnnotations,
    managed_fields: Vec<ManagedFields>,
}

impl Metadata {
    fn into_facts(self) -> ObjectFacts {
        let annotation = |key: &str| self.annotations.0.get(key).cloned();
        let marks = CopyMarks::read(annotation).map(Box::new);
        let content_written = self.managed_fields.iter().filter(|entry| entry.fields.owns_content());
        let changed_at = content_written.filter_map(|entry| entry.time).max().or(self.creation_timestamp);
        ObjectFacts {
            uid: self.uid.into(),
            resource_version: self.resource_version.into(),
            deleting: self.deletion_timestamp.is_some(),
            changed_at: changed_at.unwrap_or(Timestamp::UNIX_EPOCH),
            restart: annotation(marks::RESTART).map(Into::into),
            ownership: marks.as_ref().map(|_| Box::new(ownership(&self.managed_fields))),
            marks,
            labels: self.labels,
        }
    }
}

/// Who owns what, from managedFields (server-side apply, KEP-555).
fn ownership(entries: &[ManagedFields]) -> Ownership {
    let is_ours = |entry: &&ManagedFields| {
        entry.manager == marks::COPY_MANAGER && entry.operation == "Apply" && entry.subresource.is_none()
    };
    let ours = entries.iter().find(is_ours).map(|entry| entry.fields.field_set());
    let others = entries.iter().filter(|entry| !is_ours(entry));
    let mut foreign: Vec<ForeignField> = others.clone().flat_map(|entry| entry.fields.touched()).collect();
    foreign.sort();
    foreign.dedup();
    let touching = others.filter(|entry| !entry.fields.touched().is_empty());
    let mut others: Vec<String> = touching.map(|entry| entry.manager.clone()).collect();
    others.sort();
    others.dedup();
    Ownership { ours, foreign, others }
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct ManagedFields {
    manager: String,
    operation: String,
    subresource: Option<String>,
    time: Option<Timestamp>,
    #[serde(rename = "fieldsV1")]
    fields: Fields,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Fields {
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
    metadata: Option<MetadataFields>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct MetadataFields {
    #[serde(rename = "f:labels")]
    labels: Option<Names>,
    #[serde(rename = "f:annotations")]
    annotations: Option<Names>,
}

impl Fields {
    fn owns_content(&self) -> bool {
        self.data.is_some()
            || self.binary_data.is_some()
            || self.string_data.is_some()
            || self.immutable.is_some()
    }

    fn labels(&self) -> &[String] {
        self.metadata.as_ref().and_then(|meta| meta.labels.as_ref()).map_or(&[], |names| &names.0)
    }

    fn annotations(&self) -> &[String] {
        self.metadata.as_ref().and_then(|meta| meta.annotations.as_ref()).map_or(&[], |names| &names.0)
    }

    fn field_set(&self) -> u64 {
        let under = |section: &'static str, names: &[String]| -> Vec<String> {
            names.iter().map(|name| format!("{section}/{name}")).collect()
        };
        let keys = |names: &Option<Names>| names.as_ref().map_or_else(Vec::new, |names| names.0.clone());
        let mut paths = under("data", &keys(&self.data));
        paths.extend(under("binaryData", &keys(&self.binary_data)));
        paths.extend(under("label", self.labels()));
        paths.extend(under("annotation", self.annotations()));
        paths.extend(self.type_.map(|_| "type".to_owned()));
        paths.extend(self.immutable.map(|_| "immutable".to_owned()));
        marks::field_set(paths)
    }

    fn touched(&self) -> Vec<ForeignField> {
        let keys = |names: &Option<Names>| names.as_ref().map_or_else(Vec::new, |names| names.0.clone());
        let mut touched: Vec<ForeignField> = keys(&self.data).into_iter().map(ForeignField::Data).collect();
        touched.extend(keys(&self.string_data).into_iter().map(ForeignField::Data));
        touched.extend(keys(&self.binary_data).into_iter().map(ForeignField::BinaryData));
        touched.extend(self.immutable.map(|_| ForeignField::Immutable));
        touched.extend(self.type_.map(|_| ForeignField::Type));
        let marks = self.labels().iter().chain(self.annotations()).filter(|key| marks::is_mark(key));
        touched.extend(marks.cloned().map(ForeignField::Mark));
        touched
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

/// The annotations that begin with `copyrator.dev/`; the rest is skipped without being stored.
#[derive(Default)]
struct OurAnnotations(BTreeMap<String, String>);

impl<'de> Deserialize<'de> for OurAnnotations {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct OursVisitor;
        impl<'de> Visitor<'de> for OursVisitor {
            type Value = OurAnnotations;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("annotations")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<OurAnnotations, A::Error> {
                let mut ours = BTreeMap::new();
                while let Some(key) = map.next_key::<Cow<'de, str>>()? {
                    if key.starts_with("copyrator.dev/") {
                        ours.insert(key.into_owned(), map.next_value()?);
                    } else {
                        map.next_value::<IgnoredAny>()?;
                    }
                }
                Ok(OurAnnotations(ours))
            }

            fn visit_unit<E>(self) -> Result<OurAnnotations, E> {
                Ok(OurAnnotations::default())
            }
        }
        deserializer.deserialize_any(OursVisitor)
    }
}
