//! Stands before every route: who may come in, how many at once, for how long, and with which headers they leave.

use std::{panic::AssertUnwindSafe, sync::Arc, time::Duration};

use axum::{
    Router,
    body::Bytes,
    extract::{Request, State},
    middleware::{Next, from_fn_with_state},
    response::{IntoResponse, Redirect, Response},
};
use futures::FutureExt as _;
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header, request::Parts};
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use tokio::sync::Semaphore;

use super::{
    entry::Entry,
    guard::{Guard, is_open, is_type_taken, is_write},
    problem::Problem,
};

/// The cookie of a run. A name of our own: cookies of other programs on this address come here, too.
pub(super) const COOKIE: &str = "copyrator-console";
/// The largest body: as much as the API server sends to a webhook.
const BODY: usize = 7 << 20;
/// How many requests are answered at once; one more is told to come again.
const AT_ONCE: usize = 16;
/// How long an answer may take.
const DEADLINE: Duration = Duration::from_secs(60);
/// What to say of a body of another type.
const OTHER_TYPE: &str =
    "write the body as JSON or YAML, with Content-Type: application/json or application/yaml";
/// Nothing from elsewhere, nothing inline, and in no other site's frame.
const POLICY: &str = "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; connect-src 'self'; \
                      form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

/// The door of one run.
pub(super) struct Door {
    pub(super) guard: Guard,
    pub(super) entry: Entry,
    places: Semaphore,
}

impl Door {
    pub(super) fn new(guard: Guard, entry: Entry) -> Self {
        Self { guard, entry, places: Semaphore::new(AT_ONCE) }
    }

    /// Whether the request has the cookie or the bearer token of this run. The cookie, which a browser sends by itself, lets
    /// nobody write.
    fn knows(&self, head: &Parts) -> bool {
        let headers = &head.headers;
        let bearer = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
        let bearer = bearer.and_then(|value| value.strip_prefix("Bearer "));
        bearer.is_some_and(|value| self.entry.knows_bearer(value))
            || (!is_write(&head.method) && cookies(headers).any(|value| self.entry.knows_cookie(value)))
    }

    async fn answer(&self, request: Request, next: Next) -> Response {
        let (head, body) = request.into_parts();
        if let Err(refused) = self.guard.check(&head) {
            return Problem::new(StatusCode::FORBIDDEN, refused.to_string()).into_response();
        }
        let path = head.uri.path();
        if !is_open(path) && !self.knows(&head) {
            return match head.method == Method::GET && !path.starts_with("/api/") {
                true => Redirect::to("/login").into_response(),
                false => {
                    let message = match is_write(&head.method) {
                        true => {
                            "to write, send Authorization: Bearer with the token that this run has printed"
                        }
                        false => {
                            "log in, or send Authorization: Bearer with the token that this run has printed"
                        }
                    };
                    Problem::new(StatusCode::UNAUTHORIZED, message).into_response()
                }
            };
        }
        let Ok(_place) = self.places.try_acquire() else {
            let message = format!("{AT_ONCE} requests are being answered: try again in a moment");
            return Problem::new(StatusCode::TOO_MANY_REQUESTS, message).into_response();
        };
        let answered = AssertUnwindSafe(next.run(Request::from_parts(head, body))).catch_unwind();
        match tokio::time::timeout(DEADLINE, answered).await {
            Ok(Ok(response)) => response,
            Ok(Err(_)) => {
                let message = "a fault of the console: it is told where copyrator console runs";
                Problem::new(StatusCode::INTERNAL_SERVER_ERROR, message).into_response()
            }
            Err(_) => {
                let message = format!("the cluster did not answer within {} s", DEADLINE.as_secs());
                Problem::new(StatusCode::GATEWAY_TIMEOUT, message).into_response()
            }
        }
    }
}

/// The routes behind this door.
pub(super) fn behind(door: Arc<Door>, routes: Router) -> Router {
    let absent = async || {
        Problem::new(StatusCode::NOT_FOUND, "there is no such path; GET /api/v1/openapi.json lists them")
    };
    let not_so = async || Problem::new(StatusCode::METHOD_NOT_ALLOWED, "this path does not take this method");
    let routes = routes.fallback(absent).method_not_allowed_fallback(not_so);
    routes.layer(from_fn_with_state(
        door,
        async |State(door): State<Arc<Door>>, request: Request, next: Next| {
            let mut response = door.answer(request, next).await;
            harden(response.headers_mut());
            response
        },
    ))
}

/// The whole body.
///
/// # Errors
/// It is of another type or larger than this console takes, or the client broke off.
pub(super) async fn whole(request: Request) -> Result<Bytes, Problem> {
    if !is_type_taken(request.headers(), request.uri().path()) {
        return Err(Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, OTHER_TYPE));
    }
    match Limited::new(request.into_body(), BODY).collect().await {
        Ok(read) => Ok(read.to_bytes()),
        Err(error) if error.is::<LengthLimitError>() => {
            let message = format!("the body has more than {} MiB", BODY >> 20);
            Err(Problem::new(StatusCode::PAYLOAD_TOO_LARGE, message))
        }
        Err(_) => Err(Problem::new(StatusCode::BAD_REQUEST, "the body broke off")),
    }
}

fn cookies(headers: &HeaderMap) -> impl Iterator<Item = &str> {
    let all = headers.get_all(header::COOKIE).into_iter().filter_map(|value| value.to_str().ok());
    let each = all.flat_map(|value| value.split(';')).filter_map(|one| one.trim().split_once('='));
    each.filter(|(name, _)| *name == COOKIE).map(|(_, value)| value)
}

fn harden(headers: &mut HeaderMap) {
    for (name, value) in [
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::CACHE_CONTROL, "no-store"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
        (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
}
