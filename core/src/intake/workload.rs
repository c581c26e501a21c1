//! Deployments, StatefulSets and DaemonSets, decoded into the few facts that decisions need.

use std::{collections::BTreeMap, marker::PhantomData};

use jiff::Timestamp;
use k8s_openapi::{
    api::apps::v1::{DaemonSet, Deployment, StatefulSet},
    apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta, Time},
};
use kube::{Resource, core::Selector};
use serde::{Deserialize, Deserializer, de::IgnoredAny};

use super::{
    references::PodSpec,
    rollout::{Desired, Status, UpdateStrategy, desired, rollout},
};
use crate::{
    api::WorkloadKind,
    marks::{ADOPT_MANAGER, APPLIED, BRAKE, LAST_GOOD, LONGEST, RESTART, RESTART_MANAGER, RESTARTED_FOR},
    model::{
        Labels, OtherWriter, PodLabels, PodSelector, Reference, RestartFields, TrackRecord, WorkloadFacts,
    },
    names::WorkloadKey,
    validate::unknown_on_workload,
};

/// The `progressDeadlineSeconds` of a Deployment without a deadline: its controller reports no progress.
const NO_DEADLINE: i32 = i32::MAX;
/// The most bytes that are kept of a pod template's annotation `copyrator.dev/restarted-for`; ours are
/// shorter.
const LONGEST_RECORD: usize = 256;

/// A kind of workload that we restart by its pod template.
pub trait Restartable: Resource<DynamicType = ()> {
    /// The kind in our own terms.
    const KIND: WorkloadKind;
}

impl Restartable for Deployment {
    const KIND: WorkloadKind = WorkloadKind::Deployment;
}

impl Restartable for StatefulSet {
    const KIND: WorkloadKind = WorkloadKind::StatefulSet;
}

impl Restartable for DaemonSet {
    const KIND: WorkloadKind = WorkloadKind::DaemonSet;
}

/// A workload of kind `K`, reduced to a few facts while it is decoded: 1,000 whole Deployments would take
/// 24 MB more.
#[derive(Clone, Debug)]
pub struct Workload<K> {
    meta: ObjectMeta,
    /// The facts that the world keeps.
    pub facts: WorkloadFacts,
    kind: PhantomData<fn() -> K>,
}

impl<K: Restartable> Workload<K> {
    /// The kind, namespace and name of the workload.
    pub fn key(&self) -> WorkloadKey {
        WorkloadKey {
            kind: K::KIND,
            namespace: self.meta.namespace.as_deref().unwrap_or_default().into(),
            name: self.meta.name.as_deref().unwrap_or_default().into(),
        }
    }
}

impl<K: Restartable> Resource for Workload<K> {
    crate::decoded::resource_names!(K);

    fn meta(&self) -> &ObjectMeta {
        &self.meta
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.meta
    }
}

impl<'de, K: Restartable> Deserialize<'de> for Workload<K> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let object = Object::deserialize(deserializer)?;
        let meta = ObjectMeta {
            name: Some(object.metadata.name.clone()),
            namespace: Some(object.metadata.namespace.clone()),
            uid: Some(object.metadata.uid.clone()),
            resource_version: Some(object.metadata.resource_version.clone()),
            ..ObjectMeta::default()
        };
        Ok(Self { meta, facts: object.into_facts(K::KIND), kind: PhantomData })
    }
}

#[derive(Deserialize)]
struct Object {
    metadata: Metadata,
    #[serde(default)]
    spec: Spec,
    #[serde(default)]
    status: Status,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Metadata {
    name: String,
    namespace: String,
    uid: String,
    resource_version: String,
    generation: i64,
    deletion_timestamp: Option<Time>,
    labels: Labels,
    annotations: Option<BTreeMap<String, String>>,
    managed_fields: Option<Vec<Entry>>,
}

/// A managedFields entry, without most of its fields.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Entry {
    manager: String,
    operation: String,
    time: Option<Time>,
    #[serde(rename = "fieldsV1")]
    fields: Fields,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Fields {
    #[serde(rename = "f:metadata")]
    metadata: MetadataFields,
    #[serde(rename = "f:spec")]
    spec: SpecFields,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct SpecFields {
    #[serde(rename = "f:template")]
    template: Option<IgnoredAny>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct MetadataFields {
    #[serde(rename = "f:labels")]
    labels: LabelFields,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct LabelFields {
    #[serde(rename = "f:copyrator.dev/applied")]
    applied: Option<IgnoredAny>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Spec {
    selector: Option<LabelSelector>,
    template: Option<Template>,
    replicas: Option<i32>,
    progress_deadline_seconds: Option<i32>,
    paused: Option<bool>,
    update_strategy: Option<UpdateStrategy>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Template {
    metadata: Option<Metadata>,
    spec: Option<PodSpec>,
}

/// Returns a pod selector in the syntax of a list query; an empty text if the selector is invalid.
fn query(selector: LabelSelector) -> String {
    Selector::try_from(selector).map(|selector| selector.to_string()).unwrap_or_default()
}

/// The objects that a pod template's spec refers to, each once.
///
/// # Errors
/// The value is not a pod spec.
pub fn references(pod_spec: &serde_json::Value) -> Result<Vec<Reference>, serde_json::Error> {
    Ok(Option::<PodSpec>::deserialize(pod_spec)?.unwrap_or_default().references())
}

impl Metadata {
    /// Returns an annotation's value, cut to `longest` bytes: Kubernetes limits only the size of all
    /// annotations together.
    fn annotation(&self, key: &str, longest: usize) -> Option<String> {
        let value = self.annotations.as_ref()?.get(key)?;
        Some(value[..value.floor_char_boundary(longest)].to_owned())
    }

    /// When one of these managers of ours last wrote fields for which `of` is true.
    fn written_by(&self, managers: &[&str], of: impl Fn(&Fields) -> bool) -> Option<Timestamp> {
        let ours = self.managed_fields.iter().flatten().filter(|entry| {
            entry.operation == "Apply" && managers.contains(&&*entry.manager) && of(&entry.fields)
        });
        ours.filter_map(|entry| entry.time.as_ref().map(|time| time.0)).max()
    }

    /// Whether the manager of records owns the applied label. A restart that changes the label takes it from
    /// that manager.
    fn is_verified(&self) -> bool {
        self.managed_fields.iter().flatten().any(|entry| {
            entry.operation == "Apply"
                && entry.manager == ADOPT_MANAGER
                && entry.fields.metadata.labels.applied.is_some()
        })
    }

    /// Returns the last foreign writer of the pod template, or of the applied label if the label is not ours.
    fn other_writer(&self, is_record_ours: bool) -> Option<OtherWriter> {
        let others = self.managed_fields.iter().flatten().filter(|entry| {
            let is_ours = [RESTART_MANAGER, ADOPT_MANAGER].contains(&&*entry.manager);
            let wrote = match is_record_ours {
                true => entry.fields.spec.template.is_some(),
                false => entry.fields.metadata.labels.applied.is_some(),
            };
            wrote && !is_ours
        });
        let timed = others.filter_map(|entry| Some((entry.time.as_ref()?.0, &entry.manager)));
        timed.max().map(|(at, manager)| OtherWriter { manager: manager.clone(), at })
    }

    /// When any field manager last wrote an entry that owns part of the pod template.
    fn templated(&self) -> Option<Timestamp> {
        let entries =
            self.managed_fields.iter().flatten().filter(|entry| entry.fields.spec.template.is_some());
        entries.filter_map(|entry| entry.time.as_ref().map(|time| time.0)).max()
    }
}

impl Object {
    fn into_facts(self, kind: WorkloadKind) -> WorkloadFacts {
        let Self { metadata, spec, status } = self;
        let template = spec.template.unwrap_or_default();
        let wanted =
            Desired { replicas: spec.replicas, paused: spec.paused, update_strategy: spec.update_strategy };
        let inner = template.metadata.unwrap_or_default();
        let pod = template.spec.unwrap_or_default();
        let label = |key: &str| metadata.labels.get(key).map(str::to_owned);
        let applied = label(APPLIED);
        let recorded = metadata
            .written_by(&[RESTART_MANAGER, ADOPT_MANAGER], |fields| fields.metadata.labels.applied.is_some());
        let restarts = RestartFields {
            last_restart: metadata.written_by(&[RESTART_MANAGER], |_| true),
            other_writer: applied.as_ref().and_then(|_| metadata.other_writer(recorded.is_some())),
            recorded,
            verified: metadata.is_verified(),
            track: TrackRecord::read(metadata.labels.get(BRAKE), label(LAST_GOOD)),
            restart: metadata.annotation(RESTART, LONGEST),
            unknown: unknown_on_workload(
                metadata.annotations.iter().flatten().map(|(key, _)| &**key),
                inner.annotations.iter().flatten().map(|(key, _)| &**key),
            ),
            applied,
            restarted_for: inner.annotation(RESTARTED_FOR, LONGEST_RECORD),
        };
        let template_labels = PodLabels::from(&inner.labels);
        WorkloadFacts {
            templated: metadata.templated(),
            // The deadline of a rollout does not begin before the controller has seen this generation.
            own_deadline: !status.is_of(metadata.generation)
                || (kind == WorkloadKind::Deployment && spec.progress_deadline_seconds != Some(NO_DEADLINE)),
            restarts: restarts.into(),
            uid: (&*metadata.uid).into(),
            resource_version: (&*metadata.resource_version).into(),
            deleting: metadata.deletion_timestamp.is_some(),
            selector: PodSelector::new(&spec.selector.map(query).unwrap_or_default(), &template_labels),
            template_labels,
            references: pod.references().into(),
            pull_secrets: pod.pull_secrets().into(),
            rollout: rollout(kind, metadata.generation, &wanted, &status),
            desired: desired(kind, &wanted, &status),
            available: status.available(kind),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::model::LostRecord;

    #[test]
    fn a_deployment_is_reduced_to_facts() {
        let object = json!({
            "apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {
                "name": "web", "namespace": "shop", "uid": "u1", "resourceVersion": "7", "generation": 2,
                "labels": {"app": "web", "copyrator.dev/applied": "k.d", "copyrator.dev/brake": "2.1", "copyrator.dev/last-good": "k.c"},
                "annotations": {"copyrator.dev/restart": "true", "other": "x"},
                "managedFields": [
                    {"manager": "copyrator-restart", "operation": "Apply", "time": "2026-01-01T00:00:05Z", "fieldsV1": {"f:metadata": {}}},
                    {"manager": "copyrator-restart", "operation": "Update", "time": "2026-01-01T00:00:09Z"},
                    {"manager": "copyrator-adopt", "operation": "Apply", "time": "2026-01-01T00:00:07Z",
                        "fieldsV1": {"f:metadata": {"f:labels": {"f:copyrator.dev/applied": {}}}}},
                    {"manager": "kubectl", "operation": "Update", "time": "2026-01-01T00:00:04Z",
                        "fieldsV1": {"f:spec": {"f:replicas": {}, "f:template": {"f:spec": {}}}}},
                    {"manager": "scaler", "operation": "Update", "subresource": "scale", "time": "2026-01-01T00:00:08Z",
                        "fieldsV1": {"f:spec": {"f:replicas": {}}}},
                ],
            },
            "spec": {
                "replicas": 2,
                "selector": {"matchLabels": {"app": "web"}},
                "template": {
                    "metadata": {"labels": {"app": "web"}, "annotations": {"copyrator.dev/restarted-for": "k.d"}},
                    "spec": {"containers": [{"envFrom": [{"configMapRef": {"name": "c"}}]}]},
                },
            },
            "status": {"observedGeneration": 2, "replicas": 2, "updatedReplicas": 2, "availableReplicas": 2},
        });
        let workload: Workload<Deployment> = serde_json::from_value(object.clone()).unwrap();
        assert_eq!(workload.key().to_string(), "Deployment shop/web");
        let facts = workload.facts;
        assert_eq!(facts.restarts.applied.as_deref(), Some("k.d"));
        assert_eq!(facts.restarts.restart.as_deref(), Some("true"));
        assert_eq!(facts.restarts.restarted_for.as_deref(), Some("k.d"));
        assert_eq!(
            (facts.template_labels.get("app"), facts.selector.query(&facts.template_labels).as_deref()),
            (Some("web"), Some("app=web"))
        );
        assert_eq!(facts.references.len(), 1);
        assert!(facts.restarts.verified);
        assert_eq!(facts.rollout, crate::model::Rollout::Complete);
        assert_eq!((facts.desired, facts.available), (2, 2));
        let second = |time: Option<Timestamp>| time.map(|time| time.to_string());
        assert_eq!(second(facts.restarts.last_restart).as_deref(), Some("2026-01-01T00:00:05Z"));
        assert_eq!(second(facts.restarts.recorded).as_deref(), Some("2026-01-01T00:00:07Z"));
        assert_eq!(second(facts.templated).as_deref(), Some("2026-01-01T00:00:04Z"));
        assert_eq!((facts.restarts.track.streak, facts.restarts.track.failures), (2, 1));
        assert_eq!(
            (facts.restarts.track.last_good.as_deref(), facts.last_good()),
            (Some("k.c"), Some("k.d"))
        );
        assert!(facts.own_deadline && facts.restarted_by_us());

        // Another manager wrote the label, so the times of our entries do not apply to it.
        let mut object = object;
        object["spec"]["progressDeadlineSeconds"] = json!(i32::MAX);
        // The managedFields entry of an apply that changes no other field has no time.
        let mut unchanged = object.clone();
        unchanged["metadata"]["managedFields"][2]["time"].take();
        let same: Workload<Deployment> = serde_json::from_value(unchanged).unwrap();
        assert_eq!((same.facts.restarts.recorded, same.facts.restarts.verified), (None, true));
        object["metadata"]["managedFields"][2]["fieldsV1"] = json!({"f:metadata": {"f:labels": {}}});
        let workload: Workload<Deployment> = serde_json::from_value(object).unwrap();
        assert_eq!((workload.facts.restarts.recorded, workload.facts.restarts.verified), (None, false));
        assert!(!workload.facts.own_deadline, "it has switched its deadline off");
    }

    /// A tenant may write any number of workloads without pods, each as large as the API server accepts.
    #[test]
    fn of_a_large_workload_little_is_kept() {
        let many = |value: &str| -> BTreeMap<String, String> {
            (0..10_000).map(|at| (format!("example.org/{at}"), value.to_owned())).collect()
        };
        let mut labels = many("x");
        labels.extend(
            [(APPLIED, "k.d"), (BRAKE, "2.1"), (LAST_GOOD, "c")]
                .map(|(key, value)| (key.to_owned(), value.to_owned())),
        );
        let names = (0..10_000).map(|at| json!({"secretRef": {"name": format!("secret-{at}")}}));
        let pulled = (0..10_000).map(|at| json!({"name": format!("pull-{at}")}));
        let key = |at| json!({"name": format!("E{at}"), "valueFrom": {"configMapKeyRef": {"name": "a", "key": format!("key-{at}")}}});
        let long = "x".repeat(100_000);
        let object = json!({
            "metadata": {"name": "web", "uid": "u", "labels": labels, "annotations": {RESTART: long}},
            "spec": {"selector": {"matchLabels": many("y")}, "template": {
                "metadata": {"labels": many("y"), "annotations": {RESTARTED_FOR: long}},
                "spec": {
                    "imagePullSecrets": pulled.collect::<Vec<_>>(),
                    "containers": [{"envFrom": names.collect::<Vec<_>>(), "env": (0..10_000).map(key).collect::<Vec<_>>()}],
                    "volumes": [{"name": "v", "secret": {"secretName": long}}],
                },
            }},
        });
        let facts = serde_json::from_value::<Workload<Deployment>>(object).unwrap().facts;
        assert!(format!("{facts:?}").len() < 100_000, "{}", format!("{facts:?}").len());
        assert!(facts.template_labels.are_cut());
        assert_eq!(facts.selector.query(&facts.template_labels), None);
        assert_eq!(
            (facts.restarts.applied.as_deref(), facts.restarts.track.streak),
            (Some("k.d"), 2),
            "ours are kept"
        );
        assert_eq!(facts.references[0].keys, None, "where not all keys can be kept, every one counts");
        assert_eq!((facts.references.len(), facts.pull_secrets.len()), (256, 64));
    }

    /// `kubectl replace` removes all fields that the manifest does not name; a rollback keeps labels.
    #[test]
    fn what_somebody_takes_away_is_remembered() {
        let facts = |uid: &str, label: Option<&str>, stamp: Option<&str>, updated: i32| {
            let object = json!({
                "metadata": {
                    "name": "web", "uid": uid, "generation": 2, "labels": {"copyrator.dev/applied": label},
                    "managedFields": label.map(|_| vec![json!({"manager": "copyrator-restart", "operation": "Apply",
                        "time": "2026-01-01T00:00:05Z", "fieldsV1": {"f:metadata": {"f:labels": {"f:copyrator.dev/applied": {}}}}})]),
                },
                "spec": {"replicas": 2, "template": {"metadata": {"annotations": {"copyrator.dev/restarted-for": stamp}}}},
                "status": {"observedGeneration": 2, "replicas": 2, "updatedReplicas": updated, "availableReplicas": 2},
            });
            let text = object
                .to_string()
                .replace("\"copyrator.dev/applied\":null", "")
                .replace("\"copyrator.dev/restarted-for\":null", "");
            serde_json::from_str::<Workload<Deployment>>(&text).unwrap().facts
        };
        let done = facts("u", Some("k.new.s"), Some("k.new"), 2);
        let rolling = facts("u", Some("k.new.s"), Some("k.new"), 1);
        for (known, now, expected, what) in [
            (&done, facts("u", None, None, 2), Some(LostRecord::Label), "replaced"),
            (&rolling, facts("u", None, None, 2), Some(LostRecord::Rollout), "replaced half-way"),
            (&rolling, facts("u", None, Some("k.new"), 1), Some(LostRecord::Label), "only the label"),
            (
                &facts("u", Some("k.new.s"), Some("k.old"), 1),
                facts("u", None, None, 2),
                Some(LostRecord::Label),
                "in a rollout that is not ours",
            ),
            (&rolling, facts("u", Some("k.new.s"), None, 2), None, "rolled back"),
            (&done, facts("v", None, None, 2), None, "another of the same name"),
            (&facts("u", None, None, 2), facts("u", None, None, 2), None, "never adopted"),
        ] {
            let mut kept = now.clone();
            assert_eq!(kept.keep(known), expected, "{what}");
            match expected {
                None => assert_eq!(kept, now, "{what}"),
                Some(_) => {
                    assert_eq!(
                        (&kept.restarts.applied, kept.restarts.recorded, kept.restarts.last_restart),
                        (&known.restarts.applied, known.restarts.recorded, known.restarts.last_restart),
                        "{what}"
                    );
                    // The workload in the next event has no label either.
                    assert_eq!(now.clone().keep(&kept), Some(LostRecord::Label), "{what}");
                }
            }
        }
    }

    #[test]
    fn the_kinds_keep_their_addresses() {
        assert_eq!(
            Workload::<StatefulSet>::url_path(&(), Some("shop")),
            "/apis/apps/v1/namespaces/shop/statefulsets"
        );
        assert_eq!(Workload::<DaemonSet>::kind(&()), "DaemonSet");
        let bare: Workload<DaemonSet> = serde_json::from_value(json!({"metadata": {"name": "a"}})).unwrap();
        assert_eq!(bare.key().to_string(), "DaemonSet /a");
    }
}
