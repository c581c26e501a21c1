//! Every part of a pod template that names a ConfigMap or Secret for its content: environment and volumes,
//! including projected volumes, of containers and init containers (which include sidecars). Credentials that
//! a volume driver or the kubelet uses by itself (`imagePullSecrets`, CSI, iSCSI and the like) are not
//! content that a process reads at its start. docs/restarting.md has the table, and a test compares it with
//! the API's own schema.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use serde::Deserialize;

use crate::{
    model::{MOST_REFERENCES, Reference},
    names::Kind,
};

/// The longest possible name of an object. A longer name in a pod spec refers to no object.
const LONGEST: usize = 253;
/// The most bytes of keys that are kept for one pod template. Beyond this limit, all keys of an object count
/// as used.
const MOST_KEY_BYTES: usize = 16 << 10;
/// Bytes that a key takes besides its text.
const KEY_BYTES: usize = 24;
/// The most imagePullSecrets that are kept for one pod template.
const MOST_PULL_SECRETS: usize = 64;

/// The parts of a pod's spec that can name a ConfigMap or Secret.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct PodSpec {
    containers: Option<Vec<Container>>,
    init_containers: Option<Vec<Container>>,
    volumes: Option<Vec<Volume>>,
    image_pull_secrets: Option<Vec<ObjectReference>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Container {
    env: Option<Vec<EnvVar>>,
    env_from: Option<Vec<EnvFrom>>,
    volume_mounts: Option<Vec<Mount>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct EnvVar {
    value_from: Option<ValueFrom>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ValueFrom {
    config_map_key_ref: Option<ObjectReference>,
    secret_key_ref: Option<ObjectReference>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct EnvFrom {
    config_map_ref: Option<ObjectReference>,
    secret_ref: Option<ObjectReference>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Mount {
    name: String,
    sub_path: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Volume {
    name: String,
    config_map: Option<ObjectReference>,
    secret: Option<ObjectReference>,
    projected: Option<Projected>,
}

#[derive(Deserialize)]
struct Projected {
    sources: Option<Vec<Source>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Source {
    config_map: Option<ObjectReference>,
    secret: Option<ObjectReference>,
}

/// A reference in any of these parts.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ObjectReference {
    #[serde(alias = "secretName", default)]
    name: String,
    key: Option<String>,
    items: Option<Vec<Item>>,
    optional: Option<bool>,
}

#[derive(Deserialize)]
struct Item {
    key: String,
}

impl PodSpec {
    /// The objects that the template uses, sorted, without duplicates, and up to a limit. All keys of an
    /// object count if any use reads all keys, or if too many keys are named. An object is optional if every
    /// use of the object is optional.
    pub(super) fn references(&self) -> Vec<Reference> {
        let mut found = References::default();
        for container in self.containers() {
            for from in container.env.iter().flatten().filter_map(|var| var.value_from.as_ref()) {
                found.both(from.config_map_key_ref.as_ref(), from.secret_key_ref.as_ref(), None);
            }
            for from in container.env_from.iter().flatten() {
                found.both(from.config_map_ref.as_ref(), from.secret_ref.as_ref(), None);
            }
        }
        for volume in self.volumes.iter().flatten() {
            found.both(volume.config_map.as_ref(), volume.secret.as_ref(), self.sub_paths(&volume.name));
            let sources =
                volume.projected.iter().filter_map(|projected| projected.sources.as_ref()).flatten();
            for source in sources {
                found.both(source.config_map.as_ref(), source.secret.as_ref(), None);
            }
        }
        let mut room = MOST_KEY_BYTES;
        let mut kept = |keys: BTreeSet<String>| {
            let bytes: usize = keys.iter().map(|key| key.len() + KEY_BYTES).sum();
            room = room.checked_sub(bytes)?;
            Some(keys.into_iter().collect())
        };
        let found = found.0.into_iter().map(|((kind, name), Used { keys, optional })| Reference {
            kind,
            name: name.into(),
            keys: keys.and_then(&mut kept),
            optional,
        });
        found.take(MOST_REFERENCES).collect()
    }

    /// The Secrets that images are pulled with, sorted, without duplicates, and up to a limit.
    pub(super) fn pull_secrets(&self) -> Vec<Arc<str>> {
        let named = self.image_pull_secrets.iter().flatten().map(|secret| secret.name.as_str());
        let names: BTreeSet<&str> = named.filter(|name| is_name(name)).collect();
        names.into_iter().take(MOST_PULL_SECRETS).map(Arc::from).collect()
    }

    fn containers(&self) -> impl Iterator<Item = &Container> {
        self.containers.iter().chain(&self.init_containers).flatten()
    }

    /// The keys that mounts take from a volume by `subPath`; `None` if a mount takes the whole volume, or no
    /// container mounts it.
    fn sub_paths(&self, volume: &str) -> Option<BTreeSet<String>> {
        let mut keys = BTreeSet::new();
        let mounts = self.containers().flat_map(|container| container.volume_mounts.iter().flatten());
        for mount in mounts.filter(|mount| mount.name == volume) {
            // A subPath is the name of one key. Only an item can have a deeper path, and items name their
            // keys.
            keys.insert(mount.sub_path.as_deref().filter(|path| !path.is_empty())?.to_owned());
        }
        (!keys.is_empty()).then_some(keys)
    }
}

/// Whether an object can have this name.
fn is_name(name: &str) -> bool {
    (1..=LONGEST).contains(&name.len())
}

/// How each object is used, by kind and name.
#[derive(Default)]
struct References(BTreeMap<(Kind, String), Used>);

/// How one object is used.
struct Used {
    /// The used keys; `None`: all.
    keys: Option<BTreeSet<String>>,
    /// Whether every use of the object is optional.
    optional: bool,
}

impl References {
    fn both(
        &mut self,
        config_map: Option<&ObjectReference>,
        secret: Option<&ObjectReference>,
        mounted: Option<BTreeSet<String>>,
    ) {
        for (kind, named) in [(Kind::ConfigMap, config_map), (Kind::Secret, secret)] {
            let Some(named) = named.filter(|named| is_name(&named.name)) else { continue };
            let keys = match (&named.key, &named.items) {
                (Some(key), _) => Some(BTreeSet::from([key.clone()])),
                (None, Some(items)) if !items.is_empty() => {
                    Some(items.iter().map(|item| item.key.clone()).collect())
                }
                _ => mounted.clone(),
            };
            let first = || Used { keys: Some(BTreeSet::new()), optional: true };
            let used = self.0.entry((kind, named.name.clone())).or_insert_with(first);
            used.optional &= named.optional.unwrap_or(false);
            match (used.keys.as_mut(), keys) {
                (Some(known), Some(keys)) => known.extend(keys),
                _ => used.keys = None,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(spec: serde_json::Value) -> Vec<String> {
        let spec: PodSpec = serde_json::from_value(spec).unwrap();
        let text = |one: Reference| {
            let keys = one.keys.map_or("*".to_owned(), |keys| keys.join(","));
            format!("{} {}: {keys}{}", one.kind, one.name, if one.optional { " optional" } else { "" })
        };
        spec.references().into_iter().map(text).collect()
    }

    #[test]
    fn references_are_found_everywhere() {
        let spec = json!({
            "imagePullSecrets": [{"name": "pull"}],
            "containers": [{
                "name": "web", "image": "web",
                "env": [
                    {"name": "PLAIN", "value": "x"},
                    {"name": "A", "valueFrom": {"configMapKeyRef": {"name": "env", "key": "a"}}},
                    {"name": "B", "valueFrom": {"secretKeyRef": {"name": "env", "key": "b", "optional": true}}},
                ],
                "envFrom": [{"configMapRef": {"name": "all"}}, {"secretRef": {"name": "all", "optional": true}}],
            }],
            "initContainers": [{"env": [{"valueFrom": {"configMapKeyRef": {"name": "env", "key": "init"}}}]}],
            "volumes": [
                {"name": "whole", "configMap": {"name": "volume"}},
                {"name": "items", "secret": {"secretName": "tls", "items": [{"key": "tls.crt", "path": "c"}]}},
                {"name": "both", "projected": {"sources": [
                    {"configMap": {"name": "projected"}}, {"secret": {"name": "tls", "items": [{"key": "ca.crt"}]}},
                    {"serviceAccountToken": {"path": "token"}},
                ]}},
                {"name": "other", "emptyDir": {}},
            ],
        });
        let expected = [
            "ConfigMap all: *",
            "ConfigMap env: a,init",
            "ConfigMap projected: *",
            "ConfigMap volume: *",
            "Secret all: * optional",
            "Secret env: b optional",
            "Secret tls: ca.crt,tls.crt",
        ];
        assert_eq!(read(spec), expected);
    }

    #[test]
    fn sub_paths_name_keys_only_where_no_mount_takes_the_whole() {
        let spec = |mounts: serde_json::Value| {
            json!({
                "containers": [{"volumeMounts": mounts}],
                "volumes": [{"name": "v", "configMap": {"name": "c"}}],
            })
        };
        for (mounts, expected) in [
            (json!([{"name": "v", "subPath": "b"}, {"name": "v", "subPath": "a"}]), "ConfigMap c: a,b"),
            (json!([{"name": "v", "subPath": "a"}, {"name": "v"}]), "ConfigMap c: *"),
            (json!([{"name": "v", "subPathExpr": "$(POD)"}]), "ConfigMap c: *"),
            (json!([{"name": "w", "subPath": "a"}]), "ConfigMap c: *"),
        ] {
            assert_eq!(read(spec(mounts.clone())), [expected], "{mounts}");
        }
    }

    #[test]
    fn any_use_of_all_keys_is_a_use_of_all() {
        let spec = json!({"containers": [
            {"env": [{"valueFrom": {"configMapKeyRef": {"name": "c", "key": "a", "optional": true}}}]},
            {"envFrom": [{"configMapRef": {"name": "c"}}]},
        ]});
        assert_eq!(read(spec), ["ConfigMap c: *"]);
        assert!(read(json!({"containers": null})).is_empty());
    }
}
