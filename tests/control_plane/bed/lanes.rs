//! Which stories run at the same time.
//!
//! A story mostly waits, so many of them share the machine. The test runner only counts threads: a few threads would all end up
//! waiting for one cluster while others are idle. So it gets a thread for every test, and each story waits in its lane for a place.

use std::io::{self, Write as _};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Instant;
use std::{env, thread};

/// Where this is set, each story says how long it took without its wait for a place.
const TIMES: &str = "COPYRATOR_TEST_TIMES";

/// So many stories at the same time.
pub(super) struct Lane {
    free: Mutex<Vec<usize>>,
    freed: Condvar,
}

/// A story's place in its lane, until it is dropped.
pub struct Place {
    lane: &'static Lane,
    /// Counted from 0.
    pub(super) number: usize,
    /// The test runner names threads after their tests.
    story: String,
    since: Instant,
}

impl Lane {
    pub(super) fn of(places: usize) -> Lane {
        Lane { free: Mutex::new((0..places).rev().collect()), freed: Condvar::new() }
    }

    /// Waits for a place.
    pub(super) fn enter(&'static self) -> Place {
        let free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        let mut free =
            self.freed.wait_while(free, |free| free.is_empty()).unwrap_or_else(PoisonError::into_inner);
        let number = free.pop().expect("there is one");
        let story = thread::current().name().unwrap_or_default().to_owned();
        Place { lane: self, number, story, since: Instant::now() }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if env::var_os(TIMES).is_some() {
            let _ = writeln!(io::stderr(), "{:.1} s: {}", self.since.elapsed().as_secs_f64(), self.story);
        }
        self.lane.free.lock().unwrap_or_else(PoisonError::into_inner).push(self.number);
        self.lane.freed.notify_one();
    }
}
