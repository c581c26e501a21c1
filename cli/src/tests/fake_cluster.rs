//! Clusters for unit tests, from manifests, taken in and planned as a survey does.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::api::{
    apps::v1::Deployment,
    core::v1::{ConfigMap, Namespace, Secret},
};
use serde_json::{Value, json};

use crate::{
    api::{ConfigMonitor, CopyratorRule},
    commands::tree::Seen,
    digest::DigestKey,
    explain::{Around, CopyRow, RestartOutlook, carry_out, copy_rows, foresee_workload, workload_outlook},
    intake::{AsWritten, object::Slim, watched::Watched as _, workload::Workload},
    model::{Authority, Refusal, RefusalReason, Store, World},
    names::{Declarer, Kind, NamespacedName, ObjectKey},
    plan::{
        Key,
        copy::{SlotPlan, plan_slot},
        every_slot, everything,
    },
    read::decoded::decode,
};

/// The time at which everything here happens.
pub(crate) fn now() -> Timestamp {
    Timestamp::from_second(1_000).unwrap()
}

/// A cluster as a survey would see it.
pub(crate) struct FakeCluster {
    pub world: World,
    pub outlooks: Vec<CopyRow>,
    pub restarts: Vec<RestartOutlook>,
}

impl FakeCluster {
    /// A cluster with these objects, after every copy was made. Rules and monitors may do what they declare,
    /// except those labelled `may: "no"`.
    pub(crate) fn new(objects: &[Value]) -> Self {
        let mut world = World::default();
        world.set_key(DigestKey::new(&[7; DigestKey::LENGTH]));
        world.settings_mut().own_namespace = "copyrator-system".into();
        world.settings_mut().system_namespaces =
            ["kube-system".to_owned(), "copyrator-system".to_owned()].into();
        world.settings_mut().stores = [Store::Secrets].into();
        world.set_all_listed();
        world.settings_mut().annotations = true;
        objects.iter().for_each(|object| put(&mut world, object.clone()));
        let plans = plans(&world);
        carry_out(&mut world, &plans, now());
        Self::seen(world)
    }

    /// Adds an object, before Copyrator does anything about it.
    pub(crate) fn with(mut self, object: Value) -> Self {
        put(&mut self.world, object);
        Self::seen(self.world)
    }

    fn seen(mut world: World) -> Self {
        let outlooks = copy_rows(&world, &plans(&world));
        let workloads = everything(&world).into_iter().filter_map(|key| match key {
            Key::Workload(key) => Some(key),
            _ => None,
        });
        let mut restarts = Vec::new();
        for key in workloads.collect::<Vec<_>>() {
            let foreseen = foresee_workload(&mut world, &key, now());
            restarts.extend(workload_outlook(&world, &key, &foreseen, &Around::default()));
        }
        Self { world, outlooks, restarts }
    }

    pub(crate) fn seen_by(&self) -> Seen<'_> {
        Seen {
            world: &self.world,
            outlooks: self.outlooks.iter().collect(),
            restarts: &self.restarts,
            now: now(),
        }
    }
}

fn plans(world: &World) -> BTreeMap<ObjectKey, SlotPlan> {
    every_slot(world).into_iter().map(|slot| (slot.clone(), plan_slot(world, &slot, now()))).collect()
}

fn put(world: &mut World, mut object: Value) {
    let kind = object["kind"].as_str().unwrap().to_owned();
    let of = |field: &str| object["metadata"][field].as_str().unwrap_or_default().to_owned();
    let (namespace, name) = (of("namespace"), of("name"));
    let known = json!({ "uid": format!("{kind}/{namespace}/{name}"), "resourceVersion": "1", "generation": 1,
        "creationTimestamp": "1970-01-01T00:00:00Z" });
    json_patch::merge(&mut object["metadata"], &known);
    let named = NamespacedName::new(namespace.as_str(), name.as_str());
    let may = object["metadata"]["labels"]["may"] != "no";
    let authority = |uid: Box<str>| Authority {
        uid,
        generation: 1,
        identity: "user alice".into(),
        answer: may
            .then_some(())
            .ok_or_else(|| Refusal { reason: RefusalReason::Forbidden, message: "alice may not".to_owned() }),
        asked: now(),
        questions: 0,
        refusals: 0,
    };
    // Whether this changed anything does not matter here.
    let _: bool = match kind.as_str() {
        "Namespace" => serde_json::from_value::<Namespace>(object).unwrap().put(world, now()),
        "ConfigMap" | "Secret" => {
            let is_secret = kind == "Secret";
            let of_kind = if is_secret { Kind::Secret } else { Kind::ConfigMap };
            let key = world.key().cloned().unwrap();
            let print = decode(of_kind, &object.to_string()).unwrap().fingerprint(&key);
            world.assume_fingerprint(&ObjectKey::new(of_kind, namespace, name), print);
            match is_secret {
                true => serde_json::from_value::<Slim<Secret>>(object).unwrap().put(world, now()),
                false => serde_json::from_value::<Slim<ConfigMap>>(object).unwrap().put(world, now()),
            }
        }
        "Deployment" => serde_json::from_value::<Workload<Deployment>>(object).unwrap().put(world, now()),
        "CopyratorRule" => {
            let rule = serde_json::from_value::<AsWritten<CopyratorRule>>(object).unwrap();
            let (changed, rule) = (rule.put(world, now()), Declarer::Rule(named));
            let uid = world.rules()[&rule].uid.clone();
            world.set_rule_authority(&rule, authority(uid));
            changed
        }
        "ConfigMonitor" => {
            let monitor = serde_json::from_value::<AsWritten<ConfigMonitor>>(object).unwrap();
            let (changed, monitor) = (monitor.put(world, now()), Declarer::Monitor(named));
            let uid = world.monitors()[&monitor].uid.clone();
            world.set_monitor_authority(&monitor, authority(uid));
            changed
        }
        other => panic!("no {other} here"),
    };
}

/// A namespace with these labels.
pub(crate) fn namespace(name: &str, labels: Value) -> Value {
    json!({ "kind": "Namespace", "metadata": { "name": name, "labels": labels } })
}

/// A ConfigMap with one key.
pub(crate) fn config_map(namespace: &str, name: &str) -> Value {
    json!({ "kind": "ConfigMap", "metadata": { "namespace": namespace, "name": name }, "data": { "key": name } })
}

/// An object of ours, written by alice.
pub(crate) fn ours(kind: &str, namespace: &str, name: &str, spec: Value) -> Value {
    json!({
        "apiVersion": "copyrator.dev/v1alpha1", "kind": kind, "spec": spec,
        "metadata": { "namespace": namespace, "name": name,
            "annotations": { "copyrator.dev/author": "alice", "copyrator.dev/author-groups": "[]" } },
    })
}

/// A rule of `platform` that copies this ConfigMap into namespaces of a team.
pub(crate) fn rule(name: &str, source: &str, more: &Value) -> Value {
    let mut spec = json!({
        "source": { "kind": "ConfigMap", "names": [source] },
        "targets": [{ "namespaceSelector": { "matchLabels": { "team": "blue" } } }],
    });
    json_patch::merge(&mut spec, more);
    ours("CopyratorRule", "platform", name, spec)
}

/// A Deployment whose pods take their environment from this ConfigMap.
pub(crate) fn deployment(namespace: &str, name: &str, config_map: &str) -> Value {
    let container =
        json!({ "name": "c", "image": "i", "envFrom": [{ "configMapRef": { "name": config_map } }] });
    json!({
        "kind": "Deployment", "metadata": { "namespace": namespace, "name": name },
        "spec": { "selector": { "matchLabels": { "app": name } },
            "template": { "metadata": { "labels": { "app": name } }, "spec": { "containers": [container] } } },
        "status": { "observedGeneration": 1, "replicas": 1, "updatedReplicas": 1, "availableReplicas": 1 },
    })
}
