//! Whether a list or watch works. One that has failed for a minute is loud: in `/readyz`, in a metric, and in the statuses of what it
//! hides.

use std::time::Duration;

use jiff::Timestamp;
use tokio::time::Instant;

use super::observer::Observer;
use crate::{
    model::{FailingList, ListName},
    plan::Changed,
};

/// How long a list or watch fails before people are told.
const LASTING: Duration = Duration::from_secs(60);
/// Failures that lie further apart have nothing to do with each other: a watch that works and brings nothing says so in no other way.
/// Each attempt ends within half a minute, and the next one begins within another.
const APART: Duration = Duration::from_secs(90);

/// The failures of one list, and of the watch that goes on from it.
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
    /// Of a list that has not failed.
    pub(crate) fn new(observer: Observer, list: ListName) -> Self {
        Self { observer, list, trouble: None }
    }

    /// Notes that it brought something.
    pub(crate) fn works(&mut self) {
        if self.trouble.take().is_some_and(|trouble| trouble.is_told) {
            tracing::info!(list = %self.list, "what could not be read is read again");
            self.tell(None);
        }
    }

    /// Notes that it failed; returns whether it has done so for long.
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
            tracing::error!(list = %self.list, since = %failing.since, why = failing.why, "a list or watch fails");
        }
        let list = self.list.clone();
        self.observer.change(&Changed::Lists, |world| world.note_failing(list, failing));
    }
}

/// A watch that ends, since nothing needs it, fails no more.
impl Drop for Health {
    fn drop(&mut self) {
        self.works();
    }
}
