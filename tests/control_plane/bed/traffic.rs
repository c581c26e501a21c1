//! Steady writes that a policy judges, while something happens that nobody is to notice.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::json;

use super::objects::config_map;
use super::{Bed, Person, Story, eventually};

/// Some thirty writes a second together, each writer on its own connections.
const WRITERS: usize = 4;
const EVERY: Duration = Duration::from_millis(130);
/// So many more writes show whatever is amiss.
const ENOUGH: usize = 40;

/// Writes of ConfigMaps in one namespace, and what became of them. Each fifth is one that the policy refuses.
pub struct Traffic<'a> {
    bed: &'a Bed,
    place: String,
    policy: &'a str,
    accepted: AtomicUsize,
    refused: AtomicUsize,
    failed: Mutex<Vec<String>>,
    is_over: AtomicBool,
}

impl<'a> Traffic<'a> {
    /// Makes a namespace, and a policy for it, called as the story, that would rather have a write refused than unjudged.
    #[track_caller]
    pub fn judged(story: &Story<'a>, name: &'a str) -> Traffic<'a> {
        let (bed, place) = (story.bed, story.target("traffic"));
        let spec = json!({
            "match": {}, "failurePolicy": "Fail", "data": [{ "name": "url", "keys": ["url"], "format": "url" }],
        });
        bed.admin.create(&story.policy(&["ConfigMap"], spec)).ok();
        eventually("the policy is in force, by a hook of its own", || {
            let answer = bed.admin.try_create(&config_map(&place, "probe", [("url", "nonsense")]));
            let said = answer.body["message"].as_str().unwrap_or_default().to_owned();
            let is_its_own = said.contains(&format!("{name}.policies-fail"));
            if answer.code == 403 && is_its_own { Ok(()) } else { Err(said) }
        });
        Traffic {
            bed,
            place,
            policy: name,
            accepted: AtomicUsize::new(0),
            refused: AtomicUsize::new(0),
            failed: Mutex::default(),
            is_over: AtomicBool::new(false),
        }
    }

    /// Writes until `happens` has happened. How many writes were accepted, and how many refused as they should be.
    #[track_caller]
    pub fn flows_while(self, happens: impl FnOnce(&Traffic<'a>)) -> (usize, usize) {
        thread::scope(|scope| {
            // Also where something fails, the writers end.
            let _end = Ends(&self.is_over);
            for writer in 0..WRITERS {
                let (traffic, person) = (&self, Person::with(self.bed.testbed.cluster().admin_kubeconfig()));
                scope.spawn(move || traffic.write(&person, writer));
            }
            self.none_fails("before anything happens");
            happens(&self);
        });
        self.none_has_failed("to the very end");
        (self.accepted.into_inner(), self.refused.into_inner())
    }

    /// Waits for as many more writes as would show what is amiss; none has failed.
    #[track_caller]
    pub fn none_fails(&self, when: &str) {
        let done = || self.accepted.load(Ordering::Relaxed) + self.failed().len();
        let before = done();
        eventually(&format!("there is traffic {when}"), || match done() - before {
            ENOUGH.. => Ok(()),
            few => Err(format!("{few} writes")),
        });
        self.none_has_failed(when);
    }

    /// None has failed so far.
    #[track_caller]
    pub fn none_has_failed(&self, when: &str) {
        let failed = self.failed();
        assert!(failed.is_empty(), "{} writes failed {when}: {failed:#?}", failed.len());
    }

    fn write(&self, person: &Person, writer: usize) {
        let name = format!("app-{writer}");
        let mut due = Instant::now();
        for turn in 0.. {
            if self.is_over.load(Ordering::Relaxed) {
                return;
            }
            let is_good = turn % 5 != 4;
            let value =
                if is_good { format!("https://example.com/{turn}") } else { format!("nonsense {turn}") };
            let answer = person.apply(&config_map(&self.place, &name, [("url", &value)]));
            let said = answer.body["message"].as_str().unwrap_or_default();
            let count = match (is_good, answer.code) {
                (true, 200 | 201) => Some(&self.accepted),
                (false, 403) if said.contains(self.policy) => Some(&self.refused),
                _ => None,
            };
            if let Some(count) = count {
                count.fetch_add(1, Ordering::Relaxed);
            } else {
                self.failed().push(format!("{value}: {} {said}", answer.code));
            }
            due += EVERY;
            thread::sleep(due.saturating_duration_since(Instant::now()));
        }
    }

    fn failed(&self) -> MutexGuard<'_, Vec<String>> {
        self.failed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Tells each waiting thread that it is over, also where a test fails.
pub(super) struct Ends<'a>(pub(super) &'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
