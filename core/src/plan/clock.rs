//! Arithmetic on times that saturates instead of failing.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

/// The time that lies `span` after `time`.
pub fn at_after(time: Timestamp, span: Duration) -> Timestamp {
    let span = SignedDuration::try_from(span).unwrap_or(SignedDuration::MAX);
    time.checked_add(span).unwrap_or(Timestamp::MAX)
}
