//! Answers that an API server of Kubernetes 1.36 gave to the same request in protobuf and in JSON, recorded.

use futures::StreamExt as _;
use http_body_util::Full;
use serde_json::Value;

use super::*;

const ONE: (&[u8], &str) = (include_bytes!("recorded/one.pb"), include_str!("recorded/one.json"));
const LIST: (&[u8], &str) = (include_bytes!("recorded/list.pb"), include_str!("recorded/list.json"));
const WATCH: (&[u8], &str) = (include_bytes!("recorded/watch.pb"), include_str!("recorded/watch.json"));
const EXPIRED: (&[u8], &str) = (include_bytes!("recorded/expired.pb"), include_str!("recorded/expired.json"));

/// What a caller gets if the API server answers with this, a few bytes at a time.
async fn passed_on(form: &'static str, answer: &'static [u8]) -> Result<String, String> {
    let server = tower::service_fn(move |_: Request<()>| async move {
        let parts = answer.chunks(7).map(|part| Ok::<_, BoxError>(Frame::data(Bytes::from_static(part))));
        let body = StreamBody::new(stream::iter(parts)).boxed_unsync();
        let mut response = Response::new(body);
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(form));
        response.headers_mut().insert(CONTENT_LENGTH, HeaderValue::from(answer.len()));
        Ok::<_, BoxError>(response)
    });
    let answer =
        MetadataInProtobuf(server).call(Request::new(())).await.map_err(|error| error.to_string())?;
    assert_eq!(answer.headers().get(CONTENT_TYPE).map(HeaderValue::as_bytes), Some(JSON.as_bytes()));
    let bytes = answer.into_body().collect().await.map_err(|error| error.to_string())?.to_bytes();
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
    for (form, (protobuf, json)) in [
        (PROTOBUF, ONE),
        (PROTOBUF, LIST),
        ("application/vnd.kubernetes.protobuf;stream=watch", WATCH),
        ("application/vnd.kubernetes.protobuf;stream=watch", EXPIRED),
    ] {
        let passed = passed_on(form, protobuf).await.unwrap();
        assert_eq!(lines(&passed), lines(json), "{passed}");
    }
}

#[tokio::test]
async fn json_passes_as_it_came() {
    assert_eq!(passed_on(JSON, ONE.1.as_bytes()).await.as_deref(), Ok(ONE.1));
}

/// A list or watch that broke off is not a shorter one.
#[tokio::test]
async fn what_is_cut_off_or_foreign_is_an_error() {
    let watch = "application/vnd.kubernetes.protobuf;stream=watch";
    for (form, bytes) in [
        (PROTOBUF, &LIST.0[..LIST.0.len() - 1]),
        (PROTOBUF, &LIST.0[4..]),
        (PROTOBUF, b"k8s\0\x0a\x05\x12\x03Pod".as_slice()),
        (watch, &WATCH.0[..WATCH.0.len() - 1]),
        (watch, &WATCH.0[1..]),
    ] {
        assert!(passed_on(form, bytes).await.is_err(), "{bytes:?}");
    }
}

/// Others keep what they ask for.
#[tokio::test]
async fn only_requests_for_metadata_ask_for_protobuf() {
    let asked = async |accept: &'static str| {
        let server = tower::service_fn(|request: Request<()>| async move {
            let accepted = request.headers()[ACCEPT].to_str().unwrap().to_owned();
            let body = Full::new(Bytes::from(accepted)).map_err(BoxError::from).boxed_unsync();
            Ok::<_, BoxError>(Response::new(body))
        });
        let request = Request::builder().header(ACCEPT, accept).body(()).unwrap();
        let answer = MetadataInProtobuf(server).call(request).await.unwrap();
        String::from_utf8(answer.into_body().collect().await.unwrap().to_bytes().to_vec()).unwrap()
    };
    let metadata = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
    let either = "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,\
        application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
    assert_eq!(asked(metadata).await, either);
    for other in [JSON, "application/json;as=Table;g=meta.k8s.io;v=v1", either] {
        assert_eq!(asked(other).await, other);
    }
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
