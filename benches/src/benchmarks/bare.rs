//! The yardstick: the same copies, written by a client that has nothing to think about.

use std::collections::BTreeMap;

use copyrator::marks::{COPY_MANAGER, DIGEST, MARK, SOURCE, SOURCE_UID};
use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use kube::api::ListParams;
use serde_json::{Value, json};

use crate::Outcome;
use crate::objects::{path, text};
use crate::writes::{self, Prepared};

/// A copy as Copyrator wrote it, to write the like of.
#[derive(Debug)]
pub(super) struct Template {
    copy: Value,
}

/// What a write expects to find.
pub(super) enum Expected<'a> {
    /// The object does not exist.
    Nothing,
    /// The object in this version, by namespace.
    These(&'a BTreeMap<String, Version>),
    /// Anything: an object in whatever version, or none.
    Anything,
}

/// `metadata.uid` and `metadata.resourceVersion` of an object.
pub(super) type Version = (String, String);

impl Template {
    /// From a copy as the API server gives it.
    pub(super) fn of(stored: &Value) -> Template {
        let mut copy = json!({"metadata": {}});
        for part in ["apiVersion", "kind", "type", "data"] {
            copy[part] = stored[part].clone();
        }
        for part in ["labels", "annotations"] {
            copy["metadata"][part] = stored["metadata"][part].clone();
        }
        Template { copy }
    }

    /// One write for each namespace: as long as Copyrator's, part by part, with content and proofs of its own.
    pub(super) fn writes(
        &self,
        name: &str,
        namespaces: &[String],
        seed: &str,
        expected: &Expected<'_>,
    ) -> Outcome<Vec<Prepared>> {
        let fresh = |value: &mut Value, seed: &str| {
            *value = json!(text(value.as_str().map_or(0, str::len), seed));
        };
        let mut copy = self.copy.clone();
        for (key, value) in copy["data"].as_object_mut().into_iter().flatten() {
            // Hexadecimal digits are Base64 too, and the lengths are multiples of four already.
            fresh(value, &format!("{seed} {key}"));
        }
        fresh(&mut copy["metadata"]["annotations"][DIGEST], seed);
        copy["metadata"]["name"] = json!(name);
        let write = |namespace: &String| {
            copy["metadata"]["namespace"] = json!(namespace);
            fresh(&mut copy["metadata"]["annotations"][MARK], namespace);
            match expected {
                Expected::Nothing => copy["metadata"]["resourceVersion"] = json!("1"),
                Expected::Anything => {}
                Expected::These(versions) => {
                    let (uid, version) =
                        versions.get(namespace).ok_or_else(|| format!("{namespace} has no {name}"))?;
                    copy["metadata"]["uid"] = json!(uid);
                    copy["metadata"]["resourceVersion"] = json!(version);
                }
            }
            writes::apply(&path(namespace, "secrets", name), COPY_MANAGER, &copy)
        };
        namespaces.iter().map(write).collect()
    }
}

/// The versions of all Secrets of a name, by namespace.
pub(super) async fn versions(client: &kube::Client, name: &str) -> Outcome<BTreeMap<String, Version>> {
    let named = ListParams::default().fields(&format!("metadata.name={name}"));
    let list = Api::<Secret>::all(client.clone()).list_metadata(&named).await?;
    let version = |object: kube::core::PartialObjectMeta<Secret>| {
        let meta = object.metadata;
        Some((meta.namespace?, (meta.uid?, meta.resource_version?)))
    };
    Ok(list.items.into_iter().filter_map(version).collect())
}

/// A copy without what differs between any two, and with lengths in place of content: two writes of the same shape cost
/// the API server the same.
pub(super) fn shape(stored: &Value) -> Value {
    let mut shape = stored.clone();
    let length = |value: &mut Value| *value = json!(value.as_str().map_or(0, str::len));
    shape["data"].as_object_mut().into_iter().flatten().for_each(|(_, value)| length(value));
    for key in [DIGEST, MARK, SOURCE, SOURCE_UID] {
        length(&mut shape["metadata"]["annotations"][key]);
    }
    if let Some(meta) = shape["metadata"].as_object_mut() {
        for own in ["name", "uid", "resourceVersion", "creationTimestamp"] {
            meta.remove(own);
        }
    }
    for entry in shape["metadata"]["managedFields"].as_array_mut().into_iter().flatten() {
        entry["time"] = Value::Null;
    }
    shape
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stored(name: &str, digest: &str, value: &str) -> Value {
        json!({
            "apiVersion": "v1", "kind": "Secret", "type": "Opaque", "data": {"a": value},
            "metadata": {
                "name": name, "namespace": "n", "uid": name, "resourceVersion": "7",
                "labels": {"l": "m"}, "annotations": {DIGEST: digest, MARK: digest, SOURCE: "p/s"},
                "managedFields": [{"manager": COPY_MANAGER, "time": name, "fieldsV1": {"f:data": {}}}],
            },
        })
    }

    #[test]
    fn two_copies_have_one_shape_if_they_differ_in_content_only() {
        let one = shape(&stored("a", "1234", "QUJD"));
        assert_eq!(one, shape(&stored("b", "5678", "REVG")));
        assert_ne!(one, shape(&stored("b", "56789", "REVG")), "a longer digest");
        assert_ne!(one, shape(&stored("b", "5678", "REVGREVG")), "more content");
        let mut other = stored("b", "5678", "REVG");
        other["metadata"]["managedFields"][0]["fieldsV1"]["f:immutable"] = json!({});
        assert_ne!(one, shape(&other), "another field is set");
    }

    #[test]
    fn a_bare_write_is_as_long_as_what_it_is_made_from() {
        let like = Template::of(&stored("ours", "1234", "QUJD"));
        let namespaces = ["n".to_owned()];
        let body = |expected: &Expected<'_>| -> Value {
            let writes = like.writes("bare", &namespaces, "seed", expected).unwrap();
            serde_json::from_slice(writes[0].body()).unwrap()
        };
        let created = body(&Expected::Nothing);
        assert_eq!(created["metadata"]["resourceVersion"], "1");
        assert_eq!(created["data"]["a"].as_str().unwrap().len(), 4);
        assert_ne!(created["data"]["a"], "QUJD");
        assert_eq!(created["metadata"]["labels"]["l"], "m");
        assert_eq!(created["metadata"]["managedFields"], Value::Null);
        let versions = BTreeMap::from([("n".to_owned(), ("u".to_owned(), "9".to_owned()))]);
        assert_eq!(body(&Expected::These(&versions))["metadata"]["uid"], "u");
        let other = Expected::These(&BTreeMap::new());
        assert!(like.writes("bare", &namespaces, "seed", &other).is_err());
    }
}
