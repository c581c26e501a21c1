//! The keyed queue: a key waits at most once, runs at most once at a time, and comes back when it asked to.
//! New namespaces go before changes, changes before the sweep.

use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    hash::{DefaultHasher, Hash, Hasher},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::{sync::Notify, time::Instant};

use super::throttle::Throttle;
use crate::plan::Key;

/// How urgent a key is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Lane {
    /// A namespace that has just appeared waits for its objects.
    NewNamespace,
    /// Something has changed.
    Change,
    /// A regular look.
    Sweep,
}

/// When a key is looked at again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Again {
    /// When something changes.
    OnChange,
    /// After this long at the latest.
    After(Duration),
    /// It failed: after a backoff that doubles from failure to failure, with jitter; not before the given time.
    Backoff(Option<Duration>),
    /// It was refused for good reason: slowly.
    Refused,
}

const LEAST_BACKOFF: Duration = Duration::from_millis(20);
const FIRST_BACKOFF: Duration = Duration::from_millis(100);
const LONGEST_BACKOFF: Duration = Duration::from_secs(300);
/// How often what was refused is tried again.
const REFUSED_AGAIN: Duration = Duration::from_secs(300);
/// New namespaces have so many workers of their own, beside what the throttle lets through.
pub const NEW_NAMESPACE_LANE: usize = 8;

#[derive(Default)]
struct Inner {
    open: bool,
    lanes: [VecDeque<Key>; 3],
    waiting: HashMap<Key, Waiting>,
    running: HashMap<Key, Running>,
    later: BTreeMap<(Instant, u64), Key>,
    later_of: HashMap<Key, (Instant, u64)>,
    failures: HashMap<Key, u32>,
    tickets: u64,
}

/// In which lane, and since when.
#[derive(Clone, Copy)]
struct Waiting {
    lane: Lane,
    since: Instant,
}

struct Running {
    again: Option<Lane>,
    lane: Lane,
    since: Instant,
}

/// The keyed queue.
#[derive(Default)]
pub struct Queue {
    inner: Mutex<Inner>,
    wake: Notify,
    throttle: Arc<Throttle>,
}

impl std::fmt::Debug for Queue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Queue{:?}", self.depth())
    }
}

impl Queue {
    /// Lets so much be under way as the throttle says.
    pub fn new(throttle: Arc<Throttle>) -> Self {
        Self { throttle, ..Self::default() }
    }

    /// Takes keys from now on.
    pub fn open(&self) {
        self.lock().open = true;
    }

    /// Takes none any more and forgets those it has: whoever leads next looks at everything.
    pub fn close(&self) {
        let mut inner = self.lock();
        let running = std::mem::take(&mut inner.running);
        *inner = Inner { running, ..Inner::default() };
    }

    /// Looks at a key soon.
    pub fn add(&self, key: Key, lane: Lane) {
        if self.lock().add(key, lane) {
            self.wake.notify_one();
        }
    }

    /// Looks at all of these, authorities before what waits for them.
    pub fn sweep(&self, keys: impl IntoIterator<Item = Key>) {
        for key in keys {
            let lane = match key {
                Key::Rule(_) | Key::Monitor(_) => Lane::Change,
                _ => Lane::Sweep,
            };
            self.add(key, lane);
        }
    }

    /// Looks at a key after `delay`, unless it is looked at before.
    pub fn add_later(&self, key: Key, delay: Duration) {
        self.lock().add_later(key, Instant::now() + delay);
        self.wake.notify_one();
    }

    /// Looks at a key no sooner than after `delay` and no later than the time it is already due.
    pub fn add_by(&self, key: Key, delay: Duration) {
        let mut inner = self.lock();
        if !inner.waiting.contains_key(&key) && !inner.later_of.contains_key(&key) {
            inner.add_later(key, Instant::now() + delay);
            drop(inner);
            self.wake.notify_one();
        }
    }

    /// The next key; waits for one.
    pub async fn next(&self) -> Key {
        loop {
            let woken = self.wake.notified();
            let due = {
                let mut inner = self.lock();
                inner.ripen(Instant::now());
                let pause = self.throttle.pause();
                if pause.is_none()
                    && let Some(key) = inner.take(self.throttle.limit())
                {
                    if inner.lanes.iter().any(|lane| !lane.is_empty()) {
                        self.wake.notify_one();
                    }
                    return key;
                }
                pause.or_else(|| inner.later.keys().next().map(|(due, _)| *due))
            };
            match due {
                Some(due) => {
                    tokio::select! {
                        () = woken => {}
                        () = tokio::time::sleep_until(due) => {}
                    }
                }
                None => woken.await,
            }
        }
    }

    /// A key has been looked at.
    pub fn done(&self, key: &Key, again: Again) {
        let mut inner = self.lock();
        let Some(running) = inner.running.remove(key) else { return };
        if matches!(again, Again::Backoff(_)) {
            *inner.failures.entry(key.clone()).or_default() += 1;
        } else {
            inner.failures.remove(key);
        }
        let failures = inner.failures.get(key).copied().unwrap_or_default();
        let delay = match again {
            Again::OnChange => None,
            Again::After(delay) => Some(delay),
            Again::Backoff(least) => Some(backoff(key, failures).max(least.unwrap_or_default())),
            Again::Refused => Some(REFUSED_AGAIN),
        };
        match (running.again, delay) {
            // A change that came in meanwhile is looked at at once, but for a key that keeps failing.
            (Some(lane), delay) if !matches!(again, Again::Backoff(_)) || delay.is_none() => {
                inner.add(key.clone(), lane);
            }
            (_, Some(delay)) => inner.add_later(key.clone(), Instant::now() + delay),
            (_, None) => {}
        }
        drop(inner);
        self.wake.notify_one();
    }

    /// Whether nothing waits but the sweep, and something may be sent.
    pub fn is_calm(&self) -> bool {
        let ([new, change, _], _) = self.depth();
        new + change == 0 && self.throttle.pause().is_none()
    }

    /// How many keys wait, by lane, and how many are being looked at.
    pub fn depth(&self) -> ([usize; 3], usize) {
        let inner = self.lock();
        (std::array::from_fn(|lane| inner.lanes[lane].len()), inner.running.len())
    }

    /// How long the first key of each lane has waited.
    pub fn ages(&self) -> [Duration; 3] {
        let inner = self.lock();
        [Lane::NewNamespace, Lane::Change, Lane::Sweep].map(|lane| {
            let waits = |key| inner.waiting.get(key).filter(|waiting| waiting.lane == lane);
            let first = inner.lanes[lane as usize].iter().find_map(waits);
            first.map_or(Duration::ZERO, |waiting| waiting.since.elapsed())
        })
    }

    /// How long ago somebody asked for a key that is being looked at.
    pub fn waited(&self, key: &Key) -> Duration {
        self.lock().running.get(key).map_or(Duration::ZERO, |running| running.since.elapsed())
    }

    /// What bounds how much is under way.
    pub fn throttle(&self) -> &Throttle {
        &self.throttle
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    fn add(&mut self, key: Key, lane: Lane) -> bool {
        if !self.open {
            return false;
        }
        if let Some(running) = self.running.get_mut(&key) {
            running.again = Some(running.again.map_or(lane, |other| other.min(lane)));
            return false;
        }
        if let Some(at) = self.later_of.remove(&key) {
            self.later.remove(&at);
        }
        match self.waiting.get(&key) {
            Some(other) if other.lane <= lane => false,
            other => {
                // An older entry in a slower lane is skipped when its turn comes.
                let since = other.map_or_else(Instant::now, |other| other.since);
                self.waiting.insert(key.clone(), Waiting { lane, since });
                self.lanes[lane as usize].push_back(key);
                true
            }
        }
    }

    fn add_later(&mut self, key: Key, at: Instant) {
        if !self.open || self.waiting.contains_key(&key) {
            return;
        }
        if let Some(known) = self.later_of.get(&key).copied() {
            if known.0 <= at {
                return;
            }
            self.later.remove(&known);
        }
        self.tickets += 1;
        let at = (at, self.tickets);
        self.later.insert(at, key.clone());
        self.later_of.insert(key, at);
    }

    fn ripen(&mut self, now: Instant) {
        while let Some(entry) = self.later.first_entry() {
            if entry.key().0 > now {
                break;
            }
            let key = entry.remove();
            self.later_of.remove(&key);
            self.add(key, Lane::Change);
        }
    }

    /// The next key, where no more than `limit` are to be under way; new namespaces have a few workers beside, and
    /// while they wait nothing else is begun.
    fn take(&mut self, limit: usize) -> Option<Key> {
        let bulk = self.running.values().filter(|running| running.lane != Lane::NewNamespace).count();
        let new = self.running.len() - bulk;
        let own = NEW_NAMESPACE_LANE.min(limit).max(limit.saturating_sub(bulk));
        let open = match self.lanes[Lane::NewNamespace as usize].is_empty() {
            false if new < own => &[Lane::NewNamespace][..],
            true if bulk < limit => &[Lane::Change, Lane::Sweep],
            _ => &[],
        };
        for &lane in open {
            while let Some(key) = self.lanes[lane as usize].pop_front() {
                if let Some(Waiting { since, .. }) =
                    self.waiting.get(&key).filter(|it| it.lane == lane).copied()
                {
                    self.waiting.remove(&key);
                    self.running.insert(key.clone(), Running { again: None, lane, since });
                    return Some(key);
                }
            }
        }
        None
    }
}

/// At most 200 ms, doubling to 5 minutes, and any part of it by the key's hash (full jitter), so that many that failed
/// together do not come back together; but not at once.
fn backoff(key: &Key, failures: u32) -> Duration {
    let most = FIRST_BACKOFF.saturating_mul(2 << failures.saturating_sub(1).min(12)).min(LONGEST_BACKOFF);
    let mut hasher = DefaultHasher::new();
    (key, failures).hash(&mut hasher);
    most.mul_f64((hasher.finish() % 1000) as f64 / 1000.0).max(LEAST_BACKOFF)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::model::{Kind, NamespacedName, ObjectKey, WorkloadKey, WorkloadKind};

    fn key(name: &str) -> Key {
        Key::Policy(name.into())
    }

    /// A namespace is provisioned before its first pods need it, whatever else is being copied (reflector#282: pods began
    /// without their pull secret; imagepullsecret-patcher#10).
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
        assert_eq!(
            [queue.next().await, queue.next().await, queue.next().await],
            [key("c"), key("b"), key("a")]
        );
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
        let named = |name: &str| NamespacedName::new("shop", name);
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
        assert_eq!(queue.depth(), ([0, 0, 0], 1));
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
            delays.fold((LONGEST_BACKOFF * 2, Duration::ZERO), |(least, most), it| {
                (least.min(it), most.max(it))
            })
        };
        for (failures, most) in [(1, 200), (2, 400), (5, 3_200), (40, 300_000)] {
            let (earliest, latest) = of_many(failures);
            let most = Duration::from_millis(most);
            assert!(LEAST_BACKOFF <= earliest && earliest < most / 5, "{failures}: {earliest:?}");
            assert!(most.mul_f64(0.9) < latest && latest <= most, "{failures}: {latest:?}");
        }
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
        assert!(
            next.iter().all(|key| matches!(key, Key::Policy(name) if name.starts_with("new"))),
            "{next:?}"
        );
        assert_eq!(next.len(), 1);
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
}
