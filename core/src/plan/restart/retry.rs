//! What was tried and did not succeed is tried again when its time has come.

use jiff::Timestamp;

use super::{
    brake::Wait,
    state::{Failure, RestartState},
};
use crate::model::{RestartAttempt, WaitReason};

/// How something stands whose last attempt was for this very content, until it is tried again; `None` where
/// it may be.
pub(super) fn not_again_yet(attempt: &RestartAttempt, label: &str, now: Timestamp) -> Option<RestartState> {
    if !attempt.label.starts_with(label) || attempt.retry_at <= now {
        return None;
    }
    Some(match &attempt.failure {
        None => Wait::until(WaitReason::DisruptionBudget, attempt.retry_at).into(),
        Some(failure) => RestartState::Failed(Failure::Attempt(failure.clone())),
    })
}
