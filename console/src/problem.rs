//! A problem as a Kubernetes `Status`, the form that every client of an API server knows.

use axum::{
    body::Body,
    response::{IntoResponse, Response},
};
use http::{HeaderValue, StatusCode, header};
use kube::core::Status;
use serde_json::{Value, json};

use copyrator_cli::terminal::with_distinct_causes;

/// A failed request: the API server's own `Status`, or a `Status` of ours.
#[derive(Debug)]
pub(super) struct Problem {
    code: StatusCode,
    body: Value,
}

impl Problem {
    /// A problem with this status code and message.
    pub(super) fn new(code: StatusCode, message: impl Into<String>) -> Self {
        let reason = match code {
            StatusCode::BAD_REQUEST => "BadRequest",
            StatusCode::UNAUTHORIZED => "Unauthorized",
            StatusCode::FORBIDDEN => "Forbidden",
            StatusCode::NOT_FOUND => "NotFound",
            StatusCode::METHOD_NOT_ALLOWED => "MethodNotAllowed",
            StatusCode::PAYLOAD_TOO_LARGE => "RequestEntityTooLarge",
            StatusCode::UNSUPPORTED_MEDIA_TYPE => "UnsupportedMediaType",
            StatusCode::TOO_MANY_REQUESTS => "TooManyRequests",
            StatusCode::REQUEST_TIMEOUT | StatusCode::GATEWAY_TIMEOUT => "Timeout",
            StatusCode::BAD_GATEWAY | StatusCode::SERVICE_UNAVAILABLE => "ServiceUnavailable",
            _ => "InternalError",
        };
        let body = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": message.into(), "reason": reason, "code": code.as_u16(),
        });
        Self { code, body }
    }

    /// The API server's answer, unchanged.
    pub(super) fn answered(status: &Status) -> Self {
        let code = StatusCode::from_u16(status.code).ok().filter(|code| code.as_u16() >= 400);
        let mut body = serde_json::to_value(status).unwrap_or_default();
        body["kind"] = "Status".into();
        body["apiVersion"] = "v1".into();
        Self { code: code.unwrap_or(StatusCode::BAD_GATEWAY), body }
    }

    /// A failed request to the API server: the API server's answer unchanged, or why no answer came.
    pub(super) fn asking(error: kube::Error) -> Self {
        match error {
            kube::Error::Api(status) => Self::answered(&status),
            error => Self::of(&error),
        }
    }

    /// A refusal of the API server, unchanged if its body is a `Status`.
    pub(super) fn said(code: StatusCode, body: Value) -> Self {
        match body["kind"] == "Status" {
            true => Self { code, body },
            false => {
                Self::new(StatusCode::BAD_GATEWAY, format!("the API server answered with status {code}"))
            }
        }
    }

    /// An error with its causes. If a cause is the API server's answer, the status code of the answer is
    /// used.
    pub(super) fn of(error: &(dyn std::error::Error + 'static)) -> Self {
        let mut cause = Some(error);
        let mut code = StatusCode::BAD_GATEWAY;
        while let Some(inner) = cause {
            // If an error boxes its source, the cause is the box.
            let boxed = || inner.downcast_ref::<Box<kube::Error>>().map(|error| &**error);
            if let Some(kube::Error::Api(status)) = inner.downcast_ref::<kube::Error>().or_else(boxed) {
                code = StatusCode::from_u16(status.code).unwrap_or(code);
            }
            cause = inner.source();
        }
        Self::new(code, with_distinct_causes(error))
    }

    /// The HTTP status of the answer.
    pub(super) fn code(&self) -> StatusCode {
        self.code
    }

    /// The `Status`, as JSON.
    pub(super) fn text(&self) -> String {
        self.body.to_string()
    }

    /// The `message` of the `Status`.
    pub(super) fn message(&self) -> &str {
        self.body["message"].as_str().unwrap_or_default()
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let mut response = Response::new(Body::from(self.text()));
        *response.status_mut() = self.code;
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        let later = match self.code {
            StatusCode::TOO_MANY_REQUESTS => Some("1"),
            StatusCode::SERVICE_UNAVAILABLE => Some("5"),
            _ => None,
        };
        later.map(|seconds| headers.insert(header::RETRY_AFTER, HeaderValue::from_static(seconds)));
        if self.code == StatusCode::UNAUTHORIZED {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_api_servers_refusal_comes_through_as_it_is() {
        let said = json!({ "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "reason": "Forbidden", "code": 403,
            "message": "nodes is forbidden: User \"alice\" cannot list resource \"nodes\"", "details": { "kind": "nodes" } });
        let status: Status = serde_json::from_value(said.clone()).unwrap();
        let problem = Problem::answered(&status);
        assert_eq!((problem.code(), &problem.body["message"]), (StatusCode::FORBIDDEN, &said["message"]));
        assert_eq!(problem.body["details"]["kind"], "nodes");
        let outer = kube::Error::Api(status.boxed());
        assert_eq!(Problem::of(&outer).code(), StatusCode::FORBIDDEN);
    }
}
