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
/// The longest stories, the longest first (`COPYRATOR_TEST_TIMES=1` tells). Before them those that have a place in two lanes: they keep
/// the first one while they wait for the second.
const LONG: [&str; 24] = [
    "rolling::no_write_fails_while_two_that_do_everything_are_restarted",
    "rolling::no_write_fails_while_two_webhooks_are_restarted_and_leaders_change",
    "rolling::no_write_fails_while_two_webhooks_follow_a_new_ca",
    "mounted::a_webhook_that_starts_before_hooks_carry_its_ca_waits_and_no_write_fails",
    "doctor::doctor_finds_nothing_in_a_sound_install_and_its_commands_mend_a_broken_one",
    "console_rights::every_answer_is_the_same_as_if_nothing_else_existed",
    "copy_kinds::granted_kinds_are_copied_kept_and_protected",
    "chart_variants::every_rendered_field_is_known_to_the_api_server",
    "cel_alike::expressions_mean_what_they_mean_to_the_api_server",
    "operators::operators_without_code",
    "upgrade::newer::definitions_newer_than_this_version_are_served_and_what_it_does_not_know_is_left_alone",
    "template_load::a_large_template_that_is_edited_all_the_time_comes_to_its_last_text",
    "hooks::hooks_come_after_the_canary_are_repaired_and_go_with_the_cluster_role",
    "upgrade::an_upgrade_and_its_rollback_keep_everything_and_fail_no_write",
    "instances::each_object_of_a_kind_gets_what_a_template_declares",
    "scale::a_first_start_restarts_none_of_a_thousand_and_a_start_after_one_change_exactly_one",
    "all_dead::with_fail_policies_for_everything_and_us_dead_the_cluster_lives_and_starts_cold",
    "namespaced_people::a_user_with_rights_in_those_namespaces_only_is_told_all_that_the_operator_does",
    "certificates::no_call_fails_while_leaf_and_ca_rotate_and_the_leader_dies_half_way",
    "cut_short::killed_after_any_one_of_its_writes_it_finishes_when_started_again",
    "json_forms::what_machines_read_keeps_its_form",
    "load::the_sweep_finds_by_content_what_metadata_hides_and_writes_nothing_else",
    "plan_policies::a_plan_foresees_what_a_policy_refuses_as_the_status_then_says_it",
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
