//! The places for restarts in the whole cluster: how many are under way, who waits for a place, and who gets the next
//! one. Fair between namespaces, so that five hundred workloads of one do not hold up the only one of another.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;

use super::brake::WaitReason;
use crate::model::{WorkloadKey, World};

/// The restarts of ours under way that pass the filter: rollouts that are unfinished and not stuck, and what was decided
/// a moment ago and no watch has told of yet.
pub fn under_way(
    world: &World,
    now: Timestamp,
    filter: impl Fn(&WorkloadKey) -> bool,
) -> BTreeSet<&WorkloadKey> {
    let mut keys = world.under_way.at(now);
    keys.retain(|key| filter(key));
    keys
}

/// Whether this workload may restart now, as far as places are concerned. One that is under way has a place already:
/// the next pod of a workload whose pods are replaced one by one.
pub fn has_place(world: &World, key: &WorkloadKey, now: Timestamp) -> bool {
    if world.max_rollouts == 0 {
        return true;
    }
    let taken = world.under_way.at(now);
    let free = world.max_rollouts.saturating_sub(taken.len());
    taken.contains(key)
        || (is_near_the_front(world, key, free, now)
            && line(world, &taken, free, Some(key), now).contains(&key))
}

/// Whether fewer than so many wait longer in its own namespace: asked first, since a status asks for thousands.
fn is_near_the_front(world: &World, key: &WorkloadKey, places: usize, now: Timestamp) -> bool {
    let reason = WaitReason::Budget.as_str();
    let since = world.waits.since(key, reason).unwrap_or(now);
    let waiting = world.waits.for_reason(reason, now);
    let before = waiting.filter(|(other, waiting)| {
        other.namespace == key.namespace && (waiting.since, *other) < (since, key)
    });
    before.take(places).count() < places
}

/// Who of those that wait for a place gets one now. Without a time nothing is stuck, and so perhaps nobody.
pub fn next_in_line(world: &World, now: Option<Timestamp>) -> Vec<WorkloadKey> {
    let now = now.unwrap_or(Timestamp::MIN);
    if world.waits.for_reason(WaitReason::Budget.as_str(), now).next().is_none() {
        return Vec::new();
    }
    let taken = world.under_way.at(now);
    let free = world.max_rollouts.saturating_sub(taken.len());
    if free == 0 {
        return Vec::new();
    }
    line(world, &taken, free, None, now).into_iter().cloned().collect()
}

/// The first so many in line: the next place always goes to the namespace with the fewest, there to whoever has waited
/// longest.
fn line<'w>(
    world: &'w World,
    taken: &BTreeSet<&WorkloadKey>,
    places: usize,
    newcomer: Option<&'w WorkloadKey>,
    now: Timestamp,
) -> Vec<&'w WorkloadKey> {
    let waiting = world.waits.for_reason(WaitReason::Budget.as_str(), now);
    let mut since: BTreeMap<&WorkloadKey, Timestamp> =
        waiting.map(|(key, waiting)| (key, waiting.since)).collect();
    if let Some(newcomer) = newcomer {
        since.entry(newcomer).or_insert(now);
    }
    let mut queues: BTreeMap<&str, Vec<(Timestamp, &WorkloadKey)>> = BTreeMap::new();
    for (key, since) in since {
        queues.entry(&key.namespace).or_default().push((since, key));
    }
    for queue in queues.values_mut() {
        // The last one is the first in line.
        queue.sort_by(|a, b| b.cmp(a));
    }
    let mut held: BTreeMap<&str, usize> = BTreeMap::new();
    for key in taken {
        *held.entry(&key.namespace).or_default() += 1;
    }
    let mut chosen = Vec::new();
    while chosen.len() < places {
        let count = |namespace: &str| held.get(namespace).copied().unwrap_or(0);
        let heads = queues.iter().filter_map(|(namespace, queue)| {
            let first = queue.last()?;
            Some((count(namespace), *first, *namespace))
        });
        let Some((_, (_, key), namespace)) = heads.min() else { break };
        queues.entry(namespace).or_default().pop();
        *held.entry(namespace).or_default() += 1;
        chosen.push(key);
    }
    chosen
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::WorkloadKind;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn key(namespace: &str, name: &str) -> WorkloadKey {
        WorkloadKey { kind: WorkloadKind::Deployment, namespace: namespace.into(), name: name.into() }
    }

    fn waits(world: &mut World, key: &WorkloadKey, second: i64) {
        world.waits.note(key, WaitReason::Budget.as_str(), at(second));
    }

    #[test]
    fn the_next_place_goes_to_the_namespace_with_the_fewest() {
        let mut world = World::default();
        world.max_rollouts = 3;
        let [big_1, big_2, big_3, small] =
            [key("big", "1"), key("big", "2"), key("big", "3"), key("small", "1")];
        assert!(has_place(&world, &big_1, at(0)));
        for one in [&big_1, &big_2] {
            world.under_way.reserve(one, "x", at(100));
        }
        assert!(has_place(&world, &big_1, at(1)), "it has one");
        assert!(has_place(&world, &big_3, at(1)), "nobody else wants it");
        waits(&mut world, &big_3, 1);
        waits(&mut world, &small, 2);
        assert!(!has_place(&world, &big_3, at(3)), "though it has waited longer");
        assert!(has_place(&world, &small, at(3)));
        assert_eq!(next_in_line(&world, Some(at(3))), std::slice::from_ref(&small));
        world.under_way.release(&big_1);
        assert_eq!(next_in_line(&world, Some(at(3))), [small.clone(), big_3.clone()]);
        world.under_way.reserve(&small, "x", at(100));
        world.waits.end(&small);
        world.under_way.reserve(&big_3, "x", at(100));
        assert!(!has_place(&world, &key("other", "1"), at(3)), "none is free");
        assert!(has_place(&world, &key("other", "1"), at(100)), "decisions that nobody has heard of");
        world.max_rollouts = 0;
        assert!(has_place(&world, &key("other", "1"), at(3)), "no limit");
    }

    #[test]
    fn the_longest_wait_first_and_none_that_is_stale() {
        let mut world = World::default();
        world.max_rollouts = 1;
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
