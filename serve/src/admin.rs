//! Probes and metrics, on a separate plain HTTP port.

use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use prometheus_client::encoding::text;
use prometheus_client::registry::Registry;

use super::readiness::Readiness;

/// Content type of the OpenMetrics text format, version 1.0.
const OPENMETRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Whether the process makes progress. `Err` names what is stuck, and makes the kubelet restart the pod. The
/// check must never depend on the API server, or an outage of the API server would restart us too.
pub(crate) type Live = Arc<dyn Fn() -> Result<(), String> + Send + Sync>;

/// The state that the admin port serves.
#[derive(Clone)]
pub(crate) struct Admin {
    /// The conditions behind `/readyz`.
    pub readiness: Readiness,
    /// The check behind `/livez`.
    pub live: Live,
    /// The registry behind `/metrics`.
    pub metrics: Arc<Registry>,
}

/// Returns a router with `GET /livez`, `/readyz` and `/metrics`. The probes answer 200, or 503 with one
/// reason per line as plain text.
pub(crate) fn admin_router(admin: Admin) -> Router {
    Router::new()
        .route("/livez", get(livez))
        .route("/readyz", get(readyz))
        .route("/metrics", get(metrics))
        .with_state(admin)
}

async fn livez(State(admin): State<Admin>) -> Response {
    match (admin.live)() {
        Ok(()) => "live\n".into_response(),
        Err(stuck) => (StatusCode::SERVICE_UNAVAILABLE, format!("{stuck}\n")).into_response(),
    }
}

async fn readyz(State(admin): State<Admin>) -> Response {
    let status = if admin.readiness.ready() { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    (status, admin.readiness.to_string()).into_response()
}

async fn metrics(State(admin): State<Admin>) -> Response {
    let mut body = String::new();
    match text::encode(&mut body, &admin.metrics) {
        Ok(()) => ([(header::CONTENT_TYPE, OPENMETRICS)], body).into_response(),
        Err(failure) => (StatusCode::INTERNAL_SERVER_ERROR, format!("{failure}\n")).into_response(),
    }
}

#[cfg(test)]
mod tests {
    use axum::body::Body;
    use http::Request;
    use http_body_util::BodyExt;
    use tokio_util::sync::CancellationToken;
    use tower::ServiceExt;

    use super::super::metrics::ConnectionMetrics;
    use super::*;

    async fn ask(admin: &Admin, path: &str) -> (StatusCode, String, String) {
        let request = Request::get(path).body(Body::empty()).unwrap();
        let response = admin_router(admin.clone()).oneshot(request).await.unwrap();
        let kind = response.headers()[header::CONTENT_TYPE].to_str().unwrap().to_owned();
        let status = response.status();
        let body = response.into_body().collect().await.unwrap().to_bytes();
        (status, kind, String::from_utf8(body.to_vec()).unwrap())
    }

    fn admin(live: Result<(), String>) -> Admin {
        let mut registry = Registry::with_prefix("copyrator_webhook");
        ConnectionMetrics::default().register(&mut registry);
        let readiness = Readiness::new(CancellationToken::new());
        Admin { readiness, live: Arc::new(move || live.clone()), metrics: Arc::new(registry) }
    }

    #[tokio::test]
    async fn readyz_lists_what_is_missing() {
        let admin = admin(Ok(()));
        assert_eq!(ask(&admin, "/readyz").await.0, StatusCode::OK);
        let stores = admin.readiness.require("stores");
        let (status, _, body) = ask(&admin, "/readyz").await;
        assert_eq!((status, body.as_str()), (StatusCode::SERVICE_UNAVAILABLE, "stores: not yet\n"));
        stores.holds();
        assert_eq!(ask(&admin, "/readyz").await.0, StatusCode::OK);
    }

    #[tokio::test]
    async fn livez_says_what_is_stuck() {
        assert_eq!(ask(&admin(Ok(())), "/livez").await.0, StatusCode::OK);
        let (status, _, body) = ask(&admin(Err("watch of secrets".to_owned())), "/livez").await;
        assert_eq!((status, body.as_str()), (StatusCode::SERVICE_UNAVAILABLE, "watch of secrets\n"));
    }

    #[tokio::test]
    async fn metrics_are_openmetrics() {
        let (status, kind, body) = ask(&admin(Ok(())), "/metrics").await;
        assert_eq!((status, kind.as_str()), (StatusCode::OK, OPENMETRICS));
        assert!(body.contains("copyrator_webhook_connections_refused_total 0"), "{body}");
        assert!(body.ends_with("# EOF\n"), "{body}");
    }
}
