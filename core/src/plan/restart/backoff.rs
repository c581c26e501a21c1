//! Backoff and circuit breaker. Each restart that follows soon after the previous one waits longer, and a
//! workload that does not become ready is restarted only once an hour.

use std::time::Duration;

use jiff::Timestamp;

use super::brake::{Pace, Wait, not_before};
use crate::{
    api::StrategyType,
    model::{Rollout, TrackRecord, WaitReason, WorkloadFacts},
    plan::at_after,
};

/// The longest interval, unless `minInterval` is longer.
const LONGEST: Duration = Duration::from_secs(3600);
/// The circuit opens after this many restarts in a row that did not become ready.
const FAILURES: u32 = 3;
/// The time between two tries of a restart while the circuit is open.
const HALF_OPEN: Duration = Duration::from_secs(3600);

/// The track record with the result of the last restart: ready, or stuck. A restart under way is not judged
/// yet.
pub(super) fn track(facts: &WorkloadFacts, now: Timestamp) -> TrackRecord {
    let mut track = facts.restarts.track.clone();
    track.last_good = facts.last_good().map(str::to_owned);
    if facts.is_ready() {
        track.failures = 0;
    } else if facts.rollout_at(now) == Rollout::Stuck && facts.restarted_by_us() {
        return track.failed();
    }
    track
}

/// The track record after one more restart. The streak ends when twice the interval has passed since the
/// `last` restart.
pub(super) fn one_more(
    track: TrackRecord,
    pace: &Pace,
    last: Option<Timestamp>,
    now: Timestamp,
) -> TrackRecord {
    let ends = last.map(|last| at_after(last, span(pace, track.streak).saturating_mul(2)));
    let goes_on = ends.is_some_and(|ends| ends > now);
    let streak = if goes_on { (track.streak + 1).min(TrackRecord::MOST) } else { 1 };
    TrackRecord { streak, ..track }
}

/// The track record once all pods are found to run this content. If the pods were replaced one by one, only
/// this write can record whether the content is good.
pub(super) fn replaced(facts: &WorkloadFacts, content: &str, pace: &Pace) -> TrackRecord {
    let track = facts.restarts.track.clone();
    if pace.strategy == StrategyType::Rollout && !facts.is_being_replaced() {
        return track;
    }
    let good = facts.is_ready().then(|| content.to_owned());
    TrackRecord { last_good: good.or_else(|| track.last_good.clone()), ..track }
}

/// Waits until the interval since the `last` restart has passed. The interval doubles with each restart that
/// followed soon after the previous one.
pub(super) fn interval(
    pace: &Pace,
    streak: u32,
    last: Option<Timestamp>,
    now: Timestamp,
) -> Result<(), Wait> {
    let reason = if streak > 1 { WaitReason::Backoff } else { WaitReason::MinInterval };
    not_before(reason, last, span(pace, streak), now)
}

/// Whether too many restarts in a row did not become ready.
pub(super) fn is_open(track: &TrackRecord) -> bool {
    track.failures >= FAILURES
}

/// Waits while the circuit is open, until the next restart is tried.
pub(super) fn circuit(track: &TrackRecord, last: Option<Timestamp>, now: Timestamp) -> Result<(), Wait> {
    if is_open(track) { not_before(WaitReason::CircuitOpen, last, HALF_OPEN, now) } else { Ok(()) }
}

fn span(pace: &Pace, streak: u32) -> Duration {
    let times = 1 << streak.saturating_sub(1).min(30);
    pace.min_interval.saturating_mul(times).min(LONGEST.max(pace.min_interval))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn each_interval_of_a_streak_is_twice_the_one_before() {
        let pace = Pace { min_interval: Duration::from_secs(30), ..Pace::default() };
        for (streak, seconds) in [(0, 30), (1, 30), (2, 60), (3, 120), (7, 1920), (8, 3600), (99, 3600)] {
            assert_eq!(span(&pace, streak), Duration::from_secs(seconds), "{streak}");
        }
        let day = Pace { min_interval: Duration::from_secs(86400), ..pace };
        assert_eq!(span(&day, 5), day.min_interval, "no workload restarts more often than its pace says");
        let never = Pace { min_interval: Duration::MAX, ..pace };
        assert_eq!(interval(&never, 9, Some(at(1)), at(2)).unwrap_err().until, Some(Timestamp::MAX));
        let wait = interval(&pace, 2, Some(at(100)), at(150)).unwrap_err();
        assert_eq!(wait, Wait::until(WaitReason::Backoff, at(160)));
    }

    #[test]
    fn a_streak_ends_when_twice_its_interval_has_passed() {
        let pace = Pace { min_interval: Duration::from_secs(30), ..Pace::default() };
        for (streak, last, now, expected) in [
            (0, None, 100, 1),
            (1, Some(100), 130, 2),
            (1, Some(100), 160, 1),
            (2, Some(100), 219, 3),
            (2, Some(100), 220, 1),
            (99, Some(100), 3700, 99),
        ] {
            let track = TrackRecord { streak, ..TrackRecord::default() };
            let after = one_more(track, &pace, last.map(at), at(now));
            assert_eq!(after.streak, expected, "{streak} {last:?} {now}");
        }
        let unbraked = Pace { min_interval: Duration::ZERO, ..pace };
        let track = TrackRecord { streak: 1, ..TrackRecord::default() };
        assert_eq!(one_more(track, &unbraked, Some(at(100)), at(100)).streak, 1);
    }
}
