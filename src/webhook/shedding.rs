//! How many requests may be under way. One more is turned away at once: a queue would only make the API
//! server's patience run out for all of them.

use std::sync::Arc;

use tokio::{
    runtime::Handle,
    sync::{OwnedSemaphorePermit, Semaphore},
};

use super::budget::Budget;
use crate::admit::decode::BODY_LIMIT;

/// Bodies beyond this many bytes share a smaller number of places, so that memory stays bounded.
const LARGE: u64 = 256 << 10;
/// Bytes of large bodies that may be under way at once.
const LARGE_BYTES: usize = 4 * BODY_LIMIT;

/// How many judgements that may take many times the memory of their review are made at once: each up to some
/// 50 MiB.
const HEAVY: usize = 2;

/// How many requests may be under way.
#[derive(Clone, Debug)]
pub struct Shedding {
    places: Arc<Semaphore>,
    large: Arc<Semaphore>,
    heavy: Arc<Semaphore>,
    /// What reviews may ask of the API server.
    pub(super) questions: Budget,
}

/// A place taken; given back when dropped.
pub(super) struct Place {
    _place: OwnedSemaphorePermit,
    _large: Option<OwnedSemaphorePermit>,
}

impl Shedding {
    /// At most this many at once.
    pub fn new(most: usize) -> Self {
        let of = |permits| Arc::new(Semaphore::new(permits));
        Self { places: of(most), large: of(LARGE_BYTES), heavy: of(HEAVY), questions: Budget::default() }
    }

    /// The turns of judgements that may take much memory.
    pub fn heavy(&self) -> Arc<Semaphore> {
        self.heavy.clone()
    }

    /// Waits for a turn, which holds up the thread: for threads of their own only. A turn ends when dropped;
    /// each is short, since judging has a budget.
    pub(super) fn turn(&self) -> Option<OwnedSemaphorePermit> {
        Handle::current().block_on(self.heavy().acquire_owned()).ok()
    }

    /// A place for a body of this length (unknown: the largest), or `None` where there is none.
    pub(super) fn take(&self, length: Option<u64>) -> Option<Place> {
        let length = length.unwrap_or(BODY_LIMIT as u64);
        let place = self.places.clone().try_acquire_owned().ok()?;
        let large = match length > LARGE {
            true => {
                let bytes = u32::try_from(length).unwrap_or(u32::MAX).min(BODY_LIMIT as u32);
                Some(self.large.clone().try_acquire_many_owned(bytes).ok()?)
            }
            false => None,
        };
        Some(Place { _place: place, _large: large })
    }
}
