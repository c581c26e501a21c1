//! Handles one request: its limits, its deadline, its panics.

use std::{panic::AssertUnwindSafe, sync::Arc, time::Duration};

use axum::{
    body::{Body, Bytes},
    extract::Request,
    response::Response,
};
use futures::FutureExt as _;
use http::{HeaderValue, StatusCode, header};
use http_body_util::BodyExt as _;
use jiff::Timestamp;
use prometheus_client::metrics::gauge::Gauge;
use tokio::time::Instant;

use super::{
    AdmitState, Metrics, PathLabels, ReviewLabels,
    fault::{BODY_WITHIN, HandleError},
    inquiry,
    judge::{Decided, decided, undecoded},
};
use crate::{
    access::AskError,
    admit::{
        decide::{Decision, Denial, Purpose, UNJUDGED, Unread, Verdict},
        decode::{BODY_LIMIT, DecodeError, check_content_type},
        respond::respond,
    },
    api::Span,
};

/// The API server's default timeout.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(10);
/// Counts a request as in flight, also if its caller hangs up before the answer.
struct InFlight(Gauge);

impl InFlight {
    fn begin(gauge: &Gauge) -> Self {
        gauge.inc();
        Self(gauge.clone())
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.0.dec();
    }
}

/// The metric labels of a request.
struct Counted {
    operation: &'static str,
    kind: &'static str,
    verdict: &'static str,
}

pub(super) async fn handle(
    state: Arc<AdmitState>,
    path: &'static str,
    purpose: Purpose,
    request: Request,
) -> Response {
    let start = Instant::now();
    let mut seen = Counted { operation: "none", kind: "other", verdict: "fault" };
    let _under_way = InFlight::begin(&state.metrics.in_flight);
    let deadline = start + patience(request.uri().query());
    let is_policed = has_policies(&purpose);
    let work = AssertUnwindSafe(answer(&state, purpose, request, &mut seen)).catch_unwind();
    let result = match tokio::time::timeout_at(deadline, work).await {
        Ok(Ok(result)) => result,
        Ok(Err(_)) => Err(HandleError::Panic),
        Err(_) => Err(HandleError::Deadline),
    };
    let response = result.unwrap_or_else(|error| {
        let (status, verdict) = error.answer();
        seen.verdict = verdict;
        if is_policed {
            state.metrics.last_unjudged.set(Timestamp::now().as_second());
        }
        match error {
            HandleError::Shed => drop(state.metrics.shed.inc()),
            HandleError::Panic => drop(state.metrics.panics.inc()),
            _ => {}
        }
        if status.is_server_error() {
            tracing::warn!(path, status = status.as_u16(), %error, "no verdict");
        }
        plain(status, &error.to_string())
    });
    let Counted { operation, kind, verdict } = seen;
    state.metrics.reviews.get_or_create(&ReviewLabels { path, operation, kind, verdict }).inc();
    state.metrics.duration.get_or_create(&PathLabels { path }).observe(start.elapsed().as_secs_f64());
    response
}

async fn answer(
    state: &Arc<AdmitState>,
    purpose: Purpose,
    request: Request,
    seen: &mut Counted,
) -> Result<Response, HandleError> {
    let (parts, body) = request.into_parts();
    check_content_type(parts.headers.get(header::CONTENT_TYPE))?;
    let length =
        parts.headers.get(header::CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse::<u64>().ok());
    let place = Arc::new(state.shedding.take(length).ok_or(HandleError::Shed)?);
    // Where there is no room for the body, its beginning tells policies enough to refuse the write.
    let why_unread = match length {
        Some(length) if length > BODY_LIMIT as u64 => Unread::TooLarge,
        _ if place.room < BODY_LIMIT => Unread::NoRoom,
        _ => Unread::TooLarge,
    };
    if place.room < BODY_LIMIT && !has_policies(&purpose) {
        return Err(not_read(why_unread));
    }
    let received = tokio::time::timeout(BODY_WITHIN, received(body, length, place.room));
    let Received { bytes, is_whole } = received.await.map_err(|_| HandleError::SlowBody)??;
    let Decided { uid, operation, kind, decision } = match is_whole {
        true => decided(state, purpose, bytes, &place).await?,
        false if has_policies(&purpose) => undecoded(state, &bytes, why_unread)?,
        false => return Err(not_read(why_unread)),
    };
    (seen.operation, seen.kind) = (operation, kind);
    let verdict = match decision? {
        Decision::Now(verdict) if verdict.denial == Some(Denial::Canary) => told(verdict, &state.metrics),
        Decision::Now(verdict) => verdict,
        Decision::Ask(inquiry) => {
            let namespace = inquiry.of.namespace.clone();
            let metered = state.shedding.questions.of(&namespace, &*state.authorizer);
            match inquiry::settle(&metered, *inquiry).await {
                Err(AskError::OverBudget) => too_much_asked(&namespace),
                verdict => verdict?,
            }
        }
    };
    seen.verdict = summary(&verdict);
    let mut response = Response::new(Body::from(respond(&uid, &verdict)));
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    Ok(response)
}

/// The answer to a canary, with the last time at which policies gave no verdict: the reconciler then judges what is
/// there.
fn told(mut verdict: Verdict, metrics: &Metrics) -> Verdict {
    let unjudged = metrics.last_unjudged.get();
    if unjudged > 0 {
        verdict.message += &format!("{UNJUDGED}{unjudged}");
    }
    verdict
}

/// The user should try again: a failure policy of Ignore must not let this write pass.
fn too_much_asked(namespace: &str) -> Verdict {
    let message = format!(
        "copyrator: more is asked about rights for namespace {namespace} than is answered at once: try again in a moment"
    );
    Verdict::refuse(Denial::TooManyRequests, &message)
}

/// A body, or its beginning.
struct Received {
    bytes: Bytes,
    is_whole: bool,
}

/// The body in one piece of memory; collecting it in pieces would need twice as much. What there is no room for
/// is read and dropped: an HTTP/1.1 client may not see an answer that comes before it has sent everything.
async fn received(mut body: Body, length: Option<u64>, room: usize) -> Result<Received, HandleError> {
    let expected = length.and_then(|length| usize::try_from(length).ok()).unwrap_or(0).min(room);
    let (mut bytes, mut is_whole) = (Vec::with_capacity(expected), true);
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|_| HandleError::Body)?;
        let data = frame.data_ref().map_or(&[][..], |data| data);
        let kept = data.len().min(room - bytes.len());
        is_whole &= kept == data.len();
        bytes.extend(data.iter().take(kept));
    }
    Ok(Received { bytes: bytes.into(), is_whole })
}

/// Whether policies judge what comes for this purpose.
fn has_policies(purpose: &Purpose) -> bool {
    matches!(purpose, Purpose::Policies | Purpose::All)
}

/// Why there is no verdict about a review that was not read whole.
fn not_read(why: Unread) -> HandleError {
    match why {
        Unread::TooLarge => DecodeError::TooLarge.into(),
        Unread::NoRoom => HandleError::Shed,
    }
}

/// How long the caller waits, less the time for the way back.
fn patience(query: Option<&str>) -> Duration {
    let asked =
        query.into_iter().flat_map(|query| query.split('&')).find_map(|pair| pair.strip_prefix("timeout="));
    let asked = asked.and_then(|text| Span::new(text).get().ok()).filter(|asked| !asked.is_zero());
    let asked = asked.unwrap_or(DEFAULT_TIMEOUT).min(Duration::from_secs(30));
    asked - (asked / 10).clamp(Duration::from_millis(50), Duration::from_millis(500)).min(asked / 2)
}

fn plain(status: StatusCode, message: &str) -> Response {
    let mut response = Response::new(Body::from(format!("copyrator: {message}\n")));
    *response.status_mut() = status;
    response
        .headers_mut()
        .insert(header::CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    response
}

fn summary(verdict: &Verdict) -> &'static str {
    match verdict {
        Verdict { denial: Some(_), .. } => "refused",
        Verdict { edits, .. } if !edits.is_empty() => "patched",
        Verdict { warnings, .. } if !warnings.is_empty() => "warned",
        _ => "allowed",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_caller_is_answered_before_it_gives_up() {
        for (query, millis) in [
            (None, 9_500),
            (Some("timeout=1s"), 900),
            (Some("a=b&timeout=5s"), 4_500),
            (Some("timeout=100ms"), 50),
            (Some("timeout=0s"), 9_500),
            (Some("timeout=x"), 9_500),
            (Some("timeout=999h"), 29_500),
        ] {
            assert_eq!(patience(query), Duration::from_millis(millis), "{query:?}");
        }
    }
}
