//! What became of a restart, kept for the next plan and for the monitor's status.

use std::time::Duration;

use super::{Again, Reconciler, now};
use crate::{
    act::{outcome::Outcome, restart::RestartOutcome},
    model::{AttemptFailure, RestartAttempt},
    names::{NamespacedName, WorkloadKey},
    plan::at_after,
};

/// When to ask again where a PodDisruptionBudget lets no pod go; doubles, up to [`BUDGET_AGAIN_AT_MOST`].
const BUDGET_AGAIN: Duration = Duration::from_secs(5);
/// A budget that allows one again is noticed after so long at most.
const BUDGET_AGAIN_AT_MOST: Duration = Duration::from_secs(60);
/// When to try again what was refused for good reason.
const REFUSED_AGAIN: Duration = Duration::from_secs(300);
/// First wait after a failure that may pass; doubles.
const FIRST_RETRY: Duration = Duration::from_secs(1);

/// What was to be restarted.
#[derive(Clone, Debug)]
pub(super) enum RestartOf {
    /// A workload.
    Workload(WorkloadKey),
    /// The pods that a monitor finds itself.
    Pods(NamespacedName),
}

impl Reconciler {
    /// Remembers an attempt; `wait` is when to look again if it succeeded.
    pub(super) fn settle_restart(
        &self,
        of: &RestartOf,
        label: &str,
        outcome: &RestartOutcome,
        wait: Option<Duration>,
    ) -> Again {
        let tries = self.tries(of, label) + 1;
        let (failure, delay) = match outcome {
            RestartOutcome::Write(Outcome::Done) => {
                self.keep_attempt(of, None);
                return wait.map_or(Again::OnChange, Again::After);
            }
            RestartOutcome::Write(Outcome::NamespaceGone | Outcome::NotLeading) => return Again::OnChange,
            RestartOutcome::Write(Outcome::Stale) => return Again::Backoff(None),
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
        let retry_at = at_after(now(), delay);
        let attempt = RestartAttempt { label: label.to_owned(), tries, failure, retry_at };
        self.keep_attempt(of, Some(attempt));
        Again::After(delay)
    }

    fn tries(&self, of: &RestartOf, label: &str) -> u32 {
        let world = self.world();
        let attempt = match of {
            RestartOf::Workload(key) => &world.memory().workload(key).attempt,
            RestartOf::Pods(monitor) => &world.memory().monitor(monitor).attempt,
        };
        attempt.as_ref().filter(|attempt| attempt.label == label).map_or(0, |attempt| attempt.tries)
    }

    fn keep_attempt(&self, of: &RestartOf, attempt: Option<RestartAttempt>) {
        let (mut world, attempt) = (self.world_mut(), attempt.map(Box::new));
        match of {
            RestartOf::Workload(key) => {
                world.memory_mut().at_workload(key, |memory| memory.attempt = attempt);
            }
            RestartOf::Pods(monitor) => {
                world.memory_mut().at_monitor(monitor, |memory| memory.attempt = attempt)
            }
        }
    }
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
