//! The keyed queue: a key waits at most once, runs at most once at a time, and comes back when it asked to.
//! New namespaces go before changes, changes before the sweep.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    hash::{DefaultHasher, Hash, Hasher},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::{sync::Notify, time::Instant};

use crate::{cluster::Throttle, plan::Key};

/// How urgent a key is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Lane {
    /// A namespace that has just appeared waits for its objects.
    NewNamespace,
    /// Something has changed, and is looked at before the sweep.
    Change,
    /// A regular look at everything, after all changes.
    Sweep,
    /// What there is to say of a rule or monitor, whatever lane it was asked for in: it looks at all of their
    /// copies or workloads, and takes a processor for that. Such keys run one after the other, so that
    /// nothing else waits for them.
    Status,
}

const LANES: usize = 4;
/// Statuses come after changes, but not for ever.
const STATUS_WAITS: Duration = Duration::from_secs(1);

/// When a key is looked at again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Again {
    /// Only when something changes.
    OnChange,
    /// After this long at the latest.
    After(Duration),
    /// It failed: after a backoff that doubles from failure to failure, with jitter; not before the given
    /// time.
    Backoff(Option<Duration>),
    /// It was refused for good reason: slowly.
    Refused,
    /// Nothing was decided: it waits on in its lane, for as long as it has waited.
    AsBefore,
}

impl Again {
    /// The same, but at the latest after this long.
    pub(super) fn within(self, most: Duration) -> Self {
        match self {
            Self::OnChange => Self::After(most),
            Self::After(wait) => Self::After(wait.min(most)),
            other @ (Self::Backoff(_) | Self::Refused | Self::AsBefore) => other,
        }
    }
}

const LEAST_BACKOFF: Duration = Duration::from_millis(20);
const FIRST_BACKOFF: Duration = Duration::from_millis(100);
const LONGEST_BACKOFF: Duration = Duration::from_secs(300);
/// For how many keys an empty lane keeps room.
const ROOM_KEPT: usize = 1024;
/// How often what was refused is tried again.
const REFUSED_AGAIN: Duration = Duration::from_secs(300);
/// New namespaces have so many workers of their own, beside what the throttle lets through.
pub(crate) const NEW_NAMESPACE_LANE: usize = 8;

#[derive(Default)]
struct Inner {
    open: bool,
    lanes: [VecDeque<Key>; LANES],
    /// Trees: after a sweep of everything a hash table would keep its room.
    waiting: BTreeMap<Key, Waiting>,
    running: BTreeMap<Key, Running>,
    /// When each delayed key is due, and the same in order.
    due: BTreeMap<Key, Instant>,
    delayed: BTreeSet<(Instant, Key)>,
    failures: BTreeMap<Key, u32>,
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

/// The queue of keys: each waits at most once, and runs at most once at a time.
#[derive(Default)]
pub(crate) struct Queue {
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
    pub(crate) fn new(throttle: Arc<Throttle>) -> Self {
        Self { throttle, ..Self::default() }
    }

    /// Takes keys from now on.
    pub(crate) fn open(&self) {
        self.lock().open = true;
    }

    /// Takes no more keys and forgets those it has: the next leader looks at everything.
    pub(crate) fn close(&self) {
        let mut inner = self.lock();
        let running = std::mem::take(&mut inner.running);
        *inner = Inner { running, ..Inner::default() };
    }

    /// Looks at a key soon.
    pub(crate) fn add(&self, key: Key, lane: Lane) {
        if self.lock().add(key, lane) {
            self.wake.notify_one();
        }
    }

    /// Looks at all of these, authorities before what waits for them.
    pub(crate) fn sweep(&self, keys: impl IntoIterator<Item = Key>) {
        for key in keys {
            let lane = match key {
                Key::Rule(_) | Key::Monitor(_) => Lane::Change,
                _ => Lane::Sweep,
            };
            self.add(key, lane);
        }
    }

    /// Looks at a key after `delay`, unless it is looked at before.
    pub(crate) fn add_later(&self, key: Key, delay: Duration) {
        self.lock().add_later(key, Instant::now() + delay);
        self.wake.notify_one();
    }

    /// Looks at a key no sooner than after `delay` and no later than the time it is already due.
    pub(crate) fn add_by(&self, key: Key, delay: Duration) {
        let mut inner = self.lock();
        if !inner.waiting.contains_key(&key) && !inner.due.contains_key(&key) {
            inner.add_later(key, Instant::now() + delay);
            drop(inner);
            self.wake.notify_one();
        }
    }

    /// Whether keys are taken, which is so while we lead.
    pub(crate) fn is_open(&self) -> bool {
        self.lock().open
    }

    /// The next key; waits for one. None is taken while `is_held`, which is asked with the queue unlocked: what waits keeps its lane
    /// and its time. [`Self::resume`] says that this may be over.
    pub(crate) async fn next(&self, is_held: impl Fn() -> bool) -> Key {
        loop {
            let woken = self.wake.notified();
            let due = if is_held() {
                None
            } else {
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
                pause.or_else(|| inner.delayed.first().map(|(due, _)| *due))
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

    /// Has a worker look whether keys are still held.
    pub(crate) fn resume(&self) {
        self.wake.notify_one();
    }

    /// A key has been looked at.
    pub(crate) fn done(&self, key: &Key, again: Again) {
        let mut inner = self.lock();
        let Some(running) = inner.running.remove(key) else { return };
        if again == Again::AsBefore {
            inner.put_back(key.clone(), running);
            drop(inner);
            return self.wake.notify_one();
        }
        if matches!(again, Again::Backoff(_)) {
            *inner.failures.entry(key.clone()).or_default() += 1;
        } else {
            inner.failures.remove(key);
        }
        let failures = inner.failures.get(key).copied().unwrap_or_default();
        let delay = match again {
            Again::OnChange | Again::AsBefore => None,
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
    pub(crate) fn is_calm(&self) -> bool {
        let ([new, change, ..], _) = self.depth();
        new + change == 0 && self.throttle.pause().is_none()
    }

    /// Whether a key waits its turn or is being looked at; not where it comes back later.
    pub(crate) fn is_at(&self, key: &Key) -> bool {
        let inner = self.lock();
        inner.waiting.contains_key(key) || inner.running.contains_key(key)
    }

    /// How many keys wait, by lane, and how many are being looked at.
    pub(crate) fn depth(&self) -> ([usize; LANES], usize) {
        let inner = self.lock();
        (std::array::from_fn(|lane| inner.lanes[lane].len()), inner.running.len())
    }

    /// How long the first key of each lane has waited.
    pub(crate) fn ages(&self) -> [Duration; LANES] {
        let inner = self.lock();
        [Lane::NewNamespace, Lane::Change, Lane::Sweep, Lane::Status].map(|lane| inner.age(lane))
    }

    /// How long ago somebody asked for a key that is being looked at.
    pub(crate) fn waited(&self, key: &Key) -> Duration {
        self.lock().running.get(key).map_or(Duration::ZERO, |running| running.since.elapsed())
    }

    /// Whether a key is being looked at for the sweep alone.
    pub(crate) fn is_swept(&self, key: &Key) -> bool {
        self.lock().running.get(key).is_some_and(|running| running.lane == Lane::Sweep)
    }

    /// What bounds how much is under way.
    pub(crate) fn throttle(&self) -> &Throttle {
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
        let lane = match key {
            Key::RuleStatus(_) | Key::MonitorStatus(_) => Lane::Status,
            _ => lane,
        };
        if let Some(running) = self.running.get_mut(&key) {
            running.again = Some(running.again.map_or(lane, |other| other.min(lane)));
            return false;
        }
        self.forget_delay(&key);
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

    fn put_back(&mut self, key: Key, Running { again, lane, since }: Running) {
        if self.open {
            let lane = again.map_or(lane, |again| again.min(lane));
            self.forget_delay(&key);
            self.waiting.insert(key.clone(), Waiting { lane, since });
            self.lanes[lane as usize].push_front(key);
        }
    }

    fn add_later(&mut self, key: Key, at: Instant) {
        let is_due_before = self.due.get(&key).is_some_and(|due| *due <= at);
        if !self.open || self.waiting.contains_key(&key) || is_due_before {
            return;
        }
        self.forget_delay(&key);
        self.due.insert(key.clone(), at);
        self.delayed.insert((at, key));
    }

    fn forget_delay(&mut self, key: &Key) {
        if let Some(due) = self.due.remove(key) {
            self.delayed.remove(&(due, key.clone()));
        }
    }

    fn ripen(&mut self, now: Instant) {
        while self.delayed.first().is_some_and(|(due, _)| *due <= now)
            && let Some((_, key)) = self.delayed.pop_first()
        {
            self.due.remove(&key);
            self.add(key, Lane::Change);
        }
    }

    /// How long the first key of a lane has waited.
    fn age(&self, lane: Lane) -> Duration {
        let waits = |key| self.waiting.get(key).filter(|waiting| waiting.lane == lane);
        let first = self.lanes[lane as usize].iter().find_map(waits);
        first.map_or(Duration::ZERO, |waiting| waiting.since.elapsed())
    }

    /// The next key, where no more than `limit` are to be under way; new namespaces have a few workers
    /// beside, and while they wait nothing else is begun.
    fn take(&mut self, limit: usize) -> Option<Key> {
        let running = |lane| self.running.values().filter(|running| running.lane == lane).count();
        let (new, status) = (running(Lane::NewNamespace), running(Lane::Status));
        let bulk = self.running.len() - new;
        let own = NEW_NAMESPACE_LANE.min(limit).max(limit.saturating_sub(bulk));
        let open = match self.lanes[Lane::NewNamespace as usize].is_empty() {
            false if new < own => &[Lane::NewNamespace][..],
            true if bulk < limit && status > 0 => &[Lane::Change, Lane::Sweep],
            true if bulk < limit && limit > 1 && self.age(Lane::Status) > STATUS_WAITS => &[Lane::Status],
            true if bulk < limit => &[Lane::Change, Lane::Status, Lane::Sweep],
            _ => &[],
        };
        for &lane in open {
            let keys = &mut self.lanes[lane as usize];
            while let Some(key) = keys.pop_front() {
                if let Some(Waiting { since, .. }) =
                    self.waiting.get(&key).filter(|it| it.lane == lane).copied()
                {
                    self.waiting.remove(&key);
                    self.running.insert(key.clone(), Running { again: None, lane, since });
                    return Some(key);
                }
            }
            keys.shrink_to(ROOM_KEPT);
        }
        None
    }
}

/// At most 200 ms, doubling to 5 minutes, and any part of it by the key's hash (full jitter), so that many
/// that failed together do not come back together; but not at once.
fn backoff(key: &Key, failures: u32) -> Duration {
    let most = FIRST_BACKOFF.saturating_mul(2 << failures.saturating_sub(1).min(12)).min(LONGEST_BACKOFF);
    let mut hasher = DefaultHasher::new();
    (key, failures).hash(&mut hasher);
    most.mul_f64((hasher.finish() % 1000) as f64 / 1000.0).max(LEAST_BACKOFF)
}

#[cfg(test)]
mod tests;
