//! What a restart that is due waits for, and since when, as last decided.

use jiff::{SignedDuration, Timestamp};

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

impl Waiting {
    /// A wait that nobody has confirmed for so long counts for nothing: whatever keeps its workload from
    /// being looked at must not keep others waiting.
    const STALE: SignedDuration = SignedDuration::from_mins(3);

    /// What is waited for now, after what was waited for before.
    pub fn after(before: Option<Self>, reason: &'static str, now: Timestamp) -> Self {
        let since = before.and_then(|before| before.since_for(reason)).unwrap_or(now);
        Self { reason, since, seen: now }
    }

    /// Since when it has been this, if it is this.
    pub fn since_for(&self, reason: &str) -> Option<Timestamp> {
        (self.reason == reason).then_some(self.since)
    }

    /// Whether it was found so not long ago.
    pub fn is_fresh(&self, now: Timestamp) -> bool {
        now.duration_since(self.seen) < Self::STALE
    }
}
