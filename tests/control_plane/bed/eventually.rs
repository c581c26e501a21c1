//! Waiting for the cluster to become as it should.

use std::thread;
use std::time::{Duration, Instant, SystemTime};

use testbed::PATIENCE;

/// How soon a test looks again at first, and how late at most.
const PAUSES: (Duration, Duration) = (Duration::from_millis(20), Duration::from_millis(500));

/// Looks until `look` finds what it wants, and gives it back. Where it never does, the test fails with what was
/// seen instead.
#[track_caller]
pub fn eventually<T>(what: &str, mut look: impl FnMut() -> Result<T, String>) -> T {
    let (begun, since) = (Instant::now(), SystemTime::now());
    loop {
        let looked = Instant::now();
        let seen = match look() {
            Ok(found) => return found,
            Err(seen) => seen,
        };
        if begun.elapsed() > PATIENCE {
            let failure = format!("waited {} s: {what}\n  seen instead: {seen}", PATIENCE.as_secs());
            panic!("{failure}{}", super::logs::complaints_since(since));
        }
        // A look takes the machine's time from those who are waited for.
        thread::sleep((begun.elapsed() / 8).clamp(PAUSES.0, PAUSES.1).max(looked.elapsed()));
    }
}

/// `Ok` if the two are equal, else a sentence about what was seen.
pub fn same<T: PartialEq + std::fmt::Debug>(seen: T, wanted: T) -> Result<(), String> {
    if seen == wanted { Ok(()) } else { Err(format!("{seen:?} instead of {wanted:?}")) }
}
