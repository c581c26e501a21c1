//! Which stories run at the same time.
//!
//! A story mostly waits, so many of them share the machine. The test runner only counts threads: a few threads would all end up
//! waiting for one cluster while others are idle. So it gets a thread for every test, and each story waits in its lane for a place:
//! those that take longest get theirs first, so that none of them goes on alone when all others are through.

use std::collections::BTreeSet;
use std::io::{self, Write as _};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Instant;
use std::{env, thread};

/// Where this is set, each story says how long it took without its wait for a place.
const TIMES: &str = "COPYRATOR_TEST_TIMES";
/// Stories of a minute and more, the longest first.
const LONG: [&str; 10] = [
    "doctor::doctor_finds_nothing_in_a_sound_install_and_its_commands_mend_a_broken_one",
    "rolling::no_write_fails_while_two_webhooks_follow_a_new_ca",
    "hooks::hooks_come_after_the_canary_are_repaired_and_go_with_the_cluster_role",
    "upgrade::an_upgrade_and_its_rollback_keep_everything_and_fail_no_write",
    "rolling::no_write_fails_while_two_webhooks_are_restarted_and_leaders_change",
    "upgrade::newer::definitions_newer_than_this_version_are_served_and_what_it_does_not_know_is_left_alone",
    "certificates::no_call_fails_while_leaf_and_ca_rotate_and_the_leader_dies_half_way",
    "rolling::no_write_fails_while_two_that_do_everything_are_restarted",
    "mounted::a_webhook_that_starts_before_hooks_carry_its_ca_waits_and_no_write_fails",
    "plain_hooks::hooks_are_left_as_they_are_while_somebody_says_hands_off",
];

/// So many stories at the same time.
pub(super) struct Lane {
    queue: Mutex<Queue>,
    changed: Condvar,
}

struct Queue {
    free: Vec<usize>,
    /// By turn: rank, and number of arrival.
    waiting: BTreeSet<(usize, usize)>,
    arrived: usize,
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
        let queue = Queue { free: (0..places).rev().collect(), waiting: BTreeSet::new(), arrived: 0 };
        Lane { queue: Mutex::new(queue), changed: Condvar::new() }
    }

    /// Waits for a place.
    pub(super) fn enter(&'static self) -> Place {
        let story = thread::current().name().unwrap_or_default().to_owned();
        let rank = LONG.iter().position(|long| *long == story).unwrap_or(LONG.len());
        let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        let turn = (rank, queue.arrived);
        queue.arrived += 1;
        queue.waiting.insert(turn);
        let is_next = |queue: &Queue| !queue.free.is_empty() && queue.waiting.first() == Some(&turn);
        let waited = self.changed.wait_while(queue, |queue| !is_next(queue));
        let mut queue = waited.unwrap_or_else(PoisonError::into_inner);
        queue.waiting.remove(&turn);
        let number = queue.free.pop().expect("there is one");
        // Another place may be free for the next one.
        self.changed.notify_all();
        Place { lane: self, number, story, since: Instant::now() }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if env::var_os(TIMES).is_some() {
            let _ = writeln!(io::stderr(), "{:.1} s: {}", self.since.elapsed().as_secs_f64(), self.story);
        }
        self.lane.queue.lock().unwrap_or_else(PoisonError::into_inner).free.push(self.number);
        self.lane.changed.notify_all();
    }
}
