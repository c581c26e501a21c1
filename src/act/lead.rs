//! May we write? Asked immediately before every write.

use std::{sync::Arc, time::Duration};

/// How long one write may take; shorter than the time between giving up leadership and the lease's end.
pub const WRITE_TIMEOUT: Duration = Duration::from_secs(4);

/// Leadership that expires by itself: a paused process wakes without it.
pub trait Leads: Send + Sync {
    /// Whether we lead at this moment.
    fn leads(&self) -> bool;
}

/// Shared leadership.
pub type Lead = Arc<dyn Leads>;
