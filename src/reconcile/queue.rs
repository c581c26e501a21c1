//! The keyed queue: a key waits at most once, runs at most once at a time, and comes back when it asked to.
//! New namespaces go before changes, changes before the sweep.

use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    hash::{DefaultHasher, Hash, Hasher},
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::{sync::Notify, time::Instant};

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

const FIRST_BACKOFF: Duration = Duration::from_millis(100);
const LONGEST_BACKOFF: Duration = Duration::from_secs(300);
/// How often what was refused is tried again.
const REFUSED_AGAIN: Duration = Duration::from_secs(300);
/// Of the workers, so many at most do anything but new namespaces: more in flight only adds latency
/// (measured: the rate is flat from 16 on).
const BULK_WORKERS: usize = 16;

#[derive(Default)]
struct Inner {
    open: bool,
    lanes: [VecDeque<Key>; 3],
    waiting: HashMap<Key, Lane>,
    running: HashMap<Key, Running>,
    later: BTreeMap<(Instant, u64), Key>,
    later_of: HashMap<Key, (Instant, u64)>,
    failures: HashMap<Key, u32>,
    tickets: u64,
}

struct Running {
    again: Option<Lane>,
    lane: Lane,
}

/// The keyed queue.
#[derive(Default)]
pub struct Queue {
    inner: Mutex<Inner>,
    wake: Notify,
}

impl std::fmt::Debug for Queue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Queue{:?}", self.depth())
    }
}

impl Queue {
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
                if let Some(key) = inner.take() {
                    if inner.lanes.iter().any(|lane| !lane.is_empty()) {
                        self.wake.notify_one();
                    }
                    return key;
                }
                inner.later.keys().next().map(|(due, _)| *due)
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

    /// How many keys wait, by lane, and how many are being looked at.
    pub fn depth(&self) -> ([usize; 3], usize) {
        let inner = self.lock();
        (std::array::from_fn(|lane| inner.lanes[lane].len()), inner.running.len())
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
            Some(other) if *other <= lane => false,
            _ => {
                // An older entry in a slower lane is skipped when its turn comes.
                self.waiting.insert(key.clone(), lane);
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

    fn take(&mut self) -> Option<Key> {
        let bulk = self.running.values().filter(|running| running.lane != Lane::NewNamespace).count();
        let open_lanes = if bulk >= BULK_WORKERS { 1 } else { 3 };
        for lane in [Lane::NewNamespace, Lane::Change, Lane::Sweep].into_iter().take(open_lanes) {
            while let Some(key) = self.lanes[lane as usize].pop_front() {
                if self.waiting.get(&key) == Some(&lane) {
                    self.waiting.remove(&key);
                    self.running.insert(key.clone(), Running { again: None, lane });
                    return Some(key);
                }
            }
        }
        None
    }
}

/// 100 ms, doubling to 5 minutes, and up to a fifth more by the key's hash, so that many that failed together do
/// not come back together.
fn backoff(key: &Key, failures: u32) -> Duration {
    let base = FIRST_BACKOFF.saturating_mul(1 << failures.saturating_sub(1).min(12)).min(LONGEST_BACKOFF);
    let mut hasher = DefaultHasher::new();
    (key, failures).hash(&mut hasher);
    base + base.mul_f64((hasher.finish() % 1000) as f64 / 5000.0)
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
        assert!(backoff(&key("a"), 3) > backoff(&key("a"), 1));
        assert!(backoff(&key("a"), 40) <= LONGEST_BACKOFF.mul_f64(1.2));
    }
}
