//! In what order keys come, and when.

mod fairness;

use proptest::prelude::*;

use super::*;
use crate::{
    api::WorkloadKind,
    names::{Declarer, Kind, ObjectKey, WorkloadKey},
};

fn key(name: &str) -> Key {
    Key::Policy(name.into())
}

/// A namespace is provisioned before its first pods need it, whatever else is being copied (reflector#282:
/// pods began without their pull secret; imagepullsecret-patcher#10).
#[tokio::test]
async fn a_key_waits_once_and_new_namespaces_go_first() {
    let queue = Queue::default();
    queue.add(key("lost"), Lane::Change);
    queue.open();
    for (name, lane) in
        [("a", Lane::Sweep), ("b", Lane::Change), ("a", Lane::Change), ("c", Lane::NewNamespace)]
    {
        queue.add(key(name), lane);
    }
    assert_eq!([queue.next().await, queue.next().await, queue.next().await], [key("c"), key("b"), key("a")]);
    assert_eq!(queue.depth().1, 3);
}

proptest! {
    /// Else statuses would say at each start that nobody has been asked, and then take it back.
    #[test]
    fn authorities_come_before_what_waits_for_them(keys in Just(all_sorts()).prop_shuffle()) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let taken = runtime.block_on(async {
            let queue = Queue::default();
            queue.open();
            queue.sweep(keys.clone());
            let mut taken = Vec::new();
            for _ in &keys {
                taken.push(queue.next().await);
                queue.done(&taken[taken.len() - 1], Again::OnChange);
            }
            taken
        });
        let is_authority = |key: &Key| matches!(key, Key::Rule(_) | Key::Monitor(_));
        let first: Vec<bool> = taken.iter().map(is_authority).collect();
        prop_assert!(first.is_sorted_by(|one, next| one >= next), "{taken:?}");
    }
}

fn all_sorts() -> Vec<Key> {
    let named = |name: &str| Declarer::rule("shop", name);
    let slot = |name: &str| Key::Slot(ObjectKey::new(Kind::Secret, "shop", name));
    let workload =
        WorkloadKey { kind: WorkloadKind::Deployment, namespace: "shop".into(), name: "web".into() };
    vec![
        slot("a"),
        slot("b"),
        Key::Rule(named("a")),
        Key::Rule(named("b")),
        Key::Monitor(named("a")),
        Key::RuleStatus(named("a")),
        Key::MonitorStatus(named("a")),
        Key::Workload(workload),
        key("policy"),
        Key::Hooks,
    ]
}

#[tokio::test]
async fn a_change_during_a_run_is_not_lost() {
    let queue = Queue::default();
    queue.open();
    queue.add(key("a"), Lane::Change);
    let running = queue.next().await;
    queue.add(key("a"), Lane::Change);
    assert_eq!(queue.depth(), ([0; LANES], 1));
    queue.done(&running, Again::OnChange);
    assert_eq!(queue.next().await, key("a"));
}

#[tokio::test(start_paused = true)]
async fn failures_come_back_later_and_later() {
    let queue = Queue::default();
    queue.open();
    queue.add(key("a"), Lane::Change);
    for _ in 0..3 {
        let running = queue.next().await;
        queue.done(&running, Again::Backoff(None));
    }
    let of_many = |failures| {
        let delays = (0..200).map(|name| backoff(&key(&name.to_string()), failures));
        delays.fold((LONGEST_BACKOFF * 2, Duration::ZERO), |(least, most), it| (least.min(it), most.max(it)))
    };
    for (failures, most) in [(1, 200), (2, 400), (5, 3_200), (40, 300_000)] {
        let (earliest, latest) = of_many(failures);
        let most = Duration::from_millis(most);
        assert!(LEAST_BACKOFF <= earliest && earliest < most / 5, "{failures}: {earliest:?}");
        assert!(most.mul_f64(0.9) < latest && latest <= most, "{failures}: {latest:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn of_several_delays_the_soonest_counts_and_a_change_ends_the_wait() {
    let queue = Queue::default();
    queue.open();
    for (name, seconds) in [("a", 30), ("b", 20), ("a", 10), ("a", 40), ("c", 50)] {
        queue.add_later(key(name), Duration::from_secs(seconds));
    }
    queue.add_by(key("b"), Duration::from_secs(5));
    queue.add(key("c"), Lane::Change);
    let began = Instant::now();
    for (name, seconds) in [("c", 0), ("a", 10), ("b", 20)] {
        let next = queue.next().await;
        assert_eq!((&next, began.elapsed().as_secs()), (&key(name), seconds));
        queue.done(&next, Again::OnChange);
    }
    let more = tokio::time::timeout(Duration::from_secs(3600), queue.next()).await;
    assert!(more.is_err(), "nobody waits any more: {more:?}");
}

/// What is taken from a queue of so many changes and objects of new namespaces.
async fn taken(queue: &Queue, at_most: usize) -> Vec<Key> {
    let mut taken = Vec::new();
    while taken.len() < at_most {
        let next = tokio::time::timeout(Duration::from_millis(1), queue.next()).await;
        let Ok(key) = next else { break };
        taken.push(key);
    }
    taken
}

#[tokio::test(start_paused = true)]
async fn new_namespaces_have_a_lane_of_their_own_and_nothing_else_begins_meanwhile() {
    let queue = Queue::new(Arc::new(Throttle::new(16)));
    queue.open();
    let add = |word: &str, lane, number: usize| {
        (0..number).for_each(|one| queue.add(key(&format!("{word}{one}")), lane));
    };
    add("change", Lane::Change, 100);
    let changes = taken(&queue, 100).await;
    assert_eq!(changes.len(), 16);
    add("new", Lane::NewNamespace, 20);
    let new = taken(&queue, 100).await;
    assert_eq!(new.len(), 8);
    // A change that is done makes room for the new namespaces only.
    queue.done(&changes[0], Again::OnChange);
    assert_eq!(taken(&queue, 100).await.len(), 0, "nine beside fifteen is more than their lane");
    queue.done(&new[0], Again::OnChange);
    let next = taken(&queue, 100).await;
    assert!(next.iter().all(|key| matches!(key, Key::Policy(name) if name.starts_with("new"))), "{next:?}");
    assert_eq!(next.len(), 1);
}

/// Each looks at everything of its rule, and would hold up the rest if all of them did so together.
#[tokio::test(start_paused = true)]
async fn statuses_are_made_one_after_the_other_and_not_too_late() {
    let queue = Queue::new(Arc::new(Throttle::new(16)));
    queue.open();
    let status = |name: &str| Key::RuleStatus(Declarer::rule("shop", name));
    (0..3).for_each(|one| queue.add(status(&one.to_string()), Lane::NewNamespace));
    (0..4).for_each(|one| queue.add(key(&one.to_string()), Lane::Change));
    let first = taken(&queue, 100).await;
    let is_status = |key: &&Key| matches!(key, Key::RuleStatus(_));
    assert_eq!((first.len(), first.iter().filter(is_status).count()), (5, 1));
    assert!(is_status(&&first[4]), "after what has changed: {first:?}");
    tokio::time::advance(STATUS_WAITS).await;
    (4..8).for_each(|one| queue.add(key(&one.to_string()), Lane::Change));
    queue.done(&first[4], Again::OnChange);
    let next = taken(&queue, 1).await;
    assert!(is_status(&&next[0]), "{next:?}");
}

#[tokio::test(start_paused = true)]
async fn a_busy_api_server_gets_less_and_during_a_pause_nothing() {
    let throttle = Arc::new(Throttle::new(16));
    let queue = Queue::new(throttle.clone());
    queue.open();
    (0..100).for_each(|one| queue.add(key(&one.to_string()), Lane::Change));
    throttle.busy(Some(Duration::from_secs(3)));
    queue.add(key("new"), Lane::NewNamespace);
    assert_eq!(taken(&queue, 100).await, [], "no lane is open");
    tokio::time::advance(Duration::from_secs(3)).await;
    assert_eq!(taken(&queue, 100).await.len(), 1 + 8);
}

#[test]
fn a_key_that_is_looked_at_regularly_waits_no_longer_but_a_failed_one_keeps_its_backoff() {
    let hour = Duration::from_secs(3_600);
    let sooner = Duration::from_secs(60);
    for (again, within) in [
        (Again::OnChange, Again::After(hour)),
        (Again::After(sooner), Again::After(sooner)),
        (Again::After(2 * hour), Again::After(hour)),
        (Again::Backoff(None), Again::Backoff(None)),
        (Again::Refused, Again::Refused),
    ] {
        assert_eq!(again.within(hour), within);
    }
}
