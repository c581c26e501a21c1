//! Who may lead when: pure, on a clock that is an argument.
//!
//! Another's lease is over when *we* have not seen it change for its length; their timestamps are never
//! compared with our clock. What we saw may be outdated, but every write carries the version we saw, so
//! then it is refused and we look again: a wrong guess costs a request, never a second leader.

use std::time::Duration;

use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use tokio::time::Instant;

/// The lengths of an election.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terms {
    /// Others wait so long after the last change they saw, before they take over.
    pub lease: Duration,
    /// From one renewal to the next.
    pub renew: Duration,
    /// After this long without success we no longer lead.
    pub give_up: Duration,
    /// Longest that one call may take.
    pub call: Duration,
    /// Pause after a failed call.
    pub retry: Duration,
}

impl Default for Terms {
    fn default() -> Self {
        Self {
            lease: Duration::from_secs(15),
            renew: Duration::from_secs(5),
            give_up: Duration::from_secs(10),
            call: Duration::from_secs(3),
            retry: Duration::from_secs(1),
        }
    }
}

impl Terms {
    /// Longest that a write may take which was begun with a valid token: a second less than between our
    /// giving up and others taking over, so that it has arrived, or never will, before they write.
    pub fn write_timeout(&self) -> Duration {
        self.lease.saturating_sub(self.give_up).saturating_sub(Duration::from_secs(1))
    }
}

/// What we are, as far as our own calls tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct State {
    /// While we lead: when the last successful write was *begun*. The server counts from later.
    pub renewed: Option<Instant>,
    /// No call before this: the pause after a failed one.
    pub not_before: Instant,
    /// What we know may be outdated: nothing was read yet, or a write was refused as a conflict.
    pub stale: bool,
}

/// What we know of the Lease.
#[derive(Clone, Debug, PartialEq)]
pub enum Seen {
    /// There is none, since when we saw it go (`None` if there was none to begin with).
    Absent(Option<Instant>),
    /// This, unchanged since then.
    Present(Box<Lease>, Instant),
}

/// What to do now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Read the Lease.
    Look,
    /// Create it, with us as holder.
    Create,
    /// Replace it, with us as holder: the first time or again.
    Take,
    /// Stop leading.
    StepDown,
    /// Nothing before this moment, unless the Lease changes.
    Wait(Instant),
}

/// The next step of the candidate `me`. `jitter` is how long it waits with a Lease that was released, so
/// that not all candidates write at the same moment.
pub fn next(me: &str, terms: &Terms, jitter: Duration, state: State, seen: &Seen, now: Instant) -> Step {
    let ours = matches!(seen, Seen::Present(lease, _) if holder(lease) == Some(me));
    if let Some(renewed) = state.renewed
        && (now >= renewed + terms.give_up || !(ours || state.stale))
    {
        return Step::StepDown;
    }
    let (step, due) = match seen {
        _ if state.stale => (Step::Look, now),
        Seen::Absent(None) => (Step::Create, now),
        // Its holder may not know yet that it is gone, and goes on for what is left of the lease.
        Seen::Absent(Some(gone)) => (Step::Create, *gone + terms.lease),
        Seen::Present(..) if ours => (Step::Take, state.renewed.map_or(now, |at| at + terms.renew)),
        Seen::Present(lease, changed) => match holder(lease) {
            None => (Step::Take, *changed + jitter),
            Some(_) => (Step::Take, *changed + terms.lease),
        },
    };
    let due = due.max(state.not_before);
    if due <= now {
        return step;
    }
    let give_up = state.renewed.map(|renewed| renewed + terms.give_up);
    Step::Wait(give_up.map_or(due, |give_up| give_up.min(due)))
}

impl Seen {
    /// What we know after reading the Lease at `now`. Another version of the same content (somebody's
    /// label) does not count as a change, or a busy annotator could keep a dead holder in office.
    #[must_use]
    pub fn after(&self, read: Option<Lease>, now: Instant) -> Self {
        match (read, self) {
            (None, Self::Present(lease, _)) if holder(lease).is_some() => Self::Absent(Some(now)),
            (None, Self::Absent(gone)) => Self::Absent(*gone),
            (None, Self::Present(..)) => Self::Absent(None), // it was released before
            (Some(lease), Self::Present(before, changed)) if lease.spec == before.spec => {
                Self::Present(Box::new(lease), *changed)
            }
            (Some(lease), _) => Self::Present(Box::new(lease), now),
        }
    }

    /// Whether `event`, from the watch, is older than what we know, as when our own write was answered
    /// before its event arrived. Versions that are no numbers are taken as news.
    pub fn is_newer_than(&self, event: &Lease) -> bool {
        let Self::Present(known, _) = self else { return false };
        version(known).zip(version(event)).is_some_and(|(known, event)| event < known)
    }
}

/// Who holds a Lease; nobody if it was released.
pub fn holder(lease: &Lease) -> Option<&str> {
    let holder = lease.spec.as_ref().and_then(|spec: &LeaseSpec| spec.holder_identity.as_deref());
    holder.filter(|name| !name.is_empty())
}

fn version(lease: &Lease) -> Option<u64> {
    lease.metadata.resource_version.as_deref()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lease(holder: Option<&str>, transitions: i32, version: &str) -> Lease {
        let mut lease = Lease::default();
        lease.metadata.resource_version = Some(version.to_owned());
        lease.spec = Some(LeaseSpec {
            holder_identity: holder.map(str::to_owned),
            lease_transitions: Some(transitions),
            ..LeaseSpec::default()
        });
        lease
    }

    fn held_by(holder: &str, at: Instant) -> Seen {
        Seen::Present(Box::new(lease(Some(holder), 0, "1")), at)
    }

    fn seconds(count: u64) -> Duration {
        Duration::from_secs(count)
    }

    const NOTHING: Seen = Seen::Absent(None);

    fn decide(renewed: Option<Instant>, seen: &Seen, now: Instant) -> Step {
        let state = State { renewed, not_before: now, stale: false };
        next("me", &Terms::default(), Duration::from_millis(300), state, seen, now)
    }

    #[test]
    fn anothers_lease_ends_when_we_have_not_seen_it_change() {
        let at = Instant::now();
        let seen = held_by("other", at);
        assert_eq!(decide(None, &seen, at + seconds(14)), Step::Wait(at + seconds(15)));
        assert_eq!(decide(None, &seen, at + seconds(15)), Step::Take);
    }

    #[test]
    fn a_released_lease_is_taken_after_the_jitter() {
        let at = Instant::now();
        let jitter = Duration::from_millis(300);
        for released in [None, Some("")] {
            let seen = Seen::Present(Box::new(lease(released, 0, "1")), at);
            assert_eq!(decide(None, &seen, at), Step::Wait(at + jitter));
            assert_eq!(decide(None, &seen, at + jitter), Step::Take);
        }
    }

    #[test]
    fn the_leader_renews_and_gives_up() {
        let at = Instant::now();
        let seen = held_by("me", at);
        assert_eq!(decide(Some(at), &seen, at + seconds(1)), Step::Wait(at + seconds(5)));
        assert_eq!(decide(Some(at), &seen, at + seconds(5)), Step::Take);
        assert_eq!(decide(Some(at), &seen, at + seconds(10)), Step::StepDown);
        // After a conflict it looks, but not beyond the same moment.
        let conflict = State { renewed: Some(at), not_before: at, stale: true };
        let decide = |now| next("me", &Terms::default(), Duration::ZERO, conflict, &seen, now);
        assert_eq!(decide(at + seconds(9)), Step::Look);
        assert_eq!(decide(at + seconds(10)), Step::StepDown);
    }

    #[test]
    fn a_leader_steps_down_for_another_and_when_the_lease_is_gone() {
        let at = Instant::now();
        assert_eq!(decide(Some(at), &held_by("other", at), at), Step::StepDown);
        assert_eq!(decide(Some(at), &Seen::Absent(Some(at)), at), Step::StepDown);
    }

    #[test]
    fn a_pause_after_a_failure_does_not_put_off_giving_up() {
        let at = Instant::now();
        let state = State { renewed: Some(at), not_before: at + seconds(11), stale: false };
        let decide = |now| next("me", &Terms::default(), Duration::ZERO, state, &held_by("me", at), now);
        assert_eq!(decide(at + seconds(6)), Step::Wait(at + seconds(10)));
        assert_eq!(decide(at + seconds(10)), Step::StepDown);
    }

    #[test]
    fn a_deleted_lease_is_not_made_anew_while_its_holder_may_go_on() {
        let at = Instant::now();
        assert_eq!(decide(None, &NOTHING.after(None, at), at), Step::Create);
        let released = Seen::Present(Box::new(lease(None, 0, "1")), at).after(None, at);
        assert_eq!(decide(None, &released, at), Step::Create);
        let gone = held_by("other", at).after(None, at + seconds(1));
        assert_eq!(decide(None, &gone, at + seconds(1)), Step::Wait(at + seconds(16)));
        let still = gone.after(None, at + seconds(9));
        assert_eq!(decide(None, &still, at + seconds(16)), Step::Create);
    }

    #[test]
    fn only_a_change_of_content_counts() {
        let at = Instant::now();
        let first = NOTHING.after(Some(lease(Some("other"), 0, "1")), at);
        let labelled = first.after(Some(lease(Some("other"), 0, "2")), at + seconds(9));
        assert!(matches!(&labelled, Seen::Present(lease, changed)
            if *changed == at && lease.metadata.resource_version.as_deref() == Some("2")));
        let renewed = labelled.after(Some(lease(Some("other"), 1, "3")), at + seconds(9));
        assert!(matches!(renewed, Seen::Present(_, changed) if changed == at + seconds(9)));
    }

    #[test]
    fn an_older_event_is_no_news() {
        let known = Seen::Present(Box::new(lease(Some("me"), 0, "10")), Instant::now());
        assert!(known.is_newer_than(&lease(None, 0, "9")));
        assert!(!known.is_newer_than(&lease(None, 0, "11")));
        assert!(!NOTHING.is_newer_than(&lease(None, 0, "9")));
    }

    #[test]
    fn a_write_ends_before_others_take_over() {
        assert_eq!(Terms::default().write_timeout(), seconds(4));
    }
}
