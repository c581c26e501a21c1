//! Arithmetic on times that saturates instead of failing, and how old an answer is.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

/// The time that lies `span` after `time`.
pub fn at_after(time: Timestamp, span: Duration) -> Timestamp {
    let span = SignedDuration::try_from(span).unwrap_or(SignedDuration::MAX);
    time.checked_add(span).unwrap_or(Timestamp::MAX)
}

/// The time that lies `span` before `time`; the earliest possible time if the result would be out of range.
pub fn at_before(time: Timestamp, span: Duration) -> Timestamp {
    let span = SignedDuration::try_from(span).unwrap_or(SignedDuration::MAX);
    time.checked_sub(span).unwrap_or(Timestamp::MIN)
}

/// Whether an answer to a question asked at `asked` is younger than `span`. If `asked` is in the future, the
/// clock was set back since, the age of the answer is unknown, and the result is false.
pub fn is_younger(asked: Timestamp, span: Duration, now: Timestamp) -> bool {
    let age = now.duration_since(asked);
    !age.is_negative() && age.unsigned_abs() < span
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_from_the_future_is_not_young() {
        let at = |second| Timestamp::from_second(second).unwrap();
        let is_young = |asked| is_younger(at(asked), Duration::from_secs(30), at(1_000));
        let ages = [1_000, 971, 970, 0, 1_001, 1_000_000].map(is_young);
        assert_eq!(ages, [true, true, false, false, false, false]);
    }
}
