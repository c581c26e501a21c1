//! Retries: when a failed attempt may be repeated.

use jiff::Timestamp;

use super::{
    brake::Wait,
    state::{Failure, RestartState},
};
use crate::model::{RestartAttempt, WaitReason};

/// The state after a failed attempt for this very content, until its retry is due; `None` if the restart may
/// be tried.
pub(super) fn not_again_yet(attempt: &RestartAttempt, label: &str, now: Timestamp) -> Option<RestartState> {
    if !attempt.label.starts_with(label) || attempt.retry_at <= now {
        return None;
    }
    Some(match &attempt.failure {
        None => Wait::until(WaitReason::DisruptionBudget, attempt.retry_at).into(),
        Some(failure) => RestartState::Failed(Failure::Attempt(failure.clone())),
    })
}
