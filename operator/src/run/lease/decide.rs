//! The decision when a candidate may lead: a pure function, with the clock as an argument.
//!
//! A candidate considers a foreign lease expired when the candidate itself has not seen the lease change for
//! its duration; foreign timestamps are never compared with our clock. Our knowledge may be outdated, but
//! every write carries the resource version that we saw. With an old version the API server refuses the
//! write, and we read the Lease again: a wrong guess costs a request, and never makes a second leader.

use std::time::Duration;

use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use tokio::time::Instant;

use crate::config::LEASE_DURATION;

/// The durations of an election.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LeaseTimings {
    /// How long other candidates wait after the last change that they saw before they take over.
    pub lease: Duration,
    /// The time from one renewal to the next.
    pub renew: Duration,
    /// Time without a successful renewal after which the holder stops leading.
    pub give_up: Duration,
    /// The longest time that one call may take.
    pub call: Duration,
    /// The pause after a failed call.
    pub retry: Duration,
}

impl Default for LeaseTimings {
    fn default() -> Self {
        Self {
            lease: LEASE_DURATION,
            renew: Duration::from_secs(5),
            give_up: Duration::from_secs(10),
            call: Duration::from_secs(3),
            retry: Duration::from_secs(1),
        }
    }
}

/// The candidate's own state, according to its calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct State {
    /// While leading: when the last successful write was *begun*. Other candidates measure from a later time.
    pub renewed: Option<Instant>,
    /// The end of the pause after a failed call: no call is made before this time.
    pub not_before: Instant,
    /// Whether our knowledge may be outdated: the Lease was not read yet, or a write failed as a conflict.
    pub stale: bool,
}

/// The candidate's knowledge of the Lease.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum ObservedLease {
    /// No Lease has existed since this time; `None` if no former holder may still lead.
    Absent(Option<Instant>),
    /// The Lease as last read, unchanged since this time.
    Present(Box<Lease>, Instant),
}

/// The next step of a candidate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Read the Lease again.
    Read,
    /// Create the Lease, with this candidate as holder.
    Create,
    /// Replace the Lease, with this candidate as holder: to take or to renew it.
    Take,
    /// Stop leading at once.
    Resign,
    /// Do nothing before this time, unless the Lease changes.
    Wait(Instant),
}

/// Returns the next step of the candidate `me`. `jitter` is how long the candidate waits before taking a
/// released Lease, so that not all candidates write at the same moment.
pub(crate) fn next(
    me: &str,
    terms: &LeaseTimings,
    jitter: Duration,
    state: State,
    seen: &ObservedLease,
    now: Instant,
) -> Step {
    let ours = matches!(seen, ObservedLease::Present(lease, _) if holder(lease) == Some(me));
    if let Some(renewed) = state.renewed
        && (now >= renewed + terms.give_up || !(ours || state.stale))
    {
        return Step::Resign;
    }
    let (step, due) = match seen {
        _ if state.stale => (Step::Read, now),
        ObservedLease::Absent(None) => (Step::Create, now),
        // The Lease is gone, but its holder may not know this yet, and leads until the Lease would have
        // expired.
        ObservedLease::Absent(Some(gone)) => (Step::Create, *gone + terms.lease),
        ObservedLease::Present(..) if ours => (Step::Take, state.renewed.map_or(now, |at| at + terms.renew)),
        ObservedLease::Present(lease, changed) => match holder(lease) {
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

impl ObservedLease {
    /// Returns the knowledge after reading the Lease at `now`. A new version with the same spec (such as a
    /// new label) is not treated as a change; otherwise foreign writes could prolong a dead holder's lease.
    #[must_use]
    pub(crate) fn after(&self, read: Option<Lease>, now: Instant) -> Self {
        match (read, self) {
            (None, Self::Present(lease, _)) if holder(lease).is_some() => Self::Absent(Some(now)),
            (None, Self::Absent(gone)) => Self::Absent(*gone),
            (None, Self::Present(..)) => Self::Absent(None), // the holder had released it
            (Some(lease), Self::Present(before, changed)) if lease.spec == before.spec => {
                Self::Present(Box::new(lease), *changed)
            }
            (Some(lease), _) => Self::Present(Box::new(lease), now),
        }
    }

    /// Whether an `event` of the watch is older than our knowledge, for example if our own write was answered
    /// before its event arrived. Versions that are not numbers are treated as newer.
    pub(crate) fn is_newer_than(&self, event: &Lease) -> bool {
        let Self::Present(known, _) = self else { return false };
        version(known).zip(version(event)).is_some_and(|(known, event)| event < known)
    }
}

/// Returns the holder of a Lease; `None` if the Lease is released.
pub(crate) fn holder(lease: &Lease) -> Option<&str> {
    let holder = lease.spec.as_ref().and_then(|spec: &LeaseSpec| spec.holder_identity.as_deref());
    holder.filter(|name| !name.is_empty())
}

fn version(lease: &Lease) -> Option<u64> {
    lease.metadata.resource_version.as_deref()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::connect::WRITE_TIMEOUT;

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

    fn held_by(holder: &str, at: Instant) -> ObservedLease {
        ObservedLease::Present(Box::new(lease(Some(holder), 0, "1")), at)
    }

    fn seconds(count: u64) -> Duration {
        Duration::from_secs(count)
    }

    const NOTHING: ObservedLease = ObservedLease::Absent(None);

    fn decide(renewed: Option<Instant>, seen: &ObservedLease, now: Instant) -> Step {
        let state = State { renewed, not_before: now, stale: false };
        next("me", &LeaseTimings::default(), Duration::from_millis(300), state, seen, now)
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
            let seen = ObservedLease::Present(Box::new(lease(released, 0, "1")), at);
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
        assert_eq!(decide(Some(at), &seen, at + seconds(10)), Step::Resign);
        // After a conflict it reads the Lease, but not beyond the same moment.
        let conflict = State { renewed: Some(at), not_before: at, stale: true };
        let decide = |now| next("me", &LeaseTimings::default(), Duration::ZERO, conflict, &seen, now);
        assert_eq!(decide(at + seconds(9)), Step::Read);
        assert_eq!(decide(at + seconds(10)), Step::Resign);
    }

    #[test]
    fn a_leader_steps_down_for_another_and_when_the_lease_is_gone() {
        let at = Instant::now();
        assert_eq!(decide(Some(at), &held_by("other", at), at), Step::Resign);
        assert_eq!(decide(Some(at), &ObservedLease::Absent(Some(at)), at), Step::Resign);
    }

    #[test]
    fn a_pause_after_a_failure_does_not_put_off_giving_up() {
        let at = Instant::now();
        let state = State { renewed: Some(at), not_before: at + seconds(11), stale: false };
        let decide =
            |now| next("me", &LeaseTimings::default(), Duration::ZERO, state, &held_by("me", at), now);
        assert_eq!(decide(at + seconds(6)), Step::Wait(at + seconds(10)));
        assert_eq!(decide(at + seconds(10)), Step::Resign);
    }

    #[test]
    fn a_deleted_lease_is_not_made_anew_while_its_holder_may_go_on() {
        let at = Instant::now();
        assert_eq!(decide(None, &NOTHING.after(None, at), at), Step::Create);
        let released = ObservedLease::Present(Box::new(lease(None, 0, "1")), at).after(None, at);
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
        assert!(matches!(&labelled, ObservedLease::Present(lease, changed)
            if *changed == at && lease.metadata.resource_version.as_deref() == Some("2")));
        let renewed = labelled.after(Some(lease(Some("other"), 1, "3")), at + seconds(9));
        assert!(matches!(renewed, ObservedLease::Present(_, changed) if changed == at + seconds(9)));
    }

    #[test]
    fn an_older_event_is_no_news() {
        let known = ObservedLease::Present(Box::new(lease(Some("me"), 0, "10")), Instant::now());
        assert!(known.is_newer_than(&lease(None, 0, "9")));
        assert!(!known.is_newer_than(&lease(None, 0, "11")));
        assert!(!NOTHING.is_newer_than(&lease(None, 0, "9")));
    }

    #[test]
    fn a_write_that_began_with_a_valid_token_ends_a_second_before_others_take_over() {
        let LeaseTimings { lease, give_up, .. } = LeaseTimings::default();
        assert_eq!(WRITE_TIMEOUT, lease - give_up - seconds(1));
    }
}
