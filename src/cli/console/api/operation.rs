//! One operation of the API: its route, and what the OpenAPI document says of it.

use std::{collections::BTreeMap, sync::Arc};

use axum::{
    extract::{Path, Request, State},
    response::{IntoResponse as _, Response},
    routing::{MethodFilter, MethodRouter, on},
};
use http::{HeaderValue, StatusCode, header};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::Serialize;

use crate::cli::{
    arguments::{
        manifests::{self, Document},
        namespaces, output,
    },
    console::{asked::Asked, door::whole, problem::Problem, seat::Seat},
};

/// Where the API begins.
pub(super) const ROOT: &str = "/api/v1";

/// The method of an operation. Neither writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verb {
    Get,
    /// What takes manifests in its body.
    Post,
}

impl Verb {
    /// The word in the OpenAPI document.
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::Post => "post",
        }
    }
}

/// The form of an answer.
#[derive(Clone, Copy, Debug)]
pub(in crate::cli::console) enum Form {
    /// As commands print it with `-o json`: with our apiVersion and this kind.
    Document(&'static str),
    /// A List of Kubernetes' own objects.
    List,
}

/// A request, as operations take it.
pub(in crate::cli::console) struct Call {
    pub seat: Arc<Seat>,
    pub asked: Asked,
    /// The variables of the path.
    pub path: BTreeMap<String, String>,
    /// The manifests of the body.
    pub documents: Vec<Document>,
}

impl Call {
    /// A request whose path names what can be a namespace and an object: both become part of requests to the API server.
    ///
    /// # Errors
    /// The path names something else.
    pub(in crate::cli::console) fn new(
        seat: Arc<Seat>,
        asked: Asked,
        path: BTreeMap<String, String>,
        documents: Vec<Document>,
    ) -> Result<Self, Problem> {
        let wrong = |message: String| Problem::new(StatusCode::BAD_REQUEST, message);
        if let Some(namespace) = path.get("namespace") {
            let named = namespaces(vec![namespace.clone()]).ok().filter(|named| !named.is_empty());
            named.ok_or_else(|| wrong(format!("{namespace:?} is not the name of a namespace")))?;
        }
        let is_name = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-.:".contains(&byte);
        match path.get("name").filter(|name| !name.bytes().all(is_name)) {
            Some(name) => Err(wrong(format!("{name:?} is not the name of an object"))),
            None => Ok(Self { seat, asked, path, documents }),
        }
    }

    /// A variable of the path; empty where it has none of that name.
    pub(in crate::cli::console) fn variable(&self, name: &str) -> &str {
        self.path.get(name).map_or("", String::as_str)
    }
}

/// One operation.
pub(super) struct Operation {
    pub(super) verb: Verb,
    /// Below [`ROOT`].
    pub(super) path: &'static str,
    pub(super) form: Form,
    pub(super) summary: &'static str,
    /// The parameters of the query that it looks at.
    pub(super) parameters: &'static [&'static str],
    /// The schema of its answer.
    pub(super) schema: fn(&mut SchemaGenerator) -> Schema,
    pub(super) route: MethodRouter<Arc<Seat>>,
}

impl Operation {
    pub(super) fn new<T, F>(
        (verb, path): (Verb, &'static str),
        form: Form,
        summary: &'static str,
        parameters: &'static [&'static str],
        answer: impl Fn(Call) -> F + Clone + Send + Sync + 'static,
    ) -> Self
    where
        T: Serialize + JsonSchema,
        F: Future<Output = Result<T, Problem>> + Send + 'static,
    {
        let handler = async move |State(seat): State<Arc<Seat>>,
                                  Path(path): Path<BTreeMap<String, String>>,
                                  asked: Asked,
                                  request: Request| {
            let answered =
                async { answer(call(seat, path, (verb, asked, parameters), request).await?).await };
            match answered.await {
                Ok(body) => respond(form, &body),
                Err(problem) => problem.into_response(),
            }
        };
        let filter = if verb == Verb::Post { MethodFilter::POST } else { MethodFilter::GET };
        let schema = |generator: &mut SchemaGenerator| generator.subschema_for::<T>();
        Self { verb, path, form, summary, parameters, schema, route: on(filter, handler) }
    }
}

async fn call(
    seat: Arc<Seat>,
    path: BTreeMap<String, String>,
    (verb, asked, parameters): (Verb, Asked, &[&str]),
    request: Request,
) -> Result<Call, Problem> {
    if let Some(other) = asked.given.iter().find(|name| !parameters.contains(&name.as_str())) {
        let message = format!("this path does not take the parameter {other:?}");
        return Err(Problem::new(StatusCode::BAD_REQUEST, message));
    }
    let documents = if verb == Verb::Post { read(&whole(request).await?)? } else { Vec::new() };
    Call::new(seat, asked, path, documents)
}

/// The manifests of a body. What is said of a wrong one quotes nothing.
pub(in crate::cli::console) fn read(body: &[u8]) -> Result<Vec<Document>, Problem> {
    let wrong = |message: String| Problem::new(StatusCode::BAD_REQUEST, message);
    let text = std::str::from_utf8(body).map_err(|_| wrong("the body is not UTF-8".to_owned()))?;
    let documents = manifests::parse("body", text).map_err(|error| wrong(error.to_string()))?;
    if documents.is_empty() {
        return Err(wrong("there is no object in the body".to_owned()));
    }
    Ok(documents)
}

fn respond<T: Serialize>(form: Form, body: &T) -> Response {
    match form {
        Form::Document(kind) => json(output::json(kind, body)),
        Form::List => json(serde_json::to_string(body).unwrap_or_default()),
    }
}

/// A JSON answer.
pub(super) fn json(text: String) -> Response {
    let mut response = Response::new(text.into());
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}
