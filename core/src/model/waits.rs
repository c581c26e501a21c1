//! What a due restart waits for, and since when, as last decided.

use jiff::{SignedDuration, Timestamp};

/// What one restart waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Waiting {
    /// The reason, from [`crate::plan::restart::WaitReason`].
    pub reason: &'static str,
    /// When this reason was first found.
    pub since: Timestamp,
    /// When this reason was last confirmed.
    pub seen: Timestamp,
}

impl Waiting {
    /// A wait that was not confirmed for this long is ignored: whatever keeps us from looking at its workload
    /// must not keep others waiting.
    const STALE: SignedDuration = SignedDuration::from_mins(3);

    /// The wait for this reason, after the one before.
    pub fn after(before: Option<Self>, reason: &'static str, now: Timestamp) -> Self {
        let since = before.and_then(|before| before.since_for(reason)).unwrap_or(now);
        Self { reason, since, seen: now }
    }

    /// Since when the wait has had this reason; `None` where it has another.
    pub fn since_for(&self, reason: &str) -> Option<Timestamp> {
        (self.reason == reason).then_some(self.since)
    }

    /// Whether it was confirmed recently.
    pub fn is_fresh(&self, now: Timestamp) -> bool {
        now.duration_since(self.seen) < Self::STALE
    }
}
