//! Arithmetic on times that saturates instead of failing, and how old an answer is.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

/// The time that lies `span` after `time`.
pub fn at_after(time: Timestamp, span: Duration) -> Timestamp {
    let span = SignedDuration::try_from(span).unwrap_or(SignedDuration::MAX);
    time.checked_add(span).unwrap_or(Timestamp::MAX)
}

/// Whether an answer to what was asked at `asked` is younger than `span`. What seems to have been asked in the future is not: the clock was
/// set back since, so that nobody knows how old the answer is.
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
