//! The places for restarts, among namespaces of which one keeps all that it gets and passes for more.

use std::collections::{BTreeMap, BTreeSet};

use copyrator::{
    api::WorkloadKind,
    digest::DigestKey,
    model::{RestartFields, Rollout, WaitReason, WorkloadFacts, World, digest_of},
    names::WorkloadKey,
    plan::restart::{next_in_line, under_way},
};
use jiff::Timestamp;
use proptest::prelude::*;

use super::{
    case,
    world::{at, digest_key},
};

const NOW: i64 = 100;
/// None of its restarts ends.
const HOG: &str = "n0";
/// Whose restarts are done as soon as anybody looks.
const OTHER: &str = "n1";
/// As long as a place is held, and as far ahead as the API server's clock may be.
const TEN_MINUTES: i64 = 600;

fn wait(world: &mut World, key: &WorkloadKey, now: i64) {
    world.memory_mut().at_workload(key, |memory| memory.wait_for(WaitReason::Budget, at(now)));
}

fn end_wait(world: &mut World, key: &WorkloadKey) {
    world.memory_mut().at_workload(key, |memory| memory.waits_no_more());
}

fn key(namespace: &str, name: usize) -> WorkloadKey {
    WorkloadKey { kind: WorkloadKind::Deployment, namespace: namespace.into(), name: name.to_string().into() }
}

fn held(world: &World, now: i64) -> BTreeMap<String, usize> {
    let mut held = BTreeMap::new();
    for key in under_way(world, at(now)) {
        *held.entry(key.namespace.to_string()).or_default() += 1;
    }
    held
}

proptest! {
    #[test]
    fn everybodys_turn_comes_whatever_one_namespace_holds(
        places in 2usize..12,
        forged in 0usize..20,
        waiting in prop::collection::vec((0usize..4, 1i64..NOW), 1..40),
    ) {
        let mut world = World::default();
        world.settings_mut().max_rollouts = places;
        let mut begun = BTreeSet::new();
        for number in 0..forged {
            world.memory_mut().reserve(&key(HOG, 1000 + number), "forged", Timestamp::MAX);
        }
        for (number, (namespace, since)) in waiting.iter().enumerate() {
            let key = key(&format!("n{namespace}"), number);
            for time in [*since, NOW] {
                wait(&mut world, &key, time);
            }
        }
        loop {
            let next = next_in_line(&world, Some(at(NOW)));
            for key in &next {
                end_wait(&mut world, key);
                world.memory_mut().reserve(key, "x", Timestamp::MAX);
                begun.insert(key.clone());
            }
            prop_assert!(next_in_line(&world, Some(at(NOW))).is_empty(), "a place was left free");
            let held = held(&world, NOW);
            let half = places.div_ceil(2);
            for (namespace, count) in &held {
                let most = if namespace == HOG { half.max(forged) } else { half };
                prop_assert!(*count <= most, "{namespace} holds {count} of {places}");
            }
            let filled: usize = held.values().map(|count| half.min(*count)).sum();
            prop_assert!(filled <= places, "{held:?} of {places}");
            // One that is not the hog's ends.
            let Some(ended) = begun.iter().find(|key| &*key.namespace != HOG).cloned() else { break };
            begun.remove(&ended);
            world.memory_mut().release(&ended);
        }
        let left: Vec<_> = world.memory().workloads().filter(|(key, _)| &*key.namespace != HOG).collect();
        prop_assert!(left.is_empty(), "{left:?} still wait");
    }
}

#[derive(Clone, Debug)]
enum Step {
    /// The hog writes our marks on one of its own workloads, as our field manager: with a key of ours or not, at a time that
    /// is so far from now.
    Forge(usize, bool, i64),
    /// A workload of either is due.
    Due(&'static str, usize),
    Pass(i64),
}

fn step() -> impl Strategy<Value = Step> {
    let said = prop_oneof![3 => Just(0), 1 => -2 * TEN_MINUTES..3 * TEN_MINUTES];
    prop_oneof![
        3 => (0usize..12, prop::bool::weighted(0.8), said).prop_map(|(name, ours, said)| Step::Forge(name, ours, said)),
        3 => (prop::sample::select(&[HOG, OTHER, OTHER][..]), 12usize..40).prop_map(|(place, name)| Step::Due(place, name)),
        2 => (1i64..400).prop_map(Step::Pass),
    ]
}

/// What is written on a workload that restarts for as long as its owner likes.
fn restarting(written: i64, key: &DigestKey) -> WorkloadFacts {
    let case = case(r#"{name: place, now: 100, expect: "", workload: {annotation: "true", desired: 1}}"#);
    let record = format!("{}.x.s", key.id());
    let restarts = RestartFields {
        restart: Some("true".to_owned()),
        restarted_for: Some(digest_of(&record).to_owned()),
        applied: Some(record),
        last_restart: Some(at(written)),
        recorded: Some(at(written)),
        ..RestartFields::default()
    };
    WorkloadFacts {
        restarts: restarts.into(),
        rollout: Rollout::Unfinished,
        own_deadline: true,
        templated: Some(at(written)),
        ..(*case.world().workloads()[&case.workload_key()]).clone()
    }
}

proptest! {
    /// Whatever marks one namespace forges, another's workload waits only while its own hold half of the places; and a
    /// place is held until ten minutes after the time that the marks say, which is at most one minute ahead.
    #[test]
    fn forged_marks_hold_half_of_the_places_and_ten_minutes(
        places in 2usize..12,
        steps in prop::collection::vec(step(), 1..80),
    ) {
        let mut world = World::default();
        world.set_key(digest_key());
        world.settings_mut().max_rollouts = places;
        let (mut now, mut due) = (10_000, BTreeSet::new());
        let mut written: BTreeMap<WorkloadKey, i64> = BTreeMap::new();
        for step in &steps {
            match step {
                Step::Forge(name, is_ours, said) => {
                    let forger = if *is_ours { digest_key() } else { DigestKey::new(b"another") };
                    world.set_workload(key(HOG, *name), restarting(now + said, &forger));
                    written.remove(&key(HOG, *name));
                    if *is_ours {
                        written.insert(key(HOG, *name), now + said);
                    }
                }
                Step::Due(place, name) => drop(due.insert(key(place, *name))),
                Step::Pass(seconds) => now += seconds,
            }
            due.iter().for_each(|key| wait(&mut world, key, now));
            for next in next_in_line(&world, Some(at(now))) {
                end_wait(&mut world, &next);
                due.remove(&next);
                world.set_workload(next.clone(), restarting(now, &digest_key()));
                written.insert(next, now);
            }
            for taken in under_way(&world, at(now)) {
                let since = written.get(taken).copied();
                let holds = |since: i64| since - 60 <= now && now < since + TEN_MINUTES;
                prop_assert!(since.is_some_and(holds), "{taken:?} {since:?} at {now}");
            }
            let held = held(&world, now);
            let others = held.get(OTHER).copied().unwrap_or_default();
            let waits = due.iter().any(|key| &*key.namespace == OTHER);
            prop_assert!(!waits || others >= places / 2, "of {places}, {held:?}, and {OTHER} waits");
            for done in written.keys().filter(|key| &*key.namespace == OTHER).cloned().collect::<Vec<_>>() {
                written.remove(&done);
                world.forget_workload(&done);
            }
        }
    }
}
