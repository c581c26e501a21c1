//! A client layer that measures by the answers how busy the API server is. The layer handles raw answers,
//! because the body of a refusal for overload is plain text, and only a header contains the pause (API
//! priority and fairness).

use std::{
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use futures::future::BoxFuture;
use http::{HeaderMap, Request, Response, StatusCode, header::RETRY_AFTER};
use http_body_util::{BodyExt, Either, Full, combinators::UnsyncBoxBody};
use hyper::body::{Body, Bytes};
use kube::error::Status;
use tower::{BoxError, Service};

use super::throttle::Throttle;

/// The streamed body of an answer.
pub(super) type Answer = UnsyncBoxBody<Bytes, BoxError>;

/// Passes requests on, and reports their answers to the throttle.
#[derive(Clone)]
pub(super) struct ObserveOverload<S> {
    inner: S,
    throttle: Arc<Throttle>,
}

impl<S> ObserveOverload<S> {
    /// Wraps the client stack `inner`.
    pub(super) fn new(inner: S, throttle: Arc<Throttle>) -> Self {
        Self { inner, throttle }
    }
}

impl<S, R, B> Service<Request<R>> for ObserveOverload<S>
where
    S: Service<Request<R>, Response = Response<B>, Error = BoxError>,
    S::Future: Send + 'static,
    B: Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    type Response = Response<Either<B, Full<Bytes>>>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Self::Response, BoxError>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<R>) -> Self::Future {
        // The end of a watch shows nothing about load.
        let is_watch = request.uri().query().is_some_and(|query| query.contains("watch=true"));
        let waiting = Waiting((!is_watch).then(|| self.throttle.clone()));
        let (throttle, answer) = (self.throttle.clone(), self.inner.call(request));
        Box::pin(async move {
            let response = answer.await?;
            waiting.end();
            hear(&throttle, response).await
        })
    }
}

/// A request in flight. A request that is dropped before its answer is treated as overload: the caller gave
/// up waiting, or the API server could not be reached.
struct Waiting(Option<Arc<Throttle>>);

impl Waiting {
    fn end(mut self) {
        self.0 = None;
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        if let Some(throttle) = &self.0 {
            throttle.busy(None);
        }
    }
}

async fn hear<B>(
    throttle: &Throttle,
    response: Response<B>,
) -> Result<Response<Either<B, Full<Bytes>>>, BoxError>
where
    B: Body<Data = Bytes>,
    B::Error: Into<BoxError>,
{
    let pause = retry_after(response.headers());
    let status = response.status();
    if status == StatusCode::TOO_MANY_REQUESTS {
        let (head, body) = response.into_parts();
        let body = body.collect().await.map_err(Into::into)?.to_bytes();
        let is_about_the_object =
            serde_json::from_slice(&body).is_ok_and(|status: Status| is_refusal(&status));
        if is_about_the_object {
            throttle.answered()
        } else {
            throttle.busy(pause)
        }
        return Ok(Response::from_parts(head, Either::Right(Full::new(body))));
    }
    let is_busy = [StatusCode::SERVICE_UNAVAILABLE, StatusCode::GATEWAY_TIMEOUT].contains(&status);
    let is_busy = is_busy || (status.is_server_error() && pause.is_some());
    if is_busy {
        throttle.busy(pause)
    } else {
        throttle.answered()
    }
    Ok(response.map(Either::Left))
}

fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    headers.get(RETRY_AFTER)?.to_str().ok()?.trim().parse().ok().map(Duration::from_secs)
}

/// Whether a "too many requests" concerns only this object: a disruption budget or another webhook refused
/// the request. Any other "too many requests" means that the API server is overloaded.
pub(crate) fn is_refusal(status: &Status) -> bool {
    let causes = status.details.as_ref().map_or(&[][..], |details| &details.causes);
    status.message.starts_with("admission webhook")
        || causes.iter().any(|cause| cause.reason == "DisruptionBudget")
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use tokio::time::Instant;
    use tower::ServiceExt as _;

    use super::*;

    /// The throttle's limit and pause (in seconds) after one answer with 16 requests in flight.
    async fn after(code: u16, retry_after: Option<u64>, body: &str) -> (usize, u64) {
        let throttle = Arc::new(Throttle::new(16));
        let body = body.to_owned();
        let answer = tower::service_fn(move |_: Request<()>| {
            let mut response = Response::builder().status(code);
            if let Some(seconds) = retry_after {
                response = response.header(RETRY_AFTER, seconds);
            }
            let response = response.body(Full::new(Bytes::from(body.clone())));
            async move { Ok::<_, BoxError>(response.unwrap()) }
        });
        let answer = ObserveOverload::new(answer, throttle.clone()).oneshot(Request::new(())).await.unwrap();
        assert_eq!(answer.status(), code);
        let pause = throttle.pause().map_or(0, |until| until.duration_since(Instant::now()).as_secs());
        (throttle.limit(), pause)
    }

    fn status(message: &str, causes: Value) -> String {
        let details = json!({"causes": causes, "retryAfterSeconds": 10});
        json!({"kind": "Status", "code": 429, "reason": "TooManyRequests", "message": message, "details": details})
            .to_string()
    }

    #[tokio::test(start_paused = true)]
    async fn only_a_busy_server_slows_everything() {
        assert_eq!(after(200, None, "{}").await, (16, 0));
        assert_eq!(after(429, Some(3), "Too many requests, please try again later.").await, (8, 3));
        assert_eq!(after(429, Some(2), &status("storage is (re)initializing", json!([]))).await, (8, 2));
        assert_eq!(after(503, None, "").await, (8, 0));
        assert_eq!(after(500, Some(1), "{}").await, (8, 1), "etcd was too slow");
        for (message, causes) in [
            ("Cannot evict pod", json!([{"reason": "DisruptionBudget"}])),
            ("admission webhook \"quota.example.com\" denied the request: later", json!([])),
        ] {
            assert_eq!(after(429, Some(10), &status(message, causes)).await, (16, 0), "{message}");
        }
        assert_eq!(after(500, None, &status("failed calling webhook", json!([]))).await, (16, 0));
        assert_eq!(after(403, None, &status("exceeded quota", json!([]))).await, (16, 0));
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_not_answered_in_time_counts_but_for_watches() {
        for (path, limit) in [("/api/v1/secrets", 8), ("/api/v1/secrets?watch=true", 16)] {
            let throttle = Arc::new(Throttle::new(16));
            let never = tower::service_fn(|_: Request<()>| async {
                std::future::pending::<Result<Response<Full<Bytes>>, BoxError>>().await
            });
            let request = Request::get(path).body(()).unwrap();
            let asked = ObserveOverload::new(never, throttle.clone()).oneshot(request);
            assert!(tokio::time::timeout(Duration::from_secs(4), asked).await.is_err());
            assert_eq!(throttle.limit(), limit, "{path}");
        }
    }
}
