//! Middleware before every route: it authenticates requests, limits their number and duration, and sets the
//! headers of answers.

use std::{sync::Arc, time::Duration};

use axum::{
    Router,
    body::{Body, Bytes, HttpBody as _},
    extract::{Request, State},
    middleware::{Next, from_fn_with_state, map_response},
    response::{IntoResponse, Redirect, Response},
    routing::get,
};
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::{
    callers::Callers,
    guard::{Guard, is_open, is_type_taken},
    problem::Problem,
    seat::{AT_ONCE, Seat},
    site::Site,
    stay::Stay,
};

/// The largest body: as much as the API server sends to a webhook.
const BODY: usize = 7 << 20;
/// The maximum number of concurrent requests, over all callers.
const ALL_AT_ONCE: usize = 32;
/// The size of a small body. Only one larger body, or body of unknown size, is handled at a time; further
/// large bodies get 429. In memory, a body needs many times its bytes.
const SMALL: u64 = 256 << 10;
/// How long the client may take to send a body.
const SENT_WITHIN: Duration = Duration::from_secs(15);
/// How long an answer may take.
const DEADLINE: Duration = Duration::from_secs(60);
/// The deadline on paths that need no session, such as login. Requests to these paths need no permits, since
/// they are small.
const STRANGERS_DEADLINE: Duration = Duration::from_secs(15);
/// The message for a body of a wrong type.
const OTHER_TYPE: &str =
    "write the body as JSON or YAML, with Content-Type: application/json or application/yaml";
/// Content Security Policy: no foreign sources, no inline code, no framing.
const POLICY: &str = "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; connect-src 'self'; \
                      form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

/// The door of one console.
pub(super) struct Door {
    guard: Guard,
    pub(super) site: Site,
    pub(super) callers: Callers,
    places: Arc<Semaphore>,
    /// The permit for one body that is not small.
    large: Arc<Semaphore>,
}

impl Door {
    pub(super) fn new(guard: Guard, site: Site, callers: Callers) -> Self {
        let (places, large) = (Arc::new(Semaphore::new(ALL_AT_ONCE)), Arc::new(Semaphore::new(1)));
        Self { guard, site, callers, places, large }
    }

    /// Takes the permits that a request of this caller needs.
    ///
    /// # Errors
    /// A permit is not available.
    fn places(&self, seat: &Seat, body: &Body) -> Result<Vec<OwnedSemaphorePermit>, Problem> {
        let busy = |what: String| {
            Problem::new(StatusCode::TOO_MANY_REQUESTS, format!("{what}: try again in a moment"))
        };
        let mut taken = Vec::new();
        for (all, most) in [(&seat.places, AT_ONCE), (&self.places, ALL_AT_ONCE)] {
            let place = all.clone().try_acquire_owned();
            taken.push(place.map_err(|_| busy(format!("the console is already answering {most} requests")))?);
        }
        if body.size_hint().upper().is_none_or(|most| most > SMALL) {
            let place = self.large.clone().try_acquire_owned();
            let message =
                || format!("the console is already checking another body of more than {} KiB", SMALL >> 10);
            taken.push(place.map_err(|_| busy(message()))?);
        }
        Ok(taken)
    }

    async fn answer(&self, request: Request, next: Next) -> Response {
        let (mut head, body) = request.into_parts();
        if let Err(refused) = self.guard.check(&head) {
            return Problem::new(StatusCode::FORBIDDEN, refused.to_string()).into_response();
        }
        let path = head.uri.path();
        let caller = match is_open(path) {
            true => None,
            false => match self.callers.seat(&head).await {
                Ok(seat) => Some(seat),
                Err(problem) if problem.code() == StatusCode::UNAUTHORIZED && !path.starts_with("/api/") => {
                    return match head.method == Method::GET {
                        true => Redirect::to(&self.site.base.at("/login")).into_response(),
                        false => problem.into_response(),
                    };
                }
                Err(problem) => return problem.into_response(),
            },
        };
        let places = caller.as_ref().map(|seat| self.places(seat, &body)).transpose();
        let deadline = if caller.is_some() { DEADLINE } else { STRANGERS_DEADLINE };
        let stay = match places {
            Ok(places) => Stay::new(places.unwrap_or_default(), deadline),
            Err(problem) => return problem.into_response(),
        };
        // A page that streams its view holds the stay until the view is sent.
        head.extensions.insert(stay.clone());
        if let Some(seat) = &caller {
            head.extensions.insert(seat.clone());
        }
        let answered = stay.within(next.run(Request::from_parts(head, body))).await;
        answered.unwrap_or_else(IntoResponse::into_response)
    }
}

/// The routes behind this door, below its base path.
pub(super) fn behind(door: Arc<Door>, routes: Router) -> Router {
    let absent = async || {
        Problem::new(StatusCode::NOT_FOUND, "path not found; GET /api/v1/openapi.json lists all paths")
    };
    let not_so =
        async || Problem::new(StatusCode::METHOD_NOT_ALLOWED, "this path does not allow this method");
    let base = door.site.base.text().to_owned();
    let routes = routes.fallback(absent).method_not_allowed_fallback(not_so);
    let routes = routes.layer(from_fn_with_state(
        door,
        async |State(door): State<Arc<Door>>, request: Request, next: Next| door.answer(request, next).await,
    ));
    below(&base, routes).layer(map_response(async |mut response: Response| {
        harden(response.headers_mut());
        // A proxy such as nginx must not buffer a stream.
        if response.body().size_hint().exact().is_none() {
            response.headers_mut().insert("x-accel-buffering", HeaderValue::from_static("no"));
        }
        response
    }))
}

/// Nests the routes below a path. Other paths get a 404 that names the path.
fn below(base: &str, routes: Router) -> Router {
    if base.is_empty() {
        return routes;
    }
    let message = format!("the paths of this console begin with {base} (--base-path)");
    let beside = async move || Problem::new(StatusCode::NOT_FOUND, message);
    let home = base.to_owned();
    let to_home = get(async move || Redirect::permanent(&home));
    Router::new().nest(base, routes).route(&format!("{base}/"), to_home).fallback(beside)
}

/// Reads the whole body.
///
/// # Errors
/// The body has a wrong type, is too large or too slow, or the client broke off.
pub(super) async fn whole(request: Request) -> Result<Bytes, Problem> {
    at_most(BODY, request).await
}

/// Reads a body of at most `most` bytes.
///
/// # Errors
/// As for [`whole`].
pub(super) async fn at_most(most: usize, request: Request) -> Result<Bytes, Problem> {
    if !is_type_taken(request.headers(), request.uri().path()) {
        return Err(Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, OTHER_TYPE));
    }
    let read = Limited::new(request.into_body(), most).collect();
    let Ok(read) = tokio::time::timeout(SENT_WITHIN, read).await else {
        let message = format!("the body did not arrive within {} s", SENT_WITHIN.as_secs());
        return Err(Problem::new(StatusCode::REQUEST_TIMEOUT, message));
    };
    match read {
        Ok(read) => Ok(read.to_bytes()),
        Err(error) if error.is::<LengthLimitError>() => {
            let message = format!("the body has more than {} KiB", most >> 10);
            Err(Problem::new(StatusCode::PAYLOAD_TOO_LARGE, message))
        }
        Err(_) => Err(Problem::new(StatusCode::BAD_REQUEST, "the body is incomplete")),
    }
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
