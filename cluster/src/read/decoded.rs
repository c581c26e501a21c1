//! An object with its content, as the API server writes it.

use std::collections::BTreeMap;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde::Deserialize;
use serde_json::Value as Json;

use crate::{
    api::DataKind,
    decoded::Decoded,
    digest::{DigestKey, Fingerprint, KeyPrint},
    marks::{RESTART, never_carried},
    model::{Owner, keeper},
    names::Kind,
    paths::flatten,
};

/// The bytes that a key takes besides its text: a digest and a size, or the value's place, and its place in a
/// map.
pub(super) const KEY_BYTES: usize = 96;

/// The content of one version of one object. `Content` has no `Debug` and no `Serialize`, so it cannot reach
/// a formatter.
pub struct Content {
    /// `metadata.uid` of the object that was read.
    pub uid: Box<str>,
    /// The resource version that was read.
    pub resource_version: Box<str>,
    /// The object's annotations, except annotations that are never copied.
    pub annotations: BTreeMap<String, String>,
    /// The Secret's `type`; `None` for a ConfigMap.
    pub type_: Option<String>,
    /// Whether the object is immutable.
    pub immutable: bool,
    /// The values of `data` and `binaryData`, by key. For kinds without `data`: the JSON text of each leaf,
    /// by path ([`crate::paths`]).
    pub values: BTreeMap<String, Value>,
    /// The ClusterRole that a RoleBinding names.
    pub role: Option<Box<str>>,
    /// Who manages the object, in words; `None` if the object's metadata names no controller or tool.
    pub keeper: Option<Box<str>>,
}

/// The value of one key.
pub struct Value {
    /// The value itself, decoded if it was base64.
    pub bytes: Vec<u8>,
    /// Whether the value is in `binaryData`, or would have to be in `binaryData` of a ConfigMap.
    pub binary: bool,
}

impl Content {
    /// Bytes of keys, values and annotations, with the overhead of each.
    pub(super) fn size(&self) -> usize {
        let values = self.values.iter().map(|(key, value)| key.len() + value.bytes.len() + KEY_BYTES);
        let annotations = self.annotations.iter().map(|(key, value)| key.len() + value.len() + KEY_BYTES);
        values.chain(annotations).sum()
    }

    /// The content reduced to digests.
    pub fn fingerprint(&self, key: &DigestKey) -> Fingerprint {
        let print = |value: &Value| KeyPrint {
            digest: key.value(&value.bytes),
            size: value.bytes.len() as u64,
            binary: value.binary,
        };
        Fingerprint {
            uid: self.uid.clone(),
            resource_version: self.resource_version.clone(),
            type_: self.type_.clone(),
            immutable: self.immutable,
            keys: self.values.iter().map(|(key, value)| (key.clone(), print(value))).collect(),
            annotations: self.annotations.clone(),
            role: self.role.clone(),
            keeper: self.keeper.clone(),
        }
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Raw {
    metadata: RawMeta,
    #[serde(default)]
    data: BTreeMap<String, String>,
    #[serde(default)]
    binary_data: BTreeMap<String, String>,
    #[serde(default)]
    immutable: bool,
    #[serde(rename = "type")]
    type_: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct RawMeta {
    pub(super) uid: Box<str>,
    pub(super) resource_version: Box<str>,
    #[serde(default)]
    annotations: BTreeMap<String, String>,
    #[serde(default)]
    labels: BTreeMap<String, String>,
    #[serde(default)]
    owner_references: Vec<Owner>,
}

impl RawMeta {
    /// Returns who manages the object, and its annotations without those that `is_left_out` selects.
    pub(super) fn keeper_and_annotations(
        self,
        is_left_out: fn(&str) -> bool,
    ) -> (Option<Box<str>>, BTreeMap<String, String>) {
        let Self { mut annotations, labels, owner_references, .. } = self;
        let keeper = keeper(&labels, &annotations, &owner_references);
        annotations.retain(|key, _| !is_left_out(key));
        (keeper, annotations)
    }
}

/// Decodes an object as the API server writes it; `None` if the text is no such object.
pub fn decode(kind: Kind, text: &str) -> Option<Content> {
    match kind.data() {
        Some(kind) => decode_data(kind, text),
        None => decode_leaves(kind, text),
    }
}

fn decode_leaves(kind: Kind, text: &str) -> Option<Content> {
    let Json::Object(object) = serde_json::from_str::<Decoded<Json>>(text).ok()?.read().ok()? else {
        return None;
    };
    let metadata = RawMeta::deserialize(object.get("metadata")?).ok()?;
    let (uid, resource_version) = (metadata.uid.clone(), metadata.resource_version.clone());
    // A template may set the restart annotation of a workload; rules never copy it.
    let (keeper, annotations) = metadata.keeper_and_annotations(|key| never_carried(key) && key != RESTART);
    let leaf = |(path, text): (String, String)| (path, Value { bytes: text.into_bytes(), binary: false });
    let values = flatten(&object).into_iter().map(leaf).collect();
    let role = object.get("roleRef").and_then(cluster_role).filter(|_| kind == Kind::RoleBinding);
    Some(Content { uid, resource_version, annotations, type_: None, immutable: false, values, role, keeper })
}

/// The ClusterRole that a `roleRef` names.
fn cluster_role(role_ref: &Json) -> Option<Box<str>> {
    role_ref["name"].as_str().filter(|_| role_ref["kind"] == "ClusterRole").map(Into::into)
}

fn decode_data(kind: DataKind, text: &str) -> Option<Content> {
    let Raw { metadata, data, binary_data, immutable, type_ } = serde_json::from_str(text).ok()?;
    let mut values = BTreeMap::new();
    for (key, value) in data {
        let bytes = match kind {
            DataKind::ConfigMap => value.into_bytes(),
            DataKind::Secret => STANDARD.decode(value).ok()?,
        };
        let binary = kind == DataKind::Secret && std::str::from_utf8(&bytes).is_err();
        values.insert(key, Value { bytes, binary });
    }
    for (key, value) in binary_data {
        values.insert(key, Value { bytes: STANDARD.decode(value).ok()?, binary: true });
    }
    let type_ = type_.filter(|_| kind == DataKind::Secret);
    let (uid, resource_version) = (metadata.uid.clone(), metadata.resource_version.clone());
    let (keeper, annotations) = metadata.keeper_and_annotations(never_carried);
    Some(Content { uid, resource_version, annotations, type_, immutable, values, role: None, keeper })
}
