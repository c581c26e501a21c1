//! Objects that rules copy or templates declare, decoded from their metadata into a small type of our own.
//! `last-applied-configuration` can contain a whole Secret, and is skipped while decoding.

use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet},
    fmt,
    marker::PhantomData,
    sync::Arc,
};

use jiff::Timestamp;
use k8s_openapi::{
    api::{
        apps::v1::Deployment,
        core::v1::{ConfigMap, LimitRange, ResourceQuota, Secret, Service, ServiceAccount},
        networking::v1::NetworkPolicy,
        policy::v1::PodDisruptionBudget,
        rbac::v1::RoleBinding,
    },
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use kube::Resource;
use serde::{
    Deserialize, Deserializer,
    de::{IgnoredAny, MapAccess, Visitor},
};

use super::{
    after::after,
    managed_fields::{
        DataFields, Fields, ManagedFields, MarkFields, PathFields, edition, others_written, ownership,
    },
    selection::Whole,
};
use crate::{
    marks::{self, CopyMarks},
    model::{
        Deletion, Drift, Examined, Labels, ObjectFacts, Owner, Ownership, Seen, SeenBy, World, WriteTrace,
    },
    names::{Kind, ObjectKey},
    validate::misspelt_annotations,
};

/// How many unknown annotation keys with our prefix are kept for each object, to report that they have no
/// effect.
const MOST_OTHERS: usize = 3;

/// A type of `k8s-openapi` whose objects rules copy or templates declare.
pub trait OfKind: Resource<DynamicType = ()> {
    /// The kind, as rules and keys name it.
    const KIND: Kind;
    /// The type of the fields in an entry of the object's managedFields.
    type Fields: Fields;
}

impl OfKind for ConfigMap {
    const KIND: Kind = Kind::ConfigMap;
    type Fields = DataFields;
}

impl OfKind for Secret {
    const KIND: Kind = Kind::Secret;
    type Fields = DataFields;
}

impl OfKind for NetworkPolicy {
    const KIND: Kind = Kind::NetworkPolicy;
    type Fields = PathFields;
}

impl OfKind for ResourceQuota {
    const KIND: Kind = Kind::ResourceQuota;
    type Fields = PathFields;
}

impl OfKind for LimitRange {
    const KIND: Kind = Kind::LimitRange;
    type Fields = PathFields;
}

impl OfKind for PodDisruptionBudget {
    const KIND: Kind = Kind::PodDisruptionBudget;
    type Fields = PathFields;
}

impl OfKind for ServiceAccount {
    const KIND: Kind = Kind::ServiceAccount;
    type Fields = PathFields;
}

impl OfKind for Deployment {
    const KIND: Kind = Kind::Deployment;
    type Fields = MarkFields;
}

impl OfKind for RoleBinding {
    const KIND: Kind = Kind::RoleBinding;
    type Fields = PathFields;
}

impl OfKind for Service {
    const KIND: Kind = Kind::Service;
    type Fields = MarkFields;
}

/// An object of kind `K`, in the selection `S`. Only the metadata is read, and only a small part of the
/// metadata is kept.
#[derive(Clone, Debug)]
pub struct Slim<K, S = Whole> {
    meta: ObjectMeta,
    /// The facts that the world keeps.
    pub facts: ObjectFacts,
    /// The copies or restarts that the object's own annotations declare.
    pub(super) asks: Option<Box<Asks>>,
    /// The problems of annotations on the object that look like ours.
    pub(super) misspelt: Option<String>,
    kind: PhantomData<fn() -> (K, S)>,
}

impl<K, S> Slim<K, S> {
    /// Whether the object's annotations declare copies or restarts without effect, since the label beside
    /// them is missing.
    pub fn asks_in_vain(&self) -> bool {
        self.asks.as_deref().is_some_and(|asks| !asks.declares)
    }
}

impl<K: Resource<DynamicType = ()>, S> Resource for Slim<K, S> {
    crate::decoded::resource_names!(K);

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

impl<'de, K: OfKind, S> Deserialize<'de> for Slim<K, S> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let Partial { metadata } = Partial::<K::Fields>::deserialize(deserializer)?;
        let meta = ObjectMeta {
            name: Some(metadata.name.clone()),
            namespace: metadata.namespace.clone(),
            uid: Some(metadata.uid.clone()),
            resource_version: Some(metadata.resource_version.clone()),
            ..ObjectMeta::default()
        };
        // Annotations declare copies or restarts on ConfigMaps and Secrets only.
        let (asks, misspelt) = match K::KIND.data() {
            Some(_) => (metadata.asks().map(Box::new), metadata.annotations.misspelt()),
            None => (None, None),
        };
        Ok(Self { meta, facts: metadata.into_facts(K::KIND), asks, misspelt, kind: PhantomData })
    }
}

#[derive(Deserialize)]
#[serde(bound = "F: Fields")]
struct Partial<F> {
    #[serde(default)]
    metadata: Metadata<F>,
}

/// The part of an object's metadata that is read.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase", bound = "F: Fields")]
pub(super) struct Metadata<F> {
    pub(super) name: String,
    pub(super) namespace: Option<String>,
    uid: String,
    resource_version: String,
    generation: i64,
    creation_timestamp: Option<Timestamp>,
    deletion_timestamp: Option<Timestamp>,
    labels: Labels,
    annotations: OurAnnotations,
    owner_references: Vec<Owner>,
    finalizers: Vec<String>,
    managed_fields: Vec<ManagedFields<F>>,
}

/// The request that an object's own annotations make: copies of it, or restarts of pods.
#[derive(Clone, Debug)]
pub(super) struct Asks {
    /// Whether the object has the label that makes these annotations count.
    pub(super) declares: bool,
    /// The object's annotations under `copyrator.dev/`.
    pub(super) annotations: BTreeMap<String, String>,
    /// When the object was created.
    pub(super) created: Timestamp,
    /// When we last recorded the content that the selected pods run: the time of a field manager that writes
    /// only this record.
    pub(super) pods_recorded: Option<Timestamp>,
}

impl<F: Fields> Metadata<F> {
    fn asks(&self) -> Option<Asks> {
        let asks = marks::ASKING.iter().any(|key| self.annotations.read.contains_key(*key));
        let of_pods = |entry: &&ManagedFields<F>| entry.manager == marks::PODS_MANAGER;
        asks.then(|| Asks {
            declares: marks::declares(|key| self.labels.get(key)),
            pods_recorded: self.managed_fields.iter().find(of_pods).and_then(|entry| entry.time),
            annotations: self.annotations.read.clone(),
            created: self.creation_timestamp.unwrap_or(Timestamp::UNIX_EPOCH),
        })
    }

    /// A generation does not count changes of annotations. On an object that is kept whole, every annotation
    /// matters, so the edition hashes managedFields. On other objects, only annotations that Copyrator
    /// applied matter: another writer who changes one of these annotations removes it from our apply's
    /// fields.
    fn examined(&self, kind: Kind, ownership: &Ownership) -> Examined {
        let edition = match self.generation {
            generation if generation > 0 && !kind.is_whole() => format!("{generation}-{:?}", ownership.ours),
            generation => format!("{generation}-{}", edition(&self.managed_fields)),
        };
        Examined { edition: edition.into(), drift: Drift::Unexamined }
    }

    pub(super) fn into_facts(self, kind: Kind) -> ObjectFacts {
        let annotation = |key: &str| self.annotations.read.get(key).cloned();
        let namespace = self.namespace.as_deref().unwrap_or_default();
        let marks = CopyMarks::read(kind, namespace, &self.name, annotation).map(Box::new);
        let content_written = self.managed_fields.iter().filter(|entry| entry.fields.owns_content());
        let changed_at = content_written.filter_map(|entry| entry.time).max().or(self.creation_timestamp);
        let content: BTreeSet<String> =
            self.managed_fields.iter().flat_map(|entry| entry.fields.content()).collect();
        let ownership = marks.as_ref().map(|_| Arc::new(ownership(&self.managed_fields)));
        // A generation, if the API server counts one for the kind, shows each change of the spec.
        let is_counted = self.generation > 0 && kind.data().is_none() && !kind.is_whole();
        let others = (marks.is_some() && !is_counted).then(|| others_written(&self.managed_fields));
        let examined = ownership.as_deref().filter(|_| kind.data().is_none());
        let examined = examined.map(|ownership| Box::new(self.examined(kind, ownership)));
        ObjectFacts {
            uid: self.uid.into(),
            resource_version: self.resource_version.into(),
            deletion: self.deletion_timestamp.map(|since| Box::new(deletion(since, self.finalizers))),
            created: self.creation_timestamp.unwrap_or(Timestamp::UNIX_EPOCH),
            owners: Owner::hash(&self.owner_references),
            changed_at: changed_at.unwrap_or(Timestamp::UNIX_EPOCH),
            content_fields: marks::field_set(content),
            restart: annotation(marks::RESTART).map(Into::into),
            ownership,
            examined,
            marks,
            trace: WriteTrace { others, is_untraced: false },
            seen: Default::default(),
            labels: Arc::new(self.labels),
        }
    }
}

fn deletion(since: Timestamp, mut finalizers: Vec<String>) -> Deletion {
    finalizers.truncate(Deletion::FINALIZERS);
    Deletion { since, finalizers }
}

/// Whether another watch has brought newer facts of the object, or the same. Notes in this case only that
/// this watch shows the object, too. An answer to a question is no watch: it has affected no other key, and is
/// dropped where a watch shows the object.
pub(super) fn is_behind(world: &mut World, key: &ObjectKey, facts: &ObjectFacts, watch: SeenBy) -> bool {
    let known = world.object(key).filter(|known| !known.seen.is_only_asked());
    if watch == SeenBy::Asked {
        return known.is_some();
    }
    let is_behind = known.is_some_and(|known| {
        known.seen.is_ahead_of(watch, &known.resource_version, &facts.resource_version)
            || (known.is_version_of(facts) && !known.seen.is_by(watch))
    });
    if is_behind {
        world.note_seen(key, watch);
    }
    is_behind
}

/// Stores the facts of an object, which this watch has brought, in the world; returns whether they differ
/// from the known facts.
pub(super) fn put(
    world: &mut World,
    key: ObjectKey,
    mut facts: ObjectFacts,
    watch: SeenBy,
    now: Timestamp,
) -> bool {
    let known = world.object(&key);
    facts.seen = Seen::after(known.map(|known| known.seen), watch);
    let facts = match known {
        Some(known) => after(known, facts, now),
        None => facts,
    };
    if known == Some(&facts) {
        return false;
    }
    world.set_object(key, Some(facts));
    true
}

/// The annotations of ours that are read, each up to its limit, and the keys of a few others with our prefix.
/// All other annotations are skipped, not stored.
#[derive(Default)]
struct OurAnnotations {
    read: BTreeMap<String, String>,
    others: Vec<String>,
}

impl OurAnnotations {
    fn misspelt(&self) -> Option<String> {
        let read = self.read.iter().map(|(key, value)| (key.as_str(), value.as_str()));
        let wrong = misspelt_annotations(read.chain(self.others.iter().map(|key| (key.as_str(), ""))));
        (!wrong.is_empty()).then(|| wrong.join("; "))
    }
}

impl<'de> Deserialize<'de> for OurAnnotations {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct OursVisitor;
        impl<'de> Visitor<'de> for OursVisitor {
            type Value = OurAnnotations;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("annotations")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<OurAnnotations, A::Error> {
                let mut ours = OurAnnotations::default();
                while let Some(key) = map.next_key::<Cow<'de, str>>()? {
                    match marks::kept_bytes(&key) {
                        Some(most) => {
                            let value: String = map.next_value()?;
                            let end = value.floor_char_boundary(most);
                            ours.read.insert(key.into_owned(), value[..end].to_owned());
                        }
                        None => {
                            map.next_value::<IgnoredAny>()?;
                            if key.starts_with(marks::PREFIX) && ours.others.len() < MOST_OTHERS {
                                ours.others.push(key.into_owned());
                            }
                        }
                    }
                }
                Ok(ours)
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

    /// Returns a ConfigMap with these keys, whose content was last written at this second according to
    /// managedFields.
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

    /// Users may put as many annotations on their objects as the API server accepts.
    #[test]
    fn of_annotations_no_more_is_kept_than_is_read() {
        let long = "é".repeat(100_000);
        let object = json!({"metadata": {"name": "a", "uid": "u", "resourceVersion": "1", "annotations": {
            "copyrator.dev/anything": long, "example.org/other": long, "copyrator.dev/copy-to": long,
            "copyrator.dev/restart": long,
        }}});
        let slim = serde_json::from_value::<Slim<ConfigMap>>(object).unwrap();
        assert!(slim.misspelt.unwrap().len() < 1024);
        let kept: usize =
            slim.asks.unwrap().annotations.iter().map(|(key, value)| key.len() + value.len()).sum();
        let restart = slim.facts.restart.unwrap().len();
        assert!(restart > marks::LONGEST - 2 && kept + restart < 4 * marks::LONGEST, "{kept} and {restart}");
    }

    /// Any user can put marks on an object; only the planner's later check of the proof shows whether the
    /// marks are ours.
    #[test]
    fn of_an_object_with_marks_no_more_is_kept_either() {
        let marks = [marks::RULE, marks::SOURCE, marks::SOURCE_UID, marks::DIGEST, marks::MARK];
        let long: BTreeMap<_, _> =
            marks.iter().map(|key| (*key, format!("a/{}", "x".repeat(30_000)))).collect();
        let keys: serde_json::Map<_, _> = (0..10_000).map(|at| (format!("f:{at}"), json!({}))).collect();
        let entry = |at: usize| json!({"manager": format!("m{at}"), "operation": "Update", "fieldsV1": {"f:data": keys}});
        let labels: BTreeMap<String, &str> = (0..10_000).map(|at| (format!("l{at}"), "x")).collect();
        let object = json!({"metadata": {"name": "a", "uid": "u", "resourceVersion": "1", "annotations": long, "labels": labels,
            "managedFields": (0..100).map(entry).collect::<Vec<_>>()}});
        let facts = serde_json::from_value::<Slim<ConfigMap>>(object).unwrap().facts;
        assert!(facts.marks.is_some() && facts.labels.is_cut());
        let owned = facts.ownership.as_deref().unwrap();
        assert_eq!((owned.foreign.len(), owned.others.len()), (64, 16));
        assert!(format!("{facts:?}").len() < 16_000, "{}", format!("{facts:?}").len());
    }

    /// A Deployment has a generation, which a change of an annotation does not increase.
    #[test]
    fn a_declared_annotation_that_somebody_changes_is_a_doubt() {
        let deployment = |ours: serde_json::Value, theirs: serde_json::Value| {
            let entry = |manager: &str, operation: &str, owned: serde_json::Value| json!({"manager": manager, "operation": operation, "fieldsV1": {"f:metadata": {"f:annotations": owned}}});
            let marks = json!({marks::RULE: "home/template:kit", marks::SOURCE: "home/template:kit", marks::MARK: "m"});
            let object = json!({"metadata": {"name": "web", "uid": "u", "resourceVersion": "1", "generation": 3, "annotations": marks,
                "managedFields": [entry(marks::COPY_MANAGER, "Apply", ours), entry("kubectl-annotate", "Update", theirs)]}});
            serde_json::from_value::<Slim<Deployment>>(object).unwrap().facts
        };
        let mut known = deployment(json!({"f:team": {}}), json!({}));
        known.set_drift(Drift::None);
        for (ours, theirs, drift) in [
            (json!({"f:team": {}}), json!({"f:theirs": {}}), Drift::None),
            (json!({}), json!({"f:team": {}}), Drift::Possible),
            (json!({}), json!({}), Drift::Possible),
        ] {
            assert_eq!(after(&known, deployment(ours, theirs.clone()), at(9)).drift(), drift, "{theirs}");
        }
    }

    #[test]
    fn a_few_annotations_that_look_like_ours_are_told_of() {
        let misspelt = |annotations: serde_json::Value| {
            let object = json!({"metadata": {"name": "a", "uid": "u", "resourceVersion": "1", "annotations": annotations}});
            serde_json::from_value::<Slim<ConfigMap>>(object).unwrap().misspelt
        };
        for fine in [
            json!({}),
            json!({"example.org/copy-too": "shop", "copyrator.dev/copy-to": "shop", "copyrator.dev/restart": "false"}),
            json!({marks::DEFINITION: "u", marks::REMOVE_AFTER: "x", marks::MARK: "x"}),
        ] {
            assert_eq!(misspelt(fine.clone()), None, "{fine}");
        }
        let said =
            misspelt(json!({"copyrator.dev/copy-too": "shop", "copyrator.dev/restart": "yes"})).unwrap();
        assert_eq!(
            said,
            "annotation copyrator.dev/restart on a ConfigMap or Secret must be \"false\"; unknown annotation copyrator.dev/copy-too; \
             did you mean copyrator.dev/copy-to?"
        );
        let many: BTreeMap<String, &str> =
            (0..100).map(|at| (format!("copyrator.dev/{at}-{}", "x".repeat(250)), "")).collect();
        assert!(misspelt(json!(many)).unwrap().len() < 1024);
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
        // A seen removal of a key counts until the next write of content, whatever other fields are written.
        let shrunk = after(&known, config_map("u", &["x"], 100), now);
        let later = at(400);
        assert_eq!(after(&shrunk, config_map("u", &["x"], 100), later), shrunk);
        assert_eq!(after(&shrunk, config_map("u", &["x"], 350), later).changed_at, at(350));
    }
}
