//! Whose keys come when: no tenant delays another one.

use futures::FutureExt;
use proptest::prelude::*;

use super::super::*;
use crate::names::{Declarer, InstanceName, Kind, ObjectKey};

fn of(tenant: &str) -> Tenant {
    Some(tenant.into())
}

fn rule(namespace: &str, number: usize) -> Key {
    Key::Rule(Declarer::rule(namespace, format!("r-{number:05}")))
}

fn slot(namespace: &str) -> Key {
    Key::Slot(ObjectKey::new(Kind::Secret, namespace, "app"))
}

fn next(queue: &Queue) -> Option<Key> {
    queue.next().now_or_never()
}

fn open(most: usize) -> Queue {
    let queue = Queue::new(Arc::new(Throttle::new(most)));
    queue.open();
    queue
}

/// The cost of a tenant's keys, in milliseconds, and how many it has at a time.
fn tenants() -> impl Strategy<Value = Vec<(u64, usize)>> {
    proptest::collection::vec((0..200u64, 1..40usize), 1..8)
}

proptest! {
    /// Others come again as soon as they have been looked at, cost what they like, and many of them are there before.
    #[test]
    fn every_key_of_a_light_tenant_has_its_turn_after_a_round_of_the_others(
        loud in tenants(),
        lane in prop_oneof![Just(Lane::NewNamespace), Just(Lane::Change), Just(Lane::Sweep)],
        before in 0..50usize,
        light in prop_oneof![Just("a-light"), Just("z-light")],
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
        runtime.block_on(async {
            let queue = open(1);
            let name = |tenant: usize| format!("loud-{tenant}");
            for (tenant, (_, keys)) in loud.iter().enumerate() {
                (0..*keys).for_each(|number| queue.add(rule(&name(tenant), number), lane));
            }
            let look = async || {
                let key = next(&queue).unwrap();
                if let Some(tenant) = (0..loud.len()).find(|tenant| key.namespace() == Some(name(*tenant).as_str())) {
                    tokio::time::advance(Duration::from_millis(loud[tenant].0)).await;
                    queue.add(key.clone(), lane);
                }
                queue.done(&key, Again::OnChange);
                key
            };
            for _ in 0..before {
                look().await;
            }
            for number in 0..5 {
                let wanted = rule(light, number);
                queue.add(wanted.clone(), lane);
                let mut others = 0;
                while look().await != wanted {
                    others += 1;
                }
                assert!(others <= loud.len(), "{others} of {} tenants came before", loud.len());
            }
        });
    }
}

/// A tenant's expressions took 50 ms each, and as many of them as of others' keys came in turn.
#[tokio::test(start_paused = true)]
async fn a_tenant_whose_keys_take_long_has_fewer_turns() {
    let queue = open(1);
    for number in 0..100 {
        queue.add(rule("costly", number), Lane::Change);
        queue.add(rule("cheap", number), Lane::Change);
    }
    let mut turns = BTreeMap::new();
    for _ in 0..50 {
        let key = next(&queue).unwrap();
        let tenant = key.namespace().unwrap().to_owned();
        tokio::time::advance(Duration::from_millis(if tenant == "costly" { 50 } else { 1 })).await;
        queue.done(&key, Again::OnChange);
        *turns.entry(tenant).or_insert(0) += 1;
    }
    assert_eq!(turns["costly"], 2, "{turns:?}");
}

/// One rule for a thousand namespaces stands in one line, and its keys keep standing there when they come back.
#[tokio::test(start_paused = true)]
async fn who_causes_keys_in_many_namespaces_pays_for_all_of_them() {
    let queue = open(16);
    let fan_out: Vec<Key> = (0..1000).map(|number| slot(&format!("target-{number:04}"))).collect();
    for key in &fan_out {
        queue.add_for(of("platform"), key.clone(), Lane::Change);
    }
    let first = next(&queue).unwrap();
    queue.add(slot("shop"), Lane::Change);
    assert_eq!(next(&queue), Some(slot("shop")));
    queue.done(&first, Again::After(Duration::from_secs(1)));
    // Of two tenants that ask for a key the one pays whose line is shorter.
    queue.add(fan_out[999].clone(), Lane::Change);
    assert_eq!(next(&queue), Some(fan_out[999].clone()));

    let mut waiting = 998;
    while let Some(key) = next(&queue) {
        queue.done(&key, Again::OnChange);
        waiting -= 1;
    }
    assert_eq!(waiting, 0);
    for key in &fan_out[1..100] {
        queue.add_for(of("platform"), key.clone(), Lane::Change);
    }
    tokio::time::advance(Duration::from_secs(1)).await;
    let _ = next(&queue).unwrap();
    queue.add(slot("other"), Lane::Change);
    assert_eq!(next(&queue), Some(slot("other")), "what came back stands in its tenant's line");
}

/// A tenant whose keys all hang would otherwise hold every worker.
#[tokio::test(start_paused = true)]
async fn a_tenant_holds_three_quarters_of_the_places_and_keeps_no_other_lane_waiting() {
    for lane in [Lane::NewNamespace, Lane::Change, Lane::Sweep] {
        for (places, most) in [(16, 12), (4, 3), (1, 1)] {
            let queue = open(places);
            (0..100).for_each(|number| queue.add(rule("loud", number), lane));
            let held = std::iter::from_fn(|| next(&queue)).count();
            assert_eq!(held, most, "{lane:?}, {places} places");
            queue.add(rule("quiet", 0), Lane::Sweep);
            assert_eq!(next(&queue).is_some(), most < places, "{lane:?}, {places} places");
        }
    }
}

/// As statuses, types are judged one at a time, and pods of two workloads are in memory together: what waits for that holds no worker, and
/// tenants have turns.
#[tokio::test(start_paused = true)]
async fn what_waits_for_a_scarce_place_holds_no_worker() {
    let queue = open(16);
    for number in 0..20 {
        queue.add(rule("loud", number), Lane::Change);
    }
    while let Some(key) = next(&queue) {
        if queue.lane_of(&key) == Some(Lane::Change) {
            queue.done(&key, Again::In(Lane::Pods));
        }
    }
    assert_eq!(queue.depth().0[Lane::Pods as usize], 19, "one of them has a place");
    queue.add(rule("quiet", 0), Lane::Change);
    let quiet = next(&queue).unwrap();
    assert_eq!((&quiet, queue.lane_of(&quiet)), (&rule("quiet", 0), Some(Lane::Change)));
    queue.done(&quiet, Again::In(Lane::Pods));
    assert_eq!(next(&queue), Some(quiet), "the second place is another tenant's");
    assert_eq!(next(&queue), None);
    // A change is not looked at twice; what is more urgent does not wait for the place.
    queue.add(rule("loud", 7), Lane::Change);
    assert_eq!(next(&queue), None);
    queue.add(rule("loud", 8), Lane::NewNamespace);
    assert_eq!(next(&queue), Some(rule("loud", 8)));
}

/// While the API server is busy, one key is looked at at a time: what waits for a scarce place and changes come in turn.
#[tokio::test(start_paused = true)]
async fn what_waits_for_a_scarce_place_keeps_no_change_waiting() {
    let queue = open(1);
    (0..20).for_each(|number| queue.add(rule("loud", number), Lane::Change));
    while queue.depth().0[Lane::Change as usize] > 0 {
        let key = next(&queue).unwrap();
        queue.done(&key, Again::In(Lane::Pods));
    }
    for number in 0..5 {
        queue.add(rule("quiet", number), Lane::Change);
        let mut others = 0;
        while let Some(key) = next(&queue)
            && key != rule("quiet", number)
        {
            others += 1;
            queue.done(&key, Again::In(Lane::Pods));
        }
        assert!(others <= 1, "{others}");
        queue.done(&rule("quiet", number), Again::OnChange);
    }
}

/// The line of a tenant waits whose expressions have used up its budget, in order, and no line of another one.
#[tokio::test(start_paused = true)]
async fn a_tenant_that_is_over_its_budget_waits_until_it_is_paid_back() {
    let queue = open(16);
    let rendering = |namespace: &str, number: usize| {
        Key::Rendering(Declarer::template(namespace, format!("t-{number}")), InstanceName::from("target"))
    };
    let budget = queue.expressions();
    budget.charge("loud", EXPRESSIONS.at_once + 1.0);
    assert!(queue.is_over_budget(&"loud".into()) && !queue.is_over_budget(&"quiet".into()));
    for number in 0..2 {
        queue.add(rendering("loud", number), Lane::Change);
        let key = next(&queue).unwrap();
        queue.done(&key, Again::In(Lane::OverBudget));
    }
    assert_eq!(next(&queue), None);
    let begun = Instant::now();
    let (first, at) = (queue.next().await, begun.elapsed());
    assert_eq!((first, at.as_secs()), (rendering("loud", 0), 4), "a quarter of a second comes back in each");
    assert!(
        queue.is_over_budget(&"loud".into()),
        "others of it wait, so the next one does not go before them"
    );
    budget.charge("loud", 1.0);
    assert_eq!(next(&queue), None);
    let _ = queue.next().await;
    assert_eq!(begun.elapsed().as_secs(), 8);
    assert!(!queue.is_over_budget(&"loud".into()));
}
