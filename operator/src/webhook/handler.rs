//! The handler of one request, with its limits, its deadline and its panics.

use std::{panic::AssertUnwindSafe, sync::Arc, time::Duration};

use axum::{body::Body, extract::Request, response::Response};
use futures::FutureExt as _;
use http::{HeaderValue, StatusCode, header};
use jiff::Timestamp;
use prometheus_client::metrics::gauge::Gauge;
use tokio::time::Instant;

use super::{
    AdmitState, Metrics, PathLabels, ReviewLabels,
    body::{Received, received},
    fault::HandleError,
    judge::{Decided, decided, has_policies, undecoded},
    shedding::Permit,
};
use crate::{
    access::{AskError, review},
    admit::{
        decide::{Decision, Denial, Purpose, UNJUDGED, Verdict},
        decode::check_content_type,
        respond::respond,
    },
    api::Span,
};

/// The API server's default timeout.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(10);
/// Counts a request as in flight, even if its caller disconnects before the answer.
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
    let patience = patience(request.uri().query());
    let is_policed = has_policies(&purpose);
    // A request may wait for memory during the first half of its time; the second half is for judging.
    let room_until = start + patience / 2;
    let work = AssertUnwindSafe(answer(&state, purpose, request, room_until, &mut seen)).catch_unwind();
    let result = match tokio::time::timeout_at(start + patience, work).await {
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
    room_until: Instant,
    seen: &mut Counted,
) -> Result<Response, HandleError> {
    let (parts, body) = request.into_parts();
    check_content_type(parts.headers.get(header::CONTENT_TYPE))?;
    let length =
        parts.headers.get(header::CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse::<u64>().ok());
    let place = state.shedding.place().ok_or(HandleError::Shed)?;
    let Received { bytes, room, unread } = received(&state.shedding, body, length, room_until).await?;
    let permit = Arc::new(Permit { _place: place, _room: room });
    let Decided { uid, operation, kind, decision } = match unread {
        None => decided(state, purpose, bytes, &permit).await?,
        Some(why) => undecoded(state, &purpose, &bytes, why)?,
    };
    (seen.operation, seen.kind) = (operation, kind);
    let verdict = match decision? {
        Decision::Now(verdict) if verdict.denial == Some(Denial::Canary) => told(verdict, &state.metrics),
        Decision::Now(verdict) => verdict,
        Decision::Ask(inquiry) => {
            let namespace = inquiry.of.namespace.clone();
            let metered = state.shedding.questions.of(&namespace, &*state.authorizer);
            match review::settle(&metered, *inquiry).await {
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

/// Adds to the answer to a canary the time at which policies last gave no verdict, so that the reconciler
/// checks existing objects.
fn told(mut verdict: Verdict, metrics: &Metrics) -> Verdict {
    let unjudged = metrics.last_unjudged.get();
    if unjudged > 0 {
        verdict.message += &format!("{UNJUDGED}{unjudged}");
    }
    verdict
}

/// Refuses a write with a verdict, not with an error: `failurePolicy: Ignore` would let the write pass. The
/// user can try again.
fn too_much_asked(namespace: &str) -> Verdict {
    let message = format!(
        "copyrator: too many requests for access reviews about namespace {namespace}: try again in a moment"
    );
    Verdict::refuse(Denial::TooManyRequests, &message)
}

/// Returns how long the caller waits, minus the time for the answer's way back.
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
