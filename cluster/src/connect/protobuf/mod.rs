//! Client layers that request metadata in protobuf, and convert the answers to the JSON that the caller asked
//! for.
//!
//! A watch of every Secret costs the API server most when it encodes metadata as JSON for each write.
//! Protobuf is several times cheaper, but kube does not support it. An API server (or a proxy) without
//! protobuf answers with JSON, which passes unchanged.

use futures::{TryStreamExt as _, stream};
use http::{
    HeaderMap, HeaderValue, Request, Response,
    header::{ACCEPT, CONTENT_LENGTH, CONTENT_TYPE},
};
use http_body_util::{BodyExt as _, StreamBody};
use hyper::body::{Bytes, Frame};
use tokio_util::{
    codec::{FramedRead, LengthDelimitedCodec},
    io::StreamReader,
};
use tower::BoxError;

use super::answers::Answer;

mod messages;

const JSON: &str = "application/json";
const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
/// The largest event of a watch, in bytes; client-go has the same limit.
const MOST_BYTES: usize = 16 << 20;

/// Makes a request for metadata as JSON ask for protobuf first. Other requests pass unchanged.
pub(super) fn preferring_protobuf<B>(mut request: Request<B>) -> Request<B> {
    if let Some(accepted) = accepting_protobuf(request.headers()) {
        request.headers_mut().insert(ACCEPT, accepted);
    }
    request
}

/// Returns the new `Accept` header; `None` if the request does not ask for metadata as JSON.
fn accepting_protobuf(headers: &HeaderMap) -> Option<HeaderValue> {
    let accepted = headers.get(ACCEPT)?.to_str().ok()?;
    let parameters =
        accepted.strip_prefix(JSON).filter(|rest| rest.starts_with(";as=PartialObjectMetadata"))?;
    HeaderValue::try_from(format!("{PROTOBUF}{parameters},{accepted}")).ok()
}

/// Converts the answer to JSON if it is protobuf.
pub(super) fn as_json(answer: Response<Answer>) -> Response<Answer> {
    let form = answer.headers().get(CONTENT_TYPE).and_then(|form| form.to_str().ok()).unwrap_or_default();
    let Some(parameters) = form.strip_prefix(PROTOBUF) else { return answer };
    let is_watch = parameters.contains("stream=watch");
    let (mut head, body) = answer.into_parts();
    head.headers.insert(CONTENT_TYPE, HeaderValue::from_static(JSON));
    head.headers.remove(CONTENT_LENGTH);
    Response::from_parts(head, if is_watch { events(body) } else { whole(body) })
}

/// Converts one object, one list or one status.
fn whole(body: Answer) -> Answer {
    let json = async move { Ok(Frame::data(messages::json(body.collect().await?.to_bytes())?.into())) };
    StreamBody::new(stream::once(json)).boxed_unsync()
}

/// Converts a stream of events, each after its length in four bytes, to JSON lines.
fn events(body: Answer) -> Answer {
    let bytes = StreamReader::new(body.into_data_stream().map_err(std::io::Error::other));
    let codec = LengthDelimitedCodec::builder().max_frame_length(MOST_BYTES).new_codec();
    let lines = FramedRead::new(bytes, codec).map_err(BoxError::from).and_then(|event| async move {
        let mut line = messages::event_json(event.freeze())?;
        line.push(b'\n');
        Ok(Frame::data(Bytes::from(line)))
    });
    StreamBody::new(lines).boxed_unsync()
}

/// Converts an answer about metadata in protobuf, or an event of a watch, to JSON: for fuzz tests.
///
/// # Errors
/// Returns an error if the encoding is not the API server's encoding of such answers.
pub fn metadata_as_json(encoded: Vec<u8>, is_event: bool) -> Result<Vec<u8>, String> {
    let json = if is_event { messages::event_json } else { messages::json };
    json(encoded.into()).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests;
