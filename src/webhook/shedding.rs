//! Limits the requests in flight. One more is refused at once: a queue would only make all of them too late
//! for the API server.

use std::sync::Arc;

use tokio::{
    runtime::Handle,
    sync::{OwnedSemaphorePermit, Semaphore},
};

use crate::{
    access::Budget,
    admit::decode::{BODY_LIMIT, HEAD_LIMIT},
};

/// Bytes of bodies beyond [`HEAD_LIMIT`] that may be in flight at once, so that memory stays bounded.
const LARGE_BYTES: usize = 2 * BODY_LIMIT;

/// How many judgements that take many times the memory of their review run at once: each up to some 50 MiB.
const HEAVY: usize = 2;

/// Limits the requests in flight. Clones share the limits.
#[derive(Clone, Debug)]
pub struct Shedding {
    places: Arc<Semaphore>,
    large: Arc<Semaphore>,
    heavy: Arc<Semaphore>,
    /// The budget for questions to the API server.
    pub(super) questions: Budget,
}

/// A permit for one request, given back when dropped.
pub(super) struct Permit {
    /// How many bytes of the body may be kept: all, or the first [`HEAD_LIMIT`].
    pub(super) room: usize,
    _place: OwnedSemaphorePermit,
    _large: Option<OwnedSemaphorePermit>,
}

impl Shedding {
    /// Allows at most this many requests at once.
    pub fn new(most: usize) -> Self {
        let of = |permits| Arc::new(Semaphore::new(permits));
        Self { places: of(most), large: of(LARGE_BYTES), heavy: of(HEAVY), questions: Budget::default() }
    }

    /// The permits for judgements that may take much memory.
    pub fn heavy(&self) -> Arc<Semaphore> {
        self.heavy.clone()
    }

    /// Waits for one of those permits, and blocks the thread: only for threads of their own. Each judgement
    /// is short, since it has a budget.
    pub(super) fn turn(&self) -> Option<OwnedSemaphorePermit> {
        Handle::current().block_on(self.heavy().acquire_owned()).ok()
    }

    /// A permit for a body of this length (unknown: the largest), or `None` where none is free.
    pub(super) fn take(&self, length: Option<u64>) -> Option<Permit> {
        let place = self.places.clone().try_acquire_owned().ok()?;
        let length = length.map_or(BODY_LIMIT, |length| usize::try_from(length).unwrap_or(usize::MAX));
        let large = match u32::try_from(length) {
            _ if length <= HEAD_LIMIT => None,
            Ok(bytes) if length <= BODY_LIMIT => self.large.clone().try_acquire_many_owned(bytes).ok(),
            _ => None,
        };
        let is_kept = length <= HEAD_LIMIT || large.is_some();
        let room = if is_kept { BODY_LIMIT } else { HEAD_LIMIT };
        Some(Permit { room, _place: place, _large: large })
    }
}
