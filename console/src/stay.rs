//! The stay of one request: the permits that the request holds until its answer is complete, and the
//! deadline.

use std::{panic::AssertUnwindSafe, sync::Arc, time::Duration};

use futures::FutureExt as _;
use http::StatusCode;
use tokio::{
    sync::OwnedSemaphorePermit,
    time::{Instant, timeout_at},
};

use super::problem::Problem;

/// The stay of one request. Dropping the last clone releases the permits.
#[derive(Clone)]
pub(super) struct Stay(Arc<TimedPermits>);

/// Semaphore permits, and the time limit of the request that holds them.
struct TimedPermits {
    limit: Duration,
    until: Instant,
    _permits: Vec<OwnedSemaphorePermit>,
}

impl Stay {
    /// A stay that begins now, and lasts at most `limit`.
    pub(super) fn new(permits: Vec<OwnedSemaphorePermit>, limit: Duration) -> Self {
        Self(Arc::new(TimedPermits { limit, until: Instant::now() + limit, _permits: permits }))
    }

    /// Runs a part of the answer.
    ///
    /// # Errors
    /// The part took too long, or panicked.
    pub(super) async fn within<T>(&self, part: impl Future<Output = T>) -> Result<T, Problem> {
        let done = AssertUnwindSafe(part).catch_unwind();
        match timeout_at(self.0.until, done).await {
            Ok(Ok(done)) => Ok(done),
            Ok(Err(_)) => {
                let message = "internal error of the console; see its log for details";
                Err(Problem::new(StatusCode::INTERNAL_SERVER_ERROR, message))
            }
            Err(_) => {
                let message = format!("there was no answer within {} s", self.0.limit.as_secs());
                Err(Problem::new(StatusCode::GATEWAY_TIMEOUT, message))
            }
        }
    }
}
