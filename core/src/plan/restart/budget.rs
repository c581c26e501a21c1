//! The places for restarts in the whole cluster: how many restarts are under way, which workloads wait for a
//! place, and which workload gets the next place. Places are fair between namespaces: five hundred workloads
//! of one namespace do not delay the only workload of a second namespace.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet, BinaryHeap},
};

use jiff::Timestamp;

use crate::{
    model::{WaitReason, World},
    names::WorkloadKey,
};

/// Our restarts under way: rollouts that are unfinished and not stuck, and restarts that were decided a
/// moment ago and that no watch has shown yet.
pub fn under_way(world: &World, now: Timestamp) -> BTreeSet<&WorkloadKey> {
    world.memory().under_way().at(Some(now), world.key())
}

/// The places for restarts (`--max-rollouts`), and which workloads hold them.
struct RolloutBudget<'w> {
    holders: BTreeSet<&'w WorkloadKey>,
    held: BTreeMap<&'w str, usize>,
    free: usize,
    /// The most places for one namespace: half, so that a namespace whose restarts do not end, or are not
    /// real, leaves as many places to all other namespaces.
    share: usize,
}

impl<'w> RolloutBudget<'w> {
    /// Without a current time, no restart is considered stuck, so perhaps no place is free.
    fn of(world: &'w World, now: Option<Timestamp>) -> Self {
        let share = world.settings().max_rollouts.div_ceil(2);
        let holders = world.memory().under_way().at(now, world.key());
        let mut held: BTreeMap<&str, usize> = BTreeMap::new();
        for key in &holders {
            *held.entry(&key.namespace).or_default() += 1;
        }
        let filled: usize = held.values().map(|count| share.min(*count)).sum();
        Self { holders, held, free: world.settings().max_rollouts.saturating_sub(filled), share }
    }

    fn held_by(&self, namespace: &str) -> usize {
        self.held.get(namespace).copied().unwrap_or_default()
    }

    fn free_for(&self, namespace: &str) -> usize {
        self.share.saturating_sub(self.held_by(namespace)).min(self.free)
    }
}

/// Whether the places let this workload restart now. A workload under way has a place already, such as for
/// its next pod if its pods are replaced one by one.
pub(super) fn has_place(world: &World, key: &WorkloadKey, now: Timestamp) -> bool {
    if world.settings().max_rollouts == 0 {
        return true;
    }
    let budget = RolloutBudget::of(world, Some(now));
    budget.holders.contains(key)
        || (is_near_the_front(world, key, budget.free_for(&key.namespace), now)
            && line(world, &budget, Some(key), now).contains(&key))
}

/// Whether fewer than `places` workloads of the same namespace have waited longer. This cheap check comes
/// first, since a status checks thousands of workloads.
fn is_near_the_front(world: &World, key: &WorkloadKey, places: usize, now: Timestamp) -> bool {
    let reason = WaitReason::Budget;
    let since = world.memory().workload(key).waits_since(reason).unwrap_or(now);
    let waiting = world.memory().waiting_for(reason, now);
    let before = waiting.filter(|(other, waiting)| {
        other.namespace == key.namespace && (waiting.since, *other) < (since, key)
    });
    before.take(places).count() < places
}

/// The waiting workloads that get a place now. Without a current time, no restart is considered stuck, so
/// perhaps no workload gets a place.
pub fn next_in_line(world: &World, now: Option<Timestamp>) -> Vec<WorkloadKey> {
    let time = now.unwrap_or(Timestamp::MIN);
    if world.memory().waiting_for(WaitReason::Budget, time).next().is_none() {
        return Vec::new();
    }
    line(world, &RolloutBudget::of(world, now), None, time).into_iter().cloned().collect()
}

/// The waiting workloads that get the free places. Each place is given to the namespace with the fewest
/// places, and in that namespace to the workload that has waited longest.
fn line<'w>(
    world: &'w World,
    budget: &RolloutBudget<'w>,
    newcomer: Option<&'w WorkloadKey>,
    now: Timestamp,
) -> Vec<&'w WorkloadKey> {
    if budget.free == 0 {
        return Vec::new();
    }
    let waiting = world.memory().waiting_for(WaitReason::Budget, now);
    let mut since: BTreeMap<&WorkloadKey, Timestamp> =
        waiting.map(|(key, waiting)| (key, waiting.since)).collect();
    if let Some(newcomer) = newcomer {
        since.entry(newcomer).or_insert(now);
    }
    let mut queues: BTreeMap<&str, BinaryHeap<Reverse<(Timestamp, &WorkloadKey)>>> = BTreeMap::new();
    for (key, since) in since {
        queues.entry(&key.namespace).or_default().push(Reverse((since, key)));
    }
    let mut heads: BinaryHeap<_> = queues
        .iter_mut()
        .filter_map(|(namespace, queue)| Some(Reverse((budget.held_by(namespace), queue.pop()?.0))))
        .collect();
    let mut chosen = Vec::new();
    while chosen.len() < budget.free
        && let Some(Reverse((held, (_, key)))) = heads.pop()
        && held < budget.share
    {
        chosen.push(key);
        let next = queues.get_mut(&*key.namespace).and_then(BinaryHeap::pop);
        heads.extend(next.map(|Reverse(next)| Reverse((held + 1, next))));
    }
    chosen
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::WorkloadKind;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn key(namespace: &str, name: &str) -> WorkloadKey {
        WorkloadKey { kind: WorkloadKind::Deployment, namespace: namespace.into(), name: name.into() }
    }

    fn waits(world: &mut World, key: &WorkloadKey, second: i64) {
        let reason = WaitReason::Budget;
        world.memory_mut().at_workload(key, |memory| memory.wait_for(reason, at(second)));
    }

    #[test]
    fn the_next_place_goes_to_the_namespace_with_the_fewest() {
        let mut world = World::default();
        world.settings_mut().max_rollouts = 5;
        let [big_1, big_2, big_3, small] =
            [key("big", "1"), key("big", "2"), key("big", "3"), key("small", "1")];
        assert!(has_place(&world, &big_1, at(0)));
        for one in [&big_1, &big_2, &key("third", "1"), &key("fourth", "1")] {
            world.memory_mut().reserve(one, "x", at(100));
        }
        assert!(has_place(&world, &big_1, at(1)), "it has one");
        assert!(has_place(&world, &big_3, at(1)), "nobody else wants it");
        waits(&mut world, &big_3, 1);
        waits(&mut world, &small, 2);
        assert!(!has_place(&world, &big_3, at(3)), "though it has waited longer");
        assert!(has_place(&world, &small, at(3)));
        assert_eq!(next_in_line(&world, Some(at(3))), std::slice::from_ref(&small));
        world.memory_mut().release(&big_1);
        assert_eq!(next_in_line(&world, Some(at(3))), [small.clone(), big_3.clone()]);
        world.memory_mut().reserve(&small, "x", at(100));
        world.memory_mut().at_workload(&small, |memory| memory.waits_no_more());
        world.memory_mut().reserve(&big_3, "x", at(100));
        assert!(!has_place(&world, &key("other", "1"), at(3)), "none is free");
        assert!(has_place(&world, &key("other", "1"), at(100)), "decisions that nobody has heard of");
        world.settings_mut().max_rollouts = 0;
        assert!(has_place(&world, &key("other", "1"), at(3)), "no limit");
    }

    #[test]
    fn a_namespace_holds_half_of_the_places_at_most_whatever_it_has_under_way() {
        let mut world = World::default();
        world.settings_mut().max_rollouts = 4;
        // More workloads are under way than places exist: any user who may write a workload can write its
        // record.
        for name in ["1", "2", "3", "4", "5"] {
            world.memory_mut().reserve(&key("hog", name), "x", at(100));
            waits(&mut world, &key("hog", &format!("next {name}")), 1);
        }
        let [web, api, db] = [key("victim", "web"), key("victim", "api"), key("victim", "db")];
        for one in [&web, &api, &db] {
            waits(&mut world, one, 2);
        }
        assert_eq!(next_in_line(&world, Some(at(3))), [api.clone(), db.clone()]);
        world.memory_mut().reserve(&api, "x", at(100));
        world.memory_mut().reserve(&db, "x", at(100));
        assert!(!has_place(&world, &web, at(3)), "all are taken");
        for name in ["1", "2", "3", "4"] {
            world.memory_mut().release(&key("hog", name));
        }
        assert!(!has_place(&world, &web, at(3)), "it has its half");
        assert_eq!(next_in_line(&world, Some(at(3))), [key("hog", "next 1")]);
        world.settings_mut().max_rollouts = 1;
        assert!(has_place(&world, &web, at(300)), "half of one place is one");
    }

    #[test]
    fn the_longest_wait_first_and_none_that_is_stale() {
        let mut world = World::default();
        world.settings_mut().max_rollouts = 1;
        let [early, late] = [key("shop", "z"), key("shop", "a")];
        waits(&mut world, &early, 1);
        waits(&mut world, &late, 2);
        assert_eq!(next_in_line(&world, Some(at(5))), std::slice::from_ref(&early));
        assert!(!has_place(&world, &late, at(5)));
        waits(&mut world, &late, 170);
        assert!(has_place(&world, &late, at(181)), "nobody can tell what has become of the other");
        assert_eq!(next_in_line(&world, None), [early], "without a time nothing is stale");
    }
}
