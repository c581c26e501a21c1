//! The queue of keys. A key waits at most once, runs at most once at a time, and is queued again if its
//! handler requests that. New namespaces come before changes, changes before the sweep. In each lane tenants
//! have turns ([`lines`]), and no tenant occupies all workers.

mod lane;
mod lines;

use std::{
    collections::{BTreeMap, BTreeSet},
    hash::{DefaultHasher, Hash, Hasher},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::{sync::Notify, time::Instant};

use self::{lane::LANES, lines::Lines};
pub(crate) use self::{lane::Lane, lines::Tenant};
use crate::{
    access::{Budget, Rate},
    connect::Throttle,
    plan::Key,
};

/// Statuses come after changes until a status has waited this long.
const STATUS_WAITS: Duration = Duration::from_secs(1);

/// When a key is handled again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Again {
    /// Handle the key again only when something changes.
    OnChange,
    /// Handle the key again after this time at the latest.
    After(Duration),
    /// The key failed: handle the key again after a backoff that doubles with each failure, with jitter, and
    /// not before the given time.
    Backoff(Option<Duration>),
    /// The key was refused: handle the key again after [`REFUSED_AGAIN`].
    Refused,
    /// Nothing was decided: the key needs a place of this lane, and waits in this lane.
    In(Lane),
}

impl Again {
    /// Shortens the wait to `most`, unless the key failed or waits in a lane.
    pub(super) fn within(self, most: Duration) -> Self {
        match self {
            Self::OnChange => Self::After(most),
            Self::After(wait) => Self::After(wait.min(most)),
            other @ (Self::Backoff(_) | Self::Refused | Self::In(_)) => other,
        }
    }
}

const LEAST_BACKOFF: Duration = Duration::from_millis(20);
const FIRST_BACKOFF: Duration = Duration::from_millis(100);
const LONGEST_BACKOFF: Duration = Duration::from_secs(300);
/// Wait after a refusal.
const REFUSED_AGAIN: Duration = Duration::from_secs(300);
/// Number of workers for new namespaces, in addition to the throttle's limit.
pub(crate) const NEW_NAMESPACE_LANE: usize = 8;

#[derive(Default)]
struct Inner {
    open: bool,
    lanes: [Lines; LANES],
    /// Waiting and running keys are in trees: a hash table would keep its memory after a sweep of everything.
    waiting: BTreeMap<Key, Waiting>,
    running: BTreeMap<Key, Running>,
    /// When each delayed key is due, and which tenant pays for the key. `delayed` has the keys of `due`, by
    /// time.
    due: BTreeMap<Key, (Instant, Tenant)>,
    delayed: BTreeSet<(Instant, Key)>,
    failures: BTreeMap<Key, u32>,
    /// Number of times that a key has entered a line so far.
    entered: u64,
    /// Whether the last key given to a worker had waited for a scarce place.
    was_scarce: bool,
}

/// Lane and line in which a key waits, and since when.
struct Waiting {
    lane: Lane,
    tenant: Tenant,
    /// The key's number in the line of the tenant.
    number: u64,
    since: Instant,
}

/// A key that is being handled.
struct Running {
    /// Where the key waited.
    waited: Waiting,
    begun: Instant,
    /// Lane and tenant with which the key waits again, if it was requested meanwhile.
    again: Option<(Lane, Tenant)>,
}

/// The budget of one tenant for expressions, in seconds of a processor: enough for large templates at once,
/// and permanently a quarter of a processor.
const EXPRESSIONS: Rate = Rate { at_once: 60.0, a_second: 0.25 };

/// The queue of keys: each key waits at most once, and runs at most once at a time.
pub(crate) struct Queue {
    inner: Mutex<Inner>,
    wake: Notify,
    throttle: Arc<Throttle>,
    /// The budgets of tenants for expressions. While a tenant's budget is overdrawn, the tenant's line in
    /// [`Lane::OverBudget`] waits.
    expressions: Budget,
}

impl Default for Queue {
    fn default() -> Self {
        Self::new(Arc::default())
    }
}

impl std::fmt::Debug for Queue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Queue{:?}", self.depth())
    }
}

impl Queue {
    /// Creates a queue that runs as many keys at once as the throttle allows.
    pub(crate) fn new(throttle: Arc<Throttle>) -> Self {
        let expressions = Budget::of_each(EXPRESSIONS);
        Self { inner: Mutex::default(), wake: Notify::new(), throttle, expressions }
    }

    /// Accepts keys from now on.
    pub(crate) fn open(&self) {
        self.lock().open = true;
    }

    /// Accepts no more keys, and forgets waiting and delayed keys: the next leader plans everything again.
    pub(crate) fn close(&self) {
        let mut inner = self.lock();
        let running = std::mem::take(&mut inner.running);
        *inner = Inner { running, ..Inner::default() };
    }

    /// Queues a key on its own tenant's account.
    pub(crate) fn add(&self, key: Key, lane: Lane) {
        let tenant = key.tenant().cloned();
        self.add_for(tenant, key, lane);
    }

    /// Queues a key on the account of the tenant who causes it. A rendering is always on its own tenant's
    /// account.
    pub(crate) fn add_for(&self, tenant: Tenant, key: Key, lane: Lane) {
        if self.lock().add(key, lane, tenant) {
            self.wake.notify_one();
        }
    }

    /// Queues all of these keys: authorities come before the keys that wait for them.
    pub(crate) fn sweep(&self, keys: impl IntoIterator<Item = Key>) {
        for key in keys {
            let lane = match key {
                Key::Rule(_) | Key::Monitor(_) => Lane::Change,
                _ => Lane::Sweep,
            };
            self.add(key, lane);
        }
    }

    /// Queues a key after `delay`, unless it is queued before.
    pub(crate) fn add_later(&self, key: Key, delay: Duration) {
        let tenant = key.tenant().cloned();
        self.lock().add_later(key, Instant::now() + delay, tenant);
        self.wake.notify_one();
    }

    /// Queues a key after `delay`, unless it waits or is due already.
    pub(crate) fn add_by(&self, key: Key, delay: Duration) {
        let mut inner = self.lock();
        if !inner.waiting.contains_key(&key) && !inner.due.contains_key(&key) {
            let tenant = key.tenant().cloned();
            inner.add_later(key, Instant::now() + delay, tenant);
            drop(inner);
            self.wake.notify_one();
        }
    }

    /// Whether the queue accepts keys, as it does while we lead.
    pub(crate) fn is_open(&self) -> bool {
        self.lock().open
    }

    /// Waits for the next key, and returns it.
    pub(crate) async fn next(&self) -> Key {
        loop {
            let woken = self.wake.notified();
            let due = {
                let mut inner = self.lock();
                inner.ripen(Instant::now());
                let pause = self.throttle.pause();
                if pause.is_none()
                    && let Some(key) = inner.take(self.throttle.limit(), &self.expressions)
                {
                    // A different worker has to watch waiting and delayed keys: this worker is busy from this
                    // line on.
                    if !inner.waiting.is_empty() || !inner.delayed.is_empty() {
                        self.wake.notify_one();
                    }
                    return key;
                }
                let due = inner.delayed.first().map(|(due, _)| *due);
                pause.or_else(|| due.into_iter().chain(inner.paid_back(&self.expressions)).min())
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

    /// Notes that a key was handled, and when to handle it again.
    pub(crate) fn done(&self, key: &Key, again: Again) {
        let mut inner = self.lock();
        let Some(Running { waited, begun, again: asked }) = inner.running.remove(key) else { return };
        inner.lanes[waited.lane as usize].charge(&waited.tenant, begun.elapsed());
        if let Again::In(lane) = again {
            let number = inner.number();
            let lane = asked.map_or(lane, |(asked, _)| lane.min(asked));
            inner.put_back(key.clone(), Waiting { lane, number, ..waited });
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
            Again::OnChange | Again::In(_) => None,
            Again::After(delay) => Some(delay),
            Again::Backoff(least) => Some(backoff(key, failures).max(least.unwrap_or_default())),
            Again::Refused => Some(REFUSED_AGAIN),
        };
        match (asked, delay) {
            // A change that arrived meanwhile is handled at once, unless the key has failed.
            (Some((lane, tenant)), delay) if !matches!(again, Again::Backoff(_)) || delay.is_none() => {
                inner.add(key.clone(), lane, tenant);
            }
            (_, Some(delay)) => inner.add_later(key.clone(), Instant::now() + delay, waited.tenant),
            (_, None) => {}
        }
        drop(inner);
        self.wake.notify_one();
    }

    /// Whether no new namespace and no change waits, and the throttle does not pause requests.
    pub(crate) fn is_calm(&self) -> bool {
        let (depth, _) = self.depth();
        depth[Lane::NewNamespace as usize] + depth[Lane::Change as usize] == 0
            && self.throttle.pause().is_none()
    }

    /// Whether a key waits its turn or is being handled; a delayed key does neither.
    pub(crate) fn is_at(&self, key: &Key) -> bool {
        let inner = self.lock();
        inner.waiting.contains_key(key) || inner.running.contains_key(key)
    }

    /// Returns how many keys wait, by lane, and how many are being handled.
    pub(crate) fn depth(&self) -> ([usize; LANES], usize) {
        let inner = self.lock();
        (std::array::from_fn(|lane| inner.lanes[lane].len()), inner.running.len())
    }

    /// Returns how long the first key of each lane has waited.
    pub(crate) fn ages(&self) -> [Duration; LANES] {
        let inner = self.lock();
        Lane::ALL.map(|(lane, _)| inner.age(lane))
    }

    /// Returns how long ago a running key was queued.
    pub(crate) fn waited(&self, key: &Key) -> Duration {
        self.lock().running.get(key).map_or(Duration::ZERO, |running| running.waited.since.elapsed())
    }

    /// Returns the lane that a running key had waited in.
    pub(crate) fn lane_of(&self, key: &Key) -> Option<Lane> {
        self.lock().running.get(key).map(|running| running.waited.lane)
    }

    /// Whether a tenant's rendering has to wait in [`Lane::OverBudget`]: the tenant's budget is overdrawn, or
    /// other renderings of the tenant wait in that lane.
    pub(crate) fn is_over_budget(&self, tenant: &Arc<str>) -> bool {
        !self.expressions.owed(tenant).0.is_zero()
            || self.lock().lanes[Lane::OverBudget as usize].len_of(&Some(tenant.clone())) > 0
    }

    /// The budgets of tenants for expressions, in seconds of a processor.
    pub(crate) fn expressions(&self) -> &Budget {
        &self.expressions
    }

    /// The throttle, which limits how many keys run at once.
    pub(crate) fn throttle(&self) -> &Throttle {
        &self.throttle
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    fn add(&mut self, key: Key, lane: Lane, tenant: Tenant) -> bool {
        if !self.open {
            return false;
        }
        let lane = match key {
            Key::RuleStatus(_) | Key::MonitorStatus(_) => Lane::Status,
            _ => lane,
        };
        // A rendering waits in the line of its own tenant, which pays for its expressions.
        let tenant = match key {
            Key::Rendering(..) => key.tenant().cloned(),
            _ => tenant,
        };
        if let Some(running) = self.running.get_mut(&key) {
            let sooner = running.again.take().filter(|(other, _)| *other <= lane);
            running.again = Some(sooner.unwrap_or((lane, tenant)));
            return false;
        }
        let mut since = Instant::now();
        if let Some(known) = self.waiting.get(&key) {
            let lines = &self.lanes[lane as usize];
            // A tenant with many keys does not delay a second tenant that requests one of these keys.
            let is_shorter = || lines.len_of(&tenant) < lines.len_of(&known.tenant);
            if known.lane < lane || (known.lane == lane && !is_shorter()) {
                return false;
            }
            since = known.since;
            self.lanes[known.lane as usize].leave(&known.tenant, known.number);
        }
        let number = self.number();
        self.put_back(key, Waiting { lane, tenant, number, since });
        true
    }

    /// Returns the number of the next key that enters a line.
    fn number(&mut self) -> u64 {
        self.entered += 1;
        self.entered
    }

    fn put_back(&mut self, key: Key, waiting: Waiting) {
        if self.open {
            self.forget_delay(&key);
            self.lanes[waiting.lane as usize].enter(&waiting.tenant, waiting.number, key.clone());
            self.waiting.insert(key, waiting);
        }
    }

    fn add_later(&mut self, key: Key, at: Instant, tenant: Tenant) {
        let is_due_before = self.due.get(&key).is_some_and(|(due, _)| *due <= at);
        if !self.open || self.waiting.contains_key(&key) || is_due_before {
            return;
        }
        self.forget_delay(&key);
        self.due.insert(key.clone(), (at, tenant));
        self.delayed.insert((at, key));
    }

    fn forget_delay(&mut self, key: &Key) {
        if let Some((due, _)) = self.due.remove(key) {
            self.delayed.remove(&(due, key.clone()));
        }
    }

    fn ripen(&mut self, now: Instant) {
        while self.delayed.first().is_some_and(|(due, _)| *due <= now)
            && let Some((_, key)) = self.delayed.pop_first()
        {
            let tenant = self.due.remove(&key).and_then(|(_, tenant)| tenant);
            self.add(key, Lane::Change, tenant);
        }
    }

    /// Returns how long the first key of a lane has waited.
    fn age(&self, lane: Lane) -> Duration {
        let first = self.lanes[lane as usize].first().and_then(|key| self.waiting.get(key));
        first.map_or(Duration::ZERO, |waiting| waiting.since.elapsed())
    }

    /// Returns the first time at which the budget of a tenant with waiting renderings is no longer overdrawn.
    fn paid_back(&self, budget: &Budget) -> Option<Instant> {
        let tenants = self.lanes[Lane::OverBudget as usize].tenants().flatten();
        let owed = tenants.map(|tenant| budget.owed(tenant).0).filter(|owed| !owed.is_zero());
        owed.min().map(|owed| Instant::now() + owed)
    }

    /// Returns the next key, if fewer than `limit` keys are under way. New namespaces have a few workers in
    /// addition; while new namespaces wait for a worker, no other key is started.
    fn take(&mut self, limit: usize, budget: &Budget) -> Option<Key> {
        let new = self.running_in(Lane::NewNamespace);
        let bulk = self.running.len() - new;
        let own = NEW_NAMESPACE_LANE.min(limit).max(limit.saturating_sub(bulk));
        let is_late = limit > 1 && self.age(Lane::Status) > STATUS_WAITS;
        for lane in Lane::in_order(self.was_scarce, is_late) {
            let is_new = lane == Lane::NewNamespace;
            let has_room = match is_new {
                true => new < own,
                false => bulk < limit && self.running_in(lane) < lane.places(limit),
            };
            if has_room && let Some(key) = self.take_from(lane, if is_new { own } else { limit }, budget) {
                return Some(key);
            }
            if is_new && !has_room && self.lanes[lane as usize].len() > 0 {
                return None;
            }
        }
        None
    }

    fn running_in(&self, lane: Lane) -> usize {
        self.running.values().filter(|running| running.waited.lane == lane).count()
    }

    /// Removes and returns the next key in a lane whose tenant occupies less than three quarters of the
    /// places. A tenant with many keys therefore always leaves workers to other tenants.
    fn take_from(&mut self, lane: Lane, limit: usize, budget: &Budget) -> Option<Key> {
        let most = |places: usize| (places * 3 / 4).max(1);
        let is_new = |lane: Lane| lane == Lane::NewNamespace;
        let running = &self.running;
        let holds = |tenant: &Tenant, is_such: &dyn Fn(Lane) -> bool| {
            let of_tenant = running.values().filter(|it| it.waited.tenant == *tenant);
            of_tenant.filter(|it| is_such(it.waited.lane)).count()
        };
        let may = |tenant: &Tenant| match tenant {
            None => true,
            Some(name) => {
                holds(tenant, &|other| is_new(other) == is_new(lane)) < most(limit)
                    && holds(tenant, &|other| other == lane) < most(lane.places(limit))
                    && (lane != Lane::OverBudget || budget.owed(name).0.is_zero())
            }
        };
        let key = self.lanes[lane as usize].next(may)?;
        self.was_scarce = lane.is_scarce();
        let waited = self.waiting.remove(&key)?;
        self.running.insert(key.clone(), Running { waited, begun: Instant::now(), again: None });
        Some(key)
    }
}

/// Returns the backoff: at most 200 ms, doubling to 5 minutes. The hash of the key chooses a part of the
/// backoff (full jitter), so that keys that failed together are not tried again together; the result is never
/// shorter than [`LEAST_BACKOFF`].
fn backoff(key: &Key, failures: u32) -> Duration {
    let most = FIRST_BACKOFF.saturating_mul(2 << failures.saturating_sub(1).min(12)).min(LONGEST_BACKOFF);
    let mut hasher = DefaultHasher::new();
    (key, failures).hash(&mut hasher);
    most.mul_f64((hasher.finish() % 1000) as f64 / 1000.0).max(LEAST_BACKOFF)
}

#[cfg(test)]
mod tests;
