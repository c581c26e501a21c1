//! Limits of requests in flight. The webhook refuses further requests at once: a queue would only delay all
//! requests beyond the API server's timeout. Only a few large requests wait for memory, for a part of their
//! timeout.

use std::{
    collections::HashMap,
    pin::pin,
    sync::{Arc, Mutex, PoisonError, Weak},
};

use futures::FutureExt as _;
use tokio::{
    runtime::Handle,
    sync::{OwnedSemaphorePermit, Semaphore},
    time::{Instant, timeout_at},
};

use crate::{access::Budget, admit::decode::BODY_LIMIT};

/// Maximum bytes of large bodies in flight, to bound memory.
const LARGE_BYTES: usize = 2 * BODY_LIMIT;
/// The limit on large bodies for one namespace: half, so that its writes cannot keep out the writes of all
/// other namespaces.
const LARGE_BYTES_OF_ONE: usize = BODY_LIMIT;

/// Number of concurrent judgements that take many times the memory of their review: each up to some 50 MiB.
const HEAVY: usize = 2;

/// Limits of requests in flight. Clones share the limits.
#[derive(Clone, Debug)]
pub struct Shedding {
    places: Arc<Semaphore>,
    large: Arc<Large>,
    heavy: Arc<Semaphore>,
    /// The budget for questions to the API server.
    pub(super) questions: Budget,
}

/// The permit of one request, released when dropped.
pub(super) struct Permit {
    pub(super) _place: OwnedSemaphorePermit,
    pub(super) _room: Option<Room>,
}

/// The permit for the bytes of a large body, released when dropped.
pub(super) struct Room {
    _bytes: [OwnedSemaphorePermit; 2],
    /// Keeps the share alive: the map has only a weak reference.
    _share: Arc<Share>,
}

/// The permit for a slow judgement, released when dropped.
pub(super) struct Turn {
    _permit: OwnedSemaphorePermit,
    /// Keeps the share alive: the map has only a weak reference.
    _share: Arc<Share>,
}

/// The memory for large bodies, and the shares of namespaces.
#[derive(Debug)]
struct Large {
    all: Share,
    /// Number of concurrent slow judgements for one namespace.
    turns_of_one: usize,
    /// Number of waiting reviews for one namespace.
    waiting_of_one: usize,
    /// The shares in use, by namespace: at most one for each place.
    shares: Mutex<HashMap<Box<str>, Weak<Share>>>,
}

#[derive(Debug)]
struct Share {
    bytes: Arc<Semaphore>,
    /// Permits for slow judgements: for one namespace, a quarter of all places.
    turns: Arc<Semaphore>,
    /// Permits to wait for memory or a turn. A waiting request keeps its place, which small reviews need as
    /// well.
    waiting: Semaphore,
}

impl Share {
    fn new(bytes: usize, turns: usize, waiting: usize) -> Self {
        let of = |permits| Arc::new(Semaphore::new(permits));
        Self { bytes: of(bytes), turns: of(turns), waiting: Semaphore::new(waiting) }
    }
}

impl Large {
    fn share_of(&self, namespace: &str) -> Arc<Share> {
        let mut shares = self.shares.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(share) = shares.get(namespace).and_then(Weak::upgrade) {
            return share;
        }
        shares.retain(|_, share| share.strong_count() > 0);
        let share = Arc::new(Share::new(LARGE_BYTES_OF_ONE, self.turns_of_one, self.waiting_of_one));
        shares.insert(namespace.into(), Arc::downgrade(&share));
        share
    }
}

impl Shedding {
    /// Creates limits that allow at most this many concurrent requests.
    pub fn new(most: usize) -> Self {
        let of = |permits| Arc::new(Semaphore::new(permits));
        let large = Large {
            all: Share::new(LARGE_BYTES, most, most / 2),
            turns_of_one: most.div_ceil(4),
            waiting_of_one: most.div_ceil(8),
            shares: Mutex::default(),
        };
        Self { places: of(most), large: Arc::new(large), heavy: of(HEAVY), questions: Budget::default() }
    }

    /// Returns the permits for judgements that may take much memory.
    pub fn heavy(&self) -> Arc<Semaphore> {
        self.heavy.clone()
    }

    /// Waits for a permit for a judgement that may take much memory. The wait blocks the thread: call this
    /// function only on blocking threads. The wait is short, since each judgement has a budget.
    pub(super) fn turn(&self) -> Option<OwnedSemaphorePermit> {
        Handle::current().block_on(self.heavy().acquire_owned()).ok()
    }

    /// Returns a permit for a slow judgement of a review about this namespace. If the namespace has no permit
    /// left, a few reviews wait until `until`; more reviews would occupy the places of other namespaces.
    pub(super) async fn turn_of(&self, namespace: &str, until: Instant) -> Option<Turn> {
        let share = self.large.share_of(namespace);
        let permit = match share.turns.clone().try_acquire_owned() {
            Ok(permit) => permit,
            Err(_) => {
                let _waits = share.waiting.try_acquire().ok()?;
                timeout_at(until, share.turns.clone().acquire_owned()).await.ok()?.ok()?
            }
        };
        Some(Turn { _permit: permit, _share: share })
    }

    /// Returns a place for a request; `None` if no place is free.
    pub(super) fn place(&self) -> Option<OwnedSemaphorePermit> {
        self.places.clone().try_acquire_owned().ok()
    }

    /// Returns a permit for a body of `bytes` bytes, at most [`BODY_LIMIT`], of a review about this
    /// namespace. If no memory is free, a few reviews wait for memory, in order of arrival.
    pub(super) async fn room(&self, namespace: &str, bytes: usize, until: Instant) -> Option<Room> {
        let bytes = u32::try_from(bytes).ok()?;
        let (all, share) = (&self.large.all, self.large.share_of(namespace));
        // A review joins the queue of all namespaces only after its own namespace has memory for it, so the
        // review does not block reviews of other namespaces.
        let mut taken = pin!(async {
            let of_one = share.bytes.clone().acquire_many_owned(bytes).await.ok()?;
            let of_all = all.bytes.clone().acquire_many_owned(bytes).await.ok()?;
            Some([of_one, of_all])
        });
        let bytes = match taken.as_mut().now_or_never() {
            Some(bytes) => bytes?,
            None => {
                let _waits = (share.waiting.try_acquire().ok()?, all.waiting.try_acquire().ok()?);
                timeout_at(until, taken).await.ok()??
            }
        };
        Some(Room { _bytes: bytes, _share: share.clone() })
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// 150 large templates at once took every place, and another tenant's writes were refused.
    #[tokio::test(start_paused = true)]
    async fn judgements_of_one_namespace_leave_places_to_others() {
        let shedding = Shedding::new(64);
        let until = Instant::now() + Duration::from_secs(1);
        let loud = (0..150).map(|_| shedding.turn_of("loud", until));
        let all = futures::future::join_all(loud);
        let (turns, quiet) = tokio::join!(all, async {
            tokio::task::yield_now().await;
            (Instant::now(), shedding.turn_of("quiet", until).await)
        });
        assert_eq!(turns.iter().flatten().count(), 16, "none of them ends");
        assert!(quiet.1.is_some() && quiet.0 < until);
    }
}
