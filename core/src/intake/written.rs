//! An object of one of our own kinds as its author wrote it, perhaps for a newer version of Copyrator, with
//! fields that this build does not know.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::{Resource, core::object::HasSpec};
use serde::{
    Deserialize, Deserializer, Serialize,
    de::{DeserializeOwned, Error},
};
use serde_json::Value;

use crate::{
    api::Problem,
    decoded::Unreadable,
    validate::{SpecFault, unknown_fields},
};

/// An object of ours with the unknown fields of its spec, or the metadata of an object that cannot be
/// decoded.
///
/// An ignored field can be the one that makes a rule harmless (which namespaces to leave out, for example).
/// The API server drops fields that its definitions lack, so unknown fields only exist if the definitions are
/// newer than this build.
#[derive(Clone, Debug)]
pub struct AsWritten<K> {
    object: Result<K, Box<Undecodable>>,
    unknown: Vec<Problem>,
}

/// The metadata of an object that cannot be decoded, and the decoder's error.
#[derive(Clone, Debug)]
pub(super) struct Undecodable {
    pub(super) metadata: ObjectMeta,
    pub(super) problem: Problem,
}

impl<K> AsWritten<K> {
    /// Makes the substitute for an object that cannot be decoded at all.
    pub(super) fn left_of(left: &Unreadable) -> Self {
        let problem = SpecFault::Invalid.problem(format!("cannot be decoded: {}", left.why));
        let metadata = left.metadata.clone();
        Self { object: Err(Box::new(Undecodable { metadata, problem })), unknown: Vec::new() }
    }

    /// The object, if this build understands the whole object; Copyrator does not act on any other object.
    pub fn understood(self) -> Option<K> {
        self.object.ok().filter(|_| self.unknown.is_empty())
    }

    /// The object or its metadata, and the unknown fields that prevent acting on a decoded object.
    pub(super) fn into_parts(self) -> (Result<K, Box<Undecodable>>, Vec<Problem>) {
        (self.object, self.unknown)
    }
}

impl<'de, K> Deserialize<'de> for AsWritten<K>
where
    K: HasSpec<Spec: Serialize> + DeserializeOwned,
{
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let given = Value::deserialize(deserializer)?;
        let object = match K::deserialize(&given) {
            Ok(object) => object,
            Err(error) => {
                let metadata = ObjectMeta::deserialize(&given["metadata"]).map_err(D::Error::custom)?;
                let problem = undecodable(&error);
                return Ok(Self {
                    object: Err(Box::new(Undecodable { metadata, problem })),
                    unknown: Vec::new(),
                });
            }
        };
        let understood = serde_json::to_value(object.spec()).map_err(D::Error::custom)?;
        let unknown = unknown_fields(&given["spec"], &understood);
        Ok(Self { object: Ok(object), unknown: unknown.iter().map(|path| unsupported(path)).collect() })
    }
}

/// An enum value that the decoder does not know belongs to another version: the schema of this version
/// rejects it.
fn undecodable(error: &serde_json::Error) -> Problem {
    let error = error.to_string();
    let fault = match error.starts_with("unknown variant `") {
        true => SpecFault::UnsupportedField,
        false => SpecFault::Invalid,
    };
    fault.problem(format!("cannot be decoded: {error}"))
}

fn unsupported(path: &str) -> Problem {
    let message = format!(
        "{path}: this version of Copyrator does not know the field, so it does nothing: upgrade Copyrator, or remove the field"
    );
    SpecFault::UnsupportedField.problem(message)
}

impl<K: Resource> AsWritten<K> {
    /// The object, if this build understands all of it.
    ///
    /// # Errors
    /// The object's name, and the first part that this build does not understand.
    pub fn understood_or_why(self) -> Result<K, (String, String)> {
        let name = self.meta().name.clone().unwrap_or_default();
        let (object, mut unknown) = self.into_parts();
        let object = object.map_err(|left| (name.clone(), left.problem.message))?;
        match unknown.is_empty() {
            true => Ok(object),
            false => Err((name, unknown.swap_remove(0).message)),
        }
    }
}

impl<K: Resource> Resource for AsWritten<K> {
    crate::decoded::resource_names!(K);

    fn meta(&self) -> &ObjectMeta {
        self.object.as_ref().map_or_else(|left| &left.metadata, K::meta)
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        self.object.as_mut().map_or_else(|left| &mut left.metadata, K::meta_mut)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::api::{ConfigMonitor, ConfigPolicy, CopyratorRule};

    fn reasons<K>(spec: &Value) -> Vec<String>
    where
        K: Resource + HasSpec<Spec: Serialize> + DeserializeOwned + Clone,
    {
        let object = json!({ "metadata": { "name": "it", "uid": "u" }, "spec": spec });
        let written: AsWritten<K> = serde_json::from_value(object).unwrap();
        assert_eq!(written.meta().uid.as_deref(), Some("u"));
        let is_understood = written.clone().understood().is_some();
        let (object, unknown) = written.into_parts();
        assert_eq!(is_understood, object.is_ok() && unknown.is_empty());
        let undecodable = object.err().map(|left| left.problem);
        undecodable.into_iter().chain(unknown).map(|one| format!("{} {}", one.reason, one.message)).collect()
    }

    #[test]
    fn what_only_a_newer_version_knows_is_named_wherever_it_is() {
        let rule = |more: Value| {
            let mut spec =
                json!({ "source": { "kind": "Secret", "names": ["a"] }, "targets": [{ "names": ["b"] }] });
            json_patch::merge(&mut spec, &more);
            reasons::<CopyratorRule>(&spec)
        };
        assert_eq!(rule(json!({ "suspend": false, "copy": null, "excludeTargets": [] })), [""; 0]);
        let [one] = &rule(json!({ "onlyOnWorkdays": true }))[..] else { panic!("not one") };
        assert!(
            one.starts_with(
                "UnsupportedField spec.onlyOnWorkdays: this version of Copyrator does not know the field"
            ),
            "{one}"
        );
        let [one] = &rule(json!({ "source": { "labels": { "a": "b" } } }))[..] else { panic!("not one") };
        assert!(one.starts_with("UnsupportedField spec.source.labels: "), "{one}");
        let [one] = &rule(json!({ "conflictPolicy": "Merge" }))[..] else { panic!("not one") };
        assert!(one.starts_with("UnsupportedField cannot be decoded: unknown variant `Merge`"), "{one}");
        let [one] = &rule(json!({ "targets": 7 }))[..] else { panic!("not one") };
        assert!(one.starts_with("Invalid cannot be decoded: "), "{one}");
    }

    #[test]
    fn so_it_is_for_monitors_and_policies_and_what_is_free_is_free() {
        let watch = json!([{ "kind": "Secret", "names": ["a"], "since": "1h" }]);
        let [one] = &reasons::<ConfigMonitor>(&json!({ "watch": watch }))[..] else { panic!("not one") };
        assert!(one.starts_with("UnsupportedField spec.watch[0].since: "), "{one}");
        let data =
            json!([{ "name": "s", "keys": ["a"], "format": "json", "schema": { "ourOwn": { "a": 1 } } }]);
        let spec = json!({ "match": { "kinds": ["ConfigMap"], "namespaceSelector": {} }, "data": data });
        assert_eq!(reasons::<ConfigPolicy>(&spec), [""; 0]);
    }
}
