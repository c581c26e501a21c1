//! The places of a listener's connections, and who leaves when all are taken: a connection on which nothing is asked, or else one
//! whose request is not complete, where the listener wants that, so that neither keeps anybody out.

use std::{
    collections::BTreeMap,
    net::IpAddr,
    sync::{Arc, Mutex, PoisonError},
};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;

use super::{
    limits::Limits,
    peers::{OpenByPeer, OpenOfPeer},
    slow_peer::Phase,
};

/// The places of one listener.
pub(super) struct Places {
    slots: Arc<Semaphore>,
    open: OpenByPeer,
    limits: Limits,
    taken: Mutex<Taken>,
}

#[derive(Default)]
struct Taken {
    next: u64,
    /// By number, so that the first is the oldest.
    all: BTreeMap<u64, Sitting>,
}

struct Sitting {
    phase: Phase,
    leave: CancellationToken,
    held: Held,
}

/// What one connection counts for.
struct Held {
    slot: OwnedSemaphorePermit,
    of_peer: OpenOfPeer,
}

/// The place of one connection, until it is dropped.
pub(super) struct Place {
    all: Arc<Places>,
    number: u64,
    /// What the connection does.
    pub(super) phase: Phase,
    /// When it is to end, since another one has its place.
    pub(super) leave: CancellationToken,
}

impl Places {
    pub(super) fn new(limits: Limits) -> Self {
        let slots = Arc::new(Semaphore::new(limits.max_connections.min(Semaphore::MAX_PERMITS)));
        Self { slots, open: OpenByPeer::default(), limits, taken: Mutex::default() }
    }

    /// A place for a connection of this address; `None`: there is none, and nobody leaves.
    pub(super) fn take(self: &Arc<Self>, peer: IpAddr) -> Option<Place> {
        let held = match self.open.take(peer, self.limits.max_connections_a_peer) {
            Some(of_peer) => {
                let free = self.slots.clone().try_acquire_owned().ok();
                let slot = free.or_else(|| self.given_up(|_| true).map(|held| held.slot))?;
                Held { slot, of_peer }
            }
            None => self.given_up(|sitting| sitting.held.of_peer.is_of(peer))?,
        };
        let (phase, leave) = (Phase::default(), CancellationToken::new());
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let number = taken.next;
        taken.next += 1;
        taken.all.insert(number, Sitting { phase: phase.clone(), leave: leave.clone(), held });
        Some(Place { all: self.clone(), number, phase, leave })
    }

    /// What the oldest of these connections counts for, of those on which nothing is asked, or else of those whose request is not
    /// complete; it ends.
    fn given_up(&self, may_leave: impl Fn(&Sitting) -> bool) -> Option<Held> {
        if !self.limits.makes_room {
            return None;
        }
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let oldest = |is_it: fn(&Phase) -> bool| {
            let found = taken.all.iter().find(|(_, sitting)| is_it(&sitting.phase) && may_leave(sitting));
            found.map(|(number, _)| *number)
        };
        let number = oldest(Phase::is_idle).or_else(|| oldest(Phase::is_receiving))?;
        let Sitting { leave, held, .. } = taken.all.remove(&number)?;
        leave.cancel();
        Some(held)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let left = self.all.taken.lock().unwrap_or_else(PoisonError::into_inner).all.remove(&self.number);
        drop(left);
    }
}
