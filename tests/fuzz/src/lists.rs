//! One item of a list and one object of a watch, as bytes: whatever it is, all others arrive, and nothing but it is left out.

use copyrator::{
    api::CopyratorRule,
    decoded::Decoded,
    intake::{AsWritten, object::Slim, workload::Workload},
    testing::metadata_as_json,
};
use k8s_openapi::api::{
    apps::v1::Deployment,
    core::v1::{Namespace, Secret},
};
use kube::{
    Resource,
    core::{DynamicObject, ObjectList, PartialObjectMeta, WatchEvent},
};
use serde::de::DeserializeOwned;
use serde_json::{Value, json, value::RawValue};

/// The longest item that is looked at.
const MOST: usize = 1 << 20;

/// The input is an item in JSON, or one in protobuf.
pub fn check(input: &[u8]) {
    if input.len() > MOST {
        return;
    }
    in_protobuf(input);
    let text = String::from_utf8_lossy(input);
    // What is no JSON is none that an API server writes.
    let Ok(item) = serde_json::from_str::<&RawValue>(&text) else { return };
    in_json::<Slim<Secret>>(item.get());
    in_json::<Workload<Deployment>>(item.get());
    in_json::<AsWritten<CopyratorRule>>(item.get());
    in_json::<Namespace>(item.get());
    in_json::<PartialObjectMeta<DynamicObject>>(item.get());
    in_json::<DynamicObject>(item.get());
}

/// An object that anybody can read.
fn sound(name: &str) -> Value {
    json!({
        "metadata": {"name": name, "namespace": "shop", "uid": "u", "resourceVersion": "7",
            "managedFields": [{"manager": "m", "operation": "Update", "time": "2026-01-01T00:00:00Z", "fieldsV1": {"f:spec": {}}}]},
        "spec": {"source": {"kind": "Secret", "names": ["a"]}, "targets": [{"names": ["b"]}]},
    })
}

fn in_json<T>(item: &str)
where
    T: Resource + DeserializeOwned + Clone,
{
    let (first, last) = (sound("first"), sound("last"));
    let list = format!(
        r#"{{"kind":"List","apiVersion":"v1","metadata":{{"resourceVersion":"9"}},"items":[{first},{item},{last}]}}"#
    );
    arrives::<T>(&list);
    let events = [&*first.to_string(), item, &last.to_string()];
    events_arrive::<T>(events.map(|object| format!(r#"{{"type":"MODIFIED","object":{object}}}"#)));
}

fn arrives<T: Resource + DeserializeOwned + Clone>(list: &str) {
    let list: ObjectList<Decoded<T>> =
        serde_json::from_str(list).expect("it is a list, whatever its items are");
    let [first, _, last] = &list.items[..] else { panic!("an item is missing") };
    assert!(is_read(first, "first") && is_read(last, "last"), "another item spoils it");
}

fn events_arrive<T: Resource + DeserializeOwned + Clone>(events: [String; 3]) {
    let read = |event: &str| serde_json::from_str(event).expect("it is an event, whatever its object is");
    let names: Vec<bool> = events
        .iter()
        .zip(["first", "", "last"])
        .map(|(event, name)| match read(event) {
            WatchEvent::Modified(object) => name.is_empty() || is_read::<T>(&object, name),
            _ => false,
        })
        .collect();
    assert_eq!(names, [true; 3]);
}

fn is_read<T: Resource>(object: &Decoded<T>, name: &str) -> bool {
    matches!(object, Decoded::Read(object) if object.meta().name.as_deref() == Some(name))
}

fn in_protobuf(item: &[u8]) {
    let sound =
        |name: &str| field(1, &[field(1, name.as_bytes()), field(3, b"shop"), field(6, b"7")].concat());
    let (first, last) = (sound("first"), sound("last"));
    let items = [&first, item, &last].map(|item| field(2, item)).concat();
    let list = enveloped("PartialObjectMetadataList", &[field(1, &field(2, b"9")), items].concat());
    let json = metadata_as_json(list, false).expect("it is a list, whatever its items are");
    arrives::<Slim<Secret>>(std::str::from_utf8(&json).expect("JSON is text"));
    let events = [&first[..], item, &last].map(|object| {
        let object = enveloped("PartialObjectMetadata", object);
        let event = [field(1, b"MODIFIED"), field(2, &field(1, &object))].concat();
        let json = metadata_as_json(event, true).expect("it is an event, whatever its object is");
        String::from_utf8(json).expect("JSON is text")
    });
    events_arrive::<Slim<Secret>>(events);
}

/// A message in the envelope of Kubernetes' protobuf.
fn enveloped(kind: &str, message: &[u8]) -> Vec<u8> {
    let r#type = [field(1, b"meta.k8s.io/v1"), field(2, kind.as_bytes())].concat();
    [b"k8s\0".to_vec(), field(1, &r#type), field(2, message)].concat()
}

/// A field of bytes in protobuf.
fn field(tag: u8, bytes: &[u8]) -> Vec<u8> {
    let mut field = vec![tag << 3 | 2];
    let mut length = bytes.len();
    while length > 127 {
        field.push(length as u8 & 127 | 128);
        length >>= 7;
    }
    field.push(length as u8);
    field.extend(bytes);
    field
}
