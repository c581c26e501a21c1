//! The messages of `k8s.io/apimachinery/pkg/apis/meta/v1/generated.proto` that answers about metadata consist of, as JSON. Their
//! tags are those of that file.
//!
//! None has a `Debug`: annotations can contain a whole Secret.

use std::collections::BTreeMap;

use hyper::body::Bytes;
use jiff::Timestamp;
use prost::Message;
use serde::{Serialize, Serializer, ser::Error as _};
use serde_json::value::RawValue;

/// What an encoded object begins with
/// (<https://kubernetes.io/docs/reference/using-api/api-concepts/#protobuf-encoding>).
const MAGIC: &[u8] = b"k8s\0";

/// Why an answer in protobuf is of no use.
#[derive(Debug, thiserror::Error)]
pub(super) enum ProtobufError {
    /// It does not begin as Kubernetes' protobuf does.
    #[error("the API server's protobuf does not begin with k8s\\0")]
    Magic,
    /// Its bytes are not what the message consists of.
    #[error("the API server's protobuf cannot be decoded")]
    Decode(#[from] prost::DecodeError),
    /// It is neither metadata nor a status.
    #[error("the API server answered with {0:?} where metadata was asked for")]
    Kind(String),
    /// It cannot be said in JSON.
    #[error("the API server's protobuf cannot be said in JSON")]
    Json(#[from] serde_json::Error),
}

/// An encoded object as JSON.
///
/// # Errors
/// It is not encoded as the API server encodes metadata.
pub(super) fn json(encoded: Bytes) -> Result<Vec<u8>, ProtobufError> {
    Ok(serde_json::to_vec(&decoded(encoded)?)?)
}

/// An event of a watch as JSON.
///
/// # Errors
/// It is not encoded as the API server encodes events of metadata.
pub(super) fn event_json(encoded: Bytes) -> Result<Vec<u8>, ProtobufError> {
    let WatchEvent { r#type, object } = WatchEvent::decode(encoded)?;
    let object = decoded(object.unwrap_or_default().raw)?;
    Ok(serde_json::to_vec(&Event { r#type, object })?)
}

fn decoded(mut encoded: Bytes) -> Result<Object, ProtobufError> {
    if !encoded.starts_with(MAGIC) {
        return Err(ProtobufError::Magic);
    }
    let Unknown { r#type, raw } = Unknown::decode(encoded.split_off(MAGIC.len()))?;
    let r#type = r#type.unwrap_or_default();
    let body = match r#type.kind.as_str() {
        "PartialObjectMetadata" => Body::One(PartialObjectMetadata::decode(raw)?),
        "PartialObjectMetadataList" => Body::List(PartialObjectMetadataList::decode(raw)?),
        "Status" => Body::Status(Status::decode(raw)?),
        _ => return Err(ProtobufError::Kind(r#type.kind)),
    };
    Ok(Object { r#type, body })
}

#[derive(Serialize)]
struct Event {
    r#type: String,
    object: Object,
}

#[derive(Serialize)]
struct Object {
    #[serde(flatten)]
    r#type: TypeMeta,
    #[serde(flatten)]
    body: Body,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Body {
    One(PartialObjectMetadata),
    List(PartialObjectMetadataList),
    Status(Status),
}

#[derive(Message)]
#[prost(skip_debug)]
struct WatchEvent {
    #[prost(string, tag = "1")]
    r#type: String,
    #[prost(message, optional, tag = "2")]
    object: Option<RawExtension>,
}

#[derive(Message)]
#[prost(skip_debug)]
struct RawExtension {
    #[prost(bytes = "bytes", tag = "1")]
    raw: Bytes,
}

/// The envelope of each encoded object, and of the object in each event.
#[derive(Message)]
#[prost(skip_debug)]
struct Unknown {
    #[prost(message, optional, tag = "1")]
    r#type: Option<TypeMeta>,
    #[prost(bytes = "bytes", tag = "2")]
    raw: Bytes,
}

#[derive(Message, Serialize)]
#[prost(skip_debug)]
#[serde(rename_all = "camelCase")]
struct TypeMeta {
    #[prost(string, tag = "1")]
    api_version: String,
    #[prost(string, tag = "2")]
    kind: String,
}

#[derive(Message, Serialize)]
#[prost(skip_debug)]
struct PartialObjectMetadata {
    #[prost(message, optional, tag = "1")]
    metadata: Option<ObjectMeta>,
}

#[derive(Message, Serialize)]
#[prost(skip_debug)]
struct PartialObjectMetadataList {
    #[prost(message, optional, tag = "1")]
    metadata: Option<ListMeta>,
    #[prost(message, repeated, tag = "2")]
    items: Vec<PartialObjectMetadata>,
}

#[derive(Message, Serialize)]
#[prost(skip_debug)]
#[serde(rename_all = "camelCase")]
struct ListMeta {
    #[prost(string, tag = "2")]
    #[serde(skip_serializing_if = "String::is_empty")]
    resource_version: String,
    #[prost(string, tag = "3")]
    #[serde(rename = "continue", skip_serializing_if = "String::is_empty")]
    continue_: String,
    #[prost(int64, optional, tag = "4")]
    #[serde(skip_serializing_if = "Option::is_none")]
    remaining_item_count: Option<i64>,
}

#[derive(Message, Serialize)]
#[prost(skip_debug)]
#[serde(rename_all = "camelCase")]
struct ObjectMeta {
    #[prost(string, tag = "1")]
    #[serde(skip_serializing_if = "String::is_empty")]
    name: String,
    #[prost(string, tag = "2")]
    #[serde(skip_serializing_if = "String::is_empty")]
    generate_name: String,
    #[prost(string, tag = "3")]
    #[serde(skip_serializing_if = "String::is_empty")]
    namespace: String,
    #[prost(string, tag = "5")]
    #[serde(skip_serializing_if = "String::is_empty")]
    uid: String,
    #[prost(string, tag = "6")]
    #[serde(skip_serializing_if = "String::is_empty")]
    resource_version: String,
    #[prost(int64, tag = "7")]
    #[serde(skip_serializing_if = "is_zero")]
    generation: i64,
    #[prost(message, optional, tag = "8")]
    #[serde(skip_serializing_if = "is_no_time")]
    creation_timestamp: Option<Time>,
    #[prost(message, optional, tag = "9")]
    #[serde(skip_serializing_if = "is_no_time")]
    deletion_timestamp: Option<Time>,
    #[prost(int64, optional, tag = "10")]
    #[serde(skip_serializing_if = "Option::is_none")]
    deletion_grace_period_seconds: Option<i64>,
    #[prost(btree_map = "string, string", tag = "11")]
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    labels: BTreeMap<String, String>,
    #[prost(btree_map = "string, string", tag = "12")]
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    annotations: BTreeMap<String, String>,
    #[prost(message, repeated, tag = "13")]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    owner_references: Vec<OwnerReference>,
    #[prost(string, repeated, tag = "14")]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    finalizers: Vec<String>,
    #[prost(message, repeated, tag = "17")]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    managed_fields: Vec<ManagedFieldsEntry>,
}

#[derive(Message, Serialize)]
#[prost(skip_debug)]
#[serde(rename_all = "camelCase")]
struct OwnerReference {
    #[prost(string, tag = "1")]
    kind: String,
    #[prost(string, tag = "3")]
    name: String,
    #[prost(string, tag = "4")]
    uid: String,
    #[prost(string, tag = "5")]
    api_version: String,
    #[prost(bool, optional, tag = "6")]
    #[serde(skip_serializing_if = "Option::is_none")]
    controller: Option<bool>,
    #[prost(bool, optional, tag = "7")]
    #[serde(skip_serializing_if = "Option::is_none")]
    block_owner_deletion: Option<bool>,
}

#[derive(Message, Serialize)]
#[prost(skip_debug)]
#[serde(rename_all = "camelCase")]
struct ManagedFieldsEntry {
    #[prost(string, tag = "1")]
    #[serde(skip_serializing_if = "String::is_empty")]
    manager: String,
    #[prost(string, tag = "2")]
    #[serde(skip_serializing_if = "String::is_empty")]
    operation: String,
    #[prost(string, tag = "3")]
    #[serde(skip_serializing_if = "String::is_empty")]
    api_version: String,
    #[prost(message, optional, tag = "4")]
    #[serde(skip_serializing_if = "is_no_time")]
    time: Option<Time>,
    #[prost(string, tag = "6")]
    #[serde(skip_serializing_if = "String::is_empty")]
    fields_type: String,
    #[prost(message, optional, tag = "7")]
    #[serde(skip_serializing_if = "Option::is_none")]
    fields_v1: Option<FieldsV1>,
    #[prost(string, tag = "8")]
    #[serde(skip_serializing_if = "String::is_empty")]
    subresource: String,
}

/// Names of fields, in JSON already.
#[derive(Message)]
#[prost(skip_debug)]
struct FieldsV1 {
    #[prost(bytes = "bytes", tag = "1")]
    raw: Bytes,
}

impl Serialize for FieldsV1 {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let raw: &RawValue = serde_json::from_slice(&self.raw).map_err(S::Error::custom)?;
        raw.serialize(serializer)
    }
}

/// In seconds since 1970; 0 for none.
#[derive(Message)]
#[prost(skip_debug)]
struct Time {
    #[prost(int64, tag = "1")]
    seconds: i64,
}

impl Serialize for Time {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&Timestamp::from_second(self.seconds).map_err(S::Error::custom)?)
    }
}

#[derive(Message, Serialize)]
#[prost(skip_debug)]
#[serde(rename_all = "camelCase")]
struct Status {
    #[prost(message, optional, tag = "1")]
    metadata: Option<ListMeta>,
    #[prost(string, tag = "2")]
    status: String,
    #[prost(string, tag = "3")]
    message: String,
    #[prost(string, tag = "4")]
    reason: String,
    #[prost(message, optional, tag = "5")]
    #[serde(skip_serializing_if = "Option::is_none")]
    details: Option<StatusDetails>,
    #[prost(int32, tag = "6")]
    code: i32,
}

#[derive(Message, Serialize)]
#[prost(skip_debug)]
#[serde(rename_all = "camelCase")]
struct StatusDetails {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(string, tag = "2")]
    group: String,
    #[prost(string, tag = "3")]
    kind: String,
    #[prost(message, repeated, tag = "4")]
    causes: Vec<StatusCause>,
    #[prost(int32, tag = "5")]
    retry_after_seconds: i32,
    #[prost(string, tag = "6")]
    uid: String,
}

#[derive(Message, Serialize)]
#[prost(skip_debug)]
struct StatusCause {
    #[prost(string, tag = "1")]
    reason: String,
    #[prost(string, tag = "2")]
    message: String,
    #[prost(string, tag = "3")]
    field: String,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(number: &i64) -> bool {
    *number == 0
}

fn is_no_time(time: &Option<Time>) -> bool {
    time.as_ref().is_none_or(|time| time.seconds == 0)
}
