//! The yardstick of restarts: the same requests to the like Deployments, by a client that has nothing to think about.

use std::collections::BTreeMap;

use k8s_openapi::api::apps::v1::Deployment;
use kube::api::ListParams;
use kube::{Api, Client};
use serde_json::{Map, Value, json};

use crate::Outcome;
use crate::objects::text;
use crate::workloads::deployments;
use crate::writes::{self, Prepared};

/// What one of our field managers says of a Deployment, to say the like.
#[derive(Clone, Debug)]
pub(super) struct Like {
    manager: &'static str,
    labels: Map<String, Value>,
    /// Of the pod template.
    annotations: Map<String, Value>,
}

impl Like {
    /// From a Deployment as the API server gives it.
    pub(super) fn of(stored: &Value, manager: &'static str) -> Outcome<Like> {
        let entries = stored["metadata"]["managedFields"].as_array().ok_or("no managedFields")?;
        let entry = entries.iter().find(|entry| entry["manager"] == manager && entry["operation"] == "Apply");
        let fields = &entry.ok_or_else(|| format!("{manager} has written nothing: {stored}"))?["fieldsV1"];
        let owned = |fields: &Value, values: &Value| -> Map<String, Value> {
            let keys = fields.as_object().into_iter().flatten().filter_map(|(key, _)| key.strip_prefix("f:"));
            keys.map(|key| (key.to_owned(), values[key].clone())).collect()
        };
        let template = &fields["f:spec"]["f:template"]["f:metadata"]["f:annotations"];
        Ok(Like {
            manager,
            labels: owned(&fields["f:metadata"]["f:labels"], &stored["metadata"]["labels"]),
            annotations: owned(template, &stored["spec"]["template"]["metadata"]["annotations"]),
        })
    }

    /// One request for each Deployment of a namespace in its present version, as long as ours, with values of its own for
    /// each seed.
    pub(super) async fn writes(
        &self,
        client: &Client,
        namespace: &str,
        seed: &str,
    ) -> Outcome<Vec<Prepared>> {
        let api = Api::<Deployment>::namespaced(client.clone(), namespace);
        let list = api.list_metadata(&ListParams::default()).await?;
        let write = |meta: kube::core::ObjectMeta| {
            let name = meta.name.unwrap_or_default();
            let fresh = |map: &Map<String, Value>| -> Map<String, Value> {
                let seed = format!("{seed} {name}");
                map.iter().map(|(key, value)| (key.clone(), like(value, &seed))).collect()
            };
            let mut body = json!({
                "apiVersion": "apps/v1", "kind": "Deployment",
                "metadata": {
                    "name": name, "namespace": namespace, "uid": meta.uid,
                    "resourceVersion": meta.resource_version, "labels": fresh(&self.labels),
                },
            });
            if !self.annotations.is_empty() {
                body["spec"] = json!({"template": {"metadata": {"annotations": fresh(&self.annotations)}}});
            }
            writes::apply(&format!("{}/{name}", deployments(namespace)), self.manager, &body)
        };
        list.items.into_iter().map(|object| write(object.metadata)).collect()
    }
}

/// A text as long, with dots where it has some: digests are hexadecimal.
fn like(value: &Value, seed: &str) -> Value {
    let value = value.as_str().unwrap_or_default();
    let mut other = text(value.len(), seed).into_bytes();
    for (byte, known) in other.iter_mut().zip(value.bytes()) {
        if !known.is_ascii_alphanumeric() {
            *byte = known;
        }
    }
    json!(String::from_utf8_lossy(&other))
}

/// A Deployment without what differs between any two, with lengths in place of values, and without what others than
/// ours wrote into its status: two writes to Deployments of one shape cost the API server the same.
pub(super) fn shape(stored: &Value) -> Value {
    let lengths = |values: &Value| -> BTreeMap<String, usize> {
        let pairs = values.as_object().into_iter().flatten();
        pairs.map(|(key, value)| (key.clone(), value.as_str().map_or(0, str::len))).collect()
    };
    let meta = &stored["metadata"];
    let mut spec = stored["spec"].clone();
    spec["template"]["metadata"]["annotations"] =
        json!(lengths(&spec["template"]["metadata"]["annotations"]));
    let managers: BTreeMap<String, Value> = meta["managedFields"]
        .as_array()
        .into_iter()
        .flatten()
        .filter(|entry| entry["subresource"].is_null())
        .map(|entry| (entry["manager"].to_string(), entry["fieldsV1"].clone()))
        .filter(|(manager, _)| manager.contains("copyrator"))
        .collect();
    json!({"labels": lengths(&meta["labels"]), "spec": spec, "managers": managers})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_manager_says_is_read_from_its_fields() {
        let label = json!({"f:metadata": {"f:labels": {"f:x.dev/applied": {}}}});
        let both = json!({
            "f:metadata": {"f:labels": {"f:x.dev/applied": {}}},
            "f:spec": {"f:template": {"f:metadata": {"f:annotations": {"f:x.dev/for": {}}}}},
        });
        let stored = json!({
            "metadata": {
                "labels": {"app": "a", "x.dev/applied": "12.ab"},
                "managedFields": [
                    {"manager": "adopt", "operation": "Apply", "fieldsV1": label},
                    {"manager": "restart", "operation": "Apply", "fieldsV1": both},
                ],
            },
            "spec": {"template": {"metadata": {"annotations": {"x.dev/for": "34.cd", "other": "o"}}}},
        });
        let restart = Like::of(&stored, "restart").unwrap();
        assert_eq!((restart.labels.len(), restart.annotations.len()), (1, 1));
        assert_eq!(restart.annotations["x.dev/for"], "34.cd");
        let adopt = Like::of(&stored, "adopt").unwrap();
        assert_eq!((adopt.labels.len(), adopt.annotations.len()), (1, 0));
        assert!(Like::of(&stored, "nobody").is_err());
    }

    #[test]
    fn a_like_value_is_as_long_and_has_its_dots() {
        let other = like(&json!("0123abcd.00ff"), "seed");
        let text = other.as_str().unwrap();
        assert_eq!((text.len(), text.find('.')), (13, Some(8)));
        assert_ne!(text, "0123abcd.00ff");
        assert_eq!(other, like(&json!("0123abcd.00ff"), "seed"));
    }
}
