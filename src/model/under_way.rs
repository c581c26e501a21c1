//! Restarts of ours that are under way: those that the workloads show, and those decided a moment ago, which no watch
//! has told of yet. Kept as an index, since every restart that is due asks how many there are.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;

use super::{WorkloadFacts, WorkloadKey};

/// Restarts of ours under way.
#[derive(Debug, Default)]
pub struct UnderWay {
    /// Unfinished restarts of ours, and when each counts as stuck, where the clock alone tells.
    rolling: BTreeMap<WorkloadKey, Option<Timestamp>>,
    reserved: BTreeMap<WorkloadKey, Reserved>,
}

/// A restart that was decided.
#[derive(Clone, Debug)]
struct Reserved {
    label: String,
    until: Timestamp,
}

impl UnderWay {
    /// The workloads whose restart is under way, in order. One that is stuck is not: it may never end.
    pub fn at(&self, now: Timestamp) -> BTreeSet<&WorkloadKey> {
        let is_stuck = |deadline: &Option<Timestamp>| deadline.is_some_and(|deadline| deadline <= now);
        let rolling = self.rolling.iter().filter(|(_, deadline)| !is_stuck(deadline));
        let reserved = self.reserved.iter().filter(|(_, reserved)| reserved.until > now);
        rolling.map(|(key, _)| key).chain(reserved.map(|(key, _)| key)).collect()
    }

    /// Whether a restart of this workload was decided a moment ago, and no watch has told of it yet.
    pub fn is_reserved(&self, key: &WorkloadKey, now: Timestamp) -> bool {
        self.reserved.get(key).is_some_and(|reserved| reserved.until > now)
    }

    /// Counts a restart as under way from now on, for this content as it will be recorded: until the watch shows it, it
    /// is released, or this time has come. To be called under the lock under which it was decided.
    pub fn reserve(&mut self, key: &WorkloadKey, label: &str, until: Timestamp) {
        self.reserved.insert(key.clone(), Reserved { label: label.to_owned(), until });
    }

    /// Nothing came of a reserved restart, or it is over.
    pub fn release(&mut self, key: &WorkloadKey) {
        self.reserved.remove(key);
    }

    /// Drops reservations that are over.
    pub fn expire(&mut self, now: Timestamp) {
        self.reserved.retain(|_, reserved| reserved.until > now);
    }

    /// Takes in how a workload stands, or that it has gone.
    pub(super) fn see(&mut self, key: &WorkloadKey, facts: Option<&WorkloadFacts>) {
        match facts.and_then(WorkloadFacts::under_way) {
            Some(deadline) => drop(self.rolling.insert(key.clone(), deadline)),
            None => drop(self.rolling.remove(key)),
        }
        // From here on its facts tell.
        let is_seen =
            |reserved: &Reserved| facts.is_none_or(|facts| facts.applied.as_ref() == Some(&reserved.label));
        if self.reserved.get(key).is_some_and(is_seen) {
            self.reserved.remove(key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Rollout, WorkloadKind, World};

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn facts(content: &str, rollout: Rollout, own_deadline: bool) -> WorkloadFacts {
        WorkloadFacts {
            applied: Some(format!("k.{content}.s")),
            restarted_for: Some(format!("k.{content}")),
            last_restart: Some(at(100)),
            templated: Some(at(100)),
            recorded: Some(at(100)),
            rollout,
            own_deadline,
            ..WorkloadFacts::plain()
        }
    }

    #[test]
    fn a_place_is_taken_from_the_decision_until_the_rollout_ends_or_is_stuck() {
        let mut world = World::default();
        let key =
            WorkloadKey { kind: WorkloadKind::StatefulSet, namespace: "shop".into(), name: "db".into() };
        let count = |world: &World, second| world.under_way.at(at(second)).len();
        world.set_workload(key.clone(), Some(facts("old", Rollout::Complete, false)));
        assert_eq!(count(&world, 100), 0);
        world.under_way.reserve(&key, "k.new.s", at(110));
        assert_eq!(
            (count(&world, 109), count(&world, 110)),
            (1, 0),
            "nobody holds a place by a write that is lost"
        );
        // The watch tells of something else first.
        world.set_workload(key.clone(), Some(facts("old", Rollout::Complete, false)));
        assert_eq!(count(&world, 109), 1);
        world.set_workload(key.clone(), Some(facts("new", Rollout::Unfinished, false)));
        assert_eq!((count(&world, 699), count(&world, 700)), (1, 0), "ten minutes");
        world.set_workload(key.clone(), Some(facts("new", Rollout::Unfinished, true)));
        assert_eq!(count(&world, 9000), 1, "a Deployment says itself when it is stuck");
        world.set_workload(key.clone(), Some(facts("new", Rollout::Complete, false)));
        assert_eq!(count(&world, 109), 0, "the reservation went when the watch told of it");
        let somebody_elses =
            WorkloadFacts { templated: Some(at(101)), ..facts("new", Rollout::Unfinished, true) };
        world.set_workload(key.clone(), Some(somebody_elses));
        assert_eq!(count(&world, 109), 0);
        world.under_way.reserve(&key, "k.newer.s", at(110));
        world.set_workload(key.clone(), None);
        assert_eq!(count(&world, 109), 0, "it is gone");
    }
}
