//! The leadership check, which precedes every write.

use std::{sync::Arc, time::Duration};

/// Timeout of one write: less than the time between giving up leadership and the end of the lease.
pub(crate) const WRITE_TIMEOUT: Duration = Duration::from_secs(4);

/// Leadership that expires by itself: a process that was paused wakes up without leadership.
pub(crate) trait IsLeader: Send + Sync {
    /// Whether this process is the leader at this moment.
    fn is_leader(&self) -> bool;
}

/// The leadership of this process, shared by its writers.
pub(crate) type LeaderCheck = Arc<dyn IsLeader>;
