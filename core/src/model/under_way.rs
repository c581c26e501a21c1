//! The restarts of ours that are under way: restarts that workloads show, and recently decided restarts that
//! no watch has reported yet. The restarts are indexed, since every due restart needs their number.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};

use super::{WorkloadFacts, progress::DEADLINE};
use crate::{digest::DigestKey, names::WorkloadKey};

/// A restart's time comes from the API server, whose clock may be this far ahead of ours.
const AHEAD: SignedDuration = SignedDuration::from_mins(1);

/// Restarts of ours under way.
#[derive(Debug, Default)]
pub struct UnderWay {
    /// Unfinished restarts, according to their workloads.
    rolling: BTreeMap<WorkloadKey, Restart>,
    /// Restarts that were decided and not yet reported by a watch.
    reserved: BTreeMap<WorkloadKey, Restart>,
}

/// The recorded content of a restart, and the latest time until which the restart is under way.
#[derive(Clone, Debug)]
struct Restart {
    label: String,
    until: Timestamp,
}

impl UnderWay {
    /// The workloads whose restart is under way at this time, in order. Without a time argument, the result
    /// includes restarts that have taken too long.
    ///
    /// A workload's record is used only if the record names our key and a plausible time: any user who can
    /// write the workload can forge both.
    pub fn at(&self, now: Option<Timestamp>, key: Option<&DigestKey>) -> BTreeSet<&WorkloadKey> {
        let lasts = |restart: &Restart| now.is_none_or(|now| restart.until > now);
        let longest = DEADLINE.saturating_add(AHEAD);
        let can_be = |restart: &Restart| now.is_none_or(|now| restart.until.duration_since(now) <= longest);
        let is_ours = |restart: &Restart| key.is_some_and(|key| key.is_named_in(&restart.label));
        let rolling = self.rolling.iter().filter(|(_, one)| lasts(one) && can_be(one) && is_ours(one));
        let reserved = self.reserved.iter().filter(|(_, one)| lasts(one));
        rolling.chain(reserved).map(|(key, _)| key).collect()
    }

    /// Whether a restart of this workload was decided a moment ago and not yet reported by a watch.
    pub fn is_reserved(&self, key: &WorkloadKey, now: Timestamp) -> bool {
        self.reserved.get(key).is_some_and(|reserved| reserved.until > now)
    }

    /// Treats a restart as under way for this content, as it will be recorded, until the watch reports the
    /// restart, the restart is released, or `until` has passed. Call `reserve` under the lock under which the
    /// restart was decided.
    pub fn reserve(&mut self, key: &WorkloadKey, label: &str, until: Timestamp) {
        self.reserved.insert(key.clone(), Restart { label: label.to_owned(), until });
    }

    /// Ends a reservation: the restart did not happen, or is over.
    pub fn release(&mut self, key: &WorkloadKey) {
        self.reserved.remove(key);
    }

    /// Drops the reservations that have ended by `now`.
    pub fn expire(&mut self, now: Timestamp) {
        self.reserved.retain(|_, reserved| reserved.until > now);
    }

    /// Updates the restarts from a workload's facts, or from its deletion.
    pub(super) fn see(&mut self, key: &WorkloadKey, facts: Option<&WorkloadFacts>) {
        let until = facts.and_then(WorkloadFacts::takes_place_until);
        let label = facts.and_then(|facts| facts.restarts.applied.clone());
        match label.zip(until) {
            Some((label, until)) => drop(self.rolling.insert(key.clone(), Restart { label, until })),
            None => drop(self.rolling.remove(key)),
        }
        // Once a watch has reported the restart, the workload's own facts decide.
        let is_seen = |reserved: &Restart| {
            facts.is_none_or(|facts| facts.restarts.applied.as_ref() == Some(&reserved.label))
        };
        if self.reserved.get(key).is_some_and(is_seen) {
            self.reserved.remove(key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        api::WorkloadKind,
        model::{RestartFields, Rollout, World, digest_of},
    };

    fn digest_key() -> DigestKey {
        DigestKey::new(&[7; DigestKey::LENGTH])
    }

    fn record(content: &str) -> String {
        format!("{}.{content}.s", digest_key().id())
    }

    fn count(world: &World, second: i64) -> usize {
        world.memory().under_way().at(Some(at(second)), Some(&digest_key())).len()
    }

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn db() -> WorkloadKey {
        WorkloadKey { kind: WorkloadKind::StatefulSet, namespace: "shop".into(), name: "db".into() }
    }

    fn facts(content: &str, rollout: Rollout, own_deadline: bool) -> WorkloadFacts {
        let restarts = RestartFields {
            applied: Some(record(content)),
            restarted_for: Some(digest_of(&record(content)).to_owned()),
            last_restart: Some(at(100)),
            recorded: Some(at(100)),
            ..RestartFields::default()
        };
        WorkloadFacts {
            restarts: restarts.into(),
            templated: Some(at(100)),
            rollout,
            own_deadline,
            ..WorkloadFacts::plain()
        }
    }

    #[test]
    fn a_place_is_taken_from_the_decision_until_the_rollout_ends_or_for_ten_minutes() {
        let (mut world, key) = (World::default(), db());
        world.set_workload(key.clone(), facts("old", Rollout::Complete, false));
        assert_eq!(count(&world, 100), 0);
        world.memory_mut().reserve(&key, &record("new"), at(110));
        assert_eq!(
            (count(&world, 109), count(&world, 110)),
            (1, 0),
            "nobody holds a place by a write that is lost"
        );
        // The watch reports a different change of the workload first.
        world.set_workload(key.clone(), facts("old", Rollout::Complete, false));
        assert_eq!(count(&world, 109), 1);
        world.set_workload(key.clone(), facts("new", Rollout::Unfinished, false));
        assert_eq!((count(&world, 699), count(&world, 700)), (1, 0), "ten minutes");
        world.set_workload(key.clone(), facts("new", Rollout::Unfinished, true));
        assert_eq!((count(&world, 699), count(&world, 700)), (1, 0), "though its own deadline is a day");
        assert_eq!(
            world.memory().under_way().at(None, Some(&digest_key())).len(),
            1,
            "without a time nothing is over"
        );
        world.set_workload(key.clone(), facts("new", Rollout::Complete, false));
        assert_eq!(count(&world, 109), 0, "the reservation went when the watch told of it");
        let somebody_elses =
            WorkloadFacts { templated: Some(at(101)), ..facts("new", Rollout::Unfinished, true) };
        world.set_workload(key.clone(), somebody_elses);
        assert_eq!(count(&world, 109), 0);
        world.memory_mut().reserve(&key, &record("newer"), at(110));
        world.forget_workload(&key);
        assert_eq!(count(&world, 109), 0, "it is gone");
    }

    #[test]
    fn what_anybody_can_write_takes_no_place_without_our_key_nor_from_the_future() {
        let (mut world, key) = (World::default(), db());
        let ours = facts("new", Rollout::Unfinished, true);
        let mut forged = ours.clone();
        forged.restarts.applied = Some("a.b.c".into());
        forged.restarts.restarted_for = Some("a.b".into());
        let written_at = |second| {
            let mut facts = ours.clone();
            facts.restarts.last_restart = Some(at(second));
            facts
        };
        let (ahead, from_the_future) = (written_at(161), written_at(162));
        for (facts, expected) in [(ours.clone(), 1), (forged, 0), (ahead, 1), (from_the_future, 0)] {
            assert!(facts.restarted_by_us(), "as far as the workload says");
            world.set_workload(key.clone(), facts);
            assert_eq!(count(&world, 101), expected);
        }
    }
}
