//! Which stories run at the same time.
//!
//! A story mostly waits, so many of them share the machine. The test runner only counts threads: a few threads would all end up
//! waiting for one cluster while others are idle. So it gets a thread for every test, and each story waits in its lane for a place:
//! those that take longest get theirs first, so that none of them goes on alone when all others are through.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write as _};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
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
    "certificates::a_torn_ca_secret_fails_no_call_is_told_once_and_mended",
    "cut_short::killed_after_any_one_of_its_writes_it_finishes_when_started_again",
    "json_forms::what_machines_read_keeps_its_form",
    "load::the_sweep_finds_by_content_what_metadata_hides_and_writes_nothing_else",
    "plan_policies::a_plan_foresees_what_a_policy_refuses_as_the_status_then_says_it",
    "plain_hooks::hooks_are_left_as_they_are_while_somebody_says_hands_off",
];

/// How many stories share the machine, whatever their lanes. A lane whose stories are left over at the end may then be wider than its share of a
/// full machine.
const MOST: usize = 14;

static HALL: Mutex<Hall> = Mutex::new(Hall { running: 0, arrived: 0, lanes: BTreeMap::new() });
static CHANGED: Condvar = Condvar::new();

/// So many stories at the same time.
pub(super) struct Lane {
    name: &'static str,
    places: usize,
}

/// All lanes.
struct Hall {
    running: usize,
    arrived: usize,
    lanes: BTreeMap<&'static str, Queue>,
}

struct Queue {
    free: Vec<usize>,
    /// By turn: rank, and number of arrival.
    waiting: BTreeSet<(usize, usize)>,
}

/// A story's permit of its lane, until it is dropped.
pub struct Permit {
    lane: &'static Lane,
    /// Counted from 0.
    pub(super) number: usize,
    /// The test runner names threads after their tests.
    story: String,
    since: Instant,
}

impl Lane {
    pub(super) const fn of(name: &'static str, places: usize) -> Self {
        Self { name, places }
    }

    /// Waits for a place. A story that has one in another lane keeps it: those few leave enough to all others, who have none.
    pub(super) fn enter(&'static self) -> Permit {
        let story = thread::current().name().unwrap_or_default().to_owned();
        let rank = LONG.iter().position(|long| *long == story).unwrap_or(LONG.len());
        let mut hall = hall();
        let turn = (rank, hall.arrived);
        hall.arrived += 1;
        hall.queue(self).waiting.insert(turn);
        let waited = CHANGED.wait_while(hall, |hall| !hall.is_next(self, turn));
        let mut hall = waited.unwrap_or_else(PoisonError::into_inner);
        hall.running += 1;
        let queue = hall.queue(self);
        queue.waiting.remove(&turn);
        let number = queue.free.pop().expect("there is one");
        // Another place may be free for the next one.
        CHANGED.notify_all();
        Permit { lane: self, number, story, since: Instant::now() }
    }
}

impl Hall {
    fn queue(&mut self, lane: &Lane) -> &mut Queue {
        let new = || Queue { free: (0..lane.places).rev().collect(), waiting: BTreeSet::new() };
        self.lanes.entry(lane.name).or_insert_with(new)
    }

    fn is_next(&mut self, lane: &Lane, turn: (usize, usize)) -> bool {
        let has_room = self.running < MOST;
        let queue = self.queue(lane);
        has_room && !queue.free.is_empty() && queue.waiting.first() == Some(&turn)
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        if env::var_os(TIMES).is_some() {
            let _ = writeln!(io::stderr(), "{:.1} s: {}", self.since.elapsed().as_secs_f64(), self.story);
        }
        let mut hall = hall();
        hall.running -= 1;
        hall.queue(self.lane).free.push(self.number);
        CHANGED.notify_all();
    }
}

fn hall() -> MutexGuard<'static, Hall> {
    HALL.lock().unwrap_or_else(PoisonError::into_inner)
}
