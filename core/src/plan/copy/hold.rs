//! Delays a due write if the last attempt was refused recently, or if another writer keeps changing the same
//! object. Without the delay, two writers who each correct one object would answer each other for ever.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use super::{
    guard::judged_by,
    intent::Intent,
    problem::{CopyProblem, ProblemReason},
    slot_plan::CopyWrite,
};
use crate::{
    marks::write_time,
    model::{Attempt, ObjectFacts, Repairs, World, WriteFault},
    names::{Declarer, ObjectKey},
    plan::at_after,
};

/// The longest time until the API server is asked again about a missing right, or a refused write is tried
/// again.
pub const AGAIN: Duration = Duration::from_secs(300);
/// The first wait of a write that an admission policy, a webhook or a quota refused. The wait grows with the
/// time since the first refusal.
const FIRST_TRY: Duration = Duration::from_secs(1);
/// The longest wait while few writes are refused. No event reports that a quota was raised or a policy
/// deleted, and trying again needs no right.
const FEW: Duration = Duration::from_secs(30);
/// The time between two tries of all refused writes that one namespace's rules and templates declare.
const APART: Duration = Duration::from_millis(500);
/// With this many refused writes, each waits for the longest wait.
const MANY: usize = 600;
/// The longest wait of a write that succeeds only after a change of another object, text or definition: the
/// interval of the sweep.
const LATER: Duration = Duration::from_secs(3600);
/// This many writes of one content to one slot within [`CALM`] mean that another writer keeps undoing ours.
const REPAIRS: u32 = 10;
/// After this long without a repair, the count begins again.
pub(super) const CALM: SignedDuration = SignedDuration::from_secs(60);
/// Time between two creations of a copy that somebody keeps deleting. The time is short, since anybody may
/// create a foreign object in the empty slot.
const MADE_AGAIN: Duration = Duration::from_secs(1);
/// First wait for a slot that another writer changes, too; each further wait is twice as long.
const FIRST_WAIT: Duration = Duration::from_secs(10);
const LONGEST_WAIT: Duration = Duration::from_secs(300);

/// Why the write is delayed, and until when.
pub(super) fn held(
    world: &World,
    slot: &ObjectKey,
    existing: Option<&ObjectFacts>,
    intent: &Intent,
    now: Timestamp,
) -> Option<(CopyProblem, Timestamp)> {
    let refused = last_attempt(world, slot, existing, intent).filter(|last| !last.replace);
    let waits = |last: &&Attempt| now < last.retry_at && last.retry_at <= at_after(now, last.every);
    if let Some(last) = refused.filter(waits) {
        return Some((refused_problem(world, slot, last), last.retry_at));
    }
    let repairs =
        world.memory().slot(slot).repairs().filter(|repairs| repairs.digest == intent.marks.digest)?;
    let until = match existing {
        Some(_) => contested_until(repairs, now)?,
        None => {
            let until = at_after(repairs.made_at, MADE_AGAIN);
            Some(until).filter(|until| repairs.made >= REPAIRS && now < *until)?
        }
    };
    Some((contested(slot, existing), until))
}

/// Until when the reconciler does not change the existing object again, after too many changes.
pub(super) fn contested_until(repairs: &Repairs, now: Timestamp) -> Option<Timestamp> {
    let until = repairs.not_before?;
    (now < until && until <= at_after(now, LONGEST_WAIT)).then_some(until)
}

/// Whether the reconciler changed the existing object too often.
pub(super) fn is_fought(repairs: &Repairs) -> bool {
    repairs.not_before.is_some()
}

/// Why a write has failed, and whether the object has to be created again.
pub(super) struct Failure {
    pub(super) replace: bool,
    pub(super) reason: WriteFault,
    pub(super) message: String,
}

/// The record of a failed write, after the record of the previous write.
pub(super) fn attempted(
    world: &World,
    slot: &ObjectKey,
    write: &CopyWrite,
    Failure { replace, reason, message }: Failure,
    before: Option<&Attempt>,
    now: Timestamp,
) -> Attempt {
    let version = write.replaces.as_ref().map(|version| {
        let known = world.object(slot).filter(|facts| facts.resource_version == version.resource_version);
        known.map_or(&*version.resource_version, ObjectFacts::edition).into()
    });
    let marks = &write.intent.marks;
    let is_same =
        |before: &&Attempt| before.version == version && before.digest.as_deref() == Some(&marks.digest);
    let since = before.filter(is_same).map_or(now, |before| before.since);
    let (wait, every) = pace(world, &marks.rule, reason, now.duration_since(since).unsigned_abs());
    Attempt {
        version,
        digest: Some(marks.digest.clone()),
        replace,
        reason,
        message,
        rule: Some(marks.rule.clone()),
        since,
        retry_at: at_after(now, wait),
        every,
        judged_by: (reason == WriteFault::RefusedByPolicy).then(|| judged_by(world, slot)),
    }
}

/// The wait of a write that was refused for this long, if no change makes it due earlier; and the longest
/// wait.
fn pace(world: &World, rule: &Declarer, reason: WriteFault, refused_for: Duration) -> (Duration, Duration) {
    match reason {
        // The queue's own backoff is enough.
        WriteFault::Forbidden | WriteFault::Failed => (Duration::ZERO, AGAIN),
        WriteFault::TooLarge => (LATER, LATER),
        // A foreign mutating policy may have made the object invalid, and may be deleted.
        WriteFault::Unfit | WriteFault::Mistyped | WriteFault::HeldBack => {
            (refused_for.clamp(AGAIN, LATER), LATER)
        }
        // The write is tried at once when the policies change.
        WriteFault::RefusedByPolicy => (AGAIN, AGAIN),
        WriteFault::Refused | WriteFault::NoRoom | WriteFault::RoomHeld | WriteFault::Conflict => {
            let is_theirs = |attempt: &Attempt| {
                attempt.may_pass()
                    && attempt.rule.as_ref().is_some_and(|it| it.namespace() == rule.namespace())
            };
            let others =
                world.memory().attempts().filter(|(_, attempt)| is_theirs(attempt)).take(MANY).count();
            let share = APART.saturating_mul(u32::try_from(others + 1).unwrap_or(u32::MAX));
            let every = if share <= FEW { FEW } else { whole_minutes(share).min(AGAIN) };
            (refused_for.clamp(FIRST_TRY.max(share).min(every), every), every)
        }
    }
}

fn whole_minutes(time: Duration) -> Duration {
    Duration::from_secs(time.as_secs().div_ceil(60) * 60)
}

/// The last attempt, if it was for this very content over this very version.
pub(super) fn last_attempt<'w>(
    world: &'w World,
    slot: &ObjectKey,
    existing: Option<&ObjectFacts>,
    intent: &Intent,
) -> Option<&'w Attempt> {
    let version = existing.map(ObjectFacts::edition);
    let last = world.memory().slot(slot).attempt()?;
    if last.judged_by.is_some_and(|by| by != judged_by(world, slot)) {
        return None;
    }
    (last.version.as_deref() == version && last.digest.as_ref() == Some(&intent.marks.digest)).then_some(last)
}

/// The problem that the last attempt ended with, and the time of the next attempt.
pub(super) fn refused_problem(world: &World, slot: &ObjectKey, last: &Attempt) -> CopyProblem {
    let said = &last.message;
    let message = match (last.reason, last.every) {
        // The reconciler tries the write again soon.
        (WriteFault::Failed | WriteFault::Forbidden, _) => said.clone(),
        (_, LATER) => {
            format!(
                "{said}; Copyrator tries again when the object or its source changes, and otherwise at growing intervals of up to one hour"
            )
        }
        (_, every) if every < Duration::from_secs(60) => {
            format!("{said}; Copyrator tries again every {} seconds", every.as_secs())
        }
        (_, every) => format!("{said}; Copyrator tries again every {} minutes", every.as_secs() / 60),
    };
    let predecessor = predecessor(world, slot, last).unwrap_or_default();
    CopyProblem::fault(slot, last.reason, message + &predecessor)
}

/// Names the object that the same rule or template has left beside the refused object: the old object may use
/// up a port or quota that the refused object needs.
fn predecessor(world: &World, slot: &ObjectKey, last: &Attempt) -> Option<String> {
    let may_hold = last.reason.lacks_room() && last.version.is_none();
    let rule = last.rule.as_ref().filter(|_| may_hold)?;
    let goes = |facts: &ObjectFacts| {
        let marks = facts.marks.as_deref().filter(|marks| marks.rule == *rule);
        marks.is_some_and(|marks| marks.remove_after.is_some() || facts.deletion.is_some())
    };
    let mut beside = world.objects_in(slot.kind, &slot.namespace).filter(|(key, _)| *key != slot);
    let (other, facts) = beside.find(|(_, facts)| goes(facts))?;
    let until = facts.marks.as_deref().and_then(|marks| marks.remove_after);
    let until = until.map(|time| format!(" until {}", write_time(time))).unwrap_or_default();
    Some(format!(
        ", and at once when {other} is deleted: {} still keeps that object{until}, and it may use a port or quota that this object needs",
        rule.said()
    ))
}

/// The repairs of a slot, with one more write of this content, which created the copy or changed the existing
/// object.
pub(super) fn repaired(before: Option<Repairs>, digest: &str, made: bool, now: Timestamp) -> Repairs {
    let recent = before.filter(|repairs| repairs.digest == digest && !is_over(repairs, now));
    let before = recent.unwrap_or_else(|| Repairs::none(digest, now));
    if made {
        return Repairs { made: before.made.saturating_add(1), made_at: now, ..before };
    }
    let count = before.count.saturating_add(1);
    let wait = |times: u32| FIRST_WAIT.saturating_mul(1 << times.min(16)).min(LONGEST_WAIT);
    let not_before = count.checked_sub(REPAIRS).map(|times| at_after(now, wait(times)));
    Repairs { count, not_before, ..before }
}

/// The time from which the slot is calm without a write: when counting began, or when a delayed write may be
/// made.
pub(super) fn calm_from(repairs: &Repairs) -> Timestamp {
    repairs.not_before.unwrap_or(repairs.since)
}

/// Whether a slot has been left alone long enough to forget its repairs.
pub fn is_over(repairs: &Repairs, now: Timestamp) -> bool {
    now.duration_since(calm_from(repairs).max(repairs.made_at)) > CALM
}

fn contested(slot: &ObjectKey, existing: Option<&ObjectFacts>) -> CopyProblem {
    let managers =
        existing.and_then(|facts| facts.ownership.as_deref()).map_or(&[][..], |owned| &owned.others);
    let who = match managers {
        [] => "another writer".to_owned(),
        [name] => format!("another writer ({name})"),
        names => format!("one of its other writers ({})", names.join(", ")),
    };
    let message = format!(
        "{who} changes or removes this object repeatedly, so Copyrator restores it less and less often: stop the other writer, or exclude \
         the namespace"
    );
    CopyProblem::new(slot, ProblemReason::Contested, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    /// The seconds of our writes against a writer who undoes each at once.
    fn fought(until: i64) -> Vec<i64> {
        let (mut repairs, mut writes): (Option<Repairs>, Vec<i64>) = (None, Vec::new());
        for second in 0..until {
            let waits =
                repairs.as_ref().is_some_and(|it| it.not_before.is_some_and(|next| at(second) < next));
            if !waits {
                repairs = Some(repaired(repairs, "d", false, at(second)));
                writes.push(second);
            }
        }
        writes
    }

    #[test]
    fn a_writer_that_is_answered_again_and_again_waits_longer_and_longer() {
        let writes = fought(3600);
        assert_eq!(writes[..10], [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
        let gaps: Vec<i64> = writes[9..].windows(2).map(|pair| pair[1] - pair[0]).collect();
        assert_eq!(gaps[..6], [10, 20, 40, 80, 160, 300]);
        assert!(gaps[6..].iter().all(|gap| *gap == 300), "{gaps:?}");
    }

    /// If deletions delayed us, somebody could delete a copy again and again and put another object in its
    /// place.
    #[test]
    fn a_missing_copy_is_made_again_within_a_second_whatever_else_is_fought_over() {
        let mut repairs = None;
        for second in 0..100 {
            for made in [true, false] {
                repairs = Some(repaired(repairs, "d", made, at(second)));
            }
        }
        let repairs: Repairs = repairs.unwrap();
        assert_eq!((repairs.made, repairs.count, repairs.made_at), (100, 100, at(99)));
        assert!(repairs.not_before > Some(at(300)), "what is there is changed ever more slowly");
    }

    #[test]
    fn repairs_now_and_then_and_new_content_are_no_fight() {
        let mut repairs = None;
        for minute in 0..100 {
            repairs = Some(repaired(repairs, "d", false, at(minute * 61)));
            assert_eq!(repairs.as_ref().unwrap().count, 1);
        }
        for second in 0..20 {
            repairs = Some(repaired(repairs, &second.to_string(), false, at(10_000 + second)));
            assert_eq!(repairs.as_ref().unwrap().count, 1);
        }
        let fought =
            (0..20).fold(None, |repairs, second| Some(repaired(repairs, "d", false, at(second)))).unwrap();
        let next = fought.not_before.unwrap();
        assert!(!is_over(&fought, next) && is_over(&fought, at(next.as_second() + 61)));
    }
}
