//! Attempts to restart something: their results, and when to try again.

use std::time::Duration;

use jiff::Timestamp;

use super::Again;
use crate::{
    act::restart::RestartOutcome,
    dry_run::outcome::Outcome,
    model::{AttemptFailure, RestartAttempt},
    plan::{at_after, restart::Acted},
};

/// First wait while a PodDisruptionBudget allows no eviction; doubles, up to [`BUDGET_AGAIN_AT_MOST`].
const BUDGET_AGAIN: Duration = Duration::from_secs(5);
/// Longest wait while a PodDisruptionBudget allows no eviction.
const BUDGET_AGAIN_AT_MOST: Duration = Duration::from_secs(60);
/// Wait after a refusal, and longest wait after a failure that may pass.
const REFUSED_AGAIN: Duration = Duration::from_secs(300);
/// Half of the first wait after a failure that may pass; the wait doubles with each attempt.
const FIRST_RETRY: Duration = Duration::from_secs(1);

/// Returns what to remember of an attempt to restart something, and when to look again. `tries` counts
/// earlier attempts for the same content; `wait` is when to look again after a success.
pub(super) fn became(
    outcome: &RestartOutcome,
    label: &str,
    tries: u32,
    wait: Option<Duration>,
    now: Timestamp,
) -> (Acted, Again) {
    let tries = tries + 1;
    let (failure, delay) = match outcome {
        RestartOutcome::Write(Outcome::Done) => {
            return (Acted::Done, wait.map_or(Again::OnChange, Again::After));
        }
        RestartOutcome::Write(Outcome::NamespaceGone | Outcome::NotLeading) => {
            return (Acted::Outdated, Again::OnChange);
        }
        RestartOutcome::Write(Outcome::Stale) => return (Acted::Outdated, Again::Backoff(None)),
        RestartOutcome::Budget { after } => (None, after.unwrap_or_default().max(budget_again(tries))),
        RestartOutcome::Write(Outcome::Retry { after, reason, message }) => {
            let backoff = FIRST_RETRY.saturating_mul(1 << tries.min(8)).min(REFUSED_AGAIN);
            let failure = AttemptFailure::Write(*reason, message.clone());
            (Some(failure), after.unwrap_or_default().max(backoff))
        }
        RestartOutcome::TooManyBudgets
        | RestartOutcome::Write(Outcome::Refused { .. } | Outcome::NeedsReplacing(_)) => {
            (outcome.refusal(), REFUSED_AGAIN)
        }
    };
    let retry_at = at_after(now, delay);
    let attempt = RestartAttempt { label: label.to_owned(), tries, failure, retry_at };
    (Acted::Failed(attempt), Again::After(delay))
}

fn budget_again(tries: u32) -> Duration {
    let doubled = BUDGET_AGAIN.saturating_mul(1 << tries.saturating_sub(1).min(8));
    doubled.min(BUDGET_AGAIN_AT_MOST)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_is_asked_ever_less_often_and_never_less_than_once_a_minute() {
        let waits: Vec<u64> = (1..8).map(|tries| budget_again(tries).as_secs()).collect();
        assert_eq!(waits, [5, 10, 20, 40, 60, 60, 60]);
        assert_eq!(budget_again(u32::MAX), BUDGET_AGAIN_AT_MOST);
    }
}
