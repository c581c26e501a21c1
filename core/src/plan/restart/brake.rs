//! The brake: waits that delay a due restart. Every wait names its reason and, if the wait ends by time, its
//! end. No decision sleeps.

use std::time::Duration;

use jiff::Timestamp;

use crate::{
    api::StrategyType,
    model::{Ending, WaitReason},
    validate::{CompiledMonitor, MIN_INTERVAL, QUIET_PERIOD},
};

/// How long a decision waits for an object that pods cannot start without: long enough for `kubectl replace
/// --force` and for an operator that deletes and creates. The wait must end: the watches leave out
/// service-account tokens, so an existing token looks missing.
pub(super) const MISSING_PATIENCE: Duration = Duration::from_secs(300);

/// The resolution of the API server's timestamps.
const RESOLUTION: Duration = Duration::from_secs(1);

/// The waits before a restart, and its strategy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// How long content must stay unchanged before a restart.
    pub quiet_period: Duration,
    /// The least time between two restarts of one workload.
    pub min_interval: Duration,
    /// How a restart is done.
    pub strategy: StrategyType,
}

impl Default for Pace {
    fn default() -> Self {
        Self { quiet_period: QUIET_PERIOD, min_interval: MIN_INTERVAL, strategy: StrategyType::Rollout }
    }
}

impl Pace {
    /// The pace that a monitor declares.
    pub fn of(compiled: &CompiledMonitor) -> Self {
        let CompiledMonitor { quiet_period, min_interval, strategy, .. } = *compiled;
        Self { quiet_period, min_interval, strategy }
    }

    /// Combines the paces of all declarations that restart one workload: the longest waits and the gentlest
    /// strategy win (Rollout before Evict before Delete).
    pub fn tighten(one: &mut Option<Self>, other: Self) {
        let gentleness = |strategy| match strategy {
            StrategyType::Rollout => 0,
            StrategyType::Evict => 1,
            StrategyType::Delete => 2,
        };
        *one = Some(one.map_or(other, |one| Self {
            quiet_period: one.quiet_period.max(other.quiet_period),
            min_interval: one.min_interval.max(other.min_interval),
            strategy: if gentleness(one.strategy) <= gentleness(other.strategy) {
                one.strategy
            } else {
                other.strategy
            },
        }));
    }
}

/// A reason to wait, and when the wait ends by itself; `None`: an event ends the wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wait {
    /// The reason for the wait.
    pub reason: WaitReason,
    /// When the wait ends by time, or when to plan the workload again.
    pub until: Option<Timestamp>,
}

impl Wait {
    /// A wait that an event ends.
    pub fn for_event(reason: WaitReason) -> Self {
        Self { reason, until: None }
    }

    /// A wait that ends by time at `until`, or is examined again at `until`.
    pub fn until(reason: WaitReason, until: Timestamp) -> Self {
        Self { reason, until: Some(until) }
    }

    /// When the wait ends by itself.
    pub fn ends_at(&self) -> Option<Timestamp> {
        self.until.filter(|_| self.reason.ended_by() == Ending::Clock)
    }

    /// Whether the wait ends only when a person acts, or after an hour.
    pub fn is_stopped(&self) -> bool {
        matches!(self.reason, WaitReason::CircuitOpen | WaitReason::StageStopped)
    }
}

/// The maximum wait for content that keeps changing, in quiet periods: frequent writes must not delay a
/// restart for ever.
const QUIET_PERIODS: u32 = 10;

/// Waits while the content may still be changing; `unsettled` is when this wait began. The time of a change
/// has a resolution of a second, so the quiet period begins when the second of the change is over. A quiet
/// period from the beginning of the second would be up to a second too short, and a workload that is applied
/// within the second of the change would roll twice.
pub(super) fn quiet(
    pace: &Pace,
    changed_at: Timestamp,
    unsettled: Option<Timestamp>,
    now: Timestamp,
) -> Result<(), Wait> {
    let span = match pace.quiet_period {
        Duration::ZERO => Duration::ZERO,
        span => span.saturating_add(RESOLUTION),
    };
    let rest = not_before(WaitReason::QuietPeriod, Some(changed_at), span, now);
    let Some(unsettled) = unsettled else { return rest };
    let patience = pace.quiet_period.saturating_mul(QUIET_PERIODS);
    let patience = not_before(WaitReason::QuietPeriod, Some(unsettled), patience, now);
    // The wait that ends first.
    rest.or_else(|rest| {
        patience.map_err(|patience| if patience.until < rest.until { patience } else { rest })
    })
}

/// Waits until `minInterval` has passed since the last restart.
pub(super) fn interval(pace: &Pace, last_restart: Option<Timestamp>, now: Timestamp) -> Result<(), Wait> {
    not_before(WaitReason::MinInterval, last_restart, pace.min_interval, now)
}

/// Waits for a missing object that may still come back. Only the leader remembers since when the object has
/// been missing (from the leader's first look on), so no other process knows when the wait ends.
pub(super) fn patience(
    reason: WaitReason,
    missing_since: Option<Timestamp>,
    now: Timestamp,
) -> Result<(), Wait> {
    let since = missing_since.ok_or(Wait::for_event(reason))?;
    not_before(reason, Some(since), MISSING_PATIENCE, now)
}

/// Waits until a span has passed since this time; does not wait without a time.
pub(super) fn not_before(
    reason: WaitReason,
    since: Option<Timestamp>,
    span: Duration,
    now: Timestamp,
) -> Result<(), Wait> {
    // An end that is too far ahead for a timestamp means that the wait never ends, as with an interval of a
    // million years.
    let until = since.map(|since| since.checked_add(span).unwrap_or(Timestamp::MAX));
    match until {
        Some(until) if until > now => Err(Wait::until(reason, until)),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn the_most_careful_wins() {
        let secs = Duration::from_secs;
        let mut pace = None;
        Pace::tighten(
            &mut pace,
            Pace { quiet_period: secs(1), min_interval: secs(60), strategy: StrategyType::Delete },
        );
        Pace::tighten(
            &mut pace,
            Pace { quiet_period: secs(5), min_interval: secs(10), strategy: StrategyType::Evict },
        );
        let expected = Pace { quiet_period: secs(5), min_interval: secs(60), strategy: StrategyType::Evict };
        assert_eq!(pace, Some(expected));
        Pace::tighten(&mut pace, Pace::default());
        assert_eq!(pace.map(|pace| pace.strategy), Some(StrategyType::Rollout));
    }

    #[test]
    fn waits_end_when_they_say() {
        let pace = Pace { quiet_period: Duration::from_secs(2), ..Pace::default() };
        let until = |second| Err(Wait::until(WaitReason::QuietPeriod, at(second)));
        // The content may have changed at second 100.9.
        assert_eq!(quiet(&pace, at(100), None, at(102)), until(103));
        assert_eq!(quiet(&pace, at(100), None, at(103)), Ok(()));
        assert_eq!(quiet(&pace, at(100), Some(at(90)), at(101)), until(103));
        assert_eq!(quiet(&pace, at(109), Some(at(90)), at(109)), until(110), "it never rests");
        assert_eq!(quiet(&pace, at(110), Some(at(90)), at(110)), Ok(()));
        assert_eq!(quiet(&pace, at(100), Some(at(102)), at(103)), Ok(()), "it rests");
        let none = Pace { quiet_period: Duration::ZERO, ..pace };
        assert_eq!(quiet(&none, at(100), None, at(100)), Ok(()));
        assert_eq!(interval(&pace, None, at(0)), Ok(()));
        let endless = Pace { min_interval: Duration::MAX, ..pace };
        assert_eq!(interval(&endless, Some(at(1)), at(2)).unwrap_err().until, Some(Timestamp::MAX));
    }
}
