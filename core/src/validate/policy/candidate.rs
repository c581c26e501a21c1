//! The object that a policy judges, decoded from its JSON.

use std::{borrow::Cow, collections::BTreeMap, fmt};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde::{
    Deserialize, Deserializer,
    de::{MapAccess, Visitor},
};

use crate::{api::PolicyKind, marks::CopyMarks};

/// An object as a policy sees it. The object holds values and therefore has no `Debug`, `Display` or
/// `Serialize`.
pub struct Candidate<'a> {
    /// ConfigMap, Secret or Namespace.
    pub kind: PolicyKind,
    /// The object's namespace; for a Namespace, its own name.
    pub namespace: Cow<'a, str>,
    /// The object's name, or the prefix from which the API server will generate a name.
    pub name: Cow<'a, str>,
    /// The object's labels; `None` if `metadata.labels` is absent or null.
    pub labels: Option<BTreeMap<String, String>>,
    /// The object's annotations; `None` if `metadata.annotations` is absent or null.
    pub annotations: Option<BTreeMap<String, String>>,
    /// Whether the object is marked for deletion.
    pub deleting: bool,
    /// The `type` of a Secret.
    pub type_: Option<Cow<'a, str>>,
    /// Whether the object is immutable.
    pub immutable: bool,
    pub(super) data: BTreeMap<Cow<'a, str>, Cow<'a, [u8]>>,
    pub(super) raw: &'a str,
}

/// The reason why an object cannot be read. Messages never quote the object.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CandidateError {
    /// The JSON is not that of an object of this kind.
    #[error("the object cannot be read at line {line} column {column}")]
    Unreadable {
        /// The line of the fault in the object, from 1.
        line: usize,
        /// The column of the fault in that line, from 1.
        column: usize,
    },
    /// A value that must be base64 is not valid base64.
    #[error("key {key:?} of the object is not base64")]
    NotBase64 {
        /// The key of the invalid value.
        key: String,
    },
}

#[derive(Deserialize)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Meta<'a> {
    #[serde(borrow)]
    name: Option<Text<'a>>,
    #[serde(borrow)]
    generate_name: Option<Text<'a>>,
    #[serde(borrow)]
    namespace: Option<Text<'a>>,
    #[serde(borrow)]
    labels: Option<Entries<'a>>,
    #[serde(borrow)]
    annotations: Option<Entries<'a>>,
    deletion_timestamp: Option<serde::de::IgnoredAny>,
}

/// The entries of a map of texts, in order; `null` is read as the empty text.
struct Entries<'a>(Vec<(Cow<'a, str>, Cow<'a, str>)>);

impl<'de: 'a, 'a> Deserialize<'de> for Entries<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Map;
        impl<'de> Visitor<'de> for Map {
            type Value = Entries<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a map of strings")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Entries<'de>, A::Error> {
                let mut entries = Vec::new();
                while let Some((Text(key), value)) = map.next_entry::<_, Option<Text<'de>>>()? {
                    entries.push((key, value.map_or(Cow::Borrowed(""), |value| value.0)));
                }
                Ok(Entries(entries))
            }
        }
        deserializer.deserialize_map(Map)
    }
}

impl Entries<'_> {
    fn owned(self) -> BTreeMap<String, String> {
        self.0.into_iter().map(|(key, value)| (key.into_owned(), value.into_owned())).collect()
    }
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Wire<'a> {
    #[serde(borrow)]
    metadata: Meta<'a>,
    #[serde(borrow)]
    data: Option<Entries<'a>>,
    #[serde(borrow)]
    binary_data: Option<Entries<'a>>,
    #[serde(borrow)]
    string_data: Option<Entries<'a>>,
    #[serde(borrow, rename = "type")]
    type_: Option<Text<'a>>,
    immutable: Option<bool>,
}

impl<'a> Candidate<'a> {
    /// Reads an object whose kind is known from elsewhere (the review, or a manifest's own `kind`).
    ///
    /// # Errors
    /// The JSON is not that of an object of this kind.
    pub fn decode(kind: PolicyKind, raw: &'a str) -> Result<Self, CandidateError> {
        let wire: Wire<'a> = serde_json::from_str(raw)
            .map_err(|error| CandidateError::Unreadable { line: error.line(), column: error.column() })?;
        let mut data = BTreeMap::new();
        let encoded = kind == PolicyKind::Secret;
        take(&mut data, wire.data, encoded)?;
        take(&mut data, wire.binary_data, true)?;
        take(&mut data, wire.string_data, false)?;
        let meta = wire.metadata;
        let name = meta
            .name
            .filter(|name| !name.0.is_empty())
            .or(meta.generate_name)
            .map_or_else(Default::default, |t| t.0);
        let namespace = match kind {
            PolicyKind::Namespace => name.clone(),
            _ => meta.namespace.map_or_else(Default::default, |text| text.0),
        };
        Ok(Self {
            kind,
            namespace,
            name,
            labels: meta.labels.map(Entries::owned),
            annotations: meta.annotations.map(Entries::owned),
            deleting: meta.deletion_timestamp.is_some(),
            type_: wire.type_.map(|text| text.0),
            immutable: wire.immutable.unwrap_or(false),
            data,
            raw,
        })
    }

    /// Returns an object with only kind, namespace, name and labels, which decide whether a policy covers the
    /// object.
    pub fn of_metadata(
        kind: PolicyKind,
        namespace: &'a str,
        name: &'a str,
        labels: BTreeMap<String, String>,
    ) -> Self {
        Self {
            kind,
            namespace: namespace.into(),
            name: name.into(),
            labels: Some(labels),
            annotations: None,
            deleting: false,
            type_: None,
            immutable: false,
            data: BTreeMap::new(),
            raw: "{}",
        }
    }

    /// Returns the object without its content, for trying other labels.
    pub fn without_data(&self) -> Candidate<'_> {
        Candidate {
            kind: self.kind,
            namespace: Cow::Borrowed(&self.namespace),
            name: Cow::Borrowed(&self.name),
            labels: self.labels.clone(),
            annotations: self.annotations.clone(),
            deleting: self.deleting,
            type_: self.type_.as_deref().map(Cow::Borrowed),
            immutable: self.immutable,
            data: BTreeMap::new(),
            raw: "{}",
        }
    }

    /// The value of a label, if it is set.
    pub fn label(&self, key: &str) -> Option<&str> {
        self.labels.as_ref()?.get(key).map(String::as_str)
    }

    /// The value of an annotation, if it is set.
    pub fn annotation(&self, key: &str) -> Option<&str> {
        self.annotations.as_ref()?.get(key).map(String::as_str)
    }

    /// Returns the marks of a copy, if the object has all marks; the caller verifies them.
    pub fn marks(&self) -> Option<CopyMarks> {
        let kind = self.kind.content()?;
        CopyMarks::read(kind, &self.namespace, &self.name, |key| self.annotation(key).map(Into::into))
            .filter(|marks| marks.is_labelled(|key| self.label(key).map(Into::into)))
    }

    /// Whether the object belongs to Kubernetes or Helm, so that the hooks exempt the object (word for word
    /// as in `webhook-config/`). The writer chooses a Secret's type, so a type alone does not exempt a
    /// Secret: the name or an annotation must match too, and the object must contain no other data.
    pub fn is_kubernetes_own(&self) -> bool {
        let holds_only = |keys: &[&str]| self.keys().all(|key| keys.contains(&key));
        match (self.kind, self.type_.as_deref()) {
            (PolicyKind::ConfigMap, _) => self.name == "kube-root-ca.crt" && holds_only(&["ca.crt"]),
            (PolicyKind::Secret, Some("helm.sh/release.v1")) => {
                self.name.starts_with("sh.helm.release.v1.") && holds_only(&["release"])
            }
            (PolicyKind::Secret, Some("kubernetes.io/service-account-token")) => {
                self.annotation("kubernetes.io/service-account.name").is_some()
                    && holds_only(&["ca.crt", "namespace", "token", "service-ca.crt"])
            }
            _ => false,
        }
    }

    /// The keys of the object's data.
    pub fn keys(&self) -> impl Iterator<Item = &str> {
        self.data.keys().map(|key| &**key)
    }

    /// The keys whose value differs from the value in `other`, including keys that only one of the two
    /// objects has.
    pub fn changed_keys(&self, other: &Self) -> Vec<String> {
        let keys: std::collections::BTreeSet<_> = self.data.keys().chain(other.data.keys()).collect();
        keys.into_iter()
            .filter(|key| self.data.get(*key) != other.data.get(*key))
            .map(|key| key.clone().into_owned())
            .collect()
    }

    /// Whether this object and the other object have the same content and visible metadata. Finalizers,
    /// owners, the deletion and the API server's bookkeeping may differ.
    pub fn same_but_for_bookkeeping(&self, other: &Self) -> bool {
        self.data == other.data
            && self.labels.iter().flatten().eq(other.labels.iter().flatten())
            && self.annotations.iter().flatten().eq(other.annotations.iter().flatten())
            && self.type_ == other.type_
            && self.immutable == other.immutable
    }

    /// Bytes of all keys and values together.
    pub(super) fn size(&self) -> u64 {
        self.size_of(|_| true)
    }

    /// Bytes of the keys that `counts` accepts, and of their values.
    pub fn size_of(&self, counts: impl Fn(&str) -> bool) -> u64 {
        let counted = self.data.iter().filter(|(key, _)| counts(key));
        counted.map(|(key, value)| (key.len() + value.len()) as u64).sum()
    }
}

fn take<'a>(
    data: &mut BTreeMap<Cow<'a, str>, Cow<'a, [u8]>>,
    values: Option<Entries<'a>>,
    encoded: bool,
) -> Result<(), CandidateError> {
    for (key, text) in values.into_iter().flat_map(|entries| entries.0) {
        let bytes = if encoded {
            let clean: Cow<'_, str> = match text.contains(['\n', '\r']) {
                true => text.replace(['\n', '\r'], "").into(),
                false => text,
            };
            let decoded = STANDARD.decode(clean.as_bytes());
            Cow::Owned(decoded.map_err(|_| CandidateError::NotBase64 { key: key.clone().into_owned() })?)
        } else {
            match text {
                Cow::Borrowed(text) => Cow::Borrowed(text.as_bytes()),
                Cow::Owned(text) => Cow::Owned(text.into_bytes()),
            }
        };
        data.insert(key, bytes);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use k8s_openapi::api::admissionregistration::v1::{
        MutatingWebhookConfiguration, ValidatingWebhookConfiguration,
    };
    use serde_json::{Value, json};

    use super::*;
    use crate::validate::{
        CompiledPolicy, Judgement, RequestFacts, RequestKind, RequestResource, RequestUser, Write,
    };

    /// The conditions of the hooks with this name, as the API server reads them.
    fn conditions(name: &str) -> Vec<String> {
        let validating = include_str!("../../../../webhook-config/validating.yaml");
        let mutating = include_str!("../../../../webhook-config/mutating.yaml");
        let validating: ValidatingWebhookConfiguration = serde_saphyr::from_str(validating).unwrap();
        let mutating: MutatingWebhookConfiguration = serde_saphyr::from_str(mutating).unwrap();
        let validating = validating.webhooks.into_iter().flatten().flat_map(|hook| hook.match_conditions);
        let mutating = mutating.webhooks.into_iter().flatten().flat_map(|hook| hook.match_conditions);
        let all = validating.chain(mutating).flatten().filter(|one| one.name == name);
        all.map(|one| one.expression).collect()
    }

    /// Whether a condition makes the API server call the hook for the creation of an object.
    fn is_called(kind: PolicyKind, condition: &str, raw: &str) -> bool {
        let spec = json!({"match": {"kinds": [kind]}, "validations": [{"expression": condition}]});
        let policy = CompiledPolicy::compile(&serde_json::from_value(spec).unwrap()).unwrap();
        let object = Candidate::decode(kind, raw).unwrap();
        let named = kind.resource();
        let kind = || RequestKind { group: String::new(), version: "v1".into(), kind: named.kind.into() };
        let resource =
            || RequestResource { group: String::new(), version: "v1".into(), resource: named.plural.into() };
        let request = RequestFacts {
            operation: "CREATE".into(),
            kind: kind(),
            resource: resource(),
            request_kind: kind(),
            request_resource: resource(),
            name: String::new(),
            namespace: "shop".into(),
            dry_run: false,
            user_info: RequestUser { username: "bob".into(), groups: Vec::new() },
        };
        let new = Judgement::new(&object, Timestamp::UNIX_EPOCH);
        policy
            .judge_write(&mut Write { new, old: None, request: Some(&|| request.clone()) }, false)
            .is_empty()
    }

    /// Any user who may edit ConfigMaps may write into this ConfigMap.
    #[test]
    fn the_root_ca_is_left_out_only_while_it_holds_nothing_else() {
        let conditions = conditions("not-the-root-ca");
        assert!(conditions.len() > 2, "{conditions:?}");
        for (name, data, binary, left_out) in [
            ("kube-root-ca.crt", json!({"ca.crt": "a"}), json!({}), true),
            ("kube-root-ca.crt", json!({}), json!({}), true),
            ("kube-root-ca.crt", json!({"ca.crt": "a", "x.yaml": "a"}), json!({}), false),
            ("kube-root-ca.crt", json!({"ca.crt": "a"}), json!({"x.yaml": "eA=="}), false),
            ("app", json!({"ca.crt": "a"}), json!({}), false),
        ] {
            let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data, "binaryData": binary});
            let raw = object.to_string();
            let candidate = Candidate::decode(PolicyKind::ConfigMap, &raw).unwrap();
            assert_eq!(candidate.is_kubernetes_own(), left_out, "{raw}");
            for condition in &conditions {
                assert_eq!(
                    is_called(PolicyKind::ConfigMap, condition, &raw),
                    !left_out,
                    "{raw}: {condition}"
                );
            }
        }
    }

    /// Any pod can use a Secret of any type, and its writer chooses the type.
    #[test]
    fn hooks_and_scans_leave_out_the_same_secrets() {
        let conditions = conditions("not-a-system-secret");
        assert!(conditions.len() > 2, "{conditions:?}");
        let (helm, token) = ("helm.sh/release.v1", "kubernetes.io/service-account-token");
        let named = |name: &str| json!({"name": name});
        let account = json!({"name": "a", "annotations": {"kubernetes.io/service-account.name": "default"}});
        for (metadata, type_, data, left_out) in [
            (named("sh.helm.release.v1.app.v1"), Some(helm), json!({"release": "eA=="}), true),
            (
                named("sh.helm.release.v1.app.v1"),
                Some(helm),
                json!({"release": "eA==", "url": "eA=="}),
                false,
            ),
            (named("sh.helm.release.v1.app.v1"), Some("Opaque"), json!({"release": "eA=="}), false),
            (named("sh.helm.release.v1.app.v1"), None, Value::Null, false),
            (named("app"), Some(helm), json!({"release": "eA=="}), false),
            (json!({"generateName": "app-"}), Some(helm), json!({"release": "eA=="}), false),
            (account.clone(), Some(token), Value::Null, true),
            (account.clone(), Some(token), json!({"ca.crt": "", "namespace": "", "token": ""}), true),
            (account.clone(), Some(token), json!({"token": "", "url": "eA=="}), false),
            (account, Some("Opaque"), json!({"token": ""}), false),
            (named("a"), Some(token), json!({"token": ""}), false),
            (
                named("bootstrap-token-a"),
                Some("bootstrap.kubernetes.io/token"),
                json!({"token-id": ""}),
                false,
            ),
        ] {
            let mut object = json!({"apiVersion": "v1", "kind": "Secret", "metadata": metadata});
            for (field, value) in [("type", json!(type_)), ("data", data)] {
                if !value.is_null() {
                    object[field] = value;
                }
            }
            let raw = object.to_string();
            let candidate = Candidate::decode(PolicyKind::Secret, &raw).unwrap();
            assert_eq!(candidate.is_kubernetes_own(), left_out, "{raw}");
            for condition in &conditions {
                assert_eq!(is_called(PolicyKind::Secret, condition, &raw), !left_out, "{raw}: {condition}");
            }
        }
    }
}
