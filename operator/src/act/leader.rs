//! The leadership check, which precedes every write.

use std::sync::Arc;

/// Leadership that expires by itself: a process that was paused wakes up without leadership.
pub(crate) trait IsLeader: Send + Sync {
    /// Whether this process is the leader at this moment.
    fn is_leader(&self) -> bool;
}

/// The leadership of this process, shared by its writers.
pub(crate) type LeaderCheck = Arc<dyn IsLeader>;
