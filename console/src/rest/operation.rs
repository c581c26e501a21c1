//! An operation of the API: its route, and its description in the OpenAPI document.

use std::{collections::BTreeMap, panic::resume_unwind, sync::Arc};

use axum::{
    Extension,
    body::HttpBody as _,
    extract::{Path, Request},
    response::{IntoResponse, Response},
    routing::{MethodFilter, MethodRouter, on},
};
use copyrator_cli::{
    arguments::output,
    files::{self, Document},
};
use http::{HeaderMap, HeaderValue, StatusCode, header};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::Serialize;
use tokio::task::{JoinError, spawn_blocking};

use crate::{asked::Asked, door::whole, names::NameKind, problem::Problem, seat::Seat};

/// The base path of the API.
pub(super) const ROOT: &str = "/api/v1";

/// The maximum number of objects in a body. In memory, a small object takes a hundred times its bytes.
const OBJECTS: usize = 1_000;

/// The method of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verb {
    Get,
    /// The body has manifests; the operation writes nothing.
    Post,
    /// The operation writes the manifest in the body.
    Put,
    Delete,
}

impl Verb {
    /// The word in the OpenAPI document.
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::Post => "post",
            Self::Put => "put",
            Self::Delete => "delete",
        }
    }

    /// Whether the body has manifests.
    pub(super) fn has_body(self) -> bool {
        matches!(self, Self::Post | Self::Put)
    }

    fn filter(self) -> MethodFilter {
        match self {
            Self::Get => MethodFilter::GET,
            Self::Post => MethodFilter::POST,
            Self::Put => MethodFilter::PUT,
            Self::Delete => MethodFilter::DELETE,
        }
    }
}

/// The form of an answer.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Form {
    /// A document as commands print it with `-o json`, with our apiVersion and this kind.
    Document(&'static str),
    /// A List of Kubernetes' own objects.
    List,
    /// A template, as the API server has it.
    Template,
    /// The API server's answer to a delete.
    Deleted,
    /// A stream of server-sent events, `text/event-stream`.
    Events,
}

/// A request, as operations receive it.
pub(crate) struct Call {
    pub seat: Arc<Seat>,
    pub asked: Asked,
    /// The variables of the path.
    pub path: BTreeMap<String, String>,
    /// The manifests of the body.
    pub documents: Vec<Document>,
    /// `Last-Event-ID`: the event after which a stream continues.
    pub last_event: Option<String>,
    /// `If-Match`: the resourceVersion that the object must have.
    pub version: Option<String>,
}

impl Call {
    /// Creates a call. The namespace and name of the path must be valid, since they become part of requests
    /// to the API server.
    ///
    /// # Errors
    /// The namespace or name is not valid.
    pub(crate) fn new(
        seat: Arc<Seat>,
        asked: Asked,
        path: BTreeMap<String, String>,
        documents: Vec<Document>,
    ) -> Result<Self, Problem> {
        let wrong = |message: String| Problem::new(StatusCode::BAD_REQUEST, message);
        if let Some(namespace) = path.get("namespace") {
            let named = NameKind::Namespace.is_name(namespace).then_some(());
            named.ok_or_else(|| wrong(format!("{namespace:?} is not the name of a namespace")))?;
        }
        let is_plain =
            |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-.:".contains(&byte);
        // A proxy may read a name of only dots as the parent directory.
        let is_name = |name: &String| name.bytes().all(is_plain) && !name.bytes().all(|byte| byte == b'.');
        match path.get("name").filter(|name| !is_name(name)) {
            Some(name) => Err(wrong(format!("{name:?} is not the name of an object"))),
            None => Ok(Self { seat, asked, path, documents, last_event: None, version: None }),
        }
    }

    /// A variable of the path; empty if the path does not have it.
    pub(crate) fn variable(&self, name: &str) -> &str {
        self.path.get(name).map_or("", String::as_str)
    }
}

/// One method of one path, with its description in the OpenAPI document.
pub(super) struct Operation {
    pub(super) verb: Verb,
    /// The path below [`ROOT`], with variables as `{name}`.
    pub(super) path: &'static str,
    pub(super) form: Form,
    pub(super) summary: &'static str,
    /// The query parameters that the operation accepts.
    pub(super) parameters: &'static [&'static str],
    /// The schema of the answer.
    pub(super) schema: fn(&mut SchemaGenerator) -> Schema,
    pub(super) route: MethodRouter,
}

/// The method and path of an operation; the path is below [`ROOT`].
type VerbAndPath = (Verb, &'static str);

impl Operation {
    /// An operation that answers with one of our types.
    pub(super) fn new<T, F>(
        verb_and_path: VerbAndPath,
        form: Form,
        summary: &'static str,
        parameters: &'static [&'static str],
        answer: impl Fn(Call) -> F + Clone + Send + Sync + 'static,
    ) -> Self
    where
        T: Serialize + JsonSchema,
        F: Future<Output = Result<T, Problem>> + Send + 'static,
    {
        let schema = |generator: &mut SchemaGenerator| generator.subschema_for::<T>();
        let answer = move |call: Call| {
            let answered = answer(call);
            async move { Ok(respond(form, &answered.await?)) }
        };
        Self::responding(verb_and_path, form, summary, parameters, schema, answer)
    }

    /// An operation that builds its own response: an object of the API server unchanged, or a stream of `T`.
    pub(super) fn responding_with<T, F>(
        verb_and_path: VerbAndPath,
        form: Form,
        summary: &'static str,
        parameters: &'static [&'static str],
        answer: impl Fn(Call) -> F + Clone + Send + Sync + 'static,
    ) -> Self
    where
        T: JsonSchema,
        F: Future<Output = Result<Response, Problem>> + Send + 'static,
    {
        let schema = |generator: &mut SchemaGenerator| generator.subschema_for::<T>();
        Self::responding(verb_and_path, form, summary, parameters, schema, answer)
    }

    fn responding<F>(
        verb_and_path: VerbAndPath,
        form: Form,
        summary: &'static str,
        parameters: &'static [&'static str],
        schema: fn(&mut SchemaGenerator) -> Schema,
        answer: impl Fn(Call) -> F + Clone + Send + Sync + 'static,
    ) -> Self
    where
        F: Future<Output = Result<Response, Problem>> + Send + 'static,
    {
        let (verb, path) = verb_and_path;
        let handler = async move |Extension(seat): Extension<Arc<Seat>>,
                                  Path(path): Path<BTreeMap<String, String>>,
                                  asked: Asked,
                                  request: Request| {
            let answered = async { answer(call(seat, path, verb, asked, parameters, request).await?).await };
            answered.await.unwrap_or_else(IntoResponse::into_response)
        };
        Self { verb, path, form, summary, parameters, schema, route: on(verb.filter(), handler) }
    }
}

async fn call(
    seat: Arc<Seat>,
    path: BTreeMap<String, String>,
    verb: Verb,
    asked: Asked,
    parameters: &[&str],
    request: Request,
) -> Result<Call, Problem> {
    if let Some(other) = asked.given.iter().find(|name| !parameters.contains(&name.as_str())) {
        let message = format!("this path does not allow the parameter {other:?}");
        return Err(Problem::new(StatusCode::BAD_REQUEST, message));
    }
    let version = version(request.headers())?;
    let last_event = request.headers().get("last-event-id").and_then(|value| value.to_str().ok());
    let last_event = last_event.filter(|id| !id.is_empty()).map(str::to_owned);
    let documents = match verb {
        verb if verb.has_body() => read(whole(request).await?).await?,
        Verb::Delete if !request.body().is_end_stream() => {
            let message = "a DELETE has no body: name the version in If-Match";
            return Err(Problem::new(StatusCode::BAD_REQUEST, message));
        }
        _ => Vec::new(),
    };
    Ok(Call { last_event, version, ..Call::new(seat, asked, path, documents)? })
}

/// The resourceVersion of `If-Match`, with or without quotation marks.
fn version(headers: &HeaderMap) -> Result<Option<String>, Problem> {
    let mut all = headers.get_all(header::IF_MATCH).iter();
    let Some(first) = all.next() else { return Ok(None) };
    let version = first.to_str().ok().filter(|_| all.next().is_none()).map(|text| text.trim_matches('"'));
    match version.filter(|text| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())) {
        Some(version) => Ok(Some(version.to_owned())),
        None => Err(Problem::new(StatusCode::BAD_REQUEST, "If-Match: write the resourceVersion")),
    }
}

/// Parses the manifests of a body on a blocking thread, since a large body takes seconds. Error messages do
/// not quote the body.
pub(crate) async fn read(body: impl AsRef<[u8]> + Send + 'static) -> Result<Vec<Document>, Problem> {
    match spawn_blocking(move || parse(body.as_ref())).await.map_err(JoinError::try_into_panic) {
        Ok(parsed) => parsed,
        Err(Ok(panic)) => resume_unwind(panic),
        Err(Err(_)) => Err(Problem::new(StatusCode::SERVICE_UNAVAILABLE, "this console ends")),
    }
}

fn parse(body: &[u8]) -> Result<Vec<Document>, Problem> {
    let wrong = |message: String| Problem::new(StatusCode::BAD_REQUEST, message);
    let too_many = || {
        let message = format!("the body has more than {OBJECTS} objects");
        Problem::new(StatusCode::PAYLOAD_TOO_LARGE, message)
    };
    let text = std::str::from_utf8(body).map_err(|_| wrong("the body is not UTF-8".to_owned()))?;
    if text.lines().filter(|line| line.starts_with("---")).nth(OBJECTS).is_some() {
        return Err(too_many());
    }
    let documents = files::parse("body", text).map_err(|error| wrong(error.to_string()))?;
    if documents.is_empty() {
        return Err(wrong("there is no object in the body".to_owned()));
    }
    if documents.len() > OBJECTS {
        return Err(too_many());
    }
    Ok(documents)
}

fn respond<T: Serialize>(form: Form, body: &T) -> Response {
    match form {
        Form::Document(kind) => json(output::json(kind, body)),
        Form::List | Form::Template | Form::Deleted | Form::Events => {
            json(serde_json::to_string(body).unwrap_or_default())
        }
    }
}

/// A response with status 200 and this JSON text.
pub(super) fn json(text: String) -> Response {
    let mut response = Response::new(text.into());
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}
