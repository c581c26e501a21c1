//! ConfigMaps and Secrets, decoded from their metadata into our own small type. `last-applied-configuration`
//! carries whole Secrets and is skipped while decoding.

use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet},
    fmt,
    marker::PhantomData,
};

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

/// Field selector of Secrets: what is never copied nor used is filtered at the server (HNC#241; Helm releases are up to
/// 1 MiB each).
pub const SECRETS: &str =
    "type!=helm.sh/release.v1,type!=kubernetes.io/service-account-token,type!=bootstrap.kubernetes.io/token";
/// Field selector of ConfigMaps, for the same reason.
pub const CONFIG_MAPS: &str = "metadata.name!=kube-root-ca.crt";

/// An object of kind `K` of which only the metadata is asked for, and little of that is kept.
#[derive(Clone, Debug)]
pub struct Slim<K> {
    meta: ObjectMeta,
    /// What is kept.
    pub facts: ObjectFacts,
    /// What it asks for by annotations of its own, if anything.
    pub(super) asks: Option<Box<Asks>>,
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
        let asks = metadata.asks().map(Box::new);
        Ok(Self { meta, facts: metadata.into_facts(), asks, kind: PhantomData })
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

/// What an object asks for by annotations of its own: to be copied, or pods to be restarted.
#[derive(Clone, Debug)]
pub(super) struct Asks {
    /// Its annotations that begin with `copyrator.dev/`.
    pub(super) annotations: BTreeMap<String, String>,
    /// When the object was created.
    pub(super) created: Timestamp,
    /// When we wrote what its pods run with: that manager writes nothing else.
    pub(super) pods_recorded: Option<Timestamp>,
}

impl Metadata {
    fn asks(&self) -> Option<Asks> {
        let asks = marks::ASKING.iter().any(|key| self.annotations.0.contains_key(*key));
        let of_pods = |entry: &&ManagedFields| entry.manager == marks::PODS_MANAGER;
        asks.then(|| Asks {
            pods_recorded: self.managed_fields.iter().find(of_pods).and_then(|entry| entry.time),
            annotations: self.annotations.0.clone(),
            created: self.creation_timestamp.unwrap_or(Timestamp::UNIX_EPOCH),
        })
    }

    fn into_facts(self) -> ObjectFacts {
        let annotation = |key: &str| self.annotations.0.get(key).cloned();
        let marks = CopyMarks::read(annotation).map(Box::new);
        let content_written = self.managed_fields.iter().filter(|entry| entry.fields.owns_content());
        let changed_at = content_written.filter_map(|entry| entry.time).max().or(self.creation_timestamp);
        let content: BTreeSet<String> =
            self.managed_fields.iter().flat_map(|entry| entry.fields.content()).collect();
        ObjectFacts {
            uid: self.uid.into(),
            resource_version: self.resource_version.into(),
            deleting: self.deletion_timestamp.is_some(),
            changed_at: changed_at.unwrap_or(Timestamp::UNIX_EPOCH),
            content_fields: marks::field_set(content),
            restart: annotation(marks::RESTART).map(Into::into),
            ownership: marks.as_ref().map(|_| Box::new(ownership(&self.managed_fields))),
            marks,
            labels: self.labels,
        }
    }
}

/// An object's facts as they come in, where an earlier version of it is known.
///
/// An update that only takes keys away (`kubectl edit`, `kubectl replace`, a merge patch of nulls, `helm upgrade`) moves
/// no managedFields time: the keys leave their owners' entries, and nobody gets them. Only who knew them sees it.
pub(super) fn after(known: &ObjectFacts, mut facts: ObjectFacts, now: Timestamp) -> ObjectFacts {
    if facts.uid != known.uid {
        return facts;
    }
    let has_time = facts.changed_at > known.changed_at;
    if !has_time && facts.content_fields != known.content_fields {
        // In whole seconds, as the API server writes its own.
        facts.changed_at = Timestamp::from_second(now.as_second()).unwrap_or(now);
    }
    // What was seen is not forgotten because of a later write of labels, or a list of everything.
    facts.changed_at = facts.changed_at.max(known.changed_at);
    facts
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

    /// The paths of content keys.
    fn content(&self) -> impl Iterator<Item = String> + '_ {
        let sections =
            [("data", &self.data), ("binaryData", &self.binary_data), ("stringData", &self.string_data)];
        sections.into_iter().flat_map(|(section, names)| {
            let names = names.iter().flat_map(|names| &names.0);
            names.map(move |name| format!("{section}/{name}"))
        })
    }

    fn field_set(&self) -> u64 {
        let under = |section: &'static str, names: &[String]| -> Vec<String> {
            names.iter().map(|name| format!("{section}/{name}")).collect()
        };
        let mut paths: Vec<String> = self.content().collect();
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

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;
    use serde_json::json;

    use super::*;

    /// A ConfigMap with these keys; its managedFields say that content was last written in this second.
    fn config_map(uid: &str, keys: &[&str], written: i64) -> ObjectFacts {
        let data: BTreeMap<_, _> = keys.iter().map(|key| (format!("f:{key}"), json!({}))).collect();
        let time = at(written);
        let object = json!({"metadata": {
            "name": "a", "uid": uid, "resourceVersion": "1", "creationTimestamp": at(10),
            "managedFields": [{"manager": "m", "operation": "Update", "time": time, "fieldsV1": {"f:data": data}}],
        }});
        serde_json::from_value::<Slim<ConfigMap>>(object).unwrap().facts
    }

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn a_key_that_goes_is_a_change_though_no_time_tells() {
        let now = "1970-01-01T00:05:00.7Z".parse().unwrap();
        let known = config_map("u", &["x", "y"], 100);
        for (facts, expected, what) in [
            (config_map("u", &["x", "y"], 100), 100, "labels"),
            (config_map("u", &["x", "y"], 200), 200, "a value"),
            (config_map("u", &["x", "z"], 200), 200, "a renamed key"),
            (config_map("u", &["x"], 100), 300, "a key goes"),
            (config_map("u", &["x"], 50), 300, "a key goes, and its owner's entry with it"),
            (config_map("new", &["x"], 100), 100, "another object"),
        ] {
            assert_eq!(after(&known, facts, now).changed_at, at(expected), "{what}");
        }
        // Once seen it stays, whatever is written later, until content is.
        let shrunk = after(&known, config_map("u", &["x"], 100), now);
        let later = at(400);
        assert_eq!(after(&shrunk, config_map("u", &["x"], 100), later), shrunk);
        assert_eq!(after(&shrunk, config_map("u", &["x"], 350), later).changed_at, at(350));
    }
}
