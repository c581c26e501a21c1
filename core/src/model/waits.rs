//! What each restart waits for, and since when, as last decided. Memory only: a process that forgets it looks
//! again, and waits a little longer at most.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};

/// What each due restart waits for: of a workload, or of the pods that a monitor finds itself.
#[derive(Debug)]
pub struct Waits<K>(BTreeMap<K, Waiting>);

impl<K> Default for Waits<K> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

/// What one restart waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Waiting {
    /// One word from the list in [`crate::plan::restart::WaitReason`].
    pub reason: &'static str,
    /// Since when it has been this.
    pub since: Timestamp,
    /// When this was last found so.
    pub seen: Timestamp,
}

impl<K: Clone + Ord> Waits<K> {
    /// A wait that nobody has confirmed for so long counts for nothing: whatever keeps its workload from
    /// being looked at must not keep others waiting.
    const STALE: SignedDuration = SignedDuration::from_mins(3);

    /// Notes what a restart waits for now.
    pub fn note(&mut self, key: &K, reason: &'static str, now: Timestamp) {
        let waiting = self.0.entry(key.clone()).or_insert(Waiting { reason, since: now, seen: now });
        if waiting.reason != reason {
            *waiting = Waiting { reason, since: now, seen: now };
        }
        waiting.seen = now;
    }

    /// It does not wait any more; what it did wait for.
    pub fn end(&mut self, key: &K) -> Option<Waiting> {
        self.0.remove(key)
    }

    /// Somebody else decides now.
    pub fn clear(&mut self) {
        self.0.clear();
    }

    /// Whether it waits for anything.
    pub fn is_waiting(&self, key: &K) -> bool {
        self.0.contains_key(key)
    }

    /// Since when this restart has waited for just this.
    pub fn since(&self, key: &K, reason: &str) -> Option<Timestamp> {
        self.0.get(key).filter(|waiting| waiting.reason == reason).map(|waiting| waiting.since)
    }

    /// All that wait, in order.
    pub fn all(&self) -> impl Iterator<Item = (&K, &Waiting)> {
        self.0.iter()
    }

    /// Those that wait for this, as found not long ago.
    pub fn for_reason(&self, reason: &str, now: Timestamp) -> impl Iterator<Item = (&K, &Waiting)> {
        let is_of_now = move |waiting: &Waiting| now.duration_since(waiting.seen) < Self::STALE;
        self.0.iter().filter(move |(_, waiting)| waiting.reason == reason && is_of_now(waiting))
    }
}
