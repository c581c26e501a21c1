//! The annotation `copyrator.dev/restart-now` on a monitor: restarts skip the window and the minimum
//! interval, once.

use jiff::Timestamp;

use crate::{model::World, names::Declarer};

/// Whether a workload may skip the window and the interval: the content already existed when the annotation
/// was set, and the workload has not restarted since. So the annotation works once, without any record. All
/// times are the API server's, in whole seconds.
pub(super) fn is_nudged(
    world: &World,
    monitor: &Declarer,
    changed_at: Timestamp,
    last_restart: Option<Timestamp>,
) -> bool {
    world.restart_now(monitor).is_some_and(|said| {
        changed_at.as_second() <= said.as_second()
            && last_restart.is_none_or(|last| last.as_second() < said.as_second())
    })
}
