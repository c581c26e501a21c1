//! Waiting for the cluster to become as it should.

use std::thread;
use std::time::{Duration, Instant};

/// How long anything may take before a test gives up. No test asserts a time: this only ends hopeless waits.
const PATIENCE: Duration = Duration::from_secs(120);

/// Looks until `look` finds what it wants, and gives it back. Where it never does, the test fails with what was
/// seen instead.
#[track_caller]
pub fn eventually<T>(what: &str, look: impl FnMut() -> Result<T, String>) -> T {
    within(PATIENCE, what, look)
}

/// As [`eventually`], for what takes longer by design.
#[track_caller]
pub fn within<T>(patience: Duration, what: &str, mut look: impl FnMut() -> Result<T, String>) -> T {
    let deadline = Instant::now() + patience;
    loop {
        let seen = match look() {
            Ok(found) => return found,
            Err(seen) => seen,
        };
        if Instant::now() > deadline {
            let failure = format!("waited {} s: {what}\n  seen instead: {seen}", patience.as_secs());
            // Before the logs, which are long: a run that keeps only the first part of its output still tells what failed.
            println!("{failure}");
            super::logs::show();
            panic!("{failure}");
        }
        thread::sleep(Duration::from_millis(30));
    }
}

/// `Ok` if the two are equal, else a sentence about what was seen.
pub fn same<T: PartialEq + std::fmt::Debug>(seen: T, wanted: T) -> Result<(), String> {
    if seen == wanted { Ok(()) } else { Err(format!("{seen:?} instead of {wanted:?}")) }
}
