//! Permits for the connections of a listener. With [`Limits::makes_room`], a new connection at the limit
//! takes the permit of the oldest idle connection or, if none is idle, of the oldest connection whose request
//! header is incomplete. Idle and incomplete connections cannot keep other clients out.

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

/// The connection permits of one listener, and the connections that have a permit.
pub(super) struct ConnectionPermits {
    semaphore: Arc<Semaphore>,
    by_peer: OpenByPeer,
    limits: Limits,
    connections: Mutex<OpenConnections>,
}

/// The connections that have a permit, by number.
#[derive(Default)]
struct OpenConnections {
    next: u64,
    /// The open connections in order of age: the first is the oldest.
    all: BTreeMap<u64, OpenConnection>,
}

struct OpenConnection {
    phase: Phase,
    leave: CancellationToken,
    held: Held,
}

/// The permit and the per-address count that one connection occupies.
struct Held {
    permit: OwnedSemaphorePermit,
    of_peer: OpenOfPeer,
}

/// The permit of one connection, until it is dropped.
pub(super) struct ConnectionPermit {
    all: Arc<ConnectionPermits>,
    number: u64,
    /// The phase of the connection: idle, receiving or serving.
    pub(super) phase: Phase,
    /// Cancelled when a new connection takes over the permit: the connection must end.
    pub(super) leave: CancellationToken,
}

impl ConnectionPermits {
    pub(super) fn new(limits: Limits) -> Self {
        let semaphore = Arc::new(Semaphore::new(limits.max_connections.min(Semaphore::MAX_PERMITS)));
        Self { semaphore, by_peer: OpenByPeer::default(), limits, connections: Mutex::default() }
    }

    /// Returns a permit for a connection of this address; `None` if no permit is free and no connection can
    /// make room.
    pub(super) fn take(self: &Arc<Self>, peer: IpAddr) -> Option<ConnectionPermit> {
        let held = match self.by_peer.take(peer, self.limits.max_connections_a_peer) {
            Some(of_peer) => {
                let free = self.semaphore.clone().try_acquire_owned().ok();
                let permit = free.or_else(|| self.given_up(|_| true).map(|held| held.permit))?;
                Held { permit, of_peer }
            }
            None => self.given_up(|one| one.held.of_peer.is_of(peer))?,
        };
        let (phase, leave) = (Phase::default(), CancellationToken::new());
        let mut connections = self.connections.lock().unwrap_or_else(PoisonError::into_inner);
        let number = connections.next;
        connections.next += 1;
        connections.all.insert(number, OpenConnection { phase: phase.clone(), leave: leave.clone(), held });
        Some(ConnectionPermit { all: self.clone(), number, phase, leave })
    }

    /// Ends a connection that `may_leave` accepts and returns its permit: the oldest idle connection or, if
    /// no connection is idle, the oldest connection whose request header is incomplete.
    fn given_up(&self, may_leave: impl Fn(&OpenConnection) -> bool) -> Option<Held> {
        if !self.limits.makes_room {
            return None;
        }
        let mut connections = self.connections.lock().unwrap_or_else(PoisonError::into_inner);
        let oldest = |is_it: fn(&Phase) -> bool| {
            let found = connections.all.iter().find(|(_, one)| is_it(&one.phase) && may_leave(one));
            found.map(|(number, _)| *number)
        };
        let number = oldest(Phase::is_idle).or_else(|| oldest(Phase::is_receiving))?;
        let OpenConnection { leave, held, .. } = connections.all.remove(&number)?;
        leave.cancel();
        Some(held)
    }
}

impl Drop for ConnectionPermit {
    fn drop(&mut self) {
        let left =
            self.all.connections.lock().unwrap_or_else(PoisonError::into_inner).all.remove(&self.number);
        drop(left);
    }
}
