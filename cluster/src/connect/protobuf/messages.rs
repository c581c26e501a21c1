//! The protobuf messages of answers about metadata, converted to JSON. The tags of the messages are those of
//! `k8s.io/apimachinery/pkg/apis/meta/v1/generated.proto`.
//!
//! The API server accepts objects that do not fit these messages: text that is not UTF-8 (a Go client that
//! cuts an annotation in the middle of a character writes such text), or a time after the year 9999. Text is
//! therefore decoded as bytes, each item of a list separately, and an item that cannot be decoded becomes
//! [`Item::Broken`].
//!
//! No message implements `Debug`: annotations can contain a whole Secret.

use hyper::body::Bytes;
use jiff::Timestamp;
use prost::Message;
use serde::{Serialize, Serializer};
use serde_json::value::RawValue;

/// The first bytes of an encoded object
/// (<https://kubernetes.io/docs/reference/using-api/api-concepts/#protobuf-encoding>).
const MAGIC: &[u8] = b"k8s\0";

/// Why an answer in protobuf cannot be used.
#[derive(Debug, thiserror::Error)]
pub(super) enum ProtobufError {
    /// The answer does not begin with Kubernetes' magic bytes.
    #[error("the API server's protobuf does not begin with k8s\\0")]
    Magic,
    /// The bytes do not form the expected message.
    #[error("the API server's protobuf cannot be decoded")]
    Decode(#[from] prost::DecodeError),
    /// The answer is neither metadata nor a status.
    #[error("the API server answered with {0:?} instead of metadata")]
    Kind(String),
    /// The answer cannot be expressed in JSON.
    #[error("the API server's protobuf cannot be converted to JSON")]
    Json(#[from] serde_json::Error),
}

/// Converts an encoded object to JSON.
///
/// # Errors
/// Returns an error if the encoding is not the API server's encoding of metadata.
pub(super) fn json(encoded: Bytes) -> Result<Vec<u8>, ProtobufError> {
    Ok(serde_json::to_vec(&decoded(encoded)?)?)
}

/// Converts an event of a watch to JSON. An object that cannot be decoded becomes [`Item::Broken`].
///
/// # Errors
/// Returns an error if the encoding is not the API server's encoding of events.
pub(super) fn event_json(encoded: Bytes) -> Result<Vec<u8>, ProtobufError> {
    let WatchEvent { r#type, object } = WatchEvent::decode(encoded)?;
    let broken = |_| Object { r#type: TypeMeta::default(), body: Body::One(Item::Broken(Names::default())) };
    let object = decoded(object.unwrap_or_default().raw).unwrap_or_else(broken);
    Ok(serde_json::to_vec(&Event { r#type, object })?)
}

fn decoded(mut encoded: Bytes) -> Result<Object, ProtobufError> {
    if !encoded.starts_with(MAGIC) {
        return Err(ProtobufError::Magic);
    }
    let Unknown { r#type, raw } = Unknown::decode(encoded.split_off(MAGIC.len()))?;
    let r#type = r#type.unwrap_or_default();
    let body = match &*r#type.kind {
        b"PartialObjectMetadata" => Body::One(Item::decode(raw)),
        b"PartialObjectMetadataList" => {
            let EncodedList { metadata, items } = EncodedList::decode(raw)?;
            Body::List(List { metadata, items: items.into_iter().map(Item::decode).collect() })
        }
        b"Status" => Body::Status(Status::decode(raw)?),
        _ => return Err(ProtobufError::Kind(String::from_utf8_lossy(&r#type.kind).into_owned())),
    };
    Ok(Object { r#type, body })
}

#[derive(Serialize)]
struct Event {
    #[serde(serialize_with = "text")]
    r#type: Bytes,
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
    One(Item),
    List(List),
    Status(Status),
}

#[derive(Message)]
#[prost(skip_debug)]
struct WatchEvent {
    #[prost(bytes = "bytes", tag = "1")]
    r#type: Bytes,
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
    #[prost(bytes = "bytes", tag = "1")]
    #[serde(serialize_with = "text")]
    api_version: Bytes,
    #[prost(bytes = "bytes", tag = "2")]
    #[serde(serialize_with = "text")]
    kind: Bytes,
}

#[derive(Message, Serialize)]
#[prost(skip_debug)]
struct PartialObjectMetadata {
    #[prost(message, optional, tag = "1")]
    metadata: Option<ObjectMeta>,
}

/// A `PartialObjectMetadataList` whose items are not decoded yet.
#[derive(Message)]
#[prost(skip_debug)]
struct EncodedList {
    #[prost(message, optional, tag = "1")]
    metadata: Option<ListMeta>,
    #[prost(bytes = "bytes", repeated, tag = "2")]
    items: Vec<Bytes>,
}

#[derive(Serialize)]
struct List {
    metadata: Option<ListMeta>,
    items: Vec<Item>,
}

/// One object of a list or of an event.
#[derive(Serialize)]
#[serde(untagged)]
enum Item {
    Whole(PartialObjectMetadata),
    /// An object that could not be decoded. The `labels` of a broken item are a number, so no decoder accepts
    /// the item as a whole object.
    Broken(Names),
}

impl Item {
    fn decode(encoded: Bytes) -> Self {
        let mut object = PartialObjectMetadata::default();
        match object.merge(encoded) {
            Ok(()) => Self::Whole(object),
            // The fields before the fault are decoded.
            Err(_) => Self::Broken(Names::of(object.metadata.unwrap_or_default())),
        }
    }
}

/// The metadata of an object that cannot be decoded.
#[derive(Default, Serialize)]
struct Names {
    metadata: BrokenMeta,
}

#[derive(Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct BrokenMeta {
    #[serde(serialize_with = "text", skip_serializing_if = "Bytes::is_empty")]
    name: Bytes,
    #[serde(serialize_with = "text", skip_serializing_if = "Bytes::is_empty")]
    namespace: Bytes,
    #[serde(serialize_with = "text", skip_serializing_if = "Bytes::is_empty")]
    uid: Bytes,
    #[serde(serialize_with = "text", skip_serializing_if = "Bytes::is_empty")]
    resource_version: Bytes,
    labels: u8,
}

impl Names {
    fn of(meta: ObjectMeta) -> Self {
        let ObjectMeta { name, namespace, uid, resource_version, .. } = meta;
        Self { metadata: BrokenMeta { name, namespace, uid, resource_version, labels: 0 } }
    }
}

#[derive(Message, Serialize)]
#[prost(skip_debug)]
#[serde(rename_all = "camelCase")]
struct ListMeta {
    #[prost(bytes = "bytes", tag = "2")]
    #[serde(serialize_with = "text", skip_serializing_if = "Bytes::is_empty")]
    resource_version: Bytes,
    #[prost(bytes = "bytes", tag = "3")]
    #[serde(serialize_with = "text", rename = "continue", skip_serializing_if = "Bytes::is_empty")]
    continue_: Bytes,
    #[prost(int64, optional, tag = "4")]
    #[serde(skip_serializing_if = "Option::is_none")]
    remaining_item_count: Option<i64>,
}

#[derive(Message, Serialize)]
#[prost(skip_debug)]
#[serde(rename_all = "camelCase")]
struct ObjectMeta {
    #[prost(bytes = "bytes", tag = "1")]
    #[serde(serialize_with = "text", skip_serializing_if = "Bytes::is_empty")]
    name: Bytes,
    #[prost(bytes = "bytes", tag = "2")]
    #[serde(serialize_with = "text", skip_serializing_if = "Bytes::is_empty")]
    generate_name: Bytes,
    #[prost(bytes = "bytes", tag = "3")]
    #[serde(serialize_with = "text", skip_serializing_if = "Bytes::is_empty")]
    namespace: Bytes,
    #[prost(bytes = "bytes", tag = "5")]
    #[serde(serialize_with = "text", skip_serializing_if = "Bytes::is_empty")]
    uid: Bytes,
    #[prost(bytes = "bytes", tag = "6")]
    #[serde(serialize_with = "text", skip_serializing_if = "Bytes::is_empty")]
    resource_version: Bytes,
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
    #[prost(message, repeated, tag = "11")]
    #[serde(serialize_with = "map", skip_serializing_if = "Vec::is_empty")]
    labels: Vec<Pair>,
    #[prost(message, repeated, tag = "12")]
    #[serde(serialize_with = "map", skip_serializing_if = "Vec::is_empty")]
    annotations: Vec<Pair>,
    #[prost(message, repeated, tag = "13")]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    owner_references: Vec<OwnerReference>,
    #[prost(bytes = "bytes", repeated, tag = "14")]
    #[serde(serialize_with = "texts", skip_serializing_if = "Vec::is_empty")]
    finalizers: Vec<Bytes>,
    #[prost(message, repeated, tag = "17")]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    managed_fields: Vec<ManagedFieldsEntry>,
}

/// A pair of a map, as protobuf encodes it.
#[derive(Message)]
#[prost(skip_debug)]
struct Pair {
    #[prost(bytes = "bytes", tag = "1")]
    key: Bytes,
    #[prost(bytes = "bytes", tag = "2")]
    value: Bytes,
}

#[derive(Message, Serialize)]
#[prost(skip_debug)]
#[serde(rename_all = "camelCase")]
struct OwnerReference {
    #[prost(bytes = "bytes", tag = "1")]
    #[serde(serialize_with = "text")]
    kind: Bytes,
    #[prost(bytes = "bytes", tag = "3")]
    #[serde(serialize_with = "text")]
    name: Bytes,
    #[prost(bytes = "bytes", tag = "4")]
    #[serde(serialize_with = "text")]
    uid: Bytes,
    #[prost(bytes = "bytes", tag = "5")]
    #[serde(serialize_with = "text")]
    api_version: Bytes,
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
    #[prost(bytes = "bytes", tag = "1")]
    #[serde(serialize_with = "text", skip_serializing_if = "Bytes::is_empty")]
    manager: Bytes,
    #[prost(bytes = "bytes", tag = "2")]
    #[serde(serialize_with = "text", skip_serializing_if = "Bytes::is_empty")]
    operation: Bytes,
    #[prost(bytes = "bytes", tag = "3")]
    #[serde(serialize_with = "text", skip_serializing_if = "Bytes::is_empty")]
    api_version: Bytes,
    #[prost(message, optional, tag = "4")]
    #[serde(skip_serializing_if = "is_out_of_range")]
    time: Option<Time>,
    #[prost(bytes = "bytes", tag = "6")]
    #[serde(serialize_with = "text", skip_serializing_if = "Bytes::is_empty")]
    fields_type: Bytes,
    #[prost(message, optional, tag = "7")]
    #[serde(skip_serializing_if = "Option::is_none")]
    fields_v1: Option<FieldsV1>,
    #[prost(bytes = "bytes", tag = "8")]
    #[serde(serialize_with = "text", skip_serializing_if = "Bytes::is_empty")]
    subresource: Bytes,
}

/// Names of fields, encoded as JSON. If the JSON is invalid, no field is known.
#[derive(Message)]
#[prost(skip_debug)]
struct FieldsV1 {
    #[prost(bytes = "bytes", tag = "1")]
    raw: Bytes,
}

impl Serialize for FieldsV1 {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let text = String::from_utf8_lossy(&self.raw);
        match serde_json::from_str::<&RawValue>(&text) {
            Ok(raw) => raw.serialize(serializer),
            Err(_) => serializer.collect_map::<(), (), _>([]),
        }
    }
}

/// Seconds since 1970; 0 for no time.
#[derive(Message)]
#[prost(skip_debug)]
struct Time {
    #[prost(int64, tag = "1")]
    seconds: i64,
}

/// Writes the nearest time that we can express.
impl Serialize for Time {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let nearest = if self.seconds < 0 { Timestamp::MIN } else { Timestamp::MAX };
        serializer.collect_str(&Timestamp::from_second(self.seconds).unwrap_or(nearest))
    }
}

#[derive(Message, Serialize)]
#[prost(skip_debug)]
#[serde(rename_all = "camelCase")]
struct Status {
    #[prost(message, optional, tag = "1")]
    metadata: Option<ListMeta>,
    #[prost(bytes = "bytes", tag = "2")]
    #[serde(serialize_with = "text")]
    status: Bytes,
    #[prost(bytes = "bytes", tag = "3")]
    #[serde(serialize_with = "text")]
    message: Bytes,
    #[prost(bytes = "bytes", tag = "4")]
    #[serde(serialize_with = "text")]
    reason: Bytes,
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
    #[prost(bytes = "bytes", tag = "1")]
    #[serde(serialize_with = "text")]
    name: Bytes,
    #[prost(bytes = "bytes", tag = "2")]
    #[serde(serialize_with = "text")]
    group: Bytes,
    #[prost(bytes = "bytes", tag = "3")]
    #[serde(serialize_with = "text")]
    kind: Bytes,
    #[prost(message, repeated, tag = "4")]
    causes: Vec<StatusCause>,
    #[prost(int32, tag = "5")]
    retry_after_seconds: i32,
    #[prost(bytes = "bytes", tag = "6")]
    #[serde(serialize_with = "text")]
    uid: Bytes,
}

#[derive(Message, Serialize)]
#[prost(skip_debug)]
struct StatusCause {
    #[prost(bytes = "bytes", tag = "1")]
    #[serde(serialize_with = "text")]
    reason: Bytes,
    #[prost(bytes = "bytes", tag = "2")]
    #[serde(serialize_with = "text")]
    message: Bytes,
    #[prost(bytes = "bytes", tag = "3")]
    #[serde(serialize_with = "text")]
    field: Bytes,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(number: &i64) -> bool {
    *number == 0
}

fn is_no_time(time: &Option<Time>) -> bool {
    time.as_ref().is_none_or(|time| time.seconds == 0)
}

/// Whether to omit the time. A field manager may write any time, and a time that we cannot express has no
/// meaning.
fn is_out_of_range(time: &Option<Time>) -> bool {
    is_no_time(time) || time.as_ref().is_some_and(|time| Timestamp::from_second(time.seconds).is_err())
}

/// Writes text, and replaces bytes that are not UTF-8.
fn text<S: Serializer>(text: &Bytes, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&String::from_utf8_lossy(text))
}

fn texts<S: Serializer>(texts: &[Bytes], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(texts.iter().map(|text| String::from_utf8_lossy(text)))
}

fn map<S: Serializer>(pairs: &[Pair], serializer: S) -> Result<S::Ok, S::Error> {
    let lossy = String::from_utf8_lossy;
    serializer.collect_map(pairs.iter().map(|pair| (lossy(&pair.key), lossy(&pair.value))))
}
