//! Answers that an API server of Kubernetes 1.36 gave to the same request in protobuf and in JSON, recorded.

use std::sync::Arc;

use futures::StreamExt as _;
use k8s_openapi::api::core::v1::Secret;
use kube::{
    Api, Config, ResourceExt,
    api::{ListParams, WatchEvent, WatchParams},
    client::Body,
    core::ObjectList,
};
use serde_json::Value;
use tower::util::BoxCloneSyncService;

use super::*;
use crate::{connect::client::over, decoded::Decoded, intake::object::Slim};

/// The form of a watch.
const STREAM: &str = "application/vnd.kubernetes.protobuf;stream=watch";
const ONE: (&[u8], &str) = (include_bytes!("recorded/one.pb"), include_str!("recorded/one.json"));
const LIST: (&[u8], &str) = (include_bytes!("recorded/list.pb"), include_str!("recorded/list.json"));
const WATCH: (&[u8], &str) = (include_bytes!("recorded/watch.pb"), include_str!("recorded/watch.json"));
const EXPIRED: (&[u8], &str) = (include_bytes!("recorded/expired.pb"), include_str!("recorded/expired.json"));

/// An answer of the API server, which comes a few bytes at a time.
fn answered(form: &'static str, bytes: &'static [u8]) -> Response<Answer> {
    let parts = bytes.chunks(7).map(|part| Ok::<_, BoxError>(Frame::data(Bytes::from_static(part))));
    let mut answer = Response::new(StreamBody::new(stream::iter(parts)).boxed_unsync());
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(form));
    answer.headers_mut().insert(CONTENT_LENGTH, HeaderValue::from(bytes.len()));
    answer
}

/// What a caller gets of such an answer.
async fn passed_on(form: &'static str, bytes: &'static [u8]) -> Result<String, BoxError> {
    let answer = as_json(answered(form, bytes));
    assert_eq!(answer.headers().get(CONTENT_TYPE).map(HeaderValue::as_bytes), Some(JSON.as_bytes()));
    let bytes = answer.into_body().collect().await?.to_bytes();
    Ok(String::from_utf8(bytes.to_vec()).unwrap())
}

/// Each line of JSON; of the items of a list without their kind, which protobuf omits and each caller knows.
fn lines(text: &str) -> Vec<Value> {
    let line = |line: &str| {
        let mut value: Value = serde_json::from_str(line).unwrap();
        let items = value.get_mut("items").and_then(Value::as_array_mut).into_iter().flatten();
        for item in items.filter_map(Value::as_object_mut) {
            item.retain(|name, _| name == "metadata");
        }
        value
    };
    text.lines().map(line).collect()
}

#[tokio::test]
async fn an_answer_in_protobuf_says_what_the_one_in_json_says() {
    for (form, (protobuf, json)) in [(PROTOBUF, ONE), (PROTOBUF, LIST), (STREAM, WATCH), (STREAM, EXPIRED)] {
        let passed = passed_on(form, protobuf).await.unwrap();
        assert_eq!(lines(&passed), lines(json), "{passed}");
    }
}

#[tokio::test]
async fn json_passes_as_it_came() {
    assert_eq!(passed_on(JSON, ONE.1.as_bytes()).await.unwrap(), ONE.1);
}

/// A list or watch that broke off is not a shorter one.
#[tokio::test]
async fn what_is_cut_off_or_foreign_is_an_error() {
    for (form, bytes) in [
        (PROTOBUF, &LIST.0[..LIST.0.len() - 1]),
        (PROTOBUF, &LIST.0[4..]),
        (PROTOBUF, b"k8s\0\x0a\x05\x12\x03Pod".as_slice()),
        (STREAM, &WATCH.0[..WATCH.0.len() - 1]),
        (STREAM, &WATCH.0[1..]),
    ] {
        assert!(passed_on(form, bytes).await.is_err(), "{bytes:?}");
    }
}

/// Others keep what they ask for.
#[test]
fn only_requests_for_metadata_ask_for_protobuf() {
    let asked = |accept: &'static str| {
        let request = Request::builder().header(ACCEPT, accept).body(()).unwrap();
        preferring_protobuf(request).headers()[ACCEPT].to_str().unwrap().to_owned()
    };
    let metadata = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
    let either = "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,\
        application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
    assert_eq!(asked(metadata), either);
    for other in [JSON, "application/json;as=Table;g=meta.k8s.io;v=v1", either] {
        assert_eq!(asked(other), other);
    }
}

/// Otherwise everything would go on in JSON unnoticed, once kube asks for metadata in other words.
#[tokio::test]
async fn our_clients_ask_for_protobuf_and_read_what_comes() {
    let server = tower::service_fn(|request: Request<Body>| async move {
        let accepted = request.headers()[ACCEPT].to_str().unwrap();
        assert!(accepted.starts_with(PROTOBUF), "{accepted} is asked for");
        let is_watch = request.uri().query().is_some_and(|query| query.contains("watch=true"));
        Ok::<_, BoxError>(if is_watch { answered(STREAM, WATCH.0) } else { answered(PROTOBUF, LIST.0) })
    });
    let config = Config::new("https://127.0.0.1".parse().unwrap());
    let (client, _) = over(BoxCloneSyncService::new(server), &config, &Arc::default(), |_| ()).unwrap();
    let secrets = Api::<Slim<Secret>>::all(client);
    let listed = secrets.list(&ListParams::default()).await.unwrap();
    let names = listed.items.iter().map(ResourceExt::name_any).collect::<Vec<_>>();
    assert_eq!((names, listed.metadata.continue_.is_some()), (vec!["full".to_owned()], true));

    let events = secrets.watch(&WatchParams::default(), "0").await.unwrap();
    let seen = events.map(|event| match event.unwrap() {
        WatchEvent::Added(secret) => secret.name_any(),
        WatchEvent::Bookmark(at) => at.metadata.resource_version,
        _ => "neither added nor a bookmark".into(),
    });
    assert_eq!(seen.collect::<Vec<_>>().await, ["full", "plain", "304"]);
}

/// An event is passed on when it has come, not when the next one does.
#[tokio::test]
async fn an_event_does_not_wait_for_the_next() {
    let first = Bytes::from_static(EXPIRED.0);
    let parts = stream::iter([Ok::<_, BoxError>(Frame::data(first))]).chain(stream::pending());
    let mut passed = events(StreamBody::new(parts).boxed_unsync());
    let line = passed.frame().await.unwrap().unwrap().into_data().unwrap();
    assert_eq!(lines(std::str::from_utf8(&line).unwrap()), lines(EXPIRED.1));
}

/// What a protobuf message is made of, by hand.
fn field(tag: u8, bytes: &[u8]) -> Vec<u8> {
    assert!(bytes.len() < 128, "a length of one byte");
    [&[tag << 3 | 2, bytes.len() as u8], bytes].concat()
}

/// A list of these encoded items.
fn list_of(items: &[Vec<u8>]) -> Vec<u8> {
    let kind = field(2, b"PartialObjectMetadataList");
    let list: Vec<u8> =
        items.iter().flat_map(|item| [&[0x12, item.len() as u8], &item[..]].concat()).collect();
    let list = [&field(1, &[])[..], &list].concat();
    let mut encoded = b"k8s\0".to_vec();
    encoded.extend(field(1, &kind));
    encoded.extend([0x12, (list.len() & 127 | 128) as u8, (list.len() >> 7) as u8]);
    encoded.extend(list);
    encoded
}

fn named(name: &str, more: &[u8]) -> Vec<u8> {
    field(1, &[field(1, name.as_bytes()), more.to_vec()].concat())
}

/// A Go client that cuts a text in the middle of a character writes such an annotation; anybody may write such managedFields.
#[tokio::test]
async fn what_no_decoder_takes_spoils_no_list() {
    let note = field(12, &[field(1, b"note"), field(2, b"\xff\xfe bad")].concat());
    // 9999-12-31T23:59:59Z, and fields that are no JSON.
    let late = [8, 0xff, 0x82, 0xd1, 0xff, 0xaf, 0x07];
    let entry = [field(1, b"evil"), field(4, &late), field(7, &field(1, b"{\xff"))].concat();
    // The tag of managedFields has two bytes.
    let managed = [&[0x8a, 0x01, entry.len() as u8], &entry[..]].concat();
    let cut_off = field(1, &[&field(1, b"cut")[..], &[0x62, 9, 1]].concat());
    let list = list_of(&[named("a", &note), named("b", &managed), cut_off, named("c", &[])]);
    let passed = passed_on(PROTOBUF, list.leak()).await.unwrap();
    let list: ObjectList<Decoded<Slim<Secret>>> = serde_json::from_str(&passed).unwrap();
    let seen = list.items.iter().map(|item| (item.name_any(), matches!(item, Decoded::Read(_))));
    let expected = [("a", true), ("b", true), ("cut", false), ("c", true)];
    assert_eq!(
        seen.collect::<Vec<_>>(),
        expected.map(|(name, is_read)| (name.to_owned(), is_read)),
        "{passed}"
    );
    assert!(passed.contains("\u{fffd}\u{fffd} bad"), "{passed}");
}
