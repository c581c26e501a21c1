//! Decodes the body of an HTTP request to the review in it.

use std::{borrow::Cow, collections::BTreeMap};

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::authority::Subject;

/// The largest review that is read whole. An object of 1.5 MiB, the most that etcd stores, takes 9 MiB where
/// JSON escapes each byte with six; so a stored object can always be deleted, or replaced by a smaller
/// object.
pub const BODY_LIMIT: usize = 16 << 20;
/// The number of bytes that are read first of each review; a larger review must wait for memory.
pub const HEAD_LIMIT: usize = 256 << 10;

/// The request of an AdmissionReview. The objects of the request stay undecoded until a decision needs them.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Review<'a> {
    /// The request's UID, which the answer repeats.
    #[serde(borrow)]
    pub uid: Cow<'a, str>,
    /// The kind of the object.
    #[serde(borrow)]
    pub kind: GroupVersionKind<'a>,
    /// The subresource that is written, such as `status`; absent for the object itself.
    #[serde(borrow, default)]
    pub sub_resource: Option<Text<'a>>,
    /// The object's name; empty if the API server will generate the name, or deletes a collection.
    #[serde(borrow, default)]
    pub name: Cow<'a, str>,
    /// The object's namespace; for a Namespace its own name.
    #[serde(borrow, default)]
    pub namespace: Cow<'a, str>,
    /// Create, update, delete or connect.
    pub operation: Operation,
    /// The user who sends the request.
    #[serde(default)]
    pub user_info: UserInfo,
    /// The object after the write; absent on DELETE.
    #[serde(borrow, default)]
    pub object: Option<&'a RawValue>,
    /// The object before the write; absent on CREATE.
    #[serde(borrow, default)]
    pub old_object: Option<&'a RawValue>,
    /// Whether the request is a dry run: the API server stores nothing.
    #[serde(default)]
    pub dry_run: Option<bool>,
}

/// A text that borrows from the body if possible.
#[derive(Deserialize)]
pub struct Text<'a>(#[serde(borrow)] pub Cow<'a, str>);

/// The group, version and kind of an object.
#[derive(Deserialize)]
pub struct GroupVersionKind<'a> {
    /// The API group; empty for the core.
    #[serde(borrow, default)]
    pub group: Cow<'a, str>,
    /// The API version, such as `v1`.
    #[serde(borrow, default)]
    pub version: Cow<'a, str>,
    /// The kind, such as `ConfigMap`.
    #[serde(borrow)]
    pub kind: Cow<'a, str>,
}

/// The operation that the API server asks about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
#[allow(missing_docs, reason = "the names are Kubernetes'")]
pub enum Operation {
    Create,
    Update,
    Delete,
    Connect,
}

impl Operation {
    /// The operation's name in a review, such as `CREATE`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Create => "CREATE",
            Self::Update => "UPDATE",
            Self::Delete => "DELETE",
            Self::Connect => "CONNECT",
        }
    }
}

/// The user who sends the request, as the API server authenticated them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct UserInfo {
    /// The user name, such as `system:serviceaccount:NAMESPACE:NAME`.
    pub username: String,
    /// The user's UID, if the authenticator gives one.
    pub uid: String,
    /// The groups that the user is in.
    pub groups: Vec<String>,
    /// Further attributes from the authenticator, by key.
    pub extra: BTreeMap<String, Vec<String>>,
}

impl From<&UserInfo> for Subject {
    fn from(user: &UserInfo) -> Self {
        Self {
            user: user.username.clone(),
            uid: user.uid.clone(),
            groups: user.groups.clone(),
            extra: user.extra.clone(),
        }
    }
}

impl Review<'_> {
    /// Whether the request is a dry run: the API server stores nothing.
    pub fn is_dry_run(&self) -> bool {
        self.dry_run.unwrap_or(false)
    }
}

/// The reason why the webhook cannot answer a request. The messages never quote the request's objects.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// The `Content-Type` header does not name JSON; contains its value.
    #[error("content type {0:?} is not supported: send application/json")]
    ContentType(String),
    /// The body is larger than [`BODY_LIMIT`].
    #[error("the body is larger than {BODY_LIMIT} bytes")]
    TooLarge,
    /// The body ends in the middle of the JSON document.
    #[error("the body ends too early, at line {line} column {column}")]
    Truncated {
        /// The line of the fault in the body, from 1.
        line: usize,
        /// The column of the fault in that line, from 1.
        column: usize,
    },
    /// The body is not JSON.
    #[error("the body is not JSON, at line {line} column {column}")]
    Syntax {
        /// The line of the fault in the body, from 1.
        line: usize,
        /// The column of the fault in that line, from 1.
        column: usize,
    },
    /// The body is JSON, but not a review.
    #[error(
        "the body is not an AdmissionReview: a field is missing or has the wrong type at line {line} column {column}"
    )]
    Shape {
        /// The line of the fault in the body, from 1.
        line: usize,
        /// The column of the fault in that line, from 1.
        column: usize,
    },
    /// The body is a document of another kind or version.
    #[error("{kind:?} of {version:?} is not supported: send an AdmissionReview of admission.k8s.io/v1")]
    Kind {
        /// The `apiVersion` that the body gives.
        version: String,
        /// The `kind` that the body gives.
        kind: String,
    },
    /// The review has no request.
    #[error("the AdmissionReview has no request")]
    NoRequest,
    /// The request has no UID, so an answer could not name it.
    #[error("the request has no uid")]
    NoUid,
}

impl DecodeError {
    /// The HTTP status code of the answer.
    pub fn status(&self) -> http::StatusCode {
        match self {
            Self::ContentType(_) => http::StatusCode::UNSUPPORTED_MEDIA_TYPE,
            Self::TooLarge => http::StatusCode::PAYLOAD_TOO_LARGE,
            _ => http::StatusCode::BAD_REQUEST,
        }
    }
}

/// A whole review, read in one pass.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Whole<'a> {
    #[serde(borrow)]
    api_version: Cow<'a, str>,
    #[serde(borrow)]
    kind: Cow<'a, str>,
    #[serde(borrow)]
    request: Review<'a>,
}

/// The fields that the search for a review's fault needs.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Head<'a> {
    #[serde(borrow, default)]
    api_version: Cow<'a, str>,
    #[serde(borrow, default)]
    kind: Cow<'a, str>,
    #[serde(borrow, default)]
    request: Option<&'a RawValue>,
}

/// Checks that a `Content-Type` header names JSON.
///
/// # Errors
/// The header does not name JSON.
pub fn check_content_type(header: Option<&http::HeaderValue>) -> Result<(), DecodeError> {
    let text = header.and_then(|value| value.to_str().ok()).unwrap_or("");
    let media_type = text.split(';').next().unwrap_or("").trim();
    match media_type.eq_ignore_ascii_case("application/json") {
        true => Ok(()),
        false => Err(DecodeError::ContentType(text.chars().take(100).collect())),
    }
}

/// Reads a review.
///
/// # Errors
/// The body is no `AdmissionReview` of `admission.k8s.io/v1` with a request.
pub fn decode(body: &[u8]) -> Result<Review<'_>, DecodeError> {
    match serde_json::from_slice::<Whole<'_>>(body) {
        Ok(Whole { api_version, kind, request })
            if is_review(&api_version, &kind) && !request.uid.is_empty() =>
        {
            Ok(request)
        }
        _ => explained(body),
    }
}

/// Returns a review without its objects, made from the beginning of its body. The API server writes the
/// fields that identify the write before the objects. `None` if the beginning does not reach an object.
pub fn head_of(begin: &[u8]) -> Option<Vec<u8>> {
    // Only the key of an object can match this text: inside a string, a backslash precedes each quotation
    // mark, and the value of a key of `extra` is a list.
    const OBJECT: &[u8] = br#","object":"#;
    let is_object = |rest: &[u8]| rest.strip_prefix(OBJECT).is_some_and(|rest| !rest.starts_with(b"["));
    let at = (0..begin.len()).find(|at| begin.get(*at..).is_some_and(is_object))?;
    Some([begin.get(..at)?, b"}}"].concat())
}

fn is_review(version: &str, kind: &str) -> bool {
    version == "admission.k8s.io/v1" && kind == "AdmissionReview"
}

/// Decodes the body again, from the outside in, to find the first fault.
fn explained(body: &[u8]) -> Result<Review<'_>, DecodeError> {
    let head: Head<'_> = serde_json::from_slice(body).map_err(|error| fault(&error))?;
    if !is_review(&head.api_version, &head.kind) {
        let short = |text: &str| text.chars().take(100).collect();
        return Err(DecodeError::Kind { version: short(&head.api_version), kind: short(&head.kind) });
    }
    let request = head.request.ok_or(DecodeError::NoRequest)?;
    let review: Review<'_> = serde_json::from_str(request.get()).map_err(|error| fault(&error))?;
    match review.uid.is_empty() {
        true => Err(DecodeError::NoUid),
        false => Ok(review),
    }
}

fn fault(error: &serde_json::Error) -> DecodeError {
    let (line, column) = (error.line(), error.column());
    match error.classify() {
        serde_json::error::Category::Eof => DecodeError::Truncated { line, column },
        serde_json::error::Category::Data => DecodeError::Shape { line, column },
        _ => DecodeError::Syntax { line, column },
    }
}
