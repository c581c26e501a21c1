//! The health of a list and of the watch that follows it. After a minute of failures, `/readyz`, a metric,
//! and the statuses of affected objects report the failures.

use std::time::Duration;

use jiff::Timestamp;
use tokio::time::Instant;

use super::observer::Observer;
use crate::{
    model::{FailingList, ListName},
    plan::Changed,
};

/// How long a list or watch may fail before the failure is reported.
const LASTING: Duration = Duration::from_secs(60);
/// Failures that are further apart are unrelated: a working watch without events gives no other sign that it
/// works. Each attempt ends within half a minute, and the next attempt begins within the following half
/// minute.
const APART: Duration = Duration::from_secs(90);

/// The failures of one list, and of the watch that follows it.
pub(crate) struct Health {
    observer: Observer,
    list: ListName,
    trouble: Option<Trouble>,
}

struct Trouble {
    first: Instant,
    last: Instant,
    since: Timestamp,
    is_told: bool,
}

impl Health {
    /// The health of a list that has not failed.
    pub(crate) fn new(observer: Observer, list: ListName) -> Self {
        Self { observer, list, trouble: None }
    }

    /// Notes that the list or watch works.
    pub(crate) fn works(&mut self) {
        if self.trouble.take().is_some_and(|trouble| trouble.is_told) {
            tracing::info!(list = %self.list, "Copyrator can read these objects again");
            self.tell(None);
        }
    }

    /// Notes a failure; returns whether the failures have lasted for a minute.
    pub(crate) fn fails(&mut self, why: &str) -> bool {
        let now = Instant::now();
        let begun = || Trouble { first: now, last: now, since: Timestamp::now(), is_told: false };
        let before = self.trouble.take().filter(|it| it.is_told || it.last + APART >= now);
        let trouble = Trouble { last: now, ..before.unwrap_or_else(begun) };
        let is_lasting = trouble.first + LASTING <= now;
        let since = trouble.since;
        self.trouble = Some(Trouble { is_told: is_lasting, ..trouble });
        if is_lasting {
            self.tell(Some(FailingList { since, why: why.to_owned() }));
        }
        is_lasting
    }

    fn tell(&self, failing: Option<FailingList>) {
        if let Some(failing) = &failing {
            tracing::error!(list = %self.list, since = %failing.since, why = failing.why, "cannot list or watch");
        }
        let list = self.list.clone();
        self.observer.change(&Changed::Lists, |world| world.note_failing(list, failing));
    }
}

/// An unneeded watch that ends is no longer reported as failing.
impl Drop for Health {
    fn drop(&mut self) {
        self.works();
    }
}
