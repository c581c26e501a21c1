//! Errors for requests without a verdict, and their HTTP status.

use std::time::Duration;

use http::StatusCode;

use crate::{
    access::AskError,
    admit::{
        decide::{DecideError, Unread},
        decode::DecodeError,
    },
};

/// Longest time for receiving a body. The API server has the whole body before it calls the webhook; a slow
/// body would keep a permit.
pub(super) const BODY_WITHIN: Duration = Duration::from_secs(5);

/// Why a request has no verdict.
#[derive(Debug, thiserror::Error)]
pub(super) enum HandleError {
    #[error(transparent)]
    Decode(#[from] DecodeError),
    #[error("cannot read the body")]
    Body,
    #[error("the body did not arrive within {} s", BODY_WITHIN.as_secs())]
    SlowBody,
    #[error(transparent)]
    Decide(#[from] DecideError),
    #[error(transparent)]
    Ask(#[from] AskError),
    #[error("the caller's deadline has passed")]
    Deadline,
    #[error("too many requests in progress")]
    Shed,
    #[error("internal error: see the log and the metric copyrator_admission_panics")]
    Panic,
}

/// A review that was not read completely has no verdict.
impl From<Unread> for HandleError {
    fn from(why: Unread) -> Self {
        match why {
            Unread::TooLarge => DecodeError::TooLarge.into(),
            Unread::NoRoom | Unread::NoTurn => Self::Shed,
        }
    }
}

impl HandleError {
    /// Returns the status of the response, and the verdict label for the metrics.
    pub(super) fn answer(&self) -> (StatusCode, &'static str) {
        match self {
            Self::Decode(error) => (error.status(), "malformed"),
            Self::Body => (StatusCode::BAD_REQUEST, "malformed"),
            Self::Decide(DecideError::NotReady | DecideError::UnknownNamespace) => {
                (StatusCode::SERVICE_UNAVAILABLE, "fault")
            }
            Self::Decide(DecideError::Unreadable { .. } | DecideError::Missing(_)) => {
                (StatusCode::BAD_REQUEST, "malformed")
            }
            Self::Ask(_) => (StatusCode::BAD_GATEWAY, "fault"),
            Self::SlowBody => (StatusCode::REQUEST_TIMEOUT, "deadline"),
            Self::Deadline => (StatusCode::GATEWAY_TIMEOUT, "deadline"),
            Self::Shed => (StatusCode::TOO_MANY_REQUESTS, "shed"),
            Self::Panic => (StatusCode::INTERNAL_SERVER_ERROR, "panic"),
        }
    }
}
